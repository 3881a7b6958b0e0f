"""Two runs over the same items."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howsure.errors import EvidenceError
from howsure.measures import McNemar, bootstrap_mean, mcnemar_exact, paired_bootstrap

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


def test_paired_bootstrap_is_the_bootstrap_of_the_differences():
    rng = np.random.default_rng(0)
    a = rng.normal(size=40)
    b = a + 0.1 + rng.normal(0, 0.05, 40)
    labels = np.repeat(np.arange(8), 5)
    for clusters in (None, labels):
        got = paired_bootstrap(a, b, clusters=clusters, seed=3)
        assert got.mean_difference == pytest.approx(float(np.mean(b - a)))
        assert got.interval == bootstrap_mean(b - a, clusters=clusters, seed=3)
        assert got.interval.low > 0.05
        assert got.share_above_zero == 1.0
        assert got.items == 40
    assert paired_bootstrap(b, a, seed=3).share_above_zero == 0.0


def test_pairing_sees_what_two_intervals_do_not():
    rng = np.random.default_rng(1)
    a = rng.normal(0, 5, 100)
    b = a + 0.2 + rng.normal(0, 0.1, 100)
    alone_a, alone_b = bootstrap_mean(a, seed=0), bootstrap_mean(b, seed=0)
    assert alone_a.high > alone_b.low
    assert paired_bootstrap(a, b, seed=0).interval.low > 0


def test_resamples_at_zero_count_by_half():
    same = paired_bootstrap([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], seed=0)
    assert (same.mean_difference, same.share_above_zero) == (0.0, 0.5)
    # two items at −1 and +1: above zero with 1/4, at zero with 1/2
    split = paired_bootstrap([0.0, 0.0], [1.0, -1.0], seed=0, resamples=4000)
    assert split.share_above_zero == pytest.approx(0.5, abs=0.03)


def test_too_little_and_what_cannot_be_used():
    assert paired_bootstrap([], [], seed=0) is None
    one = paired_bootstrap([1.0], [3.0], seed=0)
    assert (one.mean_difference, one.interval, one.share_above_zero) == (2.0, None, None)
    with pytest.raises(EvidenceError, match="got 1 and 2"):
        paired_bootstrap([1.0], [1.0, 2.0], seed=0)
    with pytest.raises(EvidenceError, match="values_b: nan at position 0"):
        paired_bootstrap([1.0], [math.nan], seed=0)
    with pytest.raises(EvidenceError, match=r"correct_b: 0\.5"):
        mcnemar_exact([1], [0.5])
