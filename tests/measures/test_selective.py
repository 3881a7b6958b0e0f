"""Ranking measures and risk–coverage, with ties by expectation."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howsure.errors import EvidenceError, InputError
from howsure.measures import auarc, auprc, aurc, auroc, chance_auprc, e_aurc, prr, risk_coverage

few = settings(max_examples=100, deadline=None)
answers = st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=12)
tiny = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=6)


def split(rows):
    return np.array([c for c, _ in rows], dtype=float), np.array([y for _, y in rows], dtype=float)


def naive_curve(losses_in_order):
    return [sum(losses_in_order[:k]) / k for k in range(1, len(losses_in_order) + 1)]


def curves_over_all_tie_breaks(confidence, loss):
    """The curve of every order that sorts the confidences downwards."""
    for order in itertools.permutations(range(len(loss))):
        if all(confidence[a] >= confidence[b] for a, b in itertools.pairwise(order)):
            yield naive_curve([loss[i] for i in order])


def test_auroc_by_hand():
    assert auroc([0.9, 0.7, 0.7, 0.1], [1, 1, 0, 0]) == pytest.approx((2 + 1.5) / 4)
    assert auroc([1.0, 1.0], [1, 0]) == 0.5
    assert auroc([0.1, 0.9], [1, 0]) == 0.0


def test_auprc_by_hand():
    # thresholds 0.9 (1 of 1 right, recall 1/2) and 0.7 (2 of 3, recall 1)
    assert auprc([0.9, 0.7, 0.7, 0.1], [1, 1, 0, 0]) == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)


@few
@given(answers)
def test_auroc_and_auprc_are_their_definitions_and_scikit_learn(rows):
    from sklearn.metrics import average_precision_score, roc_auc_score

    score, positive = split(rows)
    pos, neg = score[positive == 1], score[positive == 0]
    if len(pos) == 0 or len(neg) == 0:
        assert auroc(score, positive) is None
        assert auprc(score, positive) is None
        return
    naive = np.mean([(p > n) + 0.5 * (p == n) for p in pos for n in neg])
    assert auroc(score, positive) == pytest.approx(naive)
    assert auroc(score, positive) == pytest.approx(roc_auc_score(positive, score))
    assert auprc(score, positive) == pytest.approx(average_precision_score(positive, score))
    recall, area = 0.0, 0.0
    for threshold in sorted(set(score.tolist()), reverse=True):
        kept = score >= threshold
        now = positive[kept].sum() / positive.sum()
        area, recall = area + (now - recall) * positive[kept].mean(), now
    assert auprc(score, positive) == pytest.approx(area)


def test_only_the_order_counts_so_infinities_are_welcome():
    labels = [0, 1, 0, 1]
    assert auroc([-math.inf, 5.0, 1.0, math.inf], labels) == auroc([0, 2, 1, 3], labels) == 1.0
    assert aurc([-math.inf, 5.0, 1.0, math.inf], correct=labels) == aurc([0, 2, 1, 3], correct=labels)


def test_risk_coverage_by_hand():
    curve = risk_coverage([0.9, 0.8, 0.7, 0.6], correct=[1, 0, 1, 0])
    np.testing.assert_allclose(curve.coverage, [0.25, 0.5, 0.75, 1.0])
    np.testing.assert_allclose(curve.risk, [0.0, 0.5, 1 / 3, 0.5])
    area = (0 + 1 / 2 + 1 / 3 + 1 / 2) / 4
    best = (0 + 0 + 1 / 3 + 1 / 2) / 4
    assert aurc([0.9, 0.8, 0.7, 0.6], correct=[1, 0, 1, 0]) == pytest.approx(area)
    assert e_aurc([0.9, 0.8, 0.7, 0.6], correct=[1, 0, 1, 0]) == pytest.approx(area - best)
    assert prr([0.9, 0.8, 0.7, 0.6], correct=[1, 0, 1, 0]) == pytest.approx((0.5 - area) / (0.5 - best))
    assert auarc([0.9, 0.8, 0.7, 0.6], [1, 0, 1, 0]) == pytest.approx(1 - area)


@few
@given(tiny)
def test_ties_are_the_mean_over_all_ways_to_break_them(rows):
    confidence, loss = split(rows)
    curves = np.array(list(curves_over_all_tie_breaks(confidence, loss)))
    mean = curves.mean(axis=0)
    np.testing.assert_allclose(risk_coverage(confidence, loss=loss).risk, mean, atol=1e-12)
    assert aurc(confidence, loss=loss) == pytest.approx(mean.mean())
    oracle = min(np.mean(naive_curve(order)) for order in itertools.permutations(loss))
    chance = np.mean([np.mean(naive_curve(order)) for order in itertools.permutations(loss)])
    assert e_aurc(confidence, loss=loss) == pytest.approx(mean.mean() - oracle, abs=1e-9)
    if len(set(loss.tolist())) == 1:
        assert prr(confidence, loss=loss) is None
    else:
        assert prr(confidence, loss=loss) == pytest.approx((chance - mean.mean()) / (chance - oracle))


@few
@given(answers)
def test_order_of_the_input_does_not_matter(rows):
    confidence, correct = split(rows)
    order = np.random.default_rng(1).permutation(len(rows))
    for measure in (aurc, e_aurc, prr):
        first = measure(confidence, correct=correct)
        assert measure(confidence[order], correct=correct[order]) == pytest.approx(first)
    for measure in (auroc, auprc, auarc):
        assert measure(confidence[order], correct[order]) == pytest.approx(measure(confidence, correct))


@few
@given(answers)
def test_correct_and_loss_are_two_names_for_one_thing(rows):
    confidence, correct = split(rows)
    for measure in (aurc, e_aurc, prr):
        assert measure(confidence, correct=correct) == measure(confidence, loss=1 - correct)
    assert auarc(confidence, correct) == pytest.approx(1 - aurc(confidence, correct=correct))


@few
@given(answers)
def test_prr_is_one_for_the_oracle_and_zero_for_chance(rows):
    _, correct = split(rows)
    if len(set(correct.tolist())) < 2:
        assert prr(correct, correct=correct) is None
        return
    assert prr(correct, correct=correct) == pytest.approx(1.0)
    assert prr(np.zeros(len(rows)), correct=correct) == pytest.approx(0.0, abs=1e-12)
    assert prr(-correct, correct=correct) < 0
    assert e_aurc(correct, correct=correct) == pytest.approx(0.0, abs=1e-12)


def test_one_answer_and_none():
    assert aurc([0.3], correct=[0]) == 1.0
    assert e_aurc([0.3], correct=[0]) == 0.0
    assert prr([0.3], correct=[0]) is None
    assert auroc([], []) is None
    assert auprc([], []) is None
    for measure in (risk_coverage, aurc, e_aurc, prr):
        assert measure([], correct=[]) is None
    assert auarc([], []) is None


def test_what_cannot_be_used_is_refused():
    with pytest.raises(InputError, match="exactly one"):
        aurc([0.1], correct=[1], loss=[0.0])
    with pytest.raises(InputError, match="exactly one"):
        prr([0.1])
    with pytest.raises(EvidenceError, match="nan at position 0"):
        auroc([math.nan, 1.0], [0, 1])
    with pytest.raises(EvidenceError, match="loss: inf at position 0"):
        aurc([0.1], loss=[math.inf])
    with pytest.raises(EvidenceError, match="positive: 2 at position 1"):
        auprc([0.1, 0.2], [0, 2])
    with pytest.raises(EvidenceError, match="got 1 and 2"):
        auarc([0.1], [0, 1])


@pytest.mark.parametrize(("items", "positives"), [(2, 1), (4, 2), (6, 1), (6, 4), (7, 3)])
def test_the_auprc_of_chance_is_the_mean_over_all_orders(items, positives):
    labels = [1] * positives + [0] * (items - positives)
    found = [auprc(np.arange(items, 0.0, -1), order) for order in sorted(set(itertools.permutations(labels)))]
    assert chance_auprc(items, positives) == pytest.approx(np.mean(found))
