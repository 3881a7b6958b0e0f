"""What alarms on the uncertainty of turns would have caught, how early, and what stepping in there would have saved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import htpy as h
import numpy as np
from htpy import Element, Node

from howsure.report.pages.axes import Axis
from howsure.report.pages.chart import MOST_SERIES, Chart
from howsure.report.pages.contract import Section
from howsure.report.pages.material import Material
from howsure.report.pages.named import Named, dots
from howsure.report.pages.parts import SHOWN_ROWS, number, table, words
from howsure.report.pages.sureness import histogram_by_outcome
from howsure.report.pages.trajectories_groups import DETECTORS, Group, alarms_of, leading_detector
from howsure.report.text import counted, percent
from howsure.report.trajectories import breakdown_lines

WHEN = {"alarm": "at the alarms", "never": "never", "always": "always, at once", "random": "as often, at random"}
HOW_TO_GET = (
    "What would acting on the alarms have saved? Say what you would do, what it costs and how often it would help: "
    "--policy confirm:1:0.3 is a question that costs 1 and rescues three in ten."
)


def alarms(group: Group, material: Material, title: str) -> Section | None:
    breakdown = group.breakdown
    if breakdown is None:
        return None
    detectors = breakdown["detectors"]
    tried = {name: found for name, found in detectors.items() if found["tried"]}
    watched = breakdown["watched"]
    turns = "all turns" if watched == "overall" else f"the {words(watched, 20)}'s turns"
    lead = (
        f"Alarms watch {turns} as they come, with thresholds from solved runs of other tasks. A good one rings in most "
        "runs that fail, early, and rarely in others."
    )
    body = [
        h.div(class_="plots")[_shares(tried, breakdown), _how_early(group, material)] if tried else None,
        _detector_table(detectors) if tried else h.p["No alarm could be fitted to these runs:"],
        h.ul(class_="notes")[[h.li[words(line, 600)] for line in breakdown_lines(breakdown)[0 if tried else 1 :]]],
    ]
    return Section(title, lead, body)


def _shares(tried: dict[str, Any], breakdown: dict[str, Any]) -> Node:
    promised = breakdown["false_alarm_rate"]
    caught = [_named(name, found["caught"]) for name, found in tried.items()]
    rang = [_named(name, found["false_alarms"]) for name, found in tried.items()]
    return [
        dots(
            "Failures in which an alarm rang",
            "Further right is better. The dot is the share, the line its 95 % interval; dashed: the rate of false "
            "alarms, which alarms at random would reach too.",
            Axis("failed runs", 0, 1, percent=True),
            caught,
            level=(promised, "by chance"),
        ),
        dots(
            "False alarms: solved runs in which one rang",
            "Further left is better. Thresholds were set to keep below the dashed line.",
            Axis("solved runs", 0, 1, percent=True),
            rang,
            level=(promised, "promised"),
        ),
    ]


def _named(name: str, share: dict[str, Any]) -> Named:
    note = f"{share['count']} of {share['of']}"
    return Named(name.replace("_", " "), share["value"], share["low"], share["high"], note)


def _how_early(group: Group, material: Material) -> Element | None:
    found = alarms_of(group, material)
    detector = leading_detector(group, found)
    if detector is None:
        return None
    turns, solved = material.table.numbers("turns"), material.table.numbers("solved")
    rows = [one.row for one in found[detector]]
    left = turns[rows] - np.array([one.turn for one in found[detector]], dtype=float)
    return histogram_by_outcome(
        "How early did it ring?",
        f"Turns still to come at the alarm ({words(detector.replace('_', ' '), 40)}). At 0 the conversation was over, "
        "and the alarm of no use; alarms in solved runs were false.",
        "turns still to come",
        left,
        solved[rows],
        ("solved", "failed"),
        low=0,
        what="runs",
        whole=True,
    )


def _detector_table(detectors: dict[str, Any]) -> Element:
    rows = []
    for name, found in detectors.items():
        lead = found["turns_before_end"]
        early = "—" if lead is None else f"{lead['median']:g} ({lead['low']:g} to {lead['high']:g})"
        meaning = DETECTORS.get(name, "")
        rows.append((name.replace("_", " "), meaning, _share(found["caught"]), _share(found["false_alarms"]), early))
    return table(
        ["detector", "alarm when", "failures caught", "false alarms", "turns to come when caught"],
        rows,
        caption="Shares with 95 % intervals; turns to come: median and quartiles.",
    )


def _share(found: dict[str, Any]) -> str:
    if found["value"] is None:
        return "—"
    counts = f"{found['count']} of {found['of']}, {percent(found['value'])}"
    return counts if found["low"] is None else f"{counts} ({percent(found['low'])} to {percent(found['high'])})"


# -- stepping in ------------------------------------------------------------------------------------------------------


def interventions(group: Group, title: str) -> Section | None:
    """Failures avoided against interventions, where policies were given; otherwise how to give them."""
    if group.breakdown is None or group.found is None:
        return None
    found = group.found["interventions"]
    if found is None:
        return Section(title, "", h.p(class_="quiet")[HOW_TO_GET])
    if found["reason"] is not None and not any(found["curves"].values()):
        return Section(title, "", h.p(class_="quiet")[f"Nothing could be replayed: {words(found['reason'], 300)}."])
    lead = (
        f"The logged runs, replayed: at each alarm of {words(found['detector'].replace('_', ' '), 40)} one step in, "
        "which costs in solved runs too. The chance to rescue is the one that was given: no log can show it."
    )
    return Section(title, lead, [h.div(class_="plots")[_saved(found)], _policy_table(found)])


def _saved(found: dict[str, Any]) -> Element:
    chart = Chart("What stepping in would save", Axis("interventions", 0), Axis("failures avoided, expected", 0))
    rows: list[tuple[Any, ...]] = []
    drawn = list(found["curves"].items())[:MOST_SERIES]
    for series, (name, points) in enumerate(drawn):
        curve = _some(points, SHOWN_ROWS // len(drawn) - 1)
        spent = [0, *(point["interventions"] for point in curve)]
        avoided = [0, *(point["failures_avoided"] for point in curve)]
        by_chance = [0, *(point["random_failures_avoided"] for point in curve)]
        chart.line(spent, avoided, words(name, 40), series, step=True)
        chart.line(spent, by_chance, "", series, thin=True)
        rows += [(words(name, 60), *entry) for entry in zip(spent, avoided, by_chance, strict=True)]
        _at_the_alarms(chart, found, name, series)
    left_out = len(found["curves"]) - MOST_SERIES
    more = (
        f" {counted(left_out, 'more policy').replace('policys', 'policies')} in the table below."
        if left_out > 0
        else ""
    )
    return chart.figure(
        "Along all thresholds, from the highest (few alarms) to the lowest (one in every run). The mark is where the "
        "thresholds of this run lie; thin: as many interventions at random turns of random runs. The gain is what lies "
        f"above the thin line.{more}",
        ["policy", "interventions", "failures avoided", "at random"],
        rows,
    )


def _some(points: Sequence[Any], most: int) -> list[Any]:
    """Points along a curve, its ends among them, so few that the table below the plot has them all."""
    return [
        points[place]
        for place in np.unique(np.linspace(0, len(points) - 1, min(most, len(points))).round()).astype(int)
    ]


def _at_the_alarms(chart: Chart, found: dict[str, Any], name: str, series: int) -> None:
    for row in found["table"]:
        if row["policy"] == name and row["when"] == "alarm":
            tip = f"{words(name, 60)} at the alarms: {row['failures_avoided']:.1f} avoided"
            chart.points([row["interventions"]], [row["failures_avoided"]], "", series, tips=[tip])


def _policy_table(found: dict[str, Any]) -> Element:
    terms = {policy["name"]: policy for policy in found["policies"]}
    saving = found["failure_cost"] is not None
    rows = []
    for row in found["table"]:
        ends = "" if row["low"] is None else f" ({row['low']:.1f} to {row['high']:.1f})"
        rows.append(
            (
                f"{words(row['policy'], 60)} (cost {terms[row['policy']]['cost']:g}, rescues "
                f"{percent(terms[row['policy']]['rescue'])})",
                WHEN.get(row["when"], row["when"]),
                number(row["interventions"], 1),
                number(row["spent"], 1),
                f"{row['failures_avoided']:.1f}{ends}",
                number(row["cost_per_avoided_failure"], 2),
                *([number(row["net_saving"], 1)] if saving else []),
            )
        )
    heads = ["policy", "when", "interventions", "spent", "failures avoided", "cost of one avoided"]
    return table(
        [*heads, *(["net saving"] if saving else [])],
        rows,
        caption=f"{counted(found['failures'], 'failure')} in {counted(found['runs'], 'run')}; intervals of 95 % over "
        "tasks.",
        numeric=range(2, 6 + saving),
    )
