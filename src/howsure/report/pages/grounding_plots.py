"""Plots of grounding: distances, figures with their doubt, groups, and whether confidence tells hits from misses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import htpy as h
import numpy as np
from htpy import Node

from howsure.report.grounding import calibration_rows, ranking_in_words
from howsure.report.charts import Axis
from howsure.report.charts import Chart
from howsure.report.rows import Table
from howsure.report.views import Section
from howsure.report.pages.grounding_screen import delta_of
from howsure.report.pages.grounding_words import KIND_WORDS, named, thousandths
from howsure.report.run_data import Material
from howsure.report.charts import Named, dots
from howsure.report.html import table, words
from howsure.report.sureness import reliability, risk_coverage
from howsure.report.text import counted, percent
from howsure.studies.grounding.figures import WITHOUT_BAD
from howsure.studies.grounding.judge import CALIBRATED

BARS = 28
ACROSS = 1415.0
"""From corner to corner: no click on the screen is farther off."""

_FIGURES = {
    "point_in_target": "click inside of the target",
    "point_in_target_without_bad_samples": "the same, without bad samples of the data",
    "point_in_box": "of these, targets that are boxes",
    "point_in_polygon": "of these, targets that are polygons",
    "accuracy": "click within δ",
    "accuracy_without_bad_samples": "the same, without bad samples of the data",
    "accuracy_of_answered": "the same, of those that were answered",
    "refused_rightly": "refused, where there is nothing to click",
    "refused_wrongly": "refused, where there is something to click",
    "wrong_format": "in a wrong format",
    "hit_rate": "hits, a right refusal among them",
    "hit_rate_without_bad_samples": "the same, without bad samples of the data",
}
SHOWN_GROUPS = 30


# -- distances --------------------------------------------------------------------------------------------------------


def how_far(material: Material) -> Section:
    """How the distances of hits and misses lie, with δ as a line among them."""
    rows, delta = material.table, delta_of(material)
    off, hit = rows.numbers("l2"), rows.numbers("hit")
    known = np.isfinite(off) & np.isfinite(hit)
    without = _without_distance(rows, known)
    if not known.any():
        return Section("How far off", without, h.p(class_="quiet")["No answer has a distance."])
    edges = _edges(float(off[known].max()), delta)
    good, bad = (_counts(off[known & (hit == outcome)], edges) for outcome in (1, 0))
    beyond = int((off[known] > edges[-1]).sum())
    return Section("How far off", without, h.div(class_="plots")[_histogram(edges, good, bad, delta, beyond)])


def _edges(farthest: float, delta: float | None) -> Any:
    """Bars of one width, none of them on both sides of δ; what lies off the screen is in the last.

    Before a δ that is smaller than a bar there is a narrow one, or there would be thousands.
    """
    end = min(max(farthest, delta or 0.0, 1.0), ACROSS)
    width = end / BARS
    if not delta or delta > end:
        return np.arange(BARS + 1) * width
    parts = int(delta / width)
    before = np.linspace(0.0, delta, max(1, parts) + 1)  # ends in δ to the last digit, which decides who is within
    width = delta / parts if parts else width
    return np.concatenate([before, delta + np.arange(1, int(np.ceil((end - delta) / width - 1e-9)) + 1) * width])


def _counts(values: Any, edges: Any) -> Any:
    """How many lie in each bar, its right end with it: what is off by δ is within δ."""
    places = np.searchsorted(edges, np.minimum(values, edges[-1]), side="left") - 1
    return np.bincount(np.maximum(places, 0), minlength=len(edges) - 1)


def _histogram(edges: Any, good: Any, bad: Any, delta: float | None, beyond: int) -> Node:
    chart = Chart(
        "Distance of the click from the middle of its target",
        Axis("distance, thousandths of the screen", 0, float(edges[-1])),
        Axis("samples", 0, whole=True),
        width=760,
    )
    lefts, rights = edges[:-1].tolist(), edges[1:].tolist()
    hits, misses = good.tolist(), bad.tolist()
    tips = [
        f"{thousandths(left)} to {thousandths(right)}: {counted(g, 'hit')}, {b} missed"
        for left, right, g, b in zip(lefts, rights, hits, misses, strict=True)
    ]
    floor, top = good.astype(float).tolist(), (good + bad).astype(float).tolist()
    chart.bars(lefts, rights, floor, "hit", 0, tips=tips)
    chart.bars(lefts, rights, top, "missed", 1, bottoms=floor, tips=tips)
    if delta is not None and delta <= edges[-1]:
        chart.upright(delta, f"δ = {delta:g}")
        within = "one within δ, the dashed line"
    else:
        within = "one within δ"
    more = f" The last bar also holds {counted(beyond, 'click')} farther off than the screen is long." if beyond else ""
    return chart.figure(
        "0 is a click in the very middle, 1000 one that is off by the whole width or height. Where the data has boxes "
        "or outlines, a hit is a click inside of them, near or not; where it has points, "
        f"{within}.{more}",
        ["from", "to", "hits", "misses"],
        list(zip(lefts, rights, hits, misses, strict=True)),
    )


def _without_distance(rows: Table, known: Any) -> str:
    """Who is not in the plot, and why."""
    reasons: Counter[str] = Counter()
    names = zip(known.tolist(), rows.values("says"), rows.values("_nothing"), rows.values("reason"), strict=True)
    for is_known, says, nothing, reason in names:
        if is_known:
            continue
        if reason is not None:
            reasons["failed"] += 1
        elif nothing:
            reasons["with nothing to click"] += 1
        else:
            reasons[{"refusal": "refused", "wrong_format": "in a wrong format"}.get(says, "without a place")] += 1
    if not reasons:
        return "Every sample has a distance."
    parts = ", ".join(f"{count:,} {what}" for what, count in sorted(reasons.items(), key=lambda pair: -pair[1]))
    return f"{int(known.sum()):,} of {len(rows):,} samples have a distance; the others do not: {parts}."


def farthest_rows(rows: Table, most: int) -> list[int]:
    """The misses whose click went farthest off, the farthest first."""
    off = rows.numbers("l2")
    missed = np.flatnonzero(np.isfinite(off) & (rows.numbers("hit") == 0))
    found: list[int] = missed[np.argsort(-off[missed], kind="stable")][:most].tolist()
    return found


# -- figures ----------------------------------------------------------------------------------------------------------


def figures(summary: dict[str, Any]) -> Section:
    found, with_bad = summary["figures"], summary.get("bad_sample_count", 0) > 0
    rows: list[Sequence[Any]] = [
        (meaning, percent(one["value"]), _interval(one, percent), f"{one['count']:,} of {one['of']:,}")
        for name, meaning in _FIGURES.items()
        if (one := found.get(name, {})).get("of") and (with_bad or not name.endswith(WITHOUT_BAD))
    ]
    for name, meaning in (("mean_l2", "mean distance"), ("median_l2", "median distance")):
        one = found[name]
        counts = f"{one['count']:,} of {one['of']:,}"
        rows.append((f"{meaning}, thousandths", thousandths(one["value"]), _interval(one, thousandths), counts))
    body: list[Node] = [table(["", "value", "95 % interval", "samples"], rows, numeric=(1, 2, 3))]
    if summary["why_not"]:
        reasons = sorted(summary["why_not"].items(), key=lambda pair: (-pair[1], pair[0]))
        body.append(
            table(["in a wrong format because", "answers"], [(named(why), n) for why, n in reasons], numeric=(1,))
        )
    return Section(
        "The figures",
        "Shares count whatever has no click as a miss; distances leave it out. Intervals are over screens, since "
        "samples on one screen hang together; from fewer than 5 screens there are none.",
        h.div[body],
    )


def _interval(one: dict[str, Any], shown: Callable[[float | None], str]) -> str:
    if one["low"] is None:
        return "—"
    return f"{'about ' if one.get('approximate') else ''}{shown(one['low'])} to {shown(one['high'])}"


# -- groups -----------------------------------------------------------------------------------------------------------


def by_label(summary: dict[str, Any]) -> list[Section]:
    """Who or what is hit how often, for each kind of label that the data has."""
    plots = [_split(kind, rows) for kind, rows in summary["splits"].items() if rows]
    if not plots:
        return []
    lead = "Labels are those of the data; a sample with several counts in each."
    return [Section("Where it is good", lead, h.div(class_="plots")[plots])]


def _split(kind: str, rows: Sequence[dict[str, Any]]) -> Node:
    inside = any(row["point_in_target"] is not None for row in rows)
    shown = rows if kind == "user" else sorted(rows, key=lambda row: -row["count"])
    what = "inside of the target" if inside else "within δ"
    prefix, value = ("point_in_target_", "point_in_target") if inside else ("", "accuracy")
    return dots(
        f"By {kind}",
        f"The dot is the share of clicks {what}; at the right, how many samples there are.",
        Axis(f"clicks {what}", 0, 1, percent=True),
        [
            Named.of(
                "(none)" if row["value"] is None else words(row["value"]),
                row,
                counted(row["count"], "sample"),
                value=value,
                prefix=prefix,
            )
            for row in shown
        ],
        over="screens",
    )


# -- does it know? ----------------------------------------------------------------------------------------------------


def does_it_know(summary: dict[str, Any]) -> list[Section]:
    """For the first kind of confidence two plots at once, for the others when asked for; a line of figures for each."""
    knows = {kind: summary["knows"][kind] for kind in KIND_WORDS if kind in summary["knows"]}
    if not knows:
        return []
    with_answers = [kind for kind, found in knows.items() if found["answers"]]
    others = [
        h.details[h.summary[f"By {kind.replace('_', ' ')}: {KIND_WORDS[kind]}"], _plots(kind, knows[kind])]
        for kind in with_answers[1:]
    ]
    first = with_answers[0] if with_answers else None
    lead = (
        "No answer has a confidence."
        if first is None
        else f"Confidence set against hit and miss. Plotted: {first.replace('_', ' ')}, {KIND_WORDS[first]}."
    )
    return [Section("Does it know?", lead, [_plots(first, knows[first]) if first else None, _overview(knows), others])]


def _plots(kind: str, found: dict[str, Any]) -> Node:
    plots: list[Node] = []
    if found["selective"] is not None:
        plots.append(risk_coverage(found["selective"]))
    calibrated = found["calibration"]
    if calibrated is None or kind not in CALIBRATED:
        return h.div(class_="plots")[plots]
    plots.append(reliability(calibrated))
    return [
        h.div(class_="plots")[plots],
        table(["calibration", ""], calibration_rows(calibrated)),
        h.p(class_="quiet")[
            "Right is here a click within δ of its target, which is what agreement counts among the answers drawn."
        ],
    ]


def _overview(knows: dict[str, dict[str, Any]]) -> Node:
    rows = [
        (
            kind.replace("_", " "),
            found["answers"],
            *ranking_in_words(found["selective"]),
            ", ".join(f"{count:,} {named(why)}" for why, count in found["missing"].items()) or "nothing",
        )
        for kind, found in knows.items()
    ]
    headers = ["confidence", "answers", "AUROC (hit vs miss)", "AURC", "missing"]
    return [
        table(headers, rows, numeric=(1, 2, 3)),
        h.p(class_="quiet")[
            "AUROC is the chance that a hit is surer than a miss: 0.5 tells nothing, 1 all. AURC is the mean share of "
            "misses among the surest, over all ways to draw that line. Only agreement claims to be a probability of "
            "being right, and is calibrated: the others rank."
        ],
    ]
