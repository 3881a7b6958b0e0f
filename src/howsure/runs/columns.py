"""What a study declares becomes Arrow types, and samples columns of them.

pyarrow turns lists of Python values into columns by itself, and quickly. What it cannot take as it is (JSON text, keys
that are data) is mended before by a function that exists only for the places that need it.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from howsure.runs.files import to_json

Mend = Callable[[Any], Any]

ANY_FORM, SEVERAL_KINDS = "values of any form", "values of several kinds"


@dataclass(frozen=True)
class Kind:
    """The Arrow type of a place and what makes a value fit it; `mend` is None where every value fits as it is."""

    type: Any
    mend: Mend | None = None
    texts: tuple[tuple[str, str], ...] = ()
    """The places within that are JSON text, and why."""
    fields: Mapping[str, Kind] | None = None
    """Of a struct, which lies flat: a column for each of its fields."""


def kind_of(hint: Any, place: str = "") -> Kind:
    """The Arrow type of a declared type. None may stand everywhere; keys that are not declared are data."""
    import pyarrow as pa

    hint = _without_none(hint)
    if hint in (float, int | float):
        return Kind(pa.float64())
    if hint is bool or hint is int:
        return Kind(pa.bool_() if hint is bool else pa.int64())
    if hint is str or typing.get_origin(hint) is typing.Literal or _is(hint, enum.Enum):
        return Kind(pa.string())
    if _is(hint, msgspec.Struct):
        hints = typing.get_type_hints(hint)
        names = zip(hint.__struct_encode_fields__, hint.__struct_fields__, strict=True)
        return struct_kind({name: kind_of(hints[field], joined(place, name)) for name, field in names})
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint)
        return struct_kind({name: kind_of(one, joined(place, name)) for name, one in hints.items()})
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin in (list, tuple, Sequence):
        items = kind_of(inside[0], f"{place}[]")
        return Kind(pa.list_(items.type), _of_list(items.mend), items.texts)
    if origin in (dict, Mapping) and inside[1] is not Any:
        values = kind_of(inside[1], f"{place}{{}}")
        return Kind(pa.map_(pa.string(), values.type), _of_map(values.mend), values.texts)
    return text_kind(place, ANY_FORM)


def struct_kind(named: Mapping[str, Kind]) -> Kind:
    import pyarrow as pa

    return Kind(
        pa.struct([(name, kind.type) for name, kind in named.items()]),
        _of_fields({name: kind.mend for name, kind in named.items() if kind.mend is not None}),
        tuple(text for kind in named.values() for text in kind.texts),
        named,
    )


def text_kind(place: str, why: str) -> Kind:
    import pyarrow as pa

    return Kind(pa.string(), _as_json, ((place, why),))


def merged(one: Kind | None, other: Kind | None, place: str = "") -> Kind:
    """A type that takes the values of both, for a file with the runs of several studies."""
    import pyarrow as pa

    if one is None or other is None or (one.type == other.type and one.texts == other.texts):
        kind = one or other
        assert kind is not None
        return kind
    if one.fields is not None and other.fields is not None:
        names = list(dict.fromkeys([*one.fields, *other.fields]))
        return struct_kind(
            {name: merged(one.fields.get(name), other.fields.get(name), joined(place, name)) for name in names}
        )
    if {one.type, other.type} == {pa.int64(), pa.float64()}:
        return Kind(pa.float64())
    return text_kind(place, SEVERAL_KINDS)


def _without_none(hint: Any) -> Any:
    if typing.get_origin(hint) is typing.Annotated:
        return _without_none(hint.__origin__)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        kinds = [one for one in typing.get_args(hint) if one not in (type(None), msgspec.UnsetType)]
        if len(kinds) == 1:
            return _without_none(kinds[0])
        return float if set(kinds) == {int, float} else Any
    return hint


def _is(hint: Any, kind: type) -> bool:
    return isinstance(hint, type) and issubclass(hint, kind)


# -- mending ----------------------------------------------------------------------------------------------------------


def _as_json(value: Any) -> str | None:
    return None if value is None else to_json(value).decode("utf-8")


def _of_list(mend: Mend | None) -> Mend | None:
    if mend is None:
        return None
    return lambda values: None if values is None else [mend(value) for value in values]


def _of_fields(mends: dict[str, Mend]) -> Mend | None:
    if not mends:
        return None

    def mended(value: dict[str, Any] | None) -> dict[str, Any] | None:
        if value is None:
            return None
        return value | {name: mend(value[name]) for name, mend in mends.items() if name in value}

    return mended


def _of_map(mend: Mend | None) -> Mend:
    if mend is None:
        return lambda value: None if value is None else list(value.items())
    return lambda value: None if value is None else [(name, mend(one)) for name, one in value.items()]


# -- columns ----------------------------------------------------------------------------------------------------------


def joined(place: str, key: str) -> str:
    """A key below a place, as TOML writes it: in quotes where it holds a dot, a quote or a bracket of ours."""
    plain = not any(mark in key for mark in '."\\[]{}')
    name = key if plain else json.dumps(key, ensure_ascii=False)
    return f"{place}.{name}" if place else name


def arrays(kind: Kind, values: Sequence[dict[str, Any]]) -> list[Any]:
    """One Arrow array for each column of `fields`, in the same order."""
    import pyarrow

    mended = values if kind.mend is None else [kind.mend(value) for value in values]
    return list(_flat(pyarrow.array(mended, kind.type)))


def fields(type_: Any, place: str = "") -> Iterable[tuple[str, Any]]:
    """The columns of a type with their names: structs lie flat, all else is one column."""
    import pyarrow

    if not pyarrow.types.is_struct(type_):
        yield place, type_
        return
    for field in type_:
        yield from fields(field.type, joined(place, field.name))


def _flat(array: Any) -> Iterable[Any]:
    import pyarrow

    if not pyarrow.types.is_struct(array.type):
        yield array
        return
    for part in array.flatten():  # a part of what is null is null
        yield from _flat(part)
