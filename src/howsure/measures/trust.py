"""Trust: which part of what is known about the action comes from grounding alone, without the instruction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howsure.errors import EvidenceError
from howsure.measures._checks import check_level, check_resamples, cluster_codes, refuse, vector
from howsure.measures._resampling import cluster_sums, mean_covariance, resampled_sums
from howsure.measures.fieller import FiellerSet, fieller_set, t_critical
from howsure.measures.intervals import Interval, bootstrap_method, percentile_interval

Array = NDArray[np.float64]
Entropies = ArrayLike | Sequence[float | None]

DENOMINATOR_FLOOR = 1e-10
"""Below this the denominator is zero, and T is not a number."""


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
    found = np.full(len(numerator), np.nan)
    np.divide(numerator, denominator, out=found, where=defined)
    return found


@dataclass(frozen=True)
class TrustEstimate:
    """T over many steps, with its doubt.

    `trust` is the ratio of the two mean differences; it and its `bootstrap` interval are None unless
    `identified`. `fieller` is there whenever the spread is known: where T is not identified, its shape
    shows how little can be said. `reason` tells why something is None.
    The differences are in the unit of the entropies given (nats inside howsure); their intervals are
    t-intervals, and `identified` means that the denominator's leaves out zero.
    """

    trust: float | None
    bootstrap: Interval | None
    fieller: FiellerSet | None
    identified: bool
    reason: str | None
    numerator: float | None
    numerator_interval: Interval | None
    denominator: float | None
    denominator_interval: Interval | None
    steps_used: int
    steps_missing: int
    clusters: int


def trust_over_steps(
    h_x: Entropies,
    h_xs: Entropies,
    h_xls: Entropies,
    episodes: ArrayLike | None = None,
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int,
) -> TrustEstimate:
    """T over the steps for which all three entropies are known; the others (None, NaN) are counted.

    The steps of an episode hang together, so with `episodes` (one label a step) whole episodes are drawn
    and spreads are those between episodes; without, each step stands alone.

    >>> t = trust_over_steps([2.0, 2.2, 1.9], [1.5, 1.6, 1.5], [0.5, 0.4, None], seed=0)
    >>> t.steps_used, t.steps_missing
    (2, 1)
    """
    check_level(level)
    check_resamples(resamples)
    gains = _gains(h_x, h_xs, h_xls)
    labels = cluster_codes(episodes, len(gains), "episodes")
    complete = ~np.isnan(gains).any(axis=1)
    gains = gains[complete]
    codes = cluster_codes(labels[complete], len(gains))
    clusters = int(codes.max(initial=-1)) + 1
    missing = int((~complete).sum())
    if clusters < 2:
        return _without_spread(gains, missing, clusters)
    return _with_spread(gains, codes, missing, level, resamples, seed, episodes)


def _gains(h_x: Entropies, h_xs: Entropies, h_xls: Entropies) -> Array:
    """[steps × 2]: H(X) − H(X|S) and H(X) − H(X|L,S); NaN where an entropy is missing."""
    columns = [vector(h, name) for h, name in zip((h_x, h_xs, h_xls), ("H(X)", "H(X|S)", "H(X|L,S)"), strict=True)]
    if len({len(column) for column in columns}) != 1:
        raise EvidenceError(f"the three entropies must be of one length, got {[len(c) for c in columns]}")
    for column, name in zip(columns, ("H(X)", "H(X|S)", "H(X|L,S)"), strict=True):
        refuse(column, np.isinf(column) | (column < -1e-9), name, "an entropy (finite and not negative)")
    none, given_s, given_ls = columns
    return np.column_stack([none - given_s, none - given_ls])


def _without_spread(gains: Array, missing: int, clusters: int) -> TrustEstimate:
    means = gains.mean(axis=0).tolist() if len(gains) else [None, None]
    reason = (
        "no step has all three entropies"
        if clusters == 0
        else "there is one episode (or step) only, so the denominator's spread is unknown"
    )
    return TrustEstimate(None, None, None, False, reason, means[0], None, means[1], None, len(gains), missing, clusters)


def _with_spread(
    gains: Array,
    codes: NDArray[np.int64],
    missing: int,
    level: float,
    resamples: int,
    seed: int,
    episodes: ArrayLike | None,
) -> TrustEstimate:
    numerator, denominator = gains.mean(axis=0).tolist()
    cov = mean_covariance(gains, codes)
    clusters = int(codes.max()) + 1
    fieller = fieller_set(
        numerator,
        denominator,
        var_numerator=float(cov[0, 0]),
        var_denominator=float(cov[1, 1]),
        covariance=float(cov[0, 1]),
        df=clusters - 1,
        level=level,
    )
    identified = fieller.g < 1.0 and abs(denominator) >= DENOMINATOR_FLOOR
    bootstrap: Interval | None = None
    reason: str | None = "the denominator is not clearly different from zero"
    if identified:
        bootstrap, reason = _bootstrap(gains, codes, level, bootstrap_method(episodes, resamples), resamples, seed)
    return TrustEstimate(
        trust=numerator / denominator if identified else None,
        bootstrap=bootstrap,
        fieller=fieller,
        identified=identified,
        reason=reason,
        numerator=numerator,
        numerator_interval=_t_interval(numerator, float(cov[0, 0]), clusters, level),
        denominator=denominator,
        denominator_interval=_t_interval(denominator, float(cov[1, 1]), clusters, level),
        steps_used=len(gains),
        steps_missing=missing,
        clusters=clusters,
    )


def _t_interval(mean: float, variance: float, clusters: int, level: float) -> Interval:
    half = t_critical(level, clusters - 1) * math.sqrt(variance)
    return Interval(mean - half, mean + half, level, f"t over {clusters} clusters")


def _bootstrap(
    gains: Array, codes: NDArray[np.int64], level: float, method: str, resamples: int, seed: int
) -> tuple[Interval | None, str | None]:
    """Percentiles of Σ numerators / Σ denominators; none where a resample's denominator is zero."""
    drawn = resampled_sums(cluster_sums(gains, codes), resamples, seed)
    zero = int((np.abs(drawn[:, 1]) < DENOMINATOR_FLOOR).sum())
    if zero:
        return None, f"no bootstrap interval: the denominator is zero in {zero} of {resamples} resamples"
    return percentile_interval(drawn[:, 0] / drawn[:, 1], level, method), None
