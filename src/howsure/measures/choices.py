"""The choices of one question: which one the model takes, by how much, and how sure it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howsure.measures._checks import refuse, vector
from howsure.measures.logprobs import POSITIVE_TOLERANCE_NATS

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ChoiceScores:
    """What the log-likelihoods of the choices say; None where they say nothing.

    `predicted_index` is the first of the largest, and `tie` tells whether another choice equals it.
    `confidence` and `entropy_nats` are those of the likelihoods divided by their sum: which choice, given
    that it is one of these.
    """

    predicted_index: int | None
    tie: bool
    margin_nats: float | None
    confidence: float | None
    entropy_nats: float | None


NO_CHOICE = ChoiceScores(None, False, None, None, None)


def choice_scores(log_likelihoods: ArrayLike) -> ChoiceScores:
    """Prediction, margin (top1 − top2), confidence and entropy over the choices of one question.

    A log-likelihood is a sum of token log-probabilities, so −9999 is here a number like any other. Nothing
    is predicted where there is no choice, or none with a likelihood above zero; one choice has no margin.

    >>> scores = choice_scores([-130.0, -10.0])
    >>> scores.predicted_index, scores.margin_nats, scores.confidence
    (1, 120.0, 1.0)
    """
    values = vector(log_likelihoods, "log-likelihoods")
    wrong = np.isnan(values) | (values > POSITIVE_TOLERANCE_NATS)
    refuse(values, wrong, "log-likelihoods", "a log-likelihood (it must lie between -inf and 0)")
    if len(values) == 0 or np.isneginf(values).all():
        return NO_CHOICE
    top = int(np.argmax(values))
    confidence, entropy = _softmax_top_and_entropy(values - values[top])
    return ChoiceScores(
        predicted_index=top,
        tie=bool((values == values[top]).sum() > 1),
        margin_nats=float(values[top] - np.delete(values, top).max()) if len(values) > 1 else None,
        confidence=confidence,
        entropy_nats=entropy,
    )


def _softmax_top_and_entropy(gaps: Array) -> tuple[float, float]:
    """From gaps ℓ_i − max ℓ ≤ 0: the top's share 1/Z with Z = Σ e^gap, and H = ln Z − Σ gap e^gap / Z."""
    weights = np.exp(gaps)
    total = float(weights.sum())
    pull = float(np.multiply(gaps, weights, out=np.zeros_like(gaps), where=weights > 0).sum())
    others = float(np.sort(weights)[:-1].sum())
    return 1.0 / total, float(np.log1p(others)) - pull / total
