"""Pages of a run of a study that is not known here: its samples as they were written."""

from __future__ import annotations

from typing import Any

import msgspec

from howsure.report.pages.columns import Column
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


def as_written(sample: Sample) -> Section:
    """The sample's fields as they stand in samples.jsonl, without the evidence."""
    fields = msgspec.to_builtins(sample.without_evidence())
    text = msgspec.json.format(msgspec.json.encode(fields), indent=2).decode("utf-8", "replace")
    return Section("As it was written", "The line of samples.jsonl, without its evidence.", long_text(text))
