"""Fieller's confidence set for a ratio of two means, honest where the denominator may be zero."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from howsure.measures.intervals import t_critical

Shape = Literal["interval", "complement", "ray", "line", "empty"]


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
