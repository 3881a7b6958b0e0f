"""Shares and distances with their doubt, where items on the same screen hang together."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from howsure.measures import Interval, bootstrap_mean, bootstrap_median, wilson_interval
from howsure.studies.grounding.judging.columns import Bools, Columns, Floats

LEVEL = 0.95

Codes = NDArray[np.int64]


def figures(table: Columns, *, seed: int) -> dict[str, dict[str, Any]]:
    """Each figure of a study by its name: its value, its interval, and of how many it is.

    Whatever has no click is a miss in all shares; only `accuracy_of_answered` leaves out calls that failed.
    """
    placed, region, nothing = table.placed, table.region, ~table.placed
    shares = {
        "accuracy": (table.within, placed),
        "accuracy_of_answered": (table.within, placed & table.answered),
        "point_in_target": (table.inside, region),
        "point_in_box": (table.inside, table.box),
        "point_in_polygon": (table.inside, table.polygon),
        "hit_rate": (table.hit, np.ones(len(table), dtype=np.bool_)),
        "wrong_format": (table.unreadable, table.answered),
        "refused_rightly": (table.refused, nothing),
        "refused_wrongly": (table.refused, placed),
    }
    found = {name: share(happened[of], table.image[of], seed=seed) for name, (happened, of) in shares.items()}
    known, measured = table.l2[table.measured], table.image[table.measured]
    labels = clusters(measured)
    mean = bootstrap_mean(known, clusters=labels, level=LEVEL, seed=seed)
    median = bootstrap_median(known, clusters=labels, level=LEVEL, seed=seed)
    return found | {
        "mean_l2": _distance(mean_of(known), len(known), int(placed.sum()), mean),
        "median_l2": _distance(median_of(known), len(known), int(placed.sum()), median),
    }


def share(happened: Bools, image: Codes, *, seed: int) -> dict[str, Any]:
    """How often, of how many, with an interval over screens.

    Wilson's where every screen has one item. Otherwise whole screens are drawn; and where it happened always or never,
    so that every draw would be like every other, which is no certainty, Wilson's of that many screens.
    """
    count, total = int(happened.sum()), len(happened)
    return {"value": ratio(count, total), "count": count, "of": total, **ends(_share_interval(happened, image, seed))}


def _share_interval(happened: Bools, image: Codes, seed: int) -> Interval | None:
    labels = clusters(image)
    if labels is None:
        return wilson_interval(int(happened.sum()), len(happened), LEVEL)
    if happened.all() or not happened.any():
        screens = len(np.unique(image))
        return wilson_interval(screens if happened.all() else 0, screens, LEVEL)
    return bootstrap_mean(happened.astype(np.float64), clusters=labels, level=LEVEL, seed=seed)


def clusters(image: Codes) -> Codes | None:
    """What is drawn together; None where every screen has one item, and items can be drawn."""
    return None if len(np.unique(image)) == len(image) else image


def _distance(value: float | None, count: int, of: int, interval: Interval | None) -> dict[str, Any]:
    return {"value": value, "count": count, "of": of, **ends(interval)}


def ends(interval: Interval | None) -> dict[str, Any]:
    """An interval as data, under the names that a headline figure has for it."""
    if interval is None:
        return {"low": None, "high": None, "level": None, "method": None}
    return {"low": interval.low, "high": interval.high, "level": interval.level, "method": interval.method}


def mean_of(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None


def median_of(values: Floats) -> float | None:
    return float(np.median(values)) if len(values) else None


def ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
