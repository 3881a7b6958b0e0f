"""A hidden Markov model with Gaussian observations, learned by EM (Baum–Welch; Rabiner, Proc. IEEE 77, 1989).

A run moves through K hidden states; in state k it shows a point drawn from a normal distribution of its own. Rows with
NaN are missing: they say nothing of the state, which moves on all the same. PyPI's hmmlearn is in limited maintenance
and knows no missing rows, hence own code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howsure.errors import EvidenceError, InputError
from howsure.measures.checks import Array
from howsure.measures.entropy import check_probabilities

STATES = 3
FLOOR = 1e-3
"""No direction of a state's spread falls below this share of the whole data's variance (in standardised columns)."""

SELF_TRANSITION = 0.8
"""Where EM begins: states last for some turns."""


@dataclass(frozen=True, eq=False)
class GaussianHMM:
    """p(state_1), p(state_t | state_{t−1}) as [states × states], and each state's mean and covariance."""

    initial: Array
    transitions: Array
    means: Array
    covariances: Array

    def __post_init__(self) -> None:
        initial = check_probabilities(self.initial, what="initial")
        transitions = check_probabilities(self.transitions, what="transitions (one distribution a row)")
        means, covariances = np.array(self.means, dtype=np.float64), np.array(self.covariances, dtype=np.float64)
        states, width = means.shape if means.ndim == 2 else (0, 0)
        shapes = (initial.shape, transitions.shape, covariances.shape)
        if not means.size or shapes != ((states,), (states, states), (states, width, width)):
            raise EvidenceError(f"initial, transitions, covariances of shapes {shapes} do not fit means {means.shape}")
        for name, value in zip(self.__dataclass_fields__, (initial, transitions, means, covariances), strict=True):
            object.__setattr__(self, name, value)
        _factors(covariances)

    @property
    def states(self) -> int:
        return len(self.initial)

    def filtered(self, sequence: ArrayLike) -> Array:
        """P(state_i | observations 1 … i) as [turns × states]: what can be known at turn i, without looking ahead.

        >>> calm_then_not = GaussianHMM([1.0, 0.0], [[0.9, 0.1], [0.0, 1.0]], [[0.0], [4.0]], [[[1.0]], [[1.0]]])
        >>> calm_then_not.filtered([[0.0], [np.nan], [4.0]])[:, 1].round(4)
        array([0.    , 0.1   , 0.9986])
        """
        return self.filtered_all([sequence])[0]

    def filtered_all(self, sequences: Sequence[ArrayLike]) -> list[Array]:
        """`filtered` of each of many sequences, all of them one turn at a time, which is far faster.

        >>> one = GaussianHMM([1.0], [[1.0]], [[0.0]], [[[1.0]]])
        >>> [probabilities.shape for probabilities in one.filtered_all([[[0.1], [0.2]], [], [[0.3]]])]
        [(2, 1), (0, 1), (1, 1)]
        """
        rows = [_check_sequence(sequence, self.means.shape[1]) for sequence in sequences]
        packed = _pack(rows)
        filtered, starts = _forward(self, packed).filtered, np.array(packed.starts, dtype=np.int64)
        longest_first = np.argsort([-len(sequence) for sequence in rows], kind="stable")
        places = np.argsort(longest_first)
        return [filtered[starts[: len(sequence)] + place] for sequence, place in zip(rows, places, strict=True)]

    def log_likelihood(self, sequence: ArrayLike) -> float:
        """ln p(observations), in nats for densities; missing rows count for nothing, an empty sequence is 0.

        >>> one = GaussianHMM([1.0], [[1.0]], [[0.0]], [[[1.0]]])
        >>> round(one.log_likelihood([[0.0], [np.nan], [1.0]]), 4)
        -2.3379
        """
        packed = _pack([_check_sequence(sequence, self.means.shape[1])])
        return float(_forward(self, packed).log_scale.sum())


class _Packed(NamedTuple):
    """All sequences in one table: first their first rows, then their second rows, and so on.

    The longest sequence comes first, so that step t continues the first `sizes[t]` sequences of step t − 1, and no
    memory goes into padding.
    """

    rows: Array
    starts: list[int]
    sizes: list[int]

    @property
    def observed(self) -> NDArray[np.bool_]:
        return np.asarray(~np.isnan(self.rows).any(axis=1))


class _Forward(NamedTuple):
    predicted: Array
    filtered: Array
    log_scale: Array


class _Expected(NamedTuple):
    smoothed: Array
    steps: Array


def fit_hmm(
    sequences: Sequence[ArrayLike],
    *,
    states: int = STATES,
    restarts: int = 5,
    iterations: int = 200,
    tolerance: float = 1e-5,
    seed: int,
) -> GaussianHMM:
    """The likeliest model that EM finds from `restarts` random starts; states are ordered by the sum of their means.

    EM stops when a step gains less than `tolerance` nats an observation. Columns are standardised first, so that their
    units do not count; covariances have no direction below `FLOOR`, which keeps a state from shrinking to one point.

    >>> calm, not_calm = [[0.1], [-0.2], [0.0]] * 5, [[5.1], [4.8], [5.2]] * 5
    >>> fit_hmm([calm + not_calm], states=2, seed=0).means.round(2).tolist()
    [[-0.03], [5.03]]
    """
    packed, centre, scale = _standardised(sequences, states)
    rng = np.random.default_rng(seed)
    fits = [_climb(_start(packed, states, rng), packed, iterations, tolerance) for _ in range(max(1, restarts))]
    best, _ = max(fits, key=lambda pair: pair[1])
    return _ordered(
        GaussianHMM(
            best.initial,
            best.transitions,
            centre + best.means * scale,
            best.covariances * np.outer(scale, scale),
        )
    )


def em_step(model: GaussianHMM, sequences: Sequence[ArrayLike], floor: float = FLOOR) -> GaussianHMM:
    """One step of EM: a model of the same states under which the sequences are at least as likely.

    That holds as long as no covariance of `model` has a direction below `floor`: clipping the eigenvalues of the usual
    estimate gives the likeliest covariance among those that respect the floor.
    """
    width = model.means.shape[1]
    packed = _pack([_check_sequence(sequence, width) for sequence in sequences])
    return _improved(model, packed, _forward(model, packed), floor)


def _climb(model: GaussianHMM, packed: _Packed, iterations: int, tolerance: float) -> tuple[GaussianHMM, float]:
    """The model after EM, and its log-likelihood."""
    enough = tolerance * packed.observed.sum()
    forward = _forward(model, packed)
    now = float(forward.log_scale.sum())
    for _ in range(iterations):
        model = _improved(model, packed, forward, FLOOR)
        forward = _forward(model, packed)
        before, now = now, float(forward.log_scale.sum())
        if now - before < enough:
            break
    return model, now


# -- expectation ------------------------------------------------------------------------------------------------------


def _forward(model: GaussianHMM, packed: _Packed) -> _Forward:
    """Predict, then weigh by how well each state explains the row; ln p(row | rows before) is the scale.

    Probabilities are scaled to sum to 1 at each turn and densities stay logarithms, so nothing under- or overflows.
    """
    log_density = _log_densities(model, packed)
    predicted, filtered = np.empty_like(log_density), np.empty_like(log_density)
    log_scale = np.empty(len(log_density))
    before = np.repeat(model.initial[None], packed.sizes[0] if packed.sizes else 0, axis=0)
    for start, size in zip(packed.starts, packed.sizes, strict=True):
        step = slice(start, start + size)
        predicted[step] = before[:size] if start == 0 else before[:size] @ model.transitions
        filtered[step], log_scale[step] = _weighed(predicted[step], log_density[step])
        before = filtered[step]
    return _Forward(predicted, filtered, log_scale)


def _weighed(prior: Array, log_density: Array) -> tuple[Array, Array]:
    """Bayes' rule, row by row: the posterior, and ln Σ prior · density."""
    with np.errstate(divide="ignore"):  # ln 0 = −inf: a state that cannot be
        joint = np.log(prior) + log_density
    top = joint.max(axis=1, keepdims=True)
    weight = np.exp(joint - top)
    total = weight.sum(axis=1, keepdims=True)
    return weight / total, (top + np.log(total))[:, 0]


def _log_densities(model: GaussianHMM, packed: _Packed) -> Array:
    """ln N(row; mean_k, covariance_k) as [rows × states]; 0 in missing rows, which explain all states alike."""
    log_density = np.zeros((len(packed.rows), model.states))
    rows, width = packed.rows[packed.observed], packed.rows.shape[1]
    for state, (mean, factor) in enumerate(zip(model.means, _factors(model.covariances), strict=True)):
        whitened = (rows - mean) @ np.linalg.inv(factor).T
        log_volume = np.log(np.diagonal(factor)).sum() + 0.5 * width * math.log(2 * math.pi)
        log_density[packed.observed, state] = -0.5 * (whitened**2).sum(axis=1) - log_volume
    return log_density


def _expected(model: GaussianHMM, packed: _Packed, forward: _Forward) -> _Expected:
    """P(state_t | all rows), and how often each state was to follow each, Σ_t P(state_{t−1}, state_t | all rows).

    Backwards from the filtered values: P(j, k) = filtered_{t−1}(j) · A_jk · smoothed_t(k) / predicted_t(k).
    """
    smoothed, counts = forward.filtered.copy(), np.zeros_like(model.transitions)
    for t in range(len(packed.sizes) - 1, 0, -1):
        now = slice(packed.starts[t], packed.starts[t] + packed.sizes[t])
        before = slice(packed.starts[t - 1], packed.starts[t - 1] + packed.sizes[t])
        possible = forward.predicted[now] > 1e-300
        ratio = np.divide(smoothed[now], forward.predicted[now], out=np.zeros(possible.shape), where=possible)
        counts += forward.filtered[before].T @ ratio * model.transitions
        smoothed[before] = forward.filtered[before] * (ratio @ model.transitions.T)
    return _Expected(smoothed, counts)


# -- maximisation -----------------------------------------------------------------------------------------------------


def _improved(model: GaussianHMM, packed: _Packed, forward: _Forward, floor: float) -> GaussianHMM:
    expected = _expected(model, packed, forward)
    begun = expected.smoothed[: packed.sizes[0]].sum(axis=0)
    weights = expected.smoothed[packed.observed]
    means, covariances = _moments(model, packed.rows[packed.observed], weights, floor)
    return GaussianHMM(
        _shares(begun[None], model.initial[None])[0], _shares(expected.steps, model.transitions), means, covariances
    )


def _shares(counts: Array, old: Array) -> Array:
    """Each row divided by its sum; a row of which nothing was seen stays as it was."""
    totals = counts.sum(axis=1, keepdims=True)
    return np.where(totals > 0, counts / np.where(totals > 0, totals, 1.0), old)


def _moments(model: GaussianHMM, rows: Array, weights: Array, floor: float) -> tuple[Array, Array]:
    means, covariances = model.means.copy(), model.covariances.copy()
    for state, weight in enumerate(weights.T):
        total = weight.sum()
        if total < 1e-12:  # a state that no row is in: nothing is known of it
            continue
        means[state] = weight @ rows / total
        centred = rows - means[state]
        covariances[state] = _clipped((centred * weight[:, None]).T @ centred / total, floor)
    return means, covariances


def _clipped(covariance: Array, floor: float) -> Array:
    values, directions = np.linalg.eigh(covariance)
    return np.asarray((directions * np.maximum(values, floor)) @ directions.T, dtype=np.float64)


# -- beginning and end ------------------------------------------------------------------------------------------------


def _start(packed: _Packed, states: int, rng: np.random.Generator) -> GaussianHMM:
    """Means on rows far from each other (k-means++), the spread of all the data, states that last."""
    rows = packed.rows[packed.observed]
    means = rows[rng.integers(len(rows))][None]
    for _ in range(states - 1):
        distance = ((rows[:, None] - means) ** 2).sum(axis=2).min(axis=1)
        chance = distance / distance.sum() if distance.sum() > 0 else None
        means = np.concatenate([means, rows[rng.choice(len(rows), p=chance)][None]])
    spread = _clipped(np.atleast_2d(np.cov(rows, rowvar=False, bias=True)), FLOOR)
    stay = SELF_TRANSITION * np.eye(states) + (1 - SELF_TRANSITION) / states
    return GaussianHMM(np.full(states, 1 / states), stay, means, np.repeat(spread[None], states, axis=0))


def _ordered(model: GaussianHMM) -> GaussianHMM:
    """The calmest state first."""
    order = np.argsort(model.means.sum(axis=1), kind="stable")
    return GaussianHMM(
        model.initial[order], model.transitions[np.ix_(order, order)], model.means[order], model.covariances[order]
    )


def _standardised(sequences: Sequence[ArrayLike], states: int) -> tuple[_Packed, Array, Array]:
    """The packed rows less their mean, over their standard deviation (1 for a column that never changes)."""
    if states < 1:
        raise InputError(f"states {states!r} must be at least 1")
    packed = _pack([_check_sequence(sequence, None) for sequence in sequences])
    rows = packed.rows[packed.observed]
    if len(rows) < states:
        raise InputError(f"a model of {states} states cannot be learned from {len(rows)} known observations")
    centre, scale = rows.mean(axis=0), rows.std(axis=0)
    scale = np.where(scale > 1e-9 * (1 + np.abs(centre)), scale, 1.0)
    return packed._replace(rows=(packed.rows - centre) / scale), centre, scale


def _pack(sequences: Sequence[Array]) -> _Packed:
    longest_first = sorted((sequence for sequence in sequences if len(sequence)), key=len, reverse=True)
    widths = {sequence.shape[1] for sequence in longest_first}
    if len(widths) > 1:
        raise EvidenceError(f"sequences must have the same number of columns, got {sorted(widths)}")
    if not longest_first:
        return _Packed(np.empty((0, 1)), [], [])
    lengths = np.array([len(sequence) for sequence in longest_first])
    turn = np.concatenate([np.arange(length) for length in lengths])
    sizes = np.bincount(turn)
    starts = np.cumsum(sizes) - sizes
    rows = np.concatenate(longest_first)[np.argsort(turn, kind="stable")]
    return _Packed(rows, starts.tolist(), sizes.tolist())


def _check_sequence(sequence: ArrayLike, width: int | None) -> Array:
    """Turns as [turns × columns]; NaN is missing, infinity is refused."""
    rows = np.array(sequence, dtype=np.float64)
    if rows.size == 0 and rows.ndim == 1:
        rows = rows.reshape(0, 1 if width is None else width)
    if rows.ndim != 2 or (width is not None and rows.shape[1] != width):
        allowed = "[turns × columns]" if width is None else f"[turns × {width}]"
        raise EvidenceError(f"a sequence must be a table {allowed}, got shape {rows.shape}")
    if np.isinf(rows).any():
        turn, column = (int(i) for i in np.argwhere(np.isinf(rows))[0])
        raise EvidenceError(f"sequence: {rows[turn, column]:g} at turn {turn}, column {column} is not a finite number")
    return rows


def _factors(covariances: Array) -> Array:
    """Cholesky factors; what has none is no covariance."""
    try:
        return np.asarray(np.linalg.cholesky(covariances), dtype=np.float64)
    except np.linalg.LinAlgError as error:
        raise EvidenceError("covariances must be symmetric and positive definite") from error
