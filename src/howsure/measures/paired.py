"""Two runs over the same items: compared item by item, which sees far smaller differences."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from numpy.typing import ArrayLike

from howsure.measures.checks import binary_vector, check_level, finite_vector, refuse, same_length, unit_vector
from howsure.measures.intervals import (
    Interval,
    Spread,
    effective_trials,
    few_rare,
    mean_interval,
    spread_of,
    t_critical,
    z_critical,
)


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
    """Mean of b − a over the items, with its interval."""

    mean_difference: float
    interval: Interval | None
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


def paired_means(
    values_a: ArrayLike, values_b: ArrayLike, *, clusters: ArrayLike | None = None, level: float = 0.95
) -> PairedDifference | None:
    """Mean of b − a over the same items, with Student's t over items or clusters; None for no items.

    >>> difference = paired_means([0.0, 1.0, 0.0, 2.0, 1.0], [1.0, 1.0, 1.0, 4.0, 1.5])
    >>> difference.mean_difference, difference.interval.low < 0.9 < difference.interval.high
    (0.9, True)
    """
    a, b = finite_vector(values_a, "values_a"), finite_vector(values_b, "values_b")
    same_length(a, b, "values_a and values_b")
    if not len(a):
        return None
    return PairedDifference(float((b - a).mean()), mean_interval(b - a, clusters=clusters, level=level), len(a))


def paired_shares(
    happened_a: ArrayLike, happened_b: ArrayLike, *, clusters: ArrayLike | None = None, level: float = 0.95
) -> PairedDifference | None:
    """Difference of two shares of the same items, with Tango's score interval; None for no items.

    The interval has width where nothing differs as well. Items of one cluster count as fewer, as in `share_interval`.

    >>> difference = paired_shares([1, 1, 1, 0, 1, 1], [1, 1, 1, 0, 1, 1])
    >>> difference.mean_difference, round(difference.interval.high, 3)
    (0.0, 0.39)
    """
    check_level(level)
    a, b = binary_vector(happened_a, "happened_a"), binary_vector(happened_b, "happened_b")
    same_length(a, b, "happened_a and happened_b")
    if not len(a):
        return None
    value = float((b - a).mean())
    spread = spread_of((b - a - value) / len(a), clusters)
    only_a, only_b = float((a * (1 - b)).sum()), float(((1 - a) * b).sum())
    return PairedDifference(value, _score_interval(only_a, only_b, len(a), spread, level), len(a))


def paired_rates(
    rates_a: ArrayLike, rates_b: ArrayLike, trials: ArrayLike, *, level: float = 0.95
) -> PairedDifference | None:
    """Mean of b − a over the same units, of which each has a share of its trials, such as how often a task was solved.

    This is `paired_shares` of trials in clusters, each trial of a unit in a paired with each in b, every unit counting
    alike however many trials it has. `trials` says how many those are, the fewer of both. None for no units.

    >>> difference = paired_rates([0.5, 1.0, 0.0, 1.0, 0.0], [1.0, 1.0, 0.5, 1.0, 0.5], [2, 2, 2, 2, 2])
    >>> difference.mean_difference, difference.interval.low < 0.3 < difference.interval.high
    (0.3, True)
    """
    check_level(level)
    a, b, counts = unit_vector(rates_a, "rates_a"), unit_vector(rates_b, "rates_b"), finite_vector(trials, "trials")
    same_length(a, b, "rates_a and rates_b")
    same_length(a, counts, "rates_a and trials")
    refuse(counts, counts < 1, "trials", "1 or more")
    if not len(a):
        return None
    value, items = float((b - a).mean()), int(counts.sum())
    spread = spread_of((b - a - value) / len(a), None)
    if spread is not None:
        spread = replace(spread, clustered=items > len(a))
    only_a, only_b = (items * float(mean) for mean in ((a * (1 - b)).mean(), ((1 - a) * b).mean()))
    return PairedDifference(value, _score_interval(only_a, only_b, items, spread, level), len(a))


def _score_interval(only_a: float, only_b: float, items: int, spread: Spread | None, level: float) -> Interval | None:
    """Tango's, of so many items that one of the two has and the other has not."""
    if spread is None:
        return None
    trials, critical, method = float(items), z_critical(level), "Tango's score interval"
    if spread.clustered:
        alone = (only_a + only_b) / items - ((only_b - only_a) / items) ** 2
        trials = effective_trials(alone, spread, items, only_a + only_b)
        critical, method = t_critical(level, spread.t_degrees), f"{method} {spread.over}, as {trials:.4g} items"
    scale = trials / items
    low, high = _tango(only_a * scale, only_b * scale, trials, critical)
    rough = spread.few or few_rare((only_a + only_b) / items, trials)
    return Interval(low, high, level, method, rough)


def _tango(only_a: float, only_b: float, items: float, critical: float) -> tuple[float, float]:
    """All differences δ that the score test does not reject (Tango, Statistics in Medicine 17, 1998)."""
    from scipy.optimize import brentq

    def excess(delta: float) -> float:
        return float((only_b - only_a - items * delta) ** 2 - critical**2 * items * _null_variance(delta))

    def _null_variance(delta: float) -> float:
        """2 q + δ (1 − δ) with q the likeliest share of `only_a` under the difference δ."""
        linear = -only_b - only_a + (2 * items - only_b + only_a) * delta
        root = math.sqrt(max(0.0, linear**2 + 8 * items * only_a * delta * (1 - delta)))
        return max(0.0, (root - linear) / (2 * items) + delta * (1 - delta))

    value, tiny = (only_b - only_a) / items, 1e-9
    low, high = -1.0, 1.0
    if value > -1.0 + tiny and excess(-1.0 + tiny) > 0.0:
        low = float(brentq(excess, -1.0 + tiny, value - tiny))
    if value < 1.0 - tiny and excess(1.0 - tiny) > 0.0:
        high = float(brentq(excess, value + tiny, 1.0 - tiny))
    return low, high
