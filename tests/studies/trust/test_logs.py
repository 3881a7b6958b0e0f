"""Logs of steps: the documented format, every way in which a file can be wrong, and the figures that come out."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from howsure.errors import InputError
from howsure.studies.trust import csv_steps
from howsure.studies.trust.csv_steps import REASONS, StepLog
from howsure.studies.trust.logs import Recorded, analyse, read_steps_csv

HEAD = "step,timestamp,agent_x,agent_y,entropy_H_X,entropy_H_X_given_S,entropy_H_X_given_LS,trust_T"
DOCUMENT = f"""{HEAD}
1,2025-01-21T16:51:19,5,5,2.3456,1.8765,0.5432,0.2604
2,2025-01-21T16:51:25,5,6,2.1234,1.6543,0.4321,0.2789
"""


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    return path


def row(step: object, *bits: object, trust: object = "") -> str:
    return ",".join(map(str, [step, "t", 1, 1, *bits, trust])) + "\n"


def table(*rows: str) -> str:
    return f"{HEAD}\n{''.join(rows)}"


GOOD = [row(i, f"{2 + i / 100:.4f}", f"{1.5 - i / 50:.4f}", f"{0.5 + i / 70:.4f}") for i in range(1, 13)]


def reasons(log: StepLog) -> list[list[str]]:
    return [[REASONS[code] for code in codes] for codes in log.steps.reason.tolist()]


def bits(log: StepLog) -> list[list[float | None]]:
    return [[None if math.isnan(value) else value for value in values] for values in log.steps.bits.tolist()]


# -- the format ----------------------------------------------------------------------------------------------------


def test_the_documented_lines(tmp_path: Path) -> None:
    """Their printed trusts are 0.2604 and 0.2789; computed they are 0.2603 and 0.2774."""
    found = analyse([write(tmp_path / "steps.csv", DOCUMENT)], seed=0)
    summary = found.summary
    assert not found.failed
    assert summary["coverage"]["text"] == "scored 2 of 2"
    assert summary["ordering"]["both"]["count"] == 2
    assert summary["per_step"]["in_0_1"]["count"] == 2
    assert summary["per_step"]["median"] == pytest.approx((0.26026 + 0.27738) / 2, abs=1e-5)
    assert summary["trust"]["value"] is None, "one episode identifies nothing"
    assert summary["trust"]["delta_h_s_bits"]["value"] == pytest.approx((0.4691 + 0.4691) / 2)
    assert summary["trust"]["delta_h_ls_bits"]["value"] == pytest.approx((1.8024 + 1.6913) / 2)
    assert summary.recorded == Recorded(rows=2, compared=2, differing=1, without_entropies=0)
    assert any(
        "1 of 2 recorded trust_T differ" in note and "line 3 (0.2789 recorded, 0.2774 computed)" in note
        for note in summary["notes"]
    )


def test_columns_in_any_order_and_capitals_among_others(tmp_path: Path) -> None:
    text = "note,ENTROPY_H_X_GIVEN_LS,Entropy_H_X, entropy_H_X_given_S ,x\nhello,0.5,2.0,1.0,\n"
    log = read_steps_csv(write(tmp_path / "a.csv", text))
    assert bits(log) == [[2.0, 1.0, 0.5]]
    assert log.episodes_from == "nothing"
    assert any("taken as one episode" in note for note in log.notes)


@pytest.mark.parametrize("missing", ["", " ", "nan", "NaN", "None", "null", "N/A", "NA", "-nan"])
def test_what_stands_for_a_missing_number(tmp_path: Path, missing: str) -> None:
    log = read_steps_csv(write(tmp_path / "a.csv", table(row(1, 2.0, missing, 0.5), row(2, 2.0, 1.0, 0.5))))
    assert bits(log) == [[2.0, None, 0.5], [2.0, 1.0, 0.5]]
    assert reasons(log)[0] == ["", "empty_field", ""]
    assert log.notes == []


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_delimiters_line_ends_and_byte_order_marks(tmp_path: Path, ending: str, bom: bytes, delimiter: str) -> None:
    text = DOCUMENT.replace(",", delimiter).replace("\n", ending)
    log = read_steps_csv(write(tmp_path / "a.csv", bom + text.encode()))
    assert bits(log) == [[2.3456, 1.8765, 0.5432], [2.1234, 1.6543, 0.4321]]
    assert log.delimiter == delimiter
    assert log.lines.tolist() == [2, 3]
    assert log.steps.episodes == ("1",)


def test_decimal_commas_where_semicolons_stand_between(tmp_path: Path) -> None:
    text = DOCUMENT.replace(",", ";").replace(".", ",")
    assert bits(read_steps_csv(write(tmp_path / "a.csv", text)))[0] == [2.3456, 1.8765, 0.5432]
    mixed = table(row(1, 2, 1, 0.5)).replace(",", ";") + "2;t;1;1;1.234,5;1;0,5;\n"
    log = read_steps_csv(write(tmp_path / "b.csv", mixed))
    assert bits(log)[1] == [None, 1.0, 0.5]
    assert reasons(log)[1][0] == "unreadable"


def test_quotes_with_delimiters_and_lines_in_them(tmp_path: Path) -> None:
    text = f"reasoning,{HEAD}\n" + '"go, then\n""stop""\n",1,t,1,1,2.0,1.0,0.5,0.6667\nx,2,t,1,1,abc,1.0,0.5,\n'
    log = read_steps_csv(write(tmp_path / "a.csv", text))
    assert bits(log) == [[2.0, 1.0, 0.5], [None, 1.0, 0.5]]
    assert log.lines.tolist() == [2, 5]
    assert log.notes == [f"{tmp_path}/a.csv, line 5: entropy_H_X 'abc' is not a number"]


def test_a_header_over_two_lines_and_blank_lines(tmp_path: Path) -> None:
    text = '\n\n"a\nb",entropy_H_X,entropy_H_X_given_S,entropy_H_X_given_LS\n\n,2,1,x\n\n,2,1,0\n'
    log = read_steps_csv(write(tmp_path / "a.csv", text))
    assert bits(log) == [[2.0, 1.0, None], [2.0, 1.0, 0.0]]
    assert log.lines.tolist() == [6, 8]


# -- episodes ------------------------------------------------------------------------------------------------------


def test_a_new_episode_begins_where_the_step_falls(tmp_path: Path) -> None:
    """A step that is there twice is none, and neither is each step of a log that is written newest first."""
    for steps, episodes in (
        ([1, 2, "", 5, 5, 6, 1, "zwei", 2], [0, 0, 0, 0, 0, 0, 1, 1, 1]),
        ([9, 8, 7, 3, 2, 1, 5, 4, 3], [0, 0, 0, 0, 0, 0, 1, 1, 1]),
        ([1, 1, 2, 2, 3, 3], [0] * 6),
        ([4, 4, 4, 4], [0] * 4),
    ):
        log = read_steps_csv(write(tmp_path / "a.csv", table(*(row(step, 2, 1, 0.5) for step in steps))))
        assert log.steps.episode.tolist() == episodes
        assert log.steps.episodes == tuple(str(i + 1) for i in range(episodes[-1] + 1))
        assert log.episodes_from == "step"


def test_a_chain_is_one_unit_even_where_its_first_episode_is_not_in_the_log(tmp_path: Path) -> None:
    rows = [f"{e},1,{row(i, 2 + e / 100, 1.5 - i / 50, 0.5)}" for e in range(2, 9) for i in range(1, 5)]
    log = read_steps_csv(write(tmp_path / "a.csv", f"episode,chain,{HEAD}\n{''.join(rows)}"))
    assert len(set(log.steps.unit.tolist())) == 1
    rows = [f"0{e},1,{row(i, 2 + e / 100, 1.5 - i / 50, 0.5)}" for e in range(1, 6) for i in range(1, 5)]
    log = read_steps_csv(write(tmp_path / "b.csv", f"episode,first_episode,{HEAD}\n{''.join(rows)}"))
    assert len(set(log.steps.unit.tolist())) == 1


def test_a_column_tells_episodes_whatever_the_steps(tmp_path: Path) -> None:
    rows = [("b", 1), ("a", 2), ("", 3), ("b", 1), ("a", 1)]
    text = f"episode,{HEAD}\n" + "".join(f"{name},{row(step, 2, 1, 0.5)}" for name, step in rows)
    log = read_steps_csv(write(tmp_path / "a.csv", text + "too,short\n"))
    assert log.steps.episodes == ("b", "a", "(no episode)")
    assert log.steps.episode.tolist() == [0, 1, 2, 0, 1, 1], "a row that cannot be used goes with the one before"
    assert f"{tmp_path}/a.csv: 1 row names no episode and is taken as one, (no episode)" in log.notes


def other(more: float) -> list[str]:
    """An episode like `GOOD` with more entropy in X."""
    return [row(i, f"{2 + more + i / 100:.4f}", f"{1.5 - i / 50:.4f}", f"{0.5 + i / 70:.4f}") for i in range(1, 13)]


def test_copies_are_one_whether_or_not_a_log_says_so(tmp_path: Path) -> None:
    """Eight times the same numbers, in one file or in eight, say nothing of chance."""
    one = write(tmp_path / "one.csv", table(*GOOD * 8))
    trust = analyse([one]).summary["trust"]
    assert (trust["episode_count"], trust["independent_episodes"], trust["value"]) == (8, 1, None)
    assert trust["reason"] == "1 independent of 8 episodes, and T takes at least 5"
    many = [write(tmp_path / f"{i}.csv", table(*GOOD)) for i in range(5)]
    trust = analyse([*many, write(tmp_path / "other.csv", table(*other(0.1)))]).summary["trust"]
    assert (trust["episode_count"], trust["independent_episodes"]) == (6, 2)


def test_files_have_episodes_of_their_own(tmp_path: Path) -> None:
    one, two = write(tmp_path / "one.csv", table(*GOOD)), write(tmp_path / "two.csv", table(*other(0.01)))
    again = write(tmp_path / "three.csv", table(*other(0.02), *other(0.03)))
    summary = analyse([one, two, again]).summary
    assert [entry["episode"] for entry in summary["episodes"]] == [
        str(one), str(two), f"{again}, 1", f"{again}, 2",
    ]  # fmt: skip
    assert summary["trust"]["independent_episodes"] == 4
    assert [(entry["file"], entry["rows"]) for entry in summary["files"]] == [
        (str(one), 12), (str(two), 12), (str(again), 24),
    ]  # fmt: skip
    assert [entry["trust"]["reason"] for entry in summary["files"]] == [
        "1 episode, and T takes at least 5", "1 episode, and T takes at least 5", "2 episodes, and T takes at least 5",
    ]  # fmt: skip
    many = write(tmp_path / "many.csv", table(*GOOD * 5))
    summary = analyse([one, many]).summary
    assert summary["trust"]["value"] == pytest.approx(summary["files"][1]["trust"]["value"])
    assert summary["files"][0]["trust"]["value"] is None


def test_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", table(*GOOD))
    other = tmp_path / "b.csv"
    other.symlink_to(path)
    summary = analyse([path, other]).summary
    assert summary["rows"]["of"] == 12
    assert f"{other} is the file {path}, and is read once" in summary["notes"]


# -- rows and fields that cannot be used ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "reason", "words"),
    [
        (row(3, "abc", 1, 0.5), "unreadable", "line 14: entropy_H_X 'abc' is not a number"),
        (row(3, "1_000", 1, 0.5), "unreadable", "line 14: entropy_H_X '1_000' is not a number"),
        (row(3, "2\0", 1, 0.5), "unreadable", r"line 14: entropy_H_X '2\x00' is not a number"),
        (row(3, "x" * 100, 1, 0.5), "unreadable", f"line 14: entropy_H_X '{'x' * 60}…' is not a number"),
        (row(3, -0.5, 1, 0.5), "impossible", "line 14: entropy_H_X '-0.5' cannot be an entropy (0 to 1,000,000 bits)"),
        (row(3, "inf", 1, 0.5), "impossible", "line 14: entropy_H_X 'inf' cannot be an entropy"),
        (row(3, "1e400", 1, 0.5), "impossible", "line 14: entropy_H_X '1e400' cannot be an entropy"),
        (row(3, "1737478279", 1, 0.5), "impossible", "line 14: entropy_H_X '1737478279' cannot be an entropy"),
        ("3,t,1,1,2.0\n", "too_few_fields", "line 14: 5 fields where the header has 8, so that the row is not used"),
        ("3\n", "too_few_fields", "line 14: 1 field where the header has 8"),
        (row(3, 2.0, 1, 0.5, trust="0.1,9"), "too_many_fields", "line 14: 9 fields where the header has 8"),
        ('3,"t"x,1,1,2,1,0.5,\n', "bad_quotes", "line 14: the row cannot be read as CSV"),
        ("3,t\rt,1,1,2,1,0.5,\n", "bad_quotes", "line 14: the row cannot be read as CSV"),
    ],
)
def test_a_row_that_cannot_be_used_is_counted_and_told(tmp_path: Path, line: str, reason: str, words: str) -> None:
    path = write(tmp_path / "a.csv", table(*GOOD, line, *GOOD))
    log = read_steps_csv(path)
    assert len(log.steps) == 25
    assert reasons(log)[12][0] == reason
    assert bits(log)[12][0] is None
    assert [note for note in log.notes if note.startswith(f"{path}, {words}")], log.notes
    assert bits(log)[13:] == bits(log)[:12], "and the rows behind it are read as ever"
    summary = analyse([path]).summary
    assert summary["coverage"]["missing"] == {reason: 1}
    assert summary["trust"]["steps"] == 24


@pytest.mark.parametrize(
    ("tail", "reason", "words"),
    [
        ("13,t,1,1,2.0,1", "torn_last_line", "line 14: the last line breaks off after 6 fields of 8, and is not used"),
        ('13,t,1,1,2.0,1,0.5,"0.6', "torn_last_line", "line 14: the last line breaks off within quotes"),
        ("\0" * 512, "torn_last_line", "line 14: the last line breaks off after 1 field of 8"),
        ('13,"t,1,1,2.0\n14,t,1\n15,t\n', "open_quote", "line 14: a quote that is opened there is never closed: the 3"),
    ],
)
def test_a_torn_end(tmp_path: Path, tail: str, reason: str, words: str) -> None:
    path = write(tmp_path / "a.csv", table(*GOOD) + tail)
    lost = 3 if reason == "open_quote" else 1
    log = read_steps_csv(path)
    assert len(log.steps) == 12 + lost
    assert reasons(log)[12:] == [[reason] * 3] * lost
    assert len(log.notes) == 1
    assert log.notes[0].startswith(f"{path}, {words}")
    assert analyse([path]).summary["coverage"]["missing"] == {reason: lost}


def test_a_last_line_without_its_end_is_whole_if_its_fields_are(tmp_path: Path) -> None:
    log = read_steps_csv(write(tmp_path / "a.csv", DOCUMENT.rstrip("\n")))
    assert bits(log)[1] == [2.1234, 1.6543, 0.4321]
    assert log.notes == []


def test_every_kind_of_fault_is_told_a_few_times_and_then_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", table(*GOOD, *[row(1, "x", 1, 0.5)] * 10, *["1,2\n"] * 5))
    notes = read_steps_csv(path).notes
    assert [note for note in notes if "is not a number" in note] == [
        f"{path}, line {line}: entropy_H_X 'x' is not a number" for line in (14, 15, 16)
    ]
    assert f"{path}: 7 more fields that are no numbers" in notes
    assert f"{path}: 2 more rows of too few fields" in notes
    assert f"{path} has no column episode: its rows are taken as 2 episodes, each from where step falls" in notes
    assert len(notes) == 9


def test_a_shifted_row_is_never_read_as_numbers(tmp_path: Path) -> None:
    """A comma that was not put in quotes moves every number behind it by a column."""
    log = read_steps_csv(write(tmp_path / "a.csv", table("1,t, with a comma,1,1,2.0,1.0,0.5,0.67\n")))
    assert bits(log) == [[None, None, None]]


@pytest.mark.parametrize("lacking", ["entropy_H_X", "entropy_H_X_given_S", "entropy_H_X_given_LS"])
def test_a_file_without_one_of_the_entropies(tmp_path: Path, lacking: str) -> None:
    path = write(tmp_path / "a.csv", table(*GOOD).replace(f"{lacking},", "other,", 1))
    summary = analyse([path]).summary
    assert summary["rows"]["count"] == 0
    assert summary["coverage"]["missing"] == {"no_column": 12}
    assert f"{path} has no column {lacking}, so that none of its rows is complete" in summary["notes"]
    assert summary["files"][0]["columns_missing"] == [lacking]
    assert summary["trust"]["reason"] == "no step has all three entropies"


# -- files that cannot be read -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "{path} is empty; its first line must name the columns, such as step,entropy_H_X,"),
        ("\n \n", "{path} is empty"),
        (b"\xef\xbb\xbf", "{path} is empty"),
        ("step,a,b\n1,2,3\n", "{path} has none of the columns entropy_H_X, entropy_H_X_given_S, entropy_H_X_given_LS; "
         "it has step, a, b"),
        (",,,\n", "{path} has none of the columns"),
        ("1,2025-01-21,5,5,2.3,1.8,0.5,0.26\n", "{path}, line 1 holds numbers where the names of the columns should"),
        ("1;2,3;1,8;0,5\n", "{path}, line 1 holds numbers"),
        (f"{HEAD},entropy_h_x\n", "{path} names the column entropy_H_X 2 times, as its columns 5 and 9"),
        (f"step,{HEAD}\n", "{path} names the column step 2 times, as its columns 1 and 2"),
        (DOCUMENT.encode() + b"3,\xff,1,1,2,1,0.5,\n", "{path}, line 4: byte 202 (0xff) is not UTF-8; save"),
        (b"\xef\xbb\xbf" + DOCUMENT.encode() + b"3,\xff", "{path}, line 4: byte 205 (0xff) is not UTF-8"),
        (DOCUMENT.encode("utf-16"), "{path}, line 1: byte 0 (0xff) is not UTF-8"),
        (DOCUMENT.encode("utf-16-le"), "{path}, line 1 holds a NUL byte, as UTF-16 and binary files do"),
        (DOCUMENT.replace("\n", "\r"), "{path}: its lines end in a lone carriage return"),
        (table(*GOOD) + f'13,"{"x" * 200_000}",1,1,2,1,0.5,\n', "{path}, line 14: a field is longer than 131,072"),
        (table(*GOOD) + '13,"t,1\n' + "".join(GOOD) * 900, "{path}, line 14: a field is longer than 131,072"),
        ("x" * 200_000, "{path}, line 1 cannot be read as the header of a CSV file: field larger than field limit"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, content: str | bytes, words: str) -> None:
    path = write(tmp_path / "bad.csv", content)
    with pytest.raises(InputError) as caught:
        read_steps_csv(path)
    assert str(caught.value).startswith(words.replace("{path}", str(path)))
    good = write(tmp_path / "good.csv", table(*GOOD))
    found = analyse([path, good])
    assert found.failed
    assert found.summary["problems"] == [str(caught.value)]
    assert found.summary["rows"]["count"] == 12
    with pytest.raises(InputError, match="^there is no step to analyse: "):
        analyse([path])


@pytest.mark.parametrize("rest", ["1," * 1000, '1,"a\n",' + '"b\n",' * 200 + "\n"])
def test_a_row_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rest: str) -> None:
    monkeypatch.setattr(csv_steps, "LONGEST_ROW_BYTES", 1000)
    path = write(tmp_path / "a.csv", DOCUMENT + rest)
    with pytest.raises(InputError, match=r"a.csv, line 4: the row is longer than 1,000 bytes; this is no CSV file"):
        read_steps_csv(path)
    good = write(tmp_path / "b.csv", table(*GOOD * 9))
    assert len(read_steps_csv(good).steps) == 108, "rows, not files, are bounded"


def test_a_quote_in_the_header_loses_no_row(tmp_path: Path) -> None:
    """One within a name opens nothing; one that opens under another delimiter is told where rows were looked at."""
    log = read_steps_csv(write(tmp_path / "a.csv", table(*GOOD).replace("timestamp", '5" screen')))
    assert len(log.steps) == 12
    path = write(tmp_path / "b.csv", table(*GOOD).replace(",", ";").replace("timestamp", 'a,"b'))
    with pytest.raises(InputError, match=r"b.csv, line 1: a quote that is opened there is never closed; take it out"):
        read_steps_csv(path)


def test_a_row_is_torn_only_where_the_file_ends(tmp_path: Path) -> None:
    log = read_steps_csv(write(tmp_path / "a.csv", table("1,t\n", '2,"t"x')))
    assert reasons(log) == [["too_few_fields"] * 3, ["bad_quotes"] * 3]


def test_places_that_are_no_files(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(InputError, match=r"run is a folder; name CSV files$"):
        read_steps_csv(run)
    write(run / "steps.csv", DOCUMENT)
    with pytest.raises(InputError, match=r"run is a folder; name the file in it: .*run/steps\.csv$"):
        read_steps_csv(run)
    with pytest.raises(InputError, match="pipe is not a file but a pipe or a device"):
        read_steps_csv(pipe)
    with pytest.raises(InputError, match=r"nowhere\.csv is not there; check the path"):
        read_steps_csv(tmp_path / "nowhere.csv")
    with pytest.raises(InputError, match=r"is not a file name \(embedded null byte"):
        analyse(["a\0b"])


def test_a_pipe_of_the_shell_is_read(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, DOCUMENT.encode())
    os.close(writing)
    try:
        assert len(read_steps_csv(f"/dev/fd/{reading}").steps) == 2
    finally:
        os.close(reading)


def test_a_header_and_nothing_else(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", HEAD)
    log = read_steps_csv(path)
    assert len(log.steps) == 0
    assert log.notes == [f"{path} holds a header and no row"]
    with pytest.raises(InputError, match=r"there is no step to analyse: .*a\.csv holds a header and no row$"):
        analyse([path])
    with pytest.raises(InputError, match="name CSV files with the columns entropy_H_X"):
        analyse([])
    found = analyse([path, write(tmp_path / "b.csv", table(*GOOD))])
    assert not found.failed
    assert found.summary["rows"]["of"] == 12


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff.csv"
    with open(path, "wb") as file:
        file.write(table(*GOOD).encode())
    summary = analyse([os.fsdecode(path)]).summary
    assert summary["files"][0]["file"].endswith("/\\xff.csv")
    json.dumps(msgspec.to_builtins(summary), allow_nan=False).encode("utf-8")


# -- what a log says of trust itself -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entropies", "trust", "differing"),
    [
        (("2.3456", "1.8765", "0.5432"), "0.2603", 0),
        (("2.3456", "1.8765", "0.5432"), "0.2604", 0),  # within a thousandth
        (("2.3456", "1.8765", "0.5432"), "0.2789", 1),
        (("1.01", "0.98", "0.93"), "0.45", 0),  # 0.375 computed; rounded to 0.01 it may be anything from 0.22 to 0.57
        (("1.01", "0.98", "0.93"), "0.65", 1),
        (("1.010000", "0.980000", "0.930000"), "0.450000", 1),
        (("1.00", "0.98", "1.00"), "7.5", 0),  # rounded away: nothing can be said
    ],
)
def test_recorded_trusts_may_differ_by_rounding(
    tmp_path: Path, entropies: tuple[str, ...], trust: str, differing: int
) -> None:
    path = write(tmp_path / "a.csv", table(row(1, *entropies, trust=trust), row(2, 2, 1, "")))
    recorded = analyse([path]).summary["recorded"]
    assert (recorded["rows"], recorded["differing"]) == (1, differing)


def test_a_trust_without_its_entropies_is_told(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", table(*GOOD, row(13, 2, "", 0.5, trust=0.3)))
    summary = analyse([path]).summary
    assert summary["recorded"]["without_entropies"] == 1
    assert any(
        note.startswith(f"{path}: 1 row records a trust_T without the three entropies") for note in summary["notes"]
    )
    assert summary["trust"]["steps"] == 12


# -- should it be sure? --------------------------------------------------------------------------------------------


def test_probabilities_and_the_shortest_path_are_judged(tmp_path: Path) -> None:
    lines = ["0.9,1", "0.8,0", ",1", "0.7,", "1.5,1", "0.6,0.5", "0.6,true", "x,False"]
    text = f"action_probability,on_shortest_path,{HEAD}\n"
    text += "".join(f"{line},{row(i, 2, 1, 0.5)}" for i, line in enumerate(lines))
    path = write(tmp_path / "a.csv", text)
    summary = analyse([path]).summary
    found = summary["sureness"]
    assert (found["actions"], found["not_judged"], found["without_probability"]) == (6, 2, 3)
    assert found["agreement"]["count"] == 4
    assert found["calibration"]["mean_confidence"] == pytest.approx((0.9 + 0.8 + 0.6) / 3)
    for words in (
        "line 6: action_probability '1.5' cannot be a probability (0 to 1)",
        "line 7: on_shortest_path '0.5' cannot be a yes or no (1 or 0)",
        "line 9: action_probability 'x' is not a number",
    ):
        assert f"{path}, {words}" in summary["notes"]
    assert summary["rows"]["count"] == 8
    assert analyse([write(tmp_path / "b.csv", table(*GOOD))]).summary["sureness"] is None


# -- anything ------------------------------------------------------------------------------------------------------


def test_the_summary_is_plain_data_and_the_same_twice(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", table(*GOOD, row(3, "x", 1, ""), *GOOD))
    first, second = (analyse([path], seed=5).summary for _ in range(2))
    assert first == second
    plain = msgspec.to_builtins(first)
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert first["study"] == "trust"
    assert analyse([path], seed=6).summary["trust"]["value"] == first["trust"]["value"]


@pytest.mark.parametrize("second", ["timestamp", "episode"])
def test_portions_do_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: str) -> None:
    """However many rows are taken at a time, a file gives the same steps, lines and sentences."""
    lines = [
        *GOOD,
        row(1, "x", 1, ""),
        row(1, 2, "x", "x"),
        row(1, "x", "x", "x"),
        "1,2\n",
        "\n",
        *GOOD,
        '5,"t\nt",1,1,2,1,0.5,\n',
        '6,"t"x,1,1,2,1,0.5,\n',
        *GOOD,
    ]
    path = write(tmp_path / "a.csv", table(*lines).replace("timestamp", second) + "7,t")
    found = []
    for size in (2048, 1, 3, 14):
        monkeypatch.setattr(csv_steps, "ROWS_AT_A_TIME", size)
        log = read_steps_csv(path)
        found.append((bits(log), reasons(log), log.lines.tolist(), log.steps.episode.tolist(), sorted(log.notes)))
    assert all(one == found[0] for one in found[1:])
    assert len(found[0][0]) == 12 * 3 + 7


CELLS = st.one_of(
    st.sampled_from(["", "nan", "None", "1.5", "0", "-1", "inf", "x", "1e5", "2,5", '"', "\0", "\r", "\n", "é", "1_0"]),
    st.floats(0, 5).map(repr),
    st.text(max_size=6),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(CELLS, min_size=8, max_size=8), max_size=8), st.sampled_from([",", ";", "\t"]))
def test_whatever_is_written_as_csv_is_read_as_so_many_rows(tmp_path: Path, rows: list[list[str]], sign: str) -> None:
    """Against the values themselves: every number that a writer puts in comes out, and nothing else does."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=sign, quoting=csv.QUOTE_ALL)
    writer.writerows([HEAD.split(","), *rows])
    path = write(tmp_path / "any.csv", text.getvalue().encode("utf-8", errors="replace"))
    log = read_steps_csv(path)
    assert len(log.steps) == len(rows)
    expected: list[list[float | None]] = [[_naive(cell, sign) for cell in cells[4:7]] for cells in rows]
    assert bits(log) == expected
    known = np.array([[reason == "" for reason in row] for row in reasons(log)], dtype=bool).reshape(-1, 3)
    assert (known == ~np.isnan(log.steps.bits)).all()


def _naive(cell: str, sign: str) -> float | None:
    text = cell.strip()
    if sign == ";" and "." not in text:
        text = text.replace(",", ".")
    try:
        value = float(text) if "_" not in text else math.nan
    except ValueError:
        return None
    return value if 0 <= value <= 1e6 else None


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.binary(max_size=300), st.binary(max_size=200).map(lambda tail: DOCUMENT.encode() + tail)))
def test_any_bytes_end_in_steps_or_in_a_sentence(tmp_path: Path, content: bytes) -> None:
    path = write(tmp_path / "any.csv", content)
    try:
        summary: dict[str, Any] = analyse([path]).summary
    except InputError as error:
        assert str(path) in str(error)
        return
    assert summary["rows"]["of"] >= 1
    json.dumps(msgspec.to_builtins(summary), allow_nan=False)
