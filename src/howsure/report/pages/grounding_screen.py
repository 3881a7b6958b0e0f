"""A screen with marks over it: where the click belonged, where it went, how far off that is.

Two drawings lie on each other. The lower one is the picture, and shrinks with its page. The upper one has no size of
its own: places in it are shares of the picture, and marks are in pixels, so that a ring is as easy to see on a small
card as on a whole page. Colours and shapes are those of `howsure grounding overlay`; every stroke has a white rim, to
be seen on dark screens and light ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import htpy as h
from htpy import Element, Node

from howsure.report.pages.grounding_words import in_words, thousandths
from howsure.report.run_data import Material
from howsure.report.html import words
from howsure.report.pictures import drawing_of, missing
from howsure.runs import Sample
from howsure.studies.grounding.figures import is_outside

CARD_PX, PAGE_PX = (540, 360), (1240, 860)
"""The room for a screen: smaller ones are enlarged to fill it, as far as their longest side."""
STEEPEST = 12.0
"""Screens that are so many times as long as wide, or more, are shown squeezed, or nothing would be seen of them."""
USUAL = (1600.0, 1000.0)
FARTHEST = 5000.0
RING_PX, DOT_PX, SMALL_DOT_PX, ARM_PX = 9.0, 2.5, 3.2, 9.0
MOST_DOTS, MOST_CORNERS = 200, 400
SHORT_LINK = 160.0
"""Thousandths: on a shorter line there is no room for a number."""

Place = tuple[float, float]


def screen(sample: Sample, material: Material, *, large: bool = False) -> Node:
    """The screen of a sample with its marks; an empty frame and a sentence where no copy of it was kept."""
    result = sample.result
    width, height, squeezed = shown_size(result.get("image_size"), PAGE_PX if large else CARD_PX)
    picture = drawing_of(result, material)
    delta = delta_of(material)
    return [
        h.div(class_="screen outside" if _leaves(result) else "screen")[
            _picture(picture, width, height), _marks(sample, delta, width / height)
        ],
        missing(result, material) if picture is None else None,
        h.p(class_="quiet")[f"Shown squeezed: it is {_size_words(result)} pixels."] if squeezed else None,
    ]


def delta_of(material: Material) -> float | None:
    value = material.run.manifest.identity.options.get("delta")
    return float(value) if isinstance(value, int | float) and 0 <= value < FARTHEST else None


def shown_size(size: Any, room: tuple[int, int]) -> tuple[float, float, bool]:
    """Width and height at which a screen is shown, and whether that is squeezed."""
    width, height = USUAL
    if isinstance(size, list) and len(size) == 2 and all(isinstance(side, int) and 0 < side < 10**6 for side in size):
        width, height = float(size[0]), float(size[1])
    ratio = width / height
    kept = min(max(ratio, 1 / STEEPEST), STEEPEST)
    across = min(room[0], room[1] * kept)
    return round(across, 1), round(across / kept, 1), kept != ratio


def _size_words(result: dict[str, Any]) -> str:
    return words(" × ".join(map(str, result["image_size"])), 40)


def _leaves(result: dict[str, Any]) -> bool:
    click = result.get("pred_coord")
    return click is not None and is_outside(click)


def _picture(inner: Element | None, width: float, height: float) -> Element:
    return h.svg(
        {"viewBox": f"0 0 {width:g} {height:g}", "aria-hidden": "true"},
        class_="picture",
        width=f"{width:g}",
        height=f"{height:g}",
    )[h.rect(class_="frame", width="100%", height="100%"), inner]


# -- marks ------------------------------------------------------------------------------------------------------------


def _marks(sample: Sample, delta: float | None, ratio: float) -> Element:
    result = sample.result
    target, click, centre = result["target"], result.get("pred_coord"), result.get("gt_coord")
    drawn: list[Node] = [_target(target, centre, delta)]
    drawn += [_small_dot(_held(place)) for place in (result.get("samples") or {}).get("points", ())[:MOST_DOTS]]
    if click is not None:
        shown = _held(click)
        start = None if centre is None else _edge(target["coords"], shown)
        drawn.append(None if start is None else _link(start, shown))
        drawn.append(_arrow(shown, click, ratio) if is_outside(click) else None)
        drawn.append(_cross((centre[0], centre[1])) if centre is not None and target["kind"] == "point" else None)
        drawn.append(_ring(shown))
        if start is not None and not result.get("hit"):  # on a hit it would cover what was to be clicked
            drawn.append(_label(start, shown, thousandths(result.get("l2"))))
    elif centre is not None and target["kind"] == "point":
        drawn.append(_cross((centre[0], centre[1])))
    return h.svg({"aria-label": in_words(sample, delta)}, class_="marks", role="img")[drawn]


def _target(target: dict[str, Any], centre: Sequence[float] | None, delta: float | None) -> Node:
    kind, coords = target["kind"], target["coords"]
    if kind == "box":
        left, top, right, bottom = coords
        sides = {"x": pc(left), "y": pc(top), "width": pc(max(right - left, 1)), "height": pc(max(bottom - top, 1))}
        return _twice(lambda kind: h.rect(sides, class_=kind), "target")
    if kind == "polygon":
        return _polygon(coords)
    if kind == "point" and centre is not None and delta:
        around = {"cx": pc(centre[0]), "cy": pc(centre[1]), "rx": pc(delta), "ry": pc(delta)}
        return _twice(lambda kind: h.ellipse(around, class_=kind), "reach")
    return None


def _polygon(coords: Sequence[float]) -> Node:
    """Corners cannot be given as shares, so that these are in a drawing of their own, stretched over the screen."""
    corners = list(zip(coords[0::2], coords[1::2], strict=True))
    some = corners[:: math.ceil(len(corners) / MOST_CORNERS)] if corners else []
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in some)
    thin = {"points": points, "vector-effect": "non-scaling-stroke"}
    frame = {"viewBox": "0 0 1000 1000", "preserveAspectRatio": "none", "overflow": "visible"}
    return h.svg(frame, width="100%", height="100%")[_twice(lambda kind: h.polygon(thin, class_=kind), "target")]


def _link(start: Place, end: Place) -> Node:
    ends = {"x1": pc(start[0]), "y1": pc(start[1]), "x2": pc(end[0]), "y2": pc(end[1])}
    return _twice(lambda kind: h.line(ends, class_=kind), "link")


def _label(start: Place, end: Place, text: str) -> Element:
    """The distance: on the line where that is long, beside the click where it is short, and always on the screen."""
    long = math.dist(start, end) >= SHORT_LINK
    x, y = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2) if long else end
    leftwards = x > 850
    anchor = "end" if leftwards else "start"
    away = 8 if long else RING_PX + 5
    return h.text(
        {"text-anchor": anchor, "dominant-baseline": "central"},
        x=pc(x),
        y=pc(min(max(y, 40), 960)),
        dx=f"{-away if leftwards else away:g}",
    )[text]


def _ring(place: Place) -> Element:
    parts: list[Node] = [_twice(lambda kind: h.circle(class_=kind, r=f"{RING_PX:g}"), "click")]
    parts.append(h.circle(class_="click dot", r=f"{DOT_PX:g}"))
    return _at(place, parts)


def _cross(place: Place) -> Element:
    arms = f"M{-ARM_PX:g} 0H{ARM_PX:g}M0 {-ARM_PX:g}V{ARM_PX:g}"
    return _at(place, _twice(lambda kind: h.path(class_=kind, d=arms), "target"))


def _small_dot(place: Place) -> Element:
    return _at(place, h.circle(class_="drawn", r=f"{SMALL_DOT_PX:g}"))


def _arrow(shown: Place, click: Sequence[float], ratio: float) -> Element | None:
    """The head of an arrow beside the ring: farther on that way. Angles are those of the screen as it is shown."""
    far = [min(max(value, -FARTHEST), FARTHEST) for value in click]
    dx, dy = (far[0] - shown[0]) * ratio, far[1] - shown[1]
    angle = math.degrees(math.atan2(dy, dx))
    near, tip = RING_PX + 4, RING_PX + 13
    head = {"d": f"M{tip:g} 0L{near:g} 6V-6Z", "transform": f"rotate({angle:.1f})"}
    return _at(shown, h.path(head, class_="click arrow"))


def _at(place: Place, inner: Node) -> Element:
    """Something drawn in pixels around a place of the screen."""
    return h.svg({"overflow": "visible"}, x=pc(place[0]), y=pc(place[1]))[inner]


def _twice(make: Callable[[str], Element], kind: str) -> list[Element]:
    """A mark over its own white rim."""
    return [make(f"rim {kind}"), make(kind)]


def _held(place: Sequence[float]) -> Place:
    """The nearest place on the screen."""
    x, y = place
    return min(max(x, 0.0), 1000.0), min(max(y, 0.0), 1000.0)


def _edge(coords: Sequence[float], click: Place) -> Place:
    """Where the line to the click leaves the target: the border of the smallest box around it, so that the line does
    not cover what was to be clicked; the click itself where that lies inside."""
    xs, ys = coords[0::2], coords[1::2]
    centre = ((min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2)
    half = ((max(xs) - min(xs)) / 2, (max(ys) - min(ys)) / 2)
    away = (click[0] - centre[0], click[1] - centre[1])
    share = min([1.0, *(side / abs(by) for side, by in zip(half, away, strict=True) if by)])
    return centre[0] + away[0] * share, centre[1] + away[1] * share


def pc(thousandths: float) -> str:
    """Thousandths of the screen as a share of the drawing."""
    return f"{min(max(thousandths, -FARTHEST), FARTHEST) / 10:.2f}%"
