"""Confidence intervals: Wilson's for a share, the percentile bootstrap for everything else."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howsure.errors import InputError
from howsure.measures._checks import check_level, check_resamples, cluster_codes, finite_vector, refuse, same_length
from howsure.measures._resampling import cluster_sums, resampled_sums

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """A confidence interval: its two ends, its level, and how it was found."""

    low: float
    high: float
    level: float
    method: str


def wilson_interval(successes: int, n: int, level: float = 0.95) -> Interval | None:
    """Wilson's score interval for a share of `successes` out of `n`; None for n = 0.

    >>> interval = wilson_interval(8, 10)
    >>> round(interval.low, 4), round(interval.high, 4)
    (0.4902, 0.9433)
    """
    check_level(level)
    if n < 0 or not 0 <= successes <= n:
        raise InputError(f"successes {successes} must lie between 0 and n, and n is {n}")
    if n == 0:
        return None
    z = NormalDist().inv_cdf(0.5 + level / 2)
    share, spread = successes / n, z * z / n
    centre = (share + spread / 2) / (1 + spread)
    half = z * math.sqrt(share * (1 - share) / n + spread / (4 * n)) / (1 + spread)
    low = 0.0 if successes == 0 else max(0.0, centre - half)  # exactly, not by rounding
    high = 1.0 if successes == n else min(1.0, centre + half)
    return Interval(low, high, level, "Wilson score")


def bootstrap_mean(
    values: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int,
) -> Interval | None:
    """Percentile bootstrap interval of the mean over items; whole clusters are drawn where they are given.

    None for fewer than two items, or fewer than two clusters: one of them says nothing of the spread.

    >>> interval = bootstrap_mean([0.0, 1.0, 1.0, 0.0], seed=1)
    >>> interval.low, interval.high
    (0.0, 1.0)
    """
    means = resampled_means(finite_vector(values, "values"), clusters, level, resamples, seed)
    return None if means is None else percentile_interval(means, level, bootstrap_method(clusters, resamples))


def bootstrap_ratio(
    numerators: ArrayLike, denominators: ArrayLike, *, level: float = 0.95, resamples: int = 2000, seed: int
) -> Interval | None:
    """Percentile bootstrap interval of Σ numerators / Σ denominators over units that are drawn whole.

    Units may be items, or blocks of neighbouring ones where neighbours depend on each other. None for fewer than two
    units, or where a resample's denominators sum to nothing.

    >>> interval = bootstrap_ratio([1.0, 4.0, 2.0], [1.0, 2.0, 1.0], seed=0)
    >>> interval.low <= 7 / 4 <= interval.high
    True
    """
    return bootstrap_ratios(numerators, [denominators], level=level, resamples=resamples, seed=seed)[0]


def bootstrap_ratios(
    numerators: ArrayLike,
    denominators: Sequence[ArrayLike],
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int,
) -> list[Interval | None]:
    """The same for one numerator over several denominators, such as bits per token, word and byte, from one draw.

    >>> per_token, per_word = bootstrap_ratios([3.0, 5.0], [[1.0, 2.0], [1.0, 1.0]], seed=0)
    >>> per_word.low, per_word.high
    (3.0, 5.0)
    """
    check_level(level)
    check_resamples(resamples)
    top = finite_vector(numerators, "numerators")
    below = [_denominators(values, top) for values in denominators]
    if len(top) < 2:
        return [None] * len(below)
    sums = resampled_sums(np.column_stack([top, *below]), resamples, seed)
    method = f"percentile bootstrap, {resamples} resamples"
    return [
        percentile_interval(sums[:, 0] / column, level, method) if (column > 0).all() else None
        for column in sums[:, 1:].T
    ]


def _denominators(values: ArrayLike, numerators: Array) -> Array:
    below = finite_vector(values, "denominators")
    same_length(numerators, below, "numerators and denominators")
    refuse(below, below < 0, "denominators", "0 or more")
    return below


def bootstrap(
    statistic: Callable[..., float | None],
    *arrays: ArrayLike,
    clusters: ArrayLike | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int,
) -> Interval | None:
    """Percentile bootstrap interval of any statistic of arrays that belong together item by item.

    `statistic(*arrays)` gets each array resampled with the same items. A resample on which it returns
    None or a number that is not finite is left out and counted in `method`; where more than (1 − level) / 2
    of them are, the percentiles could lie anywhere, and the interval is None. None as well for fewer than
    two items or clusters.

    >>> interval = bootstrap(np.median, [1.0, 2.0, 3.0, 4.0, 5.0], seed=0)
    >>> interval.low <= 3.0 <= interval.high
    True
    """
    check_level(level)
    check_resamples(resamples)
    columns = [np.asarray(array) for array in arrays]
    if len({len(column) for column in columns}) != 1:
        raise InputError(f"bootstrap needs arrays of one length, got {[len(column) for column in columns]}")
    draws = _item_draws(clusters, len(columns[0]), resamples, np.random.default_rng(seed))
    if draws is None:
        return None
    found = np.array([_value(statistic(*(column[items] for column in columns))) for items in draws])
    defined = found[np.isfinite(found)]
    missing = resamples - len(defined)
    if missing > resamples * (1 - level) / 2:
        return None
    note = f" ({missing} undefined left out)" if missing else ""
    return percentile_interval(defined, level, bootstrap_method(clusters, resamples) + note)


def resampled_means(values: Array, clusters: ArrayLike | None, level: float, resamples: int, seed: int) -> Array | None:
    """The mean over items in each resample; None for fewer than two items or clusters."""
    check_level(level)
    check_resamples(resamples)
    codes = cluster_codes(clusters, len(values))
    if len(values) == 0 or codes.max() < 1:
        return None
    if clusters is None:
        return resampled_sums(values[:, None], resamples, seed)[:, 0] / len(values)
    sums = cluster_sums(np.column_stack([values, np.ones(len(values))]), codes)
    drawn = resampled_sums(sums, resamples, seed)
    return drawn[:, 0] / drawn[:, 1]


def percentile_interval(resampled: Array, level: float, method: str) -> Interval:
    low, high = np.quantile(resampled, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high), level, method)


def bootstrap_method(clusters: ArrayLike | None, resamples: int) -> str:
    return f"percentile bootstrap over {'items' if clusters is None else 'clusters'}, {resamples} resamples"


def _item_draws(
    clusters: ArrayLike | None, items: int, resamples: int, rng: np.random.Generator
) -> Iterator[NDArray[np.intp]] | None:
    """The items of one resample after the other; None for fewer than two items or clusters."""
    codes = cluster_codes(clusters, items)
    count = int(codes.max(initial=-1)) + 1
    if count < 2:
        return None
    draws = (rng.integers(0, count, size=count) for _ in range(resamples))
    if clusters is None:
        return draws
    members = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
    return (np.concatenate([members[cluster] for cluster in drawn]) for drawn in draws)


def _value(statistic: float | None) -> float:
    return math.nan if statistic is None else float(statistic)
