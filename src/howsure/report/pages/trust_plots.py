"""Plots of trust: what being told took off the uncertainty, over all steps, by episode and by step."""

from __future__ import annotations

from collections.abc import Sequence

import htpy as h
import numpy as np
from htpy import Element
from numpy.typing import NDArray

from howsure.report.charts import Axis
from howsure.report.charts import Chart
from howsure.report.rows import Table
from howsure.report.views import Section
from howsure.report.run_data import Material
from howsure.report.html import number
from howsure.report.pages.trust_spread import CONDITIONS
from howsure.report.text import counted

MOST_EPISODES = 3
"""Drawn step by step."""
MOST_STEPS = 400
"""Of one episode in a plot."""
MOST_MEANS = 500
"""Episodes in the plot of their means."""
TRUST_AXIS = (-1.0, 2.0)
"""T has no bounds: one step with a denominator near zero would press all others flat."""

Rows = NDArray[np.intp]
_COLUMNS = tuple(given.column for given in CONDITIONS.values())

_READ_ENTROPY = "Lower is surer. A wide gap below a line means that what was told in between decided something."
_READ_TRUST = (
    "Of what knowledge and instruction together took off the entropy, the part that knowledge took off alone: at the "
    "dashed lines nothing (0) and everything (1). T may lie beyond them, since a model may become less sure by being "
    "told more; where it became less sure by being told everything, there is no T."
)


# -- step by step -----------------------------------------------------------------------------------------------------


def by_step(material: Material) -> list[Section]:
    episodes = episodes_of(material.table)
    if not any(np.isfinite(material.table.numbers(column)).any() for column in _COLUMNS):
        return []
    shown = episodes[:MOST_EPISODES]
    plots: list[Element] = []
    with_trust = next((episode for episode, rows in shown if _has_trust(material.table, rows)), None)
    for episode, rows in shown:
        drawn, cut = rows[:MOST_STEPS].tolist(), _cut(len(rows))
        plots.append(_entropies(material, episode, drawn, _as_for(shown[0][0], episode), cut))
        plots.append(_trusts(material, episode, drawn, _as_for(with_trust, episode), cut))
    lead = "How open the action was at each step, and what T makes of it. Where something is missing, the line breaks."
    if len(episodes) > len(shown):
        lead += f" The first {MOST_EPISODES} episodes are drawn; all {len(episodes):,} are below, by their means."
    found = [Section("Step by step", lead, h.div(class_="plots")[plots], "by-step")]
    if len(episodes) > 1:
        found.append(_by_episode(material, episodes))
    return found


def episodes_of(table: Table) -> list[tuple[int, Rows]]:
    """The rows of each episode, both in order."""
    order = table.in_order()
    of = table.numbers("episode")[order]
    by_episode = np.argsort(of, kind="stable")[: np.isfinite(of).sum()]  # NaN comes last
    present, starts = np.unique(of[by_episode], return_index=True)
    parts = np.split(order[by_episode], starts[1:])
    return [(int(episode), rows) for episode, rows in zip(present.tolist(), parts, strict=False)]


def _has_trust(table: Table, rows: Rows) -> bool:
    return bool(np.isfinite(table.numbers("trust")[rows[:MOST_STEPS]]).any())


def _as_for(explained: int | None, episode: int) -> str:
    """How to read a plot is said once, below the first of its kind."""
    return "" if explained is None or explained == episode else f"As for episode {explained}."


def _cut(steps: int) -> str:
    return f" The first {MOST_STEPS} of {steps:,} steps are drawn." if steps > MOST_STEPS else ""


def _entropies(material: Material, episode: int, rows: Sequence[int], said: str, cut: str) -> Element:
    table = material.table
    chart = Chart(f"Episode {episode}: entropy", Axis("step", whole=True), Axis("entropy, bits", 0))
    steps = _picked(table, "step", rows)
    columns = [_picked(table, column, rows) for column in _COLUMNS]
    for given, values in zip(CONDITIONS.values(), columns, strict=True):
        tips = [f"step {number(s, 0)}: {given.entropy} {number(v, 3)} bits" for s, v in zip(steps, values, strict=True)]
        trace(chart, steps, values, f"{given.entropy}, {given.told}", given.series, tips, _links(material, rows))
    lacking = sum(any(column[i] is None for column in columns) for i in range(len(rows)))
    gaps = f" {counted(lacking, 'step')} {'lacks' if lacking == 1 else 'lack'} an entropy." if lacking else ""
    return chart.figure(
        f"{said or _READ_ENTROPY}{gaps}{cut}",
        ["step", *(given.entropy for given in CONDITIONS.values())],
        list(zip([_whole(step) for step in steps], *columns, strict=True)),
    )


def _trusts(material: Material, episode: int, rows: Sequence[int], said: str, cut: str) -> Element:
    """T of the steps; what lies beyond the axis is marked at its edge, and is in the table as it is."""
    low, high = TRUST_AXIS
    if all(value is None for value in _picked(material.table, "trust", rows)):
        return h.p(class_="quiet")[
            f"No step of episode {episode} has a T: it takes all three entropies, and the last clearly below the first."
        ]
    steps, values = _picked(material.table, "step", rows), _picked(material.table, "trust", rows)
    chart = Chart(f"Episode {episode}: trust T", Axis("step", whole=True), Axis("T", low, high))
    chart.level(0.0).level(1.0)
    tips = [f"step {number(s, 0)}: T {number(v, 4)}" for s, v in zip(steps, values, strict=True)]
    inside = [value if value is not None and low <= value <= high else None for value in values]
    links = _links(material, rows)
    trace(chart, steps, inside, "", 3, tips, links)
    beyond = [i for i, value in enumerate(values) if value is not None and not low <= value <= high]
    if beyond:
        edges = [min(max(values[i] or 0.0, low), high) for i in beyond]
        label = f"beyond the axis: {counted(len(beyond), 'step')}"
        chart.points(
            [steps[i] for i in beyond],
            edges,
            label,
            1,
            tips=[tips[i] for i in beyond],
            links=[links[i] for i in beyond],
        )
    lacking = sum(value is None for value in values)
    gaps = f" {counted(lacking, 'step')} {'has' if lacking == 1 else 'have'} no T." if lacking else ""
    far = f" {counted(len(beyond), 'step')} beyond {low:g} to {high:g}, marked at the edge." if beyond else ""
    return chart.figure(
        f"{said or _READ_TRUST}{far}{gaps}{cut}",
        ["step", "T"],
        list(zip([_whole(step) for step in steps], values, strict=True)),
    )


def trace(
    chart: Chart,
    xs: Sequence[float | None],
    ys: Sequence[float | None],
    label: str,
    series: int,
    tips: Sequence[str],
    links: Sequence[str | None],
) -> None:
    """A line through the values with a mark on each, so that one between two gaps is seen too."""
    there = [i for i in range(len(xs)) if xs[i] is not None and ys[i] is not None]
    gaps = np.flatnonzero(np.diff(there) > 1) + 1
    for place, run in enumerate(np.split(np.array(there, dtype=int), gaps)):
        chart.line([xs[i] for i in run], [ys[i] for i in run], label if place == 0 else "", series)
    chart.points(
        [xs[i] for i in there],
        [ys[i] for i in there],
        "",
        series,
        tips=[tips[i] for i in there],
        links=[links[i] for i in there],
    )


def _picked(table: Table, name: str, rows: Sequence[int]) -> list[float | None]:
    values = table.values(name)
    return [values[row] for row in rows]


def _links(material: Material, rows: Sequence[int]) -> list[str | None]:
    return [material.links.sample(material.table.keys[row]) for row in rows]


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


# -- by episode -------------------------------------------------------------------------------------------------------


def _by_episode(material: Material, episodes: Sequence[tuple[int, Rows]]) -> Section:
    means = [_episode_means(material.table, rows) for _, rows in episodes]
    shown = means[:MOST_MEANS]
    xs: list[float | None] = [float(episode) for episode, _ in episodes[:MOST_MEANS]]
    chart = Chart("Entropy by episode", Axis("episode", whole=True), Axis("mean entropy, bits", 0))
    for place, given in enumerate(CONDITIONS.values()):
        ys = [one[place] for one in shown]
        tips = [f"episode {number(x, 0)}: {given.entropy} {number(y, 3)} bits" for x, y in zip(xs, ys, strict=True)]
        trace(chart, xs, ys, f"{given.entropy}, {given.told}", given.series, tips, [None] * len(xs))
    figure = chart.figure(
        "The mean over the complete steps of each episode; lower is surer. A single episode has no T."
        + (f" The first {MOST_MEANS} of {len(means):,} are drawn." if len(means) > MOST_MEANS else ""),
        ["episode", "complete steps", "steps", *(given.entropy for given in CONDITIONS.values())],
        [(episode, one[3], len(rows), *one[:3]) for (episode, rows), one in zip(episodes, means, strict=True)],
    )
    return Section("Episode by episode", "Whether later episodes are surer than earlier ones.", figure, "by-episode")


def _episode_means(table: Table, rows: Rows) -> tuple[float | None, float | None, float | None, int]:
    bits = np.column_stack([table.numbers(column)[rows] for column in _COLUMNS])
    complete = bits[np.isfinite(bits).all(axis=1)]
    if not len(complete):
        return None, None, None, 0
    none, known, told = complete.mean(axis=0).tolist()
    return none, known, told, len(complete)
