"""Entropy, cross-entropy, KL divergence and perplexity, in nats, of distributions that are known in full."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howsure.errors import EvidenceError
from howsure.measures._checks import refuse
from howsure.measures.logprobs import check_logprobs

Array = NDArray[np.float64]

SUM_TOLERANCE = 1e-6
"""How far probabilities may sum away from 1 before they are no distribution."""

LOG_SPACE_SUM_TOLERANCE = 1e-3
"""The same for log-probabilities: a float32 log-softmax over a large vocabulary is that inexact."""


def entropy_nats(p: ArrayLike, axis: int = -1) -> float | Array:
    """H(p) = −Σ p ln p along `axis`, with 0 ln 0 = 0: a float for one distribution, an array for many.

    >>> round(entropy_nats([0.5, 0.25, 0.25]), 6)
    1.039721
    """
    probs = check_probabilities(p, axis)
    return _scalar_or_array(np.maximum(-np.sum(_times(probs, _log(probs)), axis=axis), 0.0))


def entropy_from_logprobs_nats(logprobs: ArrayLike, axis: int = -1) -> float | Array:
    """H of a whole distribution given as log-probabilities, which must sum to 1 within 1e-3.

    They are divided by their sum first, so that rounding in the model does not tilt the entropy.

    >>> entropy_from_logprobs_nats([0.0, float("-inf")])
    0.0
    """
    values = check_logprobs(logprobs)
    total = np.exp(values).sum(axis=axis, keepdims=True)
    _refuse_sum(total, LOG_SPACE_SUM_TOLERANCE, "log-probabilities: their probabilities")
    values = values - np.log(total)
    return _scalar_or_array(np.maximum(-np.sum(_times(np.exp(values), values), axis=axis), 0.0))


def cross_entropy_nats(p: ArrayLike, m: ArrayLike, axis: int = -1) -> float | Array:
    """H(p, m) = −Σ p ln m: what outcomes from p cost under the model m; inf where m rules out what p allows.

    >>> cross_entropy_nats([0.5, 0.5], [1.0, 0.0])
    inf
    """
    p, m = _pair(p, m, axis)
    return _scalar_or_array(np.maximum(-np.sum(_times(p, _log(m)), axis=axis), 0.0))


def kl_nats(p: ArrayLike, m: ArrayLike, axis: int = -1) -> float | Array:
    """KL(p ‖ m) = Σ p (ln p − ln m) = H(p, m) − H(p) ≥ 0; inf where m rules out what p allows.

    >>> kl_nats([0.5, 0.5], [0.5, 0.5])
    0.0
    """
    p, m = _pair(p, m, axis)
    with np.errstate(invalid="ignore"):  # −inf − (−inf) where both are 0, which counts as 0
        excess = _log(p) - _log(m)
    return _scalar_or_array(np.maximum(np.sum(_times(p, excess), axis=axis), 0.0))


def perplexity(logprobs: ArrayLike) -> float | None:
    """exp(mean of −ℓ) over the tokens; None for no tokens, inf where it is beyond floating point.

    >>> round(perplexity([-1.0, -3.0]), 6)
    7.389056
    """
    values = check_logprobs(logprobs)
    if values.size == 0:
        return None
    mean_nats = float(-values.mean()) + 0.0
    return math.exp(mean_nats) if mean_nats < math.log(np.finfo(np.float64).max) else math.inf


def check_probabilities(p: ArrayLike, axis: int = -1, what: str = "probabilities") -> Array:
    """The values as float64; they must be finite, not negative, and sum to 1 within 1e-6 along `axis`."""
    array = np.array(p, dtype=np.float64)
    if array.ndim == 0:
        raise EvidenceError(f"{what} must be a list or an array, got the single number {float(array):g}")
    refuse(array, ~(np.isfinite(array) & (array >= 0)), what, "a probability (finite and not negative)")
    _refuse_sum(array.sum(axis=axis), SUM_TOLERANCE, what)
    return array


def _pair(p: ArrayLike, m: ArrayLike, axis: int) -> tuple[Array, Array]:
    first, second = check_probabilities(p, axis, "p"), check_probabilities(m, axis, "m")
    if first.shape != second.shape:
        raise EvidenceError(f"p and m must be over the same outcomes, got shapes {first.shape} and {second.shape}")
    return first, second


def _refuse_sum(total: Array, tolerance: float, what: str) -> None:
    sums = np.asarray(total).ravel()
    wrong = np.flatnonzero(np.abs(sums - 1.0) > tolerance)
    if len(wrong):
        place = int(wrong[0])
        raise EvidenceError(f"{what} sum to {sums[place]:.9g} in distribution {place}, not to 1 within {tolerance:g}")


def _log(p: Array) -> Array:
    return np.log(p, out=np.full_like(p, -np.inf), where=p > 0)


def _times(p: Array, logs: Array) -> Array:
    """p · logs, with 0 wherever p is 0, whatever the logarithm says."""
    return np.multiply(p, logs, out=np.zeros_like(p), where=p > 0)


def _scalar_or_array(values: Array) -> float | Array:
    return float(values) if np.ndim(values) == 0 else values
