"""How well a name fits what was read: by its letters.

Texts are compared without white space, punctuation and capitals, and with letters that a reader mixes up (0 and O; 1, l
and I) taken as one. The name is looked for inside the text as well, with a few wrong letters forgiven; Myers'
bit-parallel search finds the best place in one pass over the text. Names of signs alone ("+", "...") are compared as
they are.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

LONGEST_NAME = 160
FORGIVEN = 0.3
"""The share of a name's letters that may be wrong."""

SHORT = 3
"""Names of so few letters match as they are, or not at all: a wrong letter would make them any word."""

_MIXED_UP = str.maketrans({"0": "o", "1": "l", "i": "l", "|": "l"})


class Folded(NamedTuple):
    """A text brought to comparable letters, each with its place in the text."""

    letters: str
    places: tuple[int, ...]
    spoken: bool
    """Whether these are letters and digits; else the text has none, and its signs stand for it."""


class Match(NamedTuple):
    """A name inside a text: how well it fits, from 0 to 1, and from which character to which."""

    score: float
    first: int
    last: int
    whole: bool
    """Whether the name is the whole text."""
    wrong: int = 0


_SIGNS = {
    **dict.fromkeys("+＋十", "plus"),
    **dict.fromkeys("-−–—一", "minus"),
    **dict.fromkeys("x×✕✖╳X", "cross"),
    **dict.fromkeys("▼▾", "down"),
}
"""Signs as a reader of texts gives them; a plus is often taken for a Chinese ten, a stroke for a one."""


def as_sign(text: str) -> str | None:
    """The sign that a text of one character is, if any."""
    return _SIGNS.get(text.strip())


@lru_cache(maxsize=8192)
def folded(text: str) -> Folded:
    """The letters that count."""
    letters, places = _spoken(text, str.isalnum)
    if letters:
        return Folded(letters, places, True)
    letters, places = _spoken(text, lambda c: not c.isspace())
    return Folded(letters, places, False)


def _spoken(text: str, counts: Callable[[str], bool]) -> tuple[str, tuple[int, ...]]:
    letters, places = [], []
    for i, character in enumerate(text):
        for c in unicodedata.normalize("NFKC", character).casefold().translate(_MIXED_UP):
            if counts(c):
                letters.append(c)
                places.append(i)
    return "".join(letters), tuple(places)


def find(name: str, text: str) -> Match | None:
    """The best place of a name in a text, or None where it does not fit."""
    wanted, read = folded(name[:LONGEST_NAME]), folded(text)
    if not wanted.letters or not read.letters or wanted.spoken != read.spoken:
        return None
    if wanted.letters == read.letters:
        score = 1.0 if name.strip() == text.strip() else 0.98  # capitals or signs differ
        return Match(score, 0, len(text), True)
    if not wanted.spoken:
        return None
    return _inside(wanted.letters, read, name, text)


def _inside(wanted: str, read: Folded, name: str, text: str) -> Match | None:
    forgiven = 0 if len(wanted) <= SHORT else int(len(wanted) * FORGIVEN)
    wrong, end = search(wanted, read.letters)
    if wrong > forgiven:
        return None
    backwards, reach = search(wanted[::-1], read.letters[:end][::-1])
    start = end - reach if backwards == wrong else max(0, end - len(wanted))
    first, last = read.places[start], read.places[end - 1] + 1
    likeness = 1.0 - wrong / len(wanted)
    covered = (end - start) / len(read.letters)
    score = likeness**1.5 * (0.82 + 0.16 * covered)
    if not _at_borders(text, first, last):
        score *= 0.9 if len(wanted) > 2 * SHORT else 0.5 + 0.3 * covered
    return Match(score, first, last, covered > 0.97, wrong)


def _at_borders(text: str, first: int, last: int) -> bool:
    """Whether a stretch begins and ends where words do; between small and capital letters a space may be lost."""
    return _border(text, first) and _border(text, last)


def _border(text: str, at: int) -> bool:
    if at <= 0 or at >= len(text):
        return True
    before, after = text[at - 1], text[at]
    lost_space = before.islower() and after.isupper()
    return not (before.isalnum() and after.isalnum()) or lost_space or before.isdigit() != after.isdigit()


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
