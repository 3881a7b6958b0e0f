"""Ranking failures: the point values of `selective`, and a bootstrap that never draws its resamples out."""

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howsure.errors import EvidenceError, InputError
from howsure.measures import auarc, auprc, auroc, bootstrap, rank_failures
from howsure.measures.ranking import _areas, _blocks

few = settings(max_examples=100, deadline=None)
items = st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.integers(0, 3)), min_size=1, max_size=14)
MEASURES = {"auroc": auroc, "auprc": auprc, "auarc": lambda s, f: auarc(-s, 1 - f)}


def simulated(n, clusters, seed, signal=1.0):
    rng = np.random.default_rng(seed)
    cluster = rng.integers(0, clusters, n)
    failed = rng.random(n) < 0.2 + 0.4 * rng.random(clusters)[cluster]
    return np.round(rng.normal(size=n) + signal * failed, 1), failed.astype(float), cluster


def test_by_hand():
    found = rank_failures([0.9, 0.7, 0.7, 0.1], [1, 1, 0, 0], seed=0)
    assert found.auroc.value == pytest.approx((2 + 1.5) / 4)
    assert found.auprc.value == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)
    # kept from the lowest score on: a success, then one of the two at 0.7, then both, then all
    assert found.auarc.value == pytest.approx((1 + (1 + 0.5) / 2 + 2 / 3 + 2 / 4) / 4)
    assert (found.items, found.failures) == (4, 2)


@few
@given(items)
def test_weights_are_copies_of_an_item(rows):
    """The kernel on weights equals scikit-learn's, and `selective`'s, on the resample drawn out."""
    score, failed, weight = (np.array(column) for column in zip(*rows, strict=True))
    order = np.lexsort((failed, -score))
    got = _areas(weight[order][None], _blocks(score.astype(float), failed.astype(int), None))[0]
    many, outcome = np.repeat(score, weight).astype(float), np.repeat(failed, weight).astype(float)
    if len(set(outcome.tolist())) < 2:
        assert np.isnan(got).all()
        return
    expected = [measure(many, outcome) for measure in MEASURES.values()]
    np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_the_intervals_are_those_of_the_plain_bootstrap():
    score, failed, cluster = simulated(120, 30, seed=1)
    found = rank_failures(score, failed, clusters=cluster, resamples=4000, seed=1)
    for name, measure in MEASURES.items():
        value, interval = getattr(found, name)
        plain = bootstrap(measure, score, failed, clusters=cluster, resamples=400, seed=2)
        assert value == pytest.approx(measure(score, failed))
        assert (interval.low, interval.high) == pytest.approx((plain.low, plain.high), abs=0.03)
        assert interval.low < value < interval.high
        assert interval.method == "percentile bootstrap over clusters, 4000 resamples"


def test_clusters_widen_what_hangs_together():
    score, failed, _ = simulated(100, 20, seed=3)
    many, outcome, cluster = np.repeat(score, 9), np.repeat(failed, 9), np.repeat(np.arange(100), 9)
    whole = rank_failures(many, outcome, clusters=cluster, seed=0).auroc.interval
    single = rank_failures(many, outcome, seed=0).auroc.interval
    once = rank_failures(score, failed, seed=0).auroc.interval
    assert whole.high - whole.low > 2 * (single.high - single.low)
    assert whole.high - whole.low == pytest.approx(once.high - once.low, rel=0.1)


def test_on_noise_the_interval_covers_a_half():
    covered = 0
    for seed in range(40):
        score, failed, cluster = simulated(150, 40, seed, signal=0.0)
        interval = rank_failures(score, failed, clusters=cluster, resamples=400, seed=seed).auroc.interval
        covered += interval.low <= 0.5 <= interval.high
    assert covered >= 34


def test_only_seed_and_items_count_and_not_their_order():
    score, failed, cluster = simulated(60, 12, seed=4)
    order = np.random.default_rng(0).permutation(60)
    for labels in (None, cluster):
        first = rank_failures(score, failed, clusters=labels, seed=5)
        shuffled = None if labels is None else labels[order]
        again = rank_failures(score[order], failed[order], clusters=shuffled, seed=5)
        for name in MEASURES:
            assert getattr(again, name).interval.low == pytest.approx(getattr(first, name).interval.low)
    assert first.auroc.interval != rank_failures(score, failed, clusters=cluster, seed=6).auroc.interval


def test_only_the_order_of_the_scores_counts():
    plain = rank_failures([0.0, 1.0, 2.0, 3.0], [0, 1, 0, 1], seed=0)
    assert rank_failures([0.0, 5.0, 1e300, math.inf], [0, 1, 0, 1], seed=0) == plain


def test_one_class_none_and_one_cluster():
    for failed in ([], [0, 0, 0], [1, 1]):
        found = rank_failures(np.arange(len(failed)), failed, seed=0)
        assert (found.auroc, found.auprc, found.auarc) == ((None, None),) * 3
        assert (found.items, found.failures) == (len(failed), sum(failed))
    alone = rank_failures([1.0, 2.0], [0, 1], clusters=["a", "a"], seed=0)
    assert alone.auroc == (1.0, None)


def test_undefined_resamples_are_counted_or_too_many():
    failed = [1, 1, 1, 1, 0, 0, 0, 0, 0]
    some = rank_failures(np.arange(9.0), failed, seed=0).auroc.interval
    assert "undefined left out" in some.method
    assert rank_failures([1.0, 2.0, 3.0], [0, 0, 1], seed=0).auroc == (1.0, None)


def test_a_thousand_runs_take_under_a_second():
    score, failed, cluster = simulated(1000, 250, seed=5)
    rank_failures(score, failed, clusters=cluster, resamples=10, seed=0)
    start = time.perf_counter()
    rank_failures(score, failed, clusters=cluster, seed=0)
    assert time.perf_counter() - start < 2  # 0.2 s on an idle core


def test_what_cannot_be_used_is_refused():
    with pytest.raises(EvidenceError, match="scores: nan at position 1"):
        rank_failures([1.0, math.nan], [0, 1], seed=0)
    with pytest.raises(EvidenceError, match="failed: 2 at position 0"):
        rank_failures([1.0], [2], seed=0)
    with pytest.raises(EvidenceError, match="got 1 and 2"):
        rank_failures([1.0], [0, 1], seed=0)
    with pytest.raises(InputError, match="one label for each of the 2 items"):
        rank_failures([1.0, 2.0], [0, 1], clusters=[1], seed=0)
    with pytest.raises(InputError, match="resamples 0"):
        rank_failures([1.0, 2.0], [0, 1], resamples=0, seed=0)
