"""Entries of a file on their way to becoming items: read, but with boxes and images not yet looked at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from howsure.errors import InputError
from howsure.studies.grounding.items import LABELS, TargetKind

LONGEST_TEXT = 100_000
"""Characters of an instruction, a prompt or an answer."""

LONGEST_NAME = 300
"""Characters of an id, a path or a label."""

Order = Literal["xywh", "xyxy"]
Units = Literal["pixels", "fractions", "thousandths"]
Size = tuple[int, int]
Labels = dict[str, tuple[str, ...]]
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
    labels: Labels = {}  # noqa: RUF012 - never written to
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
    """Labels in the order of LABELS, each value once; empty ones and `/`, which stands for none, are left out."""
    found: Labels = {}
    for kind in LABELS:
        value = given.get(kind)
        several = value if isinstance(value, list) else [] if value is None else [str(value)]
        kept = tuple(dict.fromkeys(one for one in several if one.strip() not in ("", "/")))
        if any(len(one) > LONGEST_NAME for one in kept):
            raise InputError(f"a label of kind {kind} is longer than {LONGEST_NAME} characters")
        if kept:
            found[kind] = kept
    return found


def size_of(given: list[int] | None, field: str) -> Size | None:
    if given is None:
        return None
    if len(given) != 2 or min(given) < 1:
        raise InputError(f"{field} must be a width and a height, not {str(given)[:40]}")
    return given[0], given[1]
