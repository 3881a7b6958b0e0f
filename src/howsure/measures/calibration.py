"""Calibration: of the answers given with confidence c, is a share c right?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howsure.errors import InputError, MissingExtra
from howsure.measures._checks import binary_vector, same_length, unit_vector

Array = NDArray[np.float64]
Scheme = Literal["width", "mass"]


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
    found = reliability_bins(confidence, correct, bins, scheme)
    if found is None:
        return None
    return float(np.sum(found.count * np.abs(found.accuracy - found.mean_confidence)) / found.count.sum())


def smooth_ece(confidence: ArrayLike, correct: ArrayLike) -> float | None:
    """Smooth ECE (Błasiok and Nakkiran), without bins to choose: relplot's smECE; None for no answers."""
    confidence, correct = _checked(confidence, correct)
    if len(confidence) == 0:
        return None
    try:
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
