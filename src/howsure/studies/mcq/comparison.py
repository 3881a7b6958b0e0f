"""Two runs over the same questions: what changed, how sure that is, and which answers flipped.

Everything with an interval is paired, over the questions that both runs scored; those that hang together in either run
are one unit. The signed margin of a question is the log-likelihood of the right answer minus that of the best other
one: above zero where it is answered rightly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from howsure.measures import PairedDifference, mcnemar_exact, paired_means, paired_shares, too_few
from howsure.runs import Run, Sample
from howsure.runs.files import write_new
from howsure.runs.run import Pair, PathLike
from howsure.studies.comparing import (
    Comparison,
    McNemar,
    PairedFigure,
    Side,
    check_same,
    notes_on_models,
    paired_figure,
    read_side,
    refuse_other_data,
)
from howsure.studies.mcq.columns import Codes, columns, units
from howsure.studies.mcq.record import McqRecord
from howsure.studies.summary import Coverage
from howsure.studies.sureness import LEVEL
from howsure.types import Fields

_SAME_PROMPT = ("prompt", "chat")
_SAME_ITEM = ("question", "choices", "answer_index", "image_sha256")
_LOWEST_NATS = -1e300
"""Log-likelihoods below this stand for the logarithm of zero."""

McqRun = Side[McqRecord]
Pairs = Sequence[tuple[Sample[McqRecord], Sample[McqRecord]]]
Floats = NDArray[np.float64]


class McqSide(Fields, kw_only=True):
    """The figures of one run: bad lines of its data and failed questions are not right."""

    run: str
    model: str | None
    accuracy: float | None
    avg_margin: float | None
    correct_count: int
    total_count: int
    scored_count: int
    bad_line_count: int
    coverage: Coverage
    notes: list[str]


class Flip(Fields, kw_only=True):
    """A question that one run answers rightly and the other wrongly."""

    id: str
    question: str
    group: str | None
    answer_index: int
    answer: str
    predicted_index_a: int
    predicted_index_b: int
    choice_a: str
    choice_b: str
    signed_margin_a_nats: float | None
    signed_margin_b_nats: float | None
    moved_nats: float | None


class Flips(Fields, kw_only=True):
    right_to_wrong: list[Flip]
    wrong_to_right: list[Flip]


class McqDifference(Fields, kw_only=True):
    """B − A."""

    accuracy: float | None
    avg_margin: float | None
    correct_count: int
    paired_count: int
    paired_unit_count: int
    unpaired: dict[str, int]
    """Questions that are in no paired figure, by where they failed."""
    paired_accuracy: PairedFigure | None
    paired_margin: PairedFigure | None
    mcnemar: McNemar
    flips: Flips


class McqComparison(Comparison, kw_only=True):
    a: McqSide
    b: McqSide
    difference: McqDifference
    notes: list[str]


def compare(run_a: Run | PathLike, run_b: Run | PathLike) -> McqComparison:
    """Compare two finished mcq runs from their folders; no model is needed. Runs over other questions, or asked in
    another way, are refused."""
    a, b = (read_side(run, "mcq", McqRecord, "questions") for run in (run_a, run_b))
    check_comparable(a, b)
    unit = units([sample.result for sample in a.samples], [sample.result for sample in b.samples])
    rows = [(x, y, code) for x, y, code in zip(a.samples, b.samples, unit, strict=True) if not (x.failed or y.failed)]
    pairs, unit = [(x, y) for x, y, _ in rows], np.array([code for *_, code in rows], dtype=np.int64)
    first, second = _about(a), _about(b)
    difference = _difference(first, second, a, b, pairs, unit)
    return McqComparison(study="mcq", a=first, b=second, difference=difference, notes=_notes(a, b, difference))


def check_comparable(a: McqRun, b: McqRun) -> None:
    check_same(a, b, _SAME_PROMPT)
    problem = _other_items(a.samples, b.samples)
    if problem is None and a.data.get("fingerprint") != b.data.get("fingerprint"):
        problem = "their groups are not the same"
    if problem is not None:
        refuse_other_data(a, b, "questions", problem)


def _other_items(a: Sequence[Sample[McqRecord]], b: Sequence[Sample[McqRecord]]) -> str | None:
    """What the first difference between two lists of questions is, or None."""
    only_a, only_b = ({x.id for x in a} - {x.id for x in b}), ({x.id for x in b} - {x.id for x in a})
    if only_a or only_b:
        return f"{len(only_a)} are in the first alone and {len(only_b)} in the second alone"
    for x, y in zip(a, b, strict=True):
        if x.id != y.id:
            return f"their order differs, from {x.id!r} on"
        for name in _SAME_ITEM:
            if getattr(x.result, name) != getattr(y.result, name):
                return f"{name} of {x.id!r} differs"
    return None


# -- what changed -----------------------------------------------------------------------------------------------


def _about(side: McqRun) -> McqSide:
    table, bad = columns(side.samples), side.bad_lines
    correct, total = int(table.correct.sum()), table.total + bad
    margins = table.margin_nats[~np.isnan(table.margin_nats)]
    return McqSide(
        run=str(side.run.path),
        model=side.model,
        accuracy=correct / total if total else None,
        avg_margin=float(margins.mean()) if len(margins) else None,
        correct_count=correct,
        total_count=total,
        scored_count=int(table.scored.sum()),
        bad_line_count=bad,
        coverage=Coverage.of(side.samples, {"bad_line": bad} if bad else None),
        notes=side.summary.notes,
    )


def _difference(a: McqSide, b: McqSide, one: McqRun, other: McqRun, pairs: Pairs, unit: Codes) -> McqDifference:
    correct = np.array([[x.result.correct, y.result.correct] for x, y in pairs], dtype=np.float64).reshape(-1, 2)
    bounded = [(x.result.margin, y.result.margin) for x, y in pairs]
    known = np.array([None not in pair for pair in bounded], dtype=np.bool_)
    margins = np.array([pair for pair in bounded if None not in pair], dtype=np.float64).reshape(-1, 2)
    test = mcnemar_exact(*correct.T)
    failed = [(x.failed, y.failed) for x, y in zip(one.samples, other.samples, strict=True)]
    return McqDifference(
        accuracy=_minus(b.accuracy, a.accuracy),
        avg_margin=_minus(b.avg_margin, a.avg_margin),
        correct_count=b.correct_count - a.correct_count,
        paired_count=len(pairs),
        paired_unit_count=len(np.unique(unit)),
        unpaired={
            "failed_in_a": failed.count((True, False)),
            "failed_in_b": failed.count((False, True)),
            "failed_in_both": failed.count((True, True)),
        },
        paired_accuracy=_paired(correct, paired_shares(*correct.T, clusters=unit, level=LEVEL), unit),
        paired_margin=_paired(margins, paired_means(*margins.T, clusters=unit[known], level=LEVEL), unit[known]),
        mcnemar=McNemar(**asdict(test)),
        flips=flips(pairs),
    )


def _paired(both: Floats, difference: PairedDifference | None, unit: Codes) -> PairedFigure | None:
    units = len(np.unique(unit))
    noun = "questions" if units == len(unit) else "independent units"
    return paired_figure(both[:, 0], both[:, 1], difference, units, noun)


def _minus(second: float | None, first: float | None) -> float | None:
    return None if first is None or second is None else second - first


# -- flips ------------------------------------------------------------------------------------------------------


def flips(pairs: Pairs) -> Flips:
    """The answers that flipped, the farthest first; a margin without bound moved farther than any other."""
    flipped = [_flip(x, y) for x, y in pairs if x.result.correct != y.result.correct]
    flipped.sort(key=lambda flip: -np.inf if flip.moved_nats is None else -abs(flip.moved_nats))
    return Flips(
        right_to_wrong=[flip for flip in flipped if flip.predicted_index_a == flip.answer_index],
        wrong_to_right=[flip for flip in flipped if flip.predicted_index_b == flip.answer_index],
    )


def _flip(a: Sample[McqRecord], b: Sample[McqRecord]) -> Flip:
    one, other = a.result, b.result
    assert one.predicted_index is not None
    assert other.predicted_index is not None
    before, after = signed_margin_nats(one), signed_margin_nats(other)
    return Flip(
        id=a.id,
        question=one.question,
        group=one.group,
        answer_index=one.answer_index,
        answer=one.choices[one.answer_index],
        predicted_index_a=one.predicted_index,
        predicted_index_b=other.predicted_index,
        choice_a=one.choices[one.predicted_index],
        choice_b=one.choices[other.predicted_index],
        signed_margin_a_nats=before,
        signed_margin_b_nats=after,
        moved_nats=_minus(after, before),
    )


def signed_margin_nats(record: McqRecord) -> float | None:
    """Log-likelihood of the right answer minus that of the best other one; None where either has probability zero."""
    values, right = record.log_likelihoods, record.answer_index
    if values is None:
        return None
    best_other = max(value for i, value in enumerate(values) if i != right)
    if min(values[right], best_other) < _LOWEST_NATS:
        return None
    return float(values[right] - best_other)


def _notes(a: McqRun, b: McqRun, difference: McqDifference) -> list[str]:
    notes = notes_on_models(a, b)
    total, paired = len(a.samples), difference.paired_count
    if paired < total:
        left = ", ".join(f"{n} {where.replace('_', ' ')}" for where, n in difference.unpaired.items() if n)
        notes.append(
            f"{total - paired} of {total} questions were not scored by both ({left}); the table counts them as not "
            "right, intervals, test and flips leave them out"
        )
    if a.bad_lines or b.bad_lines:
        how_many = f"{a.bad_lines}" if a.bad_lines == b.bad_lines else f"{a.bad_lines} in A, {b.bad_lines} in B"
        notes.append(
            f"the table counts bad lines of the data ({how_many}) as not right; intervals, test and flips leave them "
            "out"
        )
    return notes + _about_units(a, b, difference)


def _about_units(a: McqRun, b: McqRun, difference: McqDifference) -> list[str]:
    notes, paired, count = [], difference.paired_count, difference.paired_unit_count
    fields = [side.options.get("cluster") for side in (a, b)]
    if fields[0] != fields[1]:
        named = f"{fields[0] or 'none'} in A, {fields[1] or 'none'} in B"
        notes.append(f"--cluster differs ({named}): units of either run are joined here")
    if count < paired:
        units_ = f"these {paired} questions are {count} independent units"
        if difference.mcnemar.only_a_correct + difference.mcnemar.only_b_correct:
            units_ += ": McNemar's test takes questions as independent, so that the intervals are the safer guide"
        notes.append(units_)
    if count and (few := too_few(count, "questions" if count == paired else "independent units")):
        notes.append(few)
    return notes


# -- one JSON file with everything --------------------------------------------------------------------------------

_FIGURES = ("accuracy", "avg_margin", "correct_count", "total_count")
_RESULT = (
    "predicted_index",
    "log_likelihoods",
    "correct",
    "margin",
    "answer_index",
    "group",
    "confidence",
    "entropy_nats",
    "tie",
    "predicted_index_per_token",
    "predicted_index_per_byte",
    "predicted_index_pmi",
    "unconditional_log_likelihoods",
)


def document(summary: Mapping[str, Any], samples: Sequence[Sample[McqRecord]], run: Run) -> dict[str, Any]:
    """The figures first, then where they come from, the rest of the summary, and a result for every question, failed
    ones included, in the data's order."""
    identity = run.manifest.identity
    about = {
        "model": identity.model.get("name"),
        "data": run.manifest.source,
        "prompt": identity.options.get("prompt"),
        "chat": identity.options.get("chat"),
        "run": str(run.path),
    }
    figures = {name: summary[name] for name in _FIGURES}
    results = [
        {name: getattr(sample.result, name) for name in _RESULT}
        | {"id": sample.id, "reason": sample.reason, "detail": sample.detail}
        for sample in samples
    ]
    return {**figures, **about, **summary, "results": results}


def comparison_document(comparison: McqComparison) -> dict[str, Any]:
    """Both runs with all their results, and what changed between them."""
    sides = {name: read_side(comparison[name].run, "mcq", McqRecord, "questions") for name in ("a", "b")}
    documents = {name: document(side.run.summary or {}, side.samples, side.run) for name, side in sides.items()}
    return documents | {"difference": comparison.difference, "notes": comparison.notes}


def deliver(result: Any, path: PathLike) -> None:
    """--output-json."""
    comparison = result.comparison if isinstance(result, Pair) else result
    content: Mapping[str, Any] = (
        comparison_document(comparison) if isinstance(comparison, McqComparison) else document(*result)
    )
    write_new(Path(path), content)
