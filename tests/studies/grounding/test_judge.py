"""The figures of a summary, worked out by hand."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import msgspec
import numpy as np
import pytest

from howsure.evidence import Outcome
from howsure.measures import (
    auroc,
    auroc_interval,
    count_interval,
    mean_interval,
    median_interval,
    overconfidence_interval,
    share_interval,
)
from howsure.runs import Sample
from howsure.runs.files import to_json
from howsure.studies.grounding.judge import GroundingSummary, judge, judge_group
from howsure.studies.grounding.record import Confidence
from studies.grounding.clicks_on_paper import record

DELTA = 140.0
BOX = (400.0, 400.0, 600.0, 600.0)
POLYGON = (400.0, 400.0, 600.0, 400.0, 500.0, 600.0)


def about(index: int, kind: str, image: str | None, labels: dict[str, list[str]] | None) -> dict[str, Any]:
    coords = {"point": (500.0, 500.0), "box": BOX, "polygon": POLYGON, "refusal": ()}[kind]
    return {
        "instruction": f"click {index}",
        "labels": labels or {},
        "image_path": "/screens/one.png",
        "image_sha256": image or f"screen {index}",
        "image_size": [1920, 1080],
        "target": {"kind": kind, "coords": list(coords)},
        "gt_coord": None if kind == "refusal" else [500.0, 500.0],
        "gt_content": None,
    }


def sample(
    index: int,
    l2: float | None = None,
    *,
    says: str = "point",
    kind: str = "point",
    inside: bool = False,
    image: str | None = None,
    labels: dict[str, list[str]] | None = None,
    **more: Any,
) -> Sample:
    """One that clicks so far to the right of its target, or does something else."""
    place = [500.0 + (l2 or 0.0), 500.0] if says == "point" else None
    distance = l2 if place is not None and kind != "refusal" else None
    within = None if kind == "refusal" else distance is not None and distance <= DELTA
    in_region = inside if kind in ("box", "polygon") else None
    hit = says == "refusal" if kind == "refusal" else bool(within if in_region is None else in_region)
    answer = {
        "pred_raw": "",
        "pred_coord": place,
        "pred_content": None,
        "says": says,
        "form": None,
        "why_not": "no_numbers" if says == "wrong_format" else None,
        "finish_reason": "stop",
        "l2": distance,
        "within_delta": within,
        "inside": in_region,
        "hit": hit,
        "confidence": {},
        "confidence_missing": {},
    }
    result = about(index, kind, image, labels) | answer | more
    return Sample(f"s{index}", index, record(result), outcome=Outcome(correct=hit, distance=distance))


def failed(index: int, kind: str = "point", image: str | None = None, **labels: list[str]) -> Sample:
    return Sample(
        f"s{index}", index, record(about(index, kind, image, labels)), reason="server_error", detail="on paper"
    )


def sure(index: int, l2: float, confidence: float, kind: str = "coordinate_mean", **more: Any) -> Sample:
    return sample(index, l2, confidence={kind: float(confidence)}, **more)


POINTS = [sample(0, 10.0), sample(1, 140.0), sample(2, 140.001), sample(3, 300.0)]


# -- accuracy and distances -----------------------------------------------------------------------------------------


def test_accuracy_and_distances_by_hand() -> None:
    found = judge(POINTS, delta=DELTA)
    assert found["accuracy"] == found["accuracy_of_answered"] == found["hit_rate"] == 2 / 4
    assert found["mean_l2"] == pytest.approx((10 + 140 + 140.001 + 300) / 4)
    assert found["median_l2"] == pytest.approx((140 + 140.001) / 2)
    assert found["point_in_target"] is None
    accuracy = found["figures"]["accuracy"]
    assert (accuracy["value"], accuracy["count"], accuracy["of"], accuracy["low"]) == (0.5, 2, 4, None)
    assert [figure["note"] for figure in found["headline"]] == ["no interval: 4 screens, and it takes at least 5"] * 3
    assert found["notes"] == []


def test_intervals_are_those_of_the_measures() -> None:
    distances = [10.0, 140.0, 140.001, 300.0, 20.0, 50.0, 60.0, 420.0, 0.0, 90.0, 33.0, 150.0]
    found = judge([sample(i, l2) for i, l2 in enumerate(distances)], delta=DELTA)["figures"]
    expected = {
        "accuracy": share_interval([l2 <= DELTA for l2 in distances]),
        "mean_l2": mean_interval(distances),
        "median_l2": median_interval(distances),
    }
    for name, interval in expected.items():
        assert interval is not None
        entry = found[name]
        assert (entry["low"], entry["high"], entry["of"]) == (interval.low, interval.high, 12)
        assert (entry["method"], entry["approximate"], entry["level"]) == (interval.method, interval.approximate, 0.95)


def test_the_samples_own_hits_are_those_of_the_same_delta() -> None:
    rows = [*POINTS, sample(4, 5.0, kind="box", inside=True), sample(5, says="refusal", kind="refusal"), failed(6)]
    found = judge(rows, delta=DELTA)
    assert found["figures"]["hit_rate"]["count"] == sum(row.result.get("hit") is True for row in rows) == 4
    assert found["figures"]["accuracy"]["count"] == sum(row.result.get("within_delta") is True for row in rows) == 3


def test_another_delta_is_judged_from_the_distances() -> None:
    assert [judge(POINTS, delta=delta)["accuracy"] for delta in (0, 10, 139, 141, 1000)] == [0, 0.25, 0.25, 0.75, 1]
    assert judge(POINTS, delta=50)["headline"][0]["name"] == "accuracy within 50"


def test_what_has_no_click_is_a_miss_without_a_distance() -> None:
    rows = [*POINTS, sample(4, says="wrong_format"), sample(5, says="refusal"), failed(6)]
    found = judge(rows, delta=DELTA)
    assert found["accuracy"] == pytest.approx(2 / 7)
    assert found["accuracy_of_answered"] == pytest.approx(2 / 6)
    assert found["mean_l2"] == pytest.approx((10 + 140 + 140.001 + 300) / 4)
    assert (found["figures"]["mean_l2"]["count"], found["figures"]["mean_l2"]["of"]) == (4, 7)
    counts = {name: found[name] for name in found if name.endswith("_count")}
    assert counts == {
        "total_count": 7,
        "bad_sample_count": 0,
        "image_count": 7,
        "answered_count": 6,
        "failed_count": 1,
        "clicked_count": 4,
        "refused_count": 1,
        "wrong_format_count": 1,
        "placed_count": 7,
        "region_count": 0,
        "nothing_to_click_count": 0,
        "distance_count": 4,
        "off_screen_count": 0,
        "cut_off_count": 0,
    }
    assert found["wrong_format_share"] == pytest.approx(1 / 6)
    assert found["why_not"] == {"no_numbers": 1}
    assert found["figures"]["refused_wrongly"]["value"] == pytest.approx(1 / 7)
    assert found["coverage"]["text"] == "scored 6 of 7; 1 missing: 1 server error"
    assert found["notes"][:2] == [
        "accuracy counts what has no click as a miss (1 in a wrong format, 1 refused, 1 failed of 7); mean and median "
        "L2 leave these 3 out",
        "of the 6 that were answered, 33.3% are within δ",
    ]
    assert [figure["name"] for figure in found["headline"]] == [
        "accuracy within 140",
        "mean L2",
        "median L2",
        "in wrong format",
    ]


def test_bad_samples_are_misses_and_the_other_figure_stands_beside_it() -> None:
    found = judge([*POINTS, failed(4)], delta=DELTA, skipped=3)
    assert found["coverage"]["text"] == "scored 4 of 8; 4 missing: 3 bad sample, 1 server error"
    assert (found["accuracy"], found["accuracy_without_bad_samples"], found["accuracy_of_answered"]) == (
        2 / 8,
        2 / 5,
        2 / 4,
    )
    assert (found["hit_rate"], found["hit_rate_without_bad_samples"]) == (2 / 8, 2 / 5)
    assert found["point_in_target"] is None, "data without regions has none because of them"
    assert (found["total_count"], found["bad_sample_count"]) == (8, 3)
    interval = count_interval(2, 8)
    assert interval is not None
    accuracy = found["headline"][0]
    assert (accuracy["value"], accuracy["low"], accuracy["high"]) == (2 / 8, interval.low, interval.high)
    assert accuracy["note"] == "1 failed and 3 bad counted as misses; 40.0% without the bad"
    assert any(
        note == "3 bad samples of the data could not be read, and count as misses; without them: accuracy 40.0%, hit "
        "rate 40.0%. No other figure and no group has them"
        for note in found["notes"]
    )
    assert found["headline"][1]["note"].startswith("over the 4 of 5 with a click"), "distances leave them out"


def test_bad_samples_count_in_every_share_that_they_may_belong_to() -> None:
    rows = [sample(0, 5.0, kind="box", inside=True), sample(1, 5.0), sample(2, says="refusal", kind="refusal")]
    figures = judge(rows, delta=DELTA, skipped=2)["figures"]
    shares = {name: (entry["count"], entry["of"]) for name in figures if (entry := figures[name])}
    assert (shares["point_in_target"], shares["point_in_box"]) == ((1, 3), (1, 1))
    assert (shares["accuracy"], shares["hit_rate"]) == ((2, 4), (3, 5))
    assert (shares["refused_rightly"], shares["wrong_format"]) == ((1, 1), (0, 3))
    assert shares["point_in_target_without_bad_samples"] == (1, 1)


# -- regions and refusals -------------------------------------------------------------------------------------------


def test_regions_by_hand() -> None:
    rows = [
        sample(0, 5.0, kind="box", inside=True),
        sample(1, 120.0, kind="box"),
        sample(2, 300.0, kind="box"),
        sample(3, 5.0, kind="polygon", inside=True),
        failed(4, kind="polygon"),
        sample(5, 20.0),
    ]
    found = judge(rows, delta=DELTA)
    assert found["point_in_target"] == 2 / 5
    shares = {name: (entry["count"], entry["of"]) for name in found["figures"] if (entry := found["figures"][name])}
    assert shares["point_in_box"] == (1, 3)
    assert shares["point_in_polygon"] == (1, 2)
    assert shares["accuracy"] == (4, 6)
    assert shares["hit_rate"] == (3, 6), "inside a region, or within δ of a point"
    assert [figure["name"] for figure in found["headline"]] == [
        "point in target",
        "accuracy within 140",
        "mean L2",
        "median L2",
    ]
    assert found["headline"][0]["value"] == 2 / 5


def test_a_wide_net_is_told() -> None:
    narrow = [sample(i, 5.0, kind="box", inside=i < 8) for i in range(10)]
    wide = [sample(i, 5.0, kind="box", inside=i < 7) for i in range(10)]
    assert judge(narrow, delta=DELTA)["notes"] == []
    assert judge(wide, delta=DELTA)["notes"] == [
        "δ = 140 is a wide net, 14 % of the screen's width and height on every side: 100.0% of the samples are within "
        "it, and 70.0% inside the target"
    ]


def test_refusals_by_hand() -> None:
    rows = [
        sample(0, says="refusal", kind="refusal"),
        sample(1, 0.0, kind="refusal"),
        sample(2, says="wrong_format", kind="refusal"),
        failed(3, kind="refusal"),
        sample(4, says="refusal"),
        sample(5, 10.0),
    ]
    found = judge(rows, delta=DELTA)
    shares = {name: (entry["count"], entry["of"]) for name in found["figures"] if (entry := found["figures"][name])}
    assert shares["refused_rightly"] == (1, 4)
    assert shares["refused_wrongly"] == (1, 2)
    assert shares["hit_rate"] == (2, 6)
    assert shares["accuracy"] == (1, 2), "what has nothing to click is no part of it"
    assert found["distance_count"] == 1
    assert "refused rightly" in [figure["name"] for figure in found["headline"]]
    assert any(note.startswith("4 of 6 samples have nothing to click") for note in found["notes"])


def test_only_refusals() -> None:
    found = judge([sample(i, says="refusal", kind="refusal") for i in range(3)], delta=DELTA)
    assert found["accuracy"] is found["mean_l2"] is found["median_l2"] is found["point_in_target"] is None
    assert found["hit_rate"] == 1.0
    assert [(figure["name"], figure["value"]) for figure in found["headline"]] == [("refused rightly", 1.0)]


# -- nothing, one, none ---------------------------------------------------------------------------------------------


def test_nothing_is_judged_as_nothing() -> None:
    found = judge([], delta=DELTA)
    values = [found["figures"][name].value for name in found["figures"]]
    assert values == [None] * len(values)
    assert found["splits"] == found["knows"] == {}
    assert found["notes"] == []
    assert [(figure["name"], figure["value"]) for figure in found["headline"]] == [("accuracy within 140", None)]


def test_all_failed() -> None:
    found = judge([failed(0, user=["1"]), failed(1, user=["1"])], delta=DELTA)
    assert found["accuracy"] == found["hit_rate"] == 0.0
    assert (
        found["accuracy_of_answered"] is found["mean_l2"] is found["median_l2"] is found["wrong_format_share"] is None
    )
    (only,) = found["splits"]["user"]
    assert (only["accuracy"], only["mean_l2"], only["failed_count"]) == (0.0, None, 2)
    assert found["knows"] == {}


def test_one_sample() -> None:
    found = judge([sure(0, 30.0, 0.9)], delta=DELTA)
    assert (found["accuracy"], found["mean_l2"], found["median_l2"]) == (1.0, 30.0, 30.0)
    assert found["figures"]["mean_l2"]["low"] is None, "one distance says nothing of the spread"
    assert found["headline"][0]["note"] == "no interval: 1 screen, and it takes at least 5"
    assert found["knows"]["coordinate_mean"]["auroc"] is None
    assert found["notes"] == [
        "whether it knows cannot be told by coordinate mean: all answers that have it are hits",
    ]


def test_a_summary_can_be_written_as_json() -> None:
    rows = [*POINTS, sample(4, says="wrong_format"), failed(5), sure(6, 3.0, 0.5)]
    assert json.loads(to_json(judge(rows, delta=DELTA, skipped=2)))["total_count"] == 9
    for samples in (rows, [], [failed(0)], POINTS[:1]):
        summary = judge(samples, delta=DELTA)
        assert msgspec.json.decode(to_json(summary), type=GroundingSummary) == summary


def test_the_order_of_the_samples_does_not_count() -> None:
    rng = random.Random(0)
    kinds = ("point", "box", "polygon")
    rows = [
        sample(
            i,
            rng.uniform(0, 300),
            kind=kinds[i % 3],
            inside=rng.random() < 0.5,
            image=f"screen {i % 11}",
            labels={"user": [str(i % 12)], "type": ["a", "b"][: 1 + i % 2]},
            confidence={"coordinate_mean": rng.random(), "agreement": rng.random(), "spread": rng.random()},
        )
        for i in range(60)
    ]
    first = judge(rows, delta=DELTA, seed=3)
    shuffled = rng.sample(rows, len(rows))
    assert judge(shuffled, delta=DELTA, seed=3) == first
    assert judge_group(shuffled, delta=DELTA) == judge_group(rows, delta=DELTA)
    other = judge(rows, delta=DELTA, seed=4)
    floors = [one["knows"]["agreement"]["calibration"]["ece_equal_mass_floor"] for one in (first, other)]
    assert floors[0] != floors[1], "only the floor of the ECE is drawn by chance"
    assert other["figures"] == first["figures"]
    assert other["splits"] == first["splits"]


# -- screens --------------------------------------------------------------------------------------------------------


def test_copies_on_one_screen_do_not_shrink_an_interval() -> None:
    """Twenty screens, each all right or all wrong: nine items on a screen say no more than one."""
    distances = [50.0 + 20 * i for i in range(20)]
    once = judge([sample(i, l2, image=f"{i}") for i, l2 in enumerate(distances)], delta=DELTA)["figures"]
    rows = [sample(9 * i + j, l2, image=f"{i:02}") for i, l2 in enumerate(distances) for j in range(9)]
    copied = judge(rows, delta=DELTA)["figures"]
    alone = judge([sample(i, row.result["l2"]) for i, row in enumerate(rows)], delta=DELTA)["figures"]
    for name in ("accuracy", "mean_l2", "median_l2"):
        widths = [found[name]["high"] - found[name]["low"] for found in (once, copied, alone)]
        assert widths[1] == pytest.approx(widths[0], rel=0.15)
        assert widths[1] > 1.9 * widths[2]
        assert copied[name]["value"] == pytest.approx(once[name]["value"])
    assert copied["accuracy"]["method"].startswith("Agresti–Coull over 20 clusters")


def test_always_right_or_wrong_is_no_certainty() -> None:
    rows = [sample(i, 1.0, image=f"{i % 6}") for i in range(30)]
    entry = judge(rows, delta=DELTA)["figures"]["accuracy"]
    assert (entry["value"], entry["high"], entry["approximate"]) == (1.0, 1.0, True)
    assert entry["low"] < 0.65, "six screens, not thirty items"
    never = judge(rows, delta=0)["figures"]["accuracy"]
    assert (never["value"], never["low"], never["high"]) == (0.0, 0.0, pytest.approx(1 - entry["low"]))
    assert judge(rows, delta=DELTA)["headline"][1]["note"] == "no interval: all are alike"


def test_fewer_than_five_screens_have_no_interval_and_say_how_many_it_takes() -> None:
    found = judge([sample(i, 10.0 * i, image=f"{i % 4}") for i in range(40)], delta=DELTA)
    for name in ("accuracy", "mean_l2", "median_l2"):
        assert found["figures"][name]["low"] is found["figures"][name]["high"] is None
    assert {figure["note"] for figure in found["headline"]} == {"no interval: 4 screens, and it takes at least 5"}
    assert found["notes"] == ["intervals are over screens: these 40 samples are on 4 screens"]


# -- splits ---------------------------------------------------------------------------------------------------------


def test_splits_by_hand() -> None:
    rows = [
        sample(0, 10.0, labels={"user": ["10"], "type": ["Icon", "Button"]}),
        sample(1, 200.0, labels={"user": ["2"], "type": ["Button"]}),
        sample(2, 30.0, labels={"user": ["10"]}),
        sample(3, says="wrong_format", labels={"user": ["2"], "type": ["Icon", "Icon"]}),
        failed(4, user=["2"], type=["Menu"]),
    ]
    splits = judge(rows, delta=DELTA)["splits"]
    assert list(splits) == ["user", "type"], "only kinds that the data has"
    assert [entry["value"] for entry in splits["user"]] == ["2", "10"], "as numbers"
    assert [entry["value"] for entry in splits["type"]] == ["Icon", "Button", None, "Menu"], "in the data's order"
    two, ten = splits["user"]
    assert (ten["count"], ten["accuracy"], ten["mean_l2"], ten["median_l2"]) == (2, 1.0, 20.0, 20.0)
    assert (two["count"], two["accuracy"], two["mean_l2"]) == (3, 0.0, 200.0)
    assert (two["wrong_format_count"], two["failed_count"], two["distance_count"]) == (1, 1, 1)
    assert ten["low"] is ten["high"] is None, "two screens"
    icon, button, none, menu = splits["type"]
    assert (icon["count"], icon["accuracy"]) == (2, 0.5), "twice the same type counts once"
    assert (button["count"], button["accuracy"]) == (2, 0.5), "an item with two types counts in both"
    assert (none["count"], none["accuracy"]) == (1, 1.0)
    assert (menu["accuracy"], menu["mean_l2"], menu["median_l2"]) == (0.0, None, None)


def test_groups_on_few_screens_are_told() -> None:
    users = ["1"] * 6 + ["2"] * 4 + ["3"] * 3
    rows = [sample(i, 30.0 * i, labels={"user": [user]}) for i, user in enumerate(users)]
    found = judge(rows, delta=DELTA)
    assert [entry["low"] is None for entry in found["splits"]["user"]] == [False, True, True]
    assert found["splits"]["user"][0]["approximate"] is True
    assert found["notes"] == ["no interval for groups on fewer than 5 screens: 2 of 3 by user"]


def test_users_without_a_number_come_behind() -> None:
    names = ["anna", "10", "9", "٣", "1" * 30]
    rows = [sample(i, 1.0, labels={"user": [name]}) for i, name in enumerate(names)]
    found = [entry["value"] for entry in judge([*rows, sample(9, 1.0)], delta=DELTA)["splits"]["user"]]
    assert found == ["9", "10", "1" * 30, "anna", "٣", None]


def test_a_group_has_the_figures_of_its_split() -> None:
    rows = [sample(i, 40.0 * i, kind="box", inside=i < 2, labels={"user": [str(i % 2)]}) for i in range(8)]
    splits = judge(rows, delta=DELTA)["splits"]["user"]
    for entry in splits:
        mine = [row for row in rows if row.result.labels.user == (entry["value"],)]
        assert msgspec.structs.replace(judge_group(mine, delta=DELTA), value=entry.value) == entry
    assert splits[0]["point_in_target"] == 1 / 4
    nothing = judge_group([], delta=DELTA)
    assert (nothing["accuracy"], nothing["mean_l2"], nothing["median_l2"]) == (None, None, None)


# -- does it know? --------------------------------------------------------------------------------------------------


def test_confidence_against_hits_by_hand() -> None:
    """Hit, miss, hit, miss in order of confidence: of four pairs three are in order."""
    rows = [sure(0, 1.0, 0.9), sure(1, 500.0, 0.8), sure(2, 1.0, 0.7), sure(3, 500.0, 0.6)]
    found = judge(rows, delta=DELTA)["knows"]
    assert list(found) == ["coordinate_mean"]
    entry = found["coordinate_mean"]
    assert (entry["answers"], entry["hits"], entry["missing"]) == (4, 2, {})
    assert entry["mean"] == pytest.approx(0.75)
    assert entry["most_common_share"] == 0.25
    assert entry["auroc"]["value"] == entry["selective"]["auroc"] == 3 / 4
    assert entry["selective"]["aurc"] == pytest.approx((0 + 1 / 2 + 1 / 3 + 1 / 2) / 4)
    assert entry["calibration"] is None, "the probability of exact digits is not that of a hit"


def test_its_intervals_are_over_screens() -> None:
    rng = np.random.default_rng(0)
    hit, score, screen = rng.random(90) < 0.5, rng.random(90), np.arange(90) // 3
    rows = [sure(i, 1.0 if hit[i] else 500.0, score[i], "agreement", image=f"{screen[i]:03}") for i in range(90)]
    entry = judge(rows, delta=DELTA)["knows"]["agreement"]
    expected = auroc_interval(score, hit, clusters=screen)
    assert expected is not None
    assert (entry["auroc"]["low"], entry["auroc"]["high"]) == (expected.low, expected.high)
    assert "over 30 clusters" in entry["auroc"]["method"]
    assert entry["selective"]["aurc_low"] < entry["selective"]["aurc"] < entry["selective"]["aurc_high"]
    surplus = overconfidence_interval(score, hit, clusters=screen)
    assert surplus is not None
    assert entry["calibration"]["overconfidence_low"] == surplus.low


def test_a_hundred_hits_without_a_miss_have_no_auroc_and_no_false_underconfidence() -> None:
    """Digits of probability 0.1 that always hit: nobody claimed that they would hit in one of a thousand cases."""
    rows = [sure(i, 1.0, 0.001 + i / 1e5, "coordinate_joint") for i in range(100)]
    entry = judge(rows, delta=DELTA)["knows"]["coordinate_joint"]
    assert entry["calibration"] is entry["auroc"] is None


@pytest.mark.parametrize("kind", ["coordinate_mean", "coordinate_min", "coordinate_joint", "match", "spread"])
def test_what_claims_no_probability_is_ranked_and_never_calibrated(kind: str) -> None:
    turn = -1 if kind == "spread" else 1
    pairs = [(1, 0.9), (1, 0.4), (500, 0.6), (500, 0.1)]
    entry = judge([sure(i, l2, turn * value, kind) for i, (l2, value) in enumerate(pairs)], delta=DELTA)["knows"][kind]
    assert entry["auroc"]["value"] == entry["selective"]["auroc"] == 3 / 4
    assert entry["selective"]["risk_coverage"]["risk"][-1] == 1 / 2
    assert entry["calibration"] is None
    assert entry["mean"] == pytest.approx(turn * 0.5), "the value itself"


def test_agreement_is_calibrated_against_what_it_counts() -> None:
    """Clicks within δ of a small box's middle, two of them outside of it: hits are 3 of 5, clicks within δ 4 of 5."""
    rows = [
        sample(0, 5.0, kind="box", inside=True, confidence={"agreement": 1.0}),
        sample(1, 90.0, kind="box", confidence={"agreement": 1.0}),
        sample(2, 300.0, kind="box", confidence={"agreement": 0.5}),
        sample(3, 5.0, confidence={"agreement": 0.75}),
        sample(4, says="refusal", kind="refusal", confidence={"agreement": 0.75}),
    ]
    entry = judge(rows, delta=DELTA)["knows"]["agreement"]
    assert (entry["hits"], entry["answers"]) == (3, 5)
    assert entry["calibration"]["mean_confidence"] == pytest.approx(0.8)
    assert entry["calibration"]["overconfidence"] == pytest.approx(0.0)
    floor = entry["calibration"]["ece_equal_mass_floor"]
    assert 0.0 < floor["mean"] < floor["high"]


def test_answers_without_a_confidence_are_counted_by_reason() -> None:
    missing = {"coordinate_mean": "no_coordinates"}
    rows = [
        sure(0, 1.0, 0.9),
        sure(1, 500.0, 0.4),
        sample(2, says="wrong_format", confidence={"coordinate_mean": None}, confidence_missing=missing),
        sample(3, says="refusal", confidence={"coordinate_mean": None}, confidence_missing=missing),
        sample(4, 1.0, confidence={"coordinate_mean": None}, confidence_missing={"coordinate_mean": "not_located"}),
        sample(5, 1.0),
        failed(6),
    ]
    entry = judge(rows, delta=DELTA)["knows"]["coordinate_mean"]
    assert entry["answers"] == 2
    assert entry["missing"] == {"no_coordinates": 2, "not_given": 1, "not_located": 1, "server_error": 1}
    assert entry["answers"] + sum(entry["missing"].values()) == len(rows)
    assert entry["selective"]["answers"] == 2


def test_a_kind_that_nobody_has_is_judged_as_nothing() -> None:
    rows = [
        sample(i, 1.0, confidence={"agreement": None}, confidence_missing={"agreement": "no_samples"}) for i in range(2)
    ]
    assert msgspec.to_builtins(judge(rows, delta=DELTA)["knows"]["agreement"]) == {
        "answers": 0,
        "hits": 0,
        "missing": {"no_samples": 2},
        "mean": None,
        "most_common_share": None,
        "auroc": None,
        "selective": None,
        "calibration": None,
    }


def test_a_hit_is_what_the_target_asks_for() -> None:
    """Agreement of a right refusal, of a click inside a region, of one near by, and of one within δ of a point."""
    rows = [
        sample(0, says="refusal", kind="refusal", confidence={"agreement": 0.9}),
        sample(1, 10.0, kind="box", inside=True, confidence={"agreement": 0.8}),
        sample(2, 10.0, kind="box", confidence={"agreement": 0.2}),
        sample(3, 10.0, confidence={"agreement": 0.7}),
        sample(4, 0.0, kind="refusal", confidence={"agreement": 0.1}),
    ]
    entry = judge(rows, delta=DELTA)["knows"]["agreement"]
    assert (entry["hits"], entry["answers"], entry["auroc"]["value"]) == (3, 5, 1.0)


def test_every_kind_of_a_run_is_judged_in_one_order() -> None:
    kinds = ["spread", "match", "agreement", "coordinate_joint", "coordinate_min", "coordinate_mean"]
    rows = [sample(i, 400.0 * (i % 2), confidence=dict.fromkeys(kinds, 0.1 * i)) for i in range(4)]
    found = judge(rows, delta=DELTA)["knows"]
    assert list(found) == ["coordinate_mean", "coordinate_min", "coordinate_joint", "match", "agreement", "spread"]
    expected = auroc([0.0, 0.1, 0.2, 0.3], [1, 0, 1, 0])
    assert expected is not None
    assert found["match"]["auroc"]["value"] == pytest.approx(expected)
    assert found["spread"]["auroc"]["value"] == pytest.approx(1 - expected)


# -- notes ----------------------------------------------------------------------------------------------------------


def many(count: int = 20, **more: Any) -> list[Sample]:
    return [sample(i, 400.0 * (i % 2), **more) for i in range(count)]


def test_a_plain_run_needs_no_notes() -> None:
    assert judge(many(), delta=DELTA)["notes"] == []


def test_only_what_has_something_to_click_is_counted_as_missing_a_click() -> None:
    rows = [*many(10), failed(10), failed(11, "refusal"), sample(12, says="wrong_format", kind="refusal")]
    assert judge(rows, delta=DELTA)["notes"][:2] == [
        "accuracy counts what has no click as a miss (1 failed of 11); mean and median L2 leave these 1 out",
        "of the 10 that were answered, 50.0% are within δ",
    ]


def test_confidences_that_hardly_differ_are_told() -> None:
    rows = many(confidence={"match": 1.0, "agreement": 1.0})
    assert judge(rows, delta=DELTA)["notes"] == [
        "95% or more of the confidences are one number by match, agreement: their AUROC means little"
    ]
    entry = judge(rows, delta=DELTA)["knows"]["match"]
    assert (entry["auroc"]["value"], entry["most_common_share"]) == (0.5, 1.0)


def test_only_misses_cannot_be_told_apart() -> None:
    rows = [sure(i, 500.0, i / 20) for i in range(20)]
    assert judge(rows, delta=DELTA)["notes"] == [
        "whether it knows cannot be told by coordinate mean: all answers that have it are misses"
    ]


def test_clicks_outside_the_screen_and_answers_that_were_cut_off_are_told() -> None:
    rows = many()
    rows[0] = sample(0, 501.0)
    rows[2] = sample(2, says="wrong_format", finish_reason="length")
    rows[4] = sample(4, 0.0, finish_reason="length")
    found = judge(rows, delta=DELTA)
    assert (found["off_screen_count"], found["cut_off_count"]) == (1, 2)
    assert found["notes"][1:] == [
        "1 of 19 clicks lie outside the screen; where many do, the model may write in another --frame",
        "1 of 1 answers in a wrong format ended at --max-new-tokens",
    ]


def test_drawn_answers_that_failed_are_told() -> None:
    block = {"asked": 4, "points": [[500.0, 500.0]] * 3, "wrong_format": 0, "refusals": 0, "failed": 1}
    rows = many(samples=block)
    assert judge(rows, delta=DELTA)["notes"] == [
        "20 of 80 drawn answers failed, and are left out of agreement and spread; --retry-failed asks again"
    ]


def test_a_click_without_words_is_judged_like_any_other() -> None:
    """A model that clicks has no text and no finish reason."""
    rows = []
    for i, row in enumerate(many()):
        without = {"finish_reason": None, "pred_raw": None, "confidence": Confidence(match=i / 20)}
        rows.append(Sample(row.id, i, msgspec.structs.replace(row.result, **without)))
    found = judge(rows, delta=DELTA)
    assert found["accuracy"] == 0.5
    assert math.isclose(found["knows"]["match"]["auroc"]["value"], 0.45)
