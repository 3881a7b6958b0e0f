"""Learned weights, adapted from SAUP, each run scored by weights that were learned on other tasks.

In each fold a hidden Markov model of three states is fitted to the distances (D_a, D_o) of the training runs, then the
weight of each state to their failures. The held-out runs are scored with both. Pooled are the scores, in nats, and not
the probabilities of the logistic regression: its intercept is high where few of the held-out runs failed, and would
turn noise into an AUROC below one half. Weights are divided by their root mean square over the training turns, so that
the scores of all folds are on one scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from howsure.errors import InputError
from howsure.measures import (
    GaussianHMM,
    StateWeights,
    final_value,
    fit_hmm,
    fit_state_weights,
    running_weighted,
    state_features,
    turn_weights,
)

Array = NDArray[np.float64]
Places = NDArray[np.intp]

NO_OTHER_TASK = "there is only one task, so that no weights can be learned on others"
NO_EVIDENCE = "no turn has both an uncertainty and a way to know its state"


def task_folds(tasks: Sequence[str], folds: int) -> list[tuple[Places, Places]]:
    """(fitted on, held out) by place, all runs of a task on one side; none for fewer than two tasks.

    Each run is held out once. The split is decided by the tasks alone (scikit-learn's GroupKFold), not by chance.

    >>> [(fit.tolist(), out.tolist()) for fit, out in task_folds(["a", "b", "a"], 5)]
    [([1], [0, 2]), ([0, 2], [1])]
    """
    splits = min(folds, len(set(tasks)))
    if splits < 2:
        return []
    from sklearn.model_selection import GroupKFold

    return list(GroupKFold(n_splits=splits).split(np.zeros(len(tasks)), groups=np.asarray(tasks)))


class Run(NamedTuple):
    """One run: U_i in nats and (D_a, D_o) of its turns, NaN where missing, and how it ended."""

    uncertainty: Array
    distances: Array
    failed: bool
    task: str


class Fold(NamedTuple):
    """What was learned from the other tasks, or the reason why nothing could be.

    `scale` is the root mean square of W_i over the training turns, by which the weights are divided.
    `left_out` counts training runs with nothing known, or with an infinite turn, which say nothing about weights.
    """

    held_out: tuple[int, ...]
    model: GaussianHMM | None
    weights: StateWeights | None
    scale: float | None
    left_out: int
    reason: str | None


class CrossValidated(NamedTuple):
    """For each run its score (None where there is none), its value after each turn, and why there is no score."""

    scores: tuple[float | None, ...]
    running: tuple[Array | None, ...]
    reasons: tuple[str | None, ...]
    folds: tuple[Fold, ...]


def cross_validate(runs: Sequence[Run], *, folds: int = 5, penalty: float = 1.0, seed: int) -> CrossValidated:
    """Scores of all runs, each from a fold that was fitted without its task."""
    scores: list[float | None] = [None] * len(runs)
    running: list[Array | None] = [None] * len(runs)
    reasons: list[str | None] = [NO_OTHER_TASK] * len(runs)
    fitted = []
    for number, (fit, held_out) in enumerate(task_folds([run.task for run in runs], folds)):
        fold = _learn([runs[i] for i in fit], held_out, penalty, seed + number)
        fitted.append(fold)
        for i in held_out:
            scores[i], running[i], reasons[i] = _score(runs[i], fold)
    return CrossValidated(tuple(scores), tuple(running), tuple(reasons), tuple(fitted))


def _learn(training: Sequence[Run], held_out: Places, penalty: float, seed: int) -> Fold:
    places = tuple(int(i) for i in held_out)
    known = [run for run in training if _is_known(run)]
    try:
        model = fit_hmm([run.distances for run in known], seed=seed)
        states = model.filtered_all([run.distances for run in known])
        pairs = [(state_features(run.uncertainty, gamma), run) for run, gamma in zip(known, states, strict=True)]
        finite = [(s, run.failed) for s, run in pairs if s is not None and np.isfinite(s).all()]
        if not finite:
            raise InputError("weights cannot be learned: no run of the other tasks has finite uncertainties")
        table = np.array([features for features, _ in finite])
        weights = fit_state_weights(table, [failed for _, failed in finite], penalty=penalty)
    except InputError as error:
        return Fold(places, None, None, None, len(training) - len(known), str(error))
    scale = _root_mean_square(known, states, weights)
    return Fold(places, model, weights, scale, len(training) - len(finite), None)


def _root_mean_square(known: Sequence[Run], states: Sequence[Array], weights: StateWeights) -> float:
    """Of W_i over the turns whose uncertainty is known."""
    counted = np.concatenate([gamma[~np.isnan(run.uncertainty)] for run, gamma in zip(known, states, strict=True)])
    return float(np.sqrt((turn_weights(counted, weights.weights) ** 2).mean()))


def _score(run: Run, fold: Fold) -> tuple[float | None, Array | None, str | None]:
    if fold.model is None or fold.weights is None or not fold.scale:
        return None, None, fold.reason or "the states that count were never met in the other tasks"
    if not _is_known(run):
        return None, None, NO_EVIDENCE
    w = turn_weights(fold.model.filtered(run.distances), fold.weights.weights) / fold.scale
    running = running_weighted(run.uncertainty, w)
    return final_value(running, run.uncertainty, w).value, running, None


def _is_known(run: Run) -> bool:
    """Some turn has an uncertainty, and some turn has its distances: the state of a run that shows none is a guess."""
    seen = ~np.isnan(run.distances).any(axis=1)
    return bool(seen.any() and (~np.isnan(run.uncertainty)).any())
