"""Plots that several studies share: confidence against what was right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from htpy import Element
from numpy.typing import NDArray

from howsure.report.mcq import confidence_in_words
from howsure.report.pages.axes import Axis
from howsure.report.pages.chart import Chart
from howsure.report.text import interval_text, percent

Floats = NDArray[np.float64]
HISTOGRAM_BINS = 24


def reliability(calibration: dict[str, Any], what: str = "answers") -> Element:
    """Of the answers given with so much confidence, how many are right? `calibration` is that of a summary."""
    bins = calibration["reliability_bins"]
    chart = Chart(
        "Is it as sure as it is right?", Axis("confidence", 0, 1, percent=True), Axis("right", 0, 1, percent=True)
    )
    tips = [
        f"{row['count']} {what}, confidence {percent(row['mean_confidence'])}, right {percent(row['accuracy'])}"
        for row in bins
    ]
    chart.bars(
        [row["low"] for row in bins],
        [row["high"] for row in bins],
        [row["accuracy"] for row in bins],
        "share right",
        tips=tips,
    )
    chart.diagonal()
    chart.points(
        [row["mean_confidence"] for row in bins],
        [row["accuracy"] for row in bins],
        "at the mean confidence of its bar",
        1,
        tips=tips,
    )
    return chart.figure(
        "A bar holds the answers that were about as sure; its mark lies at their mean confidence. On the dashed line "
        "confidence would be deserved; marks below it are overconfident. Confidence is "
        f"{confidence_in_words(calibration)}.{_floor(calibration)}",
        ["from", "to", "mean confidence", "share right", what],
        [(row["low"], row["high"], row["mean_confidence"], row["accuracy"], row["count"]) for row in bins],
    )


def _floor(calibration: dict[str, Any]) -> str:
    """What the marks' distance from the line means: some of it is chance."""
    error, floor = calibration["ece_equal_width"], calibration.get("ece_equal_width_floor")
    if error is None or floor is None:
        return ""
    return (
        f" Calibration error (ECE) {error:.3f}; perfectly calibrated answers with these confidences would show "
        f"{floor['mean']:.3f} on average, and {floor['high']:.3f} or less 19 times of 20."
    )


def risk_coverage(selective: dict[str, Any], what: str = "answers") -> Element:
    """What is gained by leaving out the least sure."""
    curve = selective["risk_coverage"]
    coverage, risk = curve["coverage"], curve["risk"]
    chart = Chart(
        "Risk–coverage: abstaining when unsure",
        Axis(f"{what} kept, the surest first", 0, 1, percent=True),
        Axis("wrong among those kept", 0, None, percent=True),
    )
    chart.line(coverage, risk, "by its confidence")
    chart.level(risk[-1])
    return chart.figure(
        f"{_reading(risk)} Dashed: if as many were kept at random.{_ranking(selective)}",
        ["share kept", "share wrong among them"],
        list(zip(coverage, risk, strict=True)),
    )


def _reading(risk: Sequence[float]) -> str:
    if risk[-1] in (0, 1):
        alike = "wrong" if risk[-1] else "right"
        return f"All are {alike}, so that the line is flat, and says nothing about confidence."
    return (
        "A line that starts low means that the surest answers are rarely wrong; a flat one, that confidence tells "
        "nothing."
    )


def _ranking(selective: dict[str, Any]) -> str:
    if selective.get("auroc") is None:
        return ""
    interval = interval_text(selective, digits=2, prefix="auroc_")
    shown = f"{selective['auroc']:.2f}{f' ({interval})' if interval else ''}"
    return f" AUROC {shown}: the chance that a correct one is surer than a wrong one; 0.5 is chance."


def histogram_by_outcome(
    title: str,
    caption: str,
    label: str,
    values: Floats,
    right: Floats,
    names: tuple[str, str] = ("right", "wrong"),
    *,
    low: float | None = None,
    span: tuple[float, float] | None = None,
    what: str = "samples",
    whole: bool = False,
) -> Element:
    """How values lie among right and wrong, one above the other; `right` is 1, 0, or NaN where not known.

    `span` is what values can be, where that is known; `whole` numbers get bars of whole widths.
    """
    known = np.isfinite(values) & np.isfinite(right)
    chart = Chart(title, Axis(label, low) if span is None else Axis(label, *span), Axis(what, 0, whole=True))
    if not known.any():
        return chart.figure("There is nothing to show.", [], [])
    edges = _edges(values[known], low, span, whole)
    good = np.histogram(values[known & (right == 1)], edges)[0]
    bad = np.histogram(values[known & (right == 0)], edges)[0]
    lefts, rights = edges[:-1].tolist(), edges[1:].tolist()
    tips = [f"{g} {names[0]}, {b} {names[1]}" for g, b in zip(good.tolist(), bad.tolist(), strict=True)]
    chart.bars(lefts, rights, good.astype(float).tolist(), names[0], 0, tips=tips)
    chart.bars(
        lefts, rights, (good + bad).astype(float).tolist(), names[1], 1, bottoms=good.astype(float).tolist(), tips=tips
    )
    left_out = len(known) - int(known.sum())
    more = (
        f" {left_out:,} of {len(known):,} are not drawn: the value is missing or infinite, or what came of it is not "
        "known."
    )
    return chart.figure(
        f"{caption}{more if left_out else ''}",
        ["from", "to", *names],
        list(zip(lefts, rights, good.tolist(), bad.tolist(), strict=True)),
    )


def _edges(values: Floats, low: float | None, span: tuple[float, float] | None, whole: bool) -> Floats:
    if not whole:
        begin, end = span or (float(values.min()), float(values.max()))
        if end - begin <= abs(end) * 1e-9:  # what differs by rounding alone is one value, in the middle of the plot
            begin = begin - 0.5 if low is None else max(begin - 0.5, low)
            end = max(begin + 1.0, end)
        return np.linspace(begin, end, HISTOGRAM_BINS + 1)
    first, last = math.floor(values.min()), math.floor(values.max()) + 1
    width = math.ceil((last - first) / HISTOGRAM_BINS)
    return np.arange(first, last + width, width, dtype=np.float64)


def extremes(confidence: Floats, right: Floats, most: int) -> tuple[list[int], list[int]]:
    """Confident but wrong, and right but unsure: the surest of the wrong, the least sure of the right."""
    known = np.isfinite(confidence)
    wrong, good = np.flatnonzero(known & (right == 0)), np.flatnonzero(known & (right == 1))
    surely = wrong[np.argsort(-confidence[wrong], kind="stable")][:most]
    doubtfully = good[np.argsort(confidence[good], kind="stable")][:most]
    return surely.tolist(), doubtfully.tolist()
