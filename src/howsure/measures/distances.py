"""How far texts lie from one another, by their embeddings: the situational distances of an agent's trajectory."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howsure.errors import EvidenceError
from howsure.measures._checks import Array

UNIT_TOLERANCE = 1e-3
"""How far the length of a unit vector may lie from 1: half-precision embeddings are off by some 1e-4."""


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
