"""Confidence against outcome: intervals over what hangs together, and how much error is chance."""

from __future__ import annotations

import numpy as np
import pytest

from howsure.measures import auarc_interval, auroc_interval, overconfidence_interval
from howsure.studies.sureness import calibration, ends, selective, share


def test_answers_that_hang_together_are_drawn_together() -> None:
    """Each of ten episodes is all right or all wrong: twenty copies of a step say no more than one."""
    confidence = np.full(200, 0.5)
    correct = np.repeat(np.arange(10) % 2 == 0, 20)
    episodes = np.repeat(np.arange(10), 20)
    alone = calibration(confidence, correct, seed=0)
    together = calibration(confidence, correct, seed=0, clusters=episodes)
    assert alone is not None
    assert together is not None
    widths = [found["overconfidence_high"] - found["overconfidence_low"] for found in (alone, together)]
    assert widths[1] > 3 * widths[0]
    expected = overconfidence_interval(confidence, correct, clusters=episodes)
    assert expected is not None
    assert together["overconfidence_low"] == expected.low
    assert together["ece_equal_width_floor"]["high"] == pytest.approx(0.3), "2 to 8 of 10 right, 19 times of 20"
    assert alone["ece_equal_width_floor"]["high"] < 0.1
    same = ("brier", "ece_equal_width", "mean_confidence", "answers", "overconfidence")
    assert {name: alone[name] for name in same} == {name: together[name] for name in same}


def test_four_units_have_no_interval() -> None:
    confidence, correct, labels = np.linspace(0.2, 0.9, 40), np.arange(40) % 3 > 0, np.arange(40) // 10
    found = calibration(confidence, correct, seed=0, clusters=labels)
    ranked = selective(confidence, correct, clusters=labels)
    assert found is not None
    assert ranked is not None
    assert found["overconfidence_low"] is found["overconfidence_high"] is None
    assert ranked["auroc"] is not None
    assert ranked["auroc_low"] is ranked["aurc_low"] is ranked["auroc_method"] is None
    assert share(correct, labels)["low"] is None


def test_rankings_have_their_intervals() -> None:
    confidence, correct = np.linspace(0.2, 0.9, 40), np.arange(40) % 3 > 0
    found = selective(confidence, correct)
    area, kept = auroc_interval(confidence, correct), auarc_interval(confidence, correct)
    assert found is not None
    assert area is not None
    assert kept is not None
    assert (found["auroc_low"], found["auroc_high"]) == (area.low, area.high)
    assert (found["aurc_low"], found["aurc_high"]) == pytest.approx((1 - kept.high, 1 - kept.low))
    assert found["aurc_low"] < found["aurc"] < found["aurc_high"]


def test_an_error_that_chance_explains_lies_below_its_floor() -> None:
    rng = np.random.default_rng(0)
    confidence = rng.beta(2, 1, size=60)
    calibrated = calibration(confidence, rng.random(60) < confidence, seed=1)
    inverted = calibration(confidence, rng.random(60) < 1 - confidence, seed=1)
    assert calibrated is not None
    assert inverted is not None
    for scheme in ("width", "mass"):
        assert calibrated[f"ece_equal_{scheme}"] <= calibrated[f"ece_equal_{scheme}_floor"]["high"]
        assert inverted[f"ece_equal_{scheme}"] > inverted[f"ece_equal_{scheme}_floor"]["high"]


def test_all_right_is_a_share_with_an_interval_of_width() -> None:
    found = share(np.ones(30, dtype=np.bool_), None)
    assert (found["value"], found["count"], found["of"], found["high"]) == (1.0, 30, 30, 1.0)
    assert 0.8 < found["low"] < 0.95
    assert share(np.empty(0, dtype=np.bool_), None)["value"] is None
    assert ends(None) == dict.fromkeys(("low", "high", "level", "method", "approximate"))
