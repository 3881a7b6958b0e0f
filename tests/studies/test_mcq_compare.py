"""Two checkpoints: the difference, its doubt, the flips, and what is refused."""

from __future__ import annotations

import gc
import json
import weakref
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import howsure
from howsure.errors import InputError
from howsure.runs.run import Pair
from howsure.studies.mcq.comparison import signed_margin_nats
from howsure.studies.mcq.record import McqRecord
from studies.on_paper import OnPaper, write

ROWS = [
    {"id": f"q{i}", "question": f"{i}?", "choices": [f"a{i}", f"b{i}", f"c{i}"], "answer_index": 0} for i in range(8)
]


def model(gaps: list[float], name: str) -> OnPaper:
    """Question i: its right answer beats (or, below zero, loses to) the next by gaps[i] nats; the third is far away."""
    table: dict[str, float | list[float]] = {}
    for i, gap in enumerate(gaps):
        table |= {f" a{i}": -5.0 + min(gap, 0), f" b{i}": -5.0 - max(gap, 0), f" c{i}": -30.0}
    return OnPaper(table, name=name)


BEFORE = model([1, 1, 1, 2, -1, -1, -1, -1], "before")
AFTER = model([-1, 1, -3, 2, 1, 4, 0.5, 1], "after")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write(tmp_path / "q.jsonl", *ROWS)


@pytest.fixture
def runs(tmp_path: Path, data: Path) -> tuple[Path, Path]:
    howsure.mcq(data, BEFORE, out=tmp_path / "before")
    howsure.mcq(data, AFTER, out=tmp_path / "after")
    return tmp_path / "before", tmp_path / "after"


def test_the_difference_by_hand(runs: tuple[Path, Path]) -> None:
    """Before: 4 of 8. After: 6 of 8. Two turned wrong, four turned right."""
    found = howsure.compare(*runs)
    a, b, difference = found["a"], found["b"], found["difference"]
    assert (a["model"], a["accuracy"], a["correct_count"], a["total_count"]) == ("before", 0.5, 4, 8)
    assert (b["model"], b["accuracy"], b["correct_count"], b["total_count"]) == ("after", 0.75, 6, 8)
    assert (a["avg_margin"], b["avg_margin"]) == (pytest.approx(9 / 8), pytest.approx(13.5 / 8))
    assert difference["accuracy"] == pytest.approx(0.25)
    assert difference["avg_margin"] == pytest.approx(4.5 / 8)
    assert difference["correct_count"] == 2
    assert difference["paired_accuracy"]["mean_difference"] == pytest.approx(0.25)
    assert difference["paired_accuracy"]["low"] < 0.25 < difference["paired_accuracy"]["high"]
    assert difference["paired_margin"]["mean_difference"] == pytest.approx(4.5 / 8)
    test = difference["mcnemar"]
    assert (test["both_correct"], test["only_a_correct"], test["only_b_correct"], test["both_wrong"]) == (2, 2, 4, 0)
    assert test["p_value"] == pytest.approx(2 * (1 + 6 + 15) / 64), "of six coins at most two heads, both tails"
    assert found["notes"] == []


def test_flips_are_sorted_by_how_far_the_right_answer_moved(runs: tuple[Path, Path]) -> None:
    flips = howsure.compare(*runs)["difference"]["flips"]
    assert [(flip["id"], flip["moved_nats"]) for flip in flips["right_to_wrong"]] == [("q2", -4.0), ("q0", -2.0)]
    moved = [(flip["id"], flip["moved_nats"]) for flip in flips["wrong_to_right"]]
    assert moved == [("q5", 5.0), ("q4", 2.0), ("q7", 2.0), ("q6", 1.5)], "equal moves in the order of the data"
    first = flips["right_to_wrong"][0]
    assert (first["question"], first["choice_a"], first["choice_b"], first["answer"]) == ("2?", "a2", "b2", "a2")
    assert (first["signed_margin_a_nats"], first["signed_margin_b_nats"]) == (1.0, -3.0)


def test_a_signed_margin_is_that_of_the_right_answer() -> None:
    def margin(answer_index: int, *log_likelihoods: float) -> float | None:
        choices = [f"{i}" for i in range(len(log_likelihoods))]
        values = list(log_likelihoods) or None
        return signed_margin_nats(
            McqRecord(question="?", choices=choices, answer_index=answer_index, log_likelihoods=values)
        )

    assert margin(0, -5.0, -2.0, -1.0) == -4.0
    assert margin(2, -5.0, -2.0, -1.0) == 1.0
    lowest = -1.7976931348623157e308
    assert margin(0, lowest, -2.0) is None
    assert margin(0, -2.0, lowest) is None
    assert margin(0) is None


def test_a_flip_from_probability_zero_moved_farthest(tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", *ROWS[:2])
    never = OnPaper({" a0": -3.0, " b0": -1.0, " c0": -9.0, " a1": -np.inf, " b1": -1.0, " c1": -9.0})
    howsure.mcq(path, never, out=tmp_path / "a")
    howsure.mcq(path, model([4, 4], "after"), out=tmp_path / "b")
    flips = howsure.compare(tmp_path / "a", tmp_path / "b")["difference"]["flips"]["wrong_to_right"]
    assert [(flip["id"], flip["moved_nats"]) for flip in flips] == [("q1", None), ("q0", 6.0)]


def test_one_that_failed_in_one_run_is_in_the_table_and_in_no_pair(tmp_path: Path) -> None:
    rows = [row | {"question": "fail?"} if row["id"] == "q1" else row for row in ROWS]
    path = write(tmp_path / "q.jsonl", *rows)

    class Sturdy(OnPaper):
        def _score(self, item: Any) -> Any:
            return super()._score(item._replace(prefix="anything" if item.prefix else ""))

    howsure.mcq(path, BEFORE, out=tmp_path / "a")
    howsure.mcq(path, Sturdy(AFTER.table, name="after"), out=tmp_path / "b")
    found = howsure.compare(tmp_path / "a", tmp_path / "b")
    assert (found["a"]["accuracy"], found["b"]["accuracy"]) == (3 / 8, 6 / 8), "of all questions"
    difference = found["difference"]
    assert difference["accuracy"] == pytest.approx(3 / 8)
    assert difference["paired_count"] == 7
    assert difference["paired_accuracy"]["mean_difference"] == pytest.approx(2 / 7)
    assert difference["unpaired"] == {"failed_in_a": 1, "failed_in_b": 0, "failed_in_both": 0}
    assert found["notes"][0].startswith("1 of 8 questions were not scored by both (1 failed in a)")
    turned = howsure.compare(tmp_path / "b", tmp_path / "a")["difference"]
    assert (turned["paired_count"], turned["unpaired"]["failed_in_b"]) == (7, 1)
    assert turned["paired_accuracy"]["mean_difference"] == pytest.approx(-2 / 7)


def test_a_run_against_itself_is_allowed_and_noted(runs: tuple[Path, Path]) -> None:
    found = howsure.compare(runs[0], runs[0])
    assert found["notes"] == ["both are the same run"]
    assert found["difference"]["accuracy"] == 0.0
    assert found["difference"]["mcnemar"]["p_value"] == 1.0


# -- refused ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"choices": ["a0", "b0", "other"]}, "choices of 'q0' differs"),
        ({"answer_index": 1}, "answer_index of 'q0' differs"),
        ({"question": "another?"}, "question of 'q0' differs"),
        ({"id": "new"}, "1 are in the first alone and 1 in the second alone"),
        ({"group": "g"}, "their groups are not the same"),
    ],
)
def test_other_questions_are_refused(tmp_path: Path, runs: tuple[Path, Path], change: Any, words: str) -> None:
    path = write(tmp_path / "other.jsonl", ROWS[0] | change, *ROWS[1:])
    other = OnPaper({**AFTER.table, " other": -9.0}, name="after")
    howsure.mcq(path, other, out=tmp_path / "other")
    with pytest.raises(InputError, match=f"are over different questions: {words}"):
        howsure.compare(runs[0], tmp_path / "other")


def test_fewer_questions_or_another_order_are_refused(tmp_path: Path, runs: tuple[Path, Path], data: Path) -> None:
    howsure.mcq(data, AFTER, out=tmp_path / "few", max_samples=5)
    with pytest.raises(InputError, match="3 are in the first alone and 0 in the second alone"):
        howsure.compare(runs[0], tmp_path / "few")
    howsure.mcq(write(tmp_path / "r.jsonl", *ROWS[::-1]), AFTER, out=tmp_path / "turned")
    with pytest.raises(InputError, match="their order differs, from 'q0' on"):
        howsure.compare(runs[0], tmp_path / "turned")


def test_other_prompts_are_refused(tmp_path: Path, runs: tuple[Path, Path], data: Path) -> None:
    howsure.mcq(data, AFTER, out=tmp_path / "prompt", prompt="Q: {question} A:")
    with pytest.raises(
        InputError,
        match=r"asked in different ways.*before with prompt '{question}\\nAnswer:', .*prompt with prompt 'Q:",
    ):
        howsure.compare(runs[0], tmp_path / "prompt")
    table = {name.strip(): value for name, value in AFTER.table.items()}
    howsure.mcq(data, OnPaper(table, chat=True), out=tmp_path / "chat", chat=True, prompt="{question}\nAnswer:")
    with pytest.raises(InputError, match="before with chat False, .*chat with chat True"):
        howsure.compare(runs[0], tmp_path / "chat")


def test_work_saved_differently_is_no_hindrance(tmp_path: Path, runs: tuple[Path, Path], data: Path) -> None:
    howsure.mcq(data, AFTER, out=tmp_path / "saved", pmi=False, batch_size=3)
    assert howsure.compare(runs[0], tmp_path / "saved")["difference"]["accuracy"] == pytest.approx(0.25)


def test_unfinished_and_foreign_runs_are_refused(tmp_path: Path, runs: tuple[Path, Path]) -> None:
    manifest = json.loads((runs[1] / "run.json").read_text())
    (runs[1] / "run.json").write_text(json.dumps(manifest | {"status": "interrupted"}))
    with pytest.raises(InputError, match=r"after is not finished \(interrupted, 8 of 8 questions\)"):
        howsure.compare(*runs)
    (runs[1] / "run.json").write_text(json.dumps(manifest | {"items": 9}))
    with pytest.raises(InputError, match=r"not finished \(finished, 8 of 9 questions\)"):
        howsure.compare(*runs)
    manifest["identity"]["study"] = "trust coherent"
    (runs[1] / "run.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match="'trust coherent', and only mcq, .* runs can be compared"):
        howsure.compare(*runs)
    with pytest.raises(InputError, match="is not a run folder"):
        howsure.compare(runs[0], tmp_path)


# -- both in one call ---------------------------------------------------------------------------------------------


def test_two_models_in_one_call(tmp_path: Path, data: Path, runs: tuple[Path, Path]) -> None:
    target = tmp_path / "both.json"
    pair = howsure.mcq(data, BEFORE, model_b=AFTER, out=tmp_path / "both", output_json=target)
    assert isinstance(pair, Pair)
    assert pair.comparison["difference"] == howsure.compare(*runs)["difference"]
    assert json.loads((tmp_path / "both" / "comparison.json").read_text()) == msgspec.to_builtins(pair.comparison)
    assert (pair.a.run.path, pair.b.run.path) == (tmp_path / "both" / "a", tmp_path / "both" / "b")
    found = json.loads(target.read_text())
    assert set(found) == {"a", "b", "difference", "notes"}
    assert (found["a"]["accuracy"], len(found["b"]["results"])) == (0.5, 8)
    assert len(found["difference"]["flips"]["wrong_to_right"]) == 4
    again = howsure.mcq(data, BEFORE, model_b=AFTER, out=tmp_path / "both")
    assert again.comparison == pair.comparison


def test_the_folder_of_one_model_is_not_mixed_up(runs: tuple[Path, Path], data: Path) -> None:
    with pytest.raises(InputError, match="is the run folder of one model: with --model-b choose another --out"):
        howsure.mcq(data, BEFORE, model_b=AFTER, out=runs[0])


def test_the_first_model_is_gone_before_the_second_is_asked(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive: dict[str, Any] = {}
    seen: list[bool] = []

    class Watched(OnPaper):
        def try_score(self, items: Any, **options: Any) -> Any:
            if self.name == "after":
                seen.append(alive["before"]() is None)
            return super().try_score(items, **options)

    def load(name: str, **_: Any) -> Watched:
        opened = Watched((BEFORE if name == "before" else AFTER).table, name=name)
        opened.myself = opened  # a cycle, as networks have
        alive[name] = weakref.ref(opened)
        return opened

    monkeypatch.setattr("howsure.studies.study.load", load)
    gc.disable()
    try:
        howsure.mcq(data, "before", model_b="after", out=tmp_path / "both")
    finally:
        gc.enable()
    assert seen
    assert all(seen)


def test_a_second_model_that_cannot_be_used_stops_the_first(tmp_path: Path, data: Path) -> None:
    first = model([1] * 8, "first")
    with pytest.raises(Exception, match="unknown model"):
        howsure.mcq(data, first, model_b="smolm2", out=tmp_path / "both")
    assert first.asked == []
