"""Intervals of AUROC and AUARC: by hand, against others' values, and from influences that are derivatives."""

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howsure.errors import EvidenceError, InputError
from howsure.measures import (
    ScoredItems,
    auarc,
    auarc_interval,
    auprc,
    auroc,
    auroc_difference_interval,
    auroc_interval,
    rank_failures,
)
from howsure.measures.ranking import MOST_INFORMATION, auarc_influence, hanley_mcneil, placements

few = settings(max_examples=100, deadline=None)


def simulated(n, clusters, seed, signal=1.0):
    rng = np.random.default_rng(seed)
    cluster = rng.integers(0, clusters, n)
    failed = rng.random(n) < 0.2 + 0.4 * rng.random(clusters)[cluster]
    return np.round(rng.normal(size=n) + signal * failed, 1), failed.astype(float), cluster


def test_values_by_hand():
    found = rank_failures([0.9, 0.7, 0.7, 0.1], [1, 1, 0, 0])
    assert found.auroc.value == pytest.approx((2 + 1.5) / 4)
    assert found.auprc == (pytest.approx(0.5 * 1 + 0.5 * 2 / 3), None)
    # kept from the lowest score on: a success, then one of the two at 0.7, then both, then all
    assert found.auarc.value == pytest.approx((1 + (1 + 0.5) / 2 + 2 / 3 + 2 / 4) / 4)
    assert (found.items, found.failures) == (4, 2)


def test_values_are_those_of_selective():
    score, failed, cluster = simulated(120, 30, seed=1)
    found = rank_failures(score, failed, clusters=cluster)
    assert found.auroc.value == auroc(score, failed)
    assert found.auprc.value == auprc(score, failed)
    assert found.auarc.value == auarc(-score, 1 - failed)
    for area in (found.auroc, found.auarc):
        assert area.interval.low < area.value < area.interval.high


# -- AUROC ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("score", "positive", "variance"),
    [
        ([0.9, 0.8, 0.7, 0.55, 0.6, 0.3, 0.2, 0.5], [1, 1, 1, 1, 0, 0, 0, 0], 0.0078125),
        ([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8], [0, 0, 1, 0, 1, 1, 0, 1, 0, 0, 1, 1], 0.003858025500803899),
        (
            np.round(np.sin(np.arange(30)) * 3 + np.arange(30) % 3, 1),
            [int(i % 3 == 2 or i % 7 == 0) for i in range(30)],
            0.011051764628742237,
        ),
    ],
)
def test_the_variance_is_delongs(score, positive, variance):
    """Values of the package confidenceinterval 1.0.4 (delong_roc_variance), which works in float32."""
    score, hit = np.asarray(score, dtype=float), np.asarray(positive) == 1
    placed = placements(score, hit)
    got = placed[hit].var(ddof=1) / hit.sum() + placed[~hit].var(ddof=1) / (~hit).sum()
    assert got == pytest.approx(variance, rel=1e-5)


def test_its_interval_by_hand():
    """θ = 15/16, DeLong's variance 1/128, Welch's 6 degrees of freedom, and as many trials as that makes."""
    from scipy.stats import t

    score, positive = [0.9, 0.8, 0.7, 0.55, 0.6, 0.3, 0.2, 0.5], [1, 1, 1, 1, 0, 0, 0, 0]
    trials = (15 / 16) * (1 / 16) / (1 / 128)
    most = MOST_INFORMATION * (15 / 16) * (1 / 16) / hanley_mcneil(15 / 16, 4, 4)
    crit = t.ppf(0.975, 6)
    n = min(trials, most) + crit**2
    centre = (min(trials, most) * 15 / 16 + crit**2 / 2) / n
    half = crit * math.sqrt(centre * (1 - centre) / n)
    got = auroc_interval(score, positive)
    assert (got.low, got.high) == pytest.approx((centre - half, min(1.0, centre + half)))
    assert got.approximate


@pytest.mark.parametrize(
    ("area", "positives", "negatives", "error"),
    [(0.9, 40, 60, 0.032786), (0.8, 50, 50, 0.044502), (0.7, 10, 10, 0.119348)],
)
def test_hanley_and_mcneil_with_a_mean_class_size(area, positives, negatives, error):
    """√ of A (1 − A) [1 + (N − 1) ((1 − A)/(2 − A) + A/(1 + A))] / (m n), N the mean of m and n, on a calculator."""
    assert math.sqrt(hanley_mcneil(area, positives, negatives)) == pytest.approx(error, abs=2e-6)


def test_perfect_separation_has_an_interval():
    """Newcombe's: the θ with (1 − θ)² = t² Var(θ)."""
    from scipy.stats import t

    positive = np.arange(12) >= 6
    got = auroc_interval(np.arange(12.0), positive)
    assert got.high == 1.0
    assert (1 - got.low) ** 2 == pytest.approx(t.ppf(0.975, 10) ** 2 * hanley_mcneil(got.low, 6, 6))
    assert 0.6 < got.low < 0.8
    turned = auroc_interval(-np.arange(12.0), positive)
    assert (turned.low, turned.high) == pytest.approx((0.0, 1 - got.low), abs=1e-9)
    alike = auroc_interval(np.zeros(12), positive)
    assert alike.low < 0.3
    assert alike.high > 0.7


def test_clusters_widen_what_hangs_together():
    score, failed, _ = simulated(100, 20, seed=3)
    many, outcome, cluster = np.repeat(score, 9), np.repeat(failed, 9), np.repeat(np.arange(100), 9)
    once, single = auroc_interval(score, failed), auroc_interval(many, outcome)
    whole = auroc_interval(many, outcome, clusters=cluster)
    assert whole.high - whole.low > 2 * (single.high - single.low)
    assert whole.high - whole.low == pytest.approx(once.high - once.low, rel=0.05)


@pytest.mark.parametrize("clusters", [20, 60])
def test_units_of_other_sizes_are_no_surer(clusters):
    """One cluster of 100 items and others of 3: with each item's spread alone it covered 78 %."""
    sizes = np.array([100] + [3] * (clusters - 1))
    codes, held, drawn = np.repeat(np.arange(clusters), sizes), 0, 0

    def draw(rng, codes):
        units = int(codes.max()) + 1
        first, second = (0.8 * rng.normal(size=units)[codes] + 0.6 * rng.normal(size=len(codes)) for _ in range(2))
        return first, 0.8 * first + second > 0.5

    truth = auroc(*draw(np.random.default_rng(0), np.repeat(np.arange(60_000), 3)))
    for seed in range(300):
        got = auroc_interval(*draw(np.random.default_rng(seed), codes), clusters=codes)
        if got is not None:
            drawn, held = drawn + 1, held + (got.low <= truth <= got.high)
    assert drawn > 250
    assert held / drawn > 0.92


def test_few_units_of_a_class_have_none():
    assert auroc_interval(np.arange(4.0), [0, 0, 1, 1]) is None
    assert auroc_interval(np.arange(20.0), [0] * 18 + [1] * 2) is None
    assert auroc_interval(np.arange(20.0), [0] * 17 + [1] * 3) is not None
    assert auroc_interval(np.arange(20.0), [0, 1] * 10, clusters=np.arange(20) % 4) is None
    assert rank_failures([1.0, 2.0], [0, 1], clusters=["a", "a"]).auroc == (1.0, None)


def test_on_clustered_noise_it_covers_a_half():
    """The bootstrap over five clusters had 0.77 to 0.90."""
    for units in (5, 12):
        drawn = [simulated(20 * units, units, seed, signal=0.0) for seed in range(150)]
        found = [auroc_interval(score, failed, clusters=cluster) for score, failed, cluster in drawn]
        covered = [one.low <= 0.5 <= one.high for one in found if one is not None]
        assert np.mean(covered) > 0.91


# -- AUARC ----------------------------------------------------------------------------------------------------------


@few
@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=6, max_size=30))
def test_the_influence_is_a_derivative(rows):
    """Of the weighted AUARC Σ_k w_k a_k / Σ w with respect to each weight, by a small step; without ties here."""
    confidence = np.arange(len(rows), dtype=float)
    correct = np.array([float(right) for _, right in rows])
    value, influence = auarc_influence(confidence, correct)
    assert value == pytest.approx(auarc(confidence, correct))

    def weighted(w):
        w, y = w[::-1], correct[::-1]
        return float(np.sum(w * np.cumsum(w * y) / np.cumsum(w)) / w.sum())

    step = 1e-6
    for i in range(len(rows)):
        w = np.ones(len(rows))
        w[i] += step
        assert influence[i] == pytest.approx((weighted(w) - value) / step, abs=1e-4)


def test_ties_count_by_expectation():
    confidence, correct = np.array([1.0, 1.0, 0.0, 0.0, 0.0, 2.0]), np.array([1.0, 0.0, 0.0, 1.0, 1.0, 1.0])
    value, influence = auarc_influence(confidence, correct)
    order = np.random.default_rng(0).permutation(6)
    again = auarc_influence(confidence[order], correct[order])
    assert value == pytest.approx(auarc(confidence, correct)) == pytest.approx(again[0])
    np.testing.assert_allclose(again[1], influence[order], atol=1e-12)
    assert influence.sum() == pytest.approx(0.0, abs=1e-12)


def test_few_of_a_class_or_near_one_is_approximate():
    """Nine hits are few; twenty are not, but where hardly a pair is out of order, hardly anything is known."""
    score = np.arange(60.0)
    order = np.random.default_rng(0).permutation(60)
    assert auroc_interval(score, order < 9).approximate
    assert not auroc_interval(score, order < 20).approximate
    assert auroc_interval(score, np.array([0] * 29 + [1, 0] + [1] * 29)).approximate


def test_all_right_has_width():
    got = auarc_interval(np.arange(30.0), np.ones(30))
    assert got.approximate
    assert got.high == 1.0
    assert 0.8 < got.low < 0.95
    assert auarc_interval(np.arange(4.0), [1, 0, 1, 0]) is None


def test_it_covers_where_confidence_says_nothing():
    held = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        got = auarc_interval(rng.random(40), rng.random(40) < 0.7)
        held += got.low <= 0.7 <= got.high
    assert held / 300 > 0.92


# -- both -----------------------------------------------------------------------------------------------------------


def test_only_the_order_of_the_scores_counts():
    plain = rank_failures(np.arange(6.0), [0, 1, 0, 1, 1, 0])
    assert rank_failures([0.0, 5.0, 6.0, 7.0, 1e300, math.inf], [0, 1, 0, 1, 1, 0]) == plain


def test_the_order_of_items_never_counts():
    score, failed, cluster = simulated(60, 12, seed=4)
    order = np.random.default_rng(0).permutation(60)
    for labels in (None, cluster):
        first = rank_failures(score, failed, clusters=labels)
        again = rank_failures(score[order], failed[order], clusters=None if labels is None else labels[order])
        for name in ("auroc", "auarc"):
            one, other = getattr(first, name).interval, getattr(again, name).interval
            assert (other.low, other.high) == pytest.approx((one.low, one.high), rel=1e-9)


def test_one_class_has_nothing():
    for failed in ([], [0, 0, 0], [1, 1]):
        found = rank_failures(np.arange(len(failed)), failed)
        assert (found.auroc, found.auprc, found.auarc) == ((None, None),) * 3
        assert (found.items, found.failures) == (len(failed), sum(failed))


def test_a_hundred_thousand_answers_take_a_moment():
    score, failed, cluster = simulated(100_000, 20_000, seed=5)
    rank_failures(score[:100], failed[:100])
    start = time.perf_counter()
    rank_failures(score, failed, clusters=cluster)
    assert time.perf_counter() - start < 3  # 0.3 s on an idle core


def test_what_cannot_be_used_is_refused():
    with pytest.raises(EvidenceError, match="scores: nan at position 1"):
        rank_failures([1.0, math.nan], [0, 1])
    with pytest.raises(EvidenceError, match="failed: 2 at position 0"):
        rank_failures([1.0], [2])
    with pytest.raises(EvidenceError, match="got 1 and 2"):
        auroc_interval([1.0], [0, 1])
    with pytest.raises(InputError, match="one label for each of the 2 items"):
        rank_failures([1.0, 2.0], [0, 1], clusters=[1])
    with pytest.raises(InputError, match="level 2"):
        auarc_interval([1.0, 2.0], [0, 1], level=2)


# -- two runs over the same units -------------------------------------------------------------------------------------


def pair_of_runs(seed, share, units=60):
    """Scores and failures of two runs over the same tasks, which have this share of their variance in common."""
    rng = np.random.default_rng(seed)
    hard, doubt = rng.normal(size=(2, units)) * math.sqrt(share)
    runs = []
    for _ in range(2):
        failed = hard + rng.normal(size=units) * math.sqrt(1 - share) > 0
        score = doubt + rng.normal(size=units) * math.sqrt(1 - share) + failed
        runs.append(ScoredItems(score, failed, np.arange(units)))
    return runs


def width(interval):
    return interval.high - interval.low


def test_the_difference_of_two_areas_is_put_together_from_both():
    a, b = pair_of_runs(0, 0.0)
    first, second = (auroc(one.score, one.positive) for one in (a, b))
    apart = b._replace(unit=b.unit + 1000)
    interval = auroc_difference_interval(a, apart)
    own = [auroc_interval(one.score, one.positive) for one in (a, b)]
    below = math.hypot(second - own[1].low, own[0].high - first)
    above = math.hypot(own[1].high - second, first - own[0].low)
    assert (interval.low, interval.high) == pytest.approx((second - first - below, second - first + above))


def test_what_units_have_in_common_makes_the_difference_surer():
    both = [pair_of_runs(seed, 0.9) for seed in range(20)]
    paired = np.mean([width(auroc_difference_interval(a, b)) for a, b in both])
    alone = np.mean([width(auroc_difference_interval(a, b._replace(unit=b.unit + 1000))) for a, b in both])
    assert paired < 0.8 * alone


def test_a_difference_of_areas_turns_round_with_its_runs():
    a, b = pair_of_runs(3, 0.5)
    there, back = auroc_difference_interval(a, b), auroc_difference_interval(b, a)
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))


def test_units_may_lack_items_in_one_run_and_hold_several_in_the_other():
    a, b = pair_of_runs(4, 0.5)
    b = ScoredItems(np.tile(b.score[:40], 2), np.tile(b.positive[:40], 2), np.tile(b.unit[:40], 2))
    interval = auroc_difference_interval(a, b)
    assert interval.low < auroc(b.score, b.positive) - auroc(a.score, a.positive) < interval.high
    assert interval.method.startswith("MOVER")


def test_a_difference_has_no_interval_where_one_of_the_areas_has_none():
    a, b = pair_of_runs(5, 0.5)
    few = ScoredItems(a.score[:4], a.positive[:4], a.unit[:4])
    assert auroc_difference_interval(few, b) is None
    assert auroc_difference_interval(a, b._replace(positive=np.ones(60))) is None
