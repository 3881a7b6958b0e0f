"""Bootstraps of a median and of an AUROC over clusters, for many items.

`bootstrap` does the same for any statistic by drawing out every resample, which for ten thousand items takes a minute.
Here a resample is a row of weights, how often each cluster was drawn, and many rows are measured at once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howsure.measures._checks import (
    binary_vector,
    check_level,
    check_resamples,
    cluster_codes,
    finite_vector,
    ranked_vector,
    same_length,
)
from howsure.measures._resampling import drawn_times
from howsure.measures.intervals import Interval, bootstrap_method, percentile_interval

Array = NDArray[np.float64]
Codes = NDArray[np.int64]


def bootstrap_median(
    values: ArrayLike, *, clusters: ArrayLike | None = None, level: float = 0.95, resamples: int = 2000, seed: int
) -> Interval | None:
    """Percentile bootstrap interval of the median over items; whole clusters are drawn where they are given.

    None for fewer than two items, or fewer than two clusters: one of them says nothing of the spread.

    >>> interval = bootstrap_median([1.0, 2.0, 3.0, 4.0, 50.0], seed=0)
    >>> interval.low <= 3.0 <= interval.high
    True
    """
    check_level(level)
    check_resamples(resamples)
    array = finite_vector(values, "values")
    codes = cluster_codes(clusters, len(array))
    if codes.max(initial=0) < 1:
        return None
    order = np.argsort(array, kind="stable")
    ranked = array[order]
    drawn = codes if clusters is None else codes[order]  # without clusters, numbered by rank: the order never counts
    rows = drawn_times(int(codes.max()) + 1, resamples, seed, width=len(array))
    medians = np.concatenate([_medians(ranked, times[:, drawn]) for times in rows])
    return percentile_interval(medians, level, bootstrap_method(clusters, resamples))


def bootstrap_auroc(
    score: ArrayLike,
    positive: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int,
) -> Interval | None:
    """Percentile bootstrap interval of `auroc`; whole clusters are drawn where they are given.

    Resamples without both classes are left out and counted in `method`; where they are more than (1 − level) / 2 of
    all, the percentiles could lie anywhere, and the interval is None. None as well without both classes in the data,
    and for fewer than two items or clusters.

    >>> interval = bootstrap_auroc([0.9, 0.8, 0.7, 0.4, 0.3, 0.2] * 4, [1, 1, 0, 1, 0, 0] * 4, seed=0)
    >>> interval.low < 8 / 9 < interval.high
    True
    """
    check_level(level)
    check_resamples(resamples)
    ranks, labels = ranked_vector(score, "score"), binary_vector(positive, "positive")
    same_length(ranks, labels, "score and positive")
    codes = cluster_codes(clusters, len(ranks))
    if codes.max(initial=0) < 1 or len(np.unique(labels)) < 2:
        return None
    order = np.lexsort((labels, ranks))
    drawn = codes if clusters is None else codes[order]
    rows = drawn_times(int(codes.max()) + 1, resamples, seed, width=len(ranks))
    found = np.concatenate([_aurocs(ranks[order], labels[order] == 1, drawn, times) for times in rows])
    return _of_the_defined(found, level, bootstrap_method(clusters, resamples))


def _medians(ranked: Array, weights: Codes) -> Array:
    """The median of ascending values that occur `weights` times, for each row of weights."""
    upto = np.cumsum(weights, axis=1)
    total = upto[:, -1]
    lower, upper = ((upto <= place[:, None]).sum(axis=1) for place in ((total - 1) // 2, total // 2))
    return np.asarray((ranked[lower] + ranked[upper]) / 2, dtype=np.float64)


def _aurocs(ranked: Array, positive: NDArray[np.bool_], cluster: Codes, times: Codes) -> Array:
    """Pairs in the right order, ties by half, over all pairs, for each row of `times`; NaN where a class is missing.

    `ranked` ascends. For each positive, the weights of the negatives below it and of those not above it are two places
    of one running sum, and the mean of the two counts a tie for half.
    """
    others = ranked[~positive]
    negatives = np.cumsum(times[:, cluster[~positive]], axis=1)
    negatives = np.concatenate([np.zeros((len(times), 1), dtype=np.int64), negatives], axis=1)
    weights = times[:, cluster[positive]]
    below = negatives[:, np.searchsorted(others, ranked[positive], side="left")]
    not_above = negatives[:, np.searchsorted(others, ranked[positive], side="right")]
    doubled = np.einsum("ij,ij->i", weights, below + not_above)
    pairs = weights.sum(axis=1) * negatives[:, -1]
    return np.where(pairs > 0, doubled / 2 / np.maximum(pairs, 1), np.nan)


def _of_the_defined(found: Array, level: float, method: str) -> Interval | None:
    defined = found[~np.isnan(found)]
    missing = len(found) - len(defined)
    if missing > len(found) * (1 - level) / 2:
        return None
    return percentile_interval(defined, level, method + (f" ({missing} undefined left out)" if missing else ""))
