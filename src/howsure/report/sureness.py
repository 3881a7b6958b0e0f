"""Should it be so sure? Confidence set against right and wrong, in words and in plots, as several studies show it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from howsure.measures import LEAST_UNITS
from howsure.measures.ranking import LEAST_OF_A_CLASS
from howsure.report.charts import Axis, Chart
from howsure.report.document import Block, Card, Cards, Cell, Facts, Head, Plot, Prose, Section, Side, Value
from howsure.report.text import interval_text, percent
from howsure.studies.sureness import Calibration, Floor, Selective

Floats = NDArray[np.float64]
HISTOGRAM_BINS = 24
_EXPLAINED = (
    "ECE: how far confidence lies from the share right, on average over bins. Chance alone puts it above 0, the more "
    "so the fewer answers there are; only what lies above the range of a perfectly calibrated model tells of a fault. "
    "AUROC: the chance that a right answer has more confidence than a wrong one. AURC: the mean share wrong among the "
    "surest, over all ways to draw that line."
)


def sureness(
    calibration: Calibration | None,
    selective: Selective | None,
    noun: str,
    against: str = "correct vs wrong",
    more: Sequence[tuple[str, Cell]] = (),
) -> list[Block]:
    """Reliability and risk–coverage as plots, and the figures of both; nothing where confidence is not known."""
    found: list[Block] = []
    if calibration is not None:
        found.append(reliability(calibration, noun))
    if selective is not None:
        found.append(risk_coverage(selective, noun))
    rows = [*calibration_rows(calibration), *ranking_rows(selective, against), *more]
    return [*found, Facts(rows), Prose(_EXPLAINED, "quiet", on="page")] if rows else []


# -- in words ---------------------------------------------------------------------------------------------------------


def calibration_rows(found: Calibration | None) -> list[tuple[str, Cell]]:
    if found is None:
        return []
    smooth = "—" if found.smooth_ece is None else f"{found.smooth_ece:.3f} (above 0 by chance too)"
    return [
        ("confidence", confidence_in_words(found)),
        (f"ECE, {found.bins} equal-width bins", ece_in_words(found.ece_equal_width, found.ece_equal_width_floor)),
        (f"ECE, {found.bins} equal-mass bins", ece_in_words(found.ece_equal_mass, found.ece_equal_mass_floor)),
        ("smooth ECE", smooth),
        ("Brier, log-loss", f"{_decimals(found.brier)}, {_decimals(found.log_loss_nats)} nats"),
    ]


def ranking_rows(found: Selective | None, against: str = "correct vs wrong") -> list[tuple[str, Cell]]:
    if found is None:
        return []
    excess = "" if found.e_aurc is None else f"; excess AURC {found.e_aurc:.3f}"
    kept = [one for one in found.accuracy_at_coverage if one.coverage < 1]
    return [
        (f"AUROC ({against})", auroc_in_words(found)),
        ("AURC", f"{_with_interval(found, 'aurc')}{excess}"),
        ("selective accuracy", ", ".join(f"{percent(one.accuracy)} of the surest {one.coverage:.0%}" for one in kept)),
    ]


def confidence_in_words(found: Calibration) -> str:
    """`80.0 % on average: overconfident by 12.0 points (4.0 to 20.0)`; no verdict where the interval holds zero."""
    mean = f"{percent(found.mean_confidence)} on average"
    value, low, high = found.overconfidence, found.overconfidence_low, found.overconfidence_high
    if low is None or high is None:
        side = "above" if value >= 0.0 else "below"
        few = "no interval: too few independent answers"
        return f"{mean}: {abs(value) * 100:.1f} points {side} the share right ({few})"
    ends = interval_text(found, 100.0, 1, prefix="overconfidence_")
    if low <= 0.0 <= high:
        return f"{mean}: not clearly over- or underconfident: {value * 100:+.1f} points ({ends})"
    if low > 0.0:
        return f"{mean}: overconfident by {value * 100:.1f} points ({ends})"
    turned = {"low": -high, "high": -low, "approximate": found.overconfidence_approximate}
    return f"{mean}: underconfident by {-value * 100:.1f} points ({interval_text(turned, 100.0, 1)})"


def ece_in_words(value: float | None, floor: Floor | None) -> str:
    """`0.225; a perfectly calibrated model with these confidences: 0.133 on average, up to 0.190 in 19 of 20`."""
    if floor is None:
        return f"{_decimals(value)} (too few independent answers to tell it from chance)"
    return (
        f"{_decimals(value)}; a perfectly calibrated model with these confidences: {floor.mean:.3f} on average, up to "
        f"{floor.high:.3f} in 19 of 20"
    )


def auroc_in_words(found: Selective) -> str:
    return "— (all answers are alike)" if found.auroc is None else _with_interval(found, "auroc")


_TAKES = {
    "auroc": f"it takes {LEAST_UNITS} independent units, {LEAST_OF_A_CLASS} right and {LEAST_OF_A_CLASS} wrong",
    "aurc": f"it takes {LEAST_UNITS} independent units",
}


def _with_interval(found: Selective, name: str) -> str:
    value = Value.at(found, name)
    return f"{value} (no interval: {_TAKES[name]})" if value.low is None else str(value)


def _decimals(value: float | None) -> str:
    return "—" if value is None else f"{value:.3f}"


# -- plots ------------------------------------------------------------------------------------------------------------


def reliability(found: Calibration, noun: str = "answers") -> Plot:
    """Of the answers given with so much confidence, how many are right?"""
    bins = found.reliability_bins
    chart = Chart(
        "Is it as sure as it is right?", Axis("confidence", 0, 1, percent=True), Axis("right", 0, 1, percent=True)
    )
    tips = [
        f"{one.count} {noun}, confidence {percent(one.mean_confidence)}, right {percent(one.accuracy)}" for one in bins
    ]
    means, shares = [one.mean_confidence for one in bins], [one.accuracy for one in bins]
    chart.bars([one.low for one in bins], [one.high for one in bins], shares, "share right", tips=tips)
    chart.diagonal()
    chart.points(means, shares, "at the mean confidence of its bar", 1, tips=tips)
    return chart.figure(
        "A bar holds the answers that were about as sure; its mark lies at their mean confidence. On the dashed line "
        f"confidence would be deserved; marks below it are overconfident. Confidence is {confidence_in_words(found)}.",
        ["from", "to", "mean confidence", "share right", noun],
        [(one.low, one.high, one.mean_confidence, one.accuracy, one.count) for one in bins],
    )


def risk_coverage(found: Selective, noun: str = "answers") -> Plot:
    """What is gained by leaving out the least sure."""
    coverage, risk = found.risk_coverage.coverage, found.risk_coverage.risk
    chart = Chart(
        "Risk–coverage: abstaining when unsure",
        Axis(f"{noun} kept, the surest first", 0, 1, percent=True),
        Axis("wrong among those kept", 0, None, percent=True),
    )
    chart.line(coverage, risk, "by its confidence")
    chart.level(risk[-1])
    auroc = "" if found.auroc is None else f" AUROC {auroc_in_words(found)}; 0.5 is chance."
    return chart.figure(
        f"{_reading(risk)} Dashed: if as many were kept at random.{auroc}",
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
    edges: Floats | None = None,
    upright: tuple[float, str] | None = None,
) -> Plot:
    """How values lie among right and wrong, one above the other; `right` is 1, 0, or NaN where not known.

    `span` is what values can be, where that is known; `whole` numbers get bars of whole widths; `edges` are those of
    bars that have to begin and end there; `upright` is a line at a value, and its name.
    """
    known = np.isfinite(values) & np.isfinite(right)
    chart = Chart(title, Axis(label, low) if span is None else Axis(label, *span), Axis(what, 0, whole=True))
    if not known.any():
        return chart.figure("There is nothing to show.", [], [])
    if edges is None:
        edges = _edges(values[known], low, span, whole)
    good = np.histogram(values[known & (right == 1)], edges)[0]
    bad = np.histogram(values[known & (right == 0)], edges)[0]
    lefts, rights = edges[:-1].tolist(), edges[1:].tolist()
    tips = [f"{g} {names[0]}, {b} {names[1]}" for g, b in zip(good.tolist(), bad.tolist(), strict=True)]
    chart.bars(lefts, rights, good.astype(float).tolist(), names[0], 0, tips=tips)
    chart.bars(
        lefts, rights, (good + bad).astype(float).tolist(), names[1], 1, bottoms=good.astype(float).tolist(), tips=tips
    )
    if upright is not None:
        chart.upright(*upright)
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


def worth_a_look(
    wrong: Sequence[Card],
    right: Sequence[Card],
    nothing: str,
    *,
    headers: Sequence[str | Head] = (),
    titles: tuple[str, str] = ("Confident but wrong", "Right but unsure"),
    leads: tuple[str, str] = (
        "Wrong, the surest first: the higher the confidence, the less it protected.",
        "Right, the least sure first: who asks again where the model is unsure loses these first.",
    ),
    lead: str = "Where confidence and truth part ways: the surest of what is wrong, the least sure of what is right.",
) -> Section:
    """The two kinds of sample that a person should look at first, the most telling at the top of each."""
    sides = [Side(*each, headers) for each in zip(titles, leads, (wrong, right), strict=True)]
    return Section("Worth a look", [Cards(sides, nothing)], lead, "look")
