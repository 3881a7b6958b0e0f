"""Judging: how often the likeliest choice is right, and by how much it wins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from howsure.measures import bootstrap_mean, wilson_interval
from howsure.runs import Sample
from howsure.studies.summary import Coverage, Figure, summary

LEVEL = 0.95


def judge(samples: Sequence[Sample], *, skipped: int = 0, seed: int = 0) -> dict[str, Any]:
    """The summary: a pure function of the samples, whatever order they come in.

    `accuracy` is over all questions, so that one which could not be scored never makes it better;
    `accuracy_of_scored` leaves those out, and differs only where something is missing.
    """
    ordered = sorted(samples, key=lambda sample: sample.index)
    scored = [sample.result for sample in ordered if not sample.failed]
    correct = sum(result["correct"] for result in scored)
    total = len(ordered)
    margins = [result["margin"] for result in scored if result["margin"] is not None]
    accuracy = correct / total if total else None
    mean_margin = sum(margins) / len(margins) if margins else None
    chance = sum(1 / len(sample.result["choices"]) for sample in ordered) / total if total else None
    headline = [
        Figure.of("accuracy", accuracy, "share", wilson_interval(correct, total, level=LEVEL)),
        Figure.of("mean margin", mean_margin, "nats", bootstrap_mean(margins, level=LEVEL, seed=seed)),
    ]
    return summary(
        "mcq",
        Coverage.of(ordered, {"bad_line": skipped} if skipped else None),
        headline,
        accuracy=accuracy,
        accuracy_of_scored=correct / len(scored) if scored else None,
        accuracy_by_chance=chance,
        avg_margin=mean_margin,
        correct_count=correct,
        total_count=total,
        scored_count=len(scored),
        unbounded_margin_count=len(scored) - len(margins),
        tie_count=sum(result["tie"] for result in scored),
        straddled_count=sum(_straddled(sample) for sample in ordered),
    )


def _straddled(sample: Sample) -> bool:
    """Whether a token of some choice began inside the prompt."""
    return any(choice.get("prefix_chars") for choice in sample.evidence.get("choices", ()))
