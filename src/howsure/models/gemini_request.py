"""A conversation and what is wanted of its answer, as Gemini's `generateContent` takes them.

What a model would not have (no thinking, an answer held to a schema, log-probabilities) it refuses with a 400. It is
then asked for less, one step down at a time; how it wants to be asked is remembered, all but the log-probabilities,
which one request may be refused and the next be given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from howsure.errors import InputError
from howsure.models.answer_form import FORMS, REFUSED_FORM, loosened, shape
from howsure.models.contract import Message
from howsure.models.images import Picture
from howsure.models.retries import Fault

_ROLES = {"user": "user", "assistant": "model", "model": "model"}
_SYSTEM_ROLES = ("system", "developer")

_LEAST_BUDGET = 128
"""The least thinking that Gemini 2.5 Pro can be held to, in tokens."""

_LOGPROBS = re.compile(r"log.?prob", re.I)
_THINKING = re.compile(r"thinking|\bbudget\b", re.I)


def check_messages(messages: Sequence[Message]) -> None:
    """Raise in one sentence for a conversation that Gemini's API has no form for."""
    for message in messages:
        if message.role not in (*_ROLES, *_SYSTEM_ROLES):
            raise InputError(f"Gemini knows the roles system, user and assistant, not {message.role!r}")
        if message.images and message.role in _SYSTEM_ROLES:
            raise InputError("a system message of Gemini's is text alone; put its images into a user message")
    if all(message.role in _SYSTEM_ROLES for message in messages):
        raise InputError("Gemini answers a user message; a conversation needs one beside its system message")


def conversation(messages: Sequence[Message]) -> tuple[str | None, list[Any]]:
    """The system instruction, and the turns in the SDK's types; raises where an image is no longer what it was."""
    from google.genai import types

    for message in messages:
        _check_unicode(message.content)
    system = [message.content for message in messages if message.role in _SYSTEM_ROLES]
    spoken = [message for message in messages if message.role in _ROLES]
    turns = [types.Content(role=_ROLES[message.role], parts=_parts(message)) for message in spoken]
    return "\n\n".join(system) if system else None, turns


def _parts(message: Message) -> list[Any]:
    from google.genai import types

    parts = [_image_part(picture) for picture in message.images]
    return parts + ([types.Part(text=message.content)] if message.content or not parts else [])


def _image_part(picture: Picture) -> Any:
    from google.genai import types

    media_type, content = picture.to_send()
    return types.Part.from_bytes(data=content, mime_type=media_type)


def _check_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"a message holds half a surrogate pair, at character {error.start}") from error


class Ladder:
    """Ways to ask, the best first; one step down for each that is refused, shared by all requests to one model."""

    def __init__(self, *rungs: Mapping[str, Any]) -> None:
        self.rungs = rungs
        self.at = 0
        self.refusal: str | None = None

    @property
    def rung(self) -> Mapping[str, Any]:
        return self.rungs[self.at]

    def down(self, tried: int, refusal: str) -> bool:
        """Whether there is another way after the one that was tried; requests refused together take one step."""
        if self.at > tried:
            return True
        if self.at + 1 == len(self.rungs):
            return False
        self.at, self.refusal = self.at + 1, refusal
        return True


class Habits:
    """How a model turned out to want to be asked."""

    def __init__(self, model: str) -> None:
        self.thinking = thinking_ladder(model)
        self.form = Ladder(*({"form": form} for form in FORMS))
        self._reported = (0, 0)

    def news(self) -> list[str]:
        """One sentence for each habit that changed since this was last asked."""
        reported, self._reported = self._reported, (self.thinking.at, self.form.at)
        sentences = []
        if self.thinking.at > reported[0]:
            least = ", ".join(f"{name}={value}" for name, value in self.thinking.rung.items())
            instead = f"{least}, and what it thinks counts against max_tokens" if least else "no word on thinking"
            refused = f"refuses thinking_budget=0 ({self.thinking.refusal})"
            sentences.append(f"{refused}; it is asked with {instead}")
        if self.form.at > reported[1]:
            sentences.append(loosened(self.form.rung["form"], self.form.refusal))
        return sentences


def thinking_ladder(model: str) -> Ladder:
    """No thinking, or the least there is: by level from Gemini 3 on, by tokens before; at last not a word about it."""
    generation = re.search(r"\bgemini-(\d+)", model)
    if generation is not None and int(generation[1]) >= 3:
        return Ladder({"thinking_budget": 0}, {"thinking_level": "MINIMAL"}, {"thinking_level": "LOW"}, {})
    return Ladder({"thinking_budget": 0}, {"thinking_budget": _LEAST_BUDGET}, {})


class Wish:
    """What is asked for, and what of it the endpoint would not have."""

    def __init__(
        self,
        options: Mapping[str, Any],
        top_logprobs: int | None,
        schema: Mapping[str, Any] | None,
        habits: Habits,
    ) -> None:
        self.options = options
        self.top_logprobs = top_logprobs
        self.schema = schema
        self.habits = habits
        self.refused: str | None = None
        self._tried = (0, 0)

    def config(self, system: str | None) -> Any:
        """The request's settings in the SDK's types, as the model wants to be asked by now."""
        from google.genai import types

        self._tried = (self.habits.thinking.at, self.habits.form.at)
        thinking = self.habits.thinking.rung
        return types.GenerateContentConfig(
            system_instruction=system,
            thinking_config=types.ThinkingConfig(**thinking) if thinking else None,
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
            should_return_http_response=True,  # the body as it came: the SDK's own reading warns, guesses and drops
            **self.options,
            **self._logprobs(),
            **self._form(self.habits.form.at),
        )

    def _logprobs(self) -> dict[str, Any]:
        if self.top_logprobs is None or self.refused is not None:
            return {}
        return {"response_logprobs": True, **({"logprobs": self.top_logprobs} if self.top_logprobs else {})}

    def _form(self, at: int) -> dict[str, Any]:
        form = FORMS[at]
        if self.schema is None or form == "free":
            return {}
        json = {"response_mime_type": "application/json"}
        if form == "json_object":
            return json
        return {**json, "response_json_schema": dict(self.schema) if form == "json_schema" else shape(self.schema)}

    def mend(self, fault: Fault) -> bool:
        """Whether to ask again otherwise, where the endpoint objects to how it was asked.

        An endpoint that objects to log-probabilities together with a form keeps the former: they are what it is asked
        for.
        """
        if fault.status != 400:
            return False
        thinking, form = self._tried
        if self._form(form) and REFUSED_FORM.search(fault.reason):
            return self._loosen(form, fault.reason)
        if self._logprobs() and _LOGPROBS.search(fault.reason):
            self.refused = fault.reason
            return True
        if self.habits.thinking.rungs[thinking] and _THINKING.search(fault.reason):
            return self.habits.thinking.down(thinking, fault.reason)
        return False

    def _loosen(self, tried: int, refusal: str) -> bool:
        """The next form; one that would ask for the same again is no step."""
        ladder = self.habits.form
        while ladder.down(tried, refusal):
            if self._form(ladder.at) != self._form(tried):
                return True
            tried = ladder.at
        return False
