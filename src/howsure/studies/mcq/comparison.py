"""Two runs over the same questions: what changed, how sure that is, and which answers turned.

Everything with an interval is paired, over the questions that both runs scored. The signed margin of a question is
the log-likelihood of the right answer minus that of the best other one: above zero where it is answered rightly.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from howsure.errors import InputError
from howsure.measures import mcnemar_exact, paired_bootstrap
from howsure.runs import Run, Sample
from howsure.studies.mcq.document import document
from howsure.studies.mcq.judge import LEVEL

RunLike = Run | str | os.PathLike[str]

STUDY = "mcq"
_SIDE = ("accuracy", "avg_margin", "correct_count", "total_count", "scored_count", "coverage", "notes")
_SAME_PROMPT = ("prompt", "chat")
_SAME_ITEM = ("question", "choices", "answer_index", "image_sha256")
_LOWEST_NATS = -1e300
"""Log-likelihoods below this stand for the logarithm of zero."""


class Side(NamedTuple):
    """One of the two runs, read."""

    run: Run
    summary: dict[str, Any]
    samples: list[Sample]


def compare(
    run_a: Run | str | os.PathLike[str], run_b: Run | str | os.PathLike[str], *, seed: int = 0
) -> dict[str, Any]:
    """Compare two finished mcq runs from their folders; no model is needed.

    Gives `a` and `b` (the figures of each), `difference` (B − A, with paired intervals, McNemar's exact test and the
    flips) and `notes`. Runs over other questions, or asked in another way, are refused.
    """
    a, b = (read_side(run) for run in (run_a, run_b))
    check_comparable(a, b)
    pairs = [(x, y) for x, y in zip(a.samples, b.samples, strict=True) if not (x.failed or y.failed)]
    return {
        "study": STUDY,
        "a": _about(a),
        "b": _about(b),
        "difference": _difference(a, b, pairs, seed),
        "notes": _notes(a, b, len(pairs)),
    }


def comparison_document(comparison: dict[str, Any]) -> dict[str, Any]:
    """What --output-json holds: both runs with all their results, and what changed between them."""
    sides = {name: read_side(comparison[name]["run"]) for name in ("a", "b")}
    documents = {name: document(side.summary, side.samples, side.run) for name, side in sides.items()}
    return documents | {"difference": comparison["difference"], "notes": comparison["notes"]}


# -- may they be compared? --------------------------------------------------------------------------------------


def read_side(run: RunLike) -> Side:
    """A finished mcq run, or one sentence about why it is none."""
    run = run if isinstance(run, Run) else Run(run)
    study = run.manifest.identity.study
    if study != STUDY:
        raise InputError(f"{run.path} is a run of {study!r}, and only {STUDY} runs can be compared")
    samples, summary = run.records(evidence=False), run.summary
    if run.status != "finished" or summary is None or len(samples) != run.manifest.items:
        raise InputError(
            f"{run.path} is not finished ({run.status}, {len(samples)} of {run.manifest.items} questions): "
            "run the command that made it again, then compare"
        )
    return Side(run, summary, samples)


def check_comparable(a: Side, b: Side) -> None:
    first, second = a.run.manifest.identity, b.run.manifest.identity
    differing = [name for name in _SAME_PROMPT if first.options.get(name) != second.options.get(name)]
    if differing:
        one, other = ([f"{name} {side.options.get(name)!r}" for name in differing] for side in (first, second))
        raise InputError(
            f"the runs were asked in different ways, so that their difference says nothing of the models: "
            f"{a.run.path} with {', '.join(one)}, {b.run.path} with {', '.join(other)}"
        )
    problem = _other_items(a.samples, b.samples)
    if problem is None and first.data.get("fingerprint") != second.data.get("fingerprint"):
        problem = "their groups are not the same"
    if problem is not None:
        raise InputError(f"{a.run.path} and {b.run.path} are over different questions: {problem}")


def _other_items(a: Sequence[Sample], b: Sequence[Sample]) -> str | None:
    """What the first difference between two lists of questions is, or None."""
    only_a, only_b = ({x.id for x in a} - {x.id for x in b}), ({x.id for x in b} - {x.id for x in a})
    if only_a or only_b:
        return f"{len(only_a)} are in the first alone and {len(only_b)} in the second alone"
    for x, y in zip(a, b, strict=True):
        if x.id != y.id:
            return f"their order differs, from {x.id!r} on"
        for name in _SAME_ITEM:
            if x.result.get(name) != y.result.get(name):
                return f"{name} of {x.id!r} differs"
    return None


# -- what changed -----------------------------------------------------------------------------------------------

Pairs = Sequence[tuple[Sample, Sample]]
Floats = NDArray[np.float64]


def _about(side: Side) -> dict[str, Any]:
    return {
        "run": str(side.run.path),
        "model": side.run.manifest.identity.model.get("name"),
        **{name: side.summary[name] for name in _SIDE},
    }


def _difference(a: Side, b: Side, pairs: Pairs, seed: int) -> dict[str, Any]:
    correct = [[sample.result["correct"] for sample in side] for side in zip(*pairs, strict=True)] or [[], []]
    bounded = [(x.result["margin"], y.result["margin"]) for x, y in pairs]
    margins = np.array([pair for pair in bounded if None not in pair], dtype=np.float64).reshape(-1, 2)
    test = mcnemar_exact(*correct)
    return {
        "accuracy": _minus(b.summary["accuracy"], a.summary["accuracy"]),
        "avg_margin": _minus(b.summary["avg_margin"], a.summary["avg_margin"]),
        "correct_count": b.summary["correct_count"] - a.summary["correct_count"],
        "paired_count": len(pairs),
        "unpaired": _unpaired(a.samples, b.samples),
        "paired_accuracy": _paired(*np.array(correct, dtype=np.float64), seed=seed),
        "paired_margin": _paired(*margins.T, seed=seed),
        "mcnemar": {
            "both_correct": test.both_correct,
            "only_a_correct": test.only_a_correct,
            "only_b_correct": test.only_b_correct,
            "both_wrong": test.both_wrong,
            "p_value": test.p_value,
        },
        "flips": flips(pairs),
    }


def _unpaired(a: Sequence[Sample], b: Sequence[Sample]) -> dict[str, int]:
    """Questions that are in no paired figure, by where they failed."""
    failed = [(x.failed, y.failed) for x, y in zip(a, b, strict=True)]
    return {
        "failed_in_a": failed.count((True, False)),
        "failed_in_b": failed.count((False, True)),
        "failed_in_both": failed.count((True, True)),
    }


def _paired(a: Floats, b: Floats, *, seed: int) -> dict[str, Any] | None:
    """Both means over the items that both have, and their difference; None where there is no such item."""
    found = paired_bootstrap(a, b, level=LEVEL, seed=seed)
    if found is None:
        return None
    interval = found.interval
    return {
        "mean_a": float(a.mean()),
        "mean_b": float(b.mean()),
        "mean_difference": found.mean_difference,
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
        "level": LEVEL,
        "share_above_zero": found.share_above_zero,
        "items": found.items,
    }


def _minus(second: float | None, first: float | None) -> float | None:
    return None if first is None or second is None else second - first


# -- flips ------------------------------------------------------------------------------------------------------


def flips(pairs: Pairs) -> dict[str, list[dict[str, Any]]]:
    """The questions that turned, the farthest first; a margin without bound moved farther than any other."""
    turned = [_flip(x, y) for x, y in pairs if x.result["correct"] != y.result["correct"]]
    turned.sort(key=lambda flip: -np.inf if flip["moved_nats"] is None else -abs(flip["moved_nats"]))
    return {
        "right_to_wrong": [flip for flip in turned if flip["predicted_index_a"] == flip["answer_index"]],
        "wrong_to_right": [flip for flip in turned if flip["predicted_index_b"] == flip["answer_index"]],
    }


def _flip(a: Sample, b: Sample) -> dict[str, Any]:
    choices, right = a.result["choices"], a.result["answer_index"]
    before, after = signed_margin_nats(a.result), signed_margin_nats(b.result)
    return {
        "id": a.id,
        "question": a.result["question"],
        "group": a.result["group"],
        "answer_index": right,
        "answer": choices[right],
        "predicted_index_a": a.result["predicted_index"],
        "predicted_index_b": b.result["predicted_index"],
        "choice_a": choices[a.result["predicted_index"]],
        "choice_b": choices[b.result["predicted_index"]],
        "signed_margin_a_nats": before,
        "signed_margin_b_nats": after,
        "moved_nats": _minus(after, before),
    }


def signed_margin_nats(result: dict[str, Any]) -> float | None:
    """Log-likelihood of the right answer minus that of the best other one; None where either has probability zero."""
    values, right = result["log_likelihoods"], result["answer_index"]
    best_other = max(value for i, value in enumerate(values) if i != right)
    if min(values[right], best_other) < _LOWEST_NATS:
        return None
    return float(values[right] - best_other)


def _notes(a: Side, b: Side, paired: int) -> list[str]:
    found = []
    if a.run.path.resolve() == b.run.path.resolve():
        found.append("both are the same run")
    elif a.run.manifest.identity.model == b.run.manifest.identity.model:
        found.append("both runs are of the same model")
    missing = len(a.samples) - paired
    if missing:
        left = ", ".join(f"{n} {where.replace('_', ' ')}" for where, n in _unpaired(a.samples, b.samples).items() if n)
        found.append(
            f"{missing} of {len(a.samples)} questions were not scored by both ({left}); the table counts them as not "
            "right, intervals, test and flips leave them out"
        )
    return found
