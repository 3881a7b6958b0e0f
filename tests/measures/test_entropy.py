"""Entropy, cross-entropy, KL divergence, perplexity and units."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from howsure.errors import EvidenceError
from howsure.measures import (
    NATS_PER_BIT,
    bits_to_nats,
    cross_entropy_nats,
    entropy_from_logprobs_nats,
    entropy_nats,
    kl_nats,
    nats_to_bits,
    perplexity,
)

few = settings(max_examples=100, deadline=None)
weights = hnp.arrays(np.float64, st.integers(1, 12), elements=st.floats(0, 1)).filter(lambda w: w.sum() > 1e-3)
distributions = weights.map(lambda w: w / w.sum())
pairs = st.integers(1, 8).flatmap(
    lambda n: st.tuples(*[hnp.arrays(np.float64, n, elements=st.floats(0.001, 1)).map(lambda w: w / w.sum())] * 2)
)


def test_units_by_hand():
    assert pytest.approx(0.6931471805599453) == NATS_PER_BIT
    assert nats_to_bits(3 * math.log(2)) == pytest.approx(3.0)
    assert bits_to_nats(2) == pytest.approx(math.log(4))
    assert nats_to_bits(None) is None
    assert bits_to_nats(None) is None
    np.testing.assert_allclose(nats_to_bits(np.log([2.0, 8.0])), [1.0, 3.0])
    np.testing.assert_allclose(bits_to_nats([1.0, np.nan]), [math.log(2), np.nan])


def test_entropy_by_hand():
    assert entropy_nats([0.5, 0.25, 0.25]) == pytest.approx(1.5 * math.log(2))
    assert entropy_nats([1.0, 0.0]) == 0.0
    assert entropy_nats([1.0]) == 0.0
    assert isinstance(entropy_nats([1.0]), float)


def test_entropy_of_the_uniform_is_log_n():
    for n in (2, 7, 50_257):
        assert entropy_nats(np.full(n, 1 / n)) == pytest.approx(math.log(n))
        assert entropy_from_logprobs_nats(np.full(n, -math.log(n))) == pytest.approx(math.log(n))


@few
@given(distributions)
def test_entropy_is_the_naive_sum_and_scipy(p):
    from scipy.stats import entropy

    naive = -sum(float(x) * math.log(x) for x in p if x > 0)
    assert entropy_nats(p) == pytest.approx(naive, abs=1e-12)
    assert entropy_nats(p) == pytest.approx(float(entropy(p)), abs=1e-9)
    assert entropy_nats(p[::-1]) == pytest.approx(entropy_nats(p), abs=1e-12)
    with np.errstate(divide="ignore"):
        logprobs = np.minimum(np.log(p), 0)
    assert entropy_from_logprobs_nats(logprobs) == pytest.approx(naive, abs=1e-9)


def test_entropy_runs_along_the_axis():
    table = np.array([[0.5, 1.0], [0.5, 0.0]])
    np.testing.assert_allclose(entropy_nats(table, axis=0), [math.log(2), 0.0])
    np.testing.assert_allclose(entropy_nats(table.T), [math.log(2), 0.0])
    np.testing.assert_allclose(entropy_from_logprobs_nats(np.log([[0.5, 0.5], [0.9, 0.1]])), [0.6931472, 0.3250830])


def test_log_space_holds_at_a_gap_of_120_nats():
    tail = -120.0
    expected = -math.exp(tail) * tail + math.exp(tail)  # −q ln q − (1−q) ln(1−q) with ln(1−q) ≈ −q
    assert entropy_from_logprobs_nats([0.0, tail]) == pytest.approx(expected, rel=1e-2)
    assert entropy_from_logprobs_nats([0.0, -9999.0]) == 0.0


def test_rounding_of_a_float32_softmax_is_divided_out():
    logprobs = np.log([0.5, 0.5]) + 5e-4
    assert entropy_from_logprobs_nats(logprobs) == pytest.approx(math.log(2), abs=1e-12)
    with pytest.raises(EvidenceError, match=r"sum to 1\.5"):
        entropy_from_logprobs_nats(np.log([0.75, 0.75]))


@pytest.mark.parametrize(
    ("p", "message"),
    [
        ([0.5, 0.4], "sum to 0.9 in distribution 0"),
        ([0.5, -0.1, 0.6], "-0.1 at position 1"),
        ([0.5, float("nan")], "nan at position 1"),
        ([float("inf"), 0.0], "inf at position 0"),
        ([], "sum to 0"),
        ([[1.0, 0.0], [0.5, 0.6]], "distribution 1"),
        (1.0, "single number"),
    ],
)
def test_what_is_no_distribution_is_refused_with_its_place(p, message):
    with pytest.raises(EvidenceError, match=message):
        entropy_nats(p)


def test_cross_entropy_and_kl_by_hand():
    p, m = [0.5, 0.5], [0.25, 0.75]
    assert cross_entropy_nats(p, m) == pytest.approx(-0.5 * math.log(0.25) - 0.5 * math.log(0.75))
    assert kl_nats(p, m) == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(2 / 3))
    assert kl_nats([1.0, 0.0], [1.0, 0.0]) == 0.0
    assert cross_entropy_nats([0.0, 1.0], [0.5, 0.5]) == pytest.approx(math.log(2))


def test_a_model_that_rules_out_what_happens_costs_infinitely_much():
    assert cross_entropy_nats([0.5, 0.5], [1.0, 0.0]) == math.inf
    assert kl_nats([0.5, 0.5], [1.0, 0.0]) == math.inf
    assert kl_nats([1.0, 0.0], [0.5, 0.5]) == pytest.approx(math.log(2))
    with pytest.raises(EvidenceError, match="same outcomes"):
        kl_nats([1.0], [0.5, 0.5])


@few
@given(pairs)
def test_cross_entropy_is_entropy_plus_kl_and_scipy(both):
    from scipy.stats import entropy

    p, m = both
    assert cross_entropy_nats(p, m) == pytest.approx(entropy_nats(p) + kl_nats(p, m), abs=1e-9)
    assert kl_nats(p, m) >= 0
    assert kl_nats(p, m) == pytest.approx(float(entropy(p, m)), abs=1e-9)


def test_perplexity_by_hand():
    assert perplexity([-1.0, -3.0]) == pytest.approx(math.e**2)
    assert perplexity(np.full(10, -math.log(7))) == pytest.approx(7.0)
    assert perplexity([0.0]) == 1.0
    assert perplexity([]) is None


def test_perplexity_beyond_floating_point_is_infinite():
    assert perplexity([-9000.0]) == math.inf
    assert perplexity([-1.0, -math.inf]) == math.inf
    assert perplexity([-709.0]) == pytest.approx(math.exp(709))


@few
@given(st.lists(st.floats(-50, 0), min_size=1, max_size=20))
def test_perplexity_is_two_to_the_cross_entropy_in_bits(logprobs):
    bits = nats_to_bits(-sum(logprobs) / len(logprobs))
    assert perplexity(logprobs) == pytest.approx(2**bits, rel=1e-9)
    assert perplexity(logprobs[::-1]) == pytest.approx(perplexity(logprobs), rel=1e-12)
