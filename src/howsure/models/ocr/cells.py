"""Cells of a spreadsheet, by the letters over its columns and the numbers before its rows.

A reader misses many of them, above all single letters. They stand in a row and in a column, in order, so that those
which were read tell where the others are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from howsure.models.ocr.screen import Box, Screen, Text
from howsure.models.ocr.vocabulary import words_of

LEAST_HEADERS = 3
"""So many letters or numbers in order make the edge of a sheet."""


class CellName(NamedTuple):
    """A cell, or with one of them None a header: column and row from 1 on."""

    column: int | None
    row: int | None


class CellClick(NamedTuple):
    x: float
    y: float
    words: str
    confidence: float


class Edge(NamedTuple):
    """One edge of a sheet: the numbers that were read with their places along it, and where it lies across."""

    places: tuple[tuple[int, float], ...]
    across: float

    def at(self, number: int) -> tuple[float, bool]:
        """Where a number stands, and whether it was read or lies between such ones."""
        known = dict(self.places)
        if number in known:
            return known[number], True
        below = [n for n in known if n < number]
        above = [n for n in known if n > number]
        if below and above:
            low, high = max(below), min(above)
            share = (number - low) / (high - low)
            return known[low] + share * (known[high] - known[low]), True
        return self._beyond(number, below, known), False

    def _beyond(self, number: int, below: Sequence[int], known: dict[int, float]) -> float:
        numbers = sorted(known)
        steps = sorted((known[b] - known[a]) / (b - a) for a, b in pairwise(numbers))
        step = steps[len(steps) // 2]
        end = numbers[-1] if below else numbers[0]
        return known[end] + (number - end) * step


def cell_click(instruction: str, screen: Screen, names: Sequence[str] = ()) -> CellClick | None:
    """The click on a cell or header that an instruction names; None where it names none or there is no sheet.

    `names` is what the target is called: a header is meant only where it is called nothing else.
    """
    name = cell_name(instruction) or header_name(instruction, names)
    if name is None:
        return None
    columns, rows = column_edge(screen), row_edge(screen)
    if columns is None or rows is None:
        return None
    x, sure_x = columns.at(name.column) if name.column is not None else (rows.across, True)
    y, sure_y = rows.at(name.row) if name.row is not None else (columns.across, True)
    if not (0 <= x < screen.width and 0 <= y < screen.height):
        return None
    confidence = 0.9 * (1.0 if sure_x else 0.7) * (1.0 if sure_y else 0.7)
    return CellClick(x, y, words(name), confidence)


def words(name: CellName) -> str:
    letters = "" if name.column is None else column_letters(name.column)
    return f"{letters}{'' if name.row is None else name.row}"


def column_letters(number: int) -> str:
    letters = ""
    while number > 0:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


def column_number(letters: str) -> int:
    number = 0
    for letter in letters.upper():
        number = number * 26 + ord(letter) - ord("A") + 1
    return number


# -- what is asked for ------------------------------------------------------------------------------------------------

_ORDINALS = {
    word: i
    for i, word in enumerate(
        words_of("first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"), 1
    )
}
_ORDINAL = rf"(?:(\d{{1,4}})(?:st|nd|rd|th)|({'|'.join(_ORDINALS)}))"
_QUOTE = "[\"'“”‘’`]?"
_CELL = re.compile(rf"\bcell\s+{_QUOTE}([A-Za-z]{{1,2}})\s?-?(\d{{1,4}}){_QUOTE}(?!\w)", re.I)
_LABELED = re.compile(r"(?<![\w$.!])([A-Z]{1,2})(\d{1,4})(?![\w.])")
_COLUMN_ROW = re.compile(
    rf"\bcolumn\s+{_QUOTE}([A-Z]{{1,2}}){_QUOTE}(?:\s*,|\s+and|\s+in|\s+at)*\s+(?:the\s+)?row\s+{_QUOTE}(\d{{1,4}})\b",
    re.I,
)
_ROW_COLUMN = re.compile(
    rf"\brow\s+{_QUOTE}(\d{{1,4}}){_QUOTE}(?:\s*,|\s+and|\s+in|\s+of|\s+at)*\s+(?:the\s+)?column\s+{_QUOTE}([A-Z]{{1,2}})\b",
    re.I,
)
_ORDINAL_COLUMN = re.compile(rf"\b{_ORDINAL}\s+column\b", re.I)
_ORDINAL_ROW = re.compile(rf"\b{_ORDINAL}\s+row\b", re.I)
_COLUMN_HEADER = re.compile(
    rf"\b(?:header|heading|letter)\s+(?:of\s+)?(?:the\s+)?(?:column\s+)?{_QUOTE}([A-Z]){_QUOTE}(?!\w)|"
    rf"\bcolumn\s+(?:header|heading|letter|label)?\s*{_QUOTE}([A-Z]){_QUOTE}(?!\w)|"
    rf"{_QUOTE}(?<!\w)([A-Z]){_QUOTE}\s+column\b"
)
_ROW_HEADER = re.compile(
    rf"\brow\s+(?:header|heading|number|label)?\s*{_QUOTE}(\d{{1,4}}){_QUOTE}(?!\w)|"
    rf"\b(?:number|header)\s+{_QUOTE}(\d{{1,4}}){_QUOTE}(?=.*\bleft\b)",
    re.I | re.S,
)
_DRAWN = re.compile(r"\b(?:toolbar|icon|button|menu)\b", re.I)
_SHEET = re.compile(r"\b(?:cell|cells|sheet|spreadsheet|worksheet|column|row|table)\b", re.I)


def cell_name(instruction: str) -> CellName | None:
    """The cell that an instruction asks for, by its name, its column and row, or their numbers."""
    text = instruction[:4000]
    if match := _CELL.search(text):
        return CellName(column_number(match[1]), int(match[2]))
    if match := _COLUMN_ROW.search(text):
        return CellName(column_number(match[1]), int(match[2]))
    if match := _ROW_COLUMN.search(text):
        return CellName(column_number(match[2]), int(match[1]))
    if not _SHEET.search(text):
        return None
    if match := _LABELED.search(text):
        return CellName(column_number(match[1]), int(match[2]))
    column, row = _ordinal(_ORDINAL_COLUMN, text), _ordinal(_ORDINAL_ROW, text)
    if column is not None and row is not None and re.search(r"\bcell\b", text, re.I):
        return CellName(column, row)
    return None


def _ordinal(pattern: re.Pattern[str], text: str) -> int | None:
    match = pattern.search(text)
    if match is None:
        return None
    return int(match[1]) if match[1] else _ORDINALS[match[2].lower()]


def header_name(instruction: str, names: Sequence[str]) -> CellName | None:
    """The header of a column or row that an instruction asks for."""
    header = _header(instruction[:4000])
    if header is None or _DRAWN.search(instruction[:4000]):
        return None
    return header if all(name.strip().upper() == words(header) for name in names) else None


def _header(text: str) -> CellName | None:
    if match := _COLUMN_HEADER.search(text):
        return CellName(column_number(next(group for group in match.groups() if group)), None)
    if match := _ROW_HEADER.search(text):
        return CellName(None, int(next(group for group in match.groups() if group)))
    return None


# -- the edges of the sheet -------------------------------------------------------------------------------------------


def column_edge(screen: Screen) -> Edge | None:
    """The row of letters over the columns: the longest run in order from left to right at one height."""
    letters = [(column_number(word), box) for word, box in _words(screen.texts) if re.fullmatch(r"[A-Z]{1,2}", word)]
    return _edge([(number, box.x, box.y, box.height) for number, box in letters])


def row_edge(screen: Screen) -> Edge | None:
    """The column of numbers before the rows: the longest run in order from top to bottom at one place."""
    numbers = [(int(word), box) for word, box in _words(screen.texts) if re.fullmatch(r"[1-9]\d{0,3}", word)]
    return _edge([(number, box.y, box.x, 1.6 * box.height) for number, box in numbers])


def _words(texts: Sequence[Text]) -> list[tuple[str, Box]]:
    """The words of all texts with their boxes; what is higher than wide was read across rows, and is left out."""
    flat = [text for text in texts if len(text.words) == 1 or text.box.height < 1.8 * text.box.width]
    return [(match.group(), text.part(*match.span())) for text in flat for match in re.finditer(r"\S+", text.words)]


def _edge(headers: Sequence[tuple[int, float, float, float]]) -> Edge | None:
    """Of headers (number, place along, place across, reach) the longest run that stands in one line and in order."""
    best: Edge | None = None
    for _, _, across, reach in headers:
        line = sorted((along, number) for number, along, at, _ in headers if abs(at - across) <= 0.6 * reach)
        run = _regular(line)
        if len(run) >= LEAST_HEADERS and (best is None or (len(run), -across) > (len(best.places), -best.across)):
            best = Edge(tuple(run), across)
    return best


def _regular(line: Sequence[tuple[float, int]]) -> list[tuple[int, float]]:
    """The longest run of rising numbers whose steps are not far from one another."""
    if len(line) < LEAST_HEADERS:
        return []
    step = _usual_step(line)
    if step is None:
        return []
    longest: list[list[int]] = []
    for i, (along, number) in enumerate(line):
        before: list[int] = []
        for j in range(i):
            rise = number - line[j][1]
            if (
                0 < rise <= 60
                and 0.45 * step <= (along - line[j][0]) / rise <= 3.0 * step
                and len(longest[j]) > len(before)
            ):
                before = longest[j]
        longest.append([*before, i])
    run = max(longest, key=len)
    return [(line[i][1], line[i][0]) for i in run]


def _usual_step(line: Sequence[tuple[float, int]]) -> float | None:
    steps = sorted(
        (b - a) / (m - n)
        for i, (a, n) in enumerate(line)
        for b, m in line[i + 1 : i + 4]
        if 0 < m - n <= 10 and b - a > 4
    )
    return steps[len(steps) // 2] if steps else None
