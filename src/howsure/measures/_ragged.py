"""Sums and extremes over the segments of a ragged array, safe with empty segments."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


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
