"""Trust over all steps: in plain words, as a plot of the three entropies, and T where it has a meaning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import htpy as h
from htpy import Element, Node

from howsure.report.charts import Axis
from howsure.report.views import Section
from howsure.report.run_data import Material
from howsure.report.charts import Named, dots
from howsure.report.html import facts, number, words
from howsure.report.pages.trust_spread import CONDITIONS, MEANING, changed, in_words, plain
from howsure.report.text import counted, value_with_interval
from howsure.report.trust_log import ordering_in_words, steps_in_words, trust_in_words
from howsure.studies.trust.ratio import beyond_in_words

_SHORT = {"X": "H(X) told neither", "X|S": "H(X|S) what is known", "X|L,S": "H(X|L,S) instruction too"}
_READ_MEANS = "Were knowledge and instruction a help, each dot would lie to the left of the one above."


def overall(material: Material) -> Section:
    """T over all steps, in words and with its interval, or why there is none."""
    title, anchor = "How much comes from what it knows?", "trust"
    summary = material.summary
    if summary is None:
        body: Node = h.p(class_="quiet")["T over all steps is worked out when the run is finished."]
        return Section(title, MEANING, body, anchor)
    trust = summary["trust"]
    differences = trust["delta_h_s_bits"]["value"], trust["delta_h_ls_bits"]["value"]
    if differences[0] is None or differences[1] is None:
        lacking = facts({plain(reason): counted(count, "step") for reason, count in summary["missing"]["rows"].items()})
        body = [h.p["No step has all three entropies, so nothing can be said about T. They are missing for:"], lacking]
        return Section(title, MEANING, body, anchor)
    sense = f"T is not identified: {trust['reason']}."
    if trust["identified"]:
        beyond = beyond_in_words(trust)
        sense = f"T is {beyond or 'the share of all that was gained which came from knowledge alone'}."
    changes = in_words(*(_changed(trust[name]) for name in ("delta_h_s_bits", "delta_h_ls_bits")))
    said = f"On average over {counted(trust['steps'], 'complete step')}: {changes} {words(sense, 400)}"
    body = [h.p[said], h.div(class_="plots")[means(summary), facts(_figures(summary))]]
    return Section(title, MEANING, body, anchor)


def _changed(difference: Mapping[str, Any]) -> str:
    """`surer by 0.250 bits`; no direction where the interval holds both."""
    low, high = difference["low"], difference["high"]
    if low is not None and high is not None and low <= 0 <= high:
        return f"neither clearly surer nor clearly less sure ({value_with_interval({**difference, 'unit': 'bits'})})"
    return changed(difference["value"])


def means(summary: dict[str, Any], names: Mapping[str, str] = _SHORT, told: str = _READ_MEANS) -> Element:
    """The three mean entropies; `names` by condition, and `told` how to read where they lie."""
    rows = []
    for name, given in CONDITIONS.items():
        entry = summary["mean_entropy_bits"][given.column]
        rows.append(Named.of(names[name], entry, number(entry["value"], 3)))
    return dots(
        "How open was the action?",
        f"The mean entropy in each condition; further left is surer. {told}",
        Axis("entropy, bits", 0),
        rows,
        over="episodes",
    )


def _figures(summary: dict[str, Any]) -> dict[str, Any]:
    trust, order = summary["trust"], summary["ordering"]
    return {
        "T over all steps": words(trust_in_words(trust), 400),
        "ΔH_S = H(X) − H(X|S)": value_with_interval(trust["delta_h_s_bits"] | {"unit": "bits"}),
        "ΔH_L,S = H(X) − H(X|L,S)": value_with_interval(trust["delta_h_ls_bits"] | {"unit": "bits"}),
        "independent episodes": f"{trust['independent_episodes']:,}",
        "steps with H(X) ≥ H(X|S) ≥ H(X|L,S)": ordering_in_words(order["both"]),
        "… H(X) ≥ H(X|S)": ordering_in_words(order["h_x_at_least_h_x_given_s"]),
        "… H(X|S) ≥ H(X|L,S)": ordering_in_words(order["h_x_given_s_at_least_h_x_given_ls"]),
        **{name.replace("  ", "… "): told for name, told in steps_in_words(summary).items()},
        "T of the actions alone": words(trust_in_words(summary["trust_of_actions"]), 400)
        if "trust_of_actions" in summary
        else None,
        "goal reached": f"{summary['episodes_reached']['count']:,} of {summary['episodes_reached']['of']:,} episodes",
    }
