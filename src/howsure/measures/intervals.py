"""Confidence intervals: one policy for every figure, without a random number.

A figure is written as a sum of contributions of independent units (its influence function), contributions are added up
within each unit, and their spread gives the standard error. Student's t then covers; where a figure is a share, a score
interval takes its place, so that "all right" still has an interval with width. docs/intervals.md says which figure gets
which interval and how often it covered in simulations.

Fewer than `LEAST_UNITS` independent units give no interval. Between that and `ENOUGH_UNITS`, where the units are very
skewed, and where a share rests on fewer than `ENOUGH_RARE` of its rarer outcome, the interval is marked as approximate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howsure.errors import InputError
from howsure.measures.checks import (
    Array,
    Codes,
    binary_vector,
    check_level,
    cluster_codes,
    finite_vector,
    refuse,
    same_length,
)

LEAST_UNITS = 5
"""Fewer independent units than this have no interval: from them its coverage cannot be promised for any method."""

ENOUGH_UNITS = 10
"""From this many units on, intervals cover 93 % to 97 % in the simulations of docs/intervals.md."""

ENOUGH_RARE = 5
"""From this many of the rarer outcome on (errors of a good model, say), shares take enough values to cover their level
closely. With fewer, no interval of a share can: these then cover more rather than less."""

MOST_SKEW = 0.3
"""Skewness of the units over √units, above which the correction for skewness no longer holds what it promises."""


MOST_STRETCH = 2.5
"""How many times as far as Student's t the correction for skewness may put an end: beyond, it hardly covers more."""


@dataclass(frozen=True)
class Interval:
    """A confidence interval: its two ends, its level, how it was computed, and whether that holds only roughly."""

    low: float
    high: float
    level: float
    method: str
    approximate: bool = False

    def scaled(self, factor: float) -> Interval:
        """The interval of the same figure in another unit; a negative factor turns it round."""
        low, high = sorted((self.low * factor, self.high * factor))
        return replace(self, low=low, high=high)


def too_few(units: int, noun: str = "independent units") -> str | None:
    """Why so many units have no interval, as a sentence; None where they have one.

    >>> too_few(3, "episodes")
    'no interval: 3 episodes, and it takes at least 5'
    """
    if units >= LEAST_UNITS:
        return None
    shown = noun.removesuffix("s") if units == 1 else noun
    return f"no interval: {units} {shown}, and it takes at least {LEAST_UNITS}"


# -- the kernel ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Spread:
    """What each independent unit contributes to the error of an estimate: estimate − truth ≈ Σ parts.

    `effective` is the number of units, less where a few of them hold most of the items (Kish's Σn)² / Σn²): degrees of
    freedom follow from it.
    """

    parts: Array
    effective: float
    clustered: bool

    @property
    def units(self) -> int:
        return len(self.parts)

    @property
    def variance(self) -> float:
        return float(np.sum(self.parts**2) * self.units / (self.units - 1))

    @property
    def skew(self) -> float:
        second = float(np.mean(self.parts**2))
        return float(np.mean(self.parts**3)) / second**1.5 if second > 0.0 else 0.0

    @property
    def t_degrees(self) -> float:
        return max(1.0, self.effective - 1.0)

    @property
    def approximate(self) -> bool:
        return self.few or abs(self.skew) > MOST_SKEW * math.sqrt(self.units)

    @property
    def few(self) -> bool:
        return self.effective < ENOUGH_UNITS - 1e-9

    @property
    def over(self) -> str:
        return f"over {self.units:,} {'clusters' if self.clustered else 'items'}"


def spread_of(influence: Array, clusters: ArrayLike | None, weights: Array | None = None) -> Spread | None:
    """The influence of each item on an estimate, added up within units; None for fewer than `LEAST_UNITS` units.

    `weights` are what an item counts in the denominator (1 for a mean).
    """
    codes = cluster_codes(clusters, len(influence))
    units = int(codes.max(initial=-1)) + 1
    if units < LEAST_UNITS:
        return None
    parts, effective = enlarged(influence, codes, np.bincount(codes, weights=weights, minlength=units))
    return Spread(parts, effective, units < len(influence))


def enlarged(influence: Array, codes: Codes, size: NDArray[Any]) -> tuple[Array, float]:
    """The influence of each unit, and Kish's count of them, (Σ size)² / Σ size².

    A unit that holds much of the whole pulls the estimate towards itself, so that its residual looks too small: it is
    divided by 1 − its share, which for units of one size changes nothing and otherwise is the jackknife.
    """
    sums, share = np.bincount(codes, weights=influence, minlength=len(size)), size / size.sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        pull = np.where(share < 1.0, (1.0 - 1.0 / np.count_nonzero(size)) / (1.0 - share), 0.0)
    return np.asarray(sums * pull, dtype=np.float64), float(1.0 / np.sum(share**2))


def t_critical(level: float, df: float) -> float:
    """The two-sided critical value of Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(df, 0.5 + check_level(level) / 2))


def z_critical(level: float) -> float:
    """The two-sided critical value of the normal distribution."""
    from scipy.special import ndtri

    return float(ndtri(0.5 + check_level(level) / 2))


def student_interval(value: float, spread: Spread, level: float) -> Interval | None:
    """Student's t, widened on the side where skewed units make it too narrow; None where the units are all alike.

    The skewness is taken off by Hall's cubic transformation (Hall, On the removal of skewness by transformation, JRSS B
    54, 1992), turned round at t's critical values. Each end is the farther one of both.
    """
    deviation = math.sqrt(spread.variance)
    if deviation <= 1e-12 * abs(value):  # rounding, not spread
        return None
    below = above = t_critical(level, spread.t_degrees)
    skew, root = spread.skew, math.sqrt(spread.units)
    if abs(skew) > 1e-9:
        farthest = MOST_STRETCH * t_critical(level, spread.units - 1)
        t = below
        below = max(t, min(_without_skew(t, skew, root), farthest))
        above = max(t, min(-_without_skew(-t, skew, root), farthest))
    method = f"Student's t {spread.over}, corrected for skewness"
    return Interval(value - below * deviation, value + above * deviation, level, method, spread.approximate)


def _without_skew(t: float, skew: float, root: float) -> float:
    """The studentised value T with T + (γ/3) T²/√n + (γ²/27) T³/n + γ/(6 √n) = t."""
    slope = skew / (3 * root)
    return float(np.cbrt(1 + 3 * slope * (t - skew / (6 * root))) - 1) / slope


def score_interval(value: float, trials: float, critical: float) -> tuple[float, float]:
    """Agresti and Coull's interval of a share: its score interval's centre, and a deviation from that centre.

    It holds Wilson's score interval, and unlike that one does not fall far below its level near 0 and 1 (Brown, Cai and
    DasGupta, Interval estimation for a binomial proportion, Statistical Science 16, 2001). `trials` need not be whole.
    """
    total = trials + critical**2
    centre = (trials * value + critical**2 / 2) / total
    half = critical * math.sqrt(centre * (1 - centre) / total)
    return max(0.0, centre - half), min(1.0, centre + half)


def few_rare(value: float, trials: float) -> bool:
    """Whether so many trials hold too few of the rarer outcome for a share to cover its level closely.

    >>> few_rare(0.95, 48), few_rare(0.625, 48)
    (True, False)
    """
    return min(value, 1.0 - value) * trials < ENOUGH_RARE - 1e-9


def effective_trials(alone: float, spread: Spread, most: float, rare: float) -> float:
    """As how many independent trials the items count: as many as would have the variance seen, `most` at the most.

    `alone` is the variance of a single trial, `rare` how many items had the rarer outcome. Where there were none,
    nothing tells how the items hang together, and each unit is one trial; with `ENOUGH_RARE` of them the variance does.
    """
    if alone <= 0.0:
        return float(spread.units)
    seen = min(float(most), alone / max(spread.variance, 1e-18))  # below that it is rounding, not spread
    known = min(1.0, rare / ENOUGH_RARE)
    return min(seen, spread.units + known * max(0.0, seen - spread.units))


def mover(
    first: float, of_first: Interval, second: float, of_second: Interval, correlation: float
) -> tuple[float, float]:
    """The ends of an interval of second − first, from the intervals of both and the correlation of the two estimates.

    Each keeps the width that it has on either side (MOVER: Zou and Donner, Statistics in Medicine 27, 2008).

    >>> low, high = mover(0.5, Interval(0.4, 0.6, 0.95, ""), 0.5, Interval(0.4, 0.6, 0.95, ""), 0.0)
    >>> round(low, 4), round(high, 4)
    (-0.1414, 0.1414)
    """

    def together(one: float, other: float) -> float:
        return math.sqrt(max(0.0, one**2 + other**2 - 2.0 * correlation * one * other))

    low = second - first - together(second - of_second.low, of_first.high - first)
    return low, second - first + together(of_second.high - second, first - of_first.low)


def correlation_of(first: Array, second: Array, codes: Codes, others: Codes | None = None) -> float:
    """Of what items contribute to the errors of two estimates, added up within units; 0 where one does not vary.

    `codes` are the units of the items, `others` those of the second estimate's where it is over other items.
    """
    others = codes if others is None else others
    units = 1 + max(int(codes.max(initial=-1)), int(others.max(initial=-1)))
    sums, other = (np.bincount(of, weights, units) for of, weights in ((codes, first), (others, second)))
    scale = math.sqrt(float(sums @ sums) * float(other @ other))
    return float(sums @ other) / scale if scale > 0.0 else 0.0


# -- means and shares ------------------------------------------------------------------------------------------------


def mean_interval(
    values: ArrayLike, *, clusters: ArrayLike | None = None, level: float = 0.95, least: float = -math.inf
) -> Interval | None:
    """Student's t interval of the mean over items, corrected for skewness; items of one cluster hang together.

    None for fewer than five items or clusters, and where all are alike: nothing is known of their spread then. `least`
    is what the mean cannot be below, such as 0 for a distance.

    >>> interval = mean_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    >>> round(interval.low, 3), round(interval.high, 3)
    (1.037, 4.963)
    """
    array = finite_vector(values, "values")
    return ratio_interval(array, np.ones(len(array)), clusters=clusters, level=level, least=least)


def ratio_interval(
    numerators: ArrayLike,
    denominators: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    level: float = 0.95,
    least: float = -math.inf,
) -> Interval | None:
    """The same for Σ numerators / Σ denominators, such as bits per byte over documents.

    The ratio is linearised (Cochran, Sampling Techniques, 3rd ed., section 6.3): item i contributes
    (a_i − R b_i) / Σ b. None as well where the denominators sum to nothing.

    >>> interval = ratio_interval([1.0, 4.0, 2.0, 3.0, 2.0], [1.0, 2.0, 1.0, 2.0, 1.0])
    >>> interval.low < 12 / 7 < interval.high
    True
    """
    check_level(level)
    above, below = finite_vector(numerators, "numerators"), finite_vector(denominators, "denominators")
    same_length(above, below, "numerators and denominators")
    refuse(below, below < 0, "denominators", "0 or more")
    total = float(below.sum())
    if not total:
        return None
    value = float(above.sum()) / total
    spread = spread_of((above - value * below) / total, clusters, below)
    interval = None if spread is None else student_interval(value, spread, level)
    if interval is None:
        return None
    return replace(interval, low=max(least, interval.low), high=max(least, interval.high))


def share_interval(happened: ArrayLike, *, clusters: ArrayLike | None = None, level: float = 0.95) -> Interval | None:
    """Agresti and Coull's interval of how often something happened (0 or 1 for each item).

    Where items hang together in clusters, they count as fewer: as many independent ones as would have the variance seen
    between clusters (Korn and Graubard, Survey Methodology 24, 1998), with t in place of the normal quantile. None for
    fewer than five items or clusters.

    >>> interval = share_interval([1, 1, 1, 1, 1, 1, 1, 1, 0, 0])
    >>> round(interval.low, 4), round(interval.high, 4)
    (0.4794, 0.9541)
    """
    check_level(level)
    array = binary_vector(happened, "happened")
    if not len(array):
        return None
    value = float(array.mean())
    spread = spread_of((array - value) / len(array), clusters)
    if spread is None:
        return None
    trials, critical, method = float(len(array)), z_critical(level), "Agresti–Coull"
    if spread.clustered:
        rare = min(value, 1.0 - value) * len(array)
        trials = effective_trials(value * (1.0 - value), spread, len(array), rare)
        critical = t_critical(level, spread.t_degrees)
        method = f"{method} {spread.over}, as {trials:.4g} independent items"
    low, high = score_interval(value, trials, critical)
    rough = spread.approximate if spread.clustered else spread.few
    return Interval(low, high, level, method, rough or few_rare(value, trials))


def count_interval(count: int, of: int, level: float = 0.95) -> Interval | None:
    """`share_interval` of independent items, from how many there are and how often it happened.

    >>> count_interval(10, 10).high
    1.0
    """
    if of < 0 or not 0 <= count <= of:
        raise InputError(f"count {count} must lie between 0 and {of}")
    return share_interval(np.arange(of) < count, level=level)


# -- medians ---------------------------------------------------------------------------------------------------------


def median_interval(values: ArrayLike, *, clusters: ArrayLike | None = None, level: float = 0.95) -> Interval | None:
    """Interval of the median from the order of the values alone, whatever their distribution.

    Independent items: two order statistics whose coverage is known exactly, interpolated to the level (Hettmansperger
    and Sheather, Statistics & Probability Letters 4, 1986). Clusters: the share of items below the median has an
    interval, whose ends are looked up among the values (Woodruff, JASA 47, 1952). None for fewer than five items or
    clusters, and where so many values are alike that it would have no width.

    >>> interval = median_interval([1.0, 2.0, 3.0, 4.0, 50.0, 60.0])
    >>> round(interval.low, 3), round(interval.high, 3)
    (1.357, 56.429)
    """
    check_level(level)
    array = finite_vector(values, "values")
    if len(array) < LEAST_UNITS or np.ptp(array) == 0.0:
        return None
    middle = float(np.median(array))
    below = (array < middle) + 0.5 * (array == middle)
    spread = spread_of((below - below.mean()) / len(array), clusters)
    if spread is None:
        return None
    ordered = np.sort(array)
    if not spread.clustered:
        low, high = _between_order_statistics(ordered, level)
        return Interval(low, high, level, "order statistics", spread.few) if low < high else None
    trials = min(float(len(array)), 0.25 / spread.variance if spread.variance > 0.0 else float(spread.units))
    ends = score_interval(0.5, trials, t_critical(level, spread.t_degrees))
    low, high = np.quantile(ordered, ends, method="hazen").tolist()
    return Interval(low, high, level, f"quantiles of Woodruff {spread.over}", spread.few) if low < high else None


def _between_order_statistics(ordered: Array, level: float) -> tuple[float, float]:
    """The d-th values from both ends, which cover at least the level, moved inwards to cover just that."""
    from scipy.stats import binom

    n = len(ordered)
    covered = 1.0 - 2.0 * binom.cdf(np.arange(n // 2), n, 0.5)  # by the d-th values, at d − 1
    d = max(1, int(np.count_nonzero(covered >= level)))
    weight = 0.0
    if 0 < d < len(covered) and covered[0] >= level:
        part = float((covered[d - 1] - level) / (covered[d - 1] - covered[d]))
        weight = (n - d) * part / (d + (n - 2 * d) * part)
    low = (1 - weight) * ordered[d - 1] + weight * ordered[d]
    high = (1 - weight) * ordered[n - d] + weight * ordered[n - d - 1]
    return float(low), float(high)
