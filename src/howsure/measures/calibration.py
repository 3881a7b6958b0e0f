"""Calibration: of the answers given with confidence c, is a share c right?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howsure.errors import InputError, MissingExtra
from howsure.isolated import load_matplotlib
from howsure.measures.checks import Array, binary_vector, check_level, cluster_codes, same_length, unit_vector
from howsure.measures.intervals import LEAST_UNITS, Interval, correlation_of, mean_interval, mover, share_interval

Scheme = Literal["width", "mass"]

MOST_FLOOR_DRAWS = 5_000_000
"""Answers drawn for a calibration floor at the most: 50,000 answers and more get 100 draws, which are enough there."""

DRAWN_AT_ONCE = 100_000
"""Answers drawn in one step for a calibration floor; a megabyte."""


@dataclass(frozen=True, eq=False)
class ReliabilityBins:
    """The bins that hold an answer; an empty bin has no accuracy and is left out. `index` counts from 0."""

    index: NDArray[np.int64]
    mean_confidence: Array
    accuracy: Array
    count: NDArray[np.int64]


def reliability_bins(
    confidence: ArrayLike, correct: ArrayLike, bins: int = 15, scheme: Scheme = "width"
) -> ReliabilityBins | None:
    """Mean confidence, accuracy and count in each bin of confidence; None for no answers.

    "width": bin b holds confidences in ]b / bins, (b + 1) / bins], the first one 0 as well.
    "mass": about n / bins answers in each. Equal confidences always share a bin: a block of equal
    confidences goes where the middle of its ranks falls, whatever the order of the input.

    >>> reliability_bins([0.2, 0.9, 0.8], [0, 1, 0], bins=2).accuracy
    array([0. , 0.5])
    """
    confidence, correct = _checked(confidence, correct)
    if bins < 1:
        raise InputError(f"bins {bins!r} must be at least 1")
    if scheme not in ("width", "mass"):
        raise InputError(f"scheme {scheme!r} must be 'width' or 'mass'")
    if len(confidence) == 0:
        return None
    index = _width_bins(confidence, bins) if scheme == "width" else _mass_bins(confidence, bins)
    count = np.bincount(index, minlength=bins)
    used = np.flatnonzero(count)
    return ReliabilityBins(
        used.astype(np.int64),
        np.bincount(index, weights=confidence, minlength=bins)[used] / count[used],
        np.bincount(index, weights=correct, minlength=bins)[used] / count[used],
        count[used].astype(np.int64),
    )


def expected_calibration_error(
    confidence: ArrayLike, correct: ArrayLike, bins: int = 15, scheme: Scheme = "width"
) -> float | None:
    """ECE = Σ_b n_b / n · |accuracy_b − mean confidence_b| over `reliability_bins`; None for no answers.

    >>> round(expected_calibration_error([0.9, 0.8], [1, 1], bins=10), 4)
    0.15
    """
    table = reliability_bins(confidence, correct, bins, scheme)
    if table is None:
        return None
    return float(np.sum(table.count * np.abs(table.accuracy - table.mean_confidence)) / table.count.sum())


@dataclass(frozen=True)
class CalibrationFloor:
    """The ECE that answers with these confidences would show if every confidence were exactly right.

    `mean` is what to expect, and 95 of 100 such runs lie at or below `high`: an ECE below it is no evidence of a fault.
    """

    mean: float
    high: float


def calibration_floor(
    confidence: ArrayLike,
    correct: ArrayLike | None = None,
    bins: int = 15,
    scheme: Scheme = "width",
    *,
    clusters: ArrayLike | None = None,
    draws: int = 1000,
    seed: int,
) -> CalibrationFloor | None:
    """ECE of perfectly calibrated answers: drawn right with their own confidence, `draws` times.

    An ECE is a mean of distances, so chance alone puts it above zero, the more so the fewer answers there are
    (consistency resampling: Bröcker and Smith, Weather and Forecasting 22, 2007). Answers of one cluster share their
    luck as often as `correct` shows (`shared_luck`). None for fewer than five answers or clusters.

    >>> floor = calibration_floor([0.9] * 20, seed=0)
    >>> 0.03 < floor.mean < floor.high < 0.2
    True
    """
    sure = unit_vector(confidence, "confidence")
    codes = cluster_codes(clusters, len(sure))
    units = int(codes.max(initial=-1)) + 1
    table = reliability_bins(sure, np.zeros(len(sure)), bins, scheme)
    if table is None or units < LEAST_UNITS:
        return None
    shared = 0.0 if units == len(sure) or correct is None else shared_luck(sure, correct, clusters=codes)
    index = _width_bins(sure, bins) if scheme == "width" else _mass_bins(sure, bins)
    order = np.argsort(index, kind="stable")
    sure, codes = sure[order], codes[order]
    starts = np.cumsum(table.count) - table.count
    expected = np.add.reduceat(sure, starts)
    rng = np.random.default_rng(seed)
    draws = max(100, min(draws, MOST_FLOOR_DRAWS // len(sure)))
    at_once = max(1, DRAWN_AT_ONCE // len(sure))
    gaps = []
    for begun in range(0, draws, at_once):
        rows = min(at_once, draws - begun)
        luck = rng.random((rows, len(sure)))
        if shared:
            together = (rng.random((rows, units)) < shared)[:, codes]
            luck = np.where(together, rng.random((rows, units))[:, codes], luck)
        right = luck < sure
        gaps.append(np.abs(np.add.reduceat(right, starts, axis=1, dtype=np.float64) - expected))
    errors = np.concatenate(gaps).sum(axis=1) / len(sure)
    return CalibrationFloor(float(errors.mean()), float(np.quantile(errors, 0.95)))


def shared_luck(confidence: ArrayLike, correct: ArrayLike, *, clusters: ArrayLike) -> float:
    """How much answers of one cluster are right and wrong together: 0 as if they were independent, 1 as if one draw
    of luck decided all of them.

    The covariance of correct − confidence within clusters, as a share of the largest that is possible: two answers of
    confidences a ≤ b that share their luck have the covariance a − a b.

    >>> shared_luck([0.5] * 6, [1, 1, 0, 0, 1, 1], clusters=[0, 0, 1, 1, 2, 2])
    1.0
    """
    sure, right = _checked(confidence, correct)
    codes = cluster_codes(clusters, len(sure))
    sums, own = np.bincount(codes, weights=right - sure), float(np.sum((right - sure) ** 2))
    order = np.lexsort((sure, codes))
    size = np.bincount(codes)
    after = np.repeat(np.cumsum(size), size) - 1 - np.arange(len(sure))  # surer ones, or as sure, in its cluster
    most = 2 * float(sure[order] @ after) - (float(np.sum(np.bincount(codes, weights=sure) ** 2)) - float(sure @ sure))
    return float(np.clip((float(sums @ sums) - own) / most, 0.0, 1.0)) if most > 1e-12 else 0.0


def overconfidence_interval(
    confidence: ArrayLike, correct: ArrayLike, *, clusters: ArrayLike | None = None, level: float = 0.95
) -> Interval | None:
    """Interval of mean confidence − share right, from the intervals of the two (MOVER).

    Few errors say little about the share right, and a mean of differences would not show it: so each keeps an interval
    of its own, and the two are put together with their correlation (Zou and Donner, Statistics in Medicine 27, 2008).
    None for fewer than five items or clusters.

    >>> interval = overconfidence_interval([0.99] * 10, [1] * 10)
    >>> round(interval.low, 3), round(interval.high, 3)
    (-0.01, 0.311)
    """
    check_level(level)
    sure, right = _checked(confidence, correct)
    share = share_interval(right, clusters=clusters, level=level)
    if share is None:
        return None
    mean, accuracy, codes = float(sure.mean()), float(right.mean()), cluster_codes(clusters, len(sure))
    of_mean = mean_interval(sure, clusters=clusters, level=level)
    within = Interval(mean, mean, level, "")
    if of_mean is not None:
        within = replace(of_mean, low=max(0.0, of_mean.low), high=min(1.0, of_mean.high))
    together = correlation_of(right - accuracy, sure - mean, codes)
    low, high = mover(accuracy, share, mean, within, together)
    rough = share.approximate or within.approximate
    return Interval(low, high, level, f"MOVER of Student's t and {share.method}", rough)


def smooth_ece(confidence: ArrayLike, correct: ArrayLike) -> float | None:
    """Smooth ECE (Błasiok and Nakkiran), without bins to choose: relplot's smECE; None for no answers."""
    confidence, correct = _checked(confidence, correct)
    if len(confidence) == 0:
        return None
    try:
        load_matplotlib()
        from relplot import smECE  # imports matplotlib: two seconds, paid only here
    except ImportError as error:
        raise MissingExtra("smooth ECE", "stats", "relplot") from error
    return float(smECE(confidence, correct))


def brier_score(confidence: ArrayLike, correct: ArrayLike) -> float | None:
    """Mean of (confidence − correct)² (scikit-learn); None for no answers.

    >>> brier_score([1.0, 0.5], [1, 0])
    0.125
    """
    confidence, correct = _checked(confidence, correct)
    if len(confidence) == 0:
        return None
    from sklearn.metrics import brier_score_loss

    return float(brier_score_loss(correct.astype(int), confidence, pos_label=1))


def log_loss(confidence: ArrayLike, correct: ArrayLike) -> float | None:
    """Mean of −ln(probability given to what happened), in nats (scikit-learn); None for no answers.

    scikit-learn keeps probabilities 2.2e-16 away from 0 and 1, so that one wrong answer given with
    confidence 1 costs 36.04 nats instead of infinity.

    >>> round(log_loss([0.5, 0.5], [1, 1]), 6)
    0.693147
    """
    confidence, correct = _checked(confidence, correct)
    if len(confidence) == 0:
        return None
    from sklearn.metrics import log_loss as sklearn_log_loss

    return float(sklearn_log_loss(correct.astype(int), confidence, labels=[0, 1]))


def _checked(confidence: ArrayLike, correct: ArrayLike) -> tuple[Array, Array]:
    first, second = unit_vector(confidence, "confidence"), binary_vector(correct, "correct")
    same_length(first, second, "confidence and correct")
    return first, second


def _width_bins(confidence: Array, bins: int) -> NDArray[np.intp]:
    """Looked up in the edges b / bins: 0.07 · 100 rounds to more than 7, while 0.07 = 7 / 100 holds."""
    return np.searchsorted(np.arange(1, bins) / bins, confidence, side="left")


def _mass_bins(confidence: Array, bins: int) -> NDArray[np.intp]:
    """⌊bins · (answers below + half the block of equals) / n⌋, in whole numbers."""
    _, block, size = np.unique(confidence, return_inverse=True, return_counts=True)
    below = np.cumsum(size) - size
    return ((2 * below + size) * bins // (2 * len(confidence)))[block]
