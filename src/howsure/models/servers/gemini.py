"""Gemini through Google's `google-genai` SDK: the developer API with a key, or Vertex AI.

Conversations are asked at the same time, up to `concurrency` of them, over connections that stay open between calls
(`gemini_client`). Faults that pass are asked again, bounded and counted; a fault that every other call would meet too
raises; anything else fails that one conversation, with the endpoint's words. Thinking is switched off where the model
allows it, since the log-probabilities of an answer say little once it was thought out beforehand.

What a model would not have (no thinking, an answer held to a schema, log-probabilities) it refuses with a 400. It is
then asked for less, one step down at a time; how it wants to be asked is remembered, all but the log-probabilities,
which one request may be refused and the next be given.
"""

from __future__ import annotations

import dataclasses
import math
import re
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from howsure.errors import EvidenceError, InputError
from howsure.evidence import TokenLogprobs, from_gemini
from howsure.models.contract import (
    NOT_ASKED,
    Answer,
    Capability,
    Conversation,
    Counters,
    Message,
    Model,
    as_messages,
)
from howsure.models.servers.client import Fault, RetryPolicy, check_probe, check_settings, together, tokens_used
from howsure.models.servers.endpoint import check, server_words
from howsure.models.servers.forms import FORMS, REFUSED_FORM, check_schema, loosened, shape
from howsure.models.servers.gemini_client import GeminiClient, GeminiEndpoint

MAX_TOP_LOGPROBS = 20
"""Gemini's limit."""

PROBE_TOKENS = 1024
"""Room for the probe's one word, and for what a model that cannot but think thinks before it."""

_SEEDS = range(-(2**31), 2**31)
_FINISHES = {"STOP": "stop", "MAX_TOKENS": "length"}
"""The ends that every back end knows, in their common words; others are Gemini's own."""

_ROLES = {"user": "user", "assistant": "model", "model": "model"}
_SYSTEM_ROLES = ("system", "developer")

_LEAST_BUDGET = 128
"""The least thinking that Gemini 2.5 Pro can be held to, in tokens."""

_LOGPROBS = re.compile(r"log.?prob", re.I)
_THINKING = re.compile(r"thinking|\bbudget\b", re.I)

_WAY_OUT = "take a model and endpoint that give them; Vertex AI gives more"


class GeminiModel(Model):
    """A Gemini model: it generates, with log-probabilities where the endpoint gives them for this model.

    Its tokens are texts without bytes. `timeout_s` bounds one attempt as a whole, `max_answer_bytes` the body of one
    answer. `announce` hears in one sentence of what the model refused and is done without.
    """

    capabilities = frozenset({Capability.GENERATE})
    remote = True

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        concurrency: int = 8,
        max_retries: int = 5,
        timeout_s: float = 120.0,
        backoff_s: float = 0.5,
        max_answer_bytes: int = 64 * 2**20,
        announce: Callable[[str], None] | None = None,
    ) -> None:
        _check_name(model)
        check_settings(
            concurrency=concurrency,
            max_retries=max_retries,
            timeout_s=timeout_s,
            backoff_s=backoff_s,
            max_answer_bytes=max_answer_bytes,
        )
        self.name = f"gemini:{model}"
        self.model = model
        self.counters = Counters()
        self.concurrency = concurrency
        self._endpoint = GeminiEndpoint.find(base_url)
        self.base_url = self._endpoint.shown
        self._announce = announce
        self._habits = Habits(model)
        retry = RetryPolicy(max_retries, backoff_s)
        self._client = GeminiClient(model, self._endpoint, self.counters, retry, timeout_s, max_answer_bytes)
        weakref.finalize(self, self._client.close)

    def __repr__(self) -> str:
        return f"GeminiModel({self.model!r}, base_url={self.base_url!r})"

    @property
    def answers_images(self) -> bool:
        return True

    def fingerprint(self) -> dict[str, Any]:
        endpoint = {"endpoint": self._endpoint.kind, "base_url": self.base_url}
        return {"backend": "gemini", "model": self.model, **endpoint}

    def load(self) -> None:
        """Check that there is an account to ask with; nothing is sent."""
        self._endpoint.account()

    def close(self) -> None:
        """Close every connection; a later call opens anew."""
        self._client.close()

    def check_logprobs(self, top_logprobs: int = 5) -> None:
        """Ask for one word, and raise in one sentence unless the log-probabilities of its tokens come with it."""
        answer = self.generate(["Answer with the word yes."], max_tokens=PROBE_TOKENS, top_logprobs=top_logprobs)[0]
        probe = f"a probe of one word (response_logprobs=true, logprobs={top_logprobs})"
        check_probe(answer, self.name, probe, top_logprobs, _WAY_OUT)

    def generate(
        self,
        conversations: Iterable[Conversation],
        *,
        max_tokens: int = 256,
        temperature: float = 0.0,
        top_logprobs: int | None = 5,
        seed: int = 0,
        answer_schema: Mapping[str, Any] | None = None,
    ) -> list[Answer]:
        """One answer for each conversation, in order, asked together; works inside a running event loop too."""
        asked = [as_messages(conversation) for conversation in conversations]
        for messages in asked:
            check_messages(messages)
        options = _options(max_tokens, temperature, top_logprobs, seed)
        check_schema(answer_schema)
        wishes = [Wish(options, top_logprobs, answer_schema, self._habits) for _ in asked]
        try:
            return self._client.run(self._generate(asked, wishes)) if asked else []
        finally:
            if answer_schema is not None:
                self.answer_form = str(self._habits.form.rung["form"])
            for sentence in self._habits.news():
                if self._announce is not None:
                    self._announce(f"{self.name} {sentence}")

    async def _generate(self, asked: Sequence[Sequence[Message]], wishes: Sequence[Wish]) -> list[Answer]:
        answers: dict[int, Answer] = {}
        todo = iter(range(len(asked)))

        async def work(sdk: Any) -> None:
            for index in todo:
                answers[index] = await self._answer(sdk, asked[index], wishes[index], index)

        async with self._client.open() as sdk:
            await together([work(sdk) for _ in range(min(self.concurrency, len(asked)))])
        return [answers[index] for index in range(len(asked))]

    async def _answer(self, sdk: Any, messages: Sequence[Message], wish: Wish, index: int) -> Answer:
        try:
            system, turns = conversation(messages)
        except InputError as error:  # an image that is no longer what it was, a text that is none
            return Answer(None, failure=str(error))

        async def send() -> Any:
            return await sdk.aio.models.generate_content(model=self.model, contents=turns, config=wish.config(system))

        self.counters.images_run += sum(len(message.images) for message in messages)
        reply = await self._client.ask(send, index, wish.mend)
        if reply.fault is not None:
            self._client.raise_if_hopeless(reply.fault, "generateContent")
            return Answer(None, failure=reply.fault.reason, retries=reply.retries)
        return self._read(reply.body, wish, reply.retries)

    def _read(self, body: Any, wish: Wish, retries: int) -> Answer:
        try:
            reply = msgspec.convert(body, _Reply)
            text = reply.text
            (text or "").encode()
        except (msgspec.ValidationError, UnicodeEncodeError) as error:
            words = self._client.unreadable(body, error)
            return Answer(None, failure=f"unreadable answer: {words}", retries=retries)
        self.counters.tokens_run += tokens_used(reply.usage_metadata, "totalTokenCount")
        finish = self._finish(reply)
        if text is None:
            return Answer(None, failure=self._no_text(reply, finish), finish_reason=finish, retries=retries)
        return self._client.kept(Answer(text, *self._evidence(reply, text, wish), finish, retries=retries))

    def _finish(self, reply: _Reply) -> str | None:
        reason = reply.candidates[0].finish_reason if reply.candidates else None
        return _FINISHES.get(reason) or self._endpoint.tidy(reason) if isinstance(reason, str) else None

    def _no_text(self, reply: _Reply, finish: str | None) -> str:
        feedback = reply.prompt_feedback
        if feedback is not None and feedback.block_reason is not None:
            reason = f"{server_words(feedback.block_reason)} {server_words(feedback.block_reason_message)}"
            return f"the prompt was blocked: {self._endpoint.tidy(reason)}"
        if not reply.candidates:
            return "no text: the answer holds no candidates"
        thoughts = tokens_used(reply.usage_metadata, "thoughtsTokenCount")
        if finish == "length" and thoughts:
            return f"no text: max_tokens was spent on {thoughts} tokens of thinking; give more of them"
        message = self._endpoint.tidy(server_words(reply.candidates[0].finish_message))
        return f"no text: finish_reason={finish}" + (f", {message}" if message else "")

    def _evidence(self, reply: _Reply, text: str, wish: Wish) -> tuple[TokenLogprobs | None, str | None]:
        if wish.top_logprobs is None:
            return None, NOT_ASKED
        if wish.refused is not None:
            return None, f"{self.base_url} refuses to give log-probabilities ({wish.refused}); {_WAY_OUT}"
        logprobs = (reply.candidates or [])[0].logprobs_result
        if logprobs is None or (text and isinstance(logprobs, dict) and not logprobs.get("chosenCandidates")):
            return None, f"{self.base_url} left out the log-probabilities that were asked for; {_WAY_OUT}"
        try:
            evidence = from_gemini(logprobs)
            "".join((*evidence.tokens, *(evidence.top.tokens if evidence.top else ()))).encode()
        except (EvidenceError, UnicodeEncodeError) as error:
            return None, f"{self.base_url} gave broken log-probabilities: {self._endpoint.tidy(str(error))}"
        return (evidence if wish.top_logprobs else dataclasses.replace(evidence, top=None)), None


class _Part(msgspec.Struct):
    text: str | None = None
    thought: Any = None


class _Content(msgspec.Struct):
    parts: list[_Part] | None = None


class _Candidate(msgspec.Struct, rename="camel"):
    content: _Content | None = None
    finish_reason: Any = None
    finish_message: Any = None
    logprobs_result: Any = None


class _Feedback(msgspec.Struct, rename="camel"):
    block_reason: Any = None
    block_reason_message: Any = None


class _Reply(msgspec.Struct, rename="camel"):
    """What is read of an answer; everything else in it may be as it likes."""

    candidates: list[_Candidate] | None = None
    prompt_feedback: _Feedback | None = None
    usage_metadata: Any = None

    @property
    def text(self) -> str | None:
        """What the model said, without what it thought; None where it said nothing at all."""
        content = self.candidates[0].content if self.candidates else None
        parts = (content.parts if content is not None else None) or []
        texts = [part.text for part in parts if part.text is not None and part.thought is not True]
        return "".join(texts) if texts else None


def _check_name(model: str) -> None:
    check(bool(model.strip()), "Gemini needs a model's name: gemini:<model>, such as gemini:gemini-2.5-flash")
    usable = model.isprintable() and not any(mark in model for mark in ("..", "?", "&", "#", "{", "}", " "))
    check(usable, f"{model!r} is no name of a Gemini model; it should look like gemini-2.5-flash")


def _options(max_tokens: int, temperature: float, top_logprobs: int | None, seed: int) -> dict[str, Any]:
    check(max_tokens >= 1, f"max_tokens must be at least 1, not {max_tokens}")
    check(0 <= temperature < math.inf, f"temperature must be a number from 0 on, not {temperature}")
    check(seed in _SEEDS, f"seed must fit into 32 bits for Gemini, as {seed} does not")
    limits = f"0 to {MAX_TOP_LOGPROBS} for Gemini"
    known = top_logprobs is None or 0 <= top_logprobs <= MAX_TOP_LOGPROBS
    check(known, f"top_logprobs must be {limits}, or None, not {top_logprobs}")
    return {"max_output_tokens": max_tokens, "temperature": temperature, "seed": seed}


# -- the request ------------------------------------------------------------------------------------------------------


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

    system, turns = [], []
    for message in messages:
        try:
            message.content.encode()
        except UnicodeEncodeError as error:
            raise InputError(f"a message holds half a surrogate pair, at character {error.start}") from error
        if message.role in _SYSTEM_ROLES:
            system.append(message.content)
            continue
        images = (picture.to_send() for picture in message.images)
        parts = [types.Part.from_bytes(data=content, mime_type=media_type) for media_type, content in images]
        if message.content or not parts:
            parts.append(types.Part(text=message.content))
        turns.append(types.Content(role=_ROLES[message.role], parts=parts))
    return "\n\n".join(system) if system else None, turns


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
