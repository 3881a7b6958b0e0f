"""Pages of a run of a study that is not known here: its samples as they were written."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

import msgspec

from howsure.report.pages.columns import Column, Kind
from howsure.report.pages.contract import Picks, Section
from howsure.report.pages.material import Material
from howsure.report.pages.parts import long_text
from howsure.runs import Sample

COLUMNS = (
    Column("correct", "right", "flag", help="Whether the outcome was right, where that is known."),
    Column("detail", "detail", "text", help="What is said about a sample that failed."),
)


def row(sample: Sample) -> dict[str, Any]:
    return {"correct": sample.outcome.correct if sample.outcome else None, "detail": sample.detail}


def sections(material: Material) -> list[Section]:
    return []


def picks(material: Material, most: int) -> Picks | None:
    return None


def about(sample: Sample, material: Material) -> list[Section]:
    return [as_written(sample)]


class RecordPages:
    """Pages that follow from what a study declares: a column for each plain field of its record."""

    def __init__(self, record: Any) -> None:
        kinds = {name: kind_of(hint) for name, hint in hints_of(record).items()}
        self._fields = {name: kind for name, kind in kinds.items() if kind is not None}
        own = (Column(name, name.replace("_", " "), kind) for name, kind in self._fields.items())
        self.COLUMNS = (*(one for one in COLUMNS if one.name not in self._fields), *own)

    def row(self, sample: Sample) -> dict[str, Any]:
        return row(sample) | {name: sample.result.get(name) for name in self._fields}

    def sections(self, material: Material) -> list[Section]:
        return []

    def picks(self, material: Material, most: int) -> Picks | None:
        return None

    def about(self, sample: Sample, material: Material) -> list[Section]:
        return [as_written(sample)]


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
    return Section("Raw record", "The line of samples.jsonl, without its evidence.", long_text(text))
