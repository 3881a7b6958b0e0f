"""Trust over all steps: in plain words, as a plot of the three entropies, and with both of its intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import htpy as h
from htpy import Element, Node

from howsure.report.pages.axes import Axis
from howsure.report.pages.contract import Section
from howsure.report.pages.material import Material
from howsure.report.pages.named import Named, dots
from howsure.report.pages.parts import facts, number, words
from howsure.report.pages.trust_spread import CONDITIONS, MEANING, in_words, meaning, plain
from howsure.report.text import counted, value_with_interval
from howsure.report.trust_log import bootstrap_in_words, fieller_in_words, trust_in_words

_SHORT = {"X": "H(X) told neither", "X|S": "H(X|S) what is known", "X|L,S": "H(X|L,S) instruction too"}
_READ_MEANS = "Were knowledge and instruction a help, each dot would lie to the left of the one above."


def overall(material: Material) -> Section:
    """T over all steps, in words and with both of its intervals."""
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
    sense = meaning(*differences) if trust["identified"] else f"T is not identified: {trust['reason']}."
    said = f"On average over {counted(trust['steps'], 'complete step')}: {in_words(*differences)} {words(sense, 400)}"
    body = [h.p[said], h.div(class_="plots")[means(summary), facts(_figures(summary))]]
    return Section(title, MEANING, body, anchor)


def means(summary: dict[str, Any], names: Mapping[str, str] = _SHORT, told: str = _READ_MEANS) -> Element:
    """The three mean entropies; `names` by condition, and `told` how to read where they lie."""
    rows = []
    for name, given in CONDITIONS.items():
        entry = summary["mean_entropy_bits"][given.column]
        rows.append(Named(names[name], entry["value"], entry["low"], entry["high"], number(entry["value"], 3)))
    return dots(
        "How open was the action?",
        f"The mean entropy in each condition, with its 95 % interval; further left is surer. {told}",
        Axis("entropy, bits", 0),
        rows,
    )


def _figures(summary: dict[str, Any]) -> dict[str, Any]:
    trust, order, steps = summary["trust"], summary["ordering"], summary["per_step"]
    zero = steps["zero_denominator"]
    return {
        "T over all steps": words(trust_in_words(trust), 400),
        "its interval, by bootstrap": words(bootstrap_in_words(trust), 400),
        "its interval, by Fieller": words(fieller_in_words(trust["fieller"]), 400),
        "H(X) − H(X|S)": value_with_interval(trust["delta_h_s_bits"] | {"unit": "bits"}),
        "H(X) − H(X|L,S)": value_with_interval(trust["delta_h_ls_bits"] | {"unit": "bits"}),
        "steps with H(X) ≥ H(X|S) ≥ H(X|L,S)": share_words(order["both"]),
        "… H(X) ≥ H(X|S)": share_words(order["h_x_at_least_h_x_given_s"]),
        "… H(X|S) ≥ H(X|L,S)": share_words(order["h_x_given_s_at_least_h_x_given_ls"]),
        "steps with T from 0 to 1": share_words(steps["in_0_1"]),
        "… below 0": share_words(steps["below_0"]),
        "… above 1": share_words(steps["above_1"]),
        "… without T": f"{counted(zero, 'step')} with H(X) = H(X|L,S)" if zero else None,
        "T of the actions alone": words(trust_in_words(summary["trust_of_actions"]), 400)
        if "trust_of_actions" in summary
        else None,
        "goal reached": f"{summary['episodes_reached']['count']:,} of {summary['episodes_reached']['of']:,} episodes",
    }


def share_words(entry: dict[str, Any]) -> str:
    """`19 of 60, 31.7 % (23.3 to 38.3)`."""
    if entry["value"] is None:
        return "—"
    return f"{entry['count']:,} of {entry['of']:,}, {value_with_interval(entry | {'unit': 'share'})}"
