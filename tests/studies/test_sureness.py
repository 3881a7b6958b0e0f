"""Confidence against outcome, where the answers come in groups that hang together."""

from __future__ import annotations

import numpy as np

from howsure.measures import bootstrap_mean
from howsure.studies.sureness import calibration


def test_answers_that_hang_together_are_drawn_together() -> None:
    """Each of ten episodes is all right or all wrong: twenty copies of a step say no more than one."""
    confidence = np.full(200, 0.5)
    correct = np.repeat(np.arange(10) % 2 == 0, 20)
    episodes = np.repeat(np.arange(10), 20)
    alone = calibration(confidence, correct, level=0.95, seed=0)
    together = calibration(confidence, correct, level=0.95, seed=0, clusters=episodes)
    assert alone is not None
    assert together is not None
    widths = [found["overconfidence_high"] - found["overconfidence_low"] for found in (alone, together)]
    assert widths[1] > 3 * widths[0]
    expected = bootstrap_mean(confidence[::20] - correct[::20], seed=0)
    assert expected is not None
    assert together["overconfidence_low"] == expected.low
    same = ("brier", "ece_equal_width", "mean_confidence", "answers", "overconfidence")
    assert {name: alone[name] for name in same} == {name: together[name] for name in same}


def test_one_group_alone_says_nothing_of_the_spread() -> None:
    found = calibration(np.array([0.2, 0.9]), np.array([False, True]), level=0.95, seed=0, clusters=["a", "a"])
    assert found is not None
    assert found["overconfidence_low"] is None
    assert found["overconfidence_high"] is None
