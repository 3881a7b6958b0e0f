"""OSWorld-G: boxes as x, y, width, height in pixels, polygons as x, y pairs, and instructions that must be refused."""

from __future__ import annotations

from typing import Any

import msgspec

from howsure.errors import InputError
from howsure.studies.grounding.reading.drafts import Draft, Origin, Shape, converted, id_of, labels_of, size_of, text_of


class Record(msgspec.Struct):
    """`GUI_types` is what kinds of element the target is; `/` stands for none."""

    image_path: str
    instruction: str
    box_type: str
    box_coordinates: list[float] = []
    id: str | int | None = None
    image_size: list[int] | None = None
    GUI_types: str | list[str] | None = None


def is_osworld(entry: Any) -> bool:
    return isinstance(entry, dict) and "box_type" in entry


def draft_osworld(entry: Any, origin: Origin) -> Draft:
    record = converted(entry, Record)
    return Draft(
        number=origin.number,
        id=id_of(record.id, origin),
        image=record.image_path,
        instruction=text_of(record.instruction, "instruction"),
        shape=_shape(record),
        labels=labels_of({"type": record.GUI_types}),
        size=size_of(record.image_size, "image_size"),
    )


def _shape(record: Record) -> Shape:
    numbers = tuple(record.box_coordinates)
    if record.box_type == "bbox":
        return Shape("box", numbers, order="xywh", units="pixels")
    if record.box_type == "polygon":
        return Shape("polygon", numbers, units="pixels")
    if record.box_type == "refusal":
        return Shape("refusal")  # its coordinates are zeros that mean nothing
    raise InputError(f"box_type {record.box_type[:80]!r} is none of bbox, polygon, refusal")
