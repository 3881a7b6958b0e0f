"""Steps with their three entropies, wherever they come from: a run that is under way, or a log on the disk.

`Step` is one of them, `Steps` are many as columns. An entropy that is missing has a reason, one word to be counted by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Codes = NDArray[np.int64]
Reasons = NDArray[np.uint16]

ENTROPIES = ("h_x", "h_x_given_s", "h_x_given_ls")
NOT_GIVEN = "not_given"
"""The reason of an entropy that is missing without one."""

MOST_UNITS = 4_000
"""What a bootstrap draws from; beyond this, neighbours are drawn together, which costs next to nothing in precision."""


class Step(msgspec.Struct, frozen=True):
    """One step: the three entropies of its action, and what became of it.

    `reasons` tells for each of `ENTROPIES` that is missing why it is. `trust_recorded` is what a log says, which may be
    wrong; T is always worked out from the entropies. `action_probability` is that of the action that was executed, and
    `on_shortest_path` whether it was one that leads to the goal soonest. `first_asked` is the step of the episode at
    which the same was asked for the first time, and `first_episode` the number of the episode that first asked all of
    it up to this step, where these are known.
    """

    episode: str
    step: int | None = None
    h_x_bits: float | None = None
    h_x_given_s_bits: float | None = None
    h_x_given_ls_bits: float | None = None
    trust_recorded: float | None = None
    reasons: dict[str, str] = {}
    action_probability: float | None = None
    on_shortest_path: bool | None = None
    first_asked: int | None = None
    first_episode: int | None = None

    @property
    def bits(self) -> tuple[float | None, float | None, float | None]:
        return self.h_x_bits, self.h_x_given_s_bits, self.h_x_given_ls_bits


@dataclass(frozen=True, eq=False)
class Steps:
    """Steps as columns; NaN where a number is missing.

    `episode` is a place in `episodes`, and so is `original`: the episode that this one is a copy of, or itself.
    `reason` is a place in `reasons`, whose first, the empty word, is that of an entropy that is known. `bits` and
    `reason` are [steps × 3], in the order of `ENTROPIES`.
    """

    episodes: tuple[str, ...]
    episode: Codes
    bits: Array
    reasons: tuple[str, ...]
    reason: Reasons
    action_probability: Array
    on_shortest_path: Array
    first_asked: Array
    original: Codes

    def __len__(self) -> int:
        return len(self.episode)

    @property
    def complete(self) -> NDArray[np.bool_]:
        """The steps of which all three entropies are known."""
        return np.asarray(~np.isnan(self.bits).any(axis=1))

    @classmethod
    def of(cls, steps: Sequence[Step]) -> Steps:
        episodes: dict[str, int] = {}
        words: dict[str, int] = {"": 0}
        episode = [episodes.setdefault(step.episode, len(episodes)) for step in steps]
        bits = floats([value for step in steps for value in step.bits]).reshape(-1, 3)
        reason = [words.setdefault(word, len(words)) for step in steps for word in _reasons(step)]
        codes, first = np.array(episode, dtype=np.int64), floats([step.first_episode for step in steps])
        return cls(
            tuple(episodes),
            codes,
            bits,
            tuple(words),
            np.array(reason, dtype=np.uint16).reshape(-1, 3),
            floats([step.action_probability for step in steps]),
            floats([step.on_shortest_path for step in steps]),
            floats([step.first_asked for step in steps]),
            originals(tuple(episodes), codes, first),
        )

    @classmethod
    def joined(cls, parts: Sequence[Steps]) -> Steps:
        """One after the other. Episodes of one name are one episode: name them by their source before."""
        if len(parts) < 2:
            return parts[0] if parts else cls.of([])
        episodes: dict[str, int] = {}
        words: dict[str, int] = {"": 0}
        return cls(
            episode=_recoded([(part.episode, part.episodes) for part in parts], episodes),
            reason=_recoded([(part.reason, part.reasons) for part in parts], words).astype(np.uint16),
            episodes=tuple(episodes),
            reasons=tuple(words),
            bits=np.concatenate([part.bits for part in parts]),
            action_probability=np.concatenate([part.action_probability for part in parts]),
            on_shortest_path=np.concatenate([part.on_shortest_path for part in parts]),
            first_asked=np.concatenate([part.first_asked for part in parts]),
            original=_recoded([(part.original, part.episodes) for part in parts], dict(episodes)),
        )


def floats(values: Sequence[float | None] | Array) -> Array:
    """None becomes NaN."""
    return np.array(values, dtype=np.float64)


def originals(episodes: tuple[str, ...], episode: Codes, first_episode: Array) -> Codes:
    """For each step the episode that its own is a copy of, and itself where it is none or where that is not known.

    An episode is a copy where even its last step came after the same questions as in an earlier one.
    """
    if np.isnan(first_episode).all():
        return episode
    places = {name: code for code, name in enumerate(episodes)}
    latest = np.full(len(episodes), -np.inf)
    np.maximum.at(latest, episode, np.where(np.isnan(first_episode), np.inf, first_episode))
    own = np.arange(len(episodes))
    found = [places.get(f"{number:.0f}", -1) for number in latest.tolist()]
    return np.where(np.array(found, dtype=np.int64) < 0, own, found)[episode].astype(np.int64)


def _reasons(step: Step) -> list[str]:
    known = [value is not None and value == value for value in step.bits]
    return ["" if there else step.reasons.get(name, NOT_GIVEN) for there, name in zip(known, ENTROPIES, strict=True)]


def _recoded(parts: Sequence[tuple[Codes | Reasons, tuple[str, ...]]], places: dict[str, int]) -> Codes:
    """Codes of one list of words for all parts; `places` takes up the words."""
    tables = [np.array([places.setdefault(w, len(places)) for w in words], dtype=np.int64) for _, words in parts]
    return np.concatenate([table[codes] for (codes, _), table in zip(parts, tables, strict=True)])


# -- what an interval draws ----------------------------------------------------------------------------------------


DIFFERENT = "different step"


class Units(NamedTuple):
    """What intervals take as independent: a label for each step, or None where each step stands alone."""

    labels: Codes | None
    words: str
    units: int

    @property
    def clustered(self) -> bool:
        """Whether whole episodes are drawn."""
        return "episode" in self.words


def units(episode: Codes, first_asked: Array, most: int = MOST_UNITS) -> Units:
    """Episodes, where there are two or more; otherwise the steps of the only one, though they hang together.

    Steps that asked what an earlier one of them had asked, as of a robot in front of a wall, are drawn together with it
    where that is known: twenty copies of a number are one number.
    """
    places = np.unique(episode, return_inverse=True)[1].astype(np.int64)
    count = int(places.max(initial=-1)) + 1
    if count >= 2:
        return _gathered(places, count, most, "episode")
    asked = np.unique(first_asked, return_inverse=True)[1].astype(np.int64)
    different = int(asked.max(initial=-1)) + 1
    if different < len(episode) and not np.isnan(first_asked).any():
        return _gathered(asked, different, most, DIFFERENT)
    if len(episode) > most:
        return _gathered(np.arange(len(episode)), len(episode), most, "step")
    return Units(None, "step", len(episode))


def _gathered(places: Codes, count: int, most: int, word: str) -> Units:
    size = -(-count // most)
    if size == 1:
        return Units(places, word, count)
    return Units(places // size, f"{size} neighbouring {word}s", -(-count // size))
