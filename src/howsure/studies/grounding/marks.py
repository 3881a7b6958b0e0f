"""What is drawn on a screen: where the click belonged, where it went, and how far off that is.

Two painters draw these marks alike: `drawing` with Pillow into files, `howsure.report.grounding_screen` as SVG on
pages. Places are in thousandths of the screen; sizes are in pixels of a page, so that a ring is as easy to see on a
small picture as on a large one. Every stroke has a rim, to be seen on dark screens and light ones. No two marks of a
picture differ in colour alone; the colours are of the palette of Okabe and Ito (2008).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

from howsure.studies.grounding.figures import is_outside
from howsure.studies.grounding.record import GroundingRecord, Place
from howsure.studies.grounding.words import thousandths

BLUE, GREEN, VERMILION, YELLOW, BLACK, WHITE = "#0072b2", "#009e73", "#d55e00", "#f0e442", "#000000", "#ffffff"
RING_PX, DOT_PX, SMALL_DOT_PX, ARM_PX, LETTER_PX = 9.0, 2.5, 3.2, 10.0, 14.0
RIM_PX, THIN_RIM_PX = 1.7, 1.0
"""Of strokes, and of what is filled."""
DASH_PX, GAP_PX = 7.0, 5.0
MOST_DOTS, MOST_CORNERS = 1_000, 400
FARTHEST = 5_000.0
"""Thousandths: what lies farther outside is drawn here."""

Role = Literal["target", "reach", "link", "hit", "miss", "other"]


class Look(NamedTuple):
    colour: str
    width_px: float
    rim: str = WHITE


LOOKS: dict[Role, Look] = {
    "target": Look(BLUE, 2.5),
    "reach": Look(BLUE, 2.0),
    "link": Look(BLACK, 1.6),
    "hit": Look(GREEN, 3.0),
    "miss": Look(VERMILION, 3.0),
    "other": Look(YELLOW, 1.2, BLACK),
}


class Stroke(NamedTuple):
    """A line through points: thousandths, or with `at` pixels around that place. What is filled is closed."""

    role: Role
    points: Sequence[Place]
    at: Place | None = None
    closed: bool = False
    filled: bool = False


class Circle(NamedTuple):
    role: Role
    at: Place
    radius_px: float
    filled: bool = False


class Reach(NamedTuple):
    """A dashed circle in thousandths, which on most screens is an ellipse."""

    at: Place
    radius: float
    role: Role = "reach"


class Label(NamedTuple):
    """Words in a white box around a place."""

    at: Place
    text: str
    width_px: float
    height_px: float


Mark: TypeAlias = Stroke | Circle | Reach | Label
Box: TypeAlias = tuple[float, float, float, float]


def marks(result: GroundingRecord, delta: float | None, width_px: float, height_px: float) -> list[Mark]:
    """In the order in which they are drawn, on a screen that is shown this large."""
    return list(_marks(result, delta, _Room(width_px, height_px)))


class _Room(NamedTuple):
    width: float
    height: float

    def px(self, place: Place) -> Place:
        return place[0] * self.width / 1000, place[1] * self.height / 1000

    def thousandths(self, point: Place) -> Place:
        return point[0] / self.width * 1000, point[1] / self.height * 1000


def _marks(result: GroundingRecord, delta: float | None, room: _Room) -> Iterator[Mark]:
    kind, click = result.target.kind, result.pred_coord
    corners = [_near(place) for place in result.target.places]
    if result.target.is_region:
        yield Stroke("target", _outline(corners, room), closed=True)
    elif kind == "point" and delta and delta < FARTHEST:
        yield Reach(corners[0], delta)
    for place in (result.samples.points if result.samples is not None else ())[:MOST_DOTS]:
        yield Circle("other", held(place), SMALL_DOT_PX, filled=True)
    role: Role = "hit" if result.hit else "miss"
    link = [] if click is None or not corners else _link(corners, held(click), room)
    if link:
        yield Stroke("link", link)
    if kind == "point":  # over the line
        yield Stroke("target", [(-ARM_PX, 0), (ARM_PX, 0), (0, 0), (0, -ARM_PX), (0, ARM_PX)], corners[0])
    if click is None:
        return
    if is_outside(click):
        yield _arrow(role, click, room)
    yield Circle(role, held(click), RING_PX)
    yield Circle(role, held(click), DOT_PX, filled=True)
    if corners and result.l2 is not None and not result.hit:  # on a hit it would cover what was to be clicked
        margin = ARM_PX if kind == "point" else LOOKS["target"].width_px + RIM_PX
        yield _label(thousandths(result.l2), _grown(_around(corners, room), margin), held(click), link, room)


def _near(place: Place) -> Place:
    x, y = (min(max(value, -FARTHEST), FARTHEST) for value in place)
    return x, y


def held(place: Place) -> Place:
    """The nearest place on the screen."""
    x, y = (min(max(value, 0.0), 1000.0) for value in place)
    return x, y


def _outline(corners: Sequence[Place], room: _Room) -> Sequence[Place]:
    """The line through the corners; that of a box lies just outside of it, and covers nothing of it."""
    if len(corners) != 2:
        return corners[:: math.ceil(len(corners) / MOST_CORNERS)]
    (left, top), (right, bottom) = corners
    x, y = room.thousandths((LOOKS["target"].width_px / 2, LOOKS["target"].width_px / 2))
    return [(left - x, top - y), (right + x, top - y), (right + x, bottom + y), (left - x, bottom + y)]


def _around(corners: Sequence[Place], room: _Room) -> Box:
    """The smallest box around them, in pixels."""
    xs, ys = zip(*map(room.px, corners), strict=True)
    return min(xs), min(ys), max(xs), max(ys)


def _link(corners: Sequence[Place], click: Place, room: _Room) -> list[Place]:
    """From the border of the box around the target, so that the line does not cover what was to be clicked, to the
    ring; nothing where no room is left between the two."""
    left, top, right, bottom = _around(corners, room)
    middle, half = ((left + right) / 2, (top + bottom) / 2), ((right - left) / 2, (bottom - top) / 2)
    x, y = room.px(click)
    away = (x - middle[0], y - middle[1])
    share = min([1.0, *(side / abs(by) for side, by in zip(half, away, strict=True) if by)])
    length = math.hypot(*away)
    until = 1 - RING_PX / length if length else 0.0
    ends = [(middle[0] + away[0] * by, middle[1] + away[1] * by) for by in (share, until)]
    return [room.thousandths(end) for end in ends] if until > share else []


def _arrow(role: Role, click: Place, room: _Room) -> Stroke:
    """The head of an arrow beside the ring: farther on that way, as the screen is shown."""
    (x, y), (far_x, far_y) = held(click), _near(click)
    dx, dy = room.px((far_x - x, far_y - y))
    length = math.hypot(dx, dy)
    dx, dy = dx / length, dy / length
    head = [(RING_PX + 13, 0.0), (RING_PX + 4, 6.0), (RING_PX + 4, -6.0)]
    return Stroke(role, [(u * dx - v * dy, u * dy + v * dx) for u, v in head], (x, y), closed=True, filled=True)


def _label(text: str, target: Box, click: Place, link: Sequence[Place], room: _Room) -> Label:
    """On the line, or beside the click, and always on the screen: where it covers least of target and click."""
    width, height = 0.62 * LETTER_PX * len(text) + 10, LETTER_PX + 6
    x, y = room.px(click)
    places: list[Place] = []
    if link:
        (x0, y0), (x1, y1) = map(room.px, link)
        places = [(x0 + (x1 - x0) * by, y0 + (y1 - y0) * by) for by in (0.5, 0.7, 0.3)]
    beside, below = RING_PX + 5 + width / 2, RING_PX + 5 + height / 2
    places += [(x + dx, y + dy) for dx, dy in ((beside, 0), (-beside, 0), (0, below), (0, -below))]
    inside = [
        (min(max(x, width / 2), room.width - width / 2), min(max(y, height / 2), room.height - height / 2))
        for x, y in places
    ]
    keep_clear = (target, _grown((x, y, x, y), RING_PX + 3))

    def covered(place: Place) -> int:
        label = _grown((*place, *place), width / 2, height / 2)
        return round(sum(_overlap(label, one) for one in keep_clear))

    return Label(room.thousandths(min(inside, key=covered)), text, width, height)


def _grown(box: Box, across: float, down: float | None = None) -> Box:
    left, top, right, bottom = box
    more = across if down is None else down
    return left - across, top - more, right + across, bottom + more


def _overlap(a: Box, b: Box) -> float:
    """The area that two boxes share."""
    across, down = (min(a[i + 2], b[i + 2]) - max(a[i], b[i]) for i in (0, 1))
    return max(across, 0.0) * max(down, 0.0)
