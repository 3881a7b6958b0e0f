"""Tables that any reader takes apart again as they were put together."""

from __future__ import annotations

import csv
from pathlib import Path

from howsure.runs.files import write_csv


def test_cells_survive_whatever_stands_in_them(tmp_path: Path) -> None:
    rows = [
        {"name": 'a "quoted", name', "value": 1.5},
        {"name": "two\nlines", "value": None},
        {"name": "back\rto the start", "more": True},
        {"name": "half \ud83d"},
    ]
    write_csv(tmp_path / "t.csv", rows)
    with open(tmp_path / "t.csv", newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    assert [row["name"] for row in found] == ['a "quoted", name', "two\nlines", "back\\rto the start", "half \\ud83d"]
    assert [row["value"] for row in found] == ["1.5", "", "", ""]
    assert [row["more"] for row in found] == ["", "", "True", ""]


def test_chosen_columns_and_no_rows(tmp_path: Path) -> None:
    write_csv(tmp_path / "t.csv", [{"b": 1, "c": 2}], ("a", "b"))
    assert (tmp_path / "t.csv").read_text() == "a,b\n,1\n"
    write_csv(tmp_path / "none.csv", [], ("a", "b"))
    assert (tmp_path / "none.csv").read_text() == "a,b\n"
