"""Asking: each choice's log-likelihood after the question and by itself, as one sample."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from howsure.errors import InputError
from howsure.evidence import Outcome, TokenLogprobs
from howsure.measures import choice_scores, normalised_choices
from howsure.models.contract import Failure, Message, Model, ScoreItem
from howsure.runs import Sample
from howsure.storage import absolute
from howsure.studies.mcq.data import Item

DEFAULT_PROMPT = "{question}\nAnswer:"
DEFAULT_CHAT_PROMPT = "{question}"


class Asking(NamedTuple):
    """How questions are put: the template, as plain text or as a user's message, with or without PMI."""

    prompt: str = DEFAULT_PROMPT
    chat: bool = False
    pmi: bool = True

    @property
    def lead(self) -> str:
        """What stands before a choice: one space, but nothing where the template ends in white space of its own,
        and nothing where the choice begins the assistant's answer."""
        return "" if self.chat or self.prompt[-1:].isspace() else " "


def asking(prompt: str | None = None, *, chat: bool = False, pmi: bool = True) -> Asking:
    """The template, checked: it must hold `{question}`, and nothing else in braces is replaced."""
    template = (DEFAULT_CHAT_PROMPT if chat else DEFAULT_PROMPT) if prompt is None else prompt
    if "{question}" not in template:
        raise InputError(f"--prompt {template!r} has no {{question}} in it")
    return Asking(template, chat, pmi)


def score_item(item: Item, how: Asking) -> ScoreItem:
    """The question through the template, its image, and each choice as a continuation."""
    text = how.prompt.replace("{question}", item.question)
    prefix = (Message("user", text),) if how.chat else text
    return ScoreItem(prefix, tuple(f"{how.lead}{choice}" for choice in item.choices), item.image)


# -- choices by themselves, for PMI -----------------------------------------------------------------------------


def unconditional_items(items: Sequence[Item], how: Asking) -> list[ScoreItem]:
    """The choices of a batch of questions without any question: one item a question, of what is new in it."""
    if not how.pmi:
        return []
    seen: set[str] = set()
    wanted = []
    for item in items:
        new = tuple(choice for choice in item.choices if choice not in seen)
        seen.update(new)
        if new:
            wanted.append(ScoreItem("", tuple(f"{how.lead}{choice}" for choice in new)))
    return wanted


Unconditional = dict[str, float | Failure]
"""For each continuation its log-likelihood without a question, or why it has none."""


def score_alone(model: Model, items: Sequence[Item], how: Asking) -> Unconditional:
    found: Unconditional = {}
    wanted = unconditional_items(items, how)
    scored = model.try_score(wanted) if wanted else []
    for asked, result in zip(wanted, scored, strict=True):
        for i, text in enumerate(asked.continuations):
            found[text] = result if isinstance(result, Failure) else 0.0 - result[i].nll_nats
    return found


# -- samples ----------------------------------------------------------------------------------------------------


def ask(model: Model, indices: Sequence[int], items: Sequence[Item], how: Asking) -> list[Sample]:
    """One sample for each question of a batch: a pure function of the batch, so that it can be done again."""
    scored = model.try_score([score_item(item, how) for item in items])
    alone = score_alone(model, items, how)
    rows = zip(indices, items, scored, strict=True)
    return [to_sample(index, item, found, _alone_of(item, alone, how)) for index, item, found in rows]


def _alone_of(item: Item, alone: Unconditional, how: Asking) -> list[float] | Failure | None:
    """The unconditional log-likelihoods of a question's choices; a failure where one of them has none."""
    if not how.pmi:
        return None
    values: list[float] = []
    for choice in item.choices:
        found = alone[f"{how.lead}{choice}"]
        if isinstance(found, Failure):
            return found
        values.append(found)
    return values


def to_sample(
    index: int,
    item: Item,
    scored: Sequence[TokenLogprobs] | Failure,
    alone: Sequence[float] | Failure | None = None,
) -> Sample:
    """What the model found, judged against the answer; or why it found nothing."""
    if isinstance(scored, Failure):
        return Sample(item.id, index, _about(item), reason=scored.reason, detail=scored.detail)
    evidence = {"choices": [choice.to_dict() for choice in scored]}
    log_likelihoods = [0.0 - choice.nll_nats for choice in scored]
    empty = next((i for i, choice in enumerate(scored) if not len(choice)), None)
    if empty is not None:
        detail = f"choices[{empty}] has no tokens in this model's vocabulary, so that nothing can be said of it"
        return Sample(item.id, index, _about(item), evidence, reason="no_tokens", detail=detail)
    if max(log_likelihoods) == -math.inf:
        detail = "every choice has probability zero"
        return Sample(item.id, index, _about(item), evidence, reason="no_likely_choice", detail=detail)
    result = _about(item) | _judged(item, log_likelihoods, [len(choice) for choice in scored], alone)
    result["straddled"] = any(choice.prefix_chars for choice in scored)
    return Sample(item.id, index, result, evidence, Outcome(correct=result["correct"]))


def _judged(
    item: Item, log_likelihoods: list[float], token_counts: list[int], alone: Sequence[float] | Failure | None
) -> dict[str, Any]:
    scores = choice_scores(log_likelihoods)
    byte_counts = [len(choice.encode()) for choice in item.choices]
    known = None if alone is None or isinstance(alone, Failure) else list(alone)
    others = normalised_choices(log_likelihoods, token_counts, byte_counts, known)
    return {
        "predicted_index": scores.predicted_index,
        "log_likelihoods": [_finite(value) for value in log_likelihoods],
        "correct": scores.predicted_index == item.answer_index,
        "margin": _bounded(scores.margin_nats),
        "tie": scores.tie,
        "confidence": scores.confidence,
        "entropy_nats": scores.entropy_nats,
        "predicted_index_per_token": others.per_token,
        "predicted_index_per_byte": others.per_byte,
        "predicted_index_pmi": others.pmi,
        "unconditional_log_likelihoods": None if known is None else [_finite(value) for value in known],
        "pmi_missing": _why_no_pmi(alone, others.pmi),
        "token_counts": token_counts,
        "byte_counts": byte_counts,
    }


def _why_no_pmi(alone: Sequence[float] | Failure | None, pmi: int | None) -> str | None:
    if pmi is not None:
        return None
    if alone is None:
        return "not_asked"
    return alone.reason if isinstance(alone, Failure) else "choice_of_probability_zero"


def _about(item: Item) -> dict[str, Any]:
    about: dict[str, Any] = {
        "question": item.question,
        "choices": list(item.choices),
        "answer_index": item.answer_index,
        "group": item.group,
    }
    if item.cluster is not None:
        about["cluster"] = item.cluster
    if item.image is None:
        return about
    return about | {"image_path": absolute(item.image.path), "image_sha256": item.image.sha256}


def _finite(log_likelihood: float) -> float:
    """JSON has no infinity; the logarithm of zero is written as the lowest number there is."""
    return max(log_likelihood, -sys.float_info.max)


def _bounded(margin_nats: float | None) -> float | None:
    """Over a choice of probability zero the margin knows no bound; it is None then, and counted."""
    return margin_nats if margin_nats is not None and math.isfinite(margin_nats) else None
