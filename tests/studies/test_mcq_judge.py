"""The figures of a summary, worked out by hand."""

from __future__ import annotations

import json
import math
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import howsure
from howsure.errors import InputError
from howsure.evidence import TokenLogprobs
from howsure.measures import smooth_ece, wilson_interval
from howsure.runs import Sample
from howsure.studies.mcq.ask import to_sample
from howsure.studies.mcq.data import Item
from howsure.studies.mcq.judge import judge
from studies.on_paper import OnPaper, write


def sample(index: int, confidence: float, right: bool, group: str | None = None) -> Sample:
    """Two choices, the first with the given share of the likelihood and a single token each."""
    item = Item(f"q{index}", f"{index}?", ("yes", "no"), 0 if right else 1, group)
    likelihoods = [math.log(confidence), math.log(1 - confidence)]
    scored = [TokenLogprobs((c,), np.array([value])) for c, value in zip(item.choices, likelihoods, strict=True)]
    return to_sample(index, item, scored, [-1.0, -1.0])


def failed(index: int, group: str | None = None) -> Sample:
    about = {"question": "?", "choices": ["yes", "no"], "answer_index": 0, "group": group}
    return Sample(f"q{index}", index, about, reason="too_long", detail="on paper")


FOUR = [sample(0, 0.9, True), sample(1, 0.8, False), sample(2, 0.7, True), sample(3, 0.6, False)]


def test_calibration_by_hand() -> None:
    """Four answers in four bins of their own: gaps 0.1, 0.8, 0.3, 0.6; squares 0.01, 0.64, 0.09, 0.36."""
    found = judge(FOUR)["calibration"]
    assert found["mean_confidence"] == pytest.approx(0.75)
    assert found["overconfidence"] == pytest.approx(0.25)
    assert found["overconfidence_low"] < 0.25 < found["overconfidence_high"]
    assert found["ece_equal_width"] == pytest.approx(1.8 / 4)
    assert found["ece_equal_mass"] == pytest.approx(1.8 / 4)
    assert found["brier"] == pytest.approx(1.1 / 4)
    losses = [-math.log(0.9), -math.log(0.2), -math.log(0.7), -math.log(0.4)]
    assert found["log_loss_nats"] == pytest.approx(sum(losses) / 4)
    assert found["smooth_ece"] == pytest.approx(smooth_ece([0.9, 0.8, 0.7, 0.6], [1, 0, 1, 0]))
    bins = found["reliability_bins"]
    assert [round(entry["mean_confidence"], 6) for entry in bins] == [0.6, 0.7, 0.8, 0.9]
    assert [entry["accuracy"] for entry in bins] == [0, 1, 0, 1]
    assert all(entry["low"] < entry["mean_confidence"] <= entry["high"] for entry in bins)
    assert sum(entry["count"] for entry in bins) == found["answers"] == 4


def test_risk_and_coverage_by_hand() -> None:
    """In order of confidence: right, wrong, right, wrong. Risks 0, 1/2, 1/3, 1/2; the best order has 0, 0, 1/3, 1/2."""
    found = judge(FOUR)["selective"]
    assert found["auroc"] == pytest.approx(3 / 4), "of four pairs of right and wrong, three are in order"
    assert found["aurc"] == pytest.approx((0 + 1 / 2 + 1 / 3 + 1 / 2) / 4)
    assert found["e_aurc"] == pytest.approx(1 / 8)
    assert [(e["coverage"], e["kept"], e["accuracy"]) for e in found["accuracy_at_coverage"]] == [
        (0.5, 2, 0.5),
        (0.8, 4, 0.5),
        (1.0, 4, 0.5),
    ]
    assert found["risk_coverage"] == {
        "coverage": [0.25, 0.5, 0.75, 1.0],
        "risk": pytest.approx([0, 1 / 2, 1 / 3, 1 / 2]),
    }


def test_entropy_and_margin_by_hand() -> None:
    found = judge(FOUR)
    entropies = [-p * math.log(p) - (1 - p) * math.log(1 - p) for p in (0.9, 0.8, 0.7, 0.6)]
    assert found["mean_entropy_nats"] == pytest.approx(sum(entropies) / 4)
    assert found["avg_margin"] == pytest.approx(sum(math.log(p / (1 - p)) for p in (0.9, 0.8, 0.7, 0.6)) / 4)


def test_one_that_failed_stays_in_every_accuracy() -> None:
    """Two right of four, and one failed: 2 of 5 by every score, and in its group, never 2 of 4."""
    summary = judge([*FOUR, failed(4)])
    assert summary["accuracy"] == pytest.approx(2 / 5)
    assert summary["accuracy_of_scored"] == pytest.approx(2 / 4)
    assert summary["total_count"] == 5
    interval = wilson_interval(2, 5)
    assert interval is not None
    for entry in summary["normalisations"].values():
        assert (entry["correct_count"], entry["total_count"], entry["accuracy"]) == (2, 5, pytest.approx(2 / 5))
        assert (entry["low"], entry["high"], entry["known_count"]) == (interval.low, interval.high, 4)
    assert summary["coverage"]["text"] == "scored 4 of 5; 1 missing: 1 too long"
    assert summary["calibration"]["answers"] == summary["selective"]["answers"] == 4


def test_groups_by_hand() -> None:
    rows = [
        sample(0, 0.9, True, "b"),
        sample(1, 0.8, False, "a"),
        failed(2, "a"),
        sample(3, 0.6, True),
        sample(4, 0.7, True, "b"),
    ]
    b, a, none = judge(rows)["groups"]
    assert [entry["group"] for entry in (b, a, none)] == ["b", "a", None], "in the order of the data"
    assert (b["correct_count"], b["total_count"], b["accuracy"]) == (2, 2, 1.0)
    assert b["overconfidence"] == pytest.approx(0.8 - 1.0)
    assert (a["accuracy"], a["total_count"], a["scored_count"]) == (0.0, 2, 1)
    assert a["mean_confidence"] == pytest.approx(0.8)
    assert none["avg_margin"] == pytest.approx(math.log(0.6 / 0.4))
    assert judge(FOUR)["groups"] == [], "no table of one group where nobody gave groups"


def test_a_group_of_which_nothing_was_scored_has_no_means() -> None:
    (only,) = judge([failed(0, "a")])["groups"]
    assert (only["accuracy"], only["scored_count"]) == (0.0, 0)
    assert only["avg_margin"] is only["mean_confidence"] is only["overconfidence"] is None


def test_nothing_scored_is_judged_as_nothing() -> None:
    for samples in ([], [failed(0)]):
        summary = judge(samples)
        assert summary["calibration"] is summary["selective"] is summary["mean_entropy_nats"] is None
        assert set(summary["normalisations"].values()) == {None}


def test_all_right_has_no_auroc_and_is_said_as_none() -> None:
    assert judge([sample(0, 0.9, True), sample(1, 0.8, True)])["selective"]["auroc"] is None


def test_without_relplot_smooth_ece_is_none_and_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "relplot", None)
    summary = judge(FOUR)
    assert summary["calibration"]["smooth_ece"] is None
    assert any('pip install "howsure[stats]"' in note for note in summary["notes"])


def many(count: int) -> list[Sample]:
    rng = np.random.default_rng(5)
    confidence = rng.uniform(0.5, 0.99, count)
    groups = [("a", "b", None)[i % 3] for i in range(count)]
    rows = [sample(i, c, bool(rng.uniform() < c), g) for i, (c, g) in enumerate(zip(confidence, groups, strict=True))]
    return [failed(row.index) if row.index % 17 == 0 else row for row in rows]


def test_the_summary_is_the_same_in_any_order_and_is_json() -> None:
    samples = many(300)
    expected = json.dumps(judge(samples), allow_nan=False)
    for seed in range(3):
        shuffled = random.Random(seed).sample(samples, len(samples))
        assert json.dumps(judge(shuffled), allow_nan=False) == expected


def test_a_long_curve_is_thinned_with_both_ends_kept() -> None:
    curve = judge(many(1000))["selective"]["risk_coverage"]
    assert len(curve["coverage"]) == len(curve["risk"]) == 100
    assert (curve["coverage"][0], curve["coverage"][-1]) == (pytest.approx(1 / 941), 1.0)


# -- one JSON file ------------------------------------------------------------------------------------------------

DOCUMENTED = {"accuracy", "avg_margin", "correct_count", "total_count", "results"}
DOCUMENTED_RESULT = {"predicted_index", "log_likelihoods", "correct", "margin", "answer_index"}


def three(tmp_path: Path) -> Path:
    return write(
        tmp_path / "q.jsonl",
        {"question": "a?", "choices": ["no", "yes"], "answer_index": 1, "group": "g"},
        {"question": "b?", "choices": ["maybe", "no"], "answer_index": 1},
        {"question": "fail?", "choices": ["maybe", "no"], "answer_index": 0, "id": "sad"},
    )


TABLE = {" yes": -1.0, " no": -3.0, " maybe": -2.0}


def test_the_output_file_has_the_documented_fields_and_every_question(tmp_path: Path) -> None:
    target = tmp_path / "new" / "out.json"
    result = howsure.mcq(three(tmp_path), OnPaper(TABLE), out=tmp_path / "run", output_json=target)
    found = json.loads(target.read_text())
    assert set(found) >= DOCUMENTED
    assert (found["accuracy"], found["correct_count"], found["total_count"]) == (pytest.approx(1 / 3), 1, 3)
    assert found["avg_margin"] == pytest.approx(1.5)
    assert found["calibration"] == json.loads(json.dumps(result.summary["calibration"]))
    first, second, sad = found["results"]
    assert set(first) >= DOCUMENTED_RESULT
    assert {name: first[name] for name in DOCUMENTED_RESULT} == {
        "predicted_index": 1,
        "log_likelihoods": [-3.0, -1.0],
        "correct": True,
        "margin": 2.0,
        "answer_index": 1,
    }
    assert (first["group"], first["reason"]) == ("g", None)
    assert second["correct"] is False
    assert (sad["id"], sad["reason"], sad["answer_index"]) == ("sad", "too_long", 0)
    unknown = DOCUMENTED_RESULT - {"answer_index"} | {"confidence", "predicted_index_pmi"}
    assert all(sad[name] is None for name in unknown)


@pytest.mark.parametrize("place", ["a folder", "below a file"])
def test_a_file_that_cannot_be_written_is_said_before_the_work(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    target = tmp_path if place == "a folder" else tmp_path / "file" / "out.json"
    model: Any = OnPaper(TABLE)
    with pytest.raises(InputError, match="--output-json .*name a"):
        howsure.mcq(three(tmp_path), model, out=tmp_path / "run", output_json=target)
    assert model.asked == []
