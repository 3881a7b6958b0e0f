"""Runs made up so that the truth is known: what went wrong, where, and whether uncertainty tells of it."""

from __future__ import annotations

import numpy as np

from howsure.measures import GaussianHMM
from howsure.studies.trajectories.breakdown import Watched
from howsure.studies.trajectories.learned import Run

MEAN_NATS, SD_NATS = 1.0, 0.3

STATES = GaussianHMM(
    [1.0, 0.0, 0.0],
    [[0.85, 0.12, 0.03], [0.2, 0.7, 0.1], [0.03, 0.07, 0.9]],
    [[0.2, 0.2], [0.45, 0.4], [0.8, 0.75]],
    np.repeat([np.eye(2) * 0.08**2], 3, axis=0),
)
"""On course, exploring, deviated: how far a turn lies from the task and from what it answers."""


def with_change_points(seed, *, tasks=60, trials=4, shift_sds=3.0):
    """Runs of which four in ten fail, from a turn on at which uncertainty rises; and where that turn is.

    With a shift of 0 uncertainty knows nothing of failure.
    """
    rng = np.random.default_rng(seed)
    runs, changes = [], []
    for task in range(tasks):
        for _ in range(trials):
            turns, failed = int(rng.integers(14, 30)), bool(rng.random() < 0.4)
            u = rng.normal(MEAN_NATS, SD_NATS, size=turns)
            change = int(rng.integers(5, turns - 4)) if failed else None
            if change is not None:
                u[change:] += shift_sds * SD_NATS
            u[rng.random(turns) < 0.1] = np.nan
            after = 2 * np.arange(turns)[::-1] + 1  # the other side speaks after each turn
            marks = {"tool_error": (change,)} if change is not None else {}
            runs.append(Watched(np.maximum(u, 0.0), after, failed, f"task {task}", marks))
            changes.append(change)
    return runs, changes


def with_states(seed, *, tasks=60, trials=4, signal=8.0):
    """Runs that fail for the uncertainty of their deviated turns alone; with a signal of 0, for nothing at all."""
    rng = np.random.default_rng(seed)
    return [_with_states(rng, f"task {task}", signal) for task in range(tasks) for _ in range(trials)]


def _with_states(rng, task, signal):
    turns = int(rng.integers(10, 30))
    state = [0]
    while len(state) < turns:
        state.append(rng.choice(3, p=STATES.transitions[state[-1]]))
    distances = STATES.means[state] + 0.08 * rng.normal(size=(turns, 2))
    u = rng.gamma(3.0, MEAN_NATS / 3, size=turns)
    log_odds = signal * ((u**2 * (np.array(state) == 2)).mean() - 0.25)
    failed = bool(rng.random() < 1 / (1 + np.exp(-log_odds)))
    distances[rng.random(turns) < 0.1] = np.nan
    u[rng.random(turns) < 0.05] = np.nan
    return Run(u, distances, failed, task)
