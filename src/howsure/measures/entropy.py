"""Entropy, cross-entropy, KL divergence and perplexity, in nats, of distributions that are known in full.

Then the one place where nats become bits, and the entropy of a source of which only a sample is known: from counts, and
from the blocks of a sequence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howsure.errors import EvidenceError, InputError
from howsure.measures.checks import Array, Codes, check_logprobs, refuse, vector

Estimator = Literal["plugin", "miller_madow", "grassberger"]

SUM_TOLERANCE = 1e-6
"""How far probabilities may sum away from 1 before they are no distribution."""

LOG_SPACE_SUM_TOLERANCE = 1e-3
"""The same for log-probabilities: a float32 log-softmax over a large vocabulary is that inexact."""

NATS_PER_BIT = math.log(2.0)
"""One bit is ln 2 nats."""

STEP_WEIGHTS = (0.5, 0.3, 0.2)
"""What the next step counts for, the one after it, and the third."""

OCCURRENCES_FOR_SUPPORT = 10.0
"""How often each distinct block must occur on average before its row is `supported`.

The plug-in is too low by about (K − 1) / 2N nats (Miller 1955). With N / K ≥ 10 that is at most 0.05 nats, 0.07 bits:
less than most people would read off a table. A limit of 5 would let twice that through.
"""

LARGEST_COUNT = 2.0**53
"""Above it float64 cannot tell a count from the next one."""

TABLE_LIMIT = 4
"""Block numbers that fit a table of four entries for each block are counted there; others are sorted."""


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


def verbalized_entropy_nats(steps_nats: Sequence[float | None] | NDArray[np.float64]) -> float | None:
    """0.5 H₁ + 0.3 H₂ + 0.2 H₃ from the entropies of the three steps.

    None where one of them is missing (None or NaN): with the weights spread over the others it would be another figure.

    >>> verbalized_entropy_nats([1.0, 0.5, 0.0])
    0.65
    >>> verbalized_entropy_nats([1.0, None, 0.0]) is None
    True
    """
    values = vector(steps_nats, "step entropies")
    if len(values) != len(STEP_WEIGHTS):
        raise EvidenceError(f"a verbalized entropy needs {len(STEP_WEIGHTS)} step entropies, got {len(values)}")
    refuse(values, np.isinf(values) | (values < 0), "step entropies", "an entropy (finite and not negative)")
    return None if np.isnan(values).any() else float(np.dot(STEP_WEIGHTS, values))


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


# -- nats and bits -----------------------------------------------------------------------------------------------------


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
    return None if nats is None else _scalar_or_array(np.asarray(nats, dtype=np.float64) / NATS_PER_BIT)


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
    return None if bits is None else _scalar_or_array(np.asarray(bits, dtype=np.float64) * NATS_PER_BIT)


# -- of a source of which there is a sample ----------------------------------------------------------------------------


def plugin_entropy_nats(counts: ArrayLike) -> float:
    """−Σ (n_i/N) ln (n_i/N): the entropy of the shares seen (maximum likelihood). Too low on average.

    >>> round(plugin_entropy_nats([2, 1, 1]), 6)
    1.039721
    """
    return _plugin(check_counts(counts))


def miller_madow_entropy_nats(counts: ArrayLike) -> float:
    """The plug-in + (K − 1) / 2N, with K symbols seen: its bias taken off to first order (Miller 1955).

    >>> round(miller_madow_entropy_nats([2, 1, 1]) - plugin_entropy_nats([2, 1, 1]), 6)
    0.25
    """
    return _miller_madow(check_counts(counts))


def grassberger_entropy_nats(counts: ArrayLike) -> float:
    """ln N − (1/N) Σ n_i G(n_i), nearly without bias from few counts (Grassberger 2003, arXiv:physics/0307138).

    G(n) = ψ(n) + ½ (−1)ⁿ [ψ((n + 1)/2) − ψ(n/2)]. It is an estimate, not the entropy of some distribution: from a
    source that hardly varies it may come out a little below 0, and from very few counts above ln K.

    >>> round(grassberger_entropy_nats([2, 1, 1]), 6)
    1.656657
    """
    return _grassberger(check_counts(counts))


@dataclass(frozen=True)
class BlockEntropy:
    """The overlapping blocks of n symbols in one sequence, and what they say of its source.

    `plugin_nats`, `miller_madow_nats` and `grassberger_nats` are H_n by three estimators. `per_symbol_nats` (H_n / n)
    and `conditional_nats` (h_n, a symbol's entropy given the n − 1 before it) are by the one that was asked for.
    `ceiling_nats` is ln N of the N blocks: no plug-in estimate can pass it, however rich the source.
    `occurrences` is N over the distinct blocks; below `OCCURRENCES_FOR_SUPPORT` the row is not `supported`.
    """

    n: int
    blocks: int
    distinct: int
    plugin_nats: float
    miller_madow_nats: float
    grassberger_nats: float
    per_symbol_nats: float
    conditional_nats: float

    @property
    def occurrences(self) -> float:
        return self.blocks / self.distinct

    @property
    def ceiling_nats(self) -> float:
        return math.log(self.blocks)

    @property
    def supported(self) -> bool:
        return self.occurrences >= OCCURRENCES_FOR_SUPPORT


def block_entropies(symbols: ArrayLike, longest: int, estimator: Estimator = "plugin") -> list[BlockEntropy]:
    """H_n, H_n / n and h_n = H_n − H_{n−1} (H_0 = 0) for n = 1 … `longest`, or as long as the sequence is.

    In h_n, H_{n−1} is that of the blocks which begin an n-block: all of them but the last. So both terms see the same
    positions, the chain rule holds, and by the plug-in h_n is never negative, at the price of an edge: h_n may
    differ from the difference of two rows by what that last block weighs, some ln(N) / N.

    >>> [round(row.conditional_nats, 3) for row in block_entropies([0, 1] * 50, 2)]
    [0.693, 0.0]
    """
    estimate = _kernel(estimator)
    codes = check_symbols(symbols)
    if longest < 1:
        raise InputError(f"longest {longest!r} must be at least 1: the length of the longest block")
    rows = []
    for n, counts, prefixes in _block_counts(codes, min(longest, len(codes))):
        entropy = estimate(counts)
        conditional = entropy - (estimate(prefixes) if len(prefixes) else 0.0)
        rows.append(_row(n, counts, entropy, max(conditional, 0.0) if estimate is _plugin else conditional))
    return rows


def check_counts(counts: ArrayLike) -> Array:
    """The counts as float64; they must be whole, not negative, at most 2^53, and not all zero."""
    array = vector(counts, "counts")
    refuse(array, ~((array >= 0) & (array <= LARGEST_COUNT)), "counts", "a count (from 0 to 2^53)")
    refuse(array, array != np.floor(array), "counts", "a whole number")
    if not array.any():
        raise EvidenceError(f"counts: none of the {len(array)} is above zero, so there is no sample to judge by")
    return array


def check_symbols(symbols: ArrayLike, what: str = "symbols") -> Codes:
    """A sequence of whole numbers, one for each symbol, with at least one in it."""
    array = np.asarray(symbols)
    if array.ndim != 1:
        raise EvidenceError(f"{what} must be one-dimensional, got shape {array.shape}")
    if len(array) == 0:
        raise EvidenceError(f"{what}: there are none, so there is nothing to count")
    if not np.issubdtype(array.dtype, np.integer):
        raise EvidenceError(f"{what} must be whole numbers that stand for symbols, got {array.dtype}")
    return array.astype(np.int64, copy=False)


# -- the three formulas -------------------------------------------------------------------------------------------


def _plugin(counts: Array) -> float:
    return float(entropy_nats(counts / counts.sum()))


def _miller_madow(counts: Array) -> float:
    seen = np.count_nonzero(counts)
    return _plugin(counts) + float((seen - 1) / (2 * counts.sum()))


def _grassberger(counts: Array) -> float:
    n, times = np.unique(counts[counts > 0], return_counts=True)  # many symbols are seen once, twice, …
    total = counts.sum()
    return float(np.log(total) - np.sum(times * n * _g(n)) / total)


def _g(n: Array) -> Array:
    from scipy.special import digamma

    sign = np.where(n % 2 == 0, 1.0, -1.0)
    return np.asarray(digamma(n) + sign / 2 * (digamma((n + 1) / 2) - digamma(n / 2)))


_KERNELS: dict[str, Callable[[Array], float]] = {
    "plugin": _plugin,
    "miller_madow": _miller_madow,
    "grassberger": _grassberger,
}


def _kernel(estimator: str) -> Callable[[Array], float]:
    if estimator not in _KERNELS:
        raise InputError(f"estimator {estimator!r} must be one of {', '.join(map(repr, _KERNELS))}")
    return _KERNELS[estimator]


# -- blocks -------------------------------------------------------------------------------------------------------


def _row(n: int, counts: Array, entropy: float, conditional: float) -> BlockEntropy:
    return BlockEntropy(
        n=n,
        blocks=int(counts.sum()),
        distinct=len(counts),
        plugin_nats=_plugin(counts),
        miller_madow_nats=_miller_madow(counts),
        grassberger_nats=_grassberger(counts),
        per_symbol_nats=entropy / n,
        conditional_nats=conditional,
    )


def _block_counts(symbols: Codes, longest: int) -> Iterator[tuple[int, Array, Array]]:
    """For n = 1 … longest: n, how often each distinct n-block occurs, and each (n − 1)-block that begins one.

    A block is known by a number: that of its first n − 1 symbols, times the alphabet, plus its last symbol. Numbered
    anew after each step, these never pass blocks × alphabet, and one step is one sort however long the blocks are.
    """
    codes, counts = _numbered(symbols, None)
    alphabet, blocks = len(counts), codes
    yield 1, counts.astype(np.float64), np.empty(0)
    for n in range(2, longest + 1):
        prefixes = counts.astype(np.float64)
        prefixes[blocks[-1]] -= 1  # no n-block begins with the last one
        blocks, counts = _numbered(blocks[:-1] * alphabet + codes[n - 1 :], len(counts) * alphabet)
        yield n, counts.astype(np.float64), prefixes


def _numbered(keys: Codes, limit: int | None) -> tuple[Codes, Codes]:
    """The keys, numbered from 0 in their order, and how often each occurs; `limit` is above all of them, if known."""
    if limit is None or limit > TABLE_LIMIT * len(keys):
        _, numbers, counts = np.unique(keys, return_inverse=True, return_counts=True)
        return numbers, counts
    table = np.bincount(keys, minlength=limit)
    numbers = np.cumsum(table > 0) - 1
    return numbers[keys], table[table > 0]
