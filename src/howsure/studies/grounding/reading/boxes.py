"""How a file writes its boxes, and what becomes of them in the 0–1000 frame.

ScreenSpot's boxes go about as `x, y, width, height` and as `left, top, right, bottom`, in pixels and in fractions of
the image, and no field says which. All boxes of one file are written alike, so the file as a whole tells:

1. `given`: what the user said goes.
2. Units are fractions if every number of the file lies in 0 to 1, else pixels; but a file of which half the boxes or
   more lie in 0 to 1, and not all, is an error that names one of the others: no screen is full of targets of one pixel.
3. `left, top, right, bottom` is impossible as soon as one box has its third number not beyond its first, or its fourth
   not beyond its second: rule `xyxy_impossible`.
4. `x, y, width, height` is impossible as soon as one box would reach out of its image by more than a pixel: rule
   `xywh_impossible`.
5. Both impossible: an error that names an entry for each. Both possible: `known_for_form`, what data of this form is
   known to be: ScreenSpot and its second version xywh in pixels, their copies in fractions xyxy, ScreenSpot-Pro (which
   tells sizes or applications) xyxy in pixels.

Boxes that are wrong however they are read (no extent at all, beyond the image from the start) have no say in this.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from howsure.errors import InputError
from howsure.studies.grounding.options import Order, Units
from howsure.studies.grounding.reading.forms import Shape, Size
from howsure.studies.grounding.record import FRAME, Target

NUMBERS = {"point": 2, "box": 4, "refusal": 0}
LEAST_CORNERS = 3

_SLACK = {"pixels": 1.0, "thousandths": 1.0, "fractions": 0.001}
"""By how much a box may reach out of its image before that says something: a pixel, or what rounding makes of it."""


class Evidence(NamedTuple):
    """A box as written, and the size of its image where it is known."""

    number: int
    box: tuple[float, ...]
    size: Size | None = None


class Convention(NamedTuple):
    order: Order
    units: Units
    rule: str
    because: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {key: value for key, value in self._asdict().items() if value is not None}


# -- which convention ---------------------------------------------------------------------------------------------


def decide(boxes: Sequence[Evidence], *, order: Order | None, units: Units | None, pro: bool) -> Convention:
    """The convention of one file; `pro` says that it is of ScreenSpot-Pro's kind."""
    units = units or guess_units(boxes)
    if order is not None:
        return Convention(order, units, "given")
    no_corners, no_extent = not_xyxy(boxes, units), not_xywh(boxes, units)
    if no_corners is not None and no_extent is not None:
        raise InputError(
            f"its boxes are written neither way: entry {no_corners.number}, {_shown(no_corners.box)}, cannot be left, "
            f"top, right, bottom, and entry {no_extent.number}, {_shown(no_extent.box)}, as x, y, width, height, "
            "reaches out of its image; mend those entries, or say --boxes xywh or --boxes xyxy"
        )
    if no_corners is not None:
        return Convention("xywh", units, "xyxy_impossible", f"entry {no_corners.number}")
    if no_extent is not None:
        return Convention("xyxy", units, "xywh_impossible", f"entry {no_extent.number}")
    return Convention("xyxy" if pro or units == "fractions" else "xywh", units, "known_for_form")


def guess_units(boxes: Sequence[Evidence]) -> Units:
    finite = [one for one in boxes if all(map(math.isfinite, one.box))]
    large = [one for one in finite if not all(0 <= number <= 1 for number in one.box)]
    if not large:
        return "fractions"
    if 2 * len(large) <= len(finite):
        raise InputError(
            f"its boxes look like fractions of the image, but entry {large[0].number} has {_shown(large[0].box)}; mend "
            "it, or say --box-units fractions or --box-units pixels"
        )
    return "pixels"


def not_xyxy(boxes: Sequence[Evidence], units: Units) -> Evidence | None:
    """The first box that cannot be left, top, right, bottom."""
    sound = (one for one in boxes if _has_a_say(one, units))
    return next((one for one in sound if one.box[2] <= one.box[0] or one.box[3] <= one.box[1]), None)


def not_xywh(boxes: Sequence[Evidence], units: Units) -> Evidence | None:
    """The first box that cannot be x, y, width, height."""
    return next((one for one in boxes if _has_a_say(one, units) and _reaches_out(one, units)), None)


def _has_a_say(one: Evidence, units: Units) -> bool:
    limits = _limits(one.size, units)
    beyond = limits is not None and (one.box[0] >= limits[0] or one.box[1] >= limits[1])
    return all(map(math.isfinite, one.box)) and one.box[2] > 0 and one.box[3] > 0 and not beyond


def _reaches_out(one: Evidence, units: Units) -> bool:
    limits = _limits(one.size, units)
    if limits is None:
        return False
    x, y, width, height = one.box
    return x + width > limits[0] + _SLACK[units] or y + height > limits[1] + _SLACK[units]


def _limits(size: Size | None, units: Units) -> tuple[float, float] | None:
    """The far corner of the image, in the units of the numbers."""
    if units == "pixels":
        return size
    return (1.0, 1.0) if units == "fractions" else (FRAME, FRAME)


# -- into the frame -----------------------------------------------------------------------------------------------


def to_target(shape: Shape, order: Order, units: Units, size: Size) -> Target:
    """A shape in the 0–1000 frame of an image of this size; a sentence where it is no place in that image."""
    numbers = shape.numbers
    if order == "xywh" and shape.kind == "box" and len(numbers) == NUMBERS["box"]:
        x, y, width, height = numbers
        numbers = (x, y, x + width, y + height)
    target = Target(shape.kind, tuple(_in_frame(number, i, units, size) for i, number in enumerate(numbers)))
    check_target(target, shape.numbers)
    return target


def _in_frame(number: float, i: int, units: Units, size: Size) -> float:
    if units == "thousandths":
        return float(number)
    return number * FRAME if units == "fractions" else number * FRAME / size[i % 2]


def check_target(target: Target, written: Sequence[float]) -> None:
    """Raises unless this is a place of its kind that a click on the image can reach; `written` is what to repeat."""
    what = f"the {target.kind} {_shown(written)}"
    coords, kind = target.coords, target.kind
    if kind == "polygon" and (len(coords) < 2 * LEAST_CORNERS or len(coords) % 2):
        raise InputError(f"{what} must have x and y of at least {LEAST_CORNERS} corners")
    if kind in NUMBERS and len(coords) != NUMBERS[kind]:
        raise InputError(f"{what} must have {NUMBERS[kind]} numbers, not {len(coords)}")
    if not all(map(math.isfinite, coords)):
        raise InputError(f"{what} has numbers beyond all bounds")
    if target.is_region and not _has_area(target):
        raise InputError(f"{what} has no area")
    if coords and _is_outside(target):
        raise InputError(f"{what} lies outside the image{_in_thousandths(target, written)}")


def check_thousandths(shapes: Iterable[Shape]) -> None:
    """Raises where places that should be thousandths are fractions: all of them would lie in one corner."""
    numbers = [number for shape in shapes for number in shape.numbers]
    if numbers and all(0 <= number <= 1 for number in numbers) and any(number % 1 for number in numbers):
        raise InputError(
            f"all its places lie within 0 to 1, the first at {_shown(numbers[:2])}: they are fractions of the screen; "
            "multiply them by 1000"
        )


def _has_area(target: Target) -> bool:
    if target.kind == "box":
        left, top, right, bottom = target.coords
        return right > left and bottom > top
    x, y = target.coords[:2]
    corners = list(zip(target.coords[0::2], target.coords[1::2], strict=True))
    arms = [(a - x, b - y) for a, b in corners]
    first = next((arm for arm in arms if arm != (0.0, 0.0)), (0.0, 0.0))
    return any(first[0] * b - first[1] * a != 0 for a, b in arms)


def _is_outside(target: Target) -> bool:
    xs, ys = target.coords[0::2], target.coords[1::2]
    if target.kind == "point":
        return not (0 <= xs[0] <= FRAME and 0 <= ys[0] <= FRAME)
    return max(xs) <= 0 or min(xs) >= FRAME or max(ys) <= 0 or min(ys) >= FRAME


def _in_thousandths(target: Target, written: Sequence[float]) -> str:
    """That the numbers were taken for thousandths, where they were."""
    return ", whose width and height are 1000 each here" if tuple(written) == target.coords else ""


def _shown(numbers: Sequence[float]) -> str:
    shown = ", ".join(f"{number:.7g}" for number in numbers[:8])
    return f"[{shown}{', …' if len(numbers) > 8 else ''}]"
