"""The three conditions, and steps with their entropies, whether from a run that is under way or a log on the disk.

`Step` is one of them, `Steps` are many as columns. An entropy that is missing has a reason, one word to be counted by.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import pairwise

import msgspec
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]
Codes = NDArray[np.int64]
Reasons = NDArray[np.uint16]
Three = tuple[float | None, float | None, float | None]


class Condition(StrEnum):
    """What the action is conditioned on; the value is how it is written."""

    X = "X"
    X_GIVEN_S = "X|S"
    X_GIVEN_LS = "X|L,S"

    @property
    def entropy_name(self) -> str:
        return f"H({self.value})"

    @property
    def column(self) -> str:
        """The entropy's name in tables, such as H_X_given_S."""
        return f"H_{self.name.replace('GIVEN', 'given')}"


CONDITIONS = tuple(Condition)
ENTROPIES = tuple(condition.column.lower() for condition in CONDITIONS)
ENTROPY_COLUMNS = tuple(f"entropy_{condition.column}" for condition in CONDITIONS)
NOT_GIVEN = "not_given"
"""The reason of an entropy that is missing without one."""

LARGEST_VOCABULARY_BITS = 20.0
"""Where the size of a vocabulary is unknown it is taken to have at most 2^20 tokens, which is more than any known has:
each unit of probability outside of the alternatives then holds at most so many bits."""

NOTHING: Three = (None, None, None)


class Step(msgspec.Struct, frozen=True):
    """One step: the three entropies of its action, and what became of it.

    `reasons` tells for each of `ENTROPIES` that is missing why it is. Entropies at a token, of which only the likeliest
    alternatives are known, have bounds: `low_bits` and `high_bits`, the probability `unlisted` that lies outside of the
    alternatives, or the `exact_bits` over the whole vocabulary; all four are None for entropies that are what they are.
    `action_probability` is that of the action that was executed, `confidence` that with equally good actions taken
    together, and `on_shortest_path` whether it was one that leads to the goal soonest. Without knowledge (`grounded`
    is False) X and X|S are the same prompt, without an instruction (`instructed`) X|S and X|L,S are. `first_episode`
    is the number of the episode that first asked all that this one had asked up to this step, and `chain` that of the
    one with which a chain of episodes begins, of which each knows what was known at the end of the one before.
    """

    episode: str
    step: int | None = None
    h_x_bits: float | None = None
    h_x_given_s_bits: float | None = None
    h_x_given_ls_bits: float | None = None
    reasons: dict[str, str] = {}
    exact_bits: Three = NOTHING
    low_bits: Three = NOTHING
    high_bits: Three = NOTHING
    unlisted: Three = NOTHING
    action_probability: float | None = None
    confidence: float | None = None
    on_shortest_path: bool | None = None
    grounded: bool | None = None
    instructed: bool | None = None
    first_episode: int | None = None
    chain: int | None = None

    @property
    def bits(self) -> Three:
        return self.h_x_bits, self.h_x_given_s_bits, self.h_x_given_ls_bits


@dataclass(frozen=True, eq=False)
class Steps:
    """Steps as columns; NaN where a number is missing.

    `episode` is a place in `episodes`, and so is `unit`: the one that stands for all episodes that hang together, such
    as the copies of it, which are the independent units of every interval.
    `reason` is a place in `reasons`, whose first, the empty word, is that of an entropy that is known. `bits`, `low`,
    `high` and `reason` are [steps × 3], in the order of `ENTROPIES`; `low` is NaN where an entropy has no bounds, and
    `high` is infinite where nothing bounds it.
    """

    episodes: tuple[str, ...]
    episode: Codes
    unit: Codes
    reasons: tuple[str, ...]
    reason: Reasons
    bits: Array
    low: Array
    high: Array
    action_probability: Array
    confidence: Array
    on_shortest_path: Array
    grounded: Array
    instructed: Array

    def __len__(self) -> int:
        return len(self.episode)

    @property
    def complete(self) -> Bools:
        """The steps of which all three entropies are known."""
        return np.asarray(~np.isnan(self.bits).any(axis=1))

    @classmethod
    def of(cls, steps: Sequence[Step]) -> Steps:
        episodes: dict[str, int] = {}
        words: dict[str, int] = {"": 0}
        episode = np.array([episodes.setdefault(step.episode, len(episodes)) for step in steps], dtype=np.int64)
        reason = [words.setdefault(word, len(words)) for step in steps for word in _reasons(step)]
        columns = {
            name: floats([value for step in steps for value in getattr(step, name)]).reshape(-1, 3) for name in _THREE
        }
        columns |= {
            name: floats([getattr(step, name) for step in steps]) for name in (*PLAIN, "first_episode", "chain")
        }
        reasons = np.array(reason, dtype=np.uint16).reshape(-1, 3)
        return cls.from_columns(tuple(episodes), episode, tuple(words), reasons, columns)

    @classmethod
    def from_columns(
        cls,
        episodes: tuple[str, ...],
        episode: Codes,
        reasons: tuple[str, ...],
        reason: Reasons,
        columns: Mapping[str, Array],
    ) -> Steps:
        """From the fields of `Step` as columns, NaN where a number is missing."""
        bits, *known = (columns[name] for name in _THREE)
        low, high = _bounds(bits, *known)
        plain = {name: columns[name] for name in PLAIN}
        numbers = np.column_stack([bits, *plain.values()])
        unit = _units(episodes, episode, columns["first_episode"], columns["chain"], numbers)
        return cls(
            episodes=episodes,
            episode=episode,
            unit=unit,
            reasons=reasons,
            reason=reason,
            bits=bits,
            low=low,
            high=high,
            **plain,
        )

    @cached_property
    def entropies(self) -> Array:
        """`bits` within their bounds, of which all figures are made.

        That of the listed tokens alone may be below what the others add at least; where it is known exactly, its bounds
        fall together.
        """
        within = np.fmin(np.fmax(self.bits, self.low), self.high)
        return np.where(np.isnan(self.bits), np.nan, within)

    @classmethod
    def joined(cls, parts: Sequence[Steps]) -> Steps:
        """One after the other. Episodes of one name are one episode: name them by their source before.

        An episode of one part that is there in another with all its numbers is a copy.
        """
        if len(parts) < 2:
            return parts[0] if parts else cls.of([])
        episodes: dict[str, int] = {}
        words: dict[str, int] = {"": 0}
        episode = _recoded([(part.episode, part.episodes) for part in parts], episodes)
        unit = _recoded([(part.unit, part.episodes) for part in parts], episodes)
        known = {
            name: np.concatenate([getattr(part, name) for part in parts]) for name in ("bits", "low", "high", *PLAIN)
        }
        numbers = np.column_stack([known["bits"], *(known[name] for name in PLAIN)])
        part_of = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        return cls(
            episode=episode,
            unit=_one_for_copies(episode, unit, numbers, part_of),
            reason=_recoded([(part.reason, part.reasons) for part in parts], words).astype(np.uint16),
            episodes=tuple(episodes),
            reasons=tuple(words),
            **known,
        )


_THREE = ("bits", "exact_bits", "low_bits", "high_bits", "unlisted")
PLAIN = ("action_probability", "confidence", "on_shortest_path", "grounded", "instructed")


def floats(values: Sequence[float | None] | Array) -> Array:
    """None becomes NaN."""
    return np.array(values, dtype=np.float64)


def _bounds(bits: Array, exact: Array, low: Array, high: Array, unlisted: Array) -> tuple[Array, Array]:
    """Between what each entropy lies over the whole vocabulary; NaN for one that is not of a part of it.

    An entropy is known exactly, or bounded by the size of the vocabulary, or by that of the largest there are: what
    lies outside of the alternatives adds at most its probability times the logarithm of the vocabulary's size.
    """
    highest = np.where(np.isnan(high), bits + unlisted * LARGEST_VOCABULARY_BITS, high)
    highest = np.where(np.isnan(highest), np.inf, np.fmax(highest, low))
    highest = np.where(np.isnan(low), np.nan, highest)
    known = ~np.isnan(exact)
    return np.where(known, exact, low), np.where(known, exact, highest)


def _units(episodes: tuple[str, ...], episode: Codes, first_episode: Array, chain: Array, numbers: Array) -> Codes:
    """For each step the episode that stands for what its own hangs together with; itself where nothing is known of any.

    An episode is a copy where even its last step came after the same questions as in an earlier one; where a log does
    not tell, where it holds the same `numbers`. Those of a chain are one unit: each goes on from what was known at the
    end of the one before.
    """
    if np.isnan(first_episode).all() and np.isnan(chain).all():
        return _one_for_copies(episode, episode, numbers, episode)

    def named(numbers: Array) -> Codes:
        """For each episode the one of the highest of its numbers, or the first that has this number, or itself."""
        highest = np.full(len(episodes), -np.inf)
        np.maximum.at(highest, episode, np.where(np.isnan(numbers), np.inf, numbers))
        places = {_number(name): code for code, name in reversed(list(enumerate(episodes)))}
        stands_for = [
            places.setdefault(number, own) if math.isfinite(number) else own
            for own, number in enumerate(highest.tolist())
        ]
        return np.array(stands_for, dtype=np.int64)

    told = named(chain)[named(first_episode)][episode].astype(np.int64)
    return _one_for_copies(episode, told, numbers, np.where(np.isnan(first_episode), episode, -1))


def _number(name: str) -> float | None:
    """`3` and `03` are one number; a name that is none is no number."""
    return float(name) if name.isdecimal() else None


def _one_for_copies(episode: Codes, unit: Codes, numbers: Array, group: Codes) -> Codes:
    """The units, joined where episodes of different groups hold the same numbers.

    Only those of two steps or more: a single step may repeat by chance.
    """
    order = np.argsort(episode, kind="stable")
    starts = np.flatnonzero(np.diff(episode[order], prepend=-1))
    rows = np.ascontiguousarray(numbers[order] + 0.0)
    known = np.asarray(~np.isnan(rows[:, :3]).any(axis=1))
    stands_for = list(range(int(unit.max(initial=-1)) + 1))

    def root(code: int) -> int:
        while stands_for[code] != code:
            stands_for[code] = stands_for[stands_for[code]]
            code = stands_for[code]
        return code

    first: dict[bytes, int] = {}
    for begin, end in pairwise([*starts.tolist(), len(order)]):
        if end - begin < 2 or not known[begin:end].any():
            continue
        earlier, row = order[first.setdefault(rows[begin:end].tobytes(), begin)], order[begin]
        if group[earlier] != group[row]:
            stands_for[root(int(unit[row]))] = root(int(unit[earlier]))
    roots = np.array([root(code) for code in range(len(stands_for))], dtype=np.int64)
    return roots[unit]


def _reasons(step: Step) -> list[str]:
    known = [value is not None and value == value for value in step.bits]
    return ["" if there else step.reasons.get(name, NOT_GIVEN) for there, name in zip(known, ENTROPIES, strict=True)]


def _recoded(parts: Sequence[tuple[Codes | Reasons, tuple[str, ...]]], places: dict[str, int]) -> Codes:
    """Codes of one list of words for all parts; `places` takes up the words."""
    tables = [np.array([places.setdefault(w, len(places)) for w in words], dtype=np.int64) for _, words in parts]
    return np.concatenate([table[codes] for (codes, _), table in zip(parts, tables, strict=True)])
