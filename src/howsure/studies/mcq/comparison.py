"""Two runs over the same questions: what changed, how sure that is, and which answers turned.

Everything with an interval is paired, over the questions that both runs scored; those that hang together in either run
are one unit. The signed margin of a question is
the log-likelihood of the right answer minus that of the best other one: above zero where it is answered rightly.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from howsure.errors import InputError
from howsure.measures import PairedDifference, mcnemar_exact, paired_means, paired_shares, too_few
from howsure.runs import Run, Sample
from howsure.studies.mcq.columns import Codes, columns, units
from howsure.studies.mcq.document import document
from howsure.studies.summary import Coverage
from howsure.studies.sureness import LEVEL, ends

RunLike = Run | str | os.PathLike[str]

STUDY = "mcq"
_SAME_PROMPT = ("prompt", "chat")
_SAME_ITEM = ("question", "choices", "answer_index", "image_sha256")
_LOWEST_NATS = -1e300
"""Log-likelihoods below this stand for the logarithm of zero."""


class Side(NamedTuple):
    """One of the two runs, read."""

    run: Run
    summary: dict[str, Any]
    samples: list[Sample]

    @property
    def bad_lines(self) -> int:
        return int(self.run.manifest.identity.data.get("skipped") or 0)

    @property
    def cluster(self) -> str | None:
        """The field of --cluster."""
        return self.run.manifest.identity.options.get("cluster")


def compare(run_a: Run | str | os.PathLike[str], run_b: Run | str | os.PathLike[str]) -> dict[str, Any]:
    """Compare two finished mcq runs from their folders; no model is needed.

    Gives `a` and `b` (the figures of each), `difference` (B − A, with paired intervals, McNemar's exact test and the
    flips) and `notes`. Runs over other questions, or asked in another way, are refused.
    """
    a, b = (read_side(run) for run in (run_a, run_b))
    check_comparable(a, b)
    unit = units([sample.result for sample in a.samples], [sample.result for sample in b.samples])
    found = [(x, y, code) for x, y, code in zip(a.samples, b.samples, unit, strict=True) if not (x.failed or y.failed)]
    pairs, unit = [(x, y) for x, y, _ in found], np.array([code for *_, code in found], dtype=np.int64)
    first, second = _about(a), _about(b)
    difference = _difference(first, second, a, b, pairs, unit)
    return {
        "study": STUDY,
        "a": first,
        "b": second,
        "difference": difference,
        "notes": _notes(a, b, difference),
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
    """The figures of a run, from its samples: bad lines of its data and failed questions are not right."""
    table, bad = columns(side.samples), side.bad_lines
    correct, total = int(table.correct.sum()), table.total + bad
    margins = table.margin_nats[~np.isnan(table.margin_nats)]
    coverage = Coverage.of(side.samples, {"bad_line": bad} if bad else None)
    return {
        "run": str(side.run.path),
        "model": side.run.manifest.identity.model.get("name"),
        "accuracy": correct / total if total else None,
        "avg_margin": float(margins.mean()) if len(margins) else None,
        "correct_count": correct,
        "total_count": total,
        "scored_count": int(table.scored.sum()),
        "bad_line_count": bad,
        "coverage": {
            "items": coverage.items,
            "scored": coverage.scored,
            "missing": coverage.missing,
            "text": coverage.text,
        },
        "notes": side.summary["notes"],
    }


def _difference(
    first: dict[str, Any], second: dict[str, Any], a: Side, b: Side, pairs: Pairs, unit: Codes
) -> dict[str, Any]:
    correct = np.array([[x.result["correct"], y.result["correct"]] for x, y in pairs], dtype=np.float64).reshape(-1, 2)
    bounded = [(x.result["margin"], y.result["margin"]) for x, y in pairs]
    known = np.array([None not in pair for pair in bounded], dtype=np.bool_)
    margins = np.array([pair for pair in bounded if None not in pair], dtype=np.float64).reshape(-1, 2)
    test = mcnemar_exact(*correct.T)
    return {
        "accuracy": _minus(second["accuracy"], first["accuracy"]),
        "avg_margin": _minus(second["avg_margin"], first["avg_margin"]),
        "correct_count": second["correct_count"] - first["correct_count"],
        "paired_count": len(pairs),
        "paired_unit_count": len(np.unique(unit)),
        "unpaired": _unpaired(a.samples, b.samples),
        "paired_accuracy": _paired(correct, paired_shares(*correct.T, clusters=unit, level=LEVEL), unit),
        "paired_margin": _paired(margins, paired_means(*margins.T, clusters=unit[known], level=LEVEL), unit[known]),
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


def _paired(both: Floats, difference: PairedDifference | None, unit: Codes) -> dict[str, Any] | None:
    """Both means over the items that both have, and their difference; None where there is no such item."""
    if difference is None:
        return None
    mean_a, mean_b = both.mean(axis=0).tolist()
    few = too_few(len(np.unique(unit)), "questions" if len(np.unique(unit)) == len(unit) else "independent units")
    return {
        "mean_a": mean_a,
        "mean_b": mean_b,
        "mean_difference": difference.mean_difference,
        **ends(difference.interval),
        "items": difference.items,
        "note": None if difference.interval is not None else few or "no interval: all changed alike",
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


def _notes(a: Side, b: Side, difference: dict[str, Any]) -> list[str]:
    found = []
    if a.run.path.resolve() == b.run.path.resolve():
        found.append("both are the same run")
    elif a.run.manifest.identity.model == b.run.manifest.identity.model:
        found.append("both runs are of the same model")
    total, paired = len(a.samples), difference["paired_count"]
    if paired < total:
        left = ", ".join(f"{n} {where.replace('_', ' ')}" for where, n in difference["unpaired"].items() if n)
        found.append(
            f"{total - paired} of {total} questions were not scored by both ({left}); the table counts them as not "
            "right, intervals, test and flips leave them out"
        )
    return [*found, *_about_bad_lines(a, b), *_about_units(a, b, difference)]


def _about_bad_lines(a: Side, b: Side) -> list[str]:
    if not (a.bad_lines or b.bad_lines):
        return []
    how_many = f"{a.bad_lines}" if a.bad_lines == b.bad_lines else f"{a.bad_lines} in A, {b.bad_lines} in B"
    return [
        f"the table counts bad lines of the data ({how_many}) as not right; intervals, test and flips leave them out"
    ]


def _about_units(a: Side, b: Side, difference: dict[str, Any]) -> list[str]:
    found, paired, count = [], difference["paired_count"], difference["paired_unit_count"]
    if a.cluster != b.cluster:
        fields = (f"{side.cluster or 'none'} in {name}" for name, side in (("A", a), ("B", b)))
        found.append(f"--cluster differs ({', '.join(fields)}): what hangs together in either run is one unit here")
    if count < paired:
        units_ = f"these {paired} questions hang together in {count} independent units"
        test = difference["mcnemar"]
        if test["only_a_correct"] + test["only_b_correct"]:
            units_ += ": McNemar's test takes questions as independent, so that the intervals are the safer guide"
        found.append(units_)
    if count and (few := too_few(count, "questions" if count == paired else "independent units")):
        found.append(few)
    return found
