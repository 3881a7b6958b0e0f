"""Weights, adapted from SAUP, learned from runs whose end is known: which hidden state's uncertainty speaks of failure?

With P(state k at turn i) = γ_i(k), the squared weight of a turn is W_i² = Σ_k γ_i(k) v_k. So the squared score is a
sum of as many parts as there are states, U² = Σ_k v_k S_k with S_k = (1/n) Σ_i γ_i(k) U_i², and learning the v_k ≥ 0 is
a logistic regression on the S_k.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from howsure.errors import EvidenceError, InputError
from howsure.measures.checks import Array, binary_vector, refuse, vector
from howsure.measures.propagation import Turns, check_uncertainty

STEEP = 10.0
"""A slope of this size costs as much as weights that are 1 off. Without a cost, few runs could be told apart by weights
next to 1 and a slope next to infinity."""


class StateWeights(NamedTuple):
    """v_k of each state, 1 on average; the logistic regression behind it is ln odds = intercept + slope · Σ v_k S_k.

    `slope` is 0 where no weights make a higher score go with failure; then the v_k are all 1.
    """

    weights: Array
    slope: float
    intercept: float


def state_features(uncertainty: Turns, state_probabilities: ArrayLike) -> Array | None:
    """S_k = (1/n) Σ_i γ_i(k) U_i² over the n known turns: the mean square of U, split among the states.

    None where no turn is known. A turn that cannot be in a state adds nothing to it, be it infinite.

    >>> state_features([1.0, 2.0, None], [[1.0, 0.0], [0.25, 0.75], [0.5, 0.5]])
    array([1. , 1.5])
    """
    u, gamma = check_uncertainty(uncertainty), _check_gamma(state_probabilities)
    if len(u) != len(gamma):
        raise EvidenceError(f"uncertainty and state probabilities must be of one length, got {len(u)} and {len(gamma)}")
    known = ~(np.isnan(u) | np.isnan(gamma).any(axis=1))
    if not known.any():
        return None
    squares = np.where(gamma[known] > 0, u[known, None] ** 2, 0.0)
    return np.asarray((gamma[known] * squares).mean(axis=0), dtype=np.float64)


def turn_weights(state_probabilities: ArrayLike, weights: ArrayLike) -> Array:
    """W_i = sqrt(Σ_k γ_i(k) v_k) of each turn; NaN where the state probabilities are missing.

    >>> turn_weights([[1.0, 0.0], [0.5, 0.5]], [0.0, 2.0])
    array([0., 1.])
    """
    gamma, v = _check_gamma(state_probabilities), vector(weights, "weights")
    if v.shape != gamma.shape[1:]:
        raise EvidenceError(f"there are {len(v)} weights, but {gamma.shape[1]} states")
    refuse(v, ~((v >= 0) & (v < np.inf)), "weights", "a finite number, 0 or more")
    return np.sqrt(gamma @ v)


def fit_state_weights(features: ArrayLike, failed: ArrayLike, *, penalty: float = 1.0) -> StateWeights:
    """Weights v_k ≥ 0 under which Σ_k v_k S_k tells failed runs from the others, by penalised logistic regression.

    Minimises −Σ ln P(what happened) + penalty/2 [Σ_k (v_k − 1)² + (a/10)²], with ln odds = b + a Σ_k v_k S_k / scale, a
    slope a ≥ 0 that all states share, and one scale for all, the mean of Σ_k S_k. So the v_k leave 1 only for as many
    nats of likelihood as that costs, and without any signal (a = 0) they stay equal. They are divided by their mean at
    the end.

    >>> features = [[3.0, 0.1], [4.0, 0.2], [1.0, 1.9], [1.2, 2.2], [3.1, 0.0], [0.5, 2.5]]
    >>> fit_state_weights(features, [0, 0, 1, 1, 0, 1], penalty=0.1).weights.round(1)
    array([0., 2.])
    """
    s, y = _check_features(features), binary_vector(failed, "failed")
    if len(s) != len(y):
        raise EvidenceError(f"features and failed must be of one length, got {len(s)} and {len(y)}")
    if len(np.unique(y)) < 2:
        raise InputError("weights cannot be learned unless there are both failed and successful runs")
    scale = float(s.sum(axis=1).mean())
    if scale == 0:
        return StateWeights(np.ones(s.shape[1]), 0.0, _log_odds(y))
    minima = [_minimum(s / scale, y, start, penalty) for start in _starts(s, y)]
    intercept, slope, *v = min(minima, key=lambda minimum: minimum.fun).x
    return _normalised(np.array(v), slope / scale, intercept, y)


def _normalised(v: Array, slope: float, intercept: float, y: Array) -> StateWeights:
    mean = float(v.mean())
    if slope <= 0 or mean <= 0:
        return StateWeights(np.ones(len(v)), 0.0, _log_odds(y))
    return StateWeights(v / mean, float(slope * mean), float(intercept))


def _minimum(s: Array, y: Array, start: Array, penalty: float) -> Any:
    from scipy.optimize import minimize

    bounds = [(None, None), (0.0, None)] + [(0.0, None)] * s.shape[1]
    return minimize(_loss, start, args=(s, y, penalty), jac=True, method="L-BFGS-B", bounds=bounds)


def _loss(theta: Array, s: Array, y: Array, penalty: float) -> tuple[float, Array]:
    """The function above at θ = (b, a, v_1 … v_K), and its gradient."""
    intercept, slope, v = theta[0], theta[1], theta[2:]
    score = s @ v
    log_odds = intercept + slope * score
    departure = ((v - 1) ** 2).sum() + (slope / STEEP) ** 2
    loss = np.logaddexp(0.0, log_odds).sum() - y @ log_odds + penalty / 2 * departure
    excess = np.exp(-np.logaddexp(0.0, -log_odds)) - y
    by_slope = excess @ score + penalty * slope / STEEP**2
    return float(loss), np.concatenate([[excess.sum(), by_slope], slope * (excess @ s) + penalty * (v - 1)])


def _starts(s: Array, y: Array) -> list[Array]:
    """Equal weights, and each state alone: slope times weight is a product, so one start may miss the best end."""
    states = s.shape[1]
    alone = [*(states * np.eye(states)), np.ones(states)]
    return [np.concatenate([[_log_odds(y) - 1.0, 1.0], v]) for v in alone]


def _log_odds(y: Array) -> float:
    return float(np.log(y.mean()) - np.log(1 - y.mean()))


def _check_gamma(state_probabilities: ArrayLike) -> Array:
    gamma = np.array(state_probabilities, dtype=np.float64)
    if gamma.ndim != 2:
        raise EvidenceError(f"state probabilities must be a table [turns × states], got shape {gamma.shape}")
    refuse(gamma, (gamma < 0) | (gamma > 1 + 1e-9), "state probabilities", "between 0 and 1")
    return gamma


def _check_features(features: ArrayLike) -> Array:
    s = np.array(features, dtype=np.float64)
    if s.ndim != 2 or not s.shape[1]:
        raise EvidenceError(f"features must be a table [runs × states], got shape {s.shape}")
    refuse(s, ~((s >= 0) & (s < np.inf)), "features", "a finite number, 0 or more (leave such runs out)")
    return s
