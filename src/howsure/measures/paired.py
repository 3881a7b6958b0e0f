"""Two runs over the same items: compared item by item, which sees far smaller differences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howsure.measures._checks import binary_vector, finite_vector, same_length
from howsure.measures.intervals import Interval, bootstrap_method, percentile_interval, resampled_means

Array = NDArray[np.float64]


@dataclass(frozen=True)
class McNemar:
    """The four cells of two runs' right and wrong answers, and the exact two-sided p-value."""

    both_correct: int
    only_a_correct: int
    only_b_correct: int
    both_wrong: int
    p_value: float


@dataclass(frozen=True)
class PairedDifference:
    """Mean of b − a over the items; `share_above_zero` counts resamples above zero, those at zero by half."""

    mean_difference: float
    interval: Interval | None
    share_above_zero: float | None
    items: int


def mcnemar_exact(correct_a: ArrayLike, correct_b: ArrayLike) -> McNemar:
    """McNemar's exact test: were the items on which the two runs differ split like fair coin tosses?

    Without such items the p-value is 1.

    >>> mcnemar_exact([1, 1, 0, 0], [1, 1, 1, 1]).p_value
    0.5
    """
    a, b = binary_vector(correct_a, "correct_a"), binary_vector(correct_b, "correct_b")
    same_length(a, b, "correct_a and correct_b")
    both, only_a = int((a * b).sum()), int((a * (1 - b)).sum())
    only_b = int(((1 - a) * b).sum())
    return McNemar(both, only_a, only_b, len(a) - both - only_a - only_b, _two_sided(only_a, only_b))


def _two_sided(first: int, second: int) -> float:
    """2 · P(X ≤ min) under Binomial(first + second, 1/2), at most 1: both tails are alike."""
    from scipy.special import bdtr

    if first == second:
        return 1.0
    return min(1.0, 2.0 * float(bdtr(min(first, second), first + second, 0.5)))


def paired_bootstrap(
    values_a: ArrayLike,
    values_b: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int,
) -> PairedDifference | None:
    """Mean of b − a over the same items, with a percentile bootstrap over items or whole clusters.

    None for no items; interval and share are None for fewer than two items or clusters.

    >>> paired_bootstrap([0.0, 1.0, 0.0], [1.0, 1.0, 1.0], seed=0).mean_difference
    0.6666666666666666
    """
    a, b = finite_vector(values_a, "values_a"), finite_vector(values_b, "values_b")
    same_length(a, b, "values_a and values_b")
    means = resampled_means(b - a, clusters, level, resamples, seed)
    if len(a) == 0:
        return None
    mean = float((b - a).mean())
    if means is None:
        return PairedDifference(mean, None, None, len(a))
    share = float(np.mean((means > 0) + 0.5 * (means == 0)))
    interval = percentile_interval(means, level, bootstrap_method(clusters, resamples))
    return PairedDifference(mean, interval, share, len(a))
