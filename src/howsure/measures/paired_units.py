"""Two runs over the same units, such as episodes, within which each has items of its own, such as steps.

Items cannot be paired, and units can: what a unit contributes to the error of B's figure less what it contributes to
that of A's is its contribution to the error of the difference.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howsure.errors import EvidenceError
from howsure.measures.checks import binary_vector, check_level, cluster_codes, finite_vector
from howsure.measures.intervals import (
    LEAST_UNITS,
    Interval,
    Spread,
    correlation_of,
    enlarged,
    mover,
    share_interval,
    student_interval,
)
from howsure.measures.paired import PairedDifference

Array = NDArray[np.float64]


class Ratio(NamedTuple):
    """Σ above / Σ below over the items of one run; a mean where `below` is 1. `unit` is what an item belongs to."""

    above: ArrayLike
    below: ArrayLike
    unit: ArrayLike


class Happened(NamedTuple):
    """0 or 1 for each item of one run, and what it belongs to."""

    happened: ArrayLike
    unit: ArrayLike


def difference_of_ratios(a: Ratio, b: Ratio, *, level: float = 0.95) -> PairedDifference | None:
    """The ratio of b minus that of a, with Student's t of the linearised difference over units.

    Items of a unit hang together in either run and across the two. Both runs must have items in the same units, and
    `items` counts the units. None for no items, or where a denominator adds up to nothing.

    >>> a = Ratio([1.0, 2.0, 1.0, 2.0, 3.0, 1.0], np.ones(6), [0, 0, 1, 2, 3, 4])
    >>> b = Ratio([2.0, 3.0, 3.0, 4.0, 1.0], np.ones(5), [0, 1, 2, 3, 4])
    >>> difference = difference_of_ratios(a, b)
    >>> round(difference.mean_difference, 3), difference.interval.low < 0.933 < difference.interval.high
    (0.933, True)
    """
    check_level(level)
    codes = _same_units(a.unit, b.unit)
    known = [(finite_vector(one.above, "above"), finite_vector(one.below, "below")) for one in (a, b)]
    if not len(codes[0]) or any(below.sum() == 0.0 for _, below in known):
        return None
    units, values, parts, effective = int(codes[0].max()) + 1, [], [], []
    for (above, below), unit in zip(known, codes, strict=True):
        total = float(below.sum())
        values.append(float(above.sum()) / total)
        own, kish = enlarged((above - values[-1] * below) / total, unit, np.bincount(unit, minlength=units))
        parts.append(own)
        effective.append(kish)
    value, interval = values[1] - values[0], None
    if units >= LEAST_UNITS:
        interval = student_interval(value, Spread(parts[1] - parts[0], min(effective), clustered=True), level)
    return PairedDifference(value, interval, units)


def difference_of_shares(a: Happened, b: Happened, *, level: float = 0.95) -> PairedDifference | None:
    """How often it happened in b minus how often in a, from the intervals of the two shares and their correlation.

    The correlation is taken as if there were one more unit, in which the two have nothing in common: few units show it
    only roughly, and two runs that did the same in each of them may not in the next. So there is width where nothing
    differs as well. Otherwise as `difference_of_ratios`.

    >>> alike = Happened([1, 1, 1, 0, 1, 1], [0, 0, 1, 2, 3, 4])
    >>> difference = difference_of_shares(alike, alike)
    >>> difference.mean_difference, round(difference.interval.high, 2)
    (0.0, 0.48)
    """
    check_level(level)
    codes = _same_units(a.unit, b.unit)
    known = [binary_vector(one.happened, "happened") for one in (a, b)]
    if not len(codes[0]):
        return None
    first, second = (float(one.mean()) for one in known)
    shares = [share_interval(one, clusters=unit, level=level) for one, unit in zip(known, codes, strict=True)]
    units, interval, (of_a, of_b) = int(codes[0].max()) + 1, None, shares
    if of_a is not None and of_b is not None:
        together = correlation_of(known[0] - first, known[1] - second, *codes) * units / (units + 1)
        low, high = mover(first, of_a, second, of_b, together)
        rough = of_a.approximate or of_b.approximate
        interval = Interval(low, high, level, f"MOVER of two shares, each {of_b.method}", rough)
    return PairedDifference(second - first, interval, units)


def _same_units(a: ArrayLike, b: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Numbers for the units of both, in the order in which they come in a."""
    first, second = np.asarray(a), np.asarray(b)
    if set(first.tolist()) != set(second.tolist()):
        raise EvidenceError("both runs must have items in the same units: leave out what one of them lacks")
    codes = cluster_codes(np.concatenate([first, second]), len(first) + len(second), "unit")
    return codes[: len(first)], codes[len(first) :]
