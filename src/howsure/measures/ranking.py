"""Does confidence tell right from wrong, and with how much doubt? Ranking measures, what is gained by leaving out the
unsure, and the intervals of AUROC and AUARC.

Only the order of the confidences counts, so infinities are welcome. Equal confidences are handled by expectation: each
measure is the mean over all ways to break the ties, never a matter of input order. For an interval, each item's
influence on the value (how it would move if the item counted a little more) comes from running sums over the sorted
scores, so that a hundred thousand items take a moment.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howsure.errors import InputError
from howsure.measures.checks import (
    Array,
    binary_vector,
    check_level,
    cluster_codes,
    finite_vector,
    ranked_vector,
    same_length,
)
from howsure.measures.intervals import (
    ENOUGH_UNITS,
    LEAST_UNITS,
    Interval,
    correlation_of,
    effective_trials,
    enlarged,
    few_rare,
    mover,
    score_interval,
    spread_of,
    t_critical,
)

Bools = NDArray[np.bool_]

LEAST_OF_A_CLASS = 3
"""Units with a hit, and units with a miss, that an interval of the AUROC takes."""

MOST_INFORMATION = 2.0
"""How much more an area's own variance may promise than Hanley and McNeil's (AUROC), or than a share of as many items
(AUARC): near 1, few items make it too small."""


class RiskCoverage(NamedTuple):
    """Selective risk (mean loss of the answers kept) at the coverages 1/n, 2/n, …, 1."""

    coverage: Array
    risk: Array


def auroc(score: ArrayLike, positive: ArrayLike) -> float | None:
    """Probability that a positive item scores above a negative one, ties counting half (scikit-learn).

    None unless both classes are present.

    >>> auroc([0.9, 0.8, 0.1], [1, 0, 0])
    1.0
    """
    ranks, labels = _checked(score, positive, "score and positive")
    if len(np.unique(labels)) < 2:
        return None
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(labels, ranks))


def auprc(score: ArrayLike, positive: ArrayLike) -> float | None:
    """Average precision Σ (recall_i − recall_{i−1}) · precision_i over distinct scores (scikit-learn).

    Equal scores form one threshold. None unless both classes are present.

    >>> auprc([0.9, 0.8, 0.1], [1, 0, 0])
    1.0
    """
    ranks, labels = _checked(score, positive, "score and positive")
    if len(np.unique(labels)) < 2:
        return None
    from sklearn.metrics import average_precision_score

    return float(average_precision_score(labels, ranks))


def chance_auprc(items: int, positives: int) -> float:
    """The mean of `auprc` over all orders of the items: above the share of positives, the more so the fewer there are.

    With H the harmonic number of n items of which k are positive, the i-th of n places holds a positive with chance
    k / n, and then 1 + (i − 1)(k − 1) / (n − 1) of the first i on average.

    >>> round(chance_auprc(4, 2), 4), round(chance_auprc(4000, 2000), 4)
    (0.6806, 0.501)
    """
    if items < 2 or not positives:
        return float(positives)
    harmonic = float(np.sum(1.0 / np.arange(1, items + 1)))
    return (harmonic + (positives - 1) / (items - 1) * (items - harmonic)) / items


def risk_coverage(
    confidence: ArrayLike, *, correct: ArrayLike | None = None, loss: ArrayLike | None = None
) -> RiskCoverage | None:
    """Mean loss of the k most confident answers for k = 1 … n, with `loss`, or 1 − `correct`, of each.

    Among equal confidences the k-th is any of them: the risk is its expectation. None for no answers.

    >>> risk_coverage([0.9, 0.5, 0.5], correct=[1, 0, 1]).risk
    array([0.        , 0.25      , 0.33333333])
    """
    confidence, losses = _confidence_and_loss(confidence, correct, loss)
    if len(losses) == 0:
        return None
    count = np.arange(1, len(losses) + 1)
    return RiskCoverage(count / len(losses), np.cumsum(_expected_order(confidence, losses)) / count)


def aurc(confidence: ArrayLike, *, correct: ArrayLike | None = None, loss: ArrayLike | None = None) -> float | None:
    """Area under the risk–coverage curve: the mean of the selective risks at coverages 1/n … 1.

    >>> round(aurc([0.9, 0.8, 0.7], correct=[1, 1, 0]), 6)
    0.111111
    """
    curve = risk_coverage(confidence, correct=correct, loss=loss)
    return None if curve is None else float(curve.risk.mean())


def e_aurc(confidence: ArrayLike, *, correct: ArrayLike | None = None, loss: ArrayLike | None = None) -> float | None:
    """AURC minus the least AURC that any confidence could reach with these losses; 0 is a perfect order.

    >>> e_aurc([0.9, 0.8, 0.7], correct=[1, 1, 0])
    0.0
    """
    confidence, losses = _confidence_and_loss(confidence, correct, loss)
    area = aurc(confidence, loss=losses)
    return None if area is None else max(0.0, area - _oracle_aurc(losses))


def prr(confidence: ArrayLike, *, correct: ArrayLike | None = None, loss: ArrayLike | None = None) -> float | None:
    """Prediction rejection ratio: (AURC_random − AURC) / (AURC_random − AURC_oracle).

    1 is a perfect order, 0 is chance (AURC_random is the mean loss), below 0 is worse than chance. None for
    no answers, and where all losses are equal: then no order is better than another.

    >>> prr([0.9, 0.8, 0.7], correct=[1, 1, 0])
    1.0
    """
    confidence, losses = _confidence_and_loss(confidence, correct, loss)
    if len(losses) == 0 or (losses == losses[0]).all():
        return None
    area = aurc(confidence, loss=losses)
    random, oracle = float(losses.mean()), _oracle_aurc(losses)
    return None if area is None else (random - area) / (random - oracle)


def auarc(confidence: ArrayLike, correct: ArrayLike) -> float | None:
    """Area under the accuracy–rejection curve: the mean accuracy of the answers kept, = 1 − AURC.

    >>> round(auarc([0.9, 0.8, 0.7], [1, 1, 0]), 6)
    0.888889
    """
    area = aurc(confidence, correct=correct)
    return None if area is None else 1.0 - area


def _expected_order(confidence: Array, losses: Array) -> Array:
    """The losses from most to least confident, each the mean of its block of equal confidences."""
    _, block, size = np.unique(-confidence, return_inverse=True, return_counts=True)
    return _block_means(losses, block, size)


def _oracle_aurc(losses: Array) -> float:
    return float((np.cumsum(np.sort(losses)) / np.arange(1, len(losses) + 1)).mean())


def _confidence_and_loss(
    confidence: ArrayLike, correct: ArrayLike | None, loss: ArrayLike | None
) -> tuple[Array, Array]:
    ranks = ranked_vector(confidence, "confidence")
    if correct is not None and loss is None:
        losses = 1.0 - binary_vector(correct, "correct")
    elif loss is not None and correct is None:
        losses = finite_vector(loss, "loss")
    else:
        raise InputError("give exactly one of `correct` (1 is right) and `loss` (larger is worse)")
    same_length(ranks, losses, "confidence and correct or loss")
    return ranks, losses


# -- all together ------------------------------------------------------------------------------------------------------


class Area(NamedTuple):
    """One measure and its interval; None where it does not exist."""

    value: float | None
    interval: Interval | None


class Ranking(NamedTuple):
    """How well a score tells failures from successes; all three are higher where it does so better.

    `auroc`: the chance that a failure scores above a success. `auprc`: average precision in finding failures.
    `auarc`: mean share of successes among the runs kept, as those of the highest scores are left out one by one.
    """

    auroc: Area
    auprc: Area
    auarc: Area
    items: int
    failures: int


def rank_failures(
    scores: ArrayLike, failed: ArrayLike, *, clusters: ArrayLike | None = None, level: float = 0.95
) -> Ranking:
    """AUROC and AUPRC of the score for failures, AUARC with −score as confidence, each with its interval.

    All are None unless there are failures and successes. AUPRC has no interval: from few failures it lies too high on
    average by as much as it varies.

    >>> ranking = rank_failures([0.2, 0.9, 0.4, 0.7], [0, 1, 0, 1])
    >>> ranking.auroc.value, ranking.auprc.value, round(ranking.auarc.value, 4)
    (1.0, 1.0, 0.7917)
    """
    score, labels = _checked(scores, failed, "scores and failed")
    check_level(level)
    if len(np.unique(labels)) < 2:
        return Ranking(Area(None, None), Area(None, None), Area(None, None), len(labels), int(labels.sum()))
    return Ranking(
        Area(auroc(score, labels), auroc_interval(score, labels, clusters=clusters, level=level)),
        Area(auprc(score, labels), None),
        Area(auarc(-score, 1 - labels), auarc_interval(-score, 1 - labels, clusters=clusters, level=level)),
        len(labels),
        int(labels.sum()),
    )


# -- AUROC -----------------------------------------------------------------------------------------------------------


def auroc_interval(
    score: ArrayLike, positive: ArrayLike, *, clusters: ArrayLike | None = None, level: float = 0.95
) -> Interval | None:
    """Score interval of `auroc`, with the variance of its placements over items or clusters.

    The variance is DeLong's (Biometrics 44, 1988), over clusters Obuchowski's (Biometrics 53, 1997), with Welch's
    degrees of freedom. Where the classes are separated without exception it is zero, and Newcombe's interval
    (Statistics in Medicine 25, 2006, method 5) is taken, which still has width. None with fewer than five units, or
    fewer than three that hold a positive or a negative.

    >>> interval = auroc_interval([0.9, 0.8, 0.7, 0.6, 0.3, 0.2, 0.1, 0.0], [1, 1, 1, 1, 0, 0, 0, 0])
    >>> round(interval.low, 3), interval.high
    (0.471, 1.0)
    """
    check_level(level)
    ranks, labels = _checked(score, positive, "score and positive")
    codes = cluster_codes(clusters, len(ranks))
    units, hit = int(codes.max(initial=-1)) + 1, labels == 1
    with_hit, with_miss = len(np.unique(codes[hit])), len(np.unique(codes[~hit]))
    if units < LEAST_UNITS or min(with_hit, with_miss) < LEAST_OF_A_CLASS:
        return None
    placed = placements(ranks, hit)
    value = float(placed[hit].mean())
    hits, misses = int(hit.sum()), int((~hit).sum())
    of_hits, from_hits = _class_sums(np.where(hit, (placed - value) / hits, 0.0), codes, hit)
    of_misses, from_misses = _class_sums(np.where(hit, 0.0, (placed - value) / misses), codes, ~hit)
    own = float(of_hits @ of_hits), float(of_misses @ of_misses)
    clustered = units < len(ranks)
    few = min(from_hits, from_misses) < ENOUGH_UNITS - 1e-9
    over = f"over {units:,} {'clusters' if clustered else 'items'}"
    variance = sum(own) + 2.0 * float(of_hits @ of_misses)
    if sum(own) == 0.0 or variance <= 0.0 or not 0.0 < value < 1.0:
        rough_df = min(with_hit, with_miss) if clustered else units - 2
        low, high = _newcombe(value, with_hit, with_miss, t_critical(level, rough_df))
        return Interval(low, high, level, f"Newcombe {over}", approximate=True)
    df = sum(own) ** 2 / (own[0] ** 2 / max(1.0, from_hits - 1) + own[1] ** 2 / max(1.0, from_misses - 1))
    df = max(1.0, min(df, units - 1.0))
    most = MOST_INFORMATION / hanley_mcneil(value, hits, misses)
    trials = value * (1 - value) * min(1.0 / variance, most)
    low, high = score_interval(value, trials, t_critical(level, df))
    rough = few or few_rare(value, trials)
    return Interval(low, high, level, f"score interval, DeLong's variance {over}", rough)


class ScoredItems(NamedTuple):
    """Items with their scores, whether each is a positive, and the unit that each belongs to."""

    score: ArrayLike
    positive: ArrayLike
    unit: ArrayLike


def auroc_difference_interval(a: ScoredItems, b: ScoredItems, *, level: float = 0.95) -> Interval | None:
    """Interval of `auroc` of b minus that of a, where both are over items of the same units, such as tasks.

    It is put together from the intervals of the two, with the correlation of what units contribute to them (MOVER: Zou
    and Yue, Using confidence intervals to compare several correlated areas under the ROC curves, Statistics in Medicine
    32, 2013). None where either has none.

    >>> failed = [1, 1, 1, 1, 0, 0, 0, 0]
    >>> a = ScoredItems([0.9, 0.2, 0.8, 0.5, 0.6, 0.3, 0.7, 0.0], failed, range(8))
    >>> b = ScoredItems([0.9, 0.8, 0.7, 0.5, 0.6, 0.3, 0.1, 0.0], failed, range(8))
    >>> interval = auroc_difference_interval(a, b)
    >>> interval.low < 15 / 16 - 10 / 16 < interval.high
    True
    """
    of_a, of_b = (auroc_interval(one.score, one.positive, clusters=one.unit, level=level) for one in (a, b))
    if of_a is None or of_b is None:
        return None
    units = np.unique(np.concatenate([np.asarray(one.unit) for one in (a, b)]), return_inverse=True)[1]
    values, influences = [], []
    for one in (a, b):
        ranks, labels = _checked(one.score, one.positive, "score and positive")
        hit = labels == 1
        placed = placements(ranks, hit)
        values.append(float(placed[hit].mean()))
        influences.append((placed - values[-1]) / np.where(hit, hit.sum(), (~hit).sum()))
    first, second = values
    together = correlation_of(*influences, *np.split(units, [len(influences[0])]))
    low, high = mover(first, of_a, second, of_b, together)
    return Interval(low, high, level, f"MOVER of both; {of_b.method}", of_a.approximate or of_b.approximate)


def placements(ranks: Array, positive: Bools) -> Array:
    """For each positive the share of negatives below it, for each negative that of positives above; ties by half."""
    shares = np.empty(len(ranks))
    above, below = np.sort(ranks[positive]), np.sort(ranks[~positive])
    mine, theirs = ranks[positive], ranks[~positive]
    shares[positive] = (np.searchsorted(below, mine, "left") + np.searchsorted(below, mine, "right")) / (2 * len(below))
    shares[~positive] = 1.0 - (np.searchsorted(above, theirs, "left") + np.searchsorted(above, theirs, "right")) / (
        2 * len(above)
    )
    return shares


def hanley_mcneil(area: float, positives: float, negatives: float) -> float:
    """Variance of an AUROC for exponential scores (Hanley and McNeil, 1982), with Newcombe's mean class size."""
    mean = (positives + negatives) / 2
    more = (mean - 1) * ((1 - area) / (2 - area) + area / (1 + area))
    return area * (1 - area) * (1 + more) / (positives * negatives)


def _class_sums(influence: Array, codes: NDArray[np.int64], of: Bools) -> tuple[Array, float]:
    """What each unit contributes, enlarged as n − 1 for n does it in a variance, and Kish's count of this class."""
    size = np.bincount(codes, weights=of)
    parts, effective = enlarged(influence, codes, size)
    units = int(np.count_nonzero(size))
    return parts * math.sqrt(units / (units - 1)), effective


def _newcombe(area: float, positives: int, negatives: int, critical: float) -> tuple[float, float]:
    """The areas θ with (area − θ)² ≤ t² Var(θ): those that the data do not reject."""
    from scipy.optimize import brentq

    def excess(theta: float) -> float:
        return (area - theta) ** 2 - critical**2 * hanley_mcneil(theta, positives, negatives)

    tiny = 1e-12
    low = 0.0 if area == 0.0 else float(brentq(excess, tiny, area - tiny if area == 1.0 else area))
    high = 1.0 if area == 1.0 else float(brentq(excess, area + tiny if area == 0.0 else area, 1.0 - tiny))
    return low, high


# -- AUARC and AURC --------------------------------------------------------------------------------------------------


def auarc_interval(
    confidence: ArrayLike, correct: ArrayLike, *, clusters: ArrayLike | None = None, level: float = 0.95
) -> Interval | None:
    """Score interval of `auarc`, the mean accuracy of the answers kept; that of AURC is 1 − its ends.

    The surest answers count most (one at coverage u weighs −ln u): where errors are few, a single one among the surest
    moves the value far, and the interval is marked as approximate. None for fewer than five items or clusters.

    >>> interval = auarc_interval([0.9, 0.8, 0.7, 0.6, 0.5, 0.4], [1, 1, 0, 1, 0, 0])
    >>> interval.low < 0.68 < interval.high
    True
    """
    check_level(level)
    ranks, labels = _checked(confidence, correct, "confidence and correct")
    if not len(ranks):
        return None
    value, influence = auarc_influence(ranks, labels)
    spread = spread_of(influence, clusters)
    if spread is None:
        return None
    rare = float(min(labels.sum(), len(labels) - labels.sum())) if spread.clustered else math.inf
    trials = effective_trials(value * (1.0 - value), spread, MOST_INFORMATION * len(ranks), rare)
    low, high = score_interval(value, trials, t_critical(level, spread.t_degrees))
    rough = spread.approximate or few_rare(value, trials)
    return Interval(low, high, level, f"score interval {spread.over}", rough)


def auarc_influence(confidence: Array, correct: Array) -> tuple[float, Array]:
    """AUARC, and by how much an item's weight moves it, divided by the number of items.

    With weights, AUARC = Σ_k w_k a_k / Σ w, where a_k is the accuracy of the items down to k. More weight on item i
    counts its own a_i more, and moves the accuracy of all that are kept with it: Σ_{k ≥ i} w_k (y_i − a_k) / W_k, where
    W_k = Σ_{j ≤ k} w_j.
    """
    order = np.argsort(-confidence, kind="stable")
    _, block = np.unique(-confidence[order], return_inverse=True)
    size = np.bincount(block)
    y = _block_means(correct[order], block, size)  # ties by their expectation
    kept = np.arange(1, len(y) + 1)
    accuracy = np.cumsum(y) / kept
    value = float(accuracy.mean())
    weights_after = np.cumsum((1.0 / kept)[::-1])[::-1]
    accuracy_after = np.cumsum((accuracy / kept)[::-1])[::-1]
    own = _block_means(accuracy, block, size)
    after, accuracies = (_block_means(column, block, size) for column in (weights_after, accuracy_after))
    influence = np.empty(len(y))
    influence[order] = (own - value + correct[order] * after - accuracies) / len(y)
    return value, influence


def _block_means(column: Array, block: NDArray[np.intp], size: NDArray[np.intp]) -> Array:
    return np.repeat(np.bincount(block, weights=column) / size, size)


def _checked(score: ArrayLike, labels: ArrayLike, names: str) -> tuple[Array, Array]:
    first, second = names.split(" and ")
    ranks, binary = ranked_vector(score, first), binary_vector(labels, second)
    same_length(ranks, binary, names)
    return np.unique(ranks, return_inverse=True)[1].astype(np.float64), binary
