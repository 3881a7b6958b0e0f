"""Bootstraps of a median and of an AUROC that never draw their resamples out."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howsure.errors import EvidenceError, InputError
from howsure.measures import auroc, bootstrap, bootstrap_auroc, bootstrap_median, rank_failures
from howsure.measures.weighted_bootstrap import _aurocs, _medians

few = settings(max_examples=100, deadline=None)
drawn_items = st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.integers(0, 3)), min_size=1, max_size=14)


def simulated(n, clusters, seed):
    rng = np.random.default_rng(seed)
    cluster = rng.integers(0, clusters, n)
    positive = rng.random(n) < 0.2 + 0.5 * rng.random(clusters)[cluster]
    score = np.round(rng.normal(size=n) + rng.normal(size=clusters)[cluster] + positive, 1)
    return score, positive, cluster


# -- the median -----------------------------------------------------------------------------------------------------


@few
@given(drawn_items)
def test_weights_are_copies_of_an_item(rows):
    values, _, weights = (np.array(column) for column in zip(*rows, strict=True))
    if weights.sum() == 0:
        weights = weights + 1
    order = np.argsort(values, kind="stable")
    got = _medians(values[order].astype(float), weights[order][None])
    assert got.tolist() == [np.median(np.repeat(values, weights))]


def test_three_items_by_hand():
    """Of the 27 draws from 1, 2, 9, seven have the median 1, thirteen 2, seven 9: the ends at 7/27 = 26 %."""
    medians = [sorted(draw)[1] for draw in product((1, 2, 9), repeat=3)]
    assert [medians.count(value) for value in (1, 2, 9)] == [7, 13, 7]
    narrow = bootstrap_median([1.0, 2.0, 9.0], level=0.4, resamples=4000, seed=0)
    wide = bootstrap_median([1.0, 2.0, 9.0], level=0.6, resamples=4000, seed=0)
    assert (narrow.low, narrow.high) == (2.0, 2.0)
    assert (wide.low, wide.high) == (1.0, 9.0)


@pytest.mark.parametrize("clustered", [True, False], ids=["clusters", "items"])
def test_the_interval_is_that_of_the_plain_bootstrap(clustered):
    score, _, cluster = simulated(150, 40, seed=1)
    labels = cluster if clustered else None
    got = bootstrap_median(score, clusters=labels, resamples=4000, seed=1)
    plain = bootstrap(np.median, score, clusters=labels, resamples=4000, seed=2)
    assert (got.low, got.high) == pytest.approx((plain.low, plain.high), abs=0.1)
    assert got.low < np.median(score) < got.high
    assert got.method == f"percentile bootstrap over {'clusters' if clustered else 'items'}, 4000 resamples"


def test_copies_of_a_cluster_tell_nothing_new():
    score, _, _ = simulated(60, 60, seed=2)
    once = bootstrap_median(score, clusters=np.arange(60), seed=0)
    copied = bootstrap_median(np.repeat(score, 9), clusters=np.repeat(np.arange(60), 9), seed=0)
    naive = bootstrap_median(np.repeat(score, 9), seed=0)
    assert (copied.low, copied.high) == (once.low, once.high)
    assert copied.high - copied.low > 2 * (naive.high - naive.low)


@pytest.mark.parametrize("kind", ["median", "auroc"])
def test_only_seed_and_items_count_and_not_their_order(kind):
    score, positive, cluster = simulated(80, 15, seed=3)
    order = np.random.default_rng(0).permutation(80)

    def interval(rows, labels, seed):
        labels = None if labels is None else labels[rows]
        if kind == "median":
            return bootstrap_median(score[rows], clusters=labels, resamples=40, seed=seed)
        return bootstrap_auroc(score[rows], positive[rows], clusters=labels, resamples=40, seed=seed)

    for labels in (None, cluster):
        first = interval(np.arange(80), labels, 5)
        assert interval(order, labels, 5) == first
        assert interval(order, labels, 5) == first, "and again"
        names = None if labels is None else np.array([f"screen {label:02}" for label in labels])
        assert interval(order, names, 5) == first
    assert interval(order, cluster, 6) != first


def test_on_clustered_noise_the_interval_covers_the_median():
    covered = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        cluster = rng.integers(0, 40, 200)
        values = rng.normal(size=40)[cluster] + rng.normal(size=200)
        interval = bootstrap_median(values, clusters=cluster, resamples=400, seed=seed)
        covered += interval.low <= 0.0 <= interval.high
    assert covered >= 50


def test_few_have_no_interval():
    assert bootstrap_median([], seed=0) is None
    assert bootstrap_median([3.0], seed=0) is None
    assert bootstrap_median([3.0, 4.0, 5.0], clusters=["a", "a", "a"], seed=0) is None
    same = bootstrap_median([3.0, 3.0], seed=0)
    assert (same.low, same.high) == (3.0, 3.0)


def test_wrong_input_is_refused():
    with pytest.raises(EvidenceError, match="values: nan at position 1"):
        bootstrap_median([1.0, math.nan], seed=0)
    with pytest.raises(InputError, match="level 2"):
        bootstrap_median([1.0, 2.0], level=2, seed=0)
    with pytest.raises(InputError, match="resamples 0"):
        bootstrap_auroc([1.0, 2.0], [0, 1], resamples=0, seed=0)
    with pytest.raises(InputError, match="one label for each of the 2 items"):
        bootstrap_median([1.0, 2.0], clusters=[1], seed=0)
    with pytest.raises(EvidenceError, match="score and positive must be of one length"):
        bootstrap_auroc([1.0, 2.0], [0], seed=0)


# -- the AUROC ------------------------------------------------------------------------------------------------------


@few
@given(drawn_items)
def test_weighted_pairs_are_scikit_learns_area(rows):
    score, positive, weights = (np.array(column) for column in zip(*rows, strict=True))
    order = np.lexsort((positive, score))
    got = _aurocs(score[order].astype(float), positive[order], np.arange(len(score)), weights[order][None])[0]
    many, outcome = np.repeat(score, weights).astype(float), np.repeat(positive, weights)
    expected = auroc(many, outcome)
    assert math.isnan(got) if expected is None else got == pytest.approx(expected)


@pytest.mark.parametrize("clustered", [True, False], ids=["clusters", "items"])
def test_the_auroc_interval_is_that_of_a_ranking_of_failures(clustered):
    """The same area by another formula: failures above successes in descending order."""
    score, positive, cluster = simulated(150, 40, seed=4)
    labels = cluster if clustered else None
    got = bootstrap_auroc(score, positive, clusters=labels, resamples=3000, seed=1)
    other = rank_failures(-score, ~positive, clusters=labels, resamples=3000, seed=1).auroc
    assert (got.low, got.high) == pytest.approx((other.interval.low, other.interval.high), abs=0.01)
    assert got.low < other.value < got.high


def test_auroc_intervals_of_one_class_few_items_and_undefined_resamples():
    assert bootstrap_auroc([], [], seed=0) is None
    assert bootstrap_auroc([1.0, 2.0, 3.0], [1, 1, 1], seed=0) is None
    assert bootstrap_auroc([1.0, 2.0], [0, 1], clusters=["a", "a"], seed=0) is None
    assert bootstrap_auroc([1.0, 2.0, 3.0], [0, 0, 1], seed=0) is None, "a third of the resamples has one class"
    some = bootstrap_auroc(np.arange(9.0), [1, 1, 1, 1, 0, 0, 0, 0, 0], seed=0)
    assert "undefined left out" in some.method
    constant = bootstrap_auroc(np.ones(40), np.arange(40) % 2, seed=0)
    assert (constant.low, constant.high) == (0.5, 0.5)
