"""Screens made by hand: what a reader would have found, without reading."""

from __future__ import annotations

from howsure.models.ocr.matcher import Choice, Likeness, choose
from howsure.models.ocr.screen import Box, Mark, Screen, Text

SIZE = (1000, 600)


def text(words: str, left: float, top: float, height: float = 16.0) -> Text:
    """A text with letters of one width, as wide as they are in most fonts."""
    width = height / 2
    places = tuple(left + (i + 0.5) * width for i in range(len(words)))
    return Text(words, Box(left, top, left + len(words) * width, top + height), places)


def mark(left: float, top: float, sign: str | None = None, size: float = 12.0) -> Mark:
    return Mark(Box(left, top, left + size, top + size), sign)


def board(*things: Text | Mark) -> Screen:
    texts = [thing for thing in things if isinstance(thing, Text)]
    return Screen(*SIZE, texts, [thing for thing in things if isinstance(thing, Mark)])


def clicked(instruction: str, screen: Screen, likeness: Likeness | None = None) -> Choice:
    choice = choose(instruction, screen, likeness)
    assert choice is not None
    assert 0.0 <= choice.confidence <= 1.0
    return choice


def hits(choice: Choice, thing: Text | Mark) -> bool:
    box = thing.box
    return box.left <= choice.x <= box.right and box.top <= choice.y <= box.bottom


def sheet(
    columns: str = "ABCDEFGH", rows: int = 20, *, left_out: str = "", rows_out: frozenset[int] = frozenset()
) -> Screen:
    """A spreadsheet whose letters stand 80 pixels apart and whose rows are 20 pixels high; some are not read."""
    letters = [text(c, 100 + 80 * i, 100) for i, c in enumerate(columns) if c not in left_out]
    numbers = [text(str(n), 20, 120 + 20 * (n - 1)) for n in range(1, rows + 1) if n not in rows_out]
    return board(*letters, *numbers)
