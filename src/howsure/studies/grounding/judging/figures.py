"""Shares and distances with their doubt, where items on the same screen hang together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from howsure.measures import Interval, mean_interval, median_interval
from howsure.measures.intervals import ENOUGH_RARE
from howsure.studies import sureness
from howsure.studies.grounding.judging.columns import Bools, Columns, Floats
from howsure.studies.sureness import LEVEL

Codes = NDArray[np.int64]

COUNT_BAD = ("accuracy", "point_in_target", "hit_rate")
"""Shares that count bad samples of the data as misses; that of the others stands beside them."""
WITHOUT_BAD = "_without_bad_samples"


def figures(table: Columns, *, bad: int = 0) -> dict[str, dict[str, Any]]:
    """Each figure of a study by its name: its value, its interval, and of how many it is.

    Whatever has no click is a miss in all shares; only `accuracy_of_answered` leaves out calls that failed. What was to
    be clicked in the `bad` samples, which could not be read, is not known: each share of `COUNT_BAD` that the data has
    counts all of them as misses.
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
    found = {name: share(happened[of], table.image[of]) for name, (happened, of) in shares.items()}
    for name in COUNT_BAD:
        happened, of = shares[name]
        found[f"{name}{WITHOUT_BAD}"] = found[name]
        found[name] = share(happened[of], table.image[of], bad=bad if of.any() else 0)
    known, screen, wanted = table.l2[table.measured], table.image[table.measured], int(placed.sum())
    mean = mean_interval(known, clusters=screen, level=LEVEL, least=0.0)
    far = np.count_nonzero(~table.within[table.measured])
    if mean is not None and far < ENOUGH_RARE:  # the mean rests on the far misses, of which hardly any were seen
        mean = replace(mean, approximate=True)
    median = median_interval(known, clusters=screen, level=LEVEL)
    return found | {
        "mean_l2": _distance(mean_of(known), len(known), wanted, mean),
        "median_l2": _distance(median_of(known), len(known), wanted, median),
    }


def share(happened: Bools, image: Codes, *, bad: int = 0) -> dict[str, Any]:
    """How often, of how many, with an interval over screens; in a bad sample, on a screen of its own, it did not."""
    return sureness.share(with_bad(happened, bad), screens_with_bad(image, bad))


def with_bad(happened: Bools, bad: int) -> Bools:
    return np.concatenate([happened, np.zeros(bad, dtype=np.bool_)])


def screens_with_bad(image: Codes, bad: int) -> Codes:
    after = int(image.max(initial=-1)) + 1
    return np.concatenate([image, np.arange(after, after + bad)])


def _distance(value: float | None, count: int, of: int, interval: Interval | None) -> dict[str, Any]:
    return {"value": value, "count": count, "of": of, **sureness.ends(interval)}


def mean_of(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None


def median_of(values: Floats) -> float | None:
    return float(np.median(values)) if len(values) else None
