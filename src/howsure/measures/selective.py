"""Does confidence tell right from wrong? Ranking measures and what is gained by leaving out the unsure.

Only the order of the confidences counts, so infinities are welcome. Equal confidences are handled by
expectation: each measure is the mean over all ways to break the ties, never a matter of input order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howsure.errors import InputError
from howsure.measures._checks import binary_vector, finite_vector, ranked_vector, same_length

Array = NDArray[np.float64]


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
    ranks, labels = _ranks_and_labels(score, positive)
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
    ranks, labels = _ranks_and_labels(score, positive)
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
    return np.repeat(np.bincount(block, weights=losses) / size, size)


def _oracle_aurc(losses: Array) -> float:
    return float((np.cumsum(np.sort(losses)) / np.arange(1, len(losses) + 1)).mean())


def _ranks_and_labels(score: ArrayLike, positive: ArrayLike) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    scores, labels = ranked_vector(score, "score"), binary_vector(positive, "positive")
    same_length(scores, labels, "score and positive")
    return np.unique(scores, return_inverse=True)[1], labels.astype(np.intp)


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
