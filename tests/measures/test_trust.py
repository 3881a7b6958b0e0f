"""Trust of one step and over many, and Fieller's set for the ratio."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howsure.errors import EvidenceError, InputError
from howsure.measures import fieller_set, trust, trust_bounds, trust_over_steps

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
    got = trust_over_steps([2.0] * 5, [1.0, 1.8, 1.5, 1.2, 1.4], [0.5, 1.0, 0.9, 0.7, 0.6])
    assert got.numerator == pytest.approx((1.0 + 0.2 + 0.5 + 0.8 + 0.6) / 5)
    assert got.denominator == pytest.approx((1.5 + 1.0 + 1.1 + 1.3 + 1.4) / 5)
    assert got.trust == pytest.approx(3.1 / 6.3)
    assert got.why is None


def test_over_steps_counts_what_is_missing():
    h_x, h_xs, h_xls, labels = steps()
    whole = trust_over_steps(h_x, h_xs, h_xls, labels)
    gaps = trust_over_steps(
        [*h_x, None, 2.0, 2.0],
        [*h_xs, 1.0, math.nan, 1.0],
        [*h_xls, 1.0, 1.0, None],
        [*labels, 98, 98, 99],
    )
    assert (gaps.steps_used, gaps.steps_missing, gaps.units) == (60, 3, 12)
    assert (gaps.trust, gaps.interval, gaps.fieller) == (whole.trust, whole.interval, whole.fieller)


def test_fiellers_set_is_the_interval():
    got = trust_over_steps(*steps(n=600, episodes=60))
    assert got.fieller.shape == "interval"
    assert (got.interval.low, got.interval.high) == (got.fieller.low, got.fieller.high)
    assert got.interval.low < 0.3 < got.interval.high
    assert got.interval.method == "Fieller over 60 clusters"
    assert got.denominator_interval.low < got.denominator < got.denominator_interval.high
    assert trust_over_steps(*steps(n=40, episodes=8)).interval.approximate
    assert not got.interval.approximate


def test_the_order_of_steps_never_counts():
    h_x, h_xs, h_xls, labels = steps()
    order = np.random.default_rng(5).permutation(60)
    first = trust_over_steps(h_x, h_xs, h_xls, labels)
    again = trust_over_steps(h_x[order], h_xs[order], h_xls[order], labels[order])
    assert again.trust == pytest.approx(first.trust, rel=1e-12)
    assert again.interval.low == pytest.approx(first.interval.low, rel=1e-9)


def gains(numerators, denominators, **how):
    h_x = np.full(len(numerators), 9.0)
    return trust_over_steps(h_x, h_x - numerators, h_x - denominators, **how)


def test_a_denominator_near_zero_is_not_identified():
    rng = np.random.default_rng(2)
    got = gains(rng.normal(0.5, 0.1, 50), rng.normal(0, 0.5, 50))
    assert (got.why, got.trust, got.interval, got.identified) == ("not_above_zero", None, None, False)
    assert got.denominator_interval.low < 0 < got.denominator_interval.high
    assert got.numerator == pytest.approx(0.5, abs=0.1)
    assert got.fieller.shape == "complement"


def test_a_loss_is_no_gain():
    """−0.1 of −0.3 is no third of anything, however clear it is."""
    rng = np.random.default_rng(3)
    got = gains(rng.normal(-0.1, 0.01, 40), rng.normal(-0.3, 0.01, 40))
    assert got.fieller.shape == "interval"
    assert (got.why, got.trust, got.interval) == ("below_zero", None, None)


def test_too_small_a_denominator_has_no_shares():
    """1e-7 bits of gain gave a T of a million."""
    rng = np.random.default_rng(4)
    got = gains(rng.normal(0.12, 0.01, 40), rng.normal(1e-7, 1e-9, 40), floor=0.01)
    assert (got.why, got.trust) == ("below_floor", None)
    assert gains(rng.normal(0.12, 0.01, 40), rng.normal(0.02, 1e-3, 40), floor=0.01).identified


def test_fewer_than_five_episodes_identify_nothing():
    for episodes in (1, 2, 4):
        h_x, h_xs, h_xls, labels = steps(n=60, episodes=episodes)
        got = trust_over_steps(h_x, h_xs, h_xls, labels)
        assert (got.why, got.trust, got.fieller, got.interval) == ("few_units", None, None, None)
        assert (got.units, got.steps_used) == (episodes, 60)
        assert got.numerator == pytest.approx(np.mean(h_x - h_xs))
        assert got.numerator_interval is None


def test_no_complete_step():
    got = trust_over_steps([2.0, None], [None, 1.0], [0.5, 0.5])
    assert (got.numerator, got.denominator, got.steps_used, got.steps_missing) == (None, None, 0, 2)
    assert got.why == "no_steps"


def test_nothing_known_about_either_part_is_the_whole_line():
    rng = np.random.default_rng(4)
    got = gains(rng.normal(0, 0.5, 30), rng.normal(0, 0.5, 30))
    assert got.fieller.shape == "line"
    assert got.fieller.low is None
    assert all(got.fieller.contains(x) for x in (-1e6, 0.0, 3.0))


def test_a_constant_denominator():
    zero = gains(np.array([1.0, 1.1, 0.9, 1.0, 1.2]), np.zeros(5))
    assert (zero.why, zero.fieller.shape) == ("not_above_zero", "empty")
    assert not zero.fieller.contains(1.0)
    one = gains(np.array([0.4, 0.5, 0.6, 0.5, 0.5]), np.ones(5))
    assert one.identified
    assert one.denominator_interval is None
    assert one.interval.low < 0.5 < one.interval.high
    nothing_varies = gains(np.full(6, 0.5), np.ones(6))
    assert (nothing_varies.trust, nothing_varies.why) == (None, "alike"), "nothing is known of chance"
    for seed, share in product(range(6), (0.5, 1 / 3, 0.7)):
        gained = np.random.default_rng(seed).random(12) + 0.5
        same_share = gains(share * gained, gained)
        assert (same_share.trust, same_share.why) == (None, "alike"), "T is the same in each, but for rounding"


def test_clustered_variance_is_the_cluster_formula():
    """With clusters of equal size it is the variance of the cluster means over their number."""
    h_x, h_xs, h_xls, labels = steps(n=60, episodes=12)
    got = trust_over_steps(h_x, h_xs, h_xls, labels)
    means = (h_x - h_xls).reshape(12, 5).mean(axis=1)
    from scipy.stats import t

    half = t.ppf(0.975, 11) * means.std(ddof=1) / math.sqrt(12)
    found = got.denominator_interval
    assert min(found.high - got.denominator, got.denominator - found.low) == pytest.approx(half, rel=1e-9)


@pytest.mark.parametrize("phi", [0.0, 0.8])
def test_no_gain_is_seldom_called_one(phi):
    """A true denominator of zero: with φ = .8 within one episode, 52 % were called identified."""
    rng = np.random.default_rng(7)
    found = {1: 0, 6: 0, 12: 0}
    for episodes in found:
        for _ in range(400):
            noise = rng.normal(size=(2, episodes, 20))
            for step in range(1, 20):
                noise[:, :, step] += phi * noise[:, :, step - 1]
            first, second = noise.reshape(2, -1)
            got = gains(0.3 + first, second, episodes=np.repeat(np.arange(episodes), 20))
            found[episodes] += got.identified
    assert found[1] == 0
    assert max(found.values()) <= 0.05 * 400


def test_bounds_of_the_ratio_are_those_of_a_grid():
    low, high = (2.0, 1.2, 0.3), (2.3, 1.9, 0.9)
    grids = np.meshgrid(*(np.linspace(a, b, 41) for a, b in zip(low, high, strict=True)), indexing="ij")
    ratios = (grids[0] - grids[1]) / (grids[0] - grids[2])
    assert trust_bounds(low, high) == pytest.approx((ratios.min(), ratios.max()))
    assert trust_bounds((1.0, 0.5, 0.4), (1.2, 0.6, 1.0)) is None


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
        trust_over_steps([1.0], [1.0, 2.0], [1.0])
    with pytest.raises(InputError, match="episodes"):
        trust_over_steps([1.0], [1.0], [1.0], ["a", "b"])
    with pytest.raises(InputError, match="level"):
        trust_over_steps([1.0], [1.0], [1.0], level=95)


@few
@given(st.integers(0, 10**6), st.floats(-0.6, 0.6))
def test_identified_means_that_the_denominators_interval_lies_above_zero(seed, mean):
    rng = np.random.default_rng(seed)
    got = gains(rng.normal(0.3, 0.2, 12), rng.normal(mean, 0.5, 12))
    assert got.clear_interval.low <= got.denominator_interval.low
    assert got.identified == (got.clear_interval.low > 0) == (got.trust is not None)


@pytest.mark.parametrize("episodes", [6, 12, 30])
def test_rare_large_losses_are_seldom_called_a_gain(episodes):
    """An episode gains 0.3 (1 − Exp), zero on average; at 95 % it passed in 8 % of such data with 5 episodes."""
    rng = np.random.default_rng(3)
    losses = (gains(np.full(episodes, 0.1) + rng.normal(0, 0.01, episodes), 0.3 * (1 - rng.exponential(size=episodes)))
              for _ in range(300))  # fmt: skip
    assert sum(got.identified for got in losses) <= 0.05 * 300


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


def test_fiellers_ends_are_where_a_grid_of_ratios_begins_to_be_rejected():
    """(n̄ − ρ d̄)² ≤ t² s²(n − ρ d) / N for each ρ of a fine grid, with nothing but means and variances."""
    from scipy.stats import t

    rng = np.random.default_rng(11)
    steps = [tuple(row) for row in rng.uniform([2, 1.2, 0.2], [3, 2.4, 1.2], size=(15, 3))]
    n = np.array([x - xs for x, xs, _ in steps])
    d = np.array([x - xls for x, _, xls in steps])
    grid = np.linspace(-1, 2, 30_001)
    rest = n[:, None] - grid * d[:, None]
    kept = grid[rest.mean(axis=0) ** 2 <= t.ppf(0.975, len(n) - 1) ** 2 * rest.var(axis=0, ddof=1) / len(n)]
    got = trust_over_steps(*zip(*steps, strict=True)).fieller
    assert got.shape == "interval"
    assert (got.low, got.high) == pytest.approx((kept[0], kept[-1]), abs=1.01e-4)
