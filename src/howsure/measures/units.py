"""Nats and bits: the maths runs in nats, and this is the one place where they become bits."""

from __future__ import annotations

import math
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

NATS_PER_BIT = math.log(2.0)
"""One bit is ln 2 nats."""


@overload
def nats_to_bits(nats: None) -> None: ...
@overload
def nats_to_bits(nats: float) -> float: ...
@overload
def nats_to_bits(nats: ArrayLike) -> Array: ...
def nats_to_bits(nats: ArrayLike | None) -> float | Array | None:
    """nats / ln 2; what is missing (None) stays missing.

    >>> nats_to_bits(NATS_PER_BIT * 3)
    3.0
    """
    return None if nats is None else _plain(np.asarray(nats, dtype=np.float64) / NATS_PER_BIT)


@overload
def bits_to_nats(bits: None) -> None: ...
@overload
def bits_to_nats(bits: float) -> float: ...
@overload
def bits_to_nats(bits: ArrayLike) -> Array: ...
def bits_to_nats(bits: ArrayLike | None) -> float | Array | None:
    """bits · ln 2; what is missing (None) stays missing.

    >>> round(bits_to_nats(1.0), 6)
    0.693147
    """
    return None if bits is None else _plain(np.asarray(bits, dtype=np.float64) * NATS_PER_BIT)


def _plain(array: Array) -> float | Array:
    return float(array) if array.ndim == 0 else array
