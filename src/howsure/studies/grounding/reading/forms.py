"""The forms of data: an entry of a file on its way to becoming an item, with boxes and images not yet looked at.

JSON lines of howsure's own, chats of two messages, ScreenSpot (v1, v2 and Pro), OSWorld-G.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from howsure.errors import InputError
from howsure.studies.grounding.answers.compat import read_answer as read_as_published
from howsure.studies.grounding.answers.parse import Reading, read_answer
from howsure.studies.grounding.frames import instruction_of
from howsure.studies.grounding.options import Order, Units
from howsure.studies.grounding.record import LABELS, Item, Labels, Target, TargetKind

LONGEST_TEXT = 100_000
"""Characters of an instruction, a prompt or an answer."""

LONGEST_NAME = 300
"""Characters of an id, a path or a label."""

Size = tuple[int, int]
T = TypeVar("T")


class Shape(NamedTuple):
    """Where the click belongs, in the numbers of the data. `order` is how a box is written, None where the file as a
    whole has to tell; so for `units`."""

    kind: TargetKind
    numbers: tuple[float, ...] = ()
    order: Order | None = "xyxy"
    units: Units | None = "thousandths"


class Draft(NamedTuple):
    """An entry whose fields are sound. `number` counts from 1; `size` is what the data says of the image."""

    number: int
    id: str
    image: str
    instruction: str
    shape: Shape
    content: str | None = None
    prompt: str | None = None
    labels: Labels = Labels()
    size: Size | None = None


class Bad(NamedTuple):
    """An entry that cannot be used, and why, in words that go on from its place in the file."""

    number: int
    why: str


class Origin(NamedTuple):
    """Where an entry stands: what its file is called without its ending, its number from 1, whose file it is."""

    stem: str
    number: int
    user: int | None = None


def converted(entry: Any, kind: type[T]) -> T:
    """An entry as the fields that are needed of it; one sentence where they are not what they should be."""
    try:
        return msgspec.convert(entry, type=kind)
    except (msgspec.ValidationError, RecursionError, OverflowError) as error:
        raise InputError(str(error)) from error


def id_of(given: str | int | None, origin: Origin) -> str:
    """The id that the data gives, else one by the place in the file, which counts from 0: `user_1-0`."""
    name = f"{origin.stem}-{origin.number - 1}" if given is None else str(given)
    if not name.strip() or len(name) > LONGEST_NAME:
        raise InputError(f"its id must have 1 to {LONGEST_NAME} characters")
    return name


def text_of(value: str | None, field: str, longest: int = LONGEST_TEXT) -> str:
    if value is None or not value.strip():
        raise InputError(f"{field} is empty")
    if len(value) > longest:
        raise InputError(f"{field} has {len(value)} characters, more than {longest}")
    return value


def labels_of(given: Mapping[str, str | int | list[str] | None]) -> Labels:
    """Labels, each value once; empty ones and `/`, which stands for none, are left out."""
    kept: dict[str, tuple[str, ...]] = {}
    for kind in LABELS:
        value = given.get(kind)
        several = value if isinstance(value, list) else [] if value is None else [str(value)]
        kept[kind] = tuple(dict.fromkeys(one for one in several if one.strip() not in ("", "/")))
        if any(len(one) > LONGEST_NAME for one in kept[kind]):
            raise InputError(f"a label of kind {kind} is longer than {LONGEST_NAME} characters")
    return Labels(**kept)


def size_of(given: list[int] | None, field: str) -> Size | None:
    if given is None:
        return None
    if len(given) != 2 or min(given) < 1:
        raise InputError(f"{field} must be a width and a height, not {str(given)[:40]}")
    return given[0], given[1]


# -- flat JSON lines --------------------------------------------------------------------------------------------------


class FlatRecord(msgspec.Struct):
    """A sample a line, all places already in the 0–1000 frame: what `howsure grounding convert` writes.

        {"id": "user_1-0", "image": "shot.jpg", "instruction": "close the window",
         "target": {"kind": "box", "coords": [960.0, 0.0, 1000.0, 45.5]}, "labels": {"user": ["1"]}}

    `prompt`, where there is one, is the whole text that a model is to be asked with; `content` what the element is
    called.
    """

    image: str
    instruction: str
    target: Target
    id: str | int | None = None
    prompt: str | None = None
    content: str | None = None
    labels: dict[str, str | list[str] | None] = {}


def is_flat(entry: Any) -> bool:
    return isinstance(entry, dict) and "target" in entry


def draft_flat(entry: Any, origin: Origin) -> Draft:
    record = converted(entry, FlatRecord)
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
        "target": item.target,
        "labels": item.labels,
    }


# -- chats ------------------------------------------------------------------------------------------------------------


ASKING, ANSWERING = ("system", "user"), "assistant"
SHOWN_CHARACTERS = 80


class Part(msgspec.Struct):
    type: str
    image: str | None = None
    text: str | None = None


class Message(msgspec.Struct):
    role: str
    content: str | list[Part]


class ChatRecord(msgspec.Struct):
    """A message with the screen and the question, and one with the answer that is right.

        [{"role": "system", "content": [{"type": "image", "image": "shot.jpg"}, {"type": "text", "text": "Given a …"}]},
         {"role": "assistant", "content": [{"type": "text", "text": "```referring … ```grounding …"}]}]

    Or the same under `messages`, with `id` and `user` beside it.
    """

    messages: list[Message]
    user: str | int | None = None
    id: str | int | None = None


def is_chat(entry: Any) -> bool:
    return isinstance(entry, (list, tuple)) or (isinstance(entry, dict) and "messages" in entry)


def draft_chat(entry: Any, origin: Origin, parser: str) -> Draft:
    record = converted(entry, ChatRecord) if isinstance(entry, dict) else ChatRecord(converted(entry, list[Message]))
    question, answer = _two(record.messages)
    prompt = text_of(_text(question), "the question's text")
    reading = _read(text_of(_text(answer), "the answer"), parser)
    user = origin.user if record.user is None else record.user
    return Draft(
        number=origin.number,
        id=id_of(record.id, origin),
        image=_image(question),
        instruction=instruction_of(prompt) or prompt,
        shape=_place_of(reading),
        content=reading.content,
        prompt=prompt,
        labels=labels_of({"user": user}),
    )


def _two(messages: list[Message]) -> tuple[Message, Message]:
    if len(messages) != 2:
        raise InputError(f"it has {len(messages)} messages, not two: the question with its image, and the answer")
    question, answer = messages
    if question.role not in ASKING or answer.role != ANSWERING:
        roles = f"{question.role[:SHOWN_CHARACTERS]!r} and {answer.role[:SHOWN_CHARACTERS]!r}"
        raise InputError(f"its messages are of {roles}, not of system or user and then assistant")
    return question, answer


def _text(message: Message) -> str:
    if isinstance(message.content, str):
        return message.content
    _check_parts(message.content)
    return "".join(part.text or "" for part in message.content if part.type == "text")


def _check_parts(parts: list[Part]) -> None:
    for part in parts:
        if part.type not in ("image", "text"):
            raise InputError(f"a part of its messages is of type {part.type[:SHOWN_CHARACTERS]!r}, not image or text")
        if (part.image if part.type == "image" else part.text) is None:
            raise InputError(f"a part of type {part.type} has no field {part.type!r}")


def _image(question: Message) -> str:
    parts = [] if isinstance(question.content, str) else question.content
    images = [part.image for part in parts if part.type == "image" and part.image is not None]
    if len(images) != 1:
        raise InputError(f"its question has {len(images)} images, not one")
    return images[0]


def _read(answer: str, parser: str) -> Reading:
    reading = read_as_published(answer, is_answer=False) if parser == "compat" else read_answer(answer)
    if reading.says == "wrong_format":
        why = f" ({reading.why_not})" if reading.why_not else ""
        raise InputError(f"no place can be read from its answer{why}: {answer[:SHOWN_CHARACTERS]!r}")
    return reading


def _place_of(reading: Reading) -> Shape:
    if reading.says == "refusal" or reading.x is None or reading.y is None:
        return Shape("refusal")
    return Shape("point", (float(reading.x), float(reading.y)))


# -- ScreenSpot -------------------------------------------------------------------------------------------------------


class ScreenspotRecord(msgspec.Struct):
    """An image, an instruction and a box, of ScreenSpot, its second version or ScreenSpot-Pro.

    How the box is written differs between them and between their copies; `boxes` says how that is told. `file_name` is
    what some copies call `img_filename`. A Chinese instruction beside the English one is ignored.
    """

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
    record = converted(entry, ScreenspotRecord)
    image = record.img_filename if record.img_filename is not None else record.file_name
    if image is None:
        raise InputError("it has no img_filename")
    if len(record.bbox) != 4:
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


# -- OSWorld-G --------------------------------------------------------------------------------------------------------


class OsworldRecord(msgspec.Struct):
    """Boxes as x, y, width, height in pixels, polygons as x, y pairs, and instructions that must be refused.

    `GUI_types` is what kinds of element the target is; `/` stands for none.
    """

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
    record = converted(entry, OsworldRecord)
    return Draft(
        number=origin.number,
        id=id_of(record.id, origin),
        image=record.image_path,
        instruction=text_of(record.instruction, "instruction"),
        shape=_shape(record),
        labels=labels_of({"type": record.GUI_types}),
        size=size_of(record.image_size, "image_size"),
    )


def _shape(record: OsworldRecord) -> Shape:
    numbers = tuple(record.box_coordinates)
    if record.box_type == "bbox":
        return Shape("box", numbers, order="xywh", units="pixels")
    if record.box_type == "polygon":
        return Shape("polygon", numbers, units="pixels")
    if record.box_type == "refusal":
        return Shape("refusal")  # its coordinates are zeros that mean nothing
    raise InputError(f"box_type {record.box_type[:80]!r} is none of bbox, polygon, refusal")
