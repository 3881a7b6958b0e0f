"""The figures of a summary, worked out by hand."""

from __future__ import annotations

import json
import math
import random
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import howsure
from howsure.errors import InputError
from howsure.evidence import TokenLogprobs
from howsure.measures import auroc_interval, count_interval, mean_interval, share_interval, smooth_ece
from howsure.runs import Sample
from howsure.studies.mcq.columns import columns
from howsure.studies.mcq.data import Item
from howsure.studies.mcq.judge import judge
from howsure.studies.mcq.record import McqRecord
from howsure.studies.mcq.study import to_sample
from studies.on_paper import OnPaper, write


def sample(index: int, confidence: float, right: bool, group: str | None = None) -> Sample:
    """Two choices, the first with the given share of the likelihood and a single token each."""
    item = Item(f"q{index}", f"{index}?", ("yes", "no"), 0 if right else 1, group)
    likelihoods = [math.log(confidence), math.log(1 - confidence)]
    scored = [TokenLogprobs((c,), np.array([value])) for c, value in zip(item.choices, likelihoods, strict=True)]
    return to_sample(index, item, scored, [-1.0, -1.0])


def failed(index: int, group: str | None = None) -> Sample:
    about = McqRecord(question="?", choices=["yes", "no"], answer_index=0, group=group)
    return Sample(f"q{index}", index, about, reason="too_long", detail="on paper")


FOUR = [sample(0, 0.9, True), sample(1, 0.8, False), sample(2, 0.7, True), sample(3, 0.6, False)]


def test_calibration_by_hand() -> None:
    """Four answers in four bins of their own: gaps 0.1, 0.8, 0.3, 0.6; squares 0.01, 0.64, 0.09, 0.36."""
    found = judge(FOUR)["calibration"]
    assert found["mean_confidence"] == pytest.approx(0.75)
    assert found["overconfidence"] == pytest.approx(0.25)
    assert found["overconfidence_low"] is found["overconfidence_high"] is None, "four questions have no interval"
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
    assert found["risk_coverage"]["coverage"] == [0.25, 0.5, 0.75, 1.0]
    assert found["risk_coverage"]["risk"] == pytest.approx([0, 1 / 2, 1 / 3, 1 / 2])


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
    interval = count_interval(2, 5)
    assert interval is not None
    for entry in summary["normalisations"].values():
        assert (entry["correct_count"], entry["total_count"], entry["accuracy"]) == (2, 5, pytest.approx(2 / 5))
        assert (entry["low"], entry["high"], entry["known_count"]) == (interval.low, interval.high, 4)
    assert summary["coverage"]["text"] == "scored 4 of 5; 1 missing: 1 too long"
    assert summary["headline"][0]["note"] == "1 failed counted as not right: 50.0% of the 4 scored"
    assert summary["calibration"]["answers"] == summary["selective"]["answers"] == 4


def test_bad_lines_stay_in_the_accuracy_and_the_other_figure_stands_beside_it() -> None:
    """Two right of four, one failed, three lines that could not be read: 2 of 8, 2 of 5 and 2 of 4."""
    summary = judge([*FOUR, failed(4)], skipped=3)
    assert summary["accuracy"] == pytest.approx(2 / 8)
    assert summary["accuracy_without_bad_lines"] == pytest.approx(2 / 5)
    assert summary["accuracy_of_scored"] == pytest.approx(2 / 4)
    assert (summary["correct_count"], summary["total_count"], summary["bad_line_count"]) == (2, 8, 3)
    assert summary["coverage"]["text"] == "scored 4 of 8; 4 missing: 3 bad line, 1 too long"
    interval = count_interval(2, 8)
    assert interval is not None
    accuracy = summary["headline"][0]
    assert (accuracy["value"], accuracy["low"], accuracy["high"]) == (2 / 8, interval.low, interval.high)
    assert accuracy["note"] == "1 failed and 3 bad lines counted as not right: 50.0% of the 4 scored"
    for entry in summary["normalisations"].values():
        assert (entry["correct_count"], entry["total_count"], entry["low"]) == (2, 8, interval.low)
    assert summary["notes"][0] == (
        "accuracy counts the 3 bad lines of the data as not right; without them it is 40.0% of 5. So do the other "
        "accuracies; nothing else has them"
    )
    clean = judge(FOUR)
    assert clean["accuracy"] == clean["accuracy_without_bad_lines"] == clean["accuracy_of_scored"]


# -- what hangs together --------------------------------------------------------------------------------------------


def linked(index: int, right: bool, image: str | None = None, cluster: str | None = None, **more: Any) -> Sample:
    made = sample(index, 0.55 + 0.4 * (index % 10) / 10, right, **more)
    labelled = msgspec.structs.replace(made.result, image_sha256=image, cluster=cluster)
    return msgspec.structs.replace(made, result=labelled)


@pytest.mark.parametrize("label", ["image", "cluster"])
def test_copies_of_a_question_do_not_shrink_an_interval(label: str) -> None:
    """Twenty images (or passages), each all right or all wrong: five questions about one say no more than one."""
    once = [linked(i, i % 3 > 0) for i in range(20)]
    copied = [linked(5 * i + j, i % 3 > 0, **{label: f"{i}"}) for i in range(20) for j in range(5)]
    alone = [linked(row.index, bool(row.result["correct"])) for row in copied]
    found = [judge(rows) for rows in (once, copied, alone)]
    widths = [one["headline"][0]["high"] - one["headline"][0]["low"] for one in found]
    assert widths[1] == pytest.approx(widths[0], rel=0.15)
    assert widths[1] > 1.8 * widths[2]
    assert [one["unit_count"] for one in found] == [20, 20, 100]
    assert found[1]["notes"] == [
        f"questions that share {'an image' if label == 'image' else 'a cluster'} are not independent: intervals take "
        "these 100 questions as 20 independent units"
    ]
    assert found[2]["notes"] == []


def test_every_interval_is_over_the_units() -> None:
    rng = np.random.default_rng(3)
    passage = np.arange(60) // 4
    rows = [linked(i, bool(rng.random() < 0.6), cluster=f"p{passage[i]}", group="ab"[i % 2]) for i in range(60)]
    found, confidence = judge(rows), np.array([row.result["confidence"] for row in rows])
    right = np.array([row.result["correct"] for row in rows])
    margins = [row.result["margin"] for row in rows]
    expected = {
        "accuracy": share_interval(right, clusters=passage),
        "mean margin": mean_interval(margins, clusters=passage),
    }
    for figure in found["headline"]:
        interval = expected[figure["name"]]
        assert interval is not None
        assert (figure["low"], figure["high"], figure["method"]) == (interval.low, interval.high, interval.method)
        assert "15 clusters" in figure["method"]
    area = auroc_interval(confidence, right, clusters=passage)
    assert area is not None
    assert (found["selective"]["auroc_low"], found["selective"]["auroc_high"]) == (area.low, area.high)
    assert found["calibration"]["overconfidence_method"].endswith(
        "as " + found["headline"][0]["method"].split("as ")[1]
    )
    of_a = share_interval(right[::2], clusters=passage[::2])
    assert of_a is not None
    assert (found["groups"][0]["low"], found["groups"][0]["unit_count"]) == (of_a.low, 15)


def test_an_image_and_a_cluster_join_what_they_share() -> None:
    """0 and 1 share an image, 1 and 2 a passage: one unit. 3 has neither, 4 and 5 share a passage."""
    rows = [
        linked(0, True, image="a"),
        linked(1, True, image="a", cluster="p"),
        linked(2, False, cluster="p"),
        linked(3, True),
        linked(4, True, image="b", cluster="q"),
        linked(5, False, image="c", cluster="q"),
    ]
    assert columns(rows).unit.tolist() == [0, 0, 0, 1, 2, 2]
    found = judge(rows)
    assert found["unit_count"] == 3
    assert found["headline"][0]["low"] is None
    assert found["headline"][0]["note"] == "no interval: 3 independent units, and it takes at least 5"
    assert found["notes"] == [
        "questions that share an image or a cluster are not independent: intervals take these 6 questions as 3 "
        "independent units",
        "2 of 6 questions have no cluster, and count as independent of the others",
    ]


# -- no interval without width, and none from too little ------------------------------------------------------------


@pytest.mark.parametrize("right", [True, False])
def test_all_alike_is_no_certainty(right: bool) -> None:
    found = judge([sample(i, 0.8, right) for i in range(12)])
    accuracy, margin = found["headline"]
    assert accuracy["high"] - accuracy["low"] > 0.2
    assert (margin["low"], margin["note"]) == (None, "no interval: all are alike")
    assert found["calibration"]["overconfidence_high"] - found["calibration"]["overconfidence_low"] > 0.2
    assert found["selective"]["auroc_low"] is None


def test_two_wrong_answers_have_an_auroc_without_an_interval() -> None:
    found = judge([sample(i, 0.6 + i / 50, i > 1) for i in range(12)])
    assert found["selective"]["auroc"] == 1.0
    assert found["selective"]["auroc_low"] is None
    assert found["notes"] == ["no interval for the AUROC: it takes 3 questions with right and 3 with wrong answers"]
    enough = judge([sample(i, 0.6 + i / 50, i > 5) for i in range(12)])["selective"]
    assert (enough["auroc"], enough["auroc_high"]) == (1.0, 1.0)
    assert enough["auroc_low"] < 0.9, "perfectly separated is no certainty"


def test_fewer_than_five_questions_have_no_interval_and_say_how_many_it_takes() -> None:
    found = judge(FOUR)
    for figure in found["headline"]:
        assert (figure["low"], figure["note"]) == (None, "no interval: 4 questions, and it takes at least 5")
    rows = [sample(i, 0.6 + i / 50, i % 2 == 0, "big" if i < 6 else "small") for i in range(9)]
    grouped = judge(rows)
    assert [entry["low"] is None for entry in grouped["groups"]] == [False, True]
    assert grouped["notes"] == ["no interval for 1 of 2 groups: it takes at least 5 questions"]
    assert grouped["headline"][0]["approximate"] is True, "nine questions"


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
    expected = json.dumps(msgspec.to_builtins(judge(samples)), allow_nan=False)
    for seed in range(3):
        shuffled = random.Random(seed).sample(samples, len(samples))
        assert json.dumps(msgspec.to_builtins(judge(shuffled)), allow_nan=False) == expected


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
    assert found["calibration"] == json.loads(json.dumps(msgspec.to_builtins(result.summary["calibration"])))
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
