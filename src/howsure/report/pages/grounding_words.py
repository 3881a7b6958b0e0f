"""What a click came to, in words: for those who cannot see the picture, and for those who can."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from howsure.report.html import words
from howsure.report.tokens import percent
from howsure.runs import Sample
from howsure.studies.grounding.figures import is_outside
from howsure.studies.grounding.overlay import legend
from howsure.studies.grounding.record import DISTANCES

KIND_WORDS = {
    "coordinate_mean": "mean probability of the tokens that spell the coordinates",
    "coordinate_min": "least probability of a token that spells the coordinates",
    "coordinate_joint": "probability of all tokens of the coordinates together",
    "match": "a score: how well what was read fits the instruction, and how far it leads over other places",
    "agreement": "share of the answers drawn anew that do the same: the model's own probability of this click",
    "spread": "how far the clicks drawn anew lie apart, in thousandths of the screen: the less, the surer",
}
SLANTED = 0.38
"""The sine of 22.5°: a direction counts as `below` and `to the right` at once between the two."""


def thousandths(value: float | None) -> str:
    """Whole ones, but one decimal below ten; a model can write numbers that no screen has room for."""
    if value is None:
        return "—"
    if abs(value) >= 1e6:
        return f"{value:.3g}"
    return f"{value:.1f}" if abs(value) < 9.95 else f"{value:,.0f}"


def named(text: str | None) -> str:
    """`no_numbers` as `no numbers`."""
    return words((text or "not said").replace("_", " "), 80)


def sure(value: float, kind: str) -> str:
    """`match 0.463`: by which kind, since only some of them are probabilities, and not all of these of a hit."""
    return f"{kind.replace('_', ' ')} {shown(value, kind)}"


def shown(value: float, kind: str) -> str:
    if kind in DISTANCES:
        return thousandths(value)
    return f"{value:.3f}" if kind == "match" else percent(value)


def came_of_it(sample: Sample) -> str:
    """The outcome in a few words, for a verdict. How far off is measured from the middle, not from the edge."""
    result = sample.result
    if sample.failed:
        return "no answer"
    nothing = result["target"]["kind"] == "refusal"
    if result["says"] == "wrong_format":
        return "in wrong format"
    if result["says"] == "refusal":
        return "refused rightly" if nothing else "refused wrongly"
    if nothing:
        return "clicked where there is nothing to click"
    return f"{'hit' if result['hit'] else 'missed'}, {thousandths(result['l2'])} off"


def in_words(sample: Sample, delta: float | None) -> str:
    """Where the click lies and where it belongs, as whole sentences."""
    return " ".join(_sentences(sample, delta))


def _sentences(sample: Sample, delta: float | None) -> Iterator[str]:
    result, kind = sample.result, sample.result["target"]["kind"]
    if kind == "refusal":
        yield "Nothing on this screen is to be clicked."
    if sample.failed:
        yield "There is no answer" + ("." if sample.reason == "no_answer" else f" ({named(sample.reason)}).")
    elif result["says"] == "refusal":
        yield "The model says that there is nothing to click" + (", which is right." if kind == "refusal" else ".")
    elif result["says"] == "wrong_format":
        yield f"No place can be read in the answer ({named(result.get('why_not'))})."
    elif result.get("pred_coord") is not None:
        yield from _about_click(result, kind, delta)


def _about_click(result: dict[str, Any], kind: str, delta: float | None) -> Iterator[str]:
    click, centre = result["pred_coord"], result["gt_coord"]
    edge = _beyond(click)
    if centre is None:
        yield "The model clicks" + (f", and that outside of the screen, {edge}." if edge else ".")
        return
    where = direction(click[0] - centre[0], click[1] - centre[1])
    off = f"{thousandths(result['l2'])} thousandths {where}"
    if kind == "point":
        reach = "" if delta is None else f", {'within' if result['within_delta'] else 'beyond'} δ = {delta:g}"
        yield f"The click is {off} the place where it belongs{reach}."
    else:
        yield f"The click is {'inside' if result['inside'] else 'outside of'} the target, {off} its middle."
    if edge:
        yield f"It lies outside of the screen, {edge}."


def direction(dx: float, dy: float) -> str:
    """`below and to the right of`; plain `from` where there is no way to go."""
    length = math.hypot(dx, dy)
    if not length or not math.isfinite(length):
        return "from"
    found = [("above", "below")[dy > 0]] if abs(dy) > SLANTED * length else []
    if abs(dx) > SLANTED * length:
        found.append(("to the left of", "to the right of")[dx > 0])
    return " and ".join(found)


def _beyond(place: list[float]) -> str:
    if not is_outside(place):
        return ""
    x, y = place
    edges = [
        name for name, past in (("top", y < 0), ("bottom", y > 1000), ("left", x < 0), ("right", x > 1000)) if past
    ]
    return f"beyond its {' and '.join(edges)} edge{'s' if len(edges) > 1 else ''}"


def marks(sample: Sample, delta: float | None) -> str:
    """What the marks on a screen mean, of those that are on it; a number is written beside a miss alone."""
    result = sample.result
    dots = bool((result.get("samples") or {}).get("points"))
    found = list(legend(result["target"]["kind"], result.get("pred_coord"), delta, dots=dots))
    if result.get("pred_coord") is not None and result.get("l2") is not None and not result.get("hit"):
        found.append("the number: how far off, in thousandths of the screen")
    return "; ".join(found).capitalize() + "."
