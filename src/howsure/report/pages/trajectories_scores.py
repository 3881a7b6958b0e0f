"""Did uncertainty foretell failure? The scores of runs beside what came of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import htpy as h
import numpy as np
from htpy import Element, Node
from numpy.typing import NDArray

from howsure.report.charts import Axis
from howsure.report.charts import Chart
from howsure.report.views import Section
from howsure.report.run_data import Material
from howsure.report.charts import Named, dots
from howsure.report.html import words
from howsure.report.sureness import histogram_by_outcome
from howsure.report.pages.trajectories_groups import Group
from howsure.report.text import counted
from howsure.studies.trajectories.scores import ADAPTED, DISTANCE, LEARNED

Floats = NDArray[np.float64]
CURVE_POINTS = 120
MOST_POINTS = 500
"""No more than the table below a plot has rows for."""


class Score(NamedTuple):
    """A score of a run: its column, its name for people, and whose and which it is in the summary."""

    column: str
    name: str
    whose: str
    score: str


SCORES = (
    Score("_agent_mean", "agent: mean U", "agent", "mean"),
    Score("_agent_rms", "agent: root mean square", "agent", "rms"),
    Score("_user_mean", "user: mean U", "user", "mean"),
    Score("turns", "number of turns", "run", "turn_count"),
)
"""Those whose curves are drawn; the table of AUROCs has all."""

SHOWN = {
    "turn_count": "number of turns",
    "rms": "root mean square",
    "tail": "worst tenth",
    "maximum": "worst turn",
    DISTANCE: "distance *",
    LEARNED: "learned *",
}


def against_failure(group: Group, material: Material, title: str) -> Section:
    solved = material.table.numbers("solved")[group.rows]
    values = {one: material.table.numbers(one.column)[group.rows] for one in SCORES}
    chosen = next((one for one in SCORES[:3] if not np.isnan(values[one]).all()), None)
    why_not = _why_not(group, solved)
    if chosen is None or np.isnan(solved).all():
        return Section(title, "", h.p(class_="quiet")[why_not or "There are no scores or no rewards to compare."])
    figures: list[Node] = [_histogram(chosen, values[chosen], solved)]
    if _is_graded(material.table.numbers("reward")[group.rows]):
        figures.append(_against_reward(chosen, values[chosen], group, material))
    if {0.0, 1.0} <= set(solved.tolist()):
        figures.append(_roc(values, solved, group))
    if group.found and group.found["scores"]:
        figures.append(_areas(group.found))
    lead = "A score is worth something if failed runs have more of it than solved ones, and more clearly so than by "
    lead += "their number of turns alone: long runs fail more often."
    return Section(title, lead, [h.p(class_="quiet")[why_not] if why_not else None, h.div(class_="plots")[figures]])


def _why_not(group: Group, solved: Floats) -> str | None:
    """Why nothing was judged, in the summary's words where there is one."""
    if group.found and group.found["reason"]:
        missing = ", ".join(
            f"{count:,} {words(name.replace('_', ' '), 60)}" for name, count in group.found["reward_missing"].items()
        )
        return f"Not judged: {words(group.found['reason'], 300)}.{f' Rewards missing: {missing}.' if missing else ''}"
    return "No run has a reward so far." if np.isnan(solved).all() else None


def _histogram(chosen: Score, values: Floats, solved: Floats) -> Element:
    return histogram_by_outcome(
        "Were failed runs less sure?",
        f"Runs by their score ({chosen.name}), solved below and failed above. If the colours lie apart, the score "
        "tells failures from successes.",
        f"{chosen.name}, nats",
        values,
        solved,
        ("solved", "failed"),
        what="runs",
    )


def _is_graded(rewards: Floats) -> bool:
    """Whether there is more to a reward than solved and failed."""
    return len(set(rewards[~np.isnan(rewards)].tolist()) - {0.0, 1.0}) > 0


def _against_reward(chosen: Score, values: Floats, group: Group, material: Material) -> Element:
    rewards, table = material.table.numbers("reward")[group.rows], material.table
    known = np.flatnonzero(np.isfinite(values) & np.isfinite(rewards))
    shown = known[np.unique(np.linspace(0, max(len(known) - 1, 0), MOST_POINTS).astype(int))] if len(known) else known
    chart = Chart("Uncertainty and reward", Axis(f"{chosen.name}, nats"), Axis("reward"))
    chart.points(
        values[shown].tolist(),
        rewards[shown].tolist(),
        tips=[words(table.values("task")[row] or table.keys[row], 80) for row in group.rows[shown].tolist()],
        links=[material.links.sample(table.keys[row]) for row in group.rows[shown].tolist()],
    )
    cut = f" {len(shown):,} of {len(known):,} runs are drawn." if len(shown) < len(known) else ""
    left_out = len(group.rows) - len(known)
    cut += f" {left_out:,} of {len(group.rows):,} have no finite score or no reward." if left_out else ""
    return chart.figure(
        f"A point is a run. A run counts as solved from a reward of 1.{cut}",
        ["task", f"{chosen.name}, nats", "reward"],
        [(table.values("task")[row], float(table.numbers(chosen.column)[row]), float(table.numbers("reward")[row]))
         for row in group.rows[shown].tolist()],
    )  # fmt: skip


# -- ranking ----------------------------------------------------------------------------------------------------------


def _roc(values: dict[Score, Floats], solved: Floats, group: Group) -> Element:
    chart = Chart(
        "Which score finds the failures?",
        Axis("solved runs that are suspected too", 0, 1, percent=True),
        Axis("failed runs that are found", 0, 1, percent=True),
    )
    chart.diagonal()
    rows: list[tuple[Any, ...]] = []
    for series, (score, column) in enumerate(values.items()):
        known = ~np.isnan(column) & ~np.isnan(solved)
        if len(np.unique(solved[known])) < 2:
            continue
        false, true = _curve(column[known], solved[known] == 0)
        chart.line(false, true, f"{score.name}{_area_words(group, score)}", series)
        rows += [(score.name, a, b) for a, b in zip(false, true, strict=True)]
    return chart.figure(
        "Suspect the runs of the highest score first (ROC curve). A curve that climbs steeply finds failures and "
        "spares solved runs; on the dashed line a coin would do as well. AUROC is the area below it: 0.5 is chance.",
        ["score", "share of solved runs suspected", "share of failures found"],
        rows,
    )


def _curve(values: Floats, failed: NDArray[np.bool_]) -> tuple[list[float], list[float]]:
    """The ROC curve. Ranks stand for the values, since an infinite one is no number to sklearn."""
    from sklearn.metrics import roc_curve

    ranks = np.unique(values, return_inverse=True)[1]
    false, true, _ = roc_curve(failed, ranks)
    kept = np.unique(np.linspace(0, len(false) - 1, min(CURVE_POINTS, len(false))).round().astype(int))
    return false[kept].tolist(), true[kept].tolist()


def _area_words(group: Group, score: Score) -> str:
    for row in (group.found or {"scores": []})["scores"]:
        if (row["whose"], row["score"]) == (score.whose, score.score) and row["auroc"] is not None:
            value = row["auroc"]["value"]
            return "" if value is None else f", AUROC {value:.2f}"
    return ""


def _areas(found: dict[str, Any]) -> Element:
    rows = [_area(row) for row in found["scores"] if row["runs"]]
    more = ""
    notes = dict.fromkeys(row["note"] for row in found["scores"] if row.get("note"))
    if notes:
        more += f" Without a line: {'; '.join(notes)}."
    if any(row["score"] in (DISTANCE, LEARNED) and row["runs"] for row in found["scores"]):
        more += f" * {ADAPTED[0].upper()}{ADAPTED[1:]}."
    return dots(
        "Every score against failure",
        "AUROC: the chance that a failed run scores above a solved one. A line that crosses one half may be luck, and "
        f"the best of many rows often is. Below one half, failed runs scored lower.{more}",
        Axis("AUROC", 0, 1),
        rows,
        level=(0.5, "chance"),
        over="tasks",
    )


def _area(row: dict[str, Any]) -> Named:
    shown = SHOWN.get(row["score"], row["score"].replace("_", " "))
    name = shown if row["whose"] == "run" else f"{row['whose']}: {shown}"
    return Named.of(name, row["auroc"] or {"value": None}, counted(row["runs"], "run"))
