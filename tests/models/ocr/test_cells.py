"""Cells by the letters and numbers around them, those that were not read filled in."""

from __future__ import annotations

import pytest

from howsure.models.ocr.cells import (
    CellName,
    cell_name,
    column_edge,
    column_letters,
    column_number,
    header_name,
    row_edge,
)
from howsure.models.ocr.screen import Screen

from .boards import board, clicked, hits, sheet, text


@pytest.mark.parametrize(
    ("instruction", "name"),
    [
        ("Click cell C12", CellName(3, 12)),
        ("click the cell 'b7'", CellName(2, 7)),
        ("Click on the U42 in the sheet", CellName(21, 42)),
        ("Select column I, row 3", CellName(9, 3)),
        ('Click row 3 in column "I"', CellName(9, 3)),
        ("the cell in the 2nd column and 21st row", CellName(2, 21)),
        ("the cell in the third column, fourth row", CellName(3, 4)),
        ("Click cell AA10", CellName(27, 10)),
        ("Press F5", None),
        ("Click the cell", None),
        ('Click "Save"', None),
        ("the second row of the table", None),
        ("", None),
    ],
)
def test_names_of_cells(instruction: str, name: CellName | None) -> None:
    assert cell_name(instruction) == name


@pytest.mark.parametrize(
    ("instruction", "names", "name"),
    [
        ("Click the 'F' column header", ["F"], CellName(6, None)),
        ("Click column D", ["D"], CellName(4, None)),
        ("Click the row number 17", ["17"], CellName(None, 17)),
        ("Click the number 12 on the far left side", ["12"], CellName(None, 12)),
        ("Click the letter A in the toolbar", ["A"], None),
        ("Click Total in column D", ["Total"], None),
    ],
)
def test_names_of_headers(instruction: str, names: list[str], name: CellName | None) -> None:
    assert header_name(instruction, names) == name


def test_columns_are_counted_in_letters() -> None:
    assert [column_letters(n) for n in (1, 26, 27, 52, 53, 702, 703)] == ["A", "Z", "AA", "AZ", "BA", "ZZ", "AAA"]
    assert all(column_number(column_letters(n)) == n for n in range(1, 2000))


def at(column: int, row: int) -> tuple[float, float]:
    """The middle of a cell of the sheet of boards.py."""
    return 104 + 80 * (column - 1), 128 + 20 * (row - 1)


def near(choice: tuple[float, float], wanted: tuple[float, float]) -> bool:
    return abs(choice[0] - wanted[0]) < 12 and abs(choice[1] - wanted[1]) < 6


@pytest.mark.parametrize(
    ("screen", "column", "row"),
    [
        (sheet(), 3, 12),
        (sheet(left_out="C", rows_out=frozenset({12})), 3, 12),
        (sheet(left_out="CDE", rows_out=frozenset(range(8, 15))), 4, 12),
        (sheet(left_out="FGH", rows_out=frozenset(range(15, 21))), 8, 20),
        (sheet(left_out="AB", rows_out=frozenset({1, 2, 3})), 1, 2),
    ],
    ids=["all read", "its own are missing", "a stretch is missing", "beyond the last", "before the first"],
)
def test_a_cell_is_where_its_column_and_row_cross(screen: Screen, column: int, row: int) -> None:
    choice = clicked(f"Click cell {column_letters(column)}{row}", screen)
    assert choice.how == "cell"
    assert near((choice.x, choice.y), at(column, row))


def test_a_cell_is_not_a_text_of_that_name() -> None:
    named = text("C12", 20, 40)
    screen = sheet()
    screen = board(*screen.texts, named)
    assert not hits(clicked("Click cell C12", screen), named)


def test_beyond_what_was_read_is_less_sure() -> None:
    known = clicked("Click cell C5", sheet()).confidence
    assert clicked("Click cell H19", sheet(left_out="GH", rows_out=frozenset({19, 20}))).confidence < known


def test_headers_are_clicked_on_the_edges() -> None:
    column = clicked("Click the 'F' column header", sheet(left_out="F"))
    assert near((column.x, column.y), (at(6, 1)[0], 108))
    row = clicked("Click the row number 17", sheet(rows_out=frozenset({17})))
    assert near((row.x, row.y), (28, at(1, 17)[1]))


def test_misread_numbers_and_numbers_in_the_sheet_are_left_out() -> None:
    screen = sheet(rows_out=frozenset({6, 9}))
    noise = [text("61", 20, 220), text("1", 20, 280), *(text(str(n * 7 % 90), 340, 120 + 20 * n) for n in range(15))]
    edge = row_edge(board(*screen.texts, *noise))
    assert edge is not None
    for row in range(1, 21):
        assert abs(edge.at(row)[0] - at(1, row)[1]) < 3


def test_columns_of_unequal_width() -> None:
    letters = [text(c, x, 100) for c, x in (("A", 50), ("B", 150), ("C", 350), ("D", 430), ("E", 510))]
    edge = column_edge(board(*letters))
    assert edge is not None
    assert [round(edge.at(n)[0] - 4) for n in range(1, 6)] == [50, 150, 350, 430, 510]


def test_no_sheet_no_cell() -> None:
    screen = board(text("A", 0, 0), text("C12", 500, 300), text("7", 0, 300))
    assert column_edge(screen) is None
    assert row_edge(screen) is None
    assert clicked("Click cell C12", screen).how == "exact"


def test_a_cell_beyond_the_screen_is_no_click_there() -> None:
    assert clicked("Click cell ZZ9999", sheet()).how != "cell"
