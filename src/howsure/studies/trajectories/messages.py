"""What the readers of logs share: tokens, calls of tools, and messages that become turns.

A reader makes of each message a `Spoken`, whatever its format calls the parts, and `fill` makes the turns of them.
"""

from __future__ import annotations

import codecs
import gc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
import numpy as np

from howsure.studies.trajectories.partial_json import Loss, mended
from howsure.studies.trajectories.turns import (
    ACTORS,
    GREETING,
    UNREADABLE,
    Actor,
    Array,
    Draft,
    Mark,
    Problem,
    Said,
    Trajectory,
    Turn,
    control_words,
    kind_of,
    reason_without_logprobs,
)

SHOWN_LOSSES = 5
"""Sentences about one file; the rest are counted."""

FORMAT_ERROR, TOOL_ERROR = "format_error", "tool_error"

T = TypeVar("T")


# -- tokens --------------------------------------------------------------------------------------------------------


class Number(msgspec.Struct, frozen=True, gc=False):
    """A token, of which only this is needed."""

    logprob: float


class Spelled(msgspec.Struct, frozen=True, gc=False):
    """A token that is to be shown as well."""

    token: str
    logprob: float


class Token(msgspec.Struct, frozen=True, gc=False):
    """A token that is shown where its spelling is known."""

    logprob: float
    token: str | None = None


_LOGPROB = attrgetter("logprob")
TokenT = TypeVar("TokenT", Number, Spelled, Token)


class Logprobs(msgspec.Struct, Generic[TokenT], frozen=True):
    """In OpenAI's form; where the model refused to answer, the tokens of the refusal.

    Answers of the older completions endpoint, which τ² uses for some models, have their numbers and tokens apart.
    """

    content: list[TokenT] | None = None
    refusal: list[TokenT] | None = None
    token_logprobs: list[float] | None = None
    tokens: list[str] | None = None

    def place_and_tokens(self) -> tuple[str, list[Any] | None]:
        """The name of the field that holds tokens, and these."""
        if self.content or not (self.refusal or self.token_logprobs):
            return ".content", self.content
        if self.refusal:
            return ".refusal", self.refusal
        numbers = self.token_logprobs or []
        if self.tokens is None or len(self.tokens) != len(numbers):
            return ".token_logprobs", [Number(value) for value in numbers]
        return ".token_logprobs", [Spelled(token, value) for token, value in zip(self.tokens, numbers, strict=True)]


class Choice(msgspec.Struct, Generic[TokenT], frozen=True):
    logprobs: Logprobs[TokenT] | list[TokenT] | None = None


class RawData(msgspec.Struct, Generic[TokenT], frozen=True):
    """What the provider answered; older versions of τ² kept the choice alone."""

    logprobs: Logprobs[TokenT] | list[TokenT] | None = None
    choices: list[Choice[TokenT]] | None = None


def logprobs_of(logprobs: Logprobs[Any] | list[Any] | None, raw: RawData[Any] | None) -> tuple[str, list[Any] | None]:
    """Where the log-probabilities of a message are, and these, from the first of its places that has any."""
    first = raw.choices[0] if raw is not None and raw.choices else None
    places = (
        (".logprobs", logprobs),
        (".raw_data.logprobs", raw.logprobs if raw is not None else None),
        (".raw_data.choices[0].logprobs", first.logprobs if first is not None else None),
    )
    for place, held in places:
        if held:
            field, tokens = ("", held) if isinstance(held, list) else held.place_and_tokens()
            if tokens:
                return place + field, tokens
    return "", None


def values_of(tokens: Sequence[Any] | None) -> Array | None:
    """The numbers of tokens, None where there are no tokens."""
    return np.fromiter(map(_LOGPROB, tokens), dtype=np.float64, count=len(tokens)) if tokens else None


def spellings_of(tokens: Sequence[Any] | None) -> list[str] | None:
    """The words of tokens; None where any is unknown: nobody could tell the others' places."""
    if not tokens or isinstance(tokens[0], Number):
        return None
    known = [token.token for token in tokens if token.token is not None]
    return known if len(known) == len(tokens) else None


# -- calls of tools ------------------------------------------------------------------------------------------------


class Function(msgspec.Struct):
    name: str = ""
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


class ToolCall(msgspec.Struct):
    """In τ²'s form, or in OpenAI's with its `function`."""

    name: str | None = None
    arguments: msgspec.Raw = msgspec.Raw(b"{}")
    function: Function | None = None


def calls_of(calls: Iterable[ToolCall | None] | None) -> tuple[str, ...]:
    return tuple(_call(call) for call in calls if call is not None) if calls else ()


def _call(call: ToolCall) -> str:
    """OpenAI writes the arguments as a text that holds JSON."""
    name, arguments = call.name, bytes(call.arguments)
    if name is None and call.function is not None:
        name, arguments = call.function.name, bytes(call.function.arguments)
    try:
        return call_text(name, msgspec.json.decode(arguments))
    except (msgspec.DecodeError, UnicodeDecodeError):  # a number that no computer holds, or bytes that are no text
        return call_text(name, arguments.decode("utf-8", errors="replace"))


def call_text(name: str | None, arguments: Any) -> str:
    """`name {"argument": …}`."""
    shown = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode("utf-8")
    return f"{name or 'tool'} {shown}"


# -- contents ------------------------------------------------------------------------------------------------------


class Part(msgspec.Struct, frozen=True):
    """A piece of a message; images and sounds have no text."""

    text: str | None = None


Content = str | list[Part] | None


def text_of(content: Content) -> str:
    if isinstance(content, list):
        return "\n".join(part.text for part in content if part.text)
    return content or ""


# -- messages and turns --------------------------------------------------------------------------------------------


class Spoken(NamedTuple):
    """One message of any format."""

    role: str
    content: str = ""
    calls: tuple[str, ...] = ()
    logprobs: Array | None = None
    tokens: Sequence[str] | None = None
    place: str = ""
    """Where its log-probabilities stand, or where they would."""
    missing: str | None = None
    """Why it has no log-probabilities, where its reader knows more than can be seen from the message."""
    faults: tuple[str, ...] = ()
    """What is known to have gone wrong here; a tool's error belongs to the turn that called it, the last before it."""
    answers: Sequence[str] = ()
    """Where several tools answer in one message: what they said."""


def is_greeting(role: str, content: str) -> bool:
    return role == "assistant" and GREETING in content and content.strip() == GREETING


def fill(trajectory: Trajectory, messages: Iterable[Spoken | None]) -> list[Draft]:
    """Turns, what else was said, and what went wrong; the drafts of the turns are to be settled.

    None stands for a message that could not be read.
    """
    skipped: Counter[str] = Counter()
    marks: list[Mark] = []
    drafts = []
    for i, message in enumerate(messages):
        if message is None:
            skipped["unreadable"] += 1
            continue
        actor = ACTORS.get(message.role)
        if actor is None:
            skipped[message.role] += 1
            trajectory.said += [Said(message.role, text) for text in (message.content, *message.answers) if text]
        else:
            drafts.append(_take_turn(trajectory, message, actor, i))
        if message.faults and trajectory.turns:
            marks += [Mark(fault, len(trajectory.turns)) for fault in message.faults]
    trajectory.skipped, trajectory.marks = dict(skipped), tuple(marks)
    return drafts


def _take_turn(trajectory: Trajectory, message: Spoken, actor: Actor, index: int) -> Draft:
    turn = Turn(
        number=len(trajectory.turns) + 1,
        actor=actor,
        role=message.role,
        kind=kind_of(message.content, message.calls),
        message_index=index,
        content=message.content,
        calls=message.calls,
        control=control_words(message.content),
    )
    if message.logprobs is None:
        turn.reason = message.missing or reason_without_logprobs(turn, scripted=False)
    trajectory.turns.append(turn)
    trajectory.said.append(Said(message.role, turn.text, turn.number))
    return Draft(turn, message.logprobs, message.tokens, message.place)


def opening_of(trajectory: Trajectory) -> str | None:
    """The first words of the user."""
    return next((turn.content for turn in trajectory.turns if turn.actor == "user" and turn.kind == "text"), None)


# -- files ---------------------------------------------------------------------------------------------------------


def about_file(source: str, reason: str, what: str) -> Problem:
    """A problem with a file as a whole: `what` goes on where its name ends."""
    return Problem(source, reason, f"{source} {what}")


def about_losses(losses: Sequence[Loss], source: str) -> list[Problem]:
    """A sentence for each part that was lost; after the first few one for all others."""
    shown = losses if len(losses) <= SHOWN_LOSSES + 1 else losses[:SHOWN_LOSSES]
    problems = [Problem(source, UNREADABLE, f"{source}: {loss.why}; that part is left out") for loss in shown]
    more = len(losses) - len(shown)
    rest = Problem(source, UNREADABLE, f"{source}: {more:,} more parts cannot be read, and are left out", more)
    return [*problems, rest] if more else problems


def decode_mended(data: bytes, decode: Callable[[bytes], tuple[T, list[Loss]]]) -> tuple[T, list[Loss]]:
    """What `decode` makes of JSON; of that without its NaN, infinities and half characters, if these were all."""
    try:
        return _decoded(data, decode)
    except msgspec.DecodeError as error:
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise msgspec.DecodeError("it is written in UTF-16, and must be saved as UTF-8") from error
        better = mended(data)
        if better is None:
            raise
    decoded, losses = _decoded(better, decode)
    return decoded, [loss._replace(why=_about_numbers(loss.why)) for loss in losses]


def _decoded(data: bytes, decode: Callable[[bytes], T]) -> T:
    try:
        return decode(data)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"byte 0x{error.object[error.start]:02x} is not UTF-8 text") from error


def _about_numbers(why: str) -> str:
    for expected in ("`float`", "`float | null`"):
        why = why.replace(f"Expected {expected}, got `str`", "NaN or Infinity stands where a number should")
    return why


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Millions of small objects without a cycle among them: looking through them for garbage would take most time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
