"""A screen with its marks, as SVG: where the click belonged, where it went, how far off that is.

Two drawings lie on each other. The lower one is the picture, and shrinks with its page. The upper one has no size of
its own: places in it are shares of the picture, and marks are in pixels, so that a ring is as easy to see on a small
card as on a whole page.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import htpy as h
from htpy import Element, Node

from howsure.report.html import words
from howsure.report.pictures import drawing_of, missing
from howsure.report.run_data import RunData
from howsure.runs import Sample
from howsure.studies.grounding.figures import is_outside
from howsure.studies.grounding.marks import (
    BLACK,
    DASH_PX,
    GAP_PX,
    LOOKS,
    RIM_PX,
    THIN_RIM_PX,
    WHITE,
    Circle,
    Label,
    Mark,
    Reach,
    Stroke,
    marks,
)
from howsure.studies.grounding.record import GroundingRecord
from howsure.studies.grounding.words import in_words

CARD_PX, PAGE_PX = (540.0, 360.0), (1240.0, 860.0)
"""The room for a screen: smaller ones are enlarged to fill it, as far as their longest side."""
STEEPEST = 12.0
"""Screens that are so many times as long as wide, or more, are shown squeezed, or nothing would be seen of them."""
USUAL = (1600, 1000)


def screen(sample: Sample[GroundingRecord], run: RunData, delta: float | None, *, large: bool = False) -> Node:
    """The screen of a sample with its marks; an empty frame and a sentence where no copy of it was kept."""
    result = sample.result
    width, height, squeezed = shown_size(result.image_size, PAGE_PX if large else CARD_PX)
    picture = drawing_of(result, run)
    size = {"viewBox": f"0 0 {width:g} {height:g}", "width": f"{width:g}", "height": f"{height:g}"}
    told = words(in_words(sample, delta), 400)
    return [
        h.div(class_="screen outside" if is_outside(result.pred_coord) else "screen")[
            h.svg(size, class_="picture", aria_hidden="true")[
                h.rect(class_="frame", width="100%", height="100%"), picture
            ],
            h.svg(class_="marks", role="img", aria_label=told)[painted(marks(result, delta, width, height))],
        ],
        missing(result, run) if picture is None else None,
        h.p(class_="quiet")[f"Shown squeezed: it is {' × '.join(map(str, result.image_size))} pixels."]
        if squeezed
        else None,
    ]


def shown_size(size: tuple[int, int], room: tuple[float, float]) -> tuple[float, float, bool]:
    """Width and height at which a screen is shown, and whether that is squeezed."""
    width, height = size if all(0 < side < 10**6 for side in size) else USUAL
    ratio = width / height
    kept = min(max(ratio, 1 / STEEPEST), STEEPEST)
    across = min(room[0], room[1] * kept)
    return round(across, 1), round(across / kept, 1), kept != ratio


def painted(several: Sequence[Mark]) -> list[Element]:
    """The marks in their order. Those in thousandths are in a drawing that is stretched over the screen, those in
    pixels in one at their place."""
    stretched = {"viewBox": "0 0 1000 1000", "preserveAspectRatio": "none", "width": "100%", "height": "100%"}
    drawn = []
    for at, group in groupby(several, lambda mark: None if isinstance(mark, Reach) else mark.at):
        place = stretched if at is None else {"x": _share(at[0]), "y": _share(at[1])}
        drawn.append(h.svg(place, overflow="visible")[[_mark(mark) for mark in group]])
    return drawn


def _mark(mark: Mark) -> Node:
    if isinstance(mark, Label):
        box = {"x": _px(-mark.width_px / 2), "y": _px(-mark.height_px / 2), "rx": "4", "fill": WHITE, "stroke": BLACK}
        centred = {"text-anchor": "middle", "dominant-baseline": "central"}
        size = {"width": _px(mark.width_px), "height": _px(mark.height_px)}
        return [h.rect(box | size), h.text(centred)[mark.text]]
    look, kind = LOOKS[mark.role], h.path
    stretched = isinstance(mark, Reach) or mark.at is None
    shape = {"vector-effect": "non-scaling-stroke"} if stretched else {}  # only the shape is stretched
    if isinstance(mark, Stroke):
        shape["d"] = "M" + "L".join(f"{_px(x)} {_px(y)}" for x, y in mark.points) + ("Z" if mark.closed else "")
    elif isinstance(mark, Circle):
        kind, shape["r"] = h.circle, _px(mark.radius_px)
    else:
        kind, (shape["cx"], shape["cy"]), shape["r"] = h.circle, map(_px, mark.at), _px(mark.radius)
        shape["stroke-dasharray"] = f"{DASH_PX:g} {GAP_PX:g}"
    if isinstance(mark, Stroke | Circle) and mark.filled:
        return kind(shape, class_=mark.role, fill=look.colour, stroke=look.rim, stroke_width=_px(THIN_RIM_PX))
    return [
        kind(shape, class_=name, stroke=colour, stroke_width=_px(look.width_px + 2 * rim))
        for name, colour, rim in (("rim", look.rim, RIM_PX), (mark.role, look.colour, 0.0))
    ]


def _px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _share(thousandths: float) -> str:
    return f"{thousandths / 10:.2f}%"
