"""What alarms on the uncertainty of turns would have caught, how early, and what stepping in there would have saved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import htpy as h
import numpy as np
from htpy import Element, Node

from howsure.report.charts import Axis
from howsure.report.charts import MOST_SERIES, Chart
from howsure.report.views import Section
from howsure.report.run_data import Material
from howsure.report.charts import Named, dots
from howsure.report.html import SHOWN_ROWS, number, table, words
from howsure.report.sureness import histogram_by_outcome
from howsure.report.pages.trajectories_groups import Group, alarms_of, leading_detector, rings_when
from howsure.report.text import counted, interval_text, percent
from howsure.report.trajectories import (
    break_even_text,
    breakdown_lines,
    detector_name,
    difference_text,
    expected,
    intervention_lines,
    policy_terms,
)

WHEN = {"alarm": "at the alarms", "never": "never", "always": "always, at once", "random": "as often, at random"}
HOW_TO_GET = (
    "What would acting on the alarms have saved? Say what you would do, what it costs, how often it would help and how "
    "often it would harm: --policy confirm:1:0.3:0.05 is a question that costs 1, rescues three in ten failing runs "
    "and spoils one in twenty that would have succeeded."
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
        "runs that fail, early, and rarely in others; and it does so better than an alarm at a fixed number of turns."
    )
    body = [
        h.div(class_="plots")[_shares(tried, breakdown), _how_early(group, material)] if tried else None,
        _detector_table(detectors) if tried else h.p["No alarm could be fitted to these runs:"],
        h.ul(class_="notes")[[h.li[words(line, 600)] for line in breakdown_lines(breakdown)[0 if tried else 1 :]]],
    ]
    return Section(title, lead, body)


def _shares(tried: dict[str, Any], breakdown: dict[str, Any]) -> Node:
    aim = breakdown["false_alarm_rate"]
    caught = [_named(name, found["caught"]) for name, found in tried.items()]
    rang = [_named(name, found["false_alarms"]) for name, found in tried.items()]
    return [
        dots(
            "Failures in which an alarm rang",
            "Further right is better. The dot is the share; upright: the rate of false alarms, which alarms at random "
            "would reach too.",
            Axis("failed runs", 0, 1, percent=True),
            caught,
            level=(aim, "by chance"),
            over="tasks",
        ),
        dots(
            "False alarms: solved runs in which one rang",
            "Further left is better. Thresholds aim at the upright line: they keep to it on average over draws of the "
            "runs that they were fitted on, which is no guarantee for these runs.",
            Axis("solved runs", 0, 1, percent=True),
            rang,
            level=(aim, "aimed at"),
            over="tasks",
        ),
    ]


def _named(name: str, share: dict[str, Any]) -> Named:
    return Named.of(detector_name(name), share, f"{share['count']} of {share['of']}")


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
        beside = found["against_turn_count"]
        more = "—" if beside is None or beside["difference"] is None else difference_text(beside)
        early, quartiles = _still_to_come(found["turns_before_end"])
        rows.append(
            (
                detector_name(name),
                rings_when(name),
                _share(found["caught"]),
                more,
                _share(found["false_alarms"]),
                early,
                quartiles,
            )
        )
    return table(
        [
            "detector",
            "alarm when",
            "failures caught",
            "more than turn count",
            "false alarms",
            "median turns to come when caught",
            "quartiles of these runs",
        ],
        rows,
        caption="Shares, differences and medians with 95 % intervals over tasks; the quartiles say how the runs "
        "differ.",
    )


def _still_to_come(lead: dict[str, Any] | None) -> tuple[str, str]:
    if lead is None:
        return "—", "—"
    interval = interval_text(lead, digits=1)
    median = f"{lead['median']:g} ({interval})" if interval else f"{lead['median']:g}"
    return median, f"{lead['lower_quartile']:g} and {lead['upper_quartile']:g}"


def _share(found: dict[str, Any]) -> str:
    if found["value"] is None:
        return "—"
    counts = f"{found['count']} of {found['of']}, {percent(found['value'])}"
    interval = interval_text(found, 100, 1)
    return f"{counts} ({interval} %)" if interval else counts


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
        "which costs in solved runs too. The chances to rescue and to spoil are those that were given: no log can show "
        "them."
    )
    return Section(
        title,
        lead,
        [
            h.div(class_="plots")[_saved(found)],
            _policy_table(found),
            h.ul(class_="notes")[[h.li[words(line, 600)] for line in _policy_lines(found)]],
        ],
    )


def _policy_lines(found: dict[str, Any]) -> list[str]:
    return [f"{policy['name']}: {break_even_text(policy)}" for policy in found["policies"]] + intervention_lines(found)


def _saved(found: dict[str, Any]) -> Element:
    """The curves are of what is left when the runs that stepping in spoils are taken off."""
    spoils = any(policy["spoil"] > 0 for policy in found["policies"])
    axis = Axis("net failures avoided, expected") if spoils else Axis("failures avoided, expected", 0)
    chart = Chart("What stepping in would save", Axis("interventions", 0), axis)
    rows: list[tuple[Any, ...]] = []
    drawn = list(found["curves"].items())[:MOST_SERIES]
    for series, (name, points) in enumerate(drawn):
        curve = _some(points, SHOWN_ROWS // len(drawn) - 1)
        spent = [0, *(point["interventions"] for point in curve)]
        net = [0, *(point["net_avoided"] for point in curve)]
        by_chance = [0, *(point["random_net_avoided"] for point in curve)]
        chart.line(spent, net, words(name, 40), series, step=True)
        chart.line(spent, by_chance, "", series, thin=True)
        rows += [(words(name, 60), *entry) for entry in zip(spent, net, by_chance, strict=True)]
        _at_the_alarms(chart, found, name, series)
    left_out = len(found["curves"]) - MOST_SERIES
    more = (
        f" {counted(left_out, 'more policy').replace('policys', 'policies')} in the table below."
        if left_out > 0
        else ""
    )
    net_of = "Failures avoided less runs spoiled, along" if spoils else "Along"
    return chart.figure(
        f"{net_of} all thresholds, from the highest (few alarms) to the lowest (one in every run). The mark is where "
        "the thresholds of this run lie; thin: as many interventions at random turns of random runs. The gain is what "
        f"lies above the thin line.{more}",
        ["policy", "interventions", "failures avoided, net", "at random"],
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
            tip = f"{words(name, 60)} at the alarms: {row['net_avoided']:.1f} avoided"
            chart.points([row["interventions"]], [row["net_avoided"]], "", series, tips=[tip])


def _policy_table(found: dict[str, Any]) -> Element:
    """Spoiled runs have columns where some policy can spoil any."""
    terms = {policy["name"]: policy_terms(policy) for policy in found["policies"]}
    spoils = any(policy["spoil"] > 0 for policy in found["policies"])
    saves = found["failure_cost"] is not None
    heads = ["policy", "when", "interventions", "spent", "failures avoided"]
    heads += ["runs spoiled", "net avoided"] if spoils else []
    heads += ["cost of one avoided", *(["net saving"] if saves else [])]
    rows = []
    for row in found["table"]:
        cells = [
            f"{words(row['policy'], 60)} ({terms[row['policy']]})",
            WHEN.get(row["when"], row["when"]),
            number(row["interventions"], 1),
            number(row["spent"], 1),
            expected(row, "failures_avoided", "avoided_"),
        ]
        if spoils:
            cells += [expected(row, "successes_spoiled", "spoiled_"), expected(row, "net_avoided", "net_")]
        cells += [
            number(row["cost_per_avoided_failure"], 2),
            *([expected(row, "net_saving", "saving_")] if saves else []),
        ]
        rows.append(tuple(cells))
    return table(
        heads,
        rows,
        caption="Expected numbers, with 95 % intervals over tasks where they depend on which runs there were; the "
        "chances to rescue and to spoil are taken as given.",
        numeric=range(2, len(heads)),
    )
