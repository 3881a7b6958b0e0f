"""Intervals of means, ratios, shares and medians: by hand, against other implementations, and how often they cover."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howsure.errors import EvidenceError, InputError
from howsure.measures import (
    LEAST_UNITS,
    Interval,
    count_interval,
    mean_interval,
    median_interval,
    ratio_interval,
    share_interval,
    too_few,
)
from howsure.measures.intervals import spread_of, student_interval

few = settings(max_examples=60, deadline=None)


def ends(interval):
    return interval.low, interval.high


# -- means ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2, 3, 4, 5, 6, 7], (2.0021048397085917, 5.997895160291408)),
        ([0.3, 0.9, 1.1, 1.3, 1.9], (0.3759916956912571, 1.8240083043087432)),
        ([-4, -1, 0, 0, 0, 0, 0, 1, 4, -2, 2], (-1.3767990387347084, 1.3767990387347084)),
    ],
)
def test_a_mean_without_skew_is_students_t(values, expected):
    """statsmodels' DescrStatsW(values).tconfint_mean()."""
    assert ends(mean_interval(values)) == pytest.approx(expected, rel=1e-9)


def test_skewed_values_widen_the_far_side_alone():
    """Hall's transformation turned round, by hand from its cubic; at most 2.5 times as far as Student's t."""
    from scipy.stats import t

    values = np.array([0.0] * 7 + [1.0] * 3)
    n, mean = 10, 0.3
    deviation = values.std(ddof=1) / math.sqrt(n)
    skew = np.mean((values - mean) ** 3) / np.mean((values - mean) ** 2) ** 1.5
    crit = t.ppf(0.975, 9)

    def turned(at):
        """T with T + γ/3 T²/√n + γ²/27 T³/n + γ/(6 √n) = at, by bisection."""
        low, high = -50.0, 50.0
        for _ in range(200):
            middle = (low + high) / 2
            value = middle + skew / 3 * middle**2 / math.sqrt(n) + skew**2 / 27 * middle**3 / n
            low, high = (middle, high) if value + skew / 6 / math.sqrt(n) < at else (low, middle)
        return low

    got = mean_interval(values)
    assert got.low == pytest.approx(mean - max(crit, turned(crit)) * deviation, rel=1e-6)
    assert got.high == pytest.approx(mean - min(-crit, turned(-crit)) * deviation, rel=1e-6)
    assert got.high - mean > 1.3 * (mean - got.low)

    rare = np.array([0.0] * 8 + [1.0] * 2)
    half = t.ppf(0.975, 9) * rare.std(ddof=1) / math.sqrt(10)
    assert ends(mean_interval(rare)) == pytest.approx((0.2 - half, 0.2 + 2.5 * half))


@pytest.mark.parametrize(
    ("values", "clusters", "error"),
    [
        ([1, 2, 4, 5, 3, 3, 8, 9, 5, 6, 2, 2], 6, 0.96944046),
        ([0.2, 0.4, 0.1, 1.2, 1.1, 0.9, 0.5, 0.6, 0.4, 0.8, 0.9, 1.0, 0.3, 0.2, 0.1], 5, 0.15623344),
        ([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3], 8, 0.72348981),
    ],
)
def test_clusters_are_the_sandwich_of_a_regression_on_a_constant(values, clusters, error):
    """statsmodels' OLS of a constant with cov_type="cluster", without its correction; ours has √(C / (C − 1))."""
    values = np.array(values, dtype=float)
    codes = np.repeat(np.arange(clusters), len(values) // clusters)
    spread = spread_of((values - values.mean()) / len(values), codes)
    assert math.sqrt(spread.variance) == pytest.approx(error * math.sqrt(clusters / (clusters - 1)), rel=1e-7)


def test_one_item_a_cluster_is_the_plain_interval():
    values = np.random.default_rng(0).exponential(size=30)
    single = mean_interval(values, clusters=[f"item {i}" for i in range(30)])
    assert ends(single) == pytest.approx(ends(mean_interval(values)), rel=1e-12)


def test_copies_of_a_cluster_tell_nothing_new():
    values, labels = np.random.default_rng(1).normal(size=12), np.arange(12)
    once = mean_interval(values)
    copied = mean_interval(np.repeat(values, 9), clusters=np.repeat(labels, 9))
    assert ends(copied) == pytest.approx(ends(once), rel=1e-12)


def test_a_cluster_that_holds_nearly_all_is_one_unit():
    """Nine documents of one byte beside one of a million: degrees of freedom fall to one, and the interval says so."""
    rng = np.random.default_rng(2)
    even = ratio_interval(rng.normal(2, 0.2, 10), np.ones(10))
    sizes = np.array([1e6] + [1.0] * 9)
    uneven = ratio_interval(sizes * rng.normal(2, 0.2, 10), sizes)
    assert uneven.high - uneven.low > 2 * (even.high - even.low)


def test_a_ratio_is_the_linearised_one():
    from scipy.stats import t

    above, below = np.array([2.0, 3.0, 5.0, 8.0, 4.0, 7.0]), np.array([1.0, 2.0, 2.0, 4.0, 2.0, 3.0])
    ratio = above.sum() / below.sum()
    residual = (above - ratio * below) / (1 - below / below.sum()) * (5 / 6)
    deviation = math.sqrt(6 / 5 * np.sum((residual / below.sum()) ** 2))
    kish = below.sum() ** 2 / np.sum(below**2)
    got = ratio_interval(above, below)
    half = t.ppf(0.975, kish - 1) * deviation
    assert got.low <= ratio - half + 1e-12
    assert got.high >= ratio + half - 1e-12
    assert min(ratio - got.low, got.high - ratio) == pytest.approx(half, rel=1e-9)


@few
@given(st.integers(0, 10**6), st.integers(5, 40))
def test_the_order_of_items_never_counts(seed, items):
    rng = np.random.default_rng(seed)
    values, labels, order = rng.exponential(size=items), rng.integers(0, 9, items), rng.permutation(items)
    for clusters in (None, labels):
        first = mean_interval(values, clusters=clusters)
        again = mean_interval(values[order], clusters=None if clusters is None else clusters[order])
        assert (first is None) == (again is None)
        if first is not None:
            assert ends(again) == pytest.approx(ends(first), rel=1e-9)


def test_too_little_has_no_interval_and_the_sentence_says_how_much_it_takes():
    assert LEAST_UNITS == 5
    for count in range(LEAST_UNITS):
        values = np.arange(float(count))
        assert mean_interval(values) is None
        assert ratio_interval(values, values) is None
        assert share_interval(values > 1) is None
        assert median_interval(values) is None
    many = np.arange(40.0)
    assert mean_interval(many, clusters=many // 10) is None, "four clusters"
    assert share_interval(many > 3, clusters=many // 10) is None
    assert median_interval(many, clusters=many // 10) is None
    assert too_few(4, "episodes") == "no interval: 4 episodes, and it takes at least 5"
    assert too_few(1, "documents") == "no interval: 1 document, and it takes at least 5"
    assert too_few(5) is None


def test_values_that_are_all_alike_have_none_either():
    """Nothing is known of their spread, and a width of zero would be luck."""
    assert mean_interval([0.3] * 50) is None
    assert median_interval([0.3] * 50) is None
    assert ratio_interval(np.full(9, 0.1), np.full(9, 0.7)) is None
    assert ratio_interval([1.0] * 6, [0.0] * 6) is None


def test_few_or_skewed_units_are_said_to_be_approximate():
    assert mean_interval(np.arange(9.0)).approximate
    assert not mean_interval(np.arange(10.0)).approximate
    assert mean_interval([0.0] * 29 + [1.0]).approximate
    assert share_interval([1, 0] * 4).approximate
    assert not share_interval([1, 0] * 5).approximate


def test_few_of_the_rarer_outcome_are_approximate_however_many_items_there_are():
    assert count_interval(4, 1000).approximate
    assert count_interval(996, 1000).approximate
    assert not count_interval(5, 1000).approximate
    assert not count_interval(995, 1000).approximate
    alike = np.repeat([1] * 16 + [0] * 4, 10)
    assert not share_interval(alike).approximate
    assert share_interval(alike, clusters=np.repeat(np.arange(20), 10)).approximate, "as four that were wrong"


def test_an_interval_in_another_unit():
    assert Interval(-1.0, 2.0, 0.95, "t").scaled(-10) == Interval(-20.0, 10.0, 0.95, "t")


# -- shares ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "of", "expected"),
    [
        (8, 10, (0.47936759056615064, 0.9541127295161159)),
        (10, 10, (0.6791126942494543, 1.0)),
        (3, 57, (0.012368554287442338, 0.14938724531785463)),
    ],
)
def test_a_share_is_statsmodels_agresti_coull(count, of, expected):
    assert ends(count_interval(count, of)) == pytest.approx(expected, abs=1e-12)


@few
@given(st.integers(0, 60), st.integers(5, 60), st.floats(0.5, 0.999))
def test_it_holds_wilsons_interval(count, of, level):
    from scipy.stats import binomtest

    count = min(count, of)
    got, wilson = count_interval(count, of, level), binomtest(count, of).proportion_ci(level, method="wilson")
    assert got.low <= wilson.low + 1e-9
    assert got.high >= wilson.high - 1e-9
    assert got.low < got.high


def test_all_and_none_have_width():
    for clusters in (None, np.repeat(np.arange(20), 10)):
        everything = share_interval(np.ones(200), clusters=clusters)
        nothing = share_interval(np.zeros(200), clusters=clusters)
        assert everything.high == 1.0
        assert everything.low < 1.0
        assert ends(nothing) == pytest.approx((1 - everything.high, 1 - everything.low))
    assert share_interval(np.ones(200), clusters=np.repeat(np.arange(20), 10)).low < share_interval(np.ones(200)).low


def test_items_that_repeat_one_another_count_once():
    """Ten clusters of 50 copies are ten items, with t for z."""
    from scipy.stats import t

    from howsure.measures.intervals import score_interval

    happened = np.array([1, 1, 1, 1, 1, 1, 1, 0, 0, 0])
    got = share_interval(np.repeat(happened, 50), clusters=np.repeat(np.arange(10), 50))
    variance = 0.7 * 0.3 / 9
    assert ends(got) == pytest.approx(score_interval(0.7, 0.21 / variance, t.ppf(0.975, 9)))
    assert "as 9 independent items" in got.method


def test_one_error_says_little_about_how_items_hang_together():
    """80 of 80 in 8 clusters count as 8; a single error shows no dependence, and must not make them count as 80."""
    clusters = np.repeat(np.arange(8), 10)
    lows = [share_interval(np.arange(80) >= wrong, clusters=clusters).low for wrong in (0, 1)]
    assert lows[1] < 0.8, "the one error alone would make it 0.9"
    wide = [share_interval(np.tile([0] * wrong + [1] * (10 - wrong), 8), clusters=clusters) for wrong in (1, 2)]
    assert all("as 80 independent" in one.method for one in wide), "8 and 16 errors do show that there is none"


def test_few_clusters_of_one_size_count_as_few():
    """Fifteen units of which one holds most of the items are a few, whatever their number."""
    sizes = np.array([60] + [2] * 14)
    codes = np.repeat(np.arange(15), sizes)
    happened = np.arange(len(codes)) % 2
    assert share_interval(happened, clusters=codes).approximate
    assert mean_interval(np.sin(np.arange(len(codes))), clusters=codes).approximate
    assert not share_interval(np.arange(60) % 2, clusters=np.repeat(np.arange(15), 4)).approximate


def test_what_cannot_be_below_zero_has_no_end_there():
    values = [0.1, 0.0, 0.2, 0.1, 3.0, 0.2]
    assert mean_interval(values).low < 0.0
    assert mean_interval(values, least=0.0).low == 0.0
    assert mean_interval(values, least=0.0).high == mean_interval(values).high


def test_a_median_of_values_that_are_nearly_all_alike_has_none():
    assert median_interval([1.0] * 9 + [5.0]) is None
    assert median_interval([1.0] * 5 + [2.0] * 5) is not None


def test_clusters_that_differ_less_than_chance_do_not_narrow_it():
    happened = np.tile([1, 0], 50)
    alike = share_interval(happened, clusters=np.repeat(np.arange(10), 10))
    alone = share_interval(happened)
    assert alike.high - alike.low > alone.high - alone.low


# -- medians --------------------------------------------------------------------------------------------------------


def test_five_values_are_covered_by_their_ends():
    """1 − 2 / 2⁵ = 93.75 %: as near as five values come."""
    assert ends(median_interval([3.0, 1.0, 2.0, 9.0, 4.0])) == (1.0, 9.0)


def test_interpolated_order_statistics_by_hand():
    """n = 10: the second values cover 97.85 %, the third 89.06 %; λ = (n − d) I / (d + (n − 2 d) I)."""
    covered, next_one = 1 - 2 * 11 / 1024, 1 - 2 * 56 / 1024
    part = (covered - 0.95) / (covered - next_one)
    weight = 8 * part / (2 + 6 * part)
    values = np.array([1.0, 2, 4, 8, 16, 32, 64, 128, 256, 512])
    low, high = 2 * (1 - weight) + 4 * weight, 256 * (1 - weight) + 128 * weight
    assert ends(median_interval(values)) == pytest.approx((low, high), rel=1e-12)


def test_many_values_agree_with_the_binomial():
    """Of 1,001 values the 470th and 532nd cover 95 %: scipy's quantile_test has the same ends within one value."""
    from scipy.stats import quantile_test

    values = np.random.default_rng(3).normal(size=1001)
    ours, theirs = median_interval(values), quantile_test(values, q=0, p=0.5).confidence_interval(0.95)
    places = np.searchsorted(np.sort(values), [ours.low, ours.high, theirs.low, theirs.high])
    assert abs(places[0] - places[2]) <= 1
    assert abs(places[1] - places[3]) <= 1


def test_medians_of_clusters_are_wider():
    values = np.random.default_rng(4).normal(size=40)
    copied = median_interval(np.repeat(values, 9), clusters=np.repeat(np.arange(40), 9))
    assert copied.high - copied.low > 2 * (lambda one: one.high - one.low)(median_interval(np.repeat(values, 9)))


# -- do they cover? -------------------------------------------------------------------------------------------------


def coverage(draw, truth, trials=400):
    found = [draw(np.random.default_rng(seed)) for seed in range(trials)]
    return sum(one.low <= truth <= one.high for one in found) / trials


@pytest.mark.parametrize("units", [5, 10, 30])
def test_they_cover_where_percentiles_of_resamples_did_not(units):
    """A quick look; `make coverage` is the long one. The bootstrap had 0.83 and 0.89 at five and ten items."""
    labels = np.repeat(np.arange(units), 6)
    assert coverage(lambda r: mean_interval(r.normal(size=units)), 0.0) > 0.92
    assert coverage(lambda r: mean_interval(r.exponential(size=units)), 1.0) > 0.89
    assert (
        coverage(lambda r: mean_interval(r.normal(size=units)[labels] + r.normal(size=6 * units), clusters=labels), 0.0)
        > 0.92
    )
    assert (
        coverage(lambda r: share_interval(r.random(6 * units) < r.beta(4, 2, units)[labels], clusters=labels), 2 / 3)
        > 0.92
    )
    assert coverage(lambda r: median_interval(r.exponential(size=units)), math.log(2)) > 0.90


def test_wrong_input_is_refused():
    with pytest.raises(EvidenceError, match="values: nan at position 1"):
        median_interval([1.0, math.nan])
    with pytest.raises(EvidenceError, match="happened: 2 at position 0"):
        share_interval([2, 1])
    with pytest.raises(EvidenceError, match="denominators: -1 at position 1"):
        ratio_interval([1.0, 2.0], [1.0, -1.0])
    with pytest.raises(InputError, match="one label for each of the 2 items"):
        mean_interval([1.0, 2.0], clusters=[1])
    with pytest.raises(InputError, match="level 95"):
        mean_interval([1.0, 2.0], level=95)
    with pytest.raises(InputError, match="count 6"):
        count_interval(6, 5)


def test_a_spread_of_rounding_is_none():
    values = np.full(20, 0.1 + 0.2)
    values[3] = 0.3
    spread = spread_of((values - values.mean()) / 20, None)
    assert student_interval(float(values.mean()), spread, 0.95) is None
