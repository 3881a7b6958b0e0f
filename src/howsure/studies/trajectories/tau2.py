"""τ²-bench result files, in all the shapes that its versions have written.

One `results.json` with everything; a folder with `results.json` and `simulations/<id>.json`; a list of simulations; one
simulation. Only the fields that are needed are named, so that the bulk of a file, the alternatives of each token, is
passed over without becoming objects. τ² itself is not needed (PyPI's `tau2` is about chemistry).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic

import msgspec

from howsure.studies.trajectories.messages import (
    FORMAT_ERROR,
    TOOL_ERROR,
    Content,
    Logprobs,
    Number,
    RawData,
    Spelled,
    Spoken,
    TokenT,
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
from howsure.studies.trajectories.partial_json import Loss, Path, decode_partial, place_of
from howsure.studies.trajectories.turns import (
    ACTORS,
    SCRIPTED,
    UNREADABLE,
    Draft,
    Loaded,
    Mark,
    Problem,
    Trajectory,
    settle,
)

NOT_EVALUABLE = frozenset({"infrastructure_error", "context_window_exceeded"})
"""Ends of runs that never came to anything that could be judged; τ² leaves them out of its own figures."""

EVIDENCE = frozenset({"content", "tool_calls", "logprobs", "raw_data"})
"""Fields of a message without which nobody can say why it has no score."""

NO_SIMULATIONS = "no_simulations"
LEADING_BYTES = 4096
"""How far into a file its first character is looked for; copying all of it without its leading space takes time."""


class ToolMessage(msgspec.Struct):
    content: Content = None
    error: bool | None = None


class Message(msgspec.Struct, Generic[TokenT]):
    role: str
    content: Content = None
    tool_calls: list[ToolCall] | None = None
    turn_idx: int | None = None
    logprobs: Logprobs[TokenT] | list[TokenT] | None = None
    raw_data: RawData[TokenT] | str | None = None
    error: bool | None = None
    errors: list[msgspec.Raw] | None = None
    tool_messages: list[ToolMessage] | None = None


class ReviewError(msgspec.Struct):
    turn_idx: int | None = None
    source: str | None = None
    severity: str | None = None


class Review(msgspec.Struct):
    errors: list[ReviewError] | None = None


class RewardInfo(msgspec.Struct):
    reward: float | None = None


class Simulation(msgspec.Struct, Generic[TokenT]):
    id: str | int | None = None
    task_id: str | int | None = None
    trial: int | None = None
    termination_reason: str | None = None
    reward_info: RewardInfo | None = None
    messages: list[Message[TokenT]] | msgspec.UnsetType | None = msgspec.UNSET
    ticks: list[msgspec.Raw] | None = None
    review: msgspec.Raw = msgspec.Raw(b"null")
    user_only_review: msgspec.Raw = msgspec.Raw(b"null")


class AgentInfo(msgspec.Struct):
    llm: str | None = None


class EnvironmentInfo(msgspec.Struct):
    domain_name: str | None = None


class Info(msgspec.Struct):
    agent_info: AgentInfo | None = None
    environment_info: EnvironmentInfo | None = None


class Task(msgspec.Struct):
    id: str | int | None = None
    ticket: str | None = None


class IndexEntry(msgspec.Struct):
    id: str


class File(Simulation[TokenT], Generic[TokenT]):
    """A whole file; or one simulation, which has the same fields at its top."""

    timestamp: str | None = None
    info: Info | None = None
    tasks: list[Task] | None = None
    simulations: list[Simulation[TokenT]] | msgspec.UnsetType | None = msgspec.UNSET
    simulation_index: list[IndexEntry] | None = None


class Damage(msgspec.Struct):
    """What could not be read of one simulation: messages by their place, and its reward."""

    messages: set[str | int] = msgspec.field(default_factory=set)
    reward: bool = False


class Listed(msgspec.Struct, Generic[TokenT]):
    """A bare list of simulations, under the name that it would have in a file."""

    simulations: list[Simulation[TokenT]]


def read_tau2(data: bytes, source: str, *, with_tokens: bool = False, about: File[Any] | None = None) -> Loaded:
    """All simulations of one file; `about` has the info and the tasks of a folder that this file is one part of.

    Whatever is damaged is left out with a sentence, and the rest is read.
    """
    with no_garbage_collection():
        file, losses, problems = _decode(data, source, Spelled if with_tokens else Number)
        if file is None:
            return Loaded(source, len(data), None, [], problems or [_no_simulations(source)])
        loaded = _loaded(file, about or file, losses, problems, source, len(data))
    if not with_tokens:
        for turn in (turn for one in loaded.trajectories for turn in one.turns):
            turn.tokens = None  # the older form of log-probabilities has the spellings beside them, wanted or not
    return loaded


def read_about(data: bytes, source: str) -> tuple[File[Any] | None, list[Problem]]:
    """What a folder's results.json says about all simulations beside it."""
    file, losses, problems = _decode(data, source, Number)
    return file, problems + about_losses(losses, source)


# -- decoding ------------------------------------------------------------------------------------------------------


def _decode(data: bytes, source: str, token: Any) -> tuple[File[Any] | None, list[Loss], list[Problem]]:
    """The file as far as it can be read, what was lost of it, or the sentence why there is nothing."""
    if not data or data.isspace():
        return None, [], [about_file(source, "empty", f"is empty ({len(data)} bytes); delete it, or write it again")]
    try:
        return (*decode_mended(data, lambda data: _typed(data, token)), [])
    except RecursionError:
        what = "is nested too deeply to be a results file; check what wrote it"
        return None, [], [about_file(source, "malformed", what)]
    except msgspec.DecodeError as error:
        remedy = "restore the file, or let the run that writes it finish"
        return None, [], [about_file(source, "malformed", f"is no whole JSON file: {error}; {remedy}")]


def _typed(data: bytes, token: Any) -> tuple[File[Any] | None, list[Loss]]:
    if data[:LEADING_BYTES].lstrip()[:1] == b"[":
        with contextlib.suppress(msgspec.ValidationError):
            return File(simulations=msgspec.json.decode(data, type=list[Simulation[token]])), []
        listed, losses = decode_partial(b'{"simulations":' + data + b"}", Listed[token])
        return (None if listed is None else File(simulations=listed.simulations)), losses
    return decode_partial(data, File[token])


# -- simulations ---------------------------------------------------------------------------------------------------


def _loaded(
    file: File[Any], about: File[Any], losses: list[Loss], problems: list[Problem], source: str, size: int
) -> Loaded:
    simulations = _simulations(file)
    if simulations is None:
        if not losses:
            problems = [*problems, _no_simulations(source)]
        return Loaded(source, size, file.timestamp, [], problems + about_losses(losses, source))
    openings = {str(task.id): task.ticket for task in about.tasks or () if task is not None}
    damage = _damage(losses)
    drafts: list[Draft] = []
    trajectories = []
    for path, index, simulation in simulations:
        trajectory, turns = _trajectory(simulation, index, path, about, damage.get(path, Damage()), source)
        trajectory.opening = opening_of(trajectory) or openings.get(trajectory.task_id)
        trajectories.append(trajectory)
        drafts += turns
    problems = problems + about_losses(losses, source) + settle(drafts, source) + _unsupported(trajectories)
    return Loaded(source, size, about.timestamp, trajectories, problems)


def _damage(losses: Iterable[Loss]) -> dict[Path, Damage]:
    """What of each simulation was lost, by its path."""
    damage: dict[Path, Damage] = {}
    for loss in losses:
        for at, field in enumerate(loss.path[:3]):
            if field == "reward_info":
                damage.setdefault(loss.path[:at], Damage()).reward = True
            elif field == "messages" and set(loss.path[at + 2 : at + 3]) <= EVIDENCE:
                damage.setdefault(loss.path[:at], Damage()).messages.update(loss.path[at + 1 : at + 2])
    return damage


def _simulations(file: File[Any]) -> list[tuple[Path, int, Simulation[Any]]] | None:
    if isinstance(file.simulations, list):
        listed: list[tuple[Path, int, Simulation[Any]]]
        listed = [(("simulations", i), i, one) for i, one in enumerate(file.simulations) if one is not None]
        strangers = all(one.messages is msgspec.UNSET and one.task_id is None for _, _, one in listed)
        return None if listed and strangers else listed
    if file.messages is not msgspec.UNSET or file.ticks:
        return [((), 0, file)]
    return None


def _no_simulations(source: str) -> Problem:
    expected = "expected `simulations`, a list of them, or one with its `messages`"
    return about_file(source, NO_SIMULATIONS, f"holds no simulations: {expected}")


def _unsupported(trajectories: Iterable[Trajectory]) -> list[Problem]:
    return [
        Problem(one.source, "unsupported", f"{one.source}: simulation {one.id}: {one.unsupported}")
        for one in trajectories
        if one.unsupported is not None
    ]


def _trajectory(
    simulation: Simulation[Any],
    index: int,
    path: Path,
    about: File[Any],
    damage: Damage,
    source: str,
) -> tuple[Trajectory, list[Draft]]:
    info = about.info
    name = str(simulation.id) if simulation.id is not None else f"simulation {index}"
    trajectory = Trajectory(
        source=source,
        index=index,
        id=name,
        task_id=str(simulation.task_id) if simulation.task_id is not None else name,
        trial=simulation.trial,
        domain=info.environment_info.domain_name if info and info.environment_info else None,
        agent=info.agent_info.llm if info and info.agent_info else None,
        termination=simulation.termination_reason,
    )
    trajectory.reward, trajectory.reward_missing = _reward(simulation, damage)
    messages = simulation.messages if isinstance(simulation.messages, list) else None
    if messages is None:
        trajectory.unsupported = _no_messages(simulation)
        return trajectory, []
    drafts = fill(trajectory, _spoken(messages, path, damage.messages))
    trajectory.marks += tuple(_reviewed(trajectory, simulation, messages))
    return trajectory, drafts


def _no_messages(simulation: Simulation[Any]) -> str:
    if simulation.ticks:
        return (
            f"a voice run of {len(simulation.ticks):,} ticks without messages, which is not supported: "
            "its speech has no tokens to be unsure about"
        )
    return "it has no messages"


def _reward(simulation: Simulation[Any], damage: Damage) -> tuple[float | None, str | None]:
    if simulation.termination_reason in NOT_EVALUABLE:
        return None, "not_evaluable"
    reward = simulation.reward_info.reward if simulation.reward_info is not None else None
    if reward is not None:
        return reward, None
    return None, UNREADABLE if damage.reward else "no_reward"


def _spoken(messages: Iterable[Message[Any] | None], path: Path, broken: set[str | int]) -> Iterator[Spoken | None]:
    head = place_of((*path, "messages"))
    for i, message in enumerate(messages):
        if message is None:
            yield None
            continue
        raw = message.raw_data if isinstance(message.raw_data, RawData) else None
        place, tokens = logprobs_of(message.logprobs, raw)
        content = text_of(message.content)
        scripted = message.raw_data is None and is_greeting(message.role, content)
        answers = [part for part in message.tool_messages or () if part is not None]
        ill_formed = message.role in ACTORS and bool(message.errors)
        failed = bool(message.error or any(part.error for part in answers))
        spoken = Spoken(
            role=message.role,
            content=content,
            calls=calls_of(message.tool_calls),
            logprobs=values_of(tokens),
            tokens=spellings_of(tokens),
            place=f"{head}[{i}]{place}",
            missing=UNREADABLE if i in broken else SCRIPTED if scripted else None,
            faults=(FORMAT_ERROR,) * ill_formed + (TOOL_ERROR,) * failed,
            answers=[text_of(part.content) for part in answers],
        )
        if tokens:
            tokens.clear()  # the numbers are in an array now; ten million of these objects take more room than that
        yield spoken


# -- what is known to have gone wrong ------------------------------------------------------------------------------


def _reviewed(
    trajectory: Trajectory, simulation: Simulation[Any], messages: Sequence[Message[Any] | None]
) -> Iterator[Mark]:
    """What reviewers say; they name a turn by the number that τ² gave it."""
    number_at = {turn.message_index: turn.number for turn in trajectory.turns}
    by_turn_idx = {m.turn_idx: number_at[i] for i, m in enumerate(messages) if m is not None and i in number_at}
    for review, default in ((simulation.review, "unknown"), (simulation.user_only_review, "user")):
        for error in _review(review).errors or ():
            number = by_turn_idx.get(error.turn_idx) if error is not None and error.turn_idx is not None else None
            if number is not None:
                yield Mark(f"review_{error.source or default}_error", number, error.severity)


def _review(raw: msgspec.Raw) -> Review:
    """What a reviewer found, as far as it can be read. It is no part of the figures, so the rest is passed over."""
    try:
        return decode_partial(raw, Review)[0] or Review()
    except UnicodeDecodeError:
        return Review()
