"""Asking: each choice's log-likelihood after the question, as one sample."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

from howsure.errors import InputError
from howsure.evidence import Outcome, TokenLogprobs
from howsure.measures import choice_scores
from howsure.models.contract import Failure, ScoreItem
from howsure.runs import Sample
from howsure.studies.mcq.data import Item

DEFAULT_PROMPT = "{question}\nAnswer:"


def check_prompt(template: str) -> str:
    """A template must hold `{question}`, and nothing else in braces is replaced."""
    if "{question}" not in template:
        raise InputError(f"--prompt {template!r} has no {{question}} in it")
    return template


def score_item(item: Item, template: str) -> ScoreItem:
    """The question through the template; each choice follows after one space."""
    prefix = template.replace("{question}", item.question)
    return ScoreItem(prefix, tuple(f" {choice}" for choice in item.choices))


def to_sample(index: int, item: Item, scored: Sequence[TokenLogprobs] | Failure) -> Sample:
    """What the model found, judged against the answer; or why it found nothing."""
    if isinstance(scored, Failure):
        return Sample(item.id, index, _about(item), reason=scored.reason, detail=scored.detail)
    log_likelihoods = [0.0 - choice.nll_nats for choice in scored]
    scores = choice_scores(log_likelihoods)
    evidence = {"choices": [choice.to_dict() for choice in scored]}
    if scores.predicted_index is None:
        detail = "every choice has probability zero"
        return Sample(item.id, index, _about(item), evidence, reason="no_likely_choice", detail=detail)
    correct = scores.predicted_index == item.answer_index
    result = _about(item) | {
        "predicted_index": scores.predicted_index,
        "log_likelihoods": [_finite(value) for value in log_likelihoods],
        "correct": correct,
        "margin": _bounded(scores.margin_nats),
        "tie": scores.tie,
        "confidence": scores.confidence,
        "entropy_nats": scores.entropy_nats,
        "token_counts": [len(choice) for choice in scored],
        "byte_counts": [len(f" {choice}".encode()) for choice in item.choices],
    }
    return Sample(item.id, index, result, evidence, Outcome(correct=correct))


def _about(item: Item) -> dict[str, object]:
    return {
        "question": item.question,
        "choices": list(item.choices),
        "answer_index": item.answer_index,
        "group": item.group,
    }


def _finite(log_likelihood: float) -> float:
    """JSON has no infinity; the logarithm of zero is written as the lowest number there is."""
    return max(log_likelihood, -sys.float_info.max)


def _bounded(margin_nats: float | None) -> float | None:
    """Over a choice of probability zero the margin knows no bound; it is None then, and counted."""
    return margin_nats if margin_nats is not None and math.isfinite(margin_nats) else None
