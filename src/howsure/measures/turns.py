"""Turn uncertainty: how surprised the model was by the tokens of one turn, in nats."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howsure.errors import EvidenceError
from howsure.measures._checks import check_starts
from howsure.measures._ragged import segment_reduce
from howsure.measures.logprobs import check_logprobs

Array = NDArray[np.float64]


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
