"""Cells of a spreadsheet, by the letters over its columns and the numbers before its rows.

A reader misses some of them, above all single letters. They stand in a row and in a column, in order, so that those
which were read tell where the others are.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from howsure.models.ocr.instruction import LONGEST_INSTRUCTION, QUOTED
from howsure.models.ocr.screen import Box, Screen

LEAST_HEADERS = 3
"""So many letters or numbers in order make the edge of a sheet."""


class CellName(NamedTuple):
    """A cell by the letters of its column and the number of its row; with one of them None, a header."""

    column: str | None
    row: int | None

    def __str__(self) -> str:
        return f"{self.column or ''}{self.row or ''}"


class Edge(NamedTuple):
    """One edge of a sheet: the numbers that were read, their places along it, and where it lies across."""

    numbers: Sequence[int]
    places: Sequence[float]
    across: float

    def at(self, number: int) -> float | None:
        """Where a number stands, if it was read or lies between such ones."""
        if not self.numbers[0] <= number <= self.numbers[-1]:
            return None
        return float(np.interp(number, self.numbers, self.places))


def cell_place(name: CellName, screen: Screen) -> tuple[float, float] | None:
    """The middle of a cell or header; None where it, or the sheet, cannot be seen."""
    columns, rows = column_edge(screen), row_edge(screen)
    if columns is None or rows is None:
        return None
    x = rows.across if name.column is None else columns.at(column_number(name.column))
    y = columns.across if name.row is None else rows.at(name.row)
    return None if x is None or y is None else (x, y)


def column_number(letters: str) -> int:
    number = 0
    for letter in letters.upper():
        number = number * 26 + ord(letter) - ord("A") + 1
    return number


_QUOTE = "[\"'“”‘’`]?"
_CELL = re.compile(rf"(?<![\w$.!:(-]){_QUOTE}([A-Z]{{1,2}})-?(\d{{1,4}}){_QUOTE}(?![\w.])")
_COLUMN = re.compile(rf"\bcolumn\s+(?:header\s+|letter\s+)?{_QUOTE}([A-Z]{{1,2}}){_QUOTE}(?!\w)", re.I)
_ROW = re.compile(rf"\brow\s+(?:header\s+|number\s+)?{_QUOTE}(\d{{1,4}}){_QUOTE}(?!\w)", re.I)


def cell_name(instruction: str) -> CellName | None:
    """The cell or header that an instruction speaks of, by its name or by its column and row; not inside a quote."""
    said = QUOTED.sub(lambda quote: quote[0] if len(quote[0].split()) == 1 else " ", instruction[:LONGEST_INSTRUCTION])
    if match := _CELL.search(said):
        return CellName(match[1], int(match[2]))
    column, row = _COLUMN.search(said), _ROW.search(said)
    if column is None and row is None:
        return None
    return CellName(None if column is None else column[1].upper(), None if row is None else int(row[1]))


# -- the edges of the sheet -------------------------------------------------------------------------------------------


def column_edge(screen: Screen) -> Edge | None:
    """The row of letters over the columns: the longest run in order from left to right at one height."""
    boxes = [(column_number(word), box) for word, box in _words(screen) if re.fullmatch("[A-Z]{1,2}", word)]
    return _edge([(number, box.x, box.y, box.height) for number, box in boxes])


def row_edge(screen: Screen) -> Edge | None:
    """The column of numbers before the rows: the longest run in order from top to bottom at one place."""
    boxes = [(int(word), box) for word, box in _words(screen) if re.fullmatch(r"[1-9]\d{0,3}", word, re.ASCII)]
    return _edge([(number, box.y, box.x, 1.6 * box.height) for number, box in boxes])


def _words(screen: Screen) -> list[tuple[str, Box]]:
    """The words of all texts with their boxes; what is higher than wide was read across rows, and is left out."""
    flat = [text for text in screen.texts if len(text.words) == 1 or text.box.height < 1.8 * text.box.width]
    return [(match.group(), text.part(*match.span()).box) for text in flat for match in re.finditer(r"\S+", text.words)]


def _edge(headers: Sequence[tuple[int, float, float, float]]) -> Edge | None:
    """Of headers (number, place along, place across, reach) the longest run that stands in one line and in order."""
    best: Edge | None = None
    for _, _, across, reach in headers:
        line = sorted((along, number) for number, along, at, _ in headers if abs(at - across) <= 0.6 * reach)
        run = _rising(line)
        if len(run) >= LEAST_HEADERS and (best is None or (len(run), -across) > (len(best.numbers), -best.across)):
            best = Edge([number for _, number in run], [along for along, _ in run], across)
    return best


def _rising(line: Sequence[tuple[float, int]]) -> list[tuple[float, int]]:
    """The longest run of rising numbers."""
    runs: list[list[tuple[float, int]]] = []
    for along, number in line:
        length = bisect_left(runs, number, key=lambda run: run[-1][1])
        before = runs[length - 1] if length else []
        runs[length : length + 1] = [[*before, (along, number)]]
    return runs[-1] if runs else []
