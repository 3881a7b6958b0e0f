"""Samples as chats: a message with the screen and the question, and one with the answer that is right.

    [{"role": "system", "content": [{"type": "image", "image": "shot.jpg"}, {"type": "text", "text": "Given a …"}]},
     {"role": "assistant", "content": [{"type": "text", "text": "```referring … ```grounding …"}]}]

Or the same under `messages`, with `id` and `user` beside it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from howsure.errors import InputError
from howsure.studies.grounding.answers.compat import read_answer as read_as_published
from howsure.studies.grounding.answers.parse import read_answer
from howsure.studies.grounding.answers.readings import Reading
from howsure.studies.grounding.prompts import instruction_of
from howsure.studies.grounding.reading.drafts import Draft, Origin, Shape, converted, id_of, labels_of, text_of

PARSERS = ("strict", "compat")
ASKING, ANSWERING = ("system", "user"), "assistant"
LONGEST_SHOWN = 80


class Part(msgspec.Struct):
    type: str
    image: str | None = None
    text: str | None = None


class Message(msgspec.Struct):
    role: str
    content: str | list[Part]


class Record(msgspec.Struct):
    messages: list[Message]
    user: str | int | None = None
    id: str | int | None = None


def is_chat(entry: Any) -> bool:
    return isinstance(entry, (list, tuple)) or (isinstance(entry, dict) and "messages" in entry)


def draft_chat(entry: Any, origin: Origin, parser: str) -> Draft:
    record = converted(entry, Record) if isinstance(entry, dict) else Record(converted(entry, list[Message]))
    question, answer = _two(record.messages)
    prompt = text_of(_text(question), "the question's text")
    reading = _read(text_of(_text(answer), "the answer"), parser)
    user = origin.user if record.user is None else record.user
    return Draft(
        number=origin.number,
        id=id_of(record.id, origin),
        image=_image(question),
        instruction=instruction_of(prompt) or prompt,
        shape=_shape(reading),
        content=reading.content,
        prompt=prompt,
        labels=labels_of({"user": user}),
    )


def _two(messages: list[Message]) -> tuple[Message, Message]:
    if len(messages) != 2:
        raise InputError(f"it has {len(messages)} messages, not two: the question with its image, and the answer")
    question, answer = messages
    if question.role not in ASKING or answer.role != ANSWERING:
        roles = f"{question.role[:LONGEST_SHOWN]!r} and {answer.role[:LONGEST_SHOWN]!r}"
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
            raise InputError(f"a part of its messages is of type {part.type[:LONGEST_SHOWN]!r}, not image or text")
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
        raise InputError(f"no place can be read from its answer{why}: {answer[:LONGEST_SHOWN]!r}")
    return reading


def _shape(reading: Reading) -> Shape:
    if reading.says == "refusal" or reading.x is None or reading.y is None:
        return Shape("refusal")
    return Shape("point", (float(reading.x), float(reading.y)))
