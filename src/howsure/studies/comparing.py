"""`compare`: two finished runs of the same study over the same data."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, NoReturn

import msgspec
import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeVar

from howsure.errors import EvidenceError, HowsureError, InputError, RunDamaged
from howsure.measures import PairedDifference, paired_shares, too_few
from howsure.runs import Run, Sample
from howsure.runs.folder import read_summary
from howsure.studies.summary import Coverage, Figure, Summary
from howsure.studies.sureness import LEVEL, ends
from howsure.types import Fields, Shown

RunLike = Run | str | os.PathLike[str]
RecordT = TypeVar("RecordT", default=Any)

NOT_WHAT_IT_SAYS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What code meets in a run folder that somebody changed."""


NOT_COMPARED = ("trust coherent",)
"""Nobody has said yet how two of their runs are paired."""


class Comparison(Fields, Shown, kw_only=True):
    """What changed from run A to run B; every study has its own kind of it, with `a`, `b`, `difference`, `notes`."""

    study: str


def compare(run_a: RunLike, run_b: RunLike) -> Comparison:
    """Compare two finished runs from their folders; no model is needed.

    Gives `a` and `b` (the figures of each), `difference` (B − A, with paired intervals) and `notes`. Runs of different
    studies, over other data, or asked in another way, are refused.
    """
    from howsure.studies.registry import study_named

    a, b = (run if isinstance(run, Run) else Run(run) for run in (run_a, run_b))
    study = study_of(a, b)
    try:
        comparison: Comparison = study_named(study).compare(a, b)
    except NOT_WHAT_IT_SAYS as error:
        if isinstance(error, HowsureError) and not isinstance(error, EvidenceError):
            raise
        why = f"{type(error).__name__}: {error}"
        raise RunDamaged(f"{a.path} or {b.path} does not hold what a run of {study} does ({why[:200]})") from error
    return comparison


def study_of(a: Run, b: Run) -> str:
    """The study that both runs are of, if it can be compared."""
    from howsure.studies import registry

    known = [name for name in registry.names() if name not in NOT_COMPARED]
    first, second = (run.manifest.identity.study for run in (a, b))
    for run, study in ((a, first), (b, second)):
        if study not in known:
            *others, last = known
            raise InputError(
                f"{run.path} is a run of {study!r}, and only {', '.join(others)} and {last} runs can be compared"
            )
    if first != second:
        raise InputError(f"{a.path} is a run of {first}, {b.path} one of {second}: compare runs of the same study")
    return first


# -- the two runs -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Side(Generic[RecordT]):
    """One of the two runs, read."""

    run: Run
    summary: Summary
    """What all summaries have; a run of an earlier version may lack the rest."""
    samples: list[Sample[RecordT]]

    @property
    def options(self) -> dict[str, Any]:
        return self.run.manifest.identity.options

    @property
    def data(self) -> dict[str, Any]:
        return self.run.manifest.identity.data

    @property
    def model(self) -> str | None:
        return self.run.manifest.identity.model.get("name")

    @property
    def bad_lines(self) -> int:
        return int(self.data.get("skipped") or 0)


def read_side(
    run: RunLike, study: str, record: type[RecordT], noun: str = "samples", *, counted: bool = True
) -> Side[RecordT]:
    """A finished run of a study, or one sentence about why it is none. Where samples are not `counted` before they are
    made, the summary says how many there are."""
    run = run if isinstance(run, Run) else Run(run)
    of = run.manifest.identity.study
    if of != study:
        raise InputError(f"{run.path} is a run of {of!r}, and only {study} runs can be compared")
    samples = run.records(evidence=False, record=record)
    judged = read_summary(run.path, Summary)
    wanted = run.manifest.items if counted or judged is None else judged.coverage.items
    if run.status != "finished" or judged is None or len(samples) != wanted:
        raise InputError(
            f"{run.path} is not finished ({run.status}, {len(samples)} of {wanted} {noun}): "
            "run the command that made it again, then compare"
        )
    return Side(run, judged, samples)


class McNemar(Fields, kw_only=True):
    """McNemar's exact test over the items that both runs have."""

    both_correct: int
    only_a_correct: int
    only_b_correct: int
    both_wrong: int
    p_value: float | None


class PairedFigure(Fields, kw_only=True):
    """Both means over the items that both runs have, and their difference; `note` says why it has no interval."""

    mean_a: float
    mean_b: float
    mean_difference: float
    low: float | None
    high: float | None
    level: float | None
    method: str | None
    approximate: bool | None
    items: int
    note: str | None


def paired_figure(
    a: NDArray[np.float64], b: NDArray[np.float64], difference: PairedDifference | None, units: int, noun: str
) -> PairedFigure | None:
    """None where there is no item that both have."""
    if difference is None:
        return None
    why = None if difference.interval is not None else too_few(units, noun) or "no interval: all changed alike"
    return PairedFigure(
        mean_a=float(a.mean()),
        mean_b=float(b.mean()),
        mean_difference=difference.mean_difference,
        **ends(difference.interval),
        items=difference.items,
        note=why,
    )


def check_same(a: Side, b: Side, names: Sequence[str]) -> None:
    """Options without which a difference would say nothing of the models."""
    differing = [name for name in names if a.options.get(name) != b.options.get(name)]
    if differing:
        one, other = ([f"{name} {side.options.get(name)!r}" for name in differing] for side in (a, b))
        raise InputError(
            f"the runs were asked in different ways, so that their difference says nothing of the models: "
            f"{a.run.path} with {', '.join(one)}, {b.run.path} with {', '.join(other)}"
        )


def refuse_other_data(a: Side, b: Side, noun: str, problem: str) -> NoReturn:
    raise InputError(f"{a.run.path} and {b.run.path} are over different {noun}: {problem}")


def notes_on_models(a: Side, b: Side) -> list[str]:
    if a.run.path.resolve() == b.run.path.resolve():
        return ["both are the same run"]
    if a.run.manifest.identity.model == b.run.manifest.identity.model:
        return ["both runs are of the same model"]
    return []


# -- studies that say nothing of their own ----------------------------------------------------------------------------


class SideFigures(Fields, kw_only=True):
    run: str
    model: str | None
    coverage: Coverage
    headline: list[Figure]


class OutcomeDifference(Fields, kw_only=True):
    """How much more often B is right, over the items of which both runs have an outcome."""

    paired_count: int
    mean_a: float | None
    mean_b: float | None
    mean_difference: float | None
    low: float | None
    high: float | None
    level: float | None
    method: str | None
    approximate: bool | None
    note: str | None


class OutcomeComparison(Comparison, kw_only=True):
    a: SideFigures
    b: SideFigures
    difference: OutcomeDifference
    notes: list[str]


def compare_outcomes(study: Any, run_a: RunLike, run_b: RunLike) -> OutcomeComparison:
    """Headline figures side by side, and how often each is right, paired, where outcomes are right or wrong."""
    a, b = (read_side(run, study.name, study.record) for run in (run_a, run_b))
    names_a, names_b = ([sample.id for sample in side.samples] for side in (a, b))
    if names_a != names_b or a.data.get("fingerprint") != b.data.get("fingerprint"):
        refuse_other_data(a, b, "items", "their names or contents differ")
    rows = zip(a.samples, b.samples, strict=True)
    outcomes = [
        (x.outcome.correct, y.outcome.correct)
        for x, y in rows
        if x.outcome is not None and y.outcome is not None and None not in (x.outcome.correct, y.outcome.correct)
    ]
    both = np.array(outcomes, dtype=np.float64).reshape(-1, 2)
    paired = paired_shares(*both.T, level=LEVEL)
    mean_a, mean_b = both.mean(axis=0).tolist() if len(both) else (None, None)
    difference = OutcomeDifference(
        paired_count=len(both),
        mean_a=mean_a,
        mean_b=mean_b,
        mean_difference=None if paired is None else paired.mean_difference,
        **ends(None if paired is None else paired.interval),
        note=too_few(len(both), "items") if len(both) else "no item has an outcome in both runs",
    )
    sides = [_figures(side) for side in (a, b)]
    return OutcomeComparison(
        study=study.name, a=sides[0], b=sides[1], difference=difference, notes=notes_on_models(a, b)
    )


def _figures(side: Side) -> SideFigures:
    summary = side.summary
    return SideFigures(
        run=str(side.run.path), model=side.model, coverage=summary.coverage, headline=list(summary.headline)
    )


def as_json(comparison: Comparison) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(comparison)
    return data
