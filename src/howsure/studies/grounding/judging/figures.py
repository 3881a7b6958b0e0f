"""Shares and distances with their doubt, where items on the same screen hang together."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from howsure.measures import Interval, bootstrap_mean, bootstrap_median
from howsure.studies import sureness
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
    """How often, of how many, with an interval over screens."""
    return sureness.share(happened, clusters(image), level=LEVEL, seed=seed)


def clusters(image: Codes) -> Codes | None:
    """What is drawn together; None where every screen has one item, and items can be drawn."""
    return None if len(np.unique(image)) == len(image) else image


def _distance(value: float | None, count: int, of: int, interval: Interval | None) -> dict[str, Any]:
    return {"value": value, "count": count, "of": of, **sureness.ends(interval)}


def mean_of(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None


def median_of(values: Floats) -> float | None:
    return float(np.median(values)) if len(values) else None


def ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
