"""Coherent trust: one joint distribution in each state, what it leaves open, and the table that it comes from."""

from __future__ import annotations

from typing import Any

import numpy as np

from howsure.report.comparison import outcomes
from howsure.report.document import Cell, Facts, Head, Plot, Prose, Section, Table, Value
from howsure.report.html import number, words
from howsure.report.rows import Column
from howsure.report.run_data import RunData, StoredRun
from howsure.report.text import counted
from howsure.report.tokens import percent
from howsure.report.trust import means_plot, reasons_in_words, three_lines
from howsure.report.trust_steps import GIVEN, plain
from howsure.report.views import as_written
from howsure.runs import Sample
from howsure.studies.trust.coherent import CoherentSummary
from howsure.studies.trust.record import CoherentRecord

MOST_STATES = 500
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
_KNOWN = ("H(X), neither known", "H(X|S), grounding known", "H(X|L,S), both known")


def row(sample: Sample[CoherentRecord]) -> dict[str, Any]:
    state = sample.result
    return {
        "x": state.agent_x,
        "y": state.agent_y,
        "h_x": state.entropy_h_x,
        "h_x_given_s": state.entropy_h_x_given_s,
        "h_x_given_ls": state.entropy_h_x_given_ls,
        "information_s": state.information_s_bits,
        "information_ls": state.information_ls_bits,
        "trust": state.trust_t,
    }


# -- a run ------------------------------------------------------------------------------------------------------------


def document(summary: CoherentSummary | None, run: RunData | None) -> list[Section]:
    states = [_states(run)] if isinstance(run, StoredRun) and np.isfinite(run.table.numbers("h_x")).any() else []
    lead = "How open the action was in each state, along the way from the start."
    return [_overall(summary), *([Section("State by state", states, lead, "by-state")] if states else [])]


def _overall(summary: CoherentSummary | None) -> Section:
    title, anchor = "How much comes from the grounding?", "trust"
    if summary is None:
        return Section(title, [Prose("T is worked out when the run is finished.", "quiet")], MEANING, anchor)
    if not summary.states.count:
        nothing = "No state has an answer for every pair, so nothing can be said about T"
        why = reasons_in_words(summary.coverage.missing)
        return Section(title, [Prose(f"{nothing}: {why}." if why else f"{nothing}.")], MEANING, anchor)
    null, means = summary.trust.null, summary.mean_entropy_bits
    values = [Value(one.value, "bits") for one in means.values()]
    rows: list[tuple[str, Cell]] = [*zip(_KNOWN, values, strict=True)]
    if null is not None and summary.trust.value is not None:
        alone = f"{null.mean:.3f} on average, {null.high:.3f} or less in 19 of 20"
        rows.append(("T from wording alone", f"{alone}; {percent(null.share_at_least)} reach the T of this run"))
    rows.append(("pairs", f"{summary.instructions} instructions × {summary.groundings} groundings"))
    reading = "The farther each dot lies to the left of the one above, the more was told."
    return Section(title, [means_plot(means, reading, _KNOWN), Facts(rows)], MEANING, anchor)


def _states(run: StoredRun) -> Plot:
    table = run.table
    order = table.in_order()[:MOST_STATES].tolist()
    xs: list[float | None] = [float(at) for at in range(1, len(order) + 1)]
    columns = [[table.values(given.column)[at] for at in order] for given in GIVEN]
    chart = three_lines("Entropy by state", "state", xs, columns, [run.links.sample(table.keys[at]) for at in order])
    lacking = sum(value is None for value in columns[0])
    gaps = f" An answer is missing in {counted(lacking, 'state')}." if lacking else ""
    more = f" {len(table) - len(order):,} more states are not drawn." if len(table) > len(order) else ""
    trust = [table.values("trust")[at] for at in order]
    return chart.figure(
        "Lower is surer. The gap between the first line and the second is what the grounding tells, that between the "
        f"first and the third what both tell.{gaps}{more}",
        ["state", *(given.entropy for given in GIVEN), "T"],
        list(zip(range(1, len(order) + 1), *columns, trust, strict=True)),
    )


compared = outcomes


# -- one state --------------------------------------------------------------------------------------------------------


def about(sample: Sample[CoherentRecord], run: StoredRun) -> list[Section]:
    state = sample.result
    incomplete = f"This state is incomplete: {sample.detail or plain(sample.reason)}"
    known: list[tuple[str, Cell]] = [
        ("place", f"({number(state.agent_x, 0)}, {number(state.agent_y, 0)})"),
        ("H(X)", number(state.entropy_h_x, 4, "bits")),
        ("H(X|S)", number(state.entropy_h_x_given_s, 4, "bits")),
        ("H(X|L,S)", number(state.entropy_h_x_given_ls, 4, "bits")),
        ("I(X;S)", number(state.information_s_bits, 4, "bits")),
        ("I(X;S,L)", number(state.information_ls_bits, 4, "bits")),
        ("T", number(state.trust_t, 4)),
    ]
    failed = [Prose(incomplete, "warning")] if sample.failed else []
    found = [Section("How open the action was", [*failed, Facts(known)], MEANING)]
    if state.p:
        lead = "How likely each action was, for every pair; these are all that the figures above are made of."
        found.append(Section("What it answered", [_pairs(state.p, state.actions)], lead))
    return [*found, as_written(sample)]


def _pairs(given: list[list[list[float]]], actions: list[str]) -> Table:
    """p(x | l, s); what is no allowed action comes last, where there is any."""
    other = any(shares[-1] for block in given for shares in block)
    names = [*(words(action, 30) for action in actions), *(["other"] if other else [])]
    rows: list[tuple[Cell, ...]] = [
        (told, s, *(percent(share) for share in shares[: len(names)]))
        for told, block in enumerate(given, 1)
        for s, shares in enumerate(block, 1)
    ]
    return Table([Head(name, numeric=True) for name in ("instruction", "grounding", *names)], rows)
