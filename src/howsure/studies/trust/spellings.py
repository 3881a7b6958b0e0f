"""How an answer may spell an action, and which actions a text that is still being written may become."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

Spellings = Mapping[str, Sequence[str]]

DIRECTIONS = {"up": "north", "down": "south", "left": "west", "right": "east"}
"""The four directions with their names on a map, in the order that every table keeps."""

MOVES = ("move", "go", "walk", "step")
WITH_DIRECTION = {"pick up": ("pick up", "grab"), "drop": ("drop", "put down"), "toggle": ("toggle", "open")}
"""Actions that may say where, `pick up left`, with their other names."""

_TOWARDS = (" ", " to ", " the ", " to the ")
_BETWEEN_WORDS = re.compile(r"[\s_-]+")


def usual_spellings(allowed: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The ways to write each allowed action: the label, a direction's other names, `move up`, `grab to the left`.

    These are the ways that `world.actions` reads; an action that it does not know is written as its label.

    >>> usual_spellings(["left"])["left"][:8]
    ('left', 'west', 'l', 'w', 'move left', 'move west', 'move l', 'move w')
    """
    return {label: tuple(dict.fromkeys(_spellings(label))) for label in allowed}


def could_become(written: str, spellings: Spellings) -> frozenset[str]:
    """The actions of which a spelling begins with what is written; case, spaces, `_` and `-` do not count.

    >>> sorted(could_become("Move_", usual_spellings(["up", "down", "done"])))
    ['down', 'up']
    """
    begun = _plain(written)
    return frozenset(
        label for label, ways in spellings.items() if any(way.startswith(begun) for way in map(_plain, ways))
    )


def _spellings(label: str) -> list[str]:
    if label in DIRECTIONS:
        return [*_names(label), *(verb + where for verb in MOVES for where in _where(label))]
    verbs = WITH_DIRECTION.get(label, ())
    return [label, *verbs, *(verb + where for verb in verbs for direction in DIRECTIONS for where in _where(direction))]


def _where(direction: str) -> list[str]:
    return [towards + name for towards in _TOWARDS for name in _names(direction)]


def _names(direction: str) -> list[str]:
    other = DIRECTIONS[direction]
    return [direction, other, direction[0], other[0]]


@lru_cache(maxsize=4096)
def _plain(text: str) -> str:
    return _BETWEEN_WORDS.sub("", text.casefold())
