"""Distances of embeddings: values worked out by hand, the definition written out, and what is missing."""

from __future__ import annotations

import math

import numpy as np
import pytest

from howsure.errors import EvidenceError
from howsure.measures import cosine_distance, inference_gap, inquiry_drift

NAN = float("nan")
EAST, NORTH, WEST = [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]


def random_units(rows: int, seed: int = 0, dimensions: int = 384) -> np.ndarray:
    found = np.random.default_rng(seed).normal(size=(rows, dimensions))
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def test_cosine_distance_by_hand() -> None:
    assert cosine_distance(EAST, EAST) == 0.0
    assert cosine_distance(EAST, NORTH) == 1.0
    assert cosine_distance(EAST, WEST) == 2.0
    assert cosine_distance([0.6, 0.8], EAST) == pytest.approx(0.4, abs=1e-15)
    assert cosine_distance([EAST, NORTH, WEST], EAST).tolist() == [0.0, 1.0, 2.0]
    assert cosine_distance([EAST, NORTH], [WEST, NORTH]).tolist() == [2.0, 0.0]


def test_rounding_does_not_lead_out_of_the_range() -> None:
    units = random_units(200).astype(np.float32)
    assert (cosine_distance(units, units) >= 0).all()
    assert (cosine_distance(units, -units) <= 2).all()


def test_scipy_agrees() -> None:
    from scipy.spatial.distance import cosine

    a, b = random_units(5), random_units(5, seed=1)
    assert cosine_distance(a, b) == pytest.approx([cosine(x, y) for x, y in zip(a, b, strict=True)], abs=1e-12)


def test_inquiry_drift_by_hand() -> None:
    """East; then the mean of east and north, 45° off; then north twice, so that (1, 2)/√5."""
    expected = [0.0, 1 - math.sqrt(0.5), 1 - 1 / math.sqrt(5)]
    assert inquiry_drift(EAST, [EAST, NORTH, NORTH]) == pytest.approx(expected, abs=1e-12)


def test_inquiry_drift_written_out() -> None:
    task, turns = random_units(1)[0], random_units(9, seed=2)
    for i, found in enumerate(inquiry_drift(task, turns)):
        mean = turns[: i + 1].mean(axis=0)
        assert found == pytest.approx(1 - mean @ task / np.linalg.norm(mean), abs=1e-12)


def test_turns_that_are_not_known_are_left_out_and_stay_nan() -> None:
    found = inquiry_drift(EAST, [[NAN, NAN], EAST, [NAN, NAN], NORTH])
    assert np.isnan(found[[0, 2]]).all()
    assert found[[1, 3]] == pytest.approx([0.0, 1 - math.sqrt(0.5)], abs=1e-12)
    masked = inquiry_drift(EAST, [WEST, EAST, WEST, NORTH], known=[False, True, False, True])
    assert np.array_equal(masked, found, equal_nan=True)


def test_a_task_that_is_not_known_has_no_drift() -> None:
    assert np.isnan(inquiry_drift([NAN, NAN], [EAST, NORTH])).all()


def test_vectors_that_cancel_out_have_no_direction() -> None:
    found = inquiry_drift(NORTH, [EAST, WEST, NORTH])
    assert found[0] == 1.0
    assert np.isnan(found[1])
    assert found[2] == 0.0


def test_a_trajectory_without_turns() -> None:
    assert inquiry_drift(EAST, np.empty((0, 2))).shape == (0,)
    assert inference_gap(np.empty((0, 2)), np.empty((0, 2))).shape == (0,)


def test_inference_gap_by_hand() -> None:
    found = inference_gap([EAST, [NAN, NAN], NORTH, [0.6, 0.8]], [EAST, EAST, [NAN, NAN], NORTH])
    assert found[[0, 3]] == pytest.approx([0.0, 0.2], abs=1e-12)
    assert np.isnan(found[[1, 2]]).all()


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ([0.0, 0.0], EAST, "length 0 at row 0 is not 1, and not a row of NaN"),
        ([EAST, [3.0, 4.0]], EAST, "length 5 at row 1"),
        (EAST, [NAN, 1.0], "length nan at row 0"),
        (EAST, [1.0, 0.0, 0.0], "cannot be compared"),
        ([EAST, EAST], [EAST, EAST, EAST], "cannot be compared"),
        (1.0, EAST, "must be a vector or rows"),
    ],
)
def test_what_is_no_unit_vector_is_refused(first, second, said: str) -> None:
    with pytest.raises(EvidenceError, match=said):
        cosine_distance(first, second)


def test_a_mask_of_the_wrong_kind_is_refused() -> None:
    for known in ([1.0, 0.5], [True], [True, True, False]):
        with pytest.raises(EvidenceError, match="known must hold true or false for each of the 2 turns"):
            inquiry_drift(EAST, [EAST, NORTH], known)
    with pytest.raises(EvidenceError, match="do not go together"):
        inquiry_drift(EAST, random_units(2))
