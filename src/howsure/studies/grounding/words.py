"""What a click came to, in words: for those who cannot see the picture, and for those who can."""

from __future__ import annotations

import math
from collections.abc import Iterator

from howsure.runs import Sample
from howsure.studies.grounding.figures import is_outside
from howsure.studies.grounding.record import GroundingRecord, Place, Sampled, TargetKind

KIND_WORDS = {
    "coordinate_mean": "mean probability of the tokens that spell the coordinates",
    "coordinate_min": "least probability of a token that spells the coordinates",
    "coordinate_joint": "probability of all tokens of the coordinates together",
    "match": "a score: how well what was read fits the instruction, and how far it leads over other places",
    "agreement": "share of the answers drawn again that do the same: the model's own probability of this click",
    "spread": "how far the clicks drawn again lie apart, in thousandths of the screen: the less, the surer",
}
"""What each kind of confidence is."""
SLANTED = 0.38
"""The sine of 22.5°: a direction counts as `below` and `to the right` at once between the two."""


def thousandths(value: float | None) -> str:
    """Whole ones, but one decimal below ten; a model can write numbers that no screen has room for."""
    if value is None:
        return "—"
    if abs(value) >= 1e6:
        return f"{value:.3g}"
    return f"{value:.1f}" if abs(value) < 9.95 else f"{value:,.0f}"


def named(word: str | None) -> str:
    """`no_numbers` as `no numbers`."""
    return (word or "not said").replace("_", " ")


def place_in_words(place: Place | None) -> str | None:
    """Without commas in the thousands, which would be taken for the one between the two."""
    return None if place is None else f"({', '.join(thousandths(one).replace(',', '') for one in place)})"


def outcome_in_words(sample: Sample[GroundingRecord]) -> str:
    """`missed, 312 off`. How far off is measured from the middle, not from the edge."""
    result = sample.result
    nothing = result.target.kind == "refusal"
    if sample.failed:
        return "no answer"
    if result.says == "wrong_format":
        return "in wrong format"
    if result.says == "refusal":
        return "refused rightly" if nothing else "refused wrongly"
    if nothing:
        return "clicked where there is nothing to click"
    return f"{'hit' if result.hit else 'missed'}, {thousandths(result.l2)} off"


def in_words(sample: Sample[GroundingRecord], delta: float | None) -> str:
    """Where the click lies and where it belongs, as whole sentences."""
    return " ".join(_sentences(sample, delta))


def _sentences(sample: Sample[GroundingRecord], delta: float | None) -> Iterator[str]:
    result, nothing = sample.result, sample.result.target.kind == "refusal"
    if nothing:
        yield "Nothing on this screen is to be clicked."
    if sample.failed:
        yield "There is no answer" + ("." if sample.reason == "no_answer" else f" ({named(sample.reason)}).")
    elif result.says == "refusal":
        yield "The model says that there is nothing to click" + (", which is right." if nothing else ".")
    elif result.says == "wrong_format":
        yield f"No place can be read in the answer ({named(result.why_not)})."
    elif result.pred_coord is not None:
        yield from _about_click(result, result.pred_coord, delta)


def _about_click(result: GroundingRecord, click: Place, delta: float | None) -> Iterator[str]:
    centre, beyond = result.gt_coord, _beyond(click)
    if centre is None:
        yield "The model clicks" + (f", and that outside of the screen, {beyond}." if beyond else ".")
        return
    off = f"{thousandths(result.l2)} thousandths {direction(click[0] - centre[0], click[1] - centre[1])}"
    if result.target.kind == "point":
        reach = "" if delta is None else f", {'within' if result.within_delta else 'beyond'} δ = {delta:g}"
        yield f"The click is {off} the place where it belongs{reach}."
    else:
        yield f"The click is {'inside' if result.inside else 'outside of'} the target, {off} its middle."
    if beyond:
        yield f"It lies outside of the screen, {beyond}."


def direction(dx: float, dy: float) -> str:
    """`below and to the right of`; plain `from` where there is no way to go."""
    length = math.hypot(dx, dy)
    if not length or not math.isfinite(length):
        return "from"
    ways = [("above", "below")[dy > 0]] if abs(dy) > SLANTED * length else []
    if abs(dx) > SLANTED * length:
        ways.append(("to the left of", "to the right of")[dx > 0])
    return " and ".join(ways)


def _beyond(place: Place) -> str:
    if not is_outside(place):
        return ""
    x, y = place
    past = {"top": y < 0, "bottom": y > 1000, "left": x < 0, "right": x > 1000}
    edges = [name for name, is_past in past.items() if is_past]
    return f"beyond its {' and '.join(edges)} edge{'s' if len(edges) > 1 else ''}"


_SHAPES: dict[TargetKind, str] = {"point": "cross", "box": "box", "polygon": "outline"}


def legend(result: GroundingRecord, delta: float | None) -> Iterator[str]:
    """What the marks on a screen mean, of those that are on it."""
    kind, click = result.target.kind, result.pred_coord
    yield (
        f"blue {_SHAPES[kind]}: where the click belongs"
        if kind in _SHAPES
        else "nothing on this screen is to be clicked"
    )
    if kind == "point" and delta:
        yield f"blue dashes: {delta:g} thousandths around it"
    if click is not None:
        ring = f"{'green' if result.hit else 'orange'} ring: where the model clicks{', a hit' if result.hit else ''}"
        yield ring + (", farther that way" if is_outside(click) else "")
        if result.l2 is not None and not result.hit:
            yield "the number: how far off, in thousandths of the screen"
    if result.samples is not None and result.samples.points:
        yield "yellow dots: where its other answers click"


def drawn_in_words(samples: Sampled) -> str:
    """`6 clicks of 8 more answers, 1 in wrong format, 1 failed`."""
    parts = {"in wrong format": samples.wrong_format, "refusals": samples.refusals, "failed": samples.failed}
    rest = "".join(f", {count:,} {what}" for what, count in parts.items() if count)
    return f"{len(samples.points):,} clicks of {samples.asked:,} more answers{rest}"
