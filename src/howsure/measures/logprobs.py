"""What counts as a log-probability, decided once for every reader and every model."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howsure.errors import EvidenceError

Array = NDArray[np.float64]

ZERO_PROBABILITY_LOGPROB = -9999.0
"""OpenAI-compatible servers write this (or less) where the probability is zero."""

POSITIVE_TOLERANCE_NATS = 1e-6
"""A log-softmax in floating point may end this far above zero; anything beyond is no log-probability."""


def check_logprobs(values: ArrayLike, where: str = "log-probabilities") -> Array:
    """The values as float64, with −9999 turned into −inf and rounding above zero taken off.

    NaN and clearly positive values raise `EvidenceError` with their position.

    >>> check_logprobs([-0.5, -9999.0, 1e-9])
    array([-0.5, -inf,  0. ])
    """
    array = np.array(values, dtype=np.float64)
    bad = np.isnan(array) | (array > POSITIVE_TOLERANCE_NATS)
    if bad.any():
        place = int(np.flatnonzero(bad.ravel())[0])
        value = array.ravel()[place]
        what = "NaN" if np.isnan(value) else f"{value:g}"
        raise EvidenceError(
            f"{where}: {what} at token {place} is not a log-probability (it must lie between -inf and 0)"
        )
    array[array <= ZERO_PROBABILITY_LOGPROB] = -np.inf
    return np.minimum(array, 0.0)
