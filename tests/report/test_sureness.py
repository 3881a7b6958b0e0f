"""Plots of confidence against what was right: what is left out is counted, and sentences fit the data."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from howsure.report.sureness import histogram_by_outcome, reliability, risk_coverage, worth_a_look
from howsure.studies.sureness import Calibration, Selective, calibration, selective
from report.rendered import as_html, drawn


def histogram(values: list[float], right: list[float]) -> str:
    return drawn(histogram_by_outcome("Title", "Caption.", "margin", np.array(values), np.array(right), low=0))


def calibrated(confidence: list[float], correct: list[bool]) -> Calibration:
    found = calibration(np.array(confidence), np.array(correct), level=0.95, seed=0)
    assert found is not None
    return found


def kept(confidence: list[float], correct: list[bool]) -> Selective:
    found = selective(np.array(confidence), np.array(correct))
    assert found is not None
    return found


def test_what_a_histogram_leaves_out_is_counted() -> None:
    html = histogram([1.0, math.inf, math.nan, 2.0, 3.0], [1, 1, 0, math.nan, 0])
    assert "3 of 5 are not drawn: the value is missing or infinite, or what came of it is not known." in html
    assert "not drawn" not in histogram([1.0, 2.0], [1, 0])


@pytest.mark.parametrize("values", [[1.0, 1.0000000000000002], [0.25, 0.25], [0.0, 0.0]])
def test_values_that_differ_by_rounding_alone_are_one_bar_within_the_plot(values: list[float]) -> None:
    rows = re.findall(r"<tr>(.*?)</tr>", histogram(values, [1, 0]))[1:]
    cells = [[float(cell) for cell in re.findall(r"<td[^>]*>([^<]*)</td>", row)] for row in rows]
    assert [row[2:] for row in cells if any(row[2:])] == [[1, 1]]
    assert min(row[0] for row in cells) >= 0


def test_the_dashed_line_lies_before_the_bars() -> None:
    html = drawn(reliability(calibrated([0.9, 0.4, 0.6], [True, False, True])))
    assert html.index('class="bar') < html.index('class="rule"') < html.index('class="point')


@pytest.mark.parametrize(
    ("confidence", "correct", "words"),
    [
        ([0.95] * 8, [True] * 8, "95.0 % on average: not clearly over- or underconfident: -5.0 points (about "),
        ([0.9] * 8, [False] * 8, "90.0 % on average: overconfident by 90.0 points (about "),
        ([0.9] * 4, [False] * 4, "90.0 points above the share right (no interval: too few independent answers)."),
    ],
)
def test_overconfidence_comes_with_its_interval(confidence: list[float], correct: list[bool], words: str) -> None:
    assert words in drawn(reliability(calibrated(confidence, correct)))


@pytest.mark.parametrize(("right", "word"), [(True, "right"), (False, "wrong")])
def test_a_flat_line_is_no_verdict_where_all_ended_alike(right: bool, word: str) -> None:
    html = drawn(risk_coverage(kept([0.9, 0.5], [right, right])))
    assert f"All are {word}, so that the line is flat, and says nothing about confidence." in html
    assert "tells nothing" not in html
    assert "AUROC" not in html


def test_a_line_over_both_kinds_is_read_from_its_start() -> None:
    html = drawn(risk_coverage(kept([0.9, 0.5], [True, False])))
    assert "A line that starts low" in html
    assert "AUROC 1.000" in html


def test_where_there_is_nothing_to_look_at_it_says_why() -> None:
    assert "No question could be scored." in as_html([worth_a_look([], [], "No question could be scored.")])
