"""Coherent trust: the same question as `trust`, asked of one joint distribution, so that the answer lies in [0, 1].

Three prompts of one step need not come from any joint distribution, which is why T of a step may be anything. Here a
set of instructions l and groundings s is asked in full, p(x | s) and p(x) are mixtures of the answers p(x | l, s), and
H(X) ≥ H(X|S) ≥ H(X|L,S) holds by the concavity of entropy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howsure.errors import EvidenceError
from howsure.measures.checks import Array
from howsure.measures.entropy import SUM_TOLERANCE, entropy_nats
from howsure.measures.trust import DENOMINATOR_FLOOR

MOST_ORDERS = 5040
"""Orders of the pairs that are tried one by one: those of seven."""

LEAST_ARRANGEMENTS, MOST_CELLS, CELLS_AT_ONCE = 200, 2_000_000, 200_000
"""Arrangements by chance are fewer where states are many, down to so many; then each says more of its own."""

ROUNDING_NATS = 1e-9
"""An information this little below zero is rounding, and is zero; anything lower would be an error, and is one."""


@dataclass(frozen=True)
class CoherentTrust:
    """The entropies of one joint distribution, what S and both tell about X, and the ratio of the two.

    `trust` is NaN, as that of a step, where I(X; S,L) is below 1e-10: nothing is told, so that no share of it is.
    """

    trust: float
    h_x_nats: float
    h_x_given_s_nats: float
    h_x_given_ls_nats: float
    information_s_nats: float
    information_sl_nats: float

    @property
    def identified(self) -> bool:
        return not math.isnan(self.trust)


def coherent_trust(p: ArrayLike, weights: ArrayLike | None = None) -> CoherentTrust:
    """T = I(X; S) / I(X; S,L) from p[l, s, x] = p(x | l, s), under weights[l, s] = p(l, s).

    The weights are all alike unless they are given; they are divided by their sum, and need not be a product of one
    for l and one for s. Every distribution must sum to 1 within 1e-6, and is divided by its sum; a pair (l, s) that was
    never answered has no place here.

    Two instructions, two groundings. The first grounding leaves the action open until the instruction decides it,
    the second decides it alone:

    >>> answer = coherent_trust([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]])
    >>> round(answer.information_s_nats, 4), round(answer.information_sl_nats, 4), round(answer.trust, 4)
    (0.2158, 0.5623, 0.3837)
    """
    answers = _checked_answers(p)
    pairs = _checked_weights(weights, answers.shape[:2])
    occurs = pairs.any(axis=0)
    answers, pairs = answers[:, occurs], pairs[:, occurs]
    of_s, l_given_s = _factors(pairs)
    x_given_s = np.einsum("ls,lsx->sx", l_given_s, answers)
    h_x = float(entropy_nats(of_s @ x_given_s))
    h_x_given_s = float(of_s @ entropy_nats(x_given_s))
    h_x_given_ls = float(of_s @ (l_given_s * entropy_nats(answers)).sum(axis=0))
    from_s = _information(h_x - h_x_given_s)
    from_both = from_s + _information(h_x_given_s - h_x_given_ls)
    trust = from_s / from_both if from_both >= DENOMINATOR_FLOOR else math.nan
    return CoherentTrust(trust, h_x, h_x_given_s, h_x_given_ls, from_s, from_both)


@dataclass(frozen=True)
class CoherentNull:
    """T where neither instruction nor grounding matters, and answers differ by the wording of a prompt alone.

    `mean` is what to expect then; 95 of 100 arrangements give `high` or less, and `share_at_least` reach the T
    that was measured.
    """

    mean: float
    high: float
    share_at_least: float
    arrangements: int


def coherent_null(tables: Sequence[ArrayLike], *, arrangements: int = 2000, seed: int) -> CoherentNull | None:
    """Permutation null of Σ I(X; S) / Σ I(X; S,L) over states, each with its p[l, s, x]; None where nothing is told.

    The pairs (l, s) change places, alike in all states: a wording keeps its answers, and only its name changes. All
    orders are tried where they are 5,040 or fewer, and otherwise up to so many `arrangements` by chance. I(X; S,L)
    stays as it is, and I(X; S) takes the part of it that any grouping of the answers into so many columns would: about
    (S − 1) / (L S − 1), far above zero.

    >>> table = [[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]]
    >>> null = coherent_null([table], seed=0)
    >>> round(null.mean, 2), null.high
    (0.33, 1.0)
    """
    answers = np.stack([_checked_answers(table) for table in tables])
    states, told, known, outcomes = answers.shape
    cells = answers.reshape(states, told * known, outcomes)
    of_all = entropy_nats(cells.mean(axis=1))
    total = float(np.sum(of_all) - np.sum(entropy_nats(cells)) / (told * known))
    if total < DENOMINATOR_FLOOR * states:
        return None

    from scipy.special import xlogy

    most = max(LEAST_ARRANGEMENTS, MOST_CELLS // (states * known * outcomes))
    orders = _orders(told * known, min(arrangements, most), seed)
    drawn = np.empty(len(orders))
    at_once = max(1, CELLS_AT_ONCE // cells.size)
    for begun in range(0, len(orders), at_once):
        some = orders[begun : begun + at_once]
        given_s = cells[:, some].reshape(states, len(some), told, known, outcomes).mean(axis=2)
        nats = -np.sum(xlogy(given_s, given_s), axis=(0, 2, 3)) / known
        drawn[begun : begun + len(some)] = (float(np.sum(of_all)) - nats) / total
    at_least = float(np.mean(drawn >= drawn[0] - ROUNDING_NATS))  # the first order is that of the tables themselves
    high = float(np.quantile(drawn, 0.95, method="inverted_cdf"))
    return CoherentNull(float(drawn.mean()), high, at_least, len(drawn))


def _orders(pairs: int, arrangements: int, seed: int) -> NDArray[np.int64]:
    """All of them where they are few; else others by chance; in either case the one that is comes first."""
    if math.factorial(pairs) <= MOST_ORDERS:
        return np.array(list(permutations(range(pairs))), dtype=np.int64)
    own = np.tile(np.arange(pairs), (arrangements + 1, 1))
    return np.concatenate([own[:1], np.random.default_rng(seed).permuted(own[1:], axis=1)])


def _information(difference: float) -> float:
    """A difference of entropies that no joint distribution lets fall below zero."""
    if difference < -ROUNDING_NATS:
        raise EvidenceError(f"an information of {difference:g} nats: these are not entropies of one joint distribution")
    return max(0.0, difference)


def _checked_answers(p: ArrayLike) -> Array:
    array = np.array(p, dtype=np.float64)
    if array.ndim != 3 or 0 in array.shape:
        raise EvidenceError(f"p must be instructions × groundings × outcomes, none of them empty, got {array.shape}")
    bad = ~(np.isfinite(array) & (array >= 0))
    if bad.any():
        place = np.argwhere(bad)[0]
        where = f"{_pair(place)}, outcome {place[2]}"
        raise EvidenceError(f"p: {array[tuple(place)]:g} at {where} is not a probability (finite and not negative)")
    total = array.sum(axis=2)
    wrong = np.argwhere(np.abs(total - 1.0) > SUM_TOLERANCE)
    if len(wrong):
        raise EvidenceError(
            f"p: the probabilities at {_pair(wrong[0])} sum to {total[tuple(wrong[0])]:.9g}, not to 1 within "
            f"{SUM_TOLERANCE:g}"
        )
    return np.asarray(array / total[:, :, None], dtype=np.float64)


def _checked_weights(weights: ArrayLike | None, shape: tuple[int, ...]) -> Array:
    """Weights of at most 1: a sum of huge ones would overflow."""
    array = np.ones(shape) if weights is None else np.array(weights, dtype=np.float64)
    if array.shape != shape:
        raise EvidenceError(f"weights must be instructions × groundings, {shape}, got {array.shape}")
    bad = ~(np.isfinite(array) & (array >= 0))
    if bad.any():
        place = np.argwhere(bad)[0]
        raise EvidenceError(f"weights: {array[tuple(place)]:g} at {_pair(place)} is not finite and 0 or more")
    if not array.any():
        raise EvidenceError("weights: all of them are 0, so that no pair of instruction and grounding ever occurs")
    return np.asarray(array / array.max(), dtype=np.float64)


def _pair(place: NDArray[np.intp]) -> str:
    return f"instruction {place[0]}, grounding {place[1]}"


def _factors(pairs: Array) -> tuple[Array, Array]:
    """p(s) and p(l | s), for groundings that occur at all."""
    scaled = pairs / pairs.max(axis=0)  # the least of numbers cannot be halved, but may be divided by itself
    return pairs.sum(axis=0) / pairs.sum(), scaled / scaled.sum(axis=0)
