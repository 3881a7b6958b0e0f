"""Logs of steps that exist already, written here or elsewhere: what they show about trust.

Question: how much of what grounding and instruction together take off the uncertainty is due to grounding alone?
Data: CSV files with the columns entropy_H_X, entropy_H_X_given_S and entropy_H_X_given_LS (bits) in any order among
others; `episode`, or where `step` begins anew, tells episodes apart, and each file has its own.
What comes out: the summary of a run of `trust`. One bad file never stops the others: it becomes a sentence.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec
import numpy as np

from howsure.errors import InputError
from howsure.measures import trust_of_each
from howsure.storage import is_address
from howsure.studies.trust.csv_steps import StepLog, read_steps_csv, shown_name
from howsure.studies.trust.estimates import StepSummary, means, summarise
from howsure.studies.trust.ratio import TrustFigure, estimate
from howsure.studies.trust.steps import ENTROPY_COLUMNS, Steps
from howsure.types import Fields, html_of

__all__ = ["Analysis", "StepLog", "analyse", "read_steps_csv"]

PathLike = str | os.PathLike[str]

RECORDED_TOLERANCE = 1e-3
"""A recorded T may differ by this, or by what rounding to the digits printed explains, whichever is more."""

SHOWN_FILES = 50
"""Files that a summary holds apart, the first ones; all of them are in the other figures."""


class Recorded(Fields, kw_only=True):
    """Trusts that a log records, held against those that the entropies beside them give."""

    rows: int
    compared: int
    differing: int
    without_entropies: int


class FileFigures(Fields, kw_only=True):
    """One file by itself."""

    file: str
    delimiter: str
    columns_missing: list[str]
    episodes_from: str
    episode_count: int
    recorded: Recorded
    rows: int
    complete: int
    mean_entropy_bits: dict[str, float | None]
    delta_h_s_bits: float | None
    delta_h_ls_bits: float | None
    trust: TrustFigure


class LogSummary(StepSummary, kw_only=True):
    """What logs say of trust: the summary of a run, as far as logs tell."""

    files: list[FileFigures]
    recorded: Recorded
    problems: list[str]
    """A sentence for each file that could not be read."""


class Analysis(NamedTuple):
    """The summary, and whether a file could not be read; `summary.problems` has a sentence for each."""

    summary: LogSummary
    failed: bool

    def _repr_html_(self) -> str:
        return html_of(self)


def analyse(paths: Sequence[PathLike], *, seed: int = 0) -> Analysis:
    """The steps of all files together. An `InputError` where there is no step in any of them."""
    logs, problems, notes = _read(paths)
    if not any(len(log.steps) for log in logs):
        raise _nothing(logs, problems)
    named = _labelled(logs) if len(logs) > 1 else logs
    steps = Steps.joined([log.steps for log in named])
    checked = [_recorded(log) for log in logs]
    notes += [note for log in logs for note in log.notes] + [note for _, remarks in checked for note in remarks]
    if len(logs) > SHOWN_FILES:
        notes.append(f"the first {SHOWN_FILES} files are listed apart; {len(logs) - SHOWN_FILES:,} more are not")
    counts = [one for one, _ in checked]
    summary = LogSummary(
        **msgspec.structs.asdict(summarise(steps, seed=seed, notes=notes)),
        files=[_file(log, one) for log, one in list(zip(named, counts, strict=True))[:SHOWN_FILES]],
        recorded=Recorded(**{name: sum(one[name] for one in counts) for name in counts[0]}),
        problems=problems,
    )
    return Analysis(summary, bool(problems))


def _read(paths: Sequence[PathLike]) -> tuple[list[StepLog], list[str], list[str]]:
    """Each file once, in the order given; sentences about those that cannot be read, and about those named twice."""
    logs: list[StepLog] = []
    problems: list[str] = []
    seen: dict[str, str] = {}
    notes = []
    for path in paths:
        name = shown_name(path)
        real = name if "\0" in name or is_address(path) else os.path.realpath(path)
        if real in seen:
            notes.append(f"{name} is the file {seen[real]}, and is read once")
            continue
        seen[real] = name
        try:
            logs.append(read_steps_csv(path))
        except InputError as error:
            problems.append(str(error))
    return logs, problems, notes


def _nothing(logs: Sequence[StepLog], problems: Sequence[str]) -> InputError:
    sentences = [*problems, *(note for log in logs for note in log.notes)]
    if not sentences:
        return InputError(f"there is no step to analyse: name CSV files with the columns {', '.join(ENTROPY_COLUMNS)}")
    others = len(sentences) - 1
    more = f" ({others:,} more problem{'' if others == 1 else 's'})" if others else ""
    return InputError(f"there is no step to analyse: {sentences[0]}{more}")


def _labelled(logs: Sequence[StepLog]) -> list[StepLog]:
    """Episodes under the names of their files: those of two files are different ones, whatever they are called."""
    labelled = []
    for log in logs:
        alone = len(log.steps.episodes) == 1 and log.episodes_from != "episode"
        names = (log.name,) if alone else tuple(f"{log.name}, {episode}" for episode in log.steps.episodes)
        labelled.append(replace(log, steps=replace(log.steps, episodes=names)))
    return labelled


def _file(log: StepLog, recorded: Recorded) -> FileFigures:
    return FileFigures(
        file=log.name,
        delimiter=log.delimiter,
        columns_missing=list(log.columns_missing),
        episodes_from=log.episodes_from,
        episode_count=len(log.steps.episodes),
        recorded=recorded,
        rows=len(log.steps),
        **means(log.steps, np.flatnonzero(log.steps.complete)),
        trust=estimate(log.steps),
    )


# -- what a log says of trust itself -------------------------------------------------------------------------------


def _recorded(log: StepLog) -> tuple[Recorded, list[str]]:
    """Recorded trusts held against those that the entropies beside them give; and sentences about what differs."""
    said, computed = log.trust_recorded, trust_of_each(*log.steps.bits.T)
    there = ~np.isnan(said)
    slack = _slack(log, computed)
    compared = there & ~np.isnan(computed) & np.isfinite(slack)
    differs = np.zeros(len(said), dtype=np.bool_)
    differs[compared] = np.abs(said[compared] - computed[compared]) > slack[compared]
    counts = Recorded(
        rows=int(there.sum()),
        compared=int(compared.sum()),
        differing=int(differs.sum()),
        without_entropies=int((there & ~log.steps.complete).sum()),
    )
    return counts, list(_about_recorded(log, counts, differs, computed))


def _slack(log: StepLog, computed: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """How far rounding alone can take a recorded T from the one computed; inf where that has no bound.

    Entropies printed with d decimals are off by up to half a unit of the last, so numerator and denominator each by
    two of these halves: |ΔT| ≤ (Δn + |T| Δd) / (|d| − Δd), and half a unit of T's own last digit.
    """
    x, xs, xls = (0.5 * 10.0 ** -log.decimals.get(column, 17) for column in ENTROPY_COLUMNS)
    own = 0.5 * 10.0 ** -log.decimals.get("trust_T", 17)
    room = np.abs(log.steps.bits[:, 0] - log.steps.bits[:, 2]) - (x + xls)
    bound = np.full(len(computed), np.inf)
    np.divide((x + xs) + np.abs(computed) * (x + xls), room, out=bound, where=room > 0)
    return np.maximum(bound + own, RECORDED_TOLERANCE)


def _about_recorded(
    log: StepLog, counts: Recorded, differs: np.ndarray[Any, Any], computed: np.ndarray[Any, Any]
) -> Iterator[str]:
    if counts.differing:
        first = int(np.flatnonzero(differs)[0])
        yield (
            f"{log.name}: {counts.differing:,} of {counts.compared:,} recorded trust_T differ from what their "
            f"entropies give by more than rounding explains, the first in line {log.lines[first]} "
            f"({log.trust_recorded[first]:.4g} recorded, {computed[first]:.4g} computed); the figures here are computed"
        )
    if counts.without_entropies:
        rows = "1 row records" if counts.without_entropies == 1 else f"{counts.without_entropies:,} rows record"
        yield f"{log.name}: {rows} a trust_T without the three entropies that it is made of, and cannot be used"
