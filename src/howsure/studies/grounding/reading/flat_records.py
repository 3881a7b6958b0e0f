"""Samples one a line, all places already in the 0–1000 frame: what `howsure grounding convert` writes.

    {"id": "user_1-0", "image": "shot.jpg", "instruction": "close the window",
     "target": {"kind": "box", "coords": [960.0, 0.0, 1000.0, 45.5]}, "labels": {"user": ["1"]}}

`prompt`, where there is one, is the whole text that a model is to be asked with; `content` what the element is called.
"""

from __future__ import annotations

from typing import Any

import msgspec

from howsure.errors import InputError
from howsure.studies.grounding.items import LABELS, Item, Target
from howsure.studies.grounding.reading.drafts import Draft, Origin, Shape, converted, id_of, labels_of, text_of

Labels = dict[str, str | list[str] | None]


class Record(msgspec.Struct):
    image: str
    instruction: str
    target: Target
    id: str | int | None = None
    prompt: str | None = None
    content: str | None = None
    labels: Labels = {}


def is_flat(entry: Any) -> bool:
    return isinstance(entry, dict) and "target" in entry


def draft_flat(entry: Any, origin: Origin) -> Draft:
    record = converted(entry, Record)
    unknown = next((kind for kind in record.labels if kind not in LABELS), None)
    if unknown is not None:
        raise InputError(f"labels has {unknown[:80]!r}, which is none of {', '.join(LABELS)}")
    return Draft(
        number=origin.number,
        id=id_of(record.id, origin),
        image=record.image,
        instruction=text_of(record.instruction, "instruction"),
        shape=Shape(record.target.kind, record.target.coords),
        content=record.content,
        prompt=None if record.prompt is None else text_of(record.prompt, "prompt"),
        labels=labels_of({"user": origin.user, **record.labels}),
    )


def flat_record(item: Item, image: str) -> dict[str, Any]:
    """The line of an item whose image is written as this path."""
    optional = {"prompt": item.prompt, "content": item.content}
    return {
        "id": item.id,
        "image": image,
        "instruction": item.instruction,
        **{key: value for key, value in optional.items() if value is not None},
        "target": {"kind": item.target.kind, "coords": list(item.target.coords)},
        "labels": {kind: list(values) for kind, values in item.labels.items()},
    }
