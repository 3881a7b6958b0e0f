"""Two runs over the same items."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howsure.errors import EvidenceError
from howsure.measures import McNemar, mcnemar_exact, mean_interval, paired_means, paired_rates, paired_shares
from howsure.measures.paired import _tango

few = settings(max_examples=100, deadline=None)


def test_mcnemar_by_hand():
    a = [1, 1, 1, 1, 0, 0, 0, 0, 0, 0]
    b = [1, 0, 1, 1, 1, 1, 1, 1, 1, 0]
    got = mcnemar_exact(a, b)
    assert got == McNemar(3, 1, 5, 1, got.p_value)
    assert got.p_value == pytest.approx(2 * (1 + 6) / 64)  # P(X ≤ 1) of six tosses, twice


@few
@given(st.integers(0, 40), st.integers(0, 40))
def test_mcnemar_is_the_binomial_test(only_a, only_b):
    from scipy.stats import binomtest

    a = np.array([1] * only_a + [0] * only_b + [1, 0])
    b = np.array([0] * only_a + [1] * only_b + [1, 0])
    got = mcnemar_exact(a, b)
    assert (got.only_a_correct, got.only_b_correct, got.both_correct, got.both_wrong) == (
        only_a,
        only_b,
        1,
        1,
    )
    n = only_a + only_b
    assert got.p_value == pytest.approx(binomtest(only_a, n).pvalue if n else 1.0)
    naive = sum(math.comb(n, k) for k in range(min(only_a, only_b) + 1)) * 2 / 2**n
    assert got.p_value == pytest.approx(min(1.0, naive))
    assert mcnemar_exact(b, a).p_value == got.p_value


def test_mcnemar_without_differences():
    assert mcnemar_exact([1, 0, 1], [1, 0, 1]).p_value == 1.0
    assert mcnemar_exact([], []) == McNemar(0, 0, 0, 0, 1.0)


def test_mcnemar_of_a_hundred_thousand_differences_stays_a_number():
    a = np.repeat([1, 0], [50_500, 49_500])
    got = mcnemar_exact(a, 1 - a)
    z = (1000 - 1) / math.sqrt(100_000)
    assert got.p_value == pytest.approx(math.erfc(z / math.sqrt(2)), rel=1e-2)


def test_means_are_the_interval_of_the_differences():
    rng = np.random.default_rng(0)
    a = rng.normal(size=40)
    b = a + 0.1 + rng.normal(0, 0.05, 40)
    labels = np.repeat(np.arange(8), 5)
    for clusters in (None, labels):
        got = paired_means(a, b, clusters=clusters)
        assert got.mean_difference == pytest.approx(float(np.mean(b - a)))
        assert got.interval == mean_interval(b - a, clusters=clusters)
        assert got.interval.low > 0.05
        assert got.items == 40


def test_pairing_sees_what_two_intervals_do_not():
    rng = np.random.default_rng(1)
    a = rng.normal(0, 5, 100)
    b = a + 0.2 + rng.normal(0, 0.1, 100)
    assert mean_interval(a).high > mean_interval(b).low
    assert paired_means(a, b).interval.low > 0


def flips(only_a, only_b, of):
    same = of - only_a - only_b
    return [1] * only_a + [0] * only_b + [1] * same, [0] * only_a + [1] * only_b + [1] * same


@pytest.mark.parametrize(
    ("only_a", "only_b", "of", "published"),
    [
        (7, 1, 21, (-0.517, -0.026)),  # Fagerland, Lydersen and Laake, Statistics in Medicine 33, 2014, Bentur's data
        (20, 40, 160, (0.0309, 0.2181)),  # PropCIs::scoreci.mp's example, by a brute-force likelihood
        (2, 12, 50, (0.0611, 0.3447)),  # the same
    ],
)
def test_shares_have_tangos_interval(only_a, only_b, of, published):
    got = paired_shares(*flips(only_a, only_b, of)).interval
    assert (got.low, got.high) == pytest.approx(published, abs=6e-4)


@few
@given(st.integers(0, 12), st.integers(0, 12), st.integers(1, 30))
def test_its_ends_solve_the_score_test(only_a, only_b, same):
    """With the restricted likelihood maximised by search instead of by its formula."""
    from scipy.optimize import minimize_scalar

    items, z = only_a + only_b + same, 1.959963984540054
    for end in _tango(only_a, only_b, items, z):
        if abs(end) > 1 - 1e-6:
            continue

        def negative(q, end=end):
            chances = np.array([q, q + end, 1 - 2 * q - end])
            counts = np.array([only_a, only_b, same])
            return math.inf if (chances <= 0).any() else -float(counts @ np.log(chances))

        low, high = max(0.0, -end), (1 - end) / 2
        q = minimize_scalar(negative, bounds=(low, high), method="bounded", options={"xatol": 1e-12}).x
        score = (only_b - only_a - items * end) / math.sqrt(items * (2 * q + end * (1 - end)))
        assert abs(score) == pytest.approx(z, rel=1e-3)


def test_few_flips_are_approximate():
    assert paired_shares(*flips(3, 1, 500)).interval.approximate
    assert not paired_shares(*flips(3, 2, 500)).interval.approximate


def test_no_flips_have_width():
    """By hand: δ² n = z² δ (1 − δ), so δ = z² / (n + z²)."""
    z2 = 1.959963984540054**2
    got = paired_shares([1, 0] * 20, [1, 0] * 20)
    assert got.mean_difference == 0.0
    assert got.interval.high == pytest.approx(z2 / (40 + z2), rel=1e-6)
    assert got.interval.low == pytest.approx(-got.interval.high, rel=1e-6)


def test_shares_of_clusters_are_wider():
    a, b = np.repeat([1, 0, 1, 1, 0, 1, 0, 1], 10), np.repeat([1, 1, 1, 0, 1, 1, 1, 1], 10)
    alone, together = paired_shares(a, b).interval, paired_shares(a, b, clusters=np.repeat(np.arange(8), 10)).interval
    assert together.high - together.low > 2 * (alone.high - alone.low)
    none = paired_shares(a, a, clusters=np.repeat(np.arange(8), 10)).interval
    assert none.high - none.low > paired_shares(a, a).interval.high


def test_too_little_and_what_cannot_be_used():
    assert paired_means([], []) is None
    assert paired_shares([], []) is None
    assert paired_means([1.0], [3.0]).mean_difference == 2.0
    assert paired_means([1.0], [3.0]).interval is None
    assert paired_shares([1] * 4, [0] * 4).interval is None
    with pytest.raises(EvidenceError, match="got 1 and 2"):
        paired_means([1.0], [1.0, 2.0])
    with pytest.raises(EvidenceError, match="values_b: nan at position 0"):
        paired_means([1.0], [math.nan])
    with pytest.raises(EvidenceError, match=r"correct_b: 0\.5"):
        mcnemar_exact([1], [0.5])


@few
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40))
def test_rates_of_one_trial_are_shares(pairs):
    a, b = np.array(pairs, dtype=float).T
    rates, shares = paired_rates(a, b, np.ones(len(a))), paired_shares(a, b)
    assert rates.mean_difference == pytest.approx(shares.mean_difference)
    assert (rates.items, rates.interval is None) == (shares.items, shares.interval is None)
    if rates.interval is not None:
        assert rates.interval.low == pytest.approx(shares.interval.low)
        assert rates.interval.high == pytest.approx(shares.interval.high)


def test_rates_of_several_trials_are_shares_in_clusters_whichever_trials_are_paired():
    rng = np.random.default_rng(0)
    chance = rng.beta(2, 1, size=60)
    a, b = (rng.random((60, 4)) < one[:, None] for one in (chance, np.minimum(chance + 0.1, 1)))
    rates = paired_rates(a.mean(axis=1), b.mean(axis=1), np.full(60, 4))
    trials = paired_shares(a.ravel(), b.ravel(), clusters=np.repeat(np.arange(60), 4))
    assert rates.mean_difference == pytest.approx(trials.mean_difference)
    assert rates.interval.low == pytest.approx(trials.interval.low, abs=0.01)
    assert rates.interval.high == pytest.approx(trials.interval.high, abs=0.01)
    assert (rates.items, trials.items) == (60, 240)


def test_a_unit_of_many_trials_counts_as_one():
    a, b = [0.0, 0.0, 0.0, 0.0, 1.0, 1.0], [1.0, 0.0, 0.0, 0.0, 1.0, 1.0]
    few_trials, many = (paired_rates(a, b, [count, 1, 1, 1, 1, 1]) for count in (1, 100))
    assert few_trials.mean_difference == many.mean_difference == pytest.approx(1 / 6)
    assert many.interval.high - many.interval.low > 0.5
    assert paired_rates(a[:4], b[:4], [9] * 4).interval is None, "four units, however many trials"
    assert paired_rates([], [], []) is None


@pytest.mark.parametrize("trials", [[0, 1], [1], [math.nan, 1]])
def test_trials_that_are_none_are_refused(trials):
    with pytest.raises(EvidenceError):
        paired_rates([0.5, 0.5], [0.5, 0.5], trials)
