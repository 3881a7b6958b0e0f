"""Trajectory uncertainty: what the turns so far say of the whole conversation, after each turn.

U_1, U_2, … are the uncertainties of the turns, in nats; NaN is a turn of which nothing is known. It leaves every
value where it was, and before the first known turn there is none (NaN). A turn of probability zero (+inf) makes the
value infinite from there on. All values are in the unit of U.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howsure.errors import InputError
from howsure.measures._checks import refuse, same_length, vector

Array = NDArray[np.float64]
Turns = ArrayLike | Sequence[float | None]

TAIL_SHARE = 0.1


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
