"""Trust of one step and over many, and Fieller's set for the ratio."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howsure.errors import EvidenceError, InputError
from howsure.measures import fieller_set, trust, trust_over_steps

few = settings(max_examples=60, deadline=None)


@pytest.mark.parametrize(
    ("entropies", "expected"),
    [
        ((2.3456, 1.8765, 0.5432), 0.2603),
        ((2.1234, 1.6543, 0.4321), 0.2774),
        ((2.0, 2.5, 1.0), -0.5),
        ((2.0, 0.5, 1.0), 1.5),
        ((2.0, 2.0, 1.0), 0.0),
        ((2.0, 1.0, 1.0), 1.0),
    ],
)
def test_one_step_by_hand(entropies, expected):
    assert trust(*entropies) == pytest.approx(expected, abs=5e-5)


def test_missing_is_missing_and_zero_is_not_a_number():
    assert trust(None, 1.0, 0.5) is None
    assert trust(2.0, math.nan, 0.5) is None
    assert trust(2.0, 1.0, None) is None
    assert math.isnan(trust(1.0, 0.5, 1.0))
    assert math.isnan(trust(1.0, 0.5, 1.0 - 9e-11))
    assert trust(1.0, 0.5, 1.0 - 2e-10) == pytest.approx(0.5 / 2e-10, rel=1e-4)
    with pytest.raises(EvidenceError, match=r"H\(X\|S\): -1 at position 0"):
        trust(1.0, -1.0, 0.5)
    with pytest.raises(EvidenceError, match="inf"):
        trust(math.inf, 1.0, 0.5)


def steps(n=60, seed=0, episodes=12, ratio=0.3):
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(episodes), n // episodes)
    h_x = 2.0 + rng.normal(0, 0.1, n) + rng.normal(0, 0.1, episodes)[labels]
    denominator = 1.0 + rng.normal(0, 0.2, n) + rng.normal(0, 0.15, episodes)[labels]
    numerator = ratio * denominator + rng.normal(0, 0.1, n)
    return h_x, h_x - numerator, h_x - denominator, labels


def test_over_steps_is_the_ratio_of_mean_differences_not_the_mean_of_ratios():
    got = trust_over_steps([2.0, 2.0, 2.0], [1.0, 1.8, 1.5], [0.5, 1.0, 0.9], seed=0)
    assert got.numerator == pytest.approx((1.0 + 0.2 + 0.5) / 3)
    assert got.denominator == pytest.approx((1.5 + 1.0 + 1.1) / 3)
    assert got.trust == pytest.approx(1.7 / 3.6)
    assert got.identified
    assert got.reason is None


def test_over_steps_counts_what_is_missing():
    h_x, h_xs, h_xls, labels = steps()
    whole = trust_over_steps(h_x, h_xs, h_xls, labels, seed=3)
    gaps = trust_over_steps(
        [*h_x, None, 2.0, 2.0],
        [*h_xs, 1.0, math.nan, 1.0],
        [*h_xls, 1.0, 1.0, None],
        [*labels, 98, 98, 99],
        seed=3,
    )
    assert (gaps.steps_used, gaps.steps_missing, gaps.clusters) == (60, 3, 12)
    assert gaps.trust == whole.trust
    assert gaps.bootstrap == whole.bootstrap
    assert gaps.fieller == whole.fieller


def test_intervals_surround_the_truth_and_resemble_each_other():
    got = trust_over_steps(*steps(n=600, episodes=60), seed=1)
    assert got.bootstrap.low < got.trust < got.bootstrap.high
    assert got.fieller.shape == "interval"
    assert got.fieller.contains(0.3)
    assert got.fieller.low == pytest.approx(got.bootstrap.low, abs=0.01)
    assert got.fieller.high == pytest.approx(got.bootstrap.high, abs=0.01)
    assert got.denominator_interval.low < got.denominator < got.denominator_interval.high


def test_the_seed_decides_and_the_order_does_not():
    h_x, h_xs, h_xls, labels = steps()
    order = np.random.default_rng(5).permutation(60)
    first = trust_over_steps(h_x, h_xs, h_xls, labels, seed=1)
    assert first == trust_over_steps(h_x, h_xs, h_xls, labels, seed=1)
    assert first.bootstrap != trust_over_steps(h_x, h_xs, h_xls, labels, seed=2).bootstrap
    again = trust_over_steps(h_x[order], h_xs[order], h_xls[order], labels[order], seed=1)
    assert again.trust == pytest.approx(first.trust, rel=1e-12)
    assert again.fieller.low == pytest.approx(first.fieller.low, rel=1e-9)


def test_a_denominator_near_zero_is_not_identified():
    rng = np.random.default_rng(2)
    h_x = np.full(50, 2.0)
    got = trust_over_steps(h_x, h_x - rng.normal(0.5, 0.1, 50), h_x - rng.normal(0, 0.5, 50), seed=0)
    assert not got.identified
    assert got.trust is None
    assert got.bootstrap is None
    assert "not clearly different from zero" in got.reason
    assert got.denominator_interval.low < 0 < got.denominator_interval.high
    assert got.numerator == pytest.approx(0.5, abs=0.1)
    assert got.fieller.shape == "complement"


def test_nothing_known_about_either_part_is_the_whole_line():
    rng = np.random.default_rng(4)
    h_x = np.full(30, 2.0)
    got = trust_over_steps(h_x, h_x - rng.normal(0, 0.5, 30), h_x - rng.normal(0, 0.5, 30), seed=0)
    assert got.fieller.shape == "line"
    assert got.fieller.low is None
    assert all(got.fieller.contains(x) for x in (-1e6, 0.0, 3.0))


def test_one_episode_has_no_spread():
    got = trust_over_steps([2.0, 2.1], [1.5, 1.4], [0.5, 0.6], ["a", "a"], seed=0)
    assert (got.identified, got.trust, got.fieller, got.bootstrap) == (False, None, None, None)
    assert (got.clusters, got.steps_used) == (1, 2)
    assert got.numerator == pytest.approx(0.6)
    assert got.numerator_interval is None
    assert "one episode" in got.reason


def test_no_complete_step():
    got = trust_over_steps([2.0, None], [None, 1.0], [0.5, 0.5], seed=0)
    assert (got.numerator, got.denominator, got.steps_used, got.steps_missing) == (None, None, 0, 2)
    assert got.reason == "no step has all three entropies"


def test_a_constant_zero_denominator_is_not_identified():
    got = trust_over_steps([2.0] * 4, [1.0, 1.1, 0.9, 1.0], [2.0] * 4, seed=0)
    assert not got.identified
    assert got.fieller.shape == "empty"
    assert not got.fieller.contains(1.0)


def test_resamples_without_a_denominator_leave_no_bootstrap():
    h_xls = np.array([1.0, 1.01, 0.99, 1.0, 2.0])
    got = trust_over_steps(np.full(5, 2.0), np.full(5, 1.5), h_xls, seed=0, resamples=20_000)
    assert got.identified
    assert got.bootstrap is None
    assert "is zero in" in got.reason


def test_clustered_variance_is_the_cluster_formula():
    """With clusters of equal size it is the variance of the cluster means over their number."""
    h_x, h_xs, h_xls, labels = steps(n=60, episodes=12)
    got = trust_over_steps(h_x, h_xs, h_xls, labels, seed=0)
    means = (h_x - h_xls).reshape(12, 5).mean(axis=1)
    from scipy.stats import t

    half = t.ppf(0.975, 11) * means.std(ddof=1) / math.sqrt(12)
    assert got.denominator_interval.high - got.denominator == pytest.approx(half, rel=1e-9)
    alone = trust_over_steps(h_x, h_xs, h_xls, seed=0)
    half = t.ppf(0.975, 59) * (h_x - h_xls).std(ddof=1) / math.sqrt(60)
    assert alone.denominator_interval.high - alone.denominator == pytest.approx(half, rel=1e-9)


@few
@given(st.integers(0, 10**6), st.floats(-1.5, 1.5), st.floats(-1.5, 1.5), st.integers(4, 12))
def test_fieller_inverts_the_t_test(seed, mean_n, mean_d, n):
    """By brute force: a ratio is in the set if and only if the one-sample t-test does not reject it."""
    from scipy.stats import ttest_1samp

    rng = np.random.default_rng(seed)
    d = rng.normal(mean_d, 1.0, n)
    x = rng.normal(mean_n, 1.0, n) + 0.5 * d
    cov = np.cov(x, d) / n
    found = fieller_set(
        x.mean(),
        d.mean(),
        var_numerator=cov[0, 0],
        var_denominator=cov[1, 1],
        covariance=cov[0, 1],
        df=n - 1,
        level=0.9,
    )
    ratios = np.concatenate([np.linspace(-5, 5, 41), [-1e3, 1e3]])
    p = ttest_1samp(x[:, None] - ratios * d[:, None], 0.0).pvalue
    clear = np.abs(p - 0.1) > 1e-6
    assert [found.contains(r) for r in ratios[clear]] == (p[clear] > 0.1).tolist()
    assert (found.g < 1) == (ttest_1samp(d, 0.0).pvalue < 0.1) == (found.shape == "interval")


def test_fieller_ends_by_hand():
    from scipy.stats import t

    crit = t.ppf(0.975, 10)
    found = fieller_set(1.0, 2.0, var_numerator=0.04, var_denominator=0.0, covariance=0.0, df=10)
    assert (found.low, found.high) == pytest.approx(((1 - crit * 0.2) / 2, (1 + crit * 0.2) / 2))
    negative = fieller_set(1.0, -2.0, var_numerator=0.04, var_denominator=0.0, covariance=0.0, df=10)
    assert (negative.low, negative.high) == pytest.approx((-found.high, -found.low))


def test_wrong_arguments_are_refused():
    with pytest.raises(EvidenceError, match="one length"):
        trust_over_steps([1.0], [1.0, 2.0], [1.0], seed=0)
    with pytest.raises(InputError, match="episodes"):
        trust_over_steps([1.0], [1.0], [1.0], ["a", "b"], seed=0)
    with pytest.raises(InputError, match="level"):
        trust_over_steps([1.0], [1.0], [1.0], seed=0, level=95)


@few
@given(st.integers(0, 10**6), st.floats(-0.6, 0.6))
def test_identified_means_that_the_denominators_interval_leaves_out_zero(seed, mean):
    rng = np.random.default_rng(seed)
    h_x = np.full(12, 5.0)
    got = trust_over_steps(h_x, h_x - rng.normal(0.3, 0.2, 12), h_x - rng.normal(mean, 0.5, 12), seed=0, resamples=50)
    excluded = got.denominator_interval.low > 0 or got.denominator_interval.high < 0
    assert got.identified == excluded == (got.trust is not None)
