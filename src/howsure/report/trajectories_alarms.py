"""What alarms on the uncertainty of turns would have caught, how early, and what intervening there would have saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from howsure.report.charts import MOST_SERIES, Axis, Chart, Named, dots
from howsure.report.document import Block, Cell, Head, Lines, Plot, Prose, Section, Table, Value
from howsure.report.html import SHOWN_ROWS
from howsure.report.sureness import histogram_by_outcome
from howsure.report.text import counted, percent, shortened
from howsure.report.trajectories_groups import Group, alarms_of, leading_detector
from howsure.studies.trajectories.alarm_stats import AgainstTurnCount, AlarmShare, DetectorStats, MarkStats, NearMarks
from howsure.studies.trajectories.breakdown import DETECTORS
from howsure.studies.trajectories.intervention import InterventionRow, Interventions, PolicyTerms
from howsure.studies.trajectories.judge import Breakdown

NAME_CHARACTERS = 70
WHEN = {"alarm": "at the alarms", "always": "always, at once", "random": "as often, at random"}
"""Never intervening costs and avoids nothing, and is not shown."""
HOW_TO_GET = (
    "What would acting on the alarms have saved? Say what you would do, what it costs, how often it would help and how "
    "often it would harm: --policy confirm:1:0.3:0.05 is a question that costs 1, rescues three in ten failing runs "
    "and spoils one in twenty that would have succeeded."
)


def _name(detector: str) -> str:
    return shortened(detector.replace("_", " "), NAME_CHARACTERS)


def alarms(group: Group, breakdown: Breakdown, title: str) -> Section:
    tried = {name: stats for name, stats in breakdown.detectors.items() if stats.tried}
    turns = "all turns" if breakdown.watched == "overall" else f"the {breakdown.watched}'s turns"
    lead = (
        f"Alarms watch {turns} as they come, with thresholds from solved runs of other tasks. A good one rings in most "
        "runs that fail, early, and rarely in others; and it does so better than turn count, an alarm at a fixed "
        "number of turns."
    )
    lines = [Prose(line, "quiet") for line in breakdown_lines(breakdown)]
    if not tried:
        return Section(title, [Prose("No alarm could be fitted to these runs."), *lines], lead)
    aim = breakdown.false_alarm_rate
    caught = dots(
        "Failures in which an alarm fired",
        "Further right is better. The dot is the share; upright: the rate of false alarms, which alarms at random "
        "would reach too.",
        Axis("failed runs", 0, 1, percent=True),
        _named({name: stats.caught for name, stats in tried.items()}),
        level=(aim, "by chance"),
        over="tasks",
    )
    false = dots(
        "False alarms: solved runs in which one fired",
        "Further left is better. Thresholds aim at the upright line: they keep to it on average over draws of the runs "
        "that they were fitted on, which is no guarantee for these runs.",
        Axis("solved runs", 0, 1, percent=True),
        _named({name: stats.false_alarms for name, stats in tried.items()}),
        level=(aim, "aimed at"),
        over="tasks",
    )
    plots = [one for one in (caught, false, _how_early(group)) if one is not None]
    return Section(title, [*plots, _detectors(tried, breakdown.watched), *lines], lead)


def _named(shares: dict[str, AlarmShare]) -> list[Named]:
    return [Named(_name(name), Value.at(one, unit="share"), f"{one.count} of {one.of}") for name, one in shares.items()]


def _how_early(group: Group) -> Plot | None:
    listed = alarms_of(group)
    detector = leading_detector(group, listed)
    if detector is None or group.run is None:
        return None
    turns, solved = (group.run.table.numbers(name) for name in ("turns", "solved"))
    rows = [one.row for one in listed[detector]]
    return histogram_by_outcome(
        "How early did it fire?",
        f"Turns still to come at the alarm ({_name(detector)}). At 0 the conversation was over, and the alarm of no "
        "use; alarms in solved runs were false.",
        "turns still to come",
        turns[rows] - np.array([one.turn for one in listed[detector]], dtype=float),
        solved[rows],
        ("solved", "failed"),
        low=0,
        what="runs",
        whole=True,
    )


def _detectors(tried: dict[str, DetectorStats], watched: str) -> Table:
    """Medians with their intervals; the quartiles say how the runs themselves differ."""
    heads: list[str | Head] = [
        Head(f"alarms on {watched} turns", short="alarms"),
        "failures caught",
        "false alarms",
        Head("median turns still to come", short="to come"),
        Head("quartiles", wide=True),
    ]
    rows = []
    for name, stats in tried.items():
        shares = (replace(Value.at(one, unit="share"), note=None) for one in (stats.caught, stats.false_alarms))
        lead = stats.turns_before_end
        early = (
            (None, None)
            if lead is None
            else (Value.at(lead, "median", decimals=1), f"{lead.lower_quartile:g} and {lead.upper_quartile:g}")
        )
        rows.append((_name(name), *shares, *early))
    return Table(heads, rows, "Intervals are of 95 %, over tasks.")


def breakdown_lines(breakdown: Breakdown) -> list[str]:
    """How the thresholds came about, what the number of turns alone does, whom they could not be tried on, and what
    alarms have to do with known errors."""
    lines = [
        f"thresholds aim at {percent(breakdown.false_alarm_rate)} false alarms: fitted on successful runs of other "
        "tasks, they keep to that rate on average over draws of such runs, if runs are exchangeable; runs of one task "
        "are not, and for this set nothing is guaranteed"
    ]
    tried = {name: stats for name, stats in breakdown.detectors.items() if stats.tried}
    when = [f"{_name(name)}, when {DETECTORS[name].rings_when}" for name in tried if name in DETECTORS]
    lines += [f"alarms: {'; '.join(when)}"] if when else []
    for what, shares in (
        ("failures caught", [stats.caught for stats in tried.values()]),
        ("false alarms", [stats.false_alarms for stats in tried.values()]),
    ):
        lines += [f"{what}: {note}" for note in dict.fromkeys(share.note for share in shares) if note]
    why_not: dict[str, list[str]] = {}
    for name, stats in breakdown.detectors.items():
        if not stats.tried:
            why_not.setdefault(_why_untried(stats), []).append(_name(name))
    lines += [f"{', '.join(names)}: not tried: {why}" for why, names in why_not.items()]
    for name, stats in breakdown.detectors.items():
        if stats.tried and stats.not_tried:
            reasons = ", ".join(f"{count} {reason}" for reason, count in stats.not_tried.items())
            lines.append(f"{_name(name)}: not tried on {counted(sum(stats.not_tried.values()), 'run')} ({reasons})")
        beside = stats.against_turn_count
        if beside is not None and beside.difference is not None:
            verdict = beside.note or f"{_name(name)} clearly beats an alarm at a fixed number of turns"
            lines.append(f"against turn count, {_name(name)}: {_more(beside)} of failures caught; {verdict}")
        lines += [_beside(_name(name), kind, marks) for kind, marks in stats.marks.items() if marks.alarmed]
    for kind, count in breakdown.marks_before_watch.items():
        lines.append(f"{counted(count, kind.replace('_', ' '))} before the first watched turn: no alarm can tell of it")
    return lines


def _why_untried(stats: DetectorStats) -> str:
    return stats.reason or next((fold.reason for fold in stats.folds if fold.reason), "no run has a known turn")


def _beside(name: str, kind: str, marks: MarkStats) -> str:
    line = (
        f"{name} and {_name(kind)}s: an alarm in {marks.alarmed} of {counted(marks.runs_with_mark, 'run')} with one, "
        f"{marks.alarm_at_or_before_first_mark} of them not after it"
    )
    near = marks.near
    if near is None:
        return line
    return (
        f"{line}; {percent(near.value)} of the alarms lie next to one, {percent(near.value_at_random)} would by "
        f"chance: {_more(near)}{f' ({near.note})' if near.note else ''}"
    )


def _more(difference: AgainstTurnCount | NearMarks) -> Value:
    return Value.at(difference, "difference", "share", is_difference=True)


# -- interventions ----------------------------------------------------------------------------------------------------


def interventions(replayed: Interventions | None, title: str) -> Section:
    """Failures avoided against interventions, where policies were given; otherwise how to give them."""
    if replayed is None:
        return Section(title, [Prose(HOW_TO_GET, "quiet", on="page")])
    if replayed.reason is not None and not any(replayed.curves.values()):
        return Section(title, [Prose(f"Nothing could be replayed: {replayed.reason}.")])
    lead = (
        "The logged runs, replayed: at each alarm somebody intervened, which costs in solved runs too. Expected "
        "numbers, with 95 % intervals over tasks where they depend on which runs there were."
    )
    blocks: list[Block] = [
        _curves(replayed),
        Prose(f"At the alarms of {_name(replayed.detector)}. {_acted_on(replayed)}"),
    ]
    for policy in replayed.policies:
        rows = [row for row in replayed.table if row.policy == policy.name]
        blocks += [Lines([""]), Prose(_terms(policy)), _policy_table(rows, policy, replayed.failure_cost is not None)]
    return Section(title, [*blocks, *([Prose(replayed.note, "quiet")] if replayed.note else [])], lead)


def _acted_on(replayed: Interventions) -> str:
    alarmed = replayed.alarmed
    return (
        f"Of {counted(replayed.runs, 'run')} {replayed.failures:,} failed; of those with an alarm "
        f"{Value.at(alarmed, unit='share')} failed, {alarmed.in_time} with time left to rescue them. Chances to rescue "
        "and to spoil are those that were given: no log can show them."
    )


def _terms(policy: PolicyTerms) -> str:
    """What it does and costs, and how many of the runs acted on must be failures for it to pay."""
    name = shortened(policy.name, NAME_CHARACTERS)
    terms = f"{name} (cost {policy.cost:g}, rescues {percent(policy.rescue)}, spoils {percent(policy.spoil)})"
    if policy.break_even is None:
        return f"{terms}: nothing to gain: it neither rescues nor spoils, or failures cost nothing"
    at = f"above a failure rate of {percent(policy.break_even)}" if policy.break_even > 0.0 else "at every failure rate"
    text = f"{terms}: acting in time pays {at} among the runs acted on, its cost aside"
    costs = policy.break_even_with_costs
    if costs is None:
        return text
    return f"{text}; {'at no rate' if costs >= 1 else f'above {percent(costs)}'} with its cost"


def _policy_table(rows: Sequence[InterventionRow], policy: PolicyTerms, saves: bool) -> Table:
    """A column for each time to act; spoiled runs have rows where the policy can spoil any."""
    shown = [row for row in rows if row.when in WHEN]
    figures: list[tuple[str, list[Cell]]] = [
        ("interventions", [f"{row.interventions:.1f}" for row in shown]),
        ("spent", [f"{row.spent:.1f}" for row in shown]),
        ("failures avoided", [_expected(row, "failures_avoided", "avoided") for row in shown]),
    ]
    if policy.spoil > 0:
        figures.append(("runs spoiled", [_expected(row, "successes_spoiled", "spoiled") for row in shown]))
        figures.append(("net avoided", [_expected(row, "net_avoided", "net") for row in shown]))
    figures.append(("cost of one avoided", [Value(row.cost_per_avoided_failure, decimals=2) for row in shown]))
    if saves:
        figures.append(("net saving", [_expected(row, "net_saving", "saving") for row in shown]))
    return Table(["", *(WHEN[row.when] for row in shown)], [(name, *cells) for name, cells in figures])


def _expected(row: InterventionRow, name: str, prefix: str) -> Value:
    low, high, about = (row[f"{prefix}_{end}"] for end in ("low", "high", "approximate"))
    return Value(row[name], "", low, high, about, decimals=1)


def _curves(replayed: Interventions) -> Plot:
    """Of what is left when the runs that intervening spoils are taken off."""
    spoils = any(policy.spoil > 0 for policy in replayed.policies)
    axis = Axis("net failures avoided, expected") if spoils else Axis("failures avoided, expected", 0)
    chart = Chart("What intervening would save", Axis("interventions", 0), axis)
    rows: list[tuple[Cell, ...]] = []
    drawn = list(replayed.curves.items())[:MOST_SERIES]
    for series, (name, points) in enumerate(drawn):
        most = min(SHOWN_ROWS // len(drawn) - 1, len(points))  # so few that the table below has all of them
        curve = [points[place] for place in np.unique(np.linspace(0, len(points) - 1, most).round().astype(int))]
        spent = [0, *(point.interventions for point in curve)]
        net = [0.0, *(point.net_avoided for point in curve)]
        by_chance = [0.0, *(point.random_net_avoided for point in curve)]
        shown = shortened(name, NAME_CHARACTERS)
        chart.line(spent, net, shown, series, step=True)
        chart.line(spent, by_chance, "", series, thin=True)
        rows += [(shown, *entry) for entry in zip(spent, net, by_chance, strict=True)]
        for row in replayed.table:
            if row.policy == name and row.when == "alarm":
                tip = f"{shown} at the alarms: {row.net_avoided:.1f} avoided"
                chart.points([row.interventions], [row.net_avoided], "", series, tips=[tip])
    left_out = len(replayed.curves) - len(drawn)
    more = (
        f" {left_out:,} more {'policy' if left_out == 1 else 'policies'} in the tables below." if left_out > 0 else ""
    )
    net_of = "Failures avoided less runs spoiled, along" if spoils else "Along"
    return chart.figure(
        f"{net_of} all thresholds, from the highest (few alarms) to the lowest (one in every run). The mark is where "
        "the thresholds of this run lie; thin: as many interventions at random turns of random runs. The gain is what "
        f"lies above the thin line.{more}",
        ["policy", "interventions", "failures avoided, net", "at random"],
        rows,
    )
