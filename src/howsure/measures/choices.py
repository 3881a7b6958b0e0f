"""The choices of one question: which one the model takes, by how much, and how sure it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from howsure.measures.checks import POSITIVE_TOLERANCE_NATS, Array, refuse, same_length, vector


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
    values = _likelihoods(log_likelihoods)
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


@dataclass(frozen=True)
class NormalisedChoices:
    """What would be predicted by other scores than the sum; None where a score is not known for every choice."""

    per_token: int | None
    per_byte: int | None
    pmi: int | None


def normalised_choices(
    log_likelihoods: ArrayLike,
    token_counts: ArrayLike,
    byte_counts: ArrayLike,
    unconditional_log_likelihoods: ArrayLike | None = None,
) -> NormalisedChoices:
    """The first largest of L_i / tokens, of L_i / bytes, and of PMI_i = L_i − log P(choice without its question).

    There is no PMI without the unconditional log-likelihoods, nor where one of them is −inf or NaN (not known).

    >>> normalised_choices([-4.0, -3.0], token_counts=[4, 1], byte_counts=[8, 6])
    NormalisedChoices(per_token=0, per_byte=0, pmi=None)
    """
    values = _likelihoods(log_likelihoods)
    tokens, sizes = _counts(token_counts, "token counts", values), _counts(byte_counts, "byte counts", values)
    pmi = None
    if unconditional_log_likelihoods is not None:
        alone = vector(unconditional_log_likelihoods, "unconditional log-likelihoods")
        same_length(values, alone, "log-likelihoods and unconditional log-likelihoods")
        pmi = _first_largest(values - alone) if np.isfinite(alone).all() else None
    return NormalisedChoices(_first_largest(values / tokens), _first_largest(values / sizes), pmi)


def _likelihoods(given: ArrayLike) -> Array:
    values = vector(given, "log-likelihoods")
    wrong = np.isnan(values) | (values > POSITIVE_TOLERANCE_NATS)
    refuse(values, wrong, "log-likelihoods", "a log-likelihood (it must lie between -inf and 0)")
    return values


def _counts(given: ArrayLike, name: str, values: Array) -> Array:
    counts = vector(given, name)
    same_length(values, counts, f"log-likelihoods and {name}")
    refuse(counts, ~(counts > 0), name, "a count (it must be above 0)")
    return counts


def _first_largest(scores: Array) -> int | None:
    return int(np.argmax(scores)) if len(scores) and (scores > -np.inf).any() else None


def _softmax_top_and_entropy(gaps: Array) -> tuple[float, float]:
    """From gaps ℓ_i − max ℓ ≤ 0: the top's share 1/Z with Z = Σ e^gap, and H = ln Z − Σ gap e^gap / Z."""
    weights = np.exp(gaps)
    total = float(weights.sum())
    pull = float(np.multiply(gaps, weights, out=np.zeros_like(gaps), where=weights > 0).sum())
    others = float(np.sort(weights)[:-1].sum())
    return 1.0 / total, float(np.log1p(others)) - pull / total
