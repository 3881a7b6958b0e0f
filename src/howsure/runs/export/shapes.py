"""What kinds of value were seen at each place of many samples: the first of two passes, from which columns are made.

A shape never grows with the number of samples. Dictionaries whose keys are data are found out while they are seen: from
then on only their values are told apart, not their names.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

BOOL, INT, FLOAT, TEXT, LIST, DICT, FREE = (1 << place for place in range(7))
"""What a value can be; FREE is what shall be kept as JSON text whatever it is."""
_NUMBER = INT | FLOAT
_SCALARS: Final = {bool: BOOL, int: INT, float: FLOAT, str: TEXT}

MOST_FIELDS = 64
"""More distinct keys than this at one place are data, not names."""
MOST_RESULTS = 512
"""The same for `result` and `evidence` themselves, which hold the fields of every study in a file of many runs."""
MOST_NAME_CHARACTERS = 100
MOST_DEPTH = 12
"""Lists and dictionaries within each other, beyond which a value is kept as JSON text."""
TOO_DEEP = f"more than {MOST_DEPTH} lists and dictionaries within each other"
MOST_PLACES = 20_000
"""Places that are told apart in one run, so that no file can make a shape of any size."""

INT64 = range(-(2**63), 2**63)
EXACT_IN_FLOAT = range(-(2**53), 2**53 + 1)


class Keyed(dict[str, Any]):
    """In a declared example: a dictionary whose keys are data, however few they are."""


class Free:
    """In a declared example: a value of any form, such as what a model wrote as JSON."""


class Room:
    """How many more places may be told apart."""

    def __init__(self, places: int = MOST_PLACES) -> None:
        self.places = places


class Shape:
    """What was seen at one place."""

    __slots__ = ("beyond_float", "beyond_int64", "bits", "fields", "items", "most_fields", "room", "values", "why_text")

    def __init__(self, room: Room, most_fields: int = MOST_FIELDS) -> None:
        self.room = room
        self.most_fields = most_fields
        room.places -= 1
        self.bits = 0
        self.beyond_float = self.beyond_int64 = False
        self.fields: dict[str, Shape] = {}
        self.items: Shape | None = None
        self.values: Shape | None = None
        """Of a dictionary whose keys are data: what stands under any of them."""
        self.why_text: str | None = None
        """Why these values have no common type, and are kept as JSON text; None where they have one."""

    def _settle(self) -> None:
        """Find out whether there still is a common type; of values that become text nothing more needs to be known."""
        if self.why_text is None:
            self.why_text = self._why_text()
        if self.why_text is not None:
            self.fields, self.items, self.values = {}, None, None

    def _why_text(self) -> str | None:
        if self.bits & FREE:
            return "values of any form"
        if self.bits & ~_NUMBER and self.bits & (self.bits - 1):
            return "values of several kinds"
        if self.beyond_int64:
            return "integers beyond 64 bits"
        return "fractions, and integers beyond 2^53" if self.beyond_float and self.bits & FLOAT else None

    def see(self, value: Any, depth: int = 0) -> None:
        """Take a value into account; None says nothing."""
        if value is None or self.why_text is not None:
            return
        kind = type(value)
        if kind is dict or kind is Keyed:
            self._see_dictionary(value, depth)
        elif kind is list:
            self._see_list(value, depth)
        elif kind is int:
            self._see_integers(value, value)
        else:
            self._add(_SCALARS.get(kind, FREE))

    def _add(self, bits: int) -> None:
        """Nearly always nothing new."""
        if bits & ~self.bits:
            self.bits |= bits
            self._settle()

    def _see_list(self, values: list[Any], depth: int) -> None:
        self._add(LIST if depth < MOST_DEPTH else self._too_deep())
        if values and self.why_text is None:
            self.items = self.items or Shape(self.room)
            self.items.see_all(values, depth + 1)

    def _too_deep(self) -> int:
        self.why_text = TOO_DEEP
        return FREE

    def see_all(self, values: list[Any], depth: int) -> None:
        """The same as seeing each; lists of plain values, which are nearly all there is, at one look."""
        kinds = set(map(type, values))
        kinds.discard(type(None))
        if not kinds <= _SCALARS.keys():
            for value in values:
                self.see(value, depth)
            return
        for kind in kinds:
            self._add(_SCALARS[kind])
        if int in kinds:
            whole = values if len(kinds) == 1 and None not in values else [v for v in values if type(v) is int]
            self._see_integers(min(whole), max(whole))

    def _see_integers(self, low: int, high: int) -> None:
        self._add(INT)
        if low not in EXACT_IN_FLOAT or high not in EXACT_IN_FLOAT:
            self.beyond_float = True
            self.beyond_int64 |= not (low in INT64 and high in INT64)
            self._settle()

    def _see_dictionary(self, value: dict[str, Any], depth: int) -> None:
        self._add(DICT if depth < MOST_DEPTH else self._too_deep())
        if self.why_text is not None:
            return
        if type(value) is Keyed or (self.values is None and self._must_be_keyed(value)):
            self.make_keyed()
        for name, one in value.items():
            self._under(name).see(one, depth + 1)

    def _under(self, name: str) -> Shape:
        """The shape of what stands under a key."""
        if self.values is not None:
            return self.values
        if name not in self.fields:
            self.fields[name] = Shape(self.room)
        return self.fields[name]

    def _must_be_keyed(self, value: dict[str, Any]) -> bool:
        if self.fields.keys() >= value.keys():
            return False
        new = [name for name in value if name not in self.fields]
        names = [*self.fields, *new]
        few = len(names) <= self.most_fields and self.room.places >= len(new)
        return not (few and all(map(is_name, new)) and len({name.lower() for name in names}) == len(names))

    def make_keyed(self) -> None:
        """From now on, keys are data; what is known about each becomes what is known about all."""
        if self.values is None:
            self.values = Shape(self.room)
            for one in self.fields.values():
                self.values.absorb(one)
            self.room.places += len(self.fields)
            self.fields = {}

    def absorb(self, other: Shape) -> None:
        """Take into account all that another shape has seen; the other stays as it is."""
        self.bits |= other.bits
        self.beyond_float |= other.beyond_float
        self.beyond_int64 |= other.beyond_int64
        self.why_text = self.why_text or other.why_text
        if other.items is not None:
            self.items = self.items or Shape(self.room)
            self.items.absorb(other.items)
        if other.values is not None or self._must_be_keyed(other.fields):
            self.make_keyed()
        if other.values is not None and self.values is not None:
            self.values.absorb(other.values)
        for name, one in other.fields.items():
            self._under(name).absorb(one)
        self._settle()


def is_name(key: str) -> bool:
    """Whether a key can be the name of a column: not empty, not endless, all of it to be seen."""
    return 0 < len(key) <= MOST_NAME_CHARACTERS and key.isprintable()


def shape_of(examples: Iterable[dict[str, Any]], parts: Iterable[str] = ("result", "evidence")) -> Shape:
    """The shape of samples, as if some like these had been seen before the first one."""
    whole = Shape(Room())
    whole.see({})
    for part in parts:
        whole.fields[part] = Shape(whole.room, MOST_RESULTS)
    for example in examples:
        whole.see({part: example[part] for part in whole.fields})
    return whole
