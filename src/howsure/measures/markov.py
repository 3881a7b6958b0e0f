"""A source whose entropy rate is known in closed form: a Markov chain, and models of order 0 and 1 set against it."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howsure.errors import EvidenceError, InputError
from howsure.measures.checks import Array, Codes
from howsure.measures.entropy import check_probabilities, check_symbols, cross_entropy_nats, entropy_nats

Seed = int | np.random.SeedSequence


@dataclass(frozen=True, eq=False)
class MarkovModel:
    """What a model of order 0 or 1 says: p(w_1), and p(w_t | w_{t−1}) as [states × states].

    A model of order 0 has the same row for every state. Zeros are allowed: such a model rules something out.
    """

    initial: Array
    transitions: Array

    def __post_init__(self) -> None:
        transitions = _check_transitions(self.transitions)
        initial = check_probabilities(self.initial, what="initial")
        if initial.shape != transitions.shape[:1]:
            raise EvidenceError(f"initial has shape {initial.shape}, but there are {len(transitions)} states")
        object.__setattr__(self, "initial", initial)
        object.__setattr__(self, "transitions", transitions)

    def log_likelihoods_nats(self, symbols: ArrayLike) -> Array:
        """ln p(w_1 … w_n) for n = 1, 2, … up to all symbols; −inf from where the model rules a symbol out.

        >>> MarkovModel([0.5, 0.5], [[0.5, 0.5], [0.25, 0.75]]).log_likelihoods_nats([0, 1, 1]).round(4)
        array([-0.6931, -1.3863, -1.674 ])
        """
        codes = _check_states(symbols, len(self.transitions))
        steps = np.concatenate([self.initial[codes[:1]], self.transitions[codes[:-1], codes[1:]]])
        with np.errstate(divide="ignore"):  # ln 0 = −inf
            return np.cumsum(np.log(steps))


@dataclass(frozen=True, eq=False)
class MarkovSource:
    """A stationary, ergodic source: the chain with these transitions [states × states], begun as it goes on for ever.

    Every state must be reachable from every other (else the chain has parts, and one path sees only one of them), and
    the chain must have no period, so that it forgets where it began.
    """

    transitions: Array

    def __post_init__(self) -> None:
        transitions = _check_transitions(self.transitions)
        _refuse_parts(transitions > 0)
        _refuse_period(transitions > 0)
        object.__setattr__(self, "transitions", transitions)

    @cached_property
    def stationary(self) -> Array:
        """π with π P = π and Σ π = 1: how often each state is visited in the long run.

        >>> MarkovSource([[0.5, 0.5], [0.25, 0.75]]).stationary.round(4)
        array([0.3333, 0.6667])
        """
        return _stationary(self.transitions)

    @property
    def entropy_rate_nats(self) -> float:
        """−Σ_i π_i Σ_j P_ij ln P_ij: the limit of −(1/n) ln p(w_1 … w_n) along almost every path.

        >>> round(MarkovSource([[0.5, 0.5], [0.25, 0.75]]).entropy_rate_nats, 6)
        0.605939
        """
        return float(self.stationary @ entropy_nats(self.transitions))

    @property
    def model(self) -> MarkovModel:
        """The true model: what someone says who knows the source."""
        return MarkovModel(self.stationary, self.transitions)

    def cross_entropy_rate_nats(self, model: MarkovModel | MarkovSource) -> float:
        """−Σ_i π_i Σ_j P_ij ln M_ij ≥ the entropy rate: the same limit under a model M.

        Infinite where the model rules out what the source does.

        >>> source = MarkovSource([[0.5, 0.5], [0.25, 0.75]])
        >>> round(source.cross_entropy_rate_nats(MarkovModel([0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]])), 6)
        0.693147
        """
        if model.transitions.shape != self.transitions.shape:
            raise EvidenceError(f"the model has {len(model.transitions)} states, the source {len(self.transitions)}")
        return float(self.stationary @ cross_entropy_nats(self.transitions, model.transitions))

    def log_likelihoods_nats(self, symbols: ArrayLike) -> Array:
        """ln p(w_1 … w_n) for n = 1, 2, … under the source itself."""
        return self.model.log_likelihoods_nats(symbols)

    def sample(self, n: int, seed: Seed) -> Codes:
        """n states, the first drawn from the stationary distribution.

        Each step needs the one before it, so there is a loop; all chance is drawn before it, and a step is one search
        in a sorted row (0.1 µs, which no array operation over many states at a time has bettered).

        >>> MarkovSource([[0.5, 0.5], [0.25, 0.75]]).sample(5, seed=1).tolist()
        [1, 1, 0, 1, 1]
        """
        if n < 1:
            raise InputError(f"n {n!r} must be at least 1: how many symbols to draw")
        chance = np.random.default_rng(seed).random(n).tolist()
        rows = _ends(self.transitions).tolist()
        state = bisect_right(_ends(self.stationary[None])[0].tolist(), chance[0])
        path = [state]
        for u in chance[1:]:
            state = bisect_right(rows[state], u)
            path.append(state)
        return np.array(path, dtype=np.int64)


def estimate_markov(symbols: ArrayLike, states: int, order: Literal[0, 1], add_k: float) -> MarkovModel:
    """A model of order 0 or 1 from a sample, every count raised by `add_k`: p = (count + k) / (total + k · states).

    Without smoothing (`add_k` 0) a state that is never left in the sample has no row, which is an error for order 1.

    >>> estimate_markov([0, 1, 1, 0, 1], 2, order=1, add_k=1).transitions
    array([[0.25, 0.75],
           [0.5 , 0.5 ]])
    """
    codes = _check_states(symbols, states)
    if order not in (0, 1):
        raise InputError(f"order {order!r} must be 0 (each symbol by itself) or 1 (given the one before)")
    if not (math.isfinite(add_k) and add_k >= 0):
        raise InputError(f"add_k {add_k!r} must be a finite number that is not negative")
    single = _shares(np.bincount(codes, minlength=states)[None], add_k)
    if order == 0:
        return MarkovModel(single[0], np.repeat(single, states, axis=0))
    pairs = np.bincount(codes[:-1] * states + codes[1:], minlength=states * states).reshape(states, states)
    return MarkovModel(single[0], _shares(pairs, add_k))


def _shares(counts: Codes, add_k: float) -> Array:
    """(count + k) / (total + k · states) in each row."""
    raised = counts.astype(np.float64) + add_k
    totals = raised.sum(axis=1, keepdims=True)
    if not totals.all():
        state = int(np.flatnonzero(totals == 0)[0])
        raise EvidenceError(
            f"state {state} is never left in the sample, so nothing is known of what follows it: give add_k above 0 "
            "or a longer sample"
        )
    return np.asarray(raised / totals, dtype=np.float64)


def _stationary(transitions: Array) -> Array:
    """States are taken out of the chain one by one, then given their visits in turn (Grassmann, Taksar, Heyman 1985).

    Nothing is ever subtracted, so that a chain which nearly falls into parts loses no digits, as a solved system would.
    """
    p, visits = transitions.copy(), np.ones(len(transitions))
    for k in range(len(p) - 1, 0, -1):
        p[:k, k] /= p[k, :k].sum()
        p[:k, :k] += np.outer(p[:k, k], p[k, :k])
    for k in range(1, len(p)):
        visits[k] = visits[:k] @ p[:k, k]
    return np.asarray(visits / visits.sum(), dtype=np.float64)


def _ends(rows: Array) -> Array:
    """Where each state's share of [0, 1) ends. Rounding at the end goes to the last state that is possible at all."""
    ends = np.cumsum(rows, axis=1)
    ends[ends >= ends[:, -1:]] = 1.0
    return ends


# -- what is no chain, no ergodic chain -----------------------------------------------------------------------------


def _check_transitions(transitions: ArrayLike) -> Array:
    """A square matrix of which every row is a distribution; the rows are made to sum to 1 to the last digit."""
    array = np.array(transitions, dtype=np.float64)
    if array.ndim != 2 or array.shape[0] != array.shape[1] or not array.size:
        raise EvidenceError(f"transitions must be a square table [states × states], got shape {array.shape}")
    rows = check_probabilities(array, what="transitions (one distribution a row)")
    return np.asarray(rows / rows.sum(axis=1, keepdims=True), dtype=np.float64)


def _check_states(symbols: ArrayLike, states: int) -> Codes:
    codes = check_symbols(symbols)
    outside = np.flatnonzero((codes < 0) | (codes >= states))
    if len(outside):
        place = int(outside[0])
        raise EvidenceError(f"symbols: {codes[place]} at position {place} is not a state from 0 to {states - 1}")
    return codes


def _refuse_parts(step: NDArray[np.bool_]) -> None:
    """Every state must be reachable from every other; paths of doubled length at each turn of the loop."""
    reach = step | np.eye(len(step), dtype=np.bool_)
    for _ in range(math.ceil(math.log2(len(step))) if len(step) > 1 else 0):
        reach = (reach.astype(np.float64) @ reach.astype(np.float64)) > 0
    if not reach.all():
        start, goal = (int(i) for i in np.argwhere(~reach)[0])
        raise EvidenceError(
            f"state {goal} can never be reached from state {start}, so the source is not ergodic and one path does "
            "not tell of the whole: give that way a probability above 0, or leave one of the parts out"
        )


def _refuse_period(step: NDArray[np.bool_]) -> None:
    """The period of a connected chain: the greatest common divisor of depth(i) + 1 − depth(j) over all steps i → j."""
    depth = np.full(len(step), -1)
    depth[0], now = 0, np.array([0])
    while len(now):
        ahead = step[now].any(axis=0) & (depth < 0)
        depth[ahead] = depth[now[0]] + 1
        now = np.flatnonzero(ahead)
    before, after = np.nonzero(step)
    period = int(np.gcd.reduce(depth[before] + 1 - depth[after]))
    if period != 1:
        raise EvidenceError(
            f"the states come round with a period of {period}, so the source never forgets where it began: give some "
            "state a probability above 0 of following itself"
        )
