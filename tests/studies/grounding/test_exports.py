"""The files of each user: whole whenever one looks, mended after a crash, and the same however a run came about."""

from __future__ import annotations

import errno
import json
import os
import random
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from howsure.errors import StorageError
from howsure.runs import Sample
from howsure.studies.grounding import exports
from howsure.studies.grounding.exports import UserFiles, by_user, safe_name
from howsure.studies.grounding.judge import GroupFigures, judge_group
from studies.grounding.clicks_on_paper import about, answered, failed, run_of

DOCUMENT_FIELDS = ["pred_raw", "pred_coord", "gt_coord", "pred_content", "gt_content"]


def figures(samples: Sequence[Sample]) -> GroupFigures:
    """Three figures, written out."""
    distances = [s.result.l2 for s in samples if s.result.l2 is not None]
    return msgspec.structs.replace(
        judge_group([], delta=140.0),
        accuracy=sum(s.result.within_delta is True for s in samples) / len(samples),
        mean_l2=statistics.fmean(distances) if distances else None,
        median_l2=statistics.median(distances) if distances else None,
    )


def samples_of(count: int = 12) -> list[Sample]:
    """Two users and one sample of nobody; misses, wrong formats and failures among them."""
    made = []
    for i in range(count):
        item = about(user=None if i == 5 else str(1 + i % 2), instruction=f"item {i}")
        if i == 3:
            made.append(answered(f"s{i}", i, item, None))
        elif i == 4:
            made.append(failed(f"s{i}", i, item))
        else:
            made.append(answered(f"s{i}", i, item, (500.0 + 30 * i, 500.0)))
    return made


def read(path: Path) -> list[dict[str, Any]]:
    found = json.loads(path.read_bytes())
    assert isinstance(found, list)
    return found


def files_in(folder: Path) -> dict[str, bytes]:
    names = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name[0] != "."]
    return {str(path.relative_to(folder)): path.read_bytes() for path in names}


# -- out.json ---------------------------------------------------------------------------------------------------------


def test_every_sample_is_in_the_file_of_its_user_as_soon_as_it_is_appended(tmp_path: Path) -> None:
    files = UserFiles(tmp_path, [])
    for seen, sample in enumerate(samples_of(), 1):
        files.append([sample])
        found = [row for path in tmp_path.rglob("out.json") for row in read(path)]
        assert len(found) == seen, "whole JSON after every sample, and nothing missing"
    assert [row["id"] for row in read(tmp_path / "user_1" / "out.json")] == ["s0", "s2", "s4", "s6", "s8", "s10"]
    assert [row["id"] for row in read(tmp_path / "user_2" / "out.json")] == ["s1", "s3", "s7", "s9", "s11"]
    assert [row["id"] for row in read(tmp_path / "out.json")] == ["s5"]


def test_what_a_row_holds(tmp_path: Path) -> None:
    UserFiles(tmp_path, samples_of())
    rows = {row["id"]: row for path in tmp_path.rglob("out.json") for row in read(path)}
    assert list(rows["s0"])[1:6] == DOCUMENT_FIELDS
    assert rows["s0"]["pred_coord"] == [500.0, 500.0]
    assert rows["s0"]["hit"] is True
    assert rows["s0"]["labels"] == {"user": ["1"]}
    wrong, lost = rows["s3"], rows["s4"]
    assert (wrong["pred_coord"], wrong["l2"], wrong["hit"], wrong["why_not"]) == (None, None, False, "no_numbers")
    assert wrong["pred_raw"] == "I would rather not"
    assert (lost["pred_raw"], lost["pred_coord"], lost["hit"], lost["says"]) == (None, None, None, None)
    assert (lost["reason"], lost["detail"]) == ("no_answer", "the server hung up")
    assert lost["gt_coord"] == [500.0, 500.0], "what is known of the item stays"
    assert set(wrong) == set(lost) == set(rows["s0"]), "the same fields in every row"


def test_a_sample_of_several_users_is_in_the_file_of_each(tmp_path: Path) -> None:
    UserFiles(tmp_path, [answered("both", 0, about(user=["1", "2"]), (1.0, 2.0))])
    assert [read(tmp_path / f"user_{user}" / "out.json")[0]["id"] for user in (1, 2)] == ["both", "both"]


def test_an_append_is_one_write_over_the_closing_bracket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two writes would leave a moment in which a reader finds an open list."""
    files = UserFiles(tmp_path, samples_of(1))
    path = tmp_path / "user_1" / "out.json"
    before, calls = path.read_bytes(), []
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda *args: (calls.append(args[1:]), real(*args))[1])
    files.append([s for s in samples_of() if s.id in ("s2", "s6")])
    (block, start), *others = calls
    assert not others
    assert start == len(before) - len(b"\n]\n")
    assert path.read_bytes() == before[:start] + block, "what was there is not written again"


def test_the_cost_of_an_append_does_not_grow_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    item = about(user="7")
    files = UserFiles(tmp_path, [answered(f"k{i}", i, item, (1.0, 1.0)) for i in range(3700)])
    written = []
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda *args: (written.append(len(args[1])), real(*args))[1])
    files.append([answered("last", 3700, item, (1.0, 1.0))])
    assert sum(written) < 2000
    assert len(read(tmp_path / "user_7" / "out.json")) == 3701


def test_a_torn_or_outdated_file_is_mended_from_the_samples(tmp_path: Path) -> None:
    made = samples_of()
    UserFiles(tmp_path, made[:6])
    torn = tmp_path / "user_1" / "out.json"
    torn.write_bytes(torn.read_bytes()[:-25])
    (tmp_path / "user_2" / "out.json").unlink()
    UserFiles(tmp_path, made[:8])
    assert [row["id"] for row in read(torn)] == ["s0", "s2", "s4", "s6"]
    assert [row["id"] for row in read(tmp_path / "user_2" / "out.json")] == ["s1", "s3", "s7"]


def test_samples_that_were_taken_back_are_no_longer_in_the_files(tmp_path: Path) -> None:
    """--retry-failed drops failed samples: a user who had nothing else starts empty."""
    lost = failed("s0", 0, about(user="9"))
    UserFiles(tmp_path, [lost, failed("s1", 1, about())])
    files = UserFiles(tmp_path, [])
    assert read(tmp_path / "user_9" / "out.json") == read(tmp_path / "out.json") == []
    files.append([answered("s0", 0, about(user="9"), (1.0, 2.0))])
    assert [row["reason"] for row in read(tmp_path / "user_9" / "out.json")] == [None]


@pytest.mark.parametrize("partly", [0, 1, 40])
def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partly: int) -> None:
    files = UserFiles(tmp_path, samples_of(1))
    path = tmp_path / "user_1" / "out.json"
    before, real, calls = path.read_bytes(), os.pwrite, []

    def full(handle: int, block: bytes, start: int) -> int:
        calls.append(start)
        if len(calls) == 1 and partly:
            return real(handle, block[:partly], start)
        if len(calls) <= 2 and not (partly == 0 and len(calls) == 2):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(handle, block, start)

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(StorageError, match="the disk is full"):
        files.append(samples_of()[2:3])
    assert path.read_bytes() == before


# -- names from outside -----------------------------------------------------------------------------------------------

NAMES = ["1", "alice", "Alice", "../x", "..", ".", "", "/etc", "a/b", "a_b", "a b", "a\x00b", "é", "e", "x" * 300, "-"]


def test_names_neither_leave_the_folder_nor_meet() -> None:
    found = [safe_name(name) for name in NAMES]
    assert len({name.lower() for name in found}) == len(NAMES)
    assert found[:2] == ["1", "alice"], "harmless names stay as they are"
    assert all("/" not in name and "." not in name and "\x00" not in name and len(name) < 100 for name in found)


def test_a_name_that_looks_like_a_cleaned_one_does_not_take_its_place() -> None:
    cleaned = safe_name("Alice")
    assert safe_name(cleaned) != cleaned
    assert safe_name(cleaned.lower()).lower() != cleaned.lower()


@given(st.sets(st.text(max_size=80), max_size=8))
def test_distinct_names_stay_distinct(names: set[str]) -> None:
    found = [safe_name(name).lower() for name in names]
    assert len(set(found)) == len(names)
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789._-") and name[0] not in "." for name in found)


def test_hostile_users_stay_in_the_run_folder(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    made = [answered(f"s{i}", i, about(user=name), (1.0, 1.0)) for i, name in enumerate(NAMES)]
    files = UserFiles(run, made)
    files.finish(140.0, made, figures)
    assert list(tmp_path.iterdir()) == [run]
    assert len(list(run.glob("user_*/out.json"))) == len(NAMES)
    assert [len(read(path)) for path in run.glob("user_*/out.json")] == [1] * len(NAMES)


def test_half_characters_and_line_ends_do_no_harm(tmp_path: Path) -> None:
    item = about(user="\ud800\n\x1b[2J")
    made = [answered("s", 0, item, (1.0, 1.0), pred_raw="\ud800 (1, 1)\r\n\u2028")]
    files = UserFiles(tmp_path, [])
    files.append(made)
    files.finish(140.0, made, figures)
    (path,) = tmp_path.glob("user_*/out.json")
    assert read(path)[0]["pred_raw"] == "\ufffd (1, 1)\r\n\u2028"
    assert (path.parent / "results.txt").read_text("utf-8").splitlines()[0] == "===== User    [2J ====="


# -- the end ----------------------------------------------------------------------------------------------------------


def test_results_are_those_of_the_user_in_the_known_form(tmp_path: Path) -> None:
    made = samples_of()
    run_of(tmp_path, made)
    UserFiles(tmp_path, made).finish(140.0, made, figures)
    # User 2: s1, s3 (wrong format), s7, s9, s11 at 30, 210, 270 and 330 thousandths.
    text = (tmp_path / "user_2" / "results.txt").read_text()
    assert text.startswith(
        "===== User 2 =====\n{\n    'accuracy': 0.2000,\n    'mean_l2': 210.00,\n    'median_l2': 240.00\n}\n\n"
    )
    assert eval(text[text.index("{") : text.index("}") + 1]) == {  # the form that scripts take it for
        "accuracy": 0.2, "mean_l2": 210.0, "median_l2": 240.0
    }  # fmt: skip
    for line in ("samples: 5", "wrong format: 1 (", "failed: 0\n", "delta: 140 ", "parser: strict", "relative-1000"):
        assert line in text
    assert "failed: 1 (no answer)" in (tmp_path / "user_1" / "results.txt").read_text()
    exact = json.loads((tmp_path / "user_1" / "results.json").read_text())
    distances = [0.0, 60.0, 180.0, 240.0, 300.0]
    assert exact["mean_l2"] == statistics.fmean(distances)
    assert (exact["user"], exact["items"], exact["failed_count"], exact["parser"]) == ("1", 6, 1, "strict")
    assert "===== All samples =====" in (tmp_path / "results.txt").read_text()


def test_what_cannot_be_known_is_none_and_never_zero(tmp_path: Path) -> None:
    made = [answered("a", 0, about(user="1"), None), failed("b", 1, about(user="1"))]
    run_of(tmp_path, made, parser=None, frame=None)
    UserFiles(tmp_path, made).finish(140.0, made, figures)
    text = (tmp_path / "user_1" / "results.txt").read_text()
    assert "'mean_l2': None,\n    'median_l2': None\n" in text
    assert "over the 0 samples" in text
    assert "the model clicks without words" in text
    assert json.loads((tmp_path / "user_1" / "results.json").read_text())["mean_l2"] is None


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_however_a_run_came_about_its_files_are_the_same(tmp_path: Path, seed: int) -> None:
    made, chance = samples_of(), random.Random(seed)
    plain, stopped = tmp_path / "plain", tmp_path / "stopped"
    for folder in (plain, stopped):
        folder.mkdir()
    files = UserFiles(plain, [])
    for sample in made:
        files.append([sample])
    files.finish(140.0, made, figures)
    order = chance.sample(made, len(made))
    kept: list[Sample] = []
    while order:
        files = UserFiles(stopped, kept)
        for _ in range(chance.randint(1, 4)):
            batch, order = order[:2], order[2:]
            files.append(batch)
            kept += batch
    files.finish(140.0, kept, figures)
    assert files_in(stopped) == files_in(plain)


def test_groups_keep_the_order_of_the_samples() -> None:
    groups = by_user(samples_of(6))
    assert {user: [s.id for s in group] for user, group in groups.items()} == {
        "1": ["s0", "s2", "s4"], "2": ["s1", "s3"], None: ["s5"]
    }  # fmt: skip


def test_two_users_that_would_share_a_folder_are_told_apart_by_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "safe_name", lambda name: "same")
    files = UserFiles(tmp_path, [answered("a", 0, about(user="1"), (1.0, 1.0))])
    with pytest.raises(exports.InputError, match="users '1' and '2' would share the folder user_same"):
        files.append([answered("b", 1, about(user="2"), (1.0, 1.0))])
