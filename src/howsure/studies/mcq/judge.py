"""Judging: how often the likeliest choice is right, by how much it wins, and whether its confidence can be believed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from howsure.measures import bootstrap_mean, wilson_interval
from howsure.runs import Sample
from howsure.studies.mcq.columns import NORMALISATIONS, Columns, columns
from howsure.studies.summary import Coverage, Figure, summary
from howsure.studies.sureness import calibration, selective

LEVEL = 0.95


def judge(samples: Sequence[Sample], *, skipped: int = 0, seed: int = 0) -> dict[str, Any]:
    """The summary: a pure function of the samples, whatever order they come in.

    `accuracy` is over all questions, so that one which could not be scored never makes it better;
    `accuracy_of_scored` leaves those out, and differs only where something is missing.
    """
    ordered = sorted(samples, key=lambda sample: sample.index)
    table = columns(ordered)
    counts = _counts(ordered, table)
    confidence, correct = table.confidence[table.scored], table.correct[table.scored]
    margins = _known(table.margin_nats)
    calibrated = calibration(confidence, correct, level=LEVEL, seed=seed)
    return summary(
        "mcq",
        Coverage.of(ordered, {"bad_line": skipped} if skipped else None),
        [
            _share("accuracy", counts["correct_count"], table.total),
            Figure.of("mean margin", _mean(margins), "nats", bootstrap_mean(margins, level=LEVEL, seed=seed)),
        ],
        _notes(counts, calibrated),
        accuracy=_ratio(counts["correct_count"], table.total),
        accuracy_of_scored=_ratio(counts["correct_count"], counts["scored_count"]),
        accuracy_by_chance=_mean(table.chance),
        avg_margin=_mean(margins),
        mean_entropy_nats=_mean(table.entropy_nats[table.scored]),
        **counts,
        pmi_missing=_pmi_missing(ordered),
        normalisations=_normalisations(table),
        calibration=calibrated,
        selective=selective(confidence, correct),
        groups=_groups(table),
    )


def _counts(ordered: Sequence[Sample], table: Columns) -> dict[str, int]:
    scored = [sample.result for sample in ordered if not sample.failed]
    return {
        "correct_count": int(table.correct.sum()),
        "total_count": table.total,
        "scored_count": len(scored),
        "tie_count": sum(result["tie"] for result in scored),
        "unbounded_margin_count": int(np.isnan(table.margin_nats[table.scored]).sum()),
        "straddled_count": sum(result.get("straddled") is True for result in scored),
        "pmi_failed_count": sum(result.get("pmi_missing") not in (None, "not_asked") for result in scored),
    }


def _pmi_missing(ordered: Sequence[Sample]) -> dict[str, int]:
    """Why scored questions have no PMI, by reason."""
    reasons = [sample.result.get("pmi_missing") for sample in ordered if not sample.failed]
    return dict(sorted(Counter(reason for reason in reasons if reason is not None).items()))


def _normalisations(table: Columns) -> dict[str, Any]:
    """Accuracy by each score over all questions; None where no question has that score."""
    found: dict[str, Any] = {}
    for place, name in enumerate(NORMALISATIONS):
        known = int((table.predictions[:, place] >= 0).sum())
        right = int(table.right(place).sum())
        found[name] = _accuracy(right, table.total) | {"known_count": known} if known else None
    return found


def _groups(table: Columns) -> list[dict[str, Any]]:
    """The main figures of each group, in the order of the data; none where no question has a group."""
    members: dict[str | None, list[int]] = {}
    for i, group in enumerate(table.groups):
        members.setdefault(group, []).append(i)
    if set(members) <= {None}:
        return []
    return [_group(name, table.rows(np.array(rows, dtype=np.intp))) for name, rows in members.items()]


def _group(name: str | None, table: Columns) -> dict[str, Any]:
    confidence, correct = table.confidence[table.scored], table.correct[table.scored]
    return {
        "group": name,
        **_accuracy(int(table.correct.sum()), table.total),
        "scored_count": len(correct),
        "accuracy_by_chance": _mean(table.chance),
        "avg_margin": _mean(_known(table.margin_nats)),
        "mean_confidence": _mean(confidence),
        "overconfidence": _mean(confidence - correct),
    }


def _accuracy(right: int, total: int) -> dict[str, Any]:
    interval = wilson_interval(right, total, level=LEVEL)
    return {
        "accuracy": _ratio(right, total),
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
        "correct_count": right,
        "total_count": total,
    }


def _share(name: str, part: int, whole: int) -> Figure:
    return Figure.of(name, _ratio(part, whole), "share", wilson_interval(part, whole, level=LEVEL))


def _notes(counts: dict[str, int], calibrated: dict[str, Any] | None) -> list[str]:
    correct, scored, total = counts["correct_count"], counts["scored_count"], counts["total_count"]
    found = []
    if 0 < scored < total:
        found.append(
            f"accuracy counts the missing as not right; of the {scored} scored it is {correct / scored:.1%}, and "
            "sureness is judged on those"
        )
    sentences = {
        "tie_count": "ties that went to the first of the likeliest choices",
        "unbounded_margin_count": "margins over a choice of probability 0, which are not in the mean",
        "straddled_count": "questions with a token across the end of the prompt, scored from that token on",
        "pmi_failed_count": "questions without PMI, which count as not right by it",
    }
    found += [f"{words}: {counts[name]}" for name, words in sentences.items() if counts[name]]
    if calibrated is not None and calibrated["smooth_ece_missing"]:
        found.append(calibrated["smooth_ece_missing"])
    return found


def _known(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return values[~np.isnan(values)]


def _mean(values: NDArray[np.float64]) -> float | None:
    return float(values.mean()) if len(values) else None


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
