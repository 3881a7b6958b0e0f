"""The weighted entropy of three steps that a model wrote probabilities for."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from howsure.errors import EvidenceError
from howsure.measures import entropy_nats, nats_to_bits
from howsure.measures.entropy import STEP_WEIGHTS, verbalized_entropy_nats

entropies = st.lists(st.floats(0, 10), min_size=3, max_size=3)

STEPS = ([0.65, 0.15, 0.12, 0.08], [0.45, 0.30, 0.15, 0.10], [0.40, 0.35, 0.15, 0.10])


def test_by_hand():
    by_step = [-sum(p * math.log2(p) for p in step) for step in STEPS]
    expected_bits = 0.5 * by_step[0] + 0.3 * by_step[1] + 0.2 * by_step[2]
    got = verbalized_entropy_nats([entropy_nats(step) for step in STEPS])
    assert nats_to_bits(got) == pytest.approx(expected_bits, abs=1e-12)
    assert expected_bits == pytest.approx(1.6315345260251521, abs=1e-12)


def test_three_fair_coins_in_four_directions_are_two_bits():
    assert nats_to_bits(verbalized_entropy_nats([math.log(4)] * 3)) == pytest.approx(2.0, abs=1e-12)


@given(entropies)
def test_equals_numpy_and_lies_between_the_steps(values):
    got = verbalized_entropy_nats(values)
    assert got == pytest.approx(np.average(values, weights=STEP_WEIGHTS), abs=1e-12)
    assert min(values) - 1e-12 <= got <= max(values) + 1e-12


@given(entropies, st.integers(0, 2), st.sampled_from([None, math.nan]))
def test_a_missing_step_is_not_made_up_for_by_the_others(values, place, missing):
    values[place] = missing
    assert verbalized_entropy_nats(values) is None


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 1.0], [1.0] * 4, [1.0, -0.1, 1.0], [1.0, math.inf, None]])
def test_what_is_no_three_entropies_is_an_error(values):
    with pytest.raises(EvidenceError):
        verbalized_entropy_nats(values)
