"""Entropy from the top-k log-probabilities: one value and the two tight bounds around the true entropy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howsure.errors import EvidenceError, InputError
from howsure.measures.checks import Array, check_logprobs, check_starts, segment_reduce

MASS_TOLERANCE = 1e-3
"""How far the known mass may be off by rounding before the numbers are no log-probabilities."""


class TopKEntropy(NamedTuple):
    """One position: bucket value, bounds of the true entropy, and the mass left unexplained."""

    entropy_nats: float
    low_nats: float
    high_nats: float | None
    remainder: float


class TopKEntropies(NamedTuple):
    """The columns of `TopKEntropy` over many positions; NaN where a position has no evidence.

    `high_nats` is None as a whole where the size of the vocabulary is unknown.
    """

    entropy_nats: Array
    low_nats: Array
    high_nats: Array | None
    remainder: Array


def topk_entropy(
    top_logprobs: ArrayLike, *, chosen_logprob: float | None = None, vocab_size: int | None = None
) -> TopKEntropy | None:
    """Bucket entropy of one position, with the tightest bounds on the entropy over the whole vocabulary.

    `chosen_logprob` is that of the chosen token and is given only where it is NOT among `top_logprobs`.
    None where nothing is known; `high_nats` is None without `vocab_size`.

    >>> h = topk_entropy(np.log([0.5, 0.25]), vocab_size=6)
    >>> round(h.entropy_nats, 4), round(h.low_nats, 4), round(h.high_nats, 4), round(h.remainder, 4)
    (1.0397, 1.0397, 1.3863, 0.25)
    """
    values = np.atleast_1d(np.asarray(top_logprobs, dtype=np.float64))
    if len(values) == 0 and chosen_logprob is None:
        return None
    chosen = None if chosen_logprob is None else [chosen_logprob]
    if chosen is not None:
        check_logprobs(chosen, "chosen token")  # a NaN here is an error, not "inside the top-k"
    columns = topk_entropies(values, [0, len(values)], chosen_logprobs=chosen, vocab_size=vocab_size)
    entropy, low, high, remainder = columns
    return TopKEntropy(float(entropy[0]), float(low[0]), None if high is None else float(high[0]), float(remainder[0]))


def topk_entropies(
    logprobs: ArrayLike,
    starts: ArrayLike,
    *,
    chosen_logprobs: ArrayLike | None = None,
    vocab_size: int | None = None,
) -> TopKEntropies:
    """`topk_entropy` for many positions at once: position i owns `logprobs[starts[i]:starts[i + 1]]`.

    `chosen_logprobs` has one entry for each position, NaN where the chosen token is inside its top-k.

    >>> topk_entropies(np.log([0.5, 0.5, 1.0]), [0, 2, 2, 3]).entropy_nats
    array([0.69314718,        nan, 0.        ])
    """
    values = check_logprobs(logprobs, "top-k")
    if values.ndim != 1:
        raise EvidenceError(f"top-k log-probabilities must be flat, got shape {values.shape}")
    offsets = check_starts(starts, len(values), "top-k")
    chosen = _chosen_probabilities(chosen_logprobs, len(offsets) - 1)
    known = np.diff(offsets) + ~np.isnan(chosen)
    if vocab_size is not None and (vocab_size < 1 or vocab_size < known.max(initial=0)):
        raise InputError(f"vocab_size {vocab_size} is smaller than the {known.max(initial=1)} tokens that are known")
    return _bounds(np.exp(values), offsets, chosen, known, vocab_size)


def _chosen_probabilities(chosen_logprobs: ArrayLike | None, positions: int) -> Array:
    if chosen_logprobs is None:
        return np.full(positions, np.nan)
    values = np.array(chosen_logprobs, dtype=np.float64)
    if values.shape != (positions,):
        raise EvidenceError(f"chosen_logprobs has shape {values.shape} for {positions} positions")
    inside = np.isnan(values)
    return np.where(inside, np.nan, np.exp(check_logprobs(np.where(inside, 0.0, values), "chosen tokens")))


def _bounds(
    p: Array, starts: NDArray[np.int64], chosen: Array, known: NDArray[np.int64], vocab_size: int | None
) -> TopKEntropies:
    """The formulas: bucket, low with the cap p_k, and high with the vocabulary's size V."""
    outside = np.nan_to_num(chosen, nan=0.0)
    mass = segment_reduce(np.add, p, starts, 0.0) + outside
    unseen = None if vocab_size is None else vocab_size - known
    scale = _scale(mass, known, unseen)
    entropy_known = segment_reduce(np.add, _surprise(p / np.repeat(scale, np.diff(starts))), starts, 0.0)
    entropy_known += _surprise(outside / scale)
    remainder = np.where(scale == 1.0, np.maximum(0.0, 1.0 - mass), 0.0)
    cap = _cap(p, starts, outside) / scale
    entropy = entropy_known + _surprise(remainder)
    low = np.maximum(entropy, entropy_known + _least(remainder, cap))
    high = None
    if unseen is not None:
        _refuse_overfull(remainder, cap, unseen, known)
        spread = remainder * np.log(np.maximum(unseen, 1))
        high = entropy + spread  # = H_k + r ln((V − k) / r)
        low = np.minimum(low, high)
    return _without_empty(TopKEntropies(entropy, low, high, remainder), known == 0)


def _scale(mass: Array, known: NDArray[np.int64], unseen: NDArray[np.int64] | None) -> Array:
    """What to divide by: the mass itself where rounding put it above 1, or where no token is left unseen."""
    over = np.flatnonzero(mass > 1.0 + MASS_TOLERANCE)
    if len(over):
        place = int(over[0])
        raise EvidenceError(
            f"top-k at position {place}: probabilities sum to {mass[place]:.6g}, above "
            f"1 + {MASS_TOLERANCE:g}, so these are not log-probabilities"
        )
    complete = np.zeros(len(mass), dtype=bool) if unseen is None else (unseen == 0) & (known > 0)
    short = np.flatnonzero(complete & (mass < 1.0 - MASS_TOLERANCE))
    if len(short):
        place = int(short[0])
        raise EvidenceError(
            f"top-k at position {place}: the whole vocabulary of {known[place]} tokens sums to "
            f"{mass[place]:.6g}, not to 1 within {MASS_TOLERANCE:g}"
        )
    return np.where((mass > 1.0) | complete, mass, 1.0)


def _cap(p: Array, starts: NDArray[np.int64], outside: Array) -> Array:
    """The most that an unseen token can have: the smallest of the top-k, not the smaller chosen one.

    A smallest of 0 says nothing (servers write −9999 for tokens that they cut), and neither does an empty
    top-k: then one unseen token may hold all that is left.
    """
    smallest = np.maximum(segment_reduce(np.minimum, p, starts, 1.0), outside)
    return np.where(smallest > 0.0, smallest, 1.0)


def _least(remainder: Array, cap: Array) -> Array:
    """−m c ln c − s ln s with m = ⌊r/c⌋ and s = r − m c: the remainder in as few tokens as the cap allows.

    fmod is exact where the division would round, and m c = r − s needs no m, which may be astronomical.
    """
    rest = np.fmod(remainder, cap)
    return -(remainder - rest) * np.log(cap) + _surprise(rest)


def _refuse_overfull(remainder: Array, cap: Array, unseen: NDArray[np.int64], known: NDArray[np.int64]) -> None:
    bad = np.flatnonzero((known > 0) & (remainder > unseen * cap + MASS_TOLERANCE))
    if len(bad):
        place = int(bad[0])
        raise EvidenceError(
            f"top-k at position {place}: a remainder of {remainder[place]:.6g} does not fit into "
            f"{unseen[place]} unseen tokens of at most {cap[place]:.6g} each, so these are not the most "
            "probable tokens or vocab_size is wrong"
        )


def _surprise(p: Array) -> Array:
    """−p ln p with 0 ln 0 = 0 (the +0.0 turns −0.0 into 0.0)."""
    return -p * np.log(p, out=np.zeros_like(p), where=p > 0) + 0.0


def _without_empty(columns: TopKEntropies, empty: NDArray[np.bool_]) -> TopKEntropies:
    def blank(column: Array) -> Array:
        return np.where(empty, np.nan, column)

    high = None if columns.high_nats is None else blank(columns.high_nats)
    return TopKEntropies(blank(columns.entropy_nats), blank(columns.low_nats), high, blank(columns.remainder))
