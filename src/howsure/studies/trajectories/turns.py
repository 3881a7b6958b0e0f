"""What a log becomes: trajectories of turns, whatever format it was written in.

A turn is one message of the agent or of the user, numbered from 1 in the order of the conversation. What tools and
systems say is no turn; it is heard, and kept as what a turn answers to. A reader gives `Draft`s, and `settle` turns the
log-probabilities of a whole file into statistics at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from howsure.errors import EvidenceError
from howsure.measures import TurnStatistics, turn_statistics_ragged
from howsure.measures.checks import check_logprobs
from howsure.studies.trajectories.scores import Finals, finals_of
from howsure.types import Fields

Array = NDArray[np.float64]
Actor = Literal["agent", "user"]
Kind = Literal["text", "tool_call", "empty"]

ACTORS: dict[str, Actor] = {"assistant": "agent", "user": "user"}
"""The roles that take turns, and who that is."""

GREETING = "Hi! How can I help you today?"
"""What τ² lets every agent begin with; no model wrote it, so that nobody was unsure about it."""

CONTROL_WORDS = ("###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###")
"""What a user simulator, or an agent on its own, writes to end the conversation."""

MOST_TOKENS_IN_A_TURN = 2_000_000
"""More than any model writes in one answer. Such a turn is measured like others, and reported."""

SUCCESS_REWARD = 1.0 - 1e-6
"""τ² itself counts a run as solved from here on."""

# Why a turn has no score.
SCRIPTED, TOOL_CALL, NO_LOGPROBS = "scripted", "tool_call", "no_logprobs"
EMPTY_MESSAGE, UNREADABLE, IMPOSSIBLE, CONTROL_ONLY = "empty_message", "unreadable", "impossible_token", "control_word"
GIVEN = "given"
"""No model wrote it: it came with the task."""


class Said(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message, of whoever it was, as text."""

    role: str
    text: str
    turn: int | None = None
    """Its number, where it is a turn."""
    characters: int | None = None
    """How many it had, where it was cut."""


class TokenRow(Fields, gc=False):
    """One token of a turn, under the names that `calculate_token_level_uncertainties` gives them."""

    token: str
    probability: float
    neg_log_likelihood: float | None
    """In nats; None where the probability is zero."""


class Turn(Fields, kw_only=True):
    """One message of the agent or the user, and how sure its writer was."""

    number: int
    actor: Actor
    role: str
    kind: Kind
    message_index: int
    content: str = ""
    calls: tuple[str, ...] = ()
    control: tuple[str, ...] = ()
    statistics: TurnStatistics | None = None
    reason: str | None = None
    """Why it has no statistics, in one word to be counted by."""
    detail: str | None = None
    scored_by: str | None = None
    """`log`, or the name of the model that read the conversation again."""
    tokens: list[TokenRow] | None = None
    drift: float | None = None
    """Inquiry drift D_a and inference gap D_o (`distances.py`), where they were asked for and are known."""
    gap: float | None = None

    @property
    def uncertainty_nats(self) -> float | None:
        """U_i; infinite where a token had probability zero."""
        if self.reason == IMPOSSIBLE:
            return math.inf
        return None if self.statistics is None else self.statistics.normalized_entropy

    @property
    def text(self) -> str:
        """All that was said: the words, and the calls of tools."""
        content = self.content.strip()
        return "\n".join([content, *self.calls] if content else self.calls) if self.calls else content


class Mark(msgspec.Struct, frozen=True):
    """Something known to have gone wrong at a turn: a tool's error, a message of bad form, a reviewer's word."""

    kind: str
    turn: int
    severity: str | None = None


class ReadAgain(Fields, kw_only=True):
    """How a model read a conversation for want of scores: `ConversationCost` has the fields."""

    model: str
    tokens: int | None = None
    tokens_run: int | None = None
    windows: int | None = None
    rendering: str | None = None


class Trajectory(Fields, kw_only=True, dict=True):
    """One simulation: who said what, how sure they were, and how it ended. What a sample of the study holds."""

    source: str
    index: int
    id: str
    task_id: str
    set_name: str = ""
    """The set of results that it is one of: its file, or the folder of a set in parts."""
    trial: int | None = None
    domain: str | None = None
    agent: str | None = None
    reward: float | None = None
    reward_missing: str | None = None
    """Why there is none: the log has none, or the run was never fit to be judged."""
    termination: str | None = None
    turns: list[Turn] = msgspec.field(default_factory=list)
    said: list[Said] = msgspec.field(default_factory=list)
    marks: tuple[Mark, ...] = ()
    skipped: dict[str, int] = msgspec.field(default_factory=dict)
    """Messages that are no turns, by role."""
    opening: str | None = None
    """What the conversation is about, in the words of its opening."""
    read_again: ReadAgain | None = None
    unsupported: str | None = None
    """Why there are no turns where there should be some."""

    @property
    def failed(self) -> bool | None:
        return None if self.reward is None else self.reward < SUCCESS_REWARD

    @property
    def message_count(self) -> int:
        return len(self.turns) + sum(self.skipped.values())

    @cached_property
    def finals(self) -> Finals:
        """What its scores come to. Summary, document and tables all want them, and they are worked out once."""
        return finals_of(self)


class Evidence(Fields):
    """What was said, for whoever looks at the conversation."""

    said: list[Said]


class Problem(msgspec.Struct, frozen=True):
    """What could not be read: one sentence with file, place and remedy, and a word to be counted by.

    `count` is how many losses the sentence stands for.
    """

    source: str
    reason: str
    sentence: str
    count: int = 1


class Loaded(msgspec.Struct):
    """What came of one file."""

    source: str
    byte_count: int
    timestamp: str | None
    trajectories: list[Trajectory]
    problems: list[Problem]
    notes: list[str] = []
    """What whoever reads the figures should know, though nothing is wrong."""
    passed_over: str | None = None
    """Why this file is none of ours, where it was found in a folder and simply is something else."""


class Draft(NamedTuple):
    """A turn and the log-probabilities that its log holds, None where it holds none."""

    turn: Turn
    logprobs: Array | None
    tokens: Sequence[str] | None = None
    place: str = ""
    """Where the log-probabilities stand in their file, to be named if they are none."""


def control_words(text: str) -> tuple[str, ...]:
    return tuple(word for word in CONTROL_WORDS if word in text) if "###" in text else ()


def without_control_words(text: str) -> str:
    for word in CONTROL_WORDS:
        text = text.replace(word, "")
    return text.strip()


def kind_of(content: str, calls: Sequence[str]) -> Kind:
    if calls:
        return "tool_call"
    return "text" if content.strip() else "empty"


def reason_without_logprobs(turn: Turn, *, scripted: bool) -> str:
    """Why a turn that carries no log-probabilities has none."""
    if scripted:
        return SCRIPTED
    if turn.kind == "empty":
        return EMPTY_MESSAGE
    return TOOL_CALL if turn.kind == "tool_call" else NO_LOGPROBS


def settle(drafts: Sequence[Draft], source: str) -> list[Problem]:
    """Give each turn the statistics of its log-probabilities, all at once; what is no log-probability is a problem."""
    there = [draft for draft in drafts if draft.logprobs is not None and len(draft.logprobs)]
    if not there:
        return []
    flat = np.concatenate([draft.logprobs for draft in there if draft.logprobs is not None])
    starts = np.concatenate([[0], np.cumsum([len(draft.logprobs) for draft in there if draft.logprobs is not None])])
    bad = [i for i in range(len(there)) if _is_bad(flat[starts[i] : starts[i + 1]])] if _is_bad(flat) else []
    problems = [_refuse(there[i], flat[starts[i] : starts[i + 1]], source) for i in bad]
    for i in bad:
        flat[starts[i] : starts[i + 1]] = 0.0  # these turns get no statistics; the others are counted together
    columns = turn_statistics_ragged(flat, starts)
    for i, row in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        if there[i].turn.reason != UNREADABLE:
            problems += _measure(there[i], row, source)
    return problems


def _is_bad(values: Array) -> bool:
    try:
        check_logprobs(values)
    except EvidenceError:
        return True
    return False


def _refuse(draft: Draft, values: Array, source: str) -> Problem:
    try:
        check_logprobs(values, draft.place or f"turn {draft.turn.number}")
    except EvidenceError as error:
        draft.turn.reason, draft.turn.detail = UNREADABLE, str(error)
    return Problem(source, UNREADABLE, f"{source}: {draft.turn.detail}; this turn has no score")


def _measure(draft: Draft, row: tuple[Any, ...], source: str) -> list[Problem]:
    count, turn = int(row[2]), draft.turn
    turn.scored_by, turn.reason = turn.scored_by or "log", None
    if math.isinf(row[0]):
        turn.reason, turn.detail = IMPOSSIBLE, f"a token among {count:,} has probability zero, so that U is infinite"
    else:
        turn.statistics = TurnStatistics(*row)
    if draft.tokens is not None and draft.logprobs is not None:
        turn.tokens = token_rows(draft.tokens, draft.logprobs)
    if count <= MOST_TOKENS_IN_A_TURN:
        return []
    sentence = (
        f"{source}: {draft.place or f'turn {turn.number}'} has {count:,} tokens, more than any model writes at once"
    )
    return [Problem(source, "endless_turn", f"{sentence}; it is measured, but look at what wrote it")]


def token_rows(tokens: Sequence[str], logprobs: ArrayLike) -> list[TokenRow]:
    values = check_logprobs(logprobs)
    rows = zip(tokens, values.tolist(), np.exp(values).tolist(), strict=True)
    return [
        TokenRow(token, probability, None if value == -np.inf else 0.0 - value) for token, value, probability in rows
    ]
