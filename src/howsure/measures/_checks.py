"""What the measures accept, decided once; each error names the value, the allowed range and the place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howsure.errors import EvidenceError, InputError

Array = NDArray[np.float64]
Codes = NDArray[np.int64]


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
