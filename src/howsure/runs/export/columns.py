"""Shapes become Arrow types, and samples columns of them: the second of two passes.

pyarrow turns lists of Python values into columns by itself, and quickly. What it cannot take as it is (JSON text, keys
that are data) is mended before by a function that exists only for the places that need it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from howsure.runs.export.shapes import BOOL, DICT, FLOAT, INT, LIST, MOST_RESULTS, TEXT, Room, Shape
from howsure.runs.files import to_json

MOST_COLUMNS = 2_000
"""Columns of a file, those within lists and dictionaries counted one by one."""
_FEWER_FIELDS = (MOST_RESULTS, 16, 4, 0)
"""Where there would be more, fewer distinct keys make a dictionary's keys data."""

Mend = Callable[[Any], Any]


class Kind(NamedTuple):
    """The Arrow type of a place and what makes a value fit it; `mend` is None where every value fits as it is.

    `leaves` counts the columns that it takes on disk, `texts` names the places within that are JSON text, and why.
    """

    type: Any
    mend: Mend | None = None
    leaves: int = 1
    texts: tuple[tuple[str, str], ...] = ()


def kind_of(shape: Shape) -> Kind | None:
    """The type of a whole sample, in no more columns than a file should have; None where nothing was ever seen."""
    for most_fields in _FEWER_FIELDS:
        found = _Typing(most_fields).dictionary(shape, "", flat=True)
        if found is None or found.leaves <= MOST_COLUMNS:
            break
    return found


class _Typing:
    """Types of shapes, where a dictionary has so many fields at most."""

    def __init__(self, most_fields: int) -> None:
        import pyarrow

        self.pa = pyarrow
        self.most_fields = most_fields

    def kind(self, shape: Shape, place: str, flat: bool = False) -> Kind | None:
        """None where nothing but null was seen. `flat` is a place that gets columns of its own, not within a list."""
        if shape.why_text is not None:
            return self._text(place, shape.why_text)
        if shape.bits & DICT:
            return self.dictionary(shape, place, flat)
        if shape.bits & LIST:
            return self._list(shape, place)
        plain = ((FLOAT, self.pa.float64), (INT, self.pa.int64), (BOOL, self.pa.bool_), (TEXT, self.pa.string))
        return next((Kind(type_()) for bit, type_ in plain if shape.bits & bit), None)

    def _text(self, place: str, why: str) -> Kind:
        return Kind(self.pa.string(), _as_json, texts=((place, why),))

    def _list(self, shape: Shape, place: str) -> Kind:
        items = self.kind(shape.items, f"{place}[]") if shape.items is not None else None
        if items is None:  # never an item but null
            return Kind(self.pa.list_(self.pa.null()))
        return items._replace(type=self.pa.list_(items.type), mend=_of_list(items.mend))

    def dictionary(self, shape: Shape, place: str, flat: bool) -> Kind | None:
        top = "." not in place and self.most_fields > 0  # the sample itself, its result, its evidence
        if shape.values is not None or len(shape.fields) > (MOST_RESULTS if top or not place else self.most_fields):
            return self._map(shape, place)
        named = {name: self.kind(one, joined(place, name), flat) for name, one in shape.fields.items()}
        fields = {name: kind for name, kind in named.items() if kind is not None}
        if not fields:
            return None if flat else self._text(place, "dictionaries without any value")
        return Kind(
            self.pa.struct([(name, kind.type) for name, kind in fields.items()]),
            _of_fields({name: kind.mend for name, kind in fields.items() if kind.mend is not None}),
            sum(kind.leaves for kind in fields.values()),
            tuple(text for kind in fields.values() for text in kind.texts),
        )

    def _map(self, shape: Shape, place: str) -> Kind:
        together = Shape(Room())
        together.absorb(shape)
        together.make_keyed()
        values = self.kind(together.values or Shape(Room()), f"{place}{{}}")
        if values is None:  # never a value but null
            values = Kind(self.pa.string())
        type_ = self.pa.map_(self.pa.string(), values.type)
        return values._replace(type=type_, mend=_of_map(values.mend), leaves=values.leaves + 1)


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
    """The columns of a type with their names: dictionaries with names for keys lie flat, all else is one column."""
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
