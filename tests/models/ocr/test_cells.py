"""Cells by the letters and numbers around them, those that were not read filled in."""

from __future__ import annotations

import pytest

from howsure.models.ocr.cells import CellName, cell_name, column_edge, column_number, row_edge
from howsure.models.ocr.screen import Screen

from .boards import board, clicked, hits, sheet, text


@pytest.mark.parametrize(
    ("instruction", "name"),
    [
        ("Click cell C12", CellName("C", 12)),
        ("click the cell 'B7'", CellName("B", 7)),
        ("Click on the U42 in the sheet", CellName("U", 42)),
        ('Select the item at "I-3"', CellName("I", 3)),
        ("Select column I, row 3", CellName("I", 3)),
        ('Click row 3 in column "I"', CellName("I", 3)),
        ("Click cell AA10", CellName("AA", 10)),
        ("Click column D", CellName("D", None)),
        ("Click to select the row 17", CellName(None, 17)),
        ("Click the cell", None),
        ("Click =SUM(B2:B3)", None),
        ('Click "Q4 report"', None),
        ('Click "Save"', None),
        ("the second row of the table", None),
        ("", None),
    ],
)
def test_names_of_cells_and_headers(instruction: str, name: CellName | None) -> None:
    assert cell_name(instruction) == name


def test_columns_are_counted_in_letters() -> None:
    assert [column_number(letters) for letters in ("A", "Z", "AA", "AZ", "BA", "ZZ", "AAA")] == [
        1,
        26,
        27,
        52,
        53,
        702,
        703,
    ]


def at(column: int, row: int) -> tuple[float, float]:
    """The middle of a cell of the sheet of boards.py."""
    return 104 + 80 * (column - 1), 128 + 20 * (row - 1)


def near(choice: tuple[float, float], wanted: tuple[float, float]) -> bool:
    return abs(choice[0] - wanted[0]) < 12 and abs(choice[1] - wanted[1]) < 6


@pytest.mark.parametrize(
    ("screen", "cell", "column", "row"),
    [
        (sheet(), "C12", 3, 12),
        (sheet(left_out="C", rows_out=frozenset({12})), "C12", 3, 12),
        (sheet(left_out="CDE", rows_out=frozenset(range(8, 15))), "D12", 4, 12),
    ],
    ids=["all read", "its own are missing", "a stretch is missing"],
)
def test_a_cell_is_where_its_column_and_row_cross(screen: Screen, cell: str, column: int, row: int) -> None:
    choice = clicked(f"Click cell {cell}", screen)
    assert (choice.how, choice.words) == ("cell", cell)
    assert near((choice.x, choice.y), at(column, row))


def test_a_cell_is_not_a_text_of_that_name() -> None:
    named = text("C12", 20, 40)
    screen = sheet()
    screen = board(*screen.texts, named)
    assert not hits(clicked("Click cell C12", screen), named)


def test_headers_are_clicked_on_the_edges() -> None:
    column = clicked("Click column F", sheet(left_out="F"))
    assert near((column.x, column.y), (at(6, 1)[0], 108))
    row = clicked("Click the row number 17", sheet(rows_out=frozenset({17})))
    assert near((row.x, row.y), (28, at(1, 17)[1]))


def test_misread_numbers_and_numbers_in_the_sheet_are_left_out() -> None:
    screen = sheet(rows_out=frozenset({6, 9}))
    noise = [text("61", 20, 220), text("1", 20, 280), *(text(str(n * 7 % 90), 340, 120 + 20 * n) for n in range(15))]
    edge = row_edge(board(*screen.texts, *noise))
    assert edge is not None
    for row in range(1, 21):
        assert abs((edge.at(row) or 0) - at(1, row)[1]) < 3


def test_columns_of_unequal_width() -> None:
    letters = [text(c, x, 100) for c, x in (("A", 50), ("B", 150), ("C", 350), ("D", 430), ("E", 510))]
    edge = column_edge(board(*letters))
    assert edge is not None
    assert [round((edge.at(n) or 0) - 4) for n in range(1, 6)] == [50, 150, 350, 430, 510]


def test_no_sheet_no_cell() -> None:
    screen = board(text("A", 0, 0), text("C12", 500, 300), text("7", 0, 300))
    assert column_edge(screen) is None
    assert row_edge(screen) is None
    assert clicked("Click cell C12", screen).how == "exact"


def test_a_cell_beyond_what_was_read_is_not_clicked() -> None:
    assert clicked("Click cell ZZ9999", sheet()).how != "cell"
    assert clicked("Click cell A5", sheet(left_out="AB")).how != "cell"
