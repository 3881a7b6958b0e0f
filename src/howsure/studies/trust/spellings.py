"""How an answer may spell an action, and which actions a text that is still being written may become."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

Spellings = Mapping[str, Sequence[str]]

DIRECTIONS = {"up": "north", "down": "south", "left": "west", "right": "east"}
"""The four directions with their names on a map, in the order that every table keeps."""

BEFORE_DIRECTIONS = ("move ", "go ")
WITH_DIRECTION = frozenset({"pick up", "drop", "toggle"})
"""Actions that may say where: `pick up left`."""

_BETWEEN_WORDS = re.compile(r"[\s_-]+")


def usual_spellings(allowed: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The ways to write each allowed action: the label, a direction's other names, `move up`, `pick up left`.

    >>> usual_spellings(["left"])["left"]
    ('left', 'west', 'l', 'w', 'move left', 'move west', 'move l', 'move w', 'go left', 'go west', 'go l', 'go w')
    """
    return {label: tuple(dict.fromkeys(_spellings(label))) for label in allowed}


def could_become(written: str, spellings: Spellings) -> frozenset[str]:
    """The actions of which a spelling begins with what is written; case, `_`, `-` and spaces are all one.

    >>> sorted(could_become("Move_", usual_spellings(["up", "down", "done"])))
    ['down', 'up']
    """
    begun = _plain(written)
    return frozenset(
        label
        for label, ways in spellings.items()
        if any(way.startswith(begun) or way == begun.rstrip(" .!") for way in map(_plain, ways))
    )


def _spellings(label: str) -> list[str]:
    if label in DIRECTIONS:
        names = _names(label)
        return [*names, *(before + name for before in BEFORE_DIRECTIONS for name in names)]
    if label in WITH_DIRECTION:
        return [label, *(f"{label} {name}" for direction in DIRECTIONS for name in _names(direction))]
    return [label]


def _names(direction: str) -> list[str]:
    other = DIRECTIONS[direction]
    return [direction, other, direction[0], other[0]]


@lru_cache(maxsize=4096)
def _plain(text: str) -> str:
    return _BETWEEN_WORDS.sub(" ", text.casefold()).lstrip()
