"""Reading typed JSON that is damaged in places: what can be read is read, and each loss is named by its place.

A file is decoded at once, which is fast and takes all or nothing. Only where that fails is it decoded again, field by
field, down to the part that is not what it should be.
"""

from __future__ import annotations

import re
import types
from functools import cache
from typing import Any, NamedTuple, TypeVar, Union, get_args, get_origin

import msgspec

T = TypeVar("T", bound=msgspec.Struct)
Path = tuple[str | int, ...]

NO_NUMBERS = {b"NaN": b'"NaN"', b"Infinity": b'"Infinity"', b"-Infinity": b"-9999.0"}
"""What Python's json writes though JSON has no such thing. −9999 is how a log-probability of −inf is written."""

_NO_NUMBER = re.compile(rb"NaN|-?Infinity")
_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}|\\.", re.DOTALL
)
"""A character beyond the first 65,536, half of one, or any other escape."""

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


def mended(data: bytes) -> bytes | None:
    """The same JSON without what only looks like it; None if nothing of that is there.

    NaN, infinities, and halves of characters: some providers cut their tokens in the middle of an emoji.
    """
    better = _without_halves(_with_numbers_only(data))
    return None if better == data else better


def _with_numbers_only(data: bytes) -> bytes:
    r"""NaN and infinities replaced, except within texts: where the quotes before them are even.

    >>> _with_numbers_only(rb'[NaN, -Infinity, "NaN \" NaN"]')
    b'["NaN", -9999.0, "NaN \\" NaN"]'
    """
    plain = data.replace(rb"\\", b"__")  # so that a backslash before a quote escapes it
    pieces, end, quotes = [], 0, 0
    for word in _NO_NUMBER.finditer(data):
        start = word.start()
        quotes += plain.count(b'"', end, start) - plain.count(b'\\"', end, start)
        pieces += [data[end:start], word[0] if quotes % 2 else NO_NUMBERS[word[0]]]
        end = word.end()
    return b"".join([*pieces, data[end:]]) if pieces else data


def _without_halves(data: bytes) -> bytes:
    r"""Half a surrogate pair becomes U+FFFD.

    >>> _without_halves(rb'"\ud83d\ude00 \ud83d \\ud83d"')
    b'"\\ud83d\\ude00 \\ufffd \\\\ud83d"'
    """
    if b"\\ud" not in data and b"\\uD" not in data:
        return data
    return _ESCAPE.sub(lambda escape: rb"\ufffd" if len(escape[0]) == len(rb"\ufffd") else escape[0], data)


def decode_partial(data: bytes | msgspec.Raw, wanted: type[T], path: Path = ()) -> tuple[T | None, list[Loss]]:
    """The object with as many of its fields as can be read, and what was lost; None where not even that is there."""
    try:
        return _decoder(wanted).decode(data), []
    except msgspec.ValidationError as error:
        whole = error
    try:
        parts = _decoder(dict[str, msgspec.Raw]).decode(data)
    except msgspec.ValidationError:
        return None, [Loss(path, _why(whole, path))]
    fields: dict[str, Any] = {}
    losses: list[Loss] = []
    for field in _fields(wanted):
        if field.encode_name not in parts:
            if field.required:
                place = (*path, field.encode_name)
                losses.append(Loss(place, f"{place_of(place)} is missing"))
            continue
        value, lost = _part(parts[field.encode_name], field.type, (*path, field.encode_name))
        losses += lost
        if not lost or value is not None:
            fields[field.name] = value
    if any(field.required and field.name not in fields for field in _fields(wanted)):
        return None, losses
    return wanted(**fields), losses


@cache
def _decoder(wanted: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(wanted)


@cache
def _fields(wanted: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """Looking at a type takes longer than reading what it describes, and a damaged file has thousands of parts."""
    return msgspec.structs.fields(wanted)


def _part(raw: msgspec.Raw, wanted: Any, path: Path) -> tuple[Any, list[Loss]]:
    try:
        return _decoder(wanted).decode(raw), []
    except msgspec.ValidationError as error:
        whole = Loss(path, _why(error, path))
    options = get_args(wanted) if get_origin(wanted) in (Union, types.UnionType) else (wanted,)
    for option in options:
        if _is_mendable(option):
            return decode_partial(raw, option, path)
        if get_origin(option) is list and _is_mendable(get_args(option)[0]):
            return _list(raw, get_args(option)[0], path, whole)
    return None, [whole]


def _list(raw: msgspec.Raw, wanted: type[T], path: Path, whole: Loss) -> tuple[list[T | None] | None, list[Loss]]:
    """A list of which some entries are lost: these are None, so that the others keep their places."""
    try:
        entries = _decoder(list[msgspec.Raw]).decode(raw)
    except msgspec.ValidationError:
        return None, [whole]
    decoded = [decode_partial(entry, wanted, (*path, i)) for i, entry in enumerate(entries)]
    return [entry for entry, _ in decoded], [loss for _, lost in decoded for loss in lost]


def _is_mendable(wanted: Any) -> bool:
    """Whether half of it is better than nothing; of a turn's tokens it is not, since their mean would be another."""
    made = get_origin(wanted) or wanted  # a generic struct with its parameters is no type itself
    return isinstance(made, type) and issubclass(made, msgspec.Struct) and not made.__struct_config__.frozen


def _why(error: Exception, path: Path) -> str:
    """msgspec's sentence with the place within the whole file."""
    text = str(error)
    match = _PLACE.search(text)
    inner = match["place"] if match else ""
    return f"{place_of(path)}{inner}: {text[: match.start()] if match else text}"
