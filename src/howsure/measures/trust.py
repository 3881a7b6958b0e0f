"""Trust: which part of what is known about the action comes from grounding alone, without the instruction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from howsure.errors import EvidenceError
from howsure.measures.checks import Array, check_level, cluster_codes, refuse, vector
from howsure.measures.entropy import bits_to_nats
from howsure.measures.intervals import Interval, Spread, spread_of, student_interval, t_critical

Entropies = ArrayLike | Sequence[float | None]

DENOMINATOR_FLOOR = 1e-10
"""Below this the denominator is zero, and T of a step is not a number."""

LEAST_GAIN_BITS = 0.01
"""A mean gain smaller than this, one two-hundredth of the two bits of four directions, is too small to have shares."""

CLEARLY = 0.99
"""Level of the interval of the mean gain that must lie above zero: at 95 %, rare large losses, which few episodes show,
let more than 5 % of data without any gain pass."""

Shape = Literal["interval", "complement", "ray", "line", "empty"]
Why = Literal["no_steps", "few_units", "alike", "below_zero", "not_above_zero", "below_floor"]


def trust(h_x: float | None, h_x_given_s: float | None, h_x_given_ls: float | None) -> float | None:
    """T = (H(X) − H(X|S)) / (H(X) − H(X|L,S)) of one step, from entropies in one unit.

    None where an entropy is missing (None or NaN), NaN where the denominator is below 1e-10. T < 0 and
    T > 1 are legitimate: the entropies are ordered on average, not in each step.

    >>> round(trust(2.3456, 1.8765, 0.5432), 4)
    0.2603
    """
    gains = _gains([h_x], [h_x_given_s], [h_x_given_ls])
    if np.isnan(gains).any():
        return None
    numerator, denominator = gains[0].tolist()
    return float(numerator / denominator) if abs(denominator) >= DENOMINATOR_FLOOR else math.nan


def trust_of_each(h_x: Entropies, h_xs: Entropies, h_xls: Entropies) -> Array:
    """`trust` of each of many steps; NaN where an entropy is missing or the denominator is below 1e-10.

    >>> trust_of_each([2.0, 1.0, None], [1.5, 0.5, 1.0], [1.0, 1.0, 0.5])
    array([0.5, nan, nan])
    """
    numerator, denominator = _gains(h_x, h_xs, h_xls).T
    defined = np.abs(denominator) >= DENOMINATOR_FLOOR  # which NaN is not
    trusts = np.full(len(numerator), np.nan)
    np.divide(numerator, denominator, out=trusts, where=defined)
    return trusts


@dataclass(frozen=True)
class TrustEstimate:
    """T over many steps, with its doubt.

    `trust` is the ratio of the two mean differences, with Fieller's set as its interval; None unless `identified`: T is
    a share of what was gained, so the denominator must lie clearly above zero (`clear_interval`, of 99 %, does), and
    not below the floor, and T must vary: units that are all alike tell nothing of chance. `why` says which of these it
    was. `fieller` is there whenever the spread is known.
    The differences are in the unit of the entropies given (nats inside howsure); `units` are what is independent.
    """

    trust: float | None
    interval: Interval | None
    fieller: FiellerSet | None
    why: Why | None
    numerator: float | None
    numerator_interval: Interval | None
    denominator: float | None
    denominator_interval: Interval | None
    clear_interval: Interval | None
    steps_used: int
    steps_missing: int
    units: int

    @property
    def identified(self) -> bool:
        return self.why is None


def trust_over_steps(
    h_x: Entropies,
    h_xs: Entropies,
    h_xls: Entropies,
    episodes: ArrayLike | None = None,
    *,
    level: float = 0.95,
    floor: float = bits_to_nats(LEAST_GAIN_BITS),
) -> TrustEstimate:
    """T over the steps for which all three entropies are known; the others (None, NaN) are counted.

    The steps of an episode hang together, so with `episodes` (one label a step) spreads are those between episodes, and
    fewer than five of them identify nothing; without, each step stands alone. `floor` is in the unit of the entropies.

    >>> h_x, h_xs, h_xls = [2.0, 2.2, 1.9, 2.1, 2.0], [1.5, 1.6, 1.5, 1.6, 1.4], [0.5, 0.4, 0.6, 0.5, 0.6]
    >>> estimate = trust_over_steps(h_x, h_xs, h_xls)
    >>> round(estimate.trust, 4), round(estimate.interval.low, 3), round(estimate.interval.high, 3)
    (0.3421, 0.287, 0.402)
    """
    check_level(level)
    gains = _gains(h_x, h_xs, h_xls)
    labels = cluster_codes(episodes, len(gains), "episodes")
    complete = ~np.isnan(gains).any(axis=1)
    gains, labels = gains[complete], labels[complete]
    missing, units = int((~complete).sum()), len(np.unique(labels))
    if not len(gains):
        return TrustEstimate(None, None, None, "no_steps", None, None, None, None, None, 0, missing, 0)
    numerator, denominator = gains.mean(axis=0).tolist()
    above, below = (spread_of((column - column.mean()) / len(column), labels) for column in gains.T)
    if above is None or below is None:
        return TrustEstimate(
            None, None, None, "few_units", numerator, None, denominator, None, None, len(gains), missing, units
        )
    fieller = fieller_set(
        numerator,
        denominator,
        var_numerator=above.variance,
        var_denominator=below.variance,
        covariance=_covariance(above, below),
        df=below.t_degrees,
        level=level,
    )
    of_denominator = student_interval(denominator, below, level)
    clear = student_interval(denominator, below, CLEARLY)
    why = _why_not(denominator, of_denominator, clear, fieller, floor)
    return TrustEstimate(
        trust=numerator / denominator if why is None else None,
        interval=_as_interval(fieller, above, below) if why is None else None,
        fieller=fieller,
        why=why,
        numerator=numerator,
        numerator_interval=student_interval(numerator, above, level),
        denominator=denominator,
        denominator_interval=of_denominator,
        clear_interval=clear,
        steps_used=len(gains),
        steps_missing=missing,
        units=units,
    )


def trust_bounds(low: Sequence[float], high: Sequence[float]) -> tuple[float, float] | None:
    """The least and the largest T for entropies that are only known to lie between `low` and `high`.

    Each holds H(X), H(X|S) and H(X|L,S). T moves one way along each of them, so that its ends are at corners. None
    where the denominator may be zero or below: then nothing bounds T.

    >>> bounds = trust_bounds((2.0, 1.5, 0.5), (2.1, 1.6, 0.5))
    >>> round(bounds[0], 4), round(bounds[1], 4)
    (0.2667, 0.375)
    """
    if not low[0] - high[2] > 0.0:
        return None
    corners = [(a - b) / (a - c) for a, b, c in product(*zip(low, high, strict=True))]
    return min(corners), max(corners)


def _gains(h_x: Entropies, h_xs: Entropies, h_xls: Entropies) -> Array:
    """[steps × 2]: H(X) − H(X|S) and H(X) − H(X|L,S); NaN where an entropy is missing."""
    columns = [vector(h, name) for h, name in zip((h_x, h_xs, h_xls), ("H(X)", "H(X|S)", "H(X|L,S)"), strict=True)]
    if len({len(column) for column in columns}) != 1:
        raise EvidenceError(f"the three entropies must be of one length, got {[len(c) for c in columns]}")
    for column, name in zip(columns, ("H(X)", "H(X|S)", "H(X|L,S)"), strict=True):
        refuse(column, np.isinf(column) | (column < -1e-9), name, "an entropy (finite and not negative)")
    none, given_s, given_ls = columns
    return np.column_stack([none - given_s, none - given_ls])


def _covariance(first: Spread, second: Spread) -> float:
    return float(first.parts @ second.parts) * first.units / (first.units - 1)


def _why_not(
    value: float, interval: Interval | None, clear: Interval | None, fieller: FiellerSet, floor: float
) -> Why | None:
    """Why there is no T; a denominator that never varies is as clear as can be."""
    high, low = value if interval is None else interval.high, value if clear is None else clear.low
    if high < 0.0:
        return "below_zero"
    if value < floor:
        return "not_above_zero" if low <= 0.0 else "below_floor"
    if low <= 0.0 or fieller.g >= 1.0:
        return "not_above_zero"
    width = 0.0 if fieller.low is None or fieller.high is None else fieller.high - fieller.low
    return "alike" if width <= 1e-6 * max(1.0, abs(fieller.high or 0.0)) else None  # rounding, not spread


def _as_interval(fieller: FiellerSet, above: Spread, below: Spread) -> Interval | None:
    """Fieller's set, which is an interval where T is identified."""
    if fieller.low is None or fieller.high is None:
        return None
    rough = above.approximate or below.approximate
    return Interval(fieller.low, fieller.high, fieller.level, f"Fieller {below.over}", rough)


# -- Fieller's set -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FiellerSet:
    """All ratios that the data do not reject.

    shape       the set                                    when
    interval    [low, high]                                the denominator differs clearly from zero
    complement  everything but the open ]low, high[        it does not, and the numerator does
    ray         [low, inf[ or ]-inf, high]                 on the very edge between the two
    line        every number                               neither does
    empty       no number at all                           the denominator is zero without any spread

    `low` and `high` are None for line and empty. `g` is t² Var(denominator) / denominator²; below 1, and
    only there, the denominator's own t-interval leaves out zero.
    """

    shape: Shape
    low: float | None
    high: float | None
    level: float
    g: float

    def contains(self, ratio: float) -> bool:
        """Whether the data are compatible with this ratio."""
        if self.low is None or self.high is None:
            return self.shape == "line"
        inside = self.low <= ratio <= self.high
        return inside if self.shape != "complement" else not self.low < ratio < self.high


def fieller_set(
    numerator: float,
    denominator: float,
    *,
    var_numerator: float,
    var_denominator: float,
    covariance: float,
    df: float,
    level: float = 0.95,
) -> FiellerSet:
    """Fieller's set for numerator / denominator, two means with known (co)variances of the means.

    It inverts the t-test of "numerator − ρ · denominator = 0": every ρ with
    (n − ρ d)² ≤ t² (v_n − 2 ρ c + ρ² v_d) (Fieller 1954).

    >>> fieller = fieller_set(1.0, 2.0, var_numerator=0.01, var_denominator=0.01, covariance=0.0, df=30)
    >>> fieller.shape, round(fieller.low, 3), round(fieller.high, 3)
    ('interval', 0.39, 0.62)
    """
    t2 = t_critical(level, df) ** 2
    square = denominator**2  # which may be zero where the denominator is not
    a = square - t2 * var_denominator
    b = numerator * denominator - t2 * covariance
    c = numerator**2 - t2 * var_numerator
    g = t2 * var_denominator / square if square else math.inf
    shape, low, high = _solve(a, b, c)
    return FiellerSet(shape, low, high, level, g)


def _solve(a: float, b: float, c: float) -> tuple[Shape, float | None, float | None]:
    """The ρ with a ρ² − 2 b ρ + c ≤ 0."""
    if a == 0.0:
        return _edge(b, c)
    discriminant = b * b - a * c
    if discriminant <= 0.0 and a < 0.0:
        return "line", None, None
    root = math.sqrt(max(0.0, discriminant))  # with a > 0 the estimate itself is inside: never below 0
    far = b + math.copysign(root, b)  # no cancellation; the other root follows from their product c / a
    ends = (far / a, c / far) if far else (0.0, 0.0)
    return ("interval" if a > 0.0 else "complement"), min(ends), max(ends)


def _edge(b: float, c: float) -> tuple[Shape, float | None, float | None]:
    if b == 0.0:
        return ("line" if c <= 0.0 else "empty"), None, None
    end = c / (2 * b)
    return ("ray", end, math.inf) if b > 0.0 else ("ray", -math.inf, end)
