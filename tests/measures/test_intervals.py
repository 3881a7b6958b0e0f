"""Wilson's interval and the bootstrap."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howsure.errors import EvidenceError, InputError
from howsure.measures import (
    Interval,
    auroc,
    bootstrap,
    bootstrap_mean,
    bootstrap_ratio,
    bootstrap_ratios,
    wilson_interval,
)

few = settings(max_examples=60, deadline=None)


def test_wilson_by_hand():
    z = 1.959963984540054
    centre = (0.8 + z * z / 20) / (1 + z * z / 10)
    half = z * math.sqrt(0.16 / 10 + z * z / 400) / (1 + z * z / 10)
    got = wilson_interval(8, 10)
    assert (got.low, got.high) == pytest.approx((centre - half, centre + half))


@few
@given(st.integers(0, 60), st.integers(1, 60), st.floats(0.5, 0.999))
def test_wilson_is_scipys_and_solves_the_score_test(successes, n, level):
    from scipy.stats import binomtest, norm

    successes = min(successes, n)
    got = wilson_interval(successes, n, level)
    reference = binomtest(successes, n).proportion_ci(level, method="wilson")
    assert (got.low, got.high) == pytest.approx((reference.low, reference.high), abs=1e-9)
    if 0 < successes < n:
        for p in (got.low, got.high):
            score = abs(successes / n - p) / math.sqrt(p * (1 - p) / n)
            assert score == pytest.approx(norm.ppf(0.5 + level / 2), rel=1e-6)


def test_wilson_edges():
    assert wilson_interval(0, 0) is None
    assert wilson_interval(0, 5).low == 0.0
    assert wilson_interval(5, 5).high == 1.0
    with pytest.raises(InputError, match="successes 6"):
        wilson_interval(6, 5)
    with pytest.raises(InputError, match=r"level 1\.0"):
        wilson_interval(1, 5, level=1.0)


def test_bootstrap_mean_is_decided_by_its_seed_and_not_by_order():
    values = np.random.default_rng(0).normal(size=50)
    first = bootstrap_mean(values, seed=7)
    assert first == bootstrap_mean(values[::-1], seed=7)
    assert first != bootstrap_mean(values, seed=8)
    assert first.level == 0.95
    assert "2000" in first.method


def test_bootstrap_mean_of_two_items_by_hand():
    """Means of two draws from {0, 1}: 0 with 1/4, 1/2 with 1/2, 1 with 1/4."""
    half = bootstrap_mean([0.0, 1.0], level=0.4, resamples=4000, seed=0)
    assert (half.low, half.high) == (0.5, 0.5)
    wide = bootstrap_mean([0.0, 1.0], level=0.6, resamples=4000, seed=0)
    assert (wide.low, wide.high) == (0.0, 1.0)


@pytest.mark.parametrize("values", [np.random.default_rng(1).normal(size=80), np.arange(200) % 3 == 0])
def test_bootstrap_mean_resembles_scipys(values):
    """Values that are all different are drawn item by item, few kinds by a multinomial: both are right."""
    from scipy.stats import bootstrap as scipy_bootstrap

    values = np.asarray(values, dtype=float)
    got = bootstrap_mean(values, resamples=20_000, seed=1)
    reference = scipy_bootstrap((values,), np.mean, method="percentile", n_resamples=20_000, rng=2).confidence_interval
    width = reference.high - reference.low
    assert got.low == pytest.approx(reference.low, abs=0.04 * width)
    assert got.high == pytest.approx(reference.high, abs=0.04 * width)


def test_generic_bootstrap_agrees_with_the_fast_mean():
    values = np.random.default_rng(3).normal(size=60)
    labels = np.repeat(np.arange(12), 5)
    for clusters in (None, labels):
        slow = bootstrap(np.mean, values, clusters=clusters, resamples=8000, seed=1)
        fast = bootstrap_mean(values, clusters=clusters, resamples=8000, seed=2)
        width = fast.high - fast.low
        assert slow.low == pytest.approx(fast.low, abs=0.06 * width)
        assert slow.high == pytest.approx(fast.high, abs=0.06 * width)


def test_singleton_clusters_are_the_plain_bootstrap():
    values = np.random.default_rng(4).normal(size=70)
    plain = bootstrap_mean(values, resamples=8000, seed=1)
    single = bootstrap_mean(values, clusters=[f"item {i}" for i in range(70)], resamples=8000, seed=1)
    assert (single.low, single.high) == pytest.approx((plain.low, plain.high), rel=1e-12)


def test_clusters_of_unequal_size_weigh_by_their_items():
    """Two clusters, one item at 1 and nine at 0: means 1, 0.1 and 0 with 1/4, 1/2, 1/4."""
    got = bootstrap_mean([1.0] + [0.0] * 9, clusters=[0] + [1] * 9, level=0.4, resamples=4000, seed=0)
    assert (got.low, got.high) == pytest.approx((0.1, 0.1))
    wide = bootstrap_mean([1.0] + [0.0] * 9, clusters=[0] + [1] * 9, level=0.6, resamples=4000, seed=0)
    assert (wide.low, wide.high) == (0.0, 1.0)


def test_coverage_and_why_clusters_matter():
    rng = np.random.default_rng(9)
    plain = clustered = trials = 0
    labels = np.repeat(np.arange(25), 8)
    for trial in range(150):
        values = rng.normal(0, 1, 25)[labels] + rng.normal(0, 0.5, 200)
        without = bootstrap_mean(values, resamples=400, seed=trial)
        within = bootstrap_mean(values, clusters=labels, resamples=400, seed=trial)
        plain += without.low <= 0 <= without.high
        clustered += within.low <= 0 <= within.high
        trials += 1
    assert 0.87 <= clustered / trials <= 0.99
    assert plain / trials < 0.75


def test_too_little_has_no_interval():
    assert bootstrap_mean([], seed=0) is None
    assert bootstrap_mean([1.0], seed=0) is None
    assert bootstrap_mean([1.0, 2.0, 3.0], clusters=["a", "a", "a"], seed=0) is None
    assert bootstrap(np.mean, [1.0], seed=0) is None
    assert bootstrap(np.mean, [], seed=0) is None


def test_arrays_are_resampled_together():
    x = np.arange(30.0)
    got = bootstrap(lambda a, b: float(np.max(np.abs(a - b))), x, x + 5, resamples=50, seed=0)
    assert (got.low, got.high) == (5.0, 5.0)
    together = bootstrap(lambda a, c: float(np.mean(a == c)), x // 5, x // 5, clusters=x // 5, resamples=50, seed=0)
    assert together.low == 1.0


def test_undefined_resamples_are_counted_or_void_the_interval():
    score, positive = np.arange(40.0), np.arange(40) >= 36
    got = bootstrap(auroc, score, positive, resamples=500, seed=0)
    missing = int(got.method.split("(")[1].split()[0])
    assert 0 < missing <= 12  # (36/40)^40 = 1.5% of the resamples have no positive
    assert got.high == 1.0
    assert bootstrap(auroc, score, np.arange(40) >= 39, resamples=500, seed=0) is None


def test_memory_stays_bounded_for_a_million_items():
    import tracemalloc

    values = np.random.default_rng(0).random(1_000_000)
    tracemalloc.start()
    got = bootstrap_mean(values, resamples=6, seed=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 150e6
    assert got.low < values.mean() < got.high


def test_bootstrap_ratio_of_two_units_by_hand():
    """Two draws from 1/1 and 4/2: 2/2 with 1/4, 5/3 with 1/2, 8/4 with 1/4."""
    half = bootstrap_ratio([1.0, 4.0], [1.0, 2.0], level=0.4, resamples=4000, seed=0)
    assert (half.low, half.high) == pytest.approx((5 / 3, 5 / 3))
    wide = bootstrap_ratio([1.0, 4.0], [1.0, 2.0], level=0.6, resamples=4000, seed=0)
    assert (wide.low, wide.high) == (1.0, 2.0)
    assert (wide.level, wide.method) == (0.6, "percentile bootstrap, 4000 resamples")


@pytest.mark.parametrize("kinds", [60, 5])
def test_bootstrap_ratio_is_the_naive_one(kinds):
    """Units drawn whole, one after the other, and their sums divided; all different, and many alike."""
    rng = np.random.default_rng(6)
    top, below = rng.normal(3, 2, kinds)[np.arange(60) % kinds], rng.integers(1, 9, kinds)[np.arange(60) % kinds]
    draws = rng.integers(0, 60, size=(20_000, 60))
    low, high = np.quantile([top[one].sum() / below[one].sum() for one in draws], [0.05, 0.95])
    got = bootstrap_ratio(top, below, level=0.9, resamples=20_000, seed=1)
    assert got.low == pytest.approx(low, abs=0.03 * (high - low))
    assert got.high == pytest.approx(high, abs=0.03 * (high - low))


def test_bootstrap_ratio_is_decided_by_its_seed_and_not_by_order():
    rng = np.random.default_rng(7)
    top, below = rng.normal(size=40), rng.uniform(1, 2, 40)
    first = bootstrap_ratio(top, below, seed=7)
    assert first == bootstrap_ratio(top[::-1], below[::-1], seed=7)
    assert first != bootstrap_ratio(top, below, seed=8)
    assert first != bootstrap_ratio(top, below[::-1], seed=7), "a unit's two numbers belong together"


def test_bootstrap_ratio_over_ones_is_that_of_the_mean():
    values = np.random.default_rng(8).normal(size=50)
    ratio, mean = bootstrap_ratio(values, np.ones(50), seed=3), bootstrap_mean(values, seed=3)
    assert (ratio.low, ratio.high) == pytest.approx((mean.low, mean.high))


def test_bootstrap_ratio_knows_when_there_is_nothing_to_doubt_and_when_nothing_is_known():
    same = bootstrap_ratio([2.0, 6.0, 4.0], [1.0, 3.0, 2.0], seed=0)
    assert (same.low, same.high) == pytest.approx((2.0, 2.0))
    assert bootstrap_ratio([], [], seed=0) is None
    assert bootstrap_ratio([1.0], [1.0], seed=0) is None
    assert bootstrap_ratio([1.0, 2.0], [1.0, 0.0], seed=0) is None, "a quarter of the resamples have nothing below"
    assert bootstrap_ratio([1.0, 2.0], [0.0, 0.0], seed=0) is None
    rare = bootstrap_ratio(np.arange(30.0), [*np.ones(29), 0.0], seed=0)
    assert rare is not None, "a unit without anything below is no trouble among others"


def test_bootstrap_ratio_covers_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(9)
    hits = 0
    for trial in range(200):
        below = rng.integers(1, 20, 60)
        got = bootstrap_ratio(below * 1.5 + rng.normal(0, 3, 60), below, resamples=400, seed=trial)
        hits += got.low <= 1.5 <= got.high
    assert 0.88 <= hits / 200 <= 0.99


def test_bootstrap_ratio_refuses_what_is_no_ratio():
    with pytest.raises(EvidenceError, match="numerators: nan at position 1"):
        bootstrap_ratio([1.0, math.nan], [1.0, 1.0], seed=0)
    with pytest.raises(EvidenceError, match="denominators: inf at position 0"):
        bootstrap_ratio([1.0, 1.0], [math.inf, 1.0], seed=0)
    with pytest.raises(EvidenceError, match=r"denominators: -1.* at position 1 .*0 or more"):
        bootstrap_ratio([1.0, 1.0], [1.0, -1.0], seed=0)
    with pytest.raises(EvidenceError, match="numerators and denominators must be of one length"):
        bootstrap_ratio([1.0, 1.0], [1.0], seed=0)
    with pytest.raises(InputError, match="resamples 0"):
        bootstrap_ratio([1.0, 2.0], [1.0, 1.0], resamples=0, seed=0)
    with pytest.raises(InputError, match="level 0"):
        bootstrap_ratio([1.0, 2.0], [1.0, 1.0], level=0, seed=0)


def test_wrong_arguments_are_refused():
    with pytest.raises(EvidenceError, match="nan at position 1"):
        bootstrap_mean([1.0, math.nan], seed=0)
    with pytest.raises(InputError, match="resamples 0"):
        bootstrap_mean([1.0, 2.0], resamples=0, seed=0)
    with pytest.raises(InputError, match="one label for each of the 2"):
        bootstrap_mean([1.0, 2.0], clusters=[1], seed=0)
    with pytest.raises(InputError, match="NaN at position 1"):
        bootstrap_mean([1.0, 2.0], clusters=[1.0, math.nan], seed=0)
    with pytest.raises(InputError, match="one length"):
        bootstrap(np.mean, [1.0, 2.0], [1.0], seed=0)
    assert Interval(0.0, 1.0, 0.9, "x") == Interval(0.0, 1.0, 0.9, "x")


def test_several_ratios_from_one_draw_are_those_of_each_alone() -> None:
    rng = np.random.default_rng(5)
    top, tokens, words = rng.gamma(2.0, size=40), rng.integers(1, 9, 40), rng.integers(1, 5, 40)
    both = bootstrap_ratios(top, [tokens, words], seed=1)
    for found, below in zip(both, (tokens, words), strict=True):
        alone = bootstrap_ratio(top, below, seed=1)
        assert (found.low, found.high) == pytest.approx((alone.low, alone.high), rel=0.02), "up to the order of rows"
        assert found.low < top.sum() / below.sum() < found.high
    assert bootstrap_ratios(top, [tokens, np.zeros(40)], seed=1)[1] is None
    assert bootstrap_ratios([1.0], [[1.0], [2.0]], seed=1) == [None, None]
