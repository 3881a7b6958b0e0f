"""From the tokens of a turn to the uncertainty of a trajectory.

The uncertainty of a turn is how surprised the model was by its tokens, in nats. What the turns so far say of the whole
conversation is a value after each turn, for which turns may be weighted by how far what was said lies from the task.

U_1, U_2, … are the uncertainties of the turns, in nats; NaN is a turn of which nothing is known. It leaves every
value where it was, and before the first known turn there is none (NaN). A turn of probability zero (+inf) makes the
value infinite from there on. All values are in the unit of U.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howsure.errors import EvidenceError, InputError
from howsure.measures.checks import Array, check_logprobs, check_starts, refuse, same_length, segment_reduce, vector

Turns = ArrayLike | Sequence[float | None]

TAIL_SHARE = 0.1

UNIT_TOLERANCE = 1e-3
"""How far the length of a unit vector may lie from 1: half-precision embeddings are off by some 1e-4."""


# -- one turn ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TurnStatistics:
    """One turn, in nats except for the last two. Uncertainty of a token is −ℓ.

    A token of probability zero makes the total, the mean and the maximum infinite; the spread around an
    infinite mean does not exist, so `std_uncertainty` is then None.
    """

    normalized_entropy: float
    total_entropy: float
    token_count: int
    min_uncertainty: float
    max_uncertainty: float
    std_uncertainty: float | None
    mean_probability: float


class TurnColumns(NamedTuple):
    """`TurnStatistics` of many turns as columns; NaN in a turn without tokens (its `token_count` is 0)."""

    normalized_entropy: Array
    total_entropy: Array
    token_count: NDArray[np.int64]
    min_uncertainty: Array
    max_uncertainty: Array
    std_uncertainty: Array
    mean_probability: Array


def turn_statistics(logprobs: ArrayLike) -> TurnStatistics | None:
    """Statistics of one turn; None for a turn without tokens.

    >>> turn_statistics([-1.0, -3.0]).normalized_entropy
    2.0
    """
    values = check_logprobs(logprobs)
    if values.size == 0:
        return None
    columns = turn_statistics_ragged(values, [0, len(values)])
    mean, total, count, least, most, std, probability = (column[0] for column in columns)
    return TurnStatistics(
        normalized_entropy=float(mean),
        total_entropy=float(total),
        token_count=int(count),
        min_uncertainty=float(least),
        max_uncertainty=float(most),
        std_uncertainty=None if math.isnan(std) else float(std),
        mean_probability=float(probability),
    )


def turn_statistics_ragged(logprobs: ArrayLike, starts: ArrayLike) -> TurnColumns:
    """`turn_statistics` for many turns at once: turn i owns `logprobs[starts[i]:starts[i + 1]]`.

    >>> turn_statistics_ragged([-1.0, -3.0, -0.5], [0, 2, 2, 3]).total_entropy
    array([4. , nan, 0.5])
    """
    values = check_logprobs(logprobs)
    if values.ndim != 1:
        raise EvidenceError(f"log-probabilities must be flat, got shape {values.shape}")
    offsets = check_starts(starts, len(values), "turns")
    return _columns(-values + 0.0, offsets)


def _columns(uncertainty: Array, starts: NDArray[np.int64]) -> TurnColumns:
    count = np.diff(starts)
    size = np.where(count > 0, count, 1)  # an empty turn is NaN already; this only avoids 0 / 0
    total = segment_reduce(np.add, uncertainty, starts, np.nan)
    return TurnColumns(
        normalized_entropy=total / size,
        total_entropy=total,
        token_count=count,
        min_uncertainty=segment_reduce(np.minimum, uncertainty, starts, np.nan),
        max_uncertainty=segment_reduce(np.maximum, uncertainty, starts, np.nan),
        std_uncertainty=_population_std(uncertainty, total / size, starts, size),
        mean_probability=segment_reduce(np.add, np.exp(-uncertainty), starts, np.nan) / size,
    )


def _population_std(uncertainty: Array, mean: Array, starts: NDArray[np.int64], size: NDArray[np.int64]) -> Array:
    """sqrt(mean of (u − mean)²) in two passes; NaN where the mean is infinite or there are no tokens."""
    centre = np.where(np.isfinite(mean), mean, np.nan)
    deviation = uncertainty - np.repeat(centre, np.diff(starts))
    return np.sqrt(segment_reduce(np.add, deviation**2, starts, np.nan) / size)


# -- the turns so far --------------------------------------------------------------------------------------------------


class Final(NamedTuple):
    """The value after the last turn, None where no turn is known, and the number of turns it rests on."""

    value: float | None
    turns: int


def running_mean(uncertainty: Turns) -> Array:
    """(1/n) Σ U_i over the n turns known so far.

    >>> running_mean([1.0, None, 3.0])
    array([1., 1., 2.])
    """
    u = check_uncertainty(uncertainty)
    return _mean_so_far(u, ~np.isnan(u))


def running_geometric(uncertainty: Turns) -> Array:
    """exp((1/n) Σ ln U_i): one sure turn pulls it down, and a turn of uncertainty 0 makes it 0.

    Where both 0 and infinity have been seen it is infinite, as every other value is.

    >>> running_geometric([1.0, 4.0, 0.0]).round(6)
    array([1., 2., 0.])
    """
    u = check_uncertainty(uncertainty)
    ordinary = (u > 0) & (u < np.inf)
    logs = np.log(np.where(ordinary, u, 1.0))
    values = np.exp(_mean_so_far(np.where(np.isnan(u), np.nan, logs), ~np.isnan(u)))
    values[np.logical_or.accumulate(u == 0)] = 0.0
    values[np.logical_or.accumulate(u == np.inf)] = np.inf
    return values


def running_rms(uncertainty: Turns) -> Array:
    """sqrt((1/n) Σ U_i²): SAUP's root mean square with all weights 1.

    >>> running_rms([3.0, 4.0, 0.0]).round(4)
    array([3.    , 3.5355, 2.8868])
    """
    u = check_uncertainty(uncertainty)
    return np.sqrt(_mean_so_far(u**2, ~np.isnan(u)))


def running_position(uncertainty: Turns) -> Array:
    """sqrt((1/n) Σ (t_i U_i)²) / ((1/n) Σ t_i), with t_i = 1, 2, … the turn's place: SAUP with later turns heavier.

    The places count all turns given, known or not, and are divided by their mean over the known ones.

    >>> running_position([1.0, 1.0, 2.0]).round(4)
    array([1.    , 1.0541, 1.8484])
    """
    u = check_uncertainty(uncertainty)
    known, place = ~np.isnan(u), np.arange(1.0, len(u) + 1)
    return np.asarray(np.sqrt(_mean_so_far((place * u) ** 2, known)) / _mean_so_far(place, known), dtype=np.float64)


def running_weighted(uncertainty: Turns, weights: Turns) -> Array:
    """sqrt((1/n) Σ (W_i U_i)²) with the given weights W_i ≥ 0: SAUP.

    A turn without a weight (NaN) is missing for this value. A weight of 0 leaves nothing of a turn, be it infinite.

    >>> running_weighted([1.0, 2.0, 5.0], [2.0, 1.0, None])
    array([2., 2., 2.])
    """
    u, w = check_uncertainty(uncertainty), vector(weights, "weights")
    same_length(u, w, "uncertainty and weights")
    refuse(w, (w < 0) | np.isinf(w), "weights", "a finite number, 0 or more")
    known = ~(np.isnan(u) | np.isnan(w))
    product = w * np.where((w == 0) & known, 0.0, u)
    return np.sqrt(_mean_so_far(product**2, known))


def running_tail(uncertainty: Turns, share: float = TAIL_SHARE) -> Array:
    """The mean of the ⌈share · n⌉ most uncertain of the n turns known so far.

    >>> running_tail([1.0, 5.0, 3.0], share=0.5)
    array([1., 5., 4.])
    """
    if not 0.0 < share <= 1.0:
        raise InputError(f"share {share!r} must lie above 0 and not above 1 (0.1 for the worst tenth)")
    u = check_uncertainty(uncertainty)
    known = ~np.isnan(u)
    return hold(_tail_means(u[known].tolist(), share), known)


def running_maximum(uncertainty: Turns) -> Array:
    """The most uncertain turn so far.

    >>> running_maximum([None, 1.0, 3.0, 2.0])
    array([nan,  1.,  3.,  3.])
    """
    return np.asarray(np.fmax.accumulate(check_uncertainty(uncertainty)), dtype=np.float64)


PROPAGATIONS: dict[str, Callable[[Turns], Array]] = {
    "mean": running_mean,
    "geometric": running_geometric,
    "rms": running_rms,
    "position": running_position,
    "tail": running_tail,
    "maximum": running_maximum,
}
"""Every way that needs the turns' uncertainty alone, by name. `running_weighted` needs weights too."""


def final_value(running: Array, uncertainty: Turns, weights: Turns | None = None) -> Final:
    """What is left after the last turn of a running value, and how many turns (with a weight) went into it.

    >>> final_value(running_mean([1.0, None, 3.0]), [1.0, None, 3.0])
    Final(value=2.0, turns=2)
    """
    known = ~np.isnan(vector(uncertainty, "uncertainty"))
    if weights is not None:
        known &= ~np.isnan(vector(weights, "weights"))
    turns = int(known.sum())
    return Final(float(running[-1]) if turns else None, turns)


def check_uncertainty(uncertainty: Turns) -> Array:
    """Uncertainties of turns, in order: 0 or more, +inf allowed, NaN (or None) where missing."""
    u = vector(uncertainty, "uncertainty")
    refuse(u, u < 0, "uncertainty", "0 or more (NaN where missing)")
    return u


def _mean_so_far(values: Array, known: NDArray[np.bool_]) -> Array:
    """Mean of the known values up to each place; NaN before the first."""
    count = np.cumsum(known)
    total = np.cumsum(np.where(known, values, 0.0))
    return np.asarray(np.divide(total, count, out=np.full(len(values), np.nan), where=count > 0), dtype=np.float64)


def hold(values: Array, known: NDArray[np.bool_]) -> Array:
    """The values of the known places, each held until the next; NaN before the first."""
    return np.asarray(np.concatenate([[np.nan], values])[np.cumsum(known)], dtype=np.float64)


def _tail_means(values: list[float], share: float) -> Array:
    """Two heaps: the worst so far, least on top, and the others, greatest on top. A sum that only grows stays exact."""
    worst: list[float] = []
    others: list[float] = []
    means, total = np.full(len(values), np.inf), 0.0
    for i, value in enumerate(values):
        if value == math.inf:
            break
        dropped = heapq.heappushpop(worst, value) if worst else value
        total += value - dropped
        heapq.heappush(others, -dropped)
        if len(worst) < max(1, math.ceil(share * (i + 1) - 1e-9)):  # 0.07 · 100 is a hair above 7
            heapq.heappush(worst, -heapq.heappop(others))
            total += worst[0]
        means[i] = total / len(worst)
    return means


# -- how far texts lie from one another, by their embeddings -----------------------------------------------------------


def cosine_distance(first: ArrayLike, second: ArrayLike) -> Array:
    """1 − cos of the angle between unit vectors, from 0 (same direction) to 2 (opposite); row by row.

    A row of NaN is a vector that is not known; its distance is NaN.

    >>> cosine_distance([[1.0, 0.0], [0.6, 0.8]], [0.0, 1.0])
    array([1. , 0.2])
    """
    a, b = _unit_vectors(first, "the first vectors"), _unit_vectors(second, "the second vectors")
    if a.shape[-1] != b.shape[-1] or (a.ndim == b.ndim == 2 and len(a) != len(b)):
        raise EvidenceError(f"vectors of shape {a.shape} and {b.shape} cannot be compared row by row")
    return _cosine_distance(a, b)


def inquiry_drift(task: ArrayLike, turns: ArrayLike, known: ArrayLike | None = None) -> Array:
    """D_a of each turn: how far the trajectory up to and including it lies from the task.

    `task` is a unit vector and `turns` are those of the messages in order. The trajectory so far is the mean of the
    vectors that are known so far, brought to length 1; `known` says which, without it all rows but those of NaN.
    NaN where nothing is known yet, at a turn that is not known itself, and where the vectors so far cancel out.

    >>> inquiry_drift([1.0, 0.0], [[1.0, 0.0], [0.0, 1.0]]).round(4)
    array([0.    , 0.2929])
    """
    goal, rows = _unit_vectors(task, "the task"), _unit_vectors(turns, "turns")
    if goal.ndim != 1 or rows.ndim != 2 or rows.shape[1] != len(goal):
        raise EvidenceError(f"a task of shape {goal.shape} and turns of shape {rows.shape} do not go together")
    there = _known(known, rows)
    return np.where(there, _cosine_distance(_means_so_far(rows, there), goal), np.nan)


def inference_gap(actions: ArrayLike, observations: ArrayLike) -> Array:
    """D_o of each turn: how far what was done lies from what was seen; NaN where either is not known.

    >>> inference_gap([[1.0, 0.0], [float("nan")] * 2], [[0.0, 1.0], [0.0, 1.0]])
    array([ 1., nan])
    """
    return cosine_distance(actions, observations)


def _cosine_distance(a: Array, b: Array) -> Array:
    distance: Array = 1.0 - np.clip((a * b).sum(-1), -1.0, 1.0)
    return distance


def _means_so_far(rows: Array, known: NDArray[np.bool_]) -> Array:
    """The direction of the sum of the known rows up to each; NaN where it has none."""
    sums = np.cumsum(np.where(known[:, None], rows, 0.0), axis=0)
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    smallest = UNIT_TOLERANCE * np.maximum(np.cumsum(known), 1)[:, None]
    return sums / np.where(lengths > smallest, lengths, np.nan)


def _known(given: ArrayLike | None, rows: Array) -> NDArray[np.bool_]:
    there: NDArray[np.bool_] = np.array(~np.isnan(rows).any(axis=1))
    if given is None:
        return there
    known: NDArray[np.bool_] = np.asarray(given)
    if known.dtype != np.bool_ or known.shape != there.shape:
        raise EvidenceError(f"known must hold true or false for each of the {len(rows)} turns, got {known.dtype}")
    return there & known


def _unit_vectors(values: ArrayLike, what: str) -> Array:
    """One vector or rows of them, each of length 1 or all NaN."""
    array: Array = np.array(values, dtype=np.float64)
    if array.ndim not in (1, 2) or array.shape[-1] == 0:
        raise EvidenceError(f"{what} must be a vector or rows of vectors, got shape {array.shape}")
    lengths = np.atleast_1d(np.linalg.norm(array, axis=-1))
    missing = np.atleast_1d(np.isnan(array).all(axis=-1))
    wrong = ~(missing | (np.abs(lengths - 1.0) <= UNIT_TOLERANCE))
    if wrong.any():
        place = int(np.flatnonzero(wrong)[0])
        raise EvidenceError(f"{what}: length {lengths[place]:g} at row {place} is not 1, and not a row of NaN")
    return array
