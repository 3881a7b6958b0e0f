"""Tables that are opened in a spreadsheet: no cell of anybody's text is worked out there."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import howsure
from howsure.runs.files import as_text, from_text, write_csv
from howsure.studies.trust.csv_steps import read_steps_csv

SOURCES = Path(howsure.__file__).parent
FORMULAS = ["=1+1", "+1", "-1+cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", "\n=1", " =1", "＝1+1", "－1", "=HYPERLINK(0)"]
PLAIN = ["", "a=1", "'quoted'", "it's", "2025-01-21", "é", "\\r=1", "(=1)"]


def cells(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("text", FORMULAS)
def test_a_cell_that_begins_like_a_formula_is_text(tmp_path: Path, text: str) -> None:
    write_csv(tmp_path / "t.csv", [{"name": text}])
    assert cells(tmp_path / "t.csv") == [{"name": f"'{text}"}]


def test_numbers_stay_numbers_and_other_texts_what_they_are(tmp_path: Path) -> None:
    numbers = [-1, -0.5, 1e-7, float("-inf"), None, True]
    write_csv(tmp_path / "t.csv", [{"number": number} for number in numbers])
    assert [row["number"] for row in cells(tmp_path / "t.csv")] == ["-1", "-0.5", "1e-07", "-inf", "", "True"]
    assert [as_text(text) for text in PLAIN] == PLAIN


@pytest.mark.parametrize("text", [*FORMULAS, *PLAIN, "'=1", "''=1", "' =1"])
def test_our_own_reader_takes_the_sign_off_again(text: str) -> None:
    assert from_text(as_text(text)) == text


def test_a_carriage_return_ends_no_line_and_begins_no_cell(tmp_path: Path) -> None:
    write_csv(tmp_path / "t.csv", [{"name": "\r=1"}, {"name": "a\r=1"}])
    assert (tmp_path / "t.csv").read_bytes() == b"name\n\\r=1\na\\r=1\n"


def test_the_name_of_a_document_is_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("a b\nb a\n")
    howsure.train_ngram([corpus], tmp_path / "m.arpa", order=1, smoothing="witten-bell")
    Path("=1+cmd.txt").write_text("a b\n")
    howsure.perplexity(["=1+cmd.txt"], "ngram:m.arpa", out="run")
    (row,) = cells(tmp_path / "run" / "documents.csv")
    assert row["document"] == "'=1+cmd.txt"


def test_an_episode_is_read_as_it_was_written(tmp_path: Path) -> None:
    columns = ("step", "episode", "entropy_H_X", "entropy_H_X_given_S", "entropy_H_X_given_LS")
    row = dict(zip(columns, (1, "-first-", 2.0, 1.0, 0.5), strict=True))
    write_csv(tmp_path / "steps.csv", [row])
    assert cells(tmp_path / "steps.csv")[0]["episode"] == "'-first-"
    assert read_steps_csv(tmp_path / "steps.csv").steps.episodes == ("-first-",)


def test_every_table_is_made_in_one_place() -> None:
    writers = ("csv.writer(", "csv.DictWriter(", ".write_csv(", ".to_csv(")
    makers = [p for p in SOURCES.rglob("*.py") if any(word in p.read_text(encoding="utf-8") for word in writers)]
    assert makers == [SOURCES / "runs" / "files.py"]
