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
    correct, total = sum(result["correct"] for result in scored), len(ordered)
    margins = [result["margin"] for result in scored if result["margin"] is not None]
    counts = {
        "correct_count": correct,
        "total_count": total,
        "scored_count": len(scored),
        "tie_count": sum(result["tie"] for result in scored),
        "unbounded_margin_count": len(scored) - len(margins),
        "straddled_count": sum(_straddled(sample) for sample in ordered),
    }
    accuracy, mean_margin = _ratio(correct, total), _ratio(sum(margins), len(margins))
    headline = [
        Figure.of("accuracy", accuracy, "share", wilson_interval(correct, total, level=LEVEL)),
        Figure.of("mean margin", mean_margin, "nats", bootstrap_mean(margins, level=LEVEL, seed=seed)),
    ]
    return summary(
        "mcq",
        Coverage.of(ordered, {"bad_line": skipped} if skipped else None),
        headline,
        _notes(counts),
        accuracy=accuracy,
        accuracy_of_scored=_ratio(correct, len(scored)),
        accuracy_by_chance=_ratio(sum(1 / len(sample.result["choices"]) for sample in ordered), total),
        avg_margin=mean_margin,
        **counts,
    )


def _notes(counts: dict[str, int]) -> list[str]:
    correct, scored, total = counts["correct_count"], counts["scored_count"], counts["total_count"]
    found = []
    if 0 < scored < total:
        found.append(f"accuracy counts the missing as not right; of the {scored} scored it is {correct / scored:.1%}")
    if counts["tie_count"]:
        found.append(f"ties that went to the first of the likeliest choices: {counts['tie_count']}")
    if counts["unbounded_margin_count"]:
        unbounded = counts["unbounded_margin_count"]
        found.append(f"margins over a choice of probability 0, which are not in the mean: {unbounded}")
    if counts["straddled_count"]:
        straddled = counts["straddled_count"]
        found.append(f"questions with a token across the end of the prompt, scored from that token on: {straddled}")
    return found


def _ratio(part: float, whole: int) -> float | None:
    return part / whole if whole else None


def _straddled(sample: Sample) -> bool:
    """Whether a token of some choice began inside the prompt."""
    return any(choice.get("prefix_chars") for choice in sample.evidence.get("choices", ()))
