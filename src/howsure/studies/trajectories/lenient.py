"""Reading typed JSON that is damaged in places: what can be read is read, and each loss is named by its place.

A file is decoded at once, which is fast and takes all or nothing. Only where that fails is it decoded again, field by
field, down to the part that is not what it should be.
"""

from __future__ import annotations

import json
import re
import types
from typing import Any, NamedTuple, TypeVar, Union, get_args, get_origin

import msgspec

T = TypeVar("T", bound=msgspec.Struct)
Path = tuple[str | int, ...]

NO_NUMBERS = {"NaN": "NaN", "Infinity": "Infinity", "-Infinity": -9999.0}
"""What Python's json writes though JSON has no such thing. −9999 is how a log-probability of −inf is written."""

_PLACE = re.compile(r" - at `\$(?P<place>[^`]*)`$")


class Loss(NamedTuple):
    """A part that could not be read."""

    path: Path
    why: str

    @property
    def place(self) -> str:
        return place_of(self.path)


def place_of(path: Path) -> str:
    """`$.simulations[3].messages[7]`."""
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)


def with_numbers_only(data: bytes) -> bytes | None:
    """The same JSON without NaN and infinities, if that was all that was wrong with it; slow, and seldom needed."""
    if b"NaN" not in data and b"Infinity" not in data:
        return None
    try:
        return msgspec.json.encode(json.loads(data, parse_constant=NO_NUMBERS.__getitem__))
    except (ValueError, RecursionError):
        return None


def decode_leniently(data: bytes | msgspec.Raw, wanted: type[T], path: Path = ()) -> tuple[T | None, list[Loss]]:
    """The object with as many of its fields as can be read, and what was lost; None where not even that is there."""
    try:
        return msgspec.json.decode(data, type=wanted), []
    except msgspec.ValidationError as error:
        whole = error
    try:
        parts = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except msgspec.ValidationError:
        return None, [Loss(path, _why(whole, path))]
    fields: dict[str, Any] = {}
    losses: list[Loss] = []
    for field in msgspec.structs.fields(wanted):
        if field.encode_name not in parts:
            if field.required:
                place = (*path, field.encode_name)
                losses.append(Loss(place, f"{place_of(place)} is missing"))
            continue
        value, lost = _part(parts[field.encode_name], field.type, (*path, field.encode_name))
        losses += lost
        if not lost or value is not None:
            fields[field.name] = value
    if any(field.required and field.name not in fields for field in msgspec.structs.fields(wanted)):
        return None, losses
    return wanted(**fields), losses


def _part(raw: msgspec.Raw, wanted: Any, path: Path) -> tuple[Any, list[Loss]]:
    try:
        return msgspec.json.decode(raw, type=wanted), []
    except msgspec.ValidationError as error:
        whole = Loss(path, _why(error, path))
    options = get_args(wanted) if get_origin(wanted) in (Union, types.UnionType) else (wanted,)
    for option in options:
        if _is_mendable(option):
            return decode_leniently(raw, option, path)
        if get_origin(option) is list and _is_mendable(get_args(option)[0]):
            return _list(raw, get_args(option)[0], path, whole)
    return None, [whole]


def _list(raw: msgspec.Raw, wanted: type[T], path: Path, whole: Loss) -> tuple[list[T | None] | None, list[Loss]]:
    """A list of which some entries are lost: these are None, so that the others keep their places."""
    try:
        entries = msgspec.json.decode(raw, type=list[msgspec.Raw])
    except msgspec.ValidationError:
        return None, [whole]
    found = [decode_leniently(entry, wanted, (*path, i)) for i, entry in enumerate(entries)]
    return [entry for entry, _ in found], [loss for _, lost in found for loss in lost]


def _is_mendable(wanted: Any) -> bool:
    """Whether half of it is better than nothing; of a turn's tokens it is not, since their mean would be another."""
    made = get_origin(wanted) or wanted  # a generic struct with its parameters is no type itself
    return isinstance(made, type) and issubclass(made, msgspec.Struct) and not made.__struct_config__.frozen


def _why(error: Exception, path: Path) -> str:
    """msgspec's sentence with the place within the whole file."""
    text = str(error)
    found = _PLACE.search(text)
    inner = found["place"] if found else ""
    return f"{place_of(path)}{inner}: {text[: found.start()] if found else text}"
