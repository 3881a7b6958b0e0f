"""How well a name fits what was read: by its letters.

Texts are compared without white space, punctuation and capitals; names of signs alone ("+", "...") as they are. The
name is looked for inside the text as well, with a few wrong letters forgiven, since small texts are misread; Myers'
bit-parallel search finds the best place in one pass over the text.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import NamedTuple

LONGEST_NAME = 160
FORGIVEN = 0.3
"""The share of a name's letters that may be wrong: none of three, one of four."""


class Match(NamedTuple):
    """A name inside a text: how well it fits, from 0 to 1, and from which character to which."""

    score: float
    first: int
    last: int
    how: str


_SIGNS = {**dict.fromkeys("+＋", "plus"), **dict.fromkeys("-−–—", "minus"), **dict.fromkeys("xX×✕✖", "cross")}


def as_sign(text: str) -> str | None:
    """The sign that a text of one character is, if any."""
    return _SIGNS.get(text.strip())


@lru_cache(maxsize=8192)
def _letters(text: str) -> tuple[str, tuple[int, ...]]:
    """The characters that count, and where in the text each stands."""
    spoken = any(map(str.isalnum, text))
    kept = [
        (c, i)
        for i, character in enumerate(text)
        for c in unicodedata.normalize("NFKC", character).casefold()
        if (c.isalnum() if spoken else not c.isspace())
    ]
    return "".join(c for c, _ in kept), tuple(i for _, i in kept)


def find(name: str, text: str) -> Match | None:
    """The best place of a name in a text, or None where it does not fit."""
    wanted, _ = _letters(name[:LONGEST_NAME])
    read, places = _letters(text)
    if not wanted or not read:
        return None
    wrong, end = search(wanted, read)
    if wrong > int(len(wanted) * FORGIVEN):
        return None
    backwards, reach = search(wanted[::-1], read[:end][::-1])
    start = end - reach if backwards == wrong else max(0, end - len(wanted))
    first, last = places[start], places[end - 1] + 1
    covered = (end - start) / len(read)
    score = (1.0 - wrong / len(wanted)) * (0.82 + 0.18 * covered)
    if not (_border(text, first) and _border(text, last)):
        score *= 0.8
    whole = covered > 0.97
    how = "fuzzy" if wrong else "exact" if whole else "part"
    return Match(score, 0 if whole else first, len(text) if whole else last, how)


def _border(text: str, at: int) -> bool:
    """Whether a word may begin or end here."""
    return not text[max(0, at - 1) : at + 1].isalnum() or at in (0, len(text))


def search(wanted: str, text: str) -> tuple[int, int]:
    """The fewest wrong letters with which `wanted` stands in `text`, and where the earliest such place ends.

    G. Myers, A fast bit-vector algorithm for approximate string matching, JACM 46 (1999).
    """
    size = len(wanted)
    masks: dict[str, int] = {}
    for i, letter in enumerate(wanted):
        masks[letter] = masks.get(letter, 0) | 1 << i
    ones, top = (1 << size) - 1, 1 << (size - 1)
    plus, minus, distance = ones, 0, size
    best, best_end = size, 0
    for end, letter in enumerate(text, 1):
        equal = masks.get(letter, 0)
        vertical = equal | minus
        horizontal = (((equal & plus) + plus) ^ plus) | equal
        up, down = minus | (ones & ~(horizontal | plus)), plus & horizontal
        distance += bool(up & top) - bool(down & top)
        up, down = (up << 1) & ones, (down << 1) & ones
        plus, minus = down | (ones & ~(vertical | up)), up & vertical
        if distance < best:
            best, best_end = distance, end
    return best, best_end
