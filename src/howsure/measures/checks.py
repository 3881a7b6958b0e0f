"""What the measures accept, a log-probability above all, decided once for every reader and every model.

Each error names the value, the allowed range and the place.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howsure.errors import EvidenceError, InputError

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

ZERO_PROBABILITY_LOGPROB = -9999.0
"""OpenAI-compatible servers write this (or less) where the probability is zero."""

POSITIVE_TOLERANCE_NATS = 1e-6
"""A log-softmax in floating point may end this far above zero; anything beyond is no log-probability."""


def vector(values: ArrayLike | Sequence[float | None], what: str) -> Array:
    """The values as one-dimensional float64; None becomes NaN."""
    array: Array = np.array(values, dtype=np.float64)
    if array.ndim != 1:
        raise EvidenceError(f"{what} must be one-dimensional, got shape {array.shape}")
    return array


def refuse(array: Array, bad: NDArray[np.bool_], what: str, allowed: str) -> None:
    """Raise for the first value marked as bad."""
    if bad.any():
        place = int(np.flatnonzero(bad.ravel())[0])
        raise EvidenceError(f"{what}: {array.ravel()[place]:g} at position {place} is not {allowed}")


def finite_vector(values: ArrayLike, what: str) -> Array:
    array = vector(values, what)
    refuse(array, ~np.isfinite(array), what, "a finite number")
    return array


def ranked_vector(values: ArrayLike, what: str) -> Array:
    """Values of which only the order counts: infinities are welcome, NaN is not."""
    array = vector(values, what)
    refuse(array, np.isnan(array), what, "a number that can be ranked (leave missing items out)")
    return array


def unit_vector(values: ArrayLike, what: str) -> Array:
    array = vector(values, what)
    refuse(array, ~((array >= 0) & (array <= 1)), what, "between 0 and 1")
    return array


def binary_vector(values: ArrayLike, what: str) -> Array:
    array = vector(values, what)
    refuse(array, (array != 0) & (array != 1), what, "0 or 1")
    return array


def same_length(first: Array, second: Array, names: str) -> None:
    if len(first) != len(second):
        raise EvidenceError(f"{names} must be of one length, got {len(first)} and {len(second)}")


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


def check_level(level: float) -> float:
    if not 0.0 < level < 1.0:
        raise InputError(f"level {level!r} must lie strictly between 0 and 1 (0.95 for a 95% interval)")
    return float(level)


def check_starts(starts: ArrayLike, length: int, what: str) -> Codes:
    """Offsets of a ragged array: segment i owns values starts[i]:starts[i + 1]."""
    offsets = np.asarray(starts)
    whole = offsets.ndim == 1 and len(offsets) > 0 and np.issubdtype(offsets.dtype, np.integer)
    if not whole or offsets[0] != 0 or offsets[-1] != length or (np.diff(offsets) < 0).any():
        raise EvidenceError(f"{what}: starts must be integers from 0 to {length} that never decrease")
    return offsets.astype(np.int64)


def segment_reduce(ufunc: np.ufunc, values: Array, starts: NDArray[np.int64], empty: float) -> Array:
    """ufunc over values[starts[i]:starts[i + 1]] for each i; `empty` where the segment holds nothing.

    `reduceat` alone returns the next segment's first value for an empty one. Between the starts of two
    neighbouring non-empty segments lies nothing but the first of them, so it is run on those alone.
    """
    out = np.full(len(starts) - 1, empty)
    filled = np.diff(starts) > 0
    if filled.any():
        out[filled] = ufunc.reduceat(values, starts[:-1][filled])
    return out


def cluster_codes(clusters: ArrayLike | None, length: int, what: str = "clusters") -> Codes:
    """A whole number from 0 on for each item's cluster, in the order in which they come, so that no sum depends on what
    clusters are called; without clusters each item is its own.
    """
    if clusters is None:
        return np.arange(length, dtype=np.int64)
    labels = np.asarray(clusters)
    if labels.shape != (length,):
        raise InputError(f"{what} must hold one label for each of the {length} items, got shape {labels.shape}")
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise InputError(f"{what}: NaN at position {int(np.argmax(np.isnan(labels)))} is not a label")
    try:
        _, first, codes = np.unique(labels, return_index=True, return_inverse=True)
    except TypeError as error:
        raise InputError(f"{what} must hold labels of one kind (all numbers or all texts): {error}") from error
    places = np.empty(len(first), dtype=np.int64)
    places[np.argsort(first)] = np.arange(len(first))
    return places[codes]
