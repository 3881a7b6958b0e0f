"""What each study shows: the columns of its table, a row for each sample, its document, and the page of a sample.

A study's file in this folder offers the names of `View`; one that has none shows what follows from its record. Nothing
in a run folder is trusted: a part that cannot be made of what the files hold becomes a sentence in its place
(`guarded`), and the other parts stand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, get_args, get_type_hints

import msgspec

from howsure.errors import CANNOT
from howsure.report.document import Document, Prose, Quoted, Section
from howsure.report.rows import ID, REASON, Column, Kind
from howsure.runs import Sample
from howsure.studies import registry
from howsure.studies.summary import Summary

if TYPE_CHECKING:
    from howsure.report.run_data import RunData, StoredRun

HOMES = {name: f"howsure.report.{name.replace(' ', '_')}" for name in registry.HOMES}
STRICT = False
"""Set by tests: a part that cannot be made is then an error, so that a fault of ours does not pass for a bad file."""


class View(Protocol):
    """The file of a study. `run` is None where there are no samples to be had, as in a notebook."""

    COLUMNS: tuple[Column, ...]

    def row(self, sample: Sample) -> dict[str, Any]: ...

    def document(self, summary: Any, run: RunData | None) -> Sequence[Section]:
        """Everything but the headline figures and notes. `summary` is None where the run is not finished."""

    def about(self, sample: Sample, run: StoredRun) -> Sequence[Section]:
        """The page of a sample."""

    def compared(self, comparison: Any, a: StoredRun | None, b: StoredRun | None) -> Sequence[Section]:
        """What changed from A to B."""


def view_of(study: str) -> View:
    """Its file, or what follows from its record; as it was written for a study that nobody knows here."""
    if study in HOMES:
        view: View = import_module(HOMES[study])
        return view
    return RecordView(registry.study_named(study).record if registry.is_known(study) else None)


def columns_of(view: View) -> tuple[Column, ...]:
    """A study's columns between those that every study has."""
    return (ID, *view.COLUMNS, REASON)


def document_of(study: str, summary: Any, run: RunData | None) -> Document:
    """All that there is to show of a run or a result; `summary` is what the study declares, or the plainest one."""
    figures, coverage, notes = (summary.headline, summary.coverage, summary.notes) if summary else ((), None, ())
    return Document(study, figures, coverage, notes, sections_of(study, summary, run))


def sections_of(study: str, summary: Any, run: RunData | None) -> Sequence[Section]:
    """Everything but the headline. A summary that is not as a study declares it was read as the plainest one, and has
    no more than that."""
    view = view_of(study)
    return guarded(
        lambda: view.document(None if type(summary) is Summary else summary, run),
        lambda why: [Section("Plots", [Prose(f"the files of this run do not hold what is needed: {why}", "warning")])],
    )


Made = TypeVar("Made")


def guarded(make: Callable[[], Made], otherwise: Callable[[str], Made]) -> Made:
    """What `make` gives, or what stands in its place where the files do not hold what it needs."""
    try:
        return make()
    except CANNOT as error:
        if STRICT:
            raise
        return otherwise(f"{type(error).__name__}: {error}")


# -- studies that say nothing of their own ----------------------------------------------------------------------------

_PLAIN = (
    Column("correct", "right", "flag", help="Whether the outcome was right, where that is known."),
    Column("detail", "detail", "text", help="What is said about a sample that failed."),
)


class RecordView:
    """What follows from what a study declares: a column for each plain field of its record."""

    def __init__(self, record: Any) -> None:
        kinds = {} if record is None else {name: kind_of(hint) for name, hint in hints_of(record).items()}
        self._fields = {name: kind for name, kind in kinds.items() if kind is not None}
        own = (Column(name, name.replace("_", " "), kind) for name, kind in self._fields.items())
        self.COLUMNS = (*(one for one in _PLAIN if one.name not in self._fields), *own)

    def row(self, sample: Sample) -> dict[str, Any]:
        shared = {"correct": sample.outcome.correct if sample.outcome else None, "detail": sample.detail}
        return shared | {name: sample.result.get(name) for name in self._fields}

    def document(self, summary: Any, run: RunData | None) -> list[Section]:
        return []

    def about(self, sample: Sample, run: StoredRun) -> list[Section]:
        return [as_written(sample)]

    def compared(self, comparison: Any, a: StoredRun | None, b: StoredRun | None) -> list[Section]:
        from howsure.report.comparison import outcomes

        return outcomes(comparison)


def hints_of(record: Any) -> dict[str, Any]:
    """By its name in JSON, the type of each field."""
    hints = get_type_hints(record)
    return {
        name: hints[field]
        for name, field in zip(record.__struct_encode_fields__, record.__struct_fields__, strict=True)
    }


def kind_of(hint: Any) -> Kind | None:
    """The kind of column for a declared type; None for what a row has no room for."""
    plain = {one for one in (get_args(hint) or (hint,)) if one is not type(None)}
    kinds: dict[Any, Kind] = {float: "number", int: "number", bool: "flag", str: "text"}
    return kinds.get(plain.pop()) if len(plain) == 1 else None


def as_written(sample: Sample) -> Section:
    """The sample's fields as they stand in samples.jsonl, without the evidence."""
    fields = msgspec.to_builtins(sample.without_evidence())
    text = msgspec.json.format(msgspec.json.encode(fields), indent=2).decode("utf-8", "replace")
    return Section(
        "Raw record", [Quoted(text, label="As it stands in samples.jsonl")], "Everything but the evidence.", on="page"
    )
