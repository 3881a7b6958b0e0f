"""Clicks on a screen: how far from the target, inside its region or not, and how far apart when asked again.

Places are x and y in one frame for both, thousandths of the screen's width and height. Nothing here depends on the
frame's size. A click that is missing has no place: it is left out by the caller, who counts it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howsure.errors import EvidenceError, InputError
from howsure.measures.checks import Array

Bools = NDArray[np.bool_]


def click_distances(points: ArrayLike, targets: ArrayLike) -> Array:
    """L2 distance √((x − x')² + (y − y')²) of each point [n × 2] from its target [n × 2].

    >>> click_distances([[0, 0], [100, 200]], [[3, 4], [100, 200]])
    array([5., 0.])
    """
    first, second = _rows(points, 2, "points"), _rows(targets, 2, "targets")
    _same_count(first, second, "points and targets")
    across, down = (first - second).T
    return np.asarray(np.hypot(across, down), dtype=np.float64)


def in_box(points: ArrayLike, boxes: ArrayLike) -> Bools:
    """Whether each point [n × 2] lies in its box [n × (left, top, right, bottom)]; the edges belong to the box.

    >>> in_box([[10, 20], [10.1, 20]], [[0, 0, 10, 20], [0, 0, 10, 20]])
    array([ True, False])
    """
    places, areas = _rows(points, 2, "points"), _rows(boxes, 4, "boxes")
    _same_count(places, areas, "points and boxes")
    low, high = areas[:, :2], areas[:, 2:]
    if (low > high).any():
        row = int(np.argmax((low > high).any(axis=1)))
        raise EvidenceError(
            f"boxes: {areas[row].tolist()} at position {row} ends before it begins; a box is left, top, right, bottom"
        )
    return np.asarray(((places >= low) & (places <= high)).all(axis=1), dtype=np.bool_)


def in_polygon(point: ArrayLike, corners: ArrayLike) -> bool:
    """Whether a point lies in the polygon with these corners [k × 2], which is closed from the last to the first.

    By the even-odd rule: a ray from the point crosses the edges an odd number of times. So the polygon may be concave,
    and where it crosses itself, what is enclosed twice is outside (the middle of a five-pointed star drawn in one
    go). Edges and corners belong to it. Corners on one line enclose nothing, and only the line between them belongs to
    the polygon; one corner is that place alone. Which side of a slanting edge a point lies on is exact up to floating
    point, and exact for whole numbers of up to eight digits.

    >>> in_polygon([1, 1], [[0, 0], [4, 0], [0, 4]]), in_polygon([2, 2], [[0, 0], [4, 0], [0, 4]])
    (True, True)
    >>> in_polygon([3, 3], [[0, 0], [4, 0], [0, 4]])
    False
    """
    place = _place(point, "point")
    starts = _rows(corners, 2, "corners")
    if not len(starts):
        raise EvidenceError("a polygon without corners is no region")
    if (place < starts.min(axis=0)).any() or (place > starts.max(axis=0)).any():
        return False
    (x, y), ends = place, np.roll(starts, -1, axis=0)
    side = (ends[:, 0] - starts[:, 0]) * (y - starts[:, 1]) - (ends[:, 1] - starts[:, 1]) * (x - starts[:, 0])
    within = (np.minimum(starts, ends) <= place) & (place <= np.maximum(starts, ends))
    if (within.all(axis=1) & (side == 0)).any():
        return True
    # An edge from above the point to below or at its height, or the other way round, so that no corner counts twice.
    straddles = (starts[:, 1] > y) != (ends[:, 1] > y)
    to_the_right = (side > 0) == (ends[:, 1] > starts[:, 1])
    return bool(np.count_nonzero(straddles & to_the_right) % 2)


def spread(points: ArrayLike) -> float | None:
    """How far apart clicks lie: √(1/n Σ |p_i − p̄|²), the root mean square distance from their mean p̄.

    None for fewer than two: one click says nothing of where another would go.

    >>> spread([[0, 0], [6, 8]])
    5.0
    """
    places = _rows(points, 2, "points")
    if len(places) < 2:
        return None
    from_mean = click_distances(places, np.broadcast_to(places.mean(axis=0), places.shape))
    farthest = float(from_mean.max())  # by which all are divided, so that no square overflows
    return farthest * math.sqrt(float(((from_mean / farthest) ** 2).mean())) if farthest else 0.0


def agreement(click: ArrayLike, points: ArrayLike, asked: int, delta: float) -> float | None:
    """Share of `asked` answers that click within `delta` of a click; `points` are the places of those that click.

    An answer without a place is one that does not click there. None where nothing was asked.

    >>> agreement([100, 100], [[100, 110], [400, 400]], asked=4, delta=20)
    0.25
    """
    centre, places = _place(click, "click"), _rows(points, 2, "points")
    if not (math.isfinite(delta) and delta >= 0):
        raise InputError(f"delta {delta!r} must be a finite distance, 0 or more")
    if asked < len(places):
        raise InputError(f"{len(places)} clicks cannot come from {asked} answers")
    if asked == 0:
        return None
    near = click_distances(places, np.broadcast_to(centre, places.shape)) <= delta
    return int(np.count_nonzero(near)) / asked


def _place(values: ArrayLike, what: str) -> Array:
    """x and y of one place."""
    array = _numbers(values, what, 2)
    if array.shape != (2,):
        raise EvidenceError(f"{what} must be one x and one y, got shape {array.shape}")
    return np.asarray(_rows(array[None], 2, what)[0], dtype=np.float64)


def _rows(values: ArrayLike, width: int, what: str) -> Array:
    """[n × width] finite numbers; no rows at all are welcome."""
    array = _numbers(values, what, width)
    if array.size == 0 and array.ndim <= 2:
        return np.empty((0, width))
    if array.ndim != 2 or array.shape[1] != width:
        raise EvidenceError(f"{what} must be rows of {width} numbers each, got shape {array.shape}")
    if not np.isfinite(array).all():
        row = int(np.argmax(~np.isfinite(array).all(axis=1)))
        raise EvidenceError(f"{what}: {array[row].tolist()} at position {row} are not finite numbers")
    return array


def _numbers(values: ArrayLike, what: str, width: int) -> Array:
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise EvidenceError(f"{what} must be rows of {width} numbers each: {error}") from error


def _same_count(first: Array, second: Array, names: str) -> None:
    if len(first) != len(second):
        raise EvidenceError(f"{names} must be as many, got {len(first)} and {len(second)}")
