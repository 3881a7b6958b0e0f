"""ScreenSpot, its second version and ScreenSpot-Pro: JSON arrays of an image, an instruction and a box.

How the box is written differs between them and between their copies; `boxes` says how that is told.
"""

from __future__ import annotations

from typing import Any

import msgspec

from howsure.errors import InputError
from howsure.studies.grounding.reading.boxes import NUMBERS
from howsure.studies.grounding.reading.drafts import Draft, Origin, Shape, converted, id_of, labels_of, size_of, text_of


class Record(msgspec.Struct):
    """`file_name` is what some copies call `img_filename`. A Chinese instruction beside the English one is ignored."""

    bbox: list[float]
    instruction: str
    img_filename: str | None = None
    file_name: str | None = None
    id: str | int | None = None
    data_type: str | None = None
    ui_type: str | None = None
    platform: str | None = None
    data_source: str | None = None
    group: str | None = None
    application: str | None = None
    img_size: list[int] | None = None


def is_screenspot(entry: Any) -> bool:
    return isinstance(entry, dict) and "bbox" in entry


def is_pro(entry: Any) -> bool:
    """Whether an entry has what only ScreenSpot-Pro tells."""
    return isinstance(entry, dict) and ("img_size" in entry or "application" in entry)


def draft_screenspot(entry: Any, origin: Origin) -> Draft:
    record = converted(entry, Record)
    image = record.img_filename if record.img_filename is not None else record.file_name
    if image is None:
        raise InputError("it has no img_filename")
    if len(record.bbox) != NUMBERS["box"]:
        raise InputError(f"bbox must have four numbers, not {len(record.bbox)}")
    return Draft(
        number=origin.number,
        id=id_of(record.id, origin),
        image=image,
        instruction=text_of(record.instruction, "instruction"),
        shape=Shape("box", tuple(record.bbox), order=None, units=None),
        labels=labels_of(
            {
                "platform": record.platform or record.data_source,
                "type": record.data_type or record.ui_type,
                "application": record.application,
                "group": record.group,
            }
        ),
        size=size_of(record.img_size, "img_size"),
    )
