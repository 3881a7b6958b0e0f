"""Pages of coherent trust: one joint distribution in each state, what it leaves open, and the table it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import htpy as h
import numpy as np
from htpy import Element, Node

from howsure.report.charts import Axis
from howsure.report.charts import Chart
from howsure.report.rows import Column
from howsure.report.views import Picks, Section
from howsure.report.run_data import Material
from howsure.report.html import facts, notice, number, table, words
from howsure.report.views import as_written
from howsure.report.tokens import percent
from howsure.report.pages.trust_overall import means
from howsure.report.pages.trust_plots import trace
from howsure.report.pages.trust_spread import CONDITIONS, plain
from howsure.report.text import counted
from howsure.report.trust_log import coherent_in_words
from howsure.runs import Sample

MOST_STATES = 500
_FIELDS = {
    "x": "agent_x",
    "y": "agent_y",
    "h_x": "entropy_H_X",
    "h_x_given_s": "entropy_H_X_given_S",
    "h_x_given_ls": "entropy_H_X_given_LS",
    "information_s": "information_S_bits",
    "information_ls": "information_LS_bits",
    "trust": "trust_T",
}

COLUMNS = (
    Column("x", "x", "number", digits=0),
    Column("y", "y", "number", digits=0),
    Column("h_x", "H(X)", "number", "bits", help="Entropy of the action, over all instructions and groundings."),
    Column("h_x_given_s", "H(X|S)", "number", "bits", help="Entropy of the action once the grounding is known."),
    Column("h_x_given_ls", "H(X|L,S)", "number", "bits", help="Entropy once the instruction is known too."),
    Column("information_s", "I(X;S)", "number", "bits", help="What the grounding tells about the action."),
    Column("information_ls", "I(X;S,L)", "number", "bits", help="What grounding and instruction tell together."),
    Column("trust", "T", "number", help="I(X;S) / I(X;S,L), from 0 to 1."),
)

MEANING = (
    "X is the action that the model will take. In every state of the world it is asked with each instruction L and "
    "each grounding S of the given sets. What is open before L and S are known, H(X), and before L is known, H(X|S), "
    "follows from these answers by mixing them, so that T = I(X;S) / I(X;S,L) lies from 0 to 1: of what both tell "
    "about the action, the part that the grounding tells alone."
)
_SHORT = {"X": "H(X) neither known", "X|S": "H(X|S) grounding known", "X|L,S": "H(X|L,S) both known"}
_READ_MEANS = "The farther each dot lies to the left of the one above, the more was told."


def row(sample: Sample) -> dict[str, Any]:
    return {name: sample.result.get(field) for name, field in _FIELDS.items()}


def picks(material: Material, most: int) -> Picks | None:
    """Nothing is done in these states, so that nothing is right or wrong."""
    return None


# -- plots ------------------------------------------------------------------------------------------------------------


def sections(material: Material) -> list[Section]:
    found = [_overall(material.summary)]
    if np.isfinite(material.table.numbers("h_x")).any():
        lead = "How open the action was in each state, along the way from the start."
        found.append(Section("State by state", lead, h.div(class_="plots")[_states(material)], "by-state"))
    return found


def _overall(summary: dict[str, Any] | None) -> Section:
    title = "How much comes from the grounding?"
    if summary is None:
        return Section(title, MEANING, h.p(class_="quiet")["T is worked out when the run is finished."], "trust")
    if not summary["states"]["count"]:
        reasons = summary["coverage"]["missing"].items()
        lacking = {plain(why): counted(count, "state") for why, count in reasons}
        body: Node = [h.p["No state has an answer for every pair, so nothing can be said about T."], facts(lacking)]
        return Section(title, MEANING, body, "trust")
    figures = {name.replace("  ", "… "): words(told, 400) for name, told in coherent_in_words(summary).items()}
    return Section(title, MEANING, h.div(class_="plots")[means(summary, _SHORT, _READ_MEANS), facts(figures)], "trust")


def _states(material: Material) -> Element:
    order = material.table.in_order()[:MOST_STATES]
    xs: list[float | None] = [float(place) for place in range(1, len(order) + 1)]
    chart = Chart("Entropy by state", Axis("state", whole=True), Axis("entropy, bits", 0))
    links = [material.links.sample(material.table.keys[place]) for place in order]
    columns = [[material.table.values(given.column)[place] for place in order] for given in CONDITIONS.values()]
    for given, values in zip(CONDITIONS.values(), columns, strict=True):
        tips = [f"state {number(x, 0)}: {given.entropy} {number(y, 3)} bits" for x, y in zip(xs, values, strict=True)]
        trace(chart, xs, values, given.entropy, given.series, tips, links)
    trust = [material.table.values("trust")[place] for place in order]
    lacking = sum(value is None for value in columns[0])
    gaps = f" {counted(lacking, 'state')} {'lacks' if lacking == 1 else 'lack'} an answer." if lacking else ""
    more = len(material.table) - len(order)
    return chart.figure(
        "Lower is surer. The gap between the first line and the second is what the grounding tells, that between the "
        f"first and the third what both tell.{gaps}" + (f" {more:,} more states are not drawn." if more else ""),
        ["state", *(given.entropy for given in CONDITIONS.values()), "T"],
        list(zip(range(1, len(order) + 1), *columns, trust, strict=True)),
    )


# -- one state --------------------------------------------------------------------------------------------------------


def about(sample: Sample, material: Material) -> list[Section]:
    result = sample.result
    bits = {name: result.get(field) for name, field in _FIELDS.items()}
    known = {
        "place": f"({number(bits['x'], 0)}, {number(bits['y'], 0)})",
        **{given.entropy: number(bits[given.column], 4, "bits") for given in CONDITIONS.values()},
        "I(X;S)": number(bits["information_s"], 4, "bits"),
        "I(X;S,L)": number(bits["information_ls"], 4, "bits"),
        "T": number(bits["trust"], 4),
    }
    failed = notice(f"This state is incomplete: {sample.detail or plain(sample.reason)}") if sample.failed else None
    found = [Section("How open the action was", MEANING, [failed, facts(known)])]
    if result.get("p"):
        lead = "How likely each action was, for every pair; these are all that the figures above are made of."
        found.append(Section("What it answered", lead, _pairs(result["p"], result["actions"])))
    return [*found, as_written(sample)]


def _pairs(given: Sequence[Sequence[Sequence[float]]], actions: Sequence[str]) -> Element:
    """p(x | l, s); what is no allowed action comes last, where there is any."""
    other = any(shares[-1] for block in given for shares in block)
    names = [*(words(action, 30) for action in actions), *(["other"] if other else [])]
    rows = [
        (told, s, *(percent(share) for share in shares[: len(names)]))
        for told, block in enumerate(given, 1)
        for s, shares in enumerate(block, 1)
    ]
    return table(["instruction", "grounding", *names], rows, numeric=range(len(names) + 2))
