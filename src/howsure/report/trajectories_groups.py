"""Trajectories group by group: uncertainty over the turns, and what the scores say of failure.

A group is of one domain, one agent and one source of scores. A score of one model means nothing beside that of another,
so that no figure pools two groups.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from howsure.measures import chance_auprc
from howsure.report.charts import Axis, Chart, Named, dots, thinned
from howsure.report.document import Block, Cell, Head, Plot, Prose, Section, Table, Value
from howsure.report.run_data import RunData
from howsure.report.sureness import histogram_by_outcome
from howsure.report.text import counted, shortened
from howsure.studies.trajectories.breakdown import DETECTORS, TURN_COUNT
from howsure.studies.trajectories.judge import Group as JudgedGroup
from howsure.studies.trajectories.judge import ScoreRow, grouped
from howsure.studies.trajectories.scores import DISTANCE, LEARNED, score_name
from howsure.studies.trajectories.summary import TrajectoriesSummary

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

NAME_CHARACTERS = 80
AGENT, USER = "a", "u"
"""Who spoke, in the hidden column `_who`: one letter a turn."""
ACTORS = {AGENT: "agent", USER: "user"}

MOST_TURNS = 120
"""Of one speaker on a plot; what comes later is counted."""
LEAST_RUNS = 3
"""Behind a median, where there are so many at all."""
SINGLE_RUNS = 2
MOST_MARKS = 150
CURVE_POINTS = 120
MOST_POINTS = 500
"""No more than the table below a plot has rows for."""
QUARTILES = (0.25, 0.5, 0.75)
_HUGE = 1e200
"""Stands for what is infinite: larger than any sum of log-probabilities."""

NO_SCORES = (
    "No turn here has a score: these logs hold no log-probabilities. --score-with smollm2 lets a local model read the "
    "conversations again; docs/trajectories.md tells how to have log-probabilities logged."
)
_SCORES = (
    "AUROC: the chance that a failed run scores above a solved one. AUPRC: average precision in finding the failures. "
    "AUARC: the mean share solved among the runs kept, as those of the highest score are left out one by one. rms: "
    "root mean square of U over the turns; position: later turns count more; tail: mean of the worst tenth; maximum: "
    "the worst turn. Compare all of them with turn count: long runs fail more often."
)


class Alarm(NamedTuple):
    """Where an alarm rang: the run's row in the table, and the number of the turn."""

    row: int
    turn: int


class Group(NamedTuple):
    """Runs that can be compared: their rows in the table of `run`, and what the summary says of them, where there are
    such."""

    name: str
    rows: Places
    run: RunData | None
    judged: JudgedGroup | None

    def numbers(self, column: str) -> Floats:
        """Of its rows."""
        return np.array([]) if self.run is None else self.run.table.numbers(column)[self.rows]


def groups_of(summary: TrajectoriesSummary | None, run: RunData | None) -> list[Group]:
    """Every group, largest first; rows that could not be read belong to none."""
    judged = {(one.name, one.scored_by or ""): one for one in summary.groups} if summary else {}
    if run is None:
        return [Group(_named(*name), np.array([], dtype=np.intp), None, one) for name, one in judged.items()]
    keys = run.table.values("_key")
    known = np.array([row for row in run.table.in_order().tolist() if keys[row] is not None], dtype=np.intp)
    groups = []
    for (domain, agent, scored_by), places in grouped([keys[row] for row in known.tolist()]):
        name = ", ".join(part for part in (domain, agent) if part)
        groups.append(Group(_named(name, scored_by), known[places], run, judged.get((name, scored_by))))
    return groups


def _named(name: str, scored_by: str) -> str:
    proxy = f", proxy: {scored_by}'s surprise" if scored_by not in ("", "log") else ""
    return shortened(f"{name or 'all runs'}{proxy}", NAME_CHARACTERS)


def counts(group: Group) -> str:
    """`20 runs of 10 tasks, 7 failed, 1 without a reward (1 no reward)`."""
    if group.run is not None:
        solved, rows = group.numbers("solved"), group.rows.tolist()
        tasks, reasons = (group.run.table.values(name) for name in ("task", "_reward_missing"))
        runs, failed, of = len(rows), int((solved == 0).sum()), len({tasks[row] for row in rows})
        unknown = group.rows[np.isnan(solved)].tolist()
        missing: Mapping[str, int] = Counter(reasons[row] or "no_reward" for row in unknown)
    else:
        assert group.judged is not None  # of a group that has neither, nobody knows
        judged = group.judged
        runs, failed, of, missing = judged.runs, judged.failures, judged.tasks, judged.reward_missing
    if sum(missing.values()) == runs:
        return f"{counted(runs, 'run')}, no reward known"
    why = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in missing.items())
    without = f", {sum(missing.values()):,} without a reward ({why})" if missing else ""
    return f"{counted(runs, 'run')} of {counted(of, 'task')}, {failed:,} failed{without}"


# -- alarms -----------------------------------------------------------------------------------------------------------


def alarms_of(group: Group) -> dict[str, list[Alarm]]:
    """Every alarm by detector; nothing for a run that is not finished."""
    if group.run is None or group.judged is None or group.judged.breakdown is None:
        return {}
    rows = dict(zip(group.numbers("_index").tolist(), group.rows.tolist(), strict=True))
    return {
        name: [Alarm(rows[place], turn) for place, turn in pairs if place in rows]
        for name, pairs in group.judged.breakdown.alarms.items()
    }


def leading_detector(group: Group, alarms: dict[str, list[Alarm]]) -> str | None:
    """The detector whose alarms are drawn: the one that interventions follow, else the first that rang at all."""
    wanted = ["cusum", *(name for name in alarms if name != TURN_COUNT), TURN_COUNT]
    if group.judged and group.judged.interventions:
        wanted = [group.judged.interventions.detector]
    return next((name for name in wanted if alarms.get(name)), None)


# -- over the turns ---------------------------------------------------------------------------------------------------


class Outcome(NamedTuple):
    """Runs that ended alike, with their colour."""

    name: str
    series: int
    rows: list[int]


def over_turns(group: Group, title: str) -> Section:
    """How uncertainty runs over the turns of agent and user: median and quartiles over runs, and a few single runs."""
    lead = (
        "U is the mean of −ln p over the tokens of a turn, in nats: 0 is certain, 0.7 a coin toss at every token. A "
        "turn is one message."
    )
    blocks: list[Block] = [Prose(counts(group))]
    if group.run is not None:
        solved = group.numbers("solved")
        outcomes = [
            Outcome("solved", 0, group.rows[solved == 1].tolist()),
            Outcome("failed", 1, group.rows[solved == 0].tolist()),
            Outcome("reward not known", 5, group.rows[np.isnan(solved)].tolist()),
        ]
        plots = [_by_turn(actor, [one for one in outcomes if one.rows], group, group.run) for actor in ACTORS]
        known = [one for one in plots if one is not None]
        blocks += known or [Prose(NO_SCORES, "quiet", on="page")]
    return Section(title, blocks, lead if len(blocks) > 1 else "")


def _by_turn(actor: str, outcomes: Sequence[Outcome], group: Group, run: RunData) -> Plot | None:
    whose = ACTORS[actor]
    chart = Chart(
        f"How unsure was the {whose}, turn by turn?", Axis(f"turn of the {whose}", 1, whole=True), Axis("U, nats", 0)
    )
    scores = run.table.values(f"_{whose}")
    series = [[scores[row] for row in one.rows] for one in outcomes]
    matrices = [_matrix(several) for several in series]
    rows = [
        row
        for one, matrix in zip(outcomes, matrices, strict=True)
        if np.isfinite(matrix).any()
        for row in _draw(chart, one, matrix)
    ]
    if not rows:
        return None
    said = [_reading(outcomes), _mark_alarms(chart, actor, group, run)]
    if infinite := sum(int(np.isinf(matrix).sum()) for matrix in matrices):
        turns = f"{counted(infinite, 'turn')} {'is' if infinite == 1 else 'are'} infinitely unsure"
        said.append(
            f"{turns} (a token of probability 0): counted as the highest, and not drawn where a median or a quartile "
            "is infinite."
        )
    longest = max(len(values) for several in series for values in several)
    if longest > MOST_TURNS:
        said.append(f"The first {MOST_TURNS} of up to {longest:,} turns are drawn.")
    heads = [f"turn of the {whose}", "runs that ended", "runs", "lower quartile", "median", "upper quartile"]
    return chart.figure(" ".join(one for one in said if one), heads, rows)


def _matrix(series: Sequence[Sequence[float]]) -> Floats:
    """[runs × turns of this speaker], NaN where missing; a turn that is infinitely unsure is infinite."""
    width = min(max(map(len, series), default=0), MOST_TURNS)
    matrix = np.full((len(series), width), np.nan)
    for place, values in enumerate(series):
        matrix[place, : min(len(values), width)] = values[:width]
    return matrix


def _draw(chart: Chart, outcome: Outcome, matrix: Floats) -> list[tuple[Cell, ...]]:
    """Band, median, and some runs as thin lines; the numbers for the table."""
    turns = list(range(1, matrix.shape[1] + 1))
    runs = (~np.isnan(matrix)).sum(axis=0)
    enough = runs >= min(LEAST_RUNS, max(int(runs.max()), 1))
    with warnings.catch_warnings(), np.errstate(invalid="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # a turn that no run reached with a score
        low, middle, high = np.where(enough, quantiles(matrix, QUARTILES), np.nan)
    known = np.flatnonzero(~np.isnan(middle))
    places = [turns[i] for i in known]
    if len(matrix) > 1:
        chart.band(places, low[known].tolist(), high[known].tolist(), outcome.series)
        for i in np.unique(np.linspace(0, len(matrix) - 1, SINGLE_RUNS).round().astype(int)):
            there = np.flatnonzero(np.isfinite(matrix[i]))
            chart.line([turns[k] for k in there], matrix[i, there].tolist(), "", outcome.series, thin=True)
    name = f"{outcome.name}: median" if len(matrix) > 1 else f"{outcome.name}: the only run"
    chart.line(places, middle[known].tolist(), name, outcome.series)
    if len(known) == 1:
        chart.points(places, middle[known].tolist(), "", outcome.series)
    ends = [["∞" if np.isinf(value) else value for value in end[known].tolist()] for end in (low, middle, high)]
    return [(turns[i], outcome.name, int(runs[i]), *row) for i, *row in zip(known.tolist(), *ends, strict=True)]


def quantiles(values: Floats, shares: Sequence[float]) -> Floats:
    """[shares × columns] over the rows that have a value. What is infinite counts as larger than everything else: NumPy
    would have no quantile beside it, not even where both neighbours are finite."""
    ends: Floats = np.nanquantile(np.minimum(values, _HUGE), shares, axis=0)
    return np.where(ends > _HUGE * 1e-9, np.inf, ends)


def _reading(outcomes: Sequence[Outcome]) -> str:
    most = max(len(one.rows) for one in outcomes)
    if most == 1:
        return "A line is a run."
    text = (
        "Thick: the median over runs; shaded: the middle half of them; thin: a few runs by themselves. Later turns are "
    )
    text += "those of long runs alone"
    if most >= LEAST_RUNS:
        text += f", and a median of {LEAST_RUNS} runs or more ends where fewer than {LEAST_RUNS} are left"
    both = {"solved", "failed"} <= {one.name for one in outcomes}
    luck = (
        " A line of failed runs that leaves that of solved ones may foretell failure; with few runs it is often luck."
    )
    return f"{text}.{luck if both else ''}"


def _mark_alarms(chart: Chart, actor: str, group: Group, run: RunData) -> str:
    """A triangle where an alarm rang in a turn of this speaker."""
    alarms = alarms_of(group)
    detector = leading_detector(group, alarms)
    if detector is None:
        return ""
    table, places = run.table, []
    who, scores, tasks, solved = (table.values(name) for name in ("_who", f"_{ACTORS[actor]}", "task", "solved"))
    for one in alarms[detector]:
        turn = who[one.row][: one.turn].count(actor)  # from 1
        if who[one.row][one.turn - 1] == actor and turn <= MOST_TURNS:
            places.append((one, turn))
    if not places:
        return ""
    drawn, name = places[:MOST_MARKS], shortened(detector.replace("_", " "), 30)
    rows = [one.row for one, _ in drawn]
    ended = ["solved" if solved[row] else "failed" for row in rows]
    tips = [
        f"{tasks[row] or table.keys[row]}: alarm at turn {one.turn}, {end}"
        for (one, _), row, end in zip(drawn, rows, ended, strict=True)
    ]
    marks = [scores[one.row][turn - 1] for one, turn in drawn]
    links = [run.links.sample(table.keys[row]) for row in rows]
    chart.points([turn for _, turn in drawn], marks, f"alarm ({name})", 3, tips=tips, links=links)
    cut = f" The first {MOST_MARKS} of {len(places):,} are drawn." if len(places) > MOST_MARKS else ""
    when = f" ({DETECTORS[detector].rings_when})" if detector in DETECTORS else ""
    return f"Triangles: where the alarm of {name} fired in a run{when}.{cut}"


# -- scores against failure -------------------------------------------------------------------------------------------


DRAWN = {"_agent_mean": "agent: mean", "_agent_rms": "agent: rms", "_user_mean": "user: mean", "turns": "turn count"}
"""Scores whose curves are drawn: their columns, and their names as in the table."""


def against_failure(group: Group, title: str) -> Section:
    lead = (
        "A score is worth something if failed runs have more of it than solved ones, and more clearly so than by their "
        "number of turns alone: long runs fail more often."
    )
    judged, blocks = group.judged, list[Block]()
    if judged is not None and judged.reason is not None:
        blocks.append(Prose(f"Not judged: {judged.reason}."))
    if group.run is not None:
        blocks += _plots(group, group.run)
    if judged is not None and judged.scores:
        blocks += [_areas(judged), _score_table(judged), *_remarks(judged)]
    return Section(title, blocks, lead)


def _plots(group: Group, run: RunData) -> list[Block]:
    solved, rewards = group.numbers("solved"), group.numbers("reward")
    values = {column: group.numbers(column) for column in DRAWN}
    chosen = next((column for column in list(DRAWN)[:3] if not np.isnan(values[column]).all()), None)
    if chosen is None or np.isnan(solved).all():
        why = "No turn has a score." if chosen is None else "No run has a reward so far."
        return [] if group.judged else [Prose(why, "quiet", on="page")]
    caption = (
        f"Runs by their score ({DRAWN[chosen]}), solved below and failed above. If the colours lie apart, the score "
        "tells failures from successes."
    )
    label, names = f"{DRAWN[chosen]}, nats", ("solved", "failed")
    plots: list[Block] = [
        histogram_by_outcome("Were failed runs less sure?", caption, label, values[chosen], solved, names, what="runs")
    ]
    if set(rewards[~np.isnan(rewards)].tolist()) - {0.0, 1.0}:  # there is more to a reward than solved and failed
        plots.append(_against_reward(label, values[chosen], rewards, group, run))
    if {0.0, 1.0} <= set(solved.tolist()):
        plots.append(_roc(values, solved))
    return plots


def _against_reward(label: str, values: Floats, rewards: Floats, group: Group, run: RunData) -> Plot:
    known = np.flatnonzero(np.isfinite(values) & np.isfinite(rewards))
    shown = known[thinned(len(known), MOST_POINTS)]
    tasks, keys, rows = run.table.values("task"), run.table.keys, group.rows[shown].tolist()
    points, names = [values[shown].tolist(), rewards[shown].tolist()], [tasks[row] or keys[row] for row in rows]
    chart = Chart("Uncertainty and reward", Axis(label), Axis("reward"))
    chart.points(*points, tips=names, links=[run.links.sample(keys[row]) for row in rows])
    left_out = len(group.rows) - len(known)
    caption = "A point is a run. A run counts as solved from a reward of 1."
    caption += f" {len(shown):,} of {len(known):,} runs are drawn." if len(shown) < len(known) else ""
    caption += f" {left_out:,} of {len(group.rows):,} have no finite score or no reward." if left_out else ""
    return chart.figure(caption, ["task", label, "reward"], list(zip(names, *points, strict=True)))


def _roc(values: dict[str, Floats], solved: Floats) -> Plot:
    chart = Chart(
        "Which score finds the failures?",
        Axis("solved runs that are suspected too", 0, 1, percent=True),
        Axis("failed runs that are found", 0, 1, percent=True),
    ).diagonal()
    rows: list[tuple[Cell, ...]] = []
    for series, (column, scores) in enumerate(values.items()):
        known = ~np.isnan(scores) & ~np.isnan(solved)
        if len(np.unique(solved[known])) == 2:
            false, true = _curve(scores[known], solved[known] == 0)
            chart.line(false, true, DRAWN[column], series)
            rows += [(DRAWN[column], a, b) for a, b in zip(false, true, strict=True)]
    return chart.figure(
        "Suspect the runs of the highest score first (ROC curve). A curve that climbs steeply finds failures and "
        "spares solved runs; on the dashed line a coin would do as well. AUROC is the area below it: 0.5 is chance.",
        ["score", "share of solved runs suspected", "share of failures found"],
        rows,
    )


def _curve(values: Floats, failed: NDArray[np.bool_]) -> tuple[list[float], list[float]]:
    """Shares of solved and of failed runs at or above each value, the highest first; runs of one value are one step."""
    _, place = np.unique(-values, return_inverse=True)
    found, spared = (np.cumsum(np.bincount(place, weights=of)) for of in (failed, ~failed))
    false, true = (np.concatenate([[0.0], steps / steps[-1]]) for steps in (spared, found))
    kept = np.unique(np.linspace(0, len(false) - 1, min(CURVE_POINTS, len(false))).round().astype(int))
    return false[kept].tolist(), true[kept].tolist()


def _areas(judged: JudgedGroup) -> Plot:
    values = [(row, Value(None) if row.auroc is None else Value.at(row.auroc)) for row in judged.scores if row.runs]
    return dots(
        "Every score against failure",
        "A line that crosses one half may be luck, and the best of many rows often is. Below one half, failed runs "
        "scored lower.",
        Axis("AUROC", 0, 1),
        [Named(_score(row), value, counted(row.runs, "run")) for row, value in values],
        level=(0.5, "chance"),
        over="tasks",
    )


def _score_table(judged: JudgedGroup) -> Table:
    chances = (0.5, chance_auprc(judged.judged, judged.failures), 1 - judged.failures / judged.judged)
    heads = [
        Head(f"{name} (chance {chance:.3f})", short=f"{name}\nchance {chance:.2f}")
        for name, chance in zip(("AUROC", "AUPRC", "AUARC"), chances, strict=True)
    ]
    rows = [
        (_score(row), row.runs, *(Value.at(area) if area else None for area in (row.auroc, row.auprc, row.auarc)))
        for row in judged.scores
    ]
    return Table(["score", Head("runs", numeric=True), *heads], rows, "Intervals are of 95 %, over tasks.", most=30)


def _score(row: ScoreRow) -> str:
    name = f"{row.score} *" if row.score in (DISTANCE, LEARNED) else row.score.replace("_", " ")
    return name if row.whose == "run" else f"{row.whose}: {name}"


def _remarks(judged: JudgedGroup) -> list[Block]:
    """What there is to say below the table: marks, scores that were not judged, and why intervals are missing."""
    adapted = any(row.score in (DISTANCE, LEARNED) for row in judged.scores)
    lines = [
        *(["* adapted from SAUP"] if adapted else []),
        *(f"{names}: {reason}" for reason, names in _by_remark(judged, "reason").items()),
        *(f"AUROC of {names}: {note}" for note, names in _by_remark(judged, "note").items()),
    ]
    return [*(Prose(line, "quiet") for line in lines), Prose(_SCORES, "quiet", on="page")]


def _by_remark(judged: JudgedGroup, field: str) -> dict[str, str]:
    """For each remark the scores that it is made of: `agent mean, rms; user mean`, or `every score`."""
    named: dict[str, dict[str, list[str]]] = {}
    for row in judged.scores:
        if getattr(row, field):
            named.setdefault(getattr(row, field), {}).setdefault(row.whose, []).append(score_name(row.score))
    of = sum(1 for row in judged.scores if field != "note" or not row.reason)
    listed = {one: "; ".join(f"{whose} {', '.join(names)}" for whose, names in by.items()) for one, by in named.items()}
    return {one: "every score" if sum(map(len, named[one].values())) == of else text for one, text in listed.items()}
