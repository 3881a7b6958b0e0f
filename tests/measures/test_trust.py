"""Trust of one step and over many, and Fieller's set for the ratio."""

import itertools
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


# -- against definitions written out -------------------------------------------------------------------------------


def entropy_bits(*p):
    return -sum(each * math.log2(each) for each in p if each > 0)


def test_a_step_from_its_distributions_by_hand():
    """Four directions: none known, two left, one at 7 to 1: 2 bits, 1 bit, 3 − (7/8) log2 7 bits."""
    h_x, h_xs, h_xls = entropy_bits(*[0.25] * 4), entropy_bits(0.5, 0.5), entropy_bits(7 / 8, 1 / 8)
    assert (h_x, h_xs) == (2.0, 1.0)
    assert h_xls == pytest.approx(3 - 7 / 8 * math.log2(7), abs=1e-15)
    assert trust(h_x, h_xs, h_xls) == pytest.approx(1 / (7 / 8 * math.log2(7) - 1), abs=1e-15)


def test_the_unit_does_not_count():
    bits = (2.3456, 1.8765, 0.5432)
    assert trust(*(h * math.log(2) for h in bits)) == pytest.approx(trust(*bits), rel=1e-12)


def few_episodes():
    """Six episodes of one to four steps: lists of (H(X), H(X|S), H(X|L,S))."""
    rng = np.random.default_rng(11)
    return [[tuple(rng.uniform([2, 1.2, 0.2], [3, 2.4, 1.2])) for _ in range(n)] for n in (1, 3, 2, 4, 2, 3)]


def ratio_of_sums(episodes):
    steps = [step for episode in episodes for step in episode]
    return sum(x - xs for x, xs, _ in steps) / sum(x - xls for x, _, xls in steps)


def test_the_bootstrap_is_that_of_all_resamples():
    """All 6⁶ ways to draw six episodes of six: at the ends of the interval their distribution is at 2.5 and 97.5 %."""
    episodes = few_episodes()
    every = np.sort([ratio_of_sums(drawn) for drawn in itertools.product(episodes, repeat=6)])
    labels = [i for i, episode in enumerate(episodes) for _ in episode]
    columns = zip(*(step for episode in episodes for step in episode), strict=True)
    got = trust_over_steps(*columns, labels, seed=0, resamples=100_000)
    assert got.trust == pytest.approx(ratio_of_sums(episodes), rel=1e-12)
    assert got.clusters == 6
    below = [np.searchsorted(every, end) / len(every) for end in (got.bootstrap.low, got.bootstrap.high)]
    assert below == pytest.approx([0.025, 0.975], abs=0.003)


def test_the_bootstrap_is_that_of_a_naive_loop():
    """Steps that stand alone, drawn one resample after the other."""
    rng = np.random.default_rng(3)
    steps = [tuple(row) for row in rng.uniform([2, 1.2, 0.2], [3, 2.4, 1.2], size=(15, 3))]
    drawn = np.sort([ratio_of_sums([[steps[i] for i in rng.integers(0, 15, 15)]]) for _ in range(20_000)])
    got = trust_over_steps(*zip(*steps, strict=True), seed=0, resamples=100_000)
    below = [np.searchsorted(drawn, end) / len(drawn) for end in (got.bootstrap.low, got.bootstrap.high)]
    assert below == pytest.approx([0.025, 0.975], abs=0.005)


def test_fiellers_ends_are_where_a_grid_of_ratios_begins_to_be_rejected():
    """(n̄ − ρ d̄)² ≤ t² s²(n − ρ d) / N for each ρ of a fine grid, with nothing but means and variances."""
    from scipy.stats import t

    steps = [step for episode in few_episodes() for step in episode]
    n = np.array([x - xs for x, xs, _ in steps])
    d = np.array([x - xls for x, _, xls in steps])
    grid = np.linspace(-1, 2, 30_001)
    rest = n[:, None] - grid * d[:, None]
    kept = grid[rest.mean(axis=0) ** 2 <= t.ppf(0.975, len(n) - 1) ** 2 * rest.var(axis=0, ddof=1) / len(n)]
    got = trust_over_steps(*zip(*steps, strict=True), seed=0).fieller
    assert got.shape == "interval"
    assert (got.low, got.high) == pytest.approx((kept[0], kept[-1]), abs=1.01e-4)
