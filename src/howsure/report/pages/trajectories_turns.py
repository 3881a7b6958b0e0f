"""How uncertainty runs over the turns of agent and user: median and quartiles over runs, and a few single runs."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import htpy as h
import numpy as np
from htpy import Element, Node
from numpy.typing import NDArray

from howsure.report.charts import Axis
from howsure.report.charts import Chart
from howsure.report.views import Section
from howsure.report.run_data import Material
from howsure.report.html import words
from howsure.report.pages.trajectories_groups import (
    ACTORS,
    AGENT,
    USER,
    Alarm,
    Group,
    alarms_of,
    leading_detector,
    place_of,
    rings_when,
)
from howsure.report.text import counted

MOST_TURNS = 120
"""Of one speaker on a plot; what comes later is counted."""
LEAST_RUNS = 3
"""Behind a median, where there are so many at all."""
SINGLE_RUNS = 2
MOST_MARKS = 150
QUARTILES = (0.25, 0.5, 0.75)
_HUGE = 1e200
"""Stands for what is infinite: larger than any sum of log-probabilities."""

Matrix = NDArray[np.float64]


class Side(NamedTuple):
    """Runs that ended alike, with their colour."""

    name: str
    series: int
    rows: list[int]


def over_turns(group: Group, material: Material, title: str) -> Section:
    sides = sides_of(group, material)
    figures = [_figure(actor, sides, group, material) for actor in (AGENT, USER)]
    shown = [figure for figure in figures if figure is not None]
    if not shown:
        return Section(title, "", h.p(class_="quiet")[NO_SCORES])
    return Section(
        title,
        "U is the mean of −ln p over the tokens of a turn, in nats: 0 is certain, 0.7 is a coin's toss at every token. "
        "A turn is one message.",
        h.div(class_="plots")[shown],
    )


NO_SCORES = (
    "No turn here has a score: these logs hold no log-probabilities. --score-with smollm2 lets a local model read the "
    "conversations again; docs/trajectories.md tells how to have log-probabilities logged."
)


def sides_of(group: Group, material: Material) -> list[Side]:
    """Solved runs, failed ones, and those of which nobody knows."""
    solved = material.table.numbers("solved")[group.rows]
    sides = [
        Side("solved", 0, group.rows[solved == 1].tolist()),
        Side("failed", 1, group.rows[solved == 0].tolist()),
        Side("reward not known", 5, group.rows[np.isnan(solved)].tolist()),
    ]
    return [side for side in sides if side.rows]


def by_turn(material: Material, rows: Sequence[int], actor: str) -> Matrix:
    """[runs × turns of this speaker], NaN where missing; a turn that is infinitely unsure is infinite."""
    scores = material.table.values(f"_{ACTORS[actor]}")
    series = [scores[row] for row in rows]
    width = min(max(map(len, series), default=0), MOST_TURNS)
    found = np.full((len(series), width), np.nan)
    for place, values in enumerate(series):
        found[place, : min(len(values), width)] = values[:width]
    return found


def _figure(actor: str, sides: Sequence[Side], group: Group, material: Material) -> Element | None:
    whose = ACTORS[actor]
    chart = Chart(
        f"How unsure was the {whose}, turn by turn?", Axis(f"turn of the {whose}", 1, whole=True), Axis("U, nats", 0)
    )
    rows: list[tuple[Any, ...]] = []
    for side in sides:
        found = by_turn(material, side.rows, actor)
        if np.isfinite(found).any():
            rows += _draw(chart, side, found)
    if not rows:
        return None
    marked = _mark_alarms(chart, actor, group, material)
    return chart.figure(
        [_reading(sides), marked, _infinite(sides, material, actor), _cut(group, material, actor)],
        [f"turn of the {whose}", "runs that ended", "runs", "lower quartile", "median", "upper quartile"],
        rows,
    )


def _draw(chart: Chart, side: Side, found: Matrix) -> list[tuple[Any, ...]]:
    """Band, median, and some runs as thin lines; the numbers for the table."""
    turns = list(range(1, found.shape[1] + 1))
    runs = (~np.isnan(found)).sum(axis=0)
    enough = runs >= min(LEAST_RUNS, max(int(runs.max()), 1))
    with warnings.catch_warnings(), np.errstate(invalid="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # a turn that no run reached with a score
        low, middle, high = np.where(enough, quantiles(found, QUARTILES), np.nan)
    known = np.flatnonzero(~np.isnan(middle))
    place = [turns[i] for i in known]
    if len(found) > 1:
        chart.band(place, low[known].tolist(), high[known].tolist(), side.series)
        for i in np.unique(np.linspace(0, len(found) - 1, SINGLE_RUNS).round().astype(int)):
            there = np.flatnonzero(np.isfinite(found[i]))
            chart.line([turns[k] for k in there], found[i, there].tolist(), "", side.series, thin=True)
    name = f"{side.name}: median" if len(found) > 1 else f"{side.name}: the only run"
    chart.line(place, middle[known].tolist(), name, side.series)
    if len(known) == 1:
        chart.points(place, middle[known].tolist(), "", side.series)
    return [(turns[i], side.name, int(runs[i]), *(_shown(ends[i]) for ends in (low, middle, high))) for i in known]


def quantiles(found: Matrix, shares: Sequence[float]) -> Matrix:
    """[shares × columns] over the rows that have a value. What is infinite counts as larger than everything else: NumPy
    would have no quantile beside it, not even where both neighbours are finite."""
    ends: Matrix = np.nanquantile(np.minimum(found, _HUGE), shares, axis=0)
    return np.where(ends > _HUGE * 1e-9, np.inf, ends)


def _shown(value: float) -> float | str:
    return "∞" if np.isinf(value) else float(value)


def _infinite(sides: Sequence[Side], material: Material, actor: str) -> str:
    count = sum(int(np.isinf(by_turn(material, side.rows, actor)).sum()) for side in sides)
    if not count:
        return ""
    turns = f"{counted(count, 'turn')} {'is' if count == 1 else 'are'} infinitely unsure (a token of probability 0)"
    return f" {turns}: counted as the highest, and not drawn where a median or a quartile is infinite."


def _reading(sides: Sequence[Side]) -> str:
    if max(len(side.rows) for side in sides) == 1:
        return "A line is a run."
    both = {"solved", "failed"} <= {side.name for side in sides}
    luck = "A line of failed runs that leaves that of solved ones may foretell failure; with few runs it is often luck."
    apart = f" {luck}" if both else ""
    return (
        "Thick: the median over runs; shaded: the middle half of them; thin: a few runs by themselves. Later turns are "
        f"those of long runs alone{_ends(sides)}.{apart}"
    )


def _ends(sides: Sequence[Side]) -> str:
    """What is said of where medians end, which no side of one or two runs does."""
    some = max(len(side.rows) for side in sides) >= LEAST_RUNS
    return f", and a median of {LEAST_RUNS} runs or more ends where fewer than {LEAST_RUNS} are left" if some else ""


def _cut(group: Group, material: Material, actor: str) -> str:
    scores = material.table.values(f"_{ACTORS[actor]}")
    longest = max(len(scores[row]) for row in group.rows.tolist())
    return f" The first {MOST_TURNS} of up to {longest:,} turns are drawn." if longest > MOST_TURNS else ""


# -- alarms -----------------------------------------------------------------------------------------------------------


def _mark_alarms(chart: Chart, actor: str, group: Group, material: Material) -> Node:
    alarms = alarms_of(group, material)
    detector = leading_detector(group, alarms)
    if detector is None:
        return None
    placed = [(one, *place_of(one, material)) for one in alarms[detector]]
    ours = [(one, turn) for one, speaker, turn in placed if speaker == actor and turn <= MOST_TURNS]
    if not ours:
        return None
    _points(chart, ours[:MOST_MARKS], actor, detector, material)
    cut = f" The first {MOST_MARKS} of {len(ours):,} are drawn." if len(ours) > MOST_MARKS else ""
    name, meaning = words(detector.replace("_", " "), 40), rings_when(detector)
    when = f" ({meaning})" if meaning else ""
    return f" Triangles: where the alarm of {name} rang in a run{when}.{cut}"


def _points(chart: Chart, alarms: Sequence[tuple[Alarm, int]], actor: str, detector: str, material: Material) -> None:
    table = material.table
    scores, tasks, solved = (table.values(name) for name in (f"_{ACTORS[actor]}", "task", "solved"))
    chart.points(
        [turn for _, turn in alarms],
        [scores[one.row][turn - 1] for one, turn in alarms],
        f"alarm ({words(detector.replace('_', ' '), 30)})",
        3,
        tips=[
            f"{words(tasks[one.row] or table.keys[one.row], 80)}: alarm at turn {one.turn}, "
            f"{'solved' if solved[one.row] else 'failed'}"
            for one, _ in alarms
        ],
        links=[material.links.sample(table.keys[one.row]) for one, _ in alarms],
    )
