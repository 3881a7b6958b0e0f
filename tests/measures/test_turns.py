"""Turn statistics, one turn and many."""

import math
import warnings
from dataclasses import asdict, fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howsure.errors import EvidenceError
from howsure.measures import TurnStatistics, turn_statistics, turn_statistics_ragged

few = settings(max_examples=100, deadline=None)
turns = st.lists(st.floats(-60, 0), max_size=12)


def test_by_hand():
    assert asdict(turn_statistics([-1.0, -3.0])) == pytest.approx(
        {
            "normalized_entropy": 2.0,
            "total_entropy": 4.0,
            "token_count": 2,
            "min_uncertainty": 1.0,
            "max_uncertainty": 3.0,
            "std_uncertainty": 1.0,
            "mean_probability": (math.exp(-1) + math.exp(-3)) / 2,
        }
    )


def test_the_field_names_are_those_of_the_field():
    assert [f.name for f in fields(TurnStatistics)] == [
        "normalized_entropy",
        "total_entropy",
        "token_count",
        "min_uncertainty",
        "max_uncertainty",
        "std_uncertainty",
        "mean_probability",
    ]


def test_none_and_one_token():
    assert turn_statistics([]) is None
    assert turn_statistics([-0.25]) == TurnStatistics(0.25, 0.25, 1, 0.25, 0.25, 0.0, math.exp(-0.25))
    sure = turn_statistics([0.0])
    assert (sure.normalized_entropy, sure.mean_probability) == (0.0, 1.0)
    assert math.copysign(1, sure.total_entropy) == 1.0


def test_a_token_of_probability_zero():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = turn_statistics([-1.0, -9999.0])
        columns = turn_statistics_ragged([-1.0, -math.inf, -2.0, -math.inf], [0, 2, 2, 3, 4])
    assert got == TurnStatistics(math.inf, math.inf, 2, 1.0, math.inf, None, math.exp(-1) / 2)
    np.testing.assert_array_equal(columns.total_entropy, [math.inf, math.nan, 2.0, math.inf])
    np.testing.assert_array_equal(columns.std_uncertainty, [math.nan, math.nan, 0.0, math.nan])
    np.testing.assert_array_equal(columns.min_uncertainty, [1.0, math.nan, 2.0, math.inf])


@few
@given(turns.filter(bool))
def test_equals_numpy_and_ignores_order(logprobs):
    u = -np.array(logprobs)
    got = turn_statistics(logprobs)
    expected = [u.mean(), u.sum(), len(u), u.min(), u.max(), u.std(), np.exp(-u).mean()]
    np.testing.assert_allclose(list(asdict(got).values()), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(list(asdict(turn_statistics(logprobs[::-1])).values()), expected, rtol=1e-9, atol=1e-9)


@few
@given(st.lists(turns, max_size=10))
def test_many_turns_equal_one_at_a_time(many):
    flat = [x for turn in many for x in turn]
    columns = turn_statistics_ragged(flat, np.cumsum([0] + [len(turn) for turn in many]))
    assert columns.token_count.tolist() == [len(turn) for turn in many]
    for i, turn in enumerate(many):
        row = [float(column[i]) for column in columns]
        one = turn_statistics(turn)
        if one is None:
            assert np.isnan(np.delete(row, 2)).all()
        else:
            np.testing.assert_allclose(row, list(asdict(one).values()), rtol=1e-12)


def test_what_is_no_log_probability_is_refused():
    with pytest.raises(EvidenceError, match=r"0\.7 at token 1"):
        turn_statistics([-1.0, 0.7])
    with pytest.raises(EvidenceError, match="starts"):
        turn_statistics_ragged([-1.0, -1.0], [0, 1])
    with pytest.raises(EvidenceError, match="starts"):
        turn_statistics_ragged([-1.0, -1.0], [0, 2, 1, 2])
