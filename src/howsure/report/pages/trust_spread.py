"""The three answers of a step side by side: how likely each action was, how open the choice, and what T makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import htpy as h
from htpy import Element, Node

from howsure.measures import LEAST_GAIN_BITS
from howsure.measures.trust import DENOMINATOR_FLOOR
from howsure.report.charts import px
from howsure.report.html import number, words
from howsure.report.tokens import percent
from howsure.studies.trust.ratio import SAME_WITHOUT_GROUNDING, SAME_WITHOUT_INSTRUCTION, why_no_share

BAR_PX = 60.0
SMALL_BITS = 0.001
"""Differences below this are written with their power of ten."""


class Given(NamedTuple):
    """One of the three ways to ask: its column, the name of its entropy, and what the model is told."""

    column: str
    entropy: str
    told: str
    series: int


CONDITIONS = {
    "X": Given("h_x", "H(X)", "told neither", 0),
    "X|S": Given("h_x_given_s", "H(X|S)", "told what is known", 1),
    "X|L,S": Given("h_x_given_ls", "H(X|L,S)", "told the instruction too", 2),
}
ACTING = "X|L,S"

MEANING = (
    "X is the action that the model will take. At every step it is asked three times: told neither (X); told S, what "
    "is known about the place (X|S); told L, the instruction, too (X|L,S). The entropy H says how open the action "
    "was: 0 bits is certain, 1 bit is a coin flip, 2 bits is a blind guess among four."
)

EVIDENCE = {
    "scored": "Probabilities are exact, among the allowed actions, and H is their entropy.",
    "logprobs": "The model wrote its action. H is the entropy at the action's first token; the probabilities are that "
    "token's alternatives, taken for the actions that they could become. What fits none, or was not listed, is "
    "“other”, so that 0 % means: not among those that were listed.",
    "verbalized": "The model wrote down how likely each direction is for its next three steps. Shown is the first of "
    "the three; H weighs the entropies of the three by 0.5, 0.3 and 0.2.",
}


def entropies(result: Mapping[str, Any]) -> dict[str, float | None]:
    """Bits by condition, None where missing."""
    return {name: result["conditions"][name]["entropy_bits"] for name in CONDITIONS}


def share_of_gain(result: Mapping[str, Any]) -> float | None:
    """T of the step; None unless the model gained enough, told everything, for it to have shares."""
    found: float | None = result.get("trust") if why_no_share(result) is None else None
    return found


def missing_words(result: Mapping[str, Any]) -> str | None:
    """`H(X|S): too long`, for all that is not there; None where nothing is missing."""
    lacking = [
        f"{given.entropy}: {plain(result['conditions'][name].get('entropy_missing'))}"
        for name, given in CONDITIONS.items()
        if result["conditions"][name]["entropy_bits"] is None
    ]
    if not lacking and (why := why_no_share(result)) is not None:
        lacking.append(f"T: {why}")
    return "; ".join(lacking) or None


def plain(reason: object) -> str:
    """A reason as words: `too_long` is too long."""
    return "not said why" if reason is None else words(str(reason).replace("_", " "))


# -- tables -----------------------------------------------------------------------------------------------------------


def spreads(result: Mapping[str, Any]) -> Element:
    """Every action in each of the three conditions, and below them how open the choice was."""
    found = result["conditions"]
    return h.div(class_="scroll", tabindex="0", role="region", aria_label="How likely each action was")[
        h.table(class_="spread")[
            h.thead[
                h.tr[
                    h.th(scope="col")["action"],
                    [h.th(scope="col")[name, h.span(class_="told")[given.told]] for name, given in CONDITIONS.items()],
                ]
            ],
            h.tbody[
                [_action_row(action, result) for action in _actions(found)],
                _other_row(found),
                h.tr[h.th(scope="row")["entropy"], [h.td[_entropy(found[name])] for name in CONDITIONS]],
            ],
        ]
    ]


def acting_spread(result: Mapping[str, Any]) -> Node:
    """The probabilities that the action was taken by, alone."""
    found = result["conditions"][ACTING]["probabilities"]
    if not found:
        return h.p(class_="quiet")["The probabilities of the actions are not known."]
    return h.table(class_="spread")[
        h.tbody[
            [
                h.tr[h.th(scope="row")[words(action, 30), _marks(action, result)], h.td[bar(share, 2)]]
                for action, share in found.items()
            ]
        ]
    ]


def bar(share: float | None, series: int) -> Node:
    """A probability as a short bar and in figures."""
    if share is None:
        return "—"
    width = px(min(max(share, 0.0), 1.0) * BAR_PX)
    return [
        h.svg({"viewBox": f"0 0 {px(BAR_PX)} 10", "aria-hidden": "true"}, class_="share")[
            h.rect(class_="room", x="0", y="0", width=px(BAR_PX), height="10"),
            h.rect(class_=f"bar s{series}", x="0", y="0", width=width, height="10"),
        ],
        h.span(class_="num")[percent(share)],
    ]


def _actions(found: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(action for name in CONDITIONS for action in found[name]["probabilities"] or {}))


def _action_row(action: str, result: Mapping[str, Any]) -> Element:
    cells = []
    for name, given in CONDITIONS.items():
        shares = result["conditions"][name]["probabilities"]
        cells.append(h.td[bar(None if not shares else shares.get(action), given.series)])
    return h.tr[h.th(scope="row")[words(action, 30), _marks(action, result)], cells]


def _marks(action: str, result: Mapping[str, Any]) -> Node:
    """What was done, and what would have been best; said in words, not in colours."""
    best, taken = action in (result.get("best_actions") or ()), action == result.get("action")
    off_path = result.get("on_shortest_path") is False
    return [
        h.strong(class_="mark bad" if off_path else "mark")["taken"] if taken else None,
        h.strong(class_="mark good")["best"] if best else None,
    ]


def _other_row(found: Mapping[str, Any]) -> Node:
    """What is no allowed action, where the evidence leaves room for that."""
    if not any(found[name].get("other") for name in CONDITIONS):
        return None
    cells = [h.td[bar(found[name].get("other"), given.series)] for name, given in CONDITIONS.items()]
    return h.tr[h.th(scope="row")["other"], cells]


def _entropy(one: Mapping[str, Any]) -> Node:
    if one["entropy_bits"] is None:
        return h.span(class_="doubt")[f"missing: {plain(one.get('entropy_missing'))}"]
    return h.strong[number(one["entropy_bits"], 3, "bits")]


# -- T in words -------------------------------------------------------------------------------------------------------


def worked_out(result: Mapping[str, Any]) -> str:
    """T of the step with its numbers put in, or why there is none."""
    bits = entropies(result)
    if any(value is None for value in bits.values()):
        return f"T is missing, since it takes all three entropies. {missing_words(result)}."
    none, known, told = (float(value) for value in bits.values() if value is not None)
    by_known, by_all = none - known, none - told
    steps = f"T = (H(X) − H(X|S)) / (H(X) − H(X|L,S)) = ({none:.4f} − {known:.4f}) / ({none:.4f} − {told:.4f})"
    if abs(by_all) < DENOMINATOR_FLOOR:
        return f"{steps}, which divides by zero."
    if (why := why_no_share(result)) in (SAME_WITHOUT_GROUNDING, SAME_WITHOUT_INSTRUCTION):
        return f"{steps}: {why}, so T says nothing."
    if by_all < 0:
        return f"{steps} = {_signed(by_known)} / {_signed(by_all)}: told everything it was less sure, so T is no share."
    if by_all < LEAST_GAIN_BITS:
        return f"{steps} = {_signed(by_known)} / {_signed(by_all)}: less than {LEAST_GAIN_BITS} bits have no shares."
    return f"{steps} = {_signed(by_known)} / {_signed(by_all)} = {number(by_known / by_all, 4).replace('-', '−')}."


def in_words(by_known: str, by_all: str) -> str:
    """What the two differences, `changed` into words, say to somebody who sees them for the first time."""
    return (
        f"Told what is known about the place, the model became {by_known}; told the instruction too, "
        f"{by_all}, both against being told neither."
    )


def meaning(by_known: float, by_all: float) -> str:
    """What T means where the two differences lie so."""
    if abs(by_all) < DENOMINATOR_FLOOR:
        return "T is not defined: there is nothing that knowledge could be a part of."
    if DENOMINATOR_FLOOR <= by_all < LEAST_GAIN_BITS:
        return "Being told everything made it hardly surer, too little for T to be a share of it."
    if by_all < 0:
        return "Being told everything made it less sure, so there is no gain that T could be a share of."
    if by_known <= -DENOMINATOR_FLOOR:
        return "Knowledge alone made it less sure, so T is below 0."
    if by_known - by_all >= DENOMINATOR_FLOOR:
        return "Knowledge alone made it surer than both together, so T is above 1."
    return "T is the share of all that was gained which came from knowledge alone."


def changed(bits: float) -> str:
    """`surer by 0.250 bits`: a positive difference is uncertainty taken away."""
    if abs(bits) < DENOMINATOR_FLOOR:
        return "neither surer nor less sure"
    return f"{'surer' if bits > 0 else 'less sure'} by {_signed(abs(bits))} bits"


def _signed(bits: float) -> str:
    """With a true minus sign, and enough digits that a small difference is not zero."""
    shown = f"{abs(bits):.4f}" if abs(bits) >= SMALL_BITS or bits == 0 else f"{abs(bits):.2g}"
    return f"−{shown}" if bits < 0 else shown
