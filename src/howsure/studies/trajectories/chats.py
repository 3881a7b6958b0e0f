"""Conversations as JSON lines, one a line, in the form of OpenAI's chat completions.

A line has `messages`, and what is known about the conversation beside them; or it is a request with its `response`, as
batch logs have it, whose answer becomes the last turn. A line that cannot be read is a sentence with its number, and
the others are read.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from howsure.errors import InputError
from howsure.studies.trajectories.messages import (
    TOOL_ERROR,
    Content,
    Function,
    Logprobs,
    RawData,
    Spoken,
    Token,
    ToolCall,
    about_file,
    about_losses,
    calls_of,
    decode_mended,
    fill,
    is_greeting,
    logprobs_of,
    no_garbage_collection,
    opening_of,
    spellings_of,
    text_of,
    values_of,
)
from howsure.studies.trajectories.partial_json import Loss, decode_partial, place_of
from howsure.studies.trajectories.turns import SCRIPTED, UNREADABLE, Draft, Loaded, Problem, Trajectory, settle

EXPECTED = "each line must be a JSON object with `messages`, or with the `response` of a model"


class Message(msgspec.Struct):
    role: str
    content: Content = None
    refusal: str | None = None
    tool_calls: list[ToolCall] | None = None
    function_call: Function | None = None
    """The single one that OpenAI had before."""
    logprobs: Logprobs[Token] | list[Token] | None = None
    raw_data: RawData[Token] | None = None
    error: bool | None = None


class Answer(msgspec.Struct):
    """A choice of a response, with its log-probabilities beside the message."""

    message: Message | None = None
    logprobs: Logprobs[Token] | list[Token] | None = None


class Body(msgspec.Struct):
    model: str | None = None
    choices: list[Answer] | None = None


class Response(Body):
    """What the model answered; a batch log has it one level deeper."""

    body: Body | None = None


class Chat(msgspec.Struct):
    """One line."""

    id: str | int | None = None
    custom_id: str | int | None = None
    task_id: str | int | None = None
    trial: int | None = None
    model: str | None = None
    reward: float | None = None
    success: bool | None = None
    messages: list[Message] | None = None
    response: Response | None = None


class _Line(NamedTuple):
    """A line that could be read, its number, what of it was lost, and whether its tokens are to be shown."""

    number: int
    chat: Chat
    lost: Sequence[Loss]
    with_tokens: bool


@no_garbage_collection()
def read_chats(data: bytes, source: str, *, with_tokens: bool = False) -> Loaded:
    """All conversations of one file; whatever is damaged is left out with a sentence, and the rest is read."""
    trajectories: list[Trajectory] = []
    drafts: list[Draft] = []
    losses: list[Loss] = []
    bad: list[Problem] = []
    silent: list[Problem] = []
    for number, text in enumerate(io.BytesIO(data.removeprefix(codecs.BOM_UTF8)), 1):
        if not text.strip():
            continue
        try:
            line = _Line(number, *_decoded(text), with_tokens)
        except InputError as error:
            bad.append(Problem(source, "bad_line", f"{source}, line {number:,}: {error}"))
            continue
        trajectory, turns = _trajectory(line, source)
        trajectories.append(trajectory)
        drafts += turns
        losses += [loss._replace(why=f"line {number:,}: {loss.why}") for loss in line.lost]
        silent += _without_answer(line, source)
    if not trajectories and not bad:
        bad = [about_file(source, "empty", "is empty; delete it, or write it again")]
    elif not trajectories and len(bad) > 1:  # not what it should be, which is worth one sentence only
        bad = [Problem(source, "malformed", f"{bad[0].sentence} (none of its {len(bad):,} lines can be read)")]
    problems = [*bad, *about_losses(losses, source), *silent]
    return Loaded(source, len(data), None, trajectories, problems + settle(drafts, source))


def _decoded(text: bytes) -> tuple[Chat, list[Loss]]:
    try:
        chat, lost = decode_mended(text, lambda data: decode_partial(data, Chat))
    except RecursionError as error:
        raise InputError(f"it is nested too deeply to be a conversation; {EXPECTED}") from error
    except msgspec.DecodeError as error:
        raise InputError(f"{error}; {EXPECTED}") from error
    if chat is None or (chat.messages is None and chat.response is None):
        raise InputError(f"{lost[0].why if lost else 'it holds no conversation'}; {EXPECTED}")
    return chat, lost


# -- conversations -------------------------------------------------------------------------------------------------


def _trajectory(line: _Line, source: str) -> tuple[Trajectory, list[Draft]]:
    """Without a task it is alone with its own, so that no other conversation is taken for a second try at it."""
    chat, response = line.chat, line.chat.response
    agents = (chat.model, response and response.model, response and response.body and response.body.model)
    name = next((str(known) for known in (chat.id, chat.custom_id) if known is not None), f"line {line.number}")
    trajectory = Trajectory(
        source=source,
        index=line.number - 1,
        id=name,
        task_id=str(chat.task_id) if chat.task_id is not None else name,
        trial=chat.trial,
        agent=next((agent for agent in agents if agent), None),
    )
    trajectory.reward, trajectory.reward_missing = _reward(chat)
    drafts = fill(trajectory, _spoken(line))
    trajectory.opening = opening_of(trajectory)
    return trajectory, drafts


def _reward(chat: Chat) -> tuple[float | None, str | None]:
    if chat.reward is not None:
        return chat.reward, None
    return (float(chat.success), None) if chat.success is not None else (None, "no_reward")


def _answer(chat: Chat) -> tuple[str, Answer | None]:
    """The first choice of the response, and where it stands; no place where there is no response."""
    response = chat.response
    if response is None:
        return "", None
    if response.choices:
        return "$.response.choices[0]", response.choices[0]
    choices = response.body.choices if response.body is not None else None
    return ("$.response.body.choices[0]", choices[0]) if choices else ("$.response", None)


def _without_answer(line: _Line, source: str) -> list[Problem]:
    place, answer = _answer(line.chat)
    if not place or (answer is not None and answer.message is not None):
        return []
    sentence = f"{source}, line {line.number:,}: {place} holds no message; the conversation is read without its answer"
    return [Problem(source, "no_answer", sentence)]


def _spoken(line: _Line) -> Iterator[Spoken | None]:
    broken = {loss.path[1] for loss in line.lost if loss.path[0] == "messages" and len(loss.path) > 1}
    for i, message in enumerate(line.chat.messages or ()):
        if message is None:
            yield None
            continue
        within, tokens = logprobs_of(message.logprobs, message.raw_data)
        yield _said(message, tokens, place_of(("messages", i)) + within, line, i in broken)
    place, answer = _answer(line.chat)
    if answer is not None and answer.message is not None:
        message = answer.message
        within, tokens = logprobs_of(answer.logprobs, None)
        if not tokens:
            within, tokens = logprobs_of(message.logprobs, message.raw_data)
            within = f".message{within}"
        yield _said(message, tokens, place + within, line, any(loss.path[0] == "response" for loss in line.lost))


def _said(message: Message, tokens: list[Token] | None, place: str, line: _Line, broken: bool) -> Spoken:
    content = text_of(message.content) or message.refusal or ""
    old = [ToolCall(function=message.function_call)] if message.function_call is not None else []
    scripted = message.raw_data is None and is_greeting(message.role, content)
    return Spoken(
        role=message.role,
        content=content,
        calls=calls_of([*(message.tool_calls or ()), *old]),
        logprobs=values_of(tokens),
        tokens=spellings_of(tokens) if line.with_tokens else None,
        place=f"line {line.number:,}: {place}",
        missing=UNREADABLE if broken else SCRIPTED if scripted else None,
        faults=(TOOL_ERROR,) if message.error else (),
    )
