"""The samples of a run as a table of plain values, small enough to hold a hundred thousand of them.

A study says which columns it has and makes one row of a sample; everything on a page but the page of a single sample
is made of these rows and the summary.
"""

from __future__ import annotations

import hashlib
import math
import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from howsure.report.text import printable

Kind = Literal["number", "text", "flag", "word"]
MOST_TEXT = 4_000
"""Characters of a text that a table keeps; the page of the sample has the rest."""
SHORT_TEXT = 200
ROOM_FOR_TEXT = 120_000_000
"""Bytes of text that a table keeps; beyond them it keeps the first `SHORT_TEXT` characters of each."""
MOST_WORD = 200
LARGEST = 1e300

_PLAIN_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


class Column(NamedTuple):
    """One column: `number` (None where missing), `text`, `flag` (yes, no, None), `word` (one of a few)."""

    name: str
    label: str
    kind: Kind
    unit: str = ""
    digits: int = 3
    help: str = ""
    """What it means, for somebody who sees it for the first time."""
    shown: int = 140
    """Characters of a text that a row has room for."""


ID = Column("id", "sample", "text", help="The name of the sample in the data.")
REASON = Column("reason", "missing because", "word", help="Why there is no value; empty where there is one.")


class Place(NamedTuple):
    """Where the line of a sample lies in samples.jsonl, in bytes."""

    offset: int
    length: int


class Table:
    """Rows in the order in which they were written. Names that begin with `_` hold what plots need, and are no
    columns for people."""

    def __init__(self, columns: Iterable[Column]) -> None:
        self.columns = {column.name: column for column in columns}
        self.keys: list[str] = []
        self.room_for_text = ROOM_FOR_TEXT
        self._offsets, self._lengths = array("q"), array("q")
        self._values: dict[str, list[Any]] = {name: [] for name in self.columns}
        self._numbers: dict[str, NDArray[np.float64]] = {}
        self._rows: dict[str, int] = {}
        self._words: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self.keys)

    def append(self, sample_id: str, place: Place, row: Mapping[str, Any]) -> None:
        self.extend([(sample_id, place, row)])

    def extend(self, rows: Sequence[tuple[str, Place, Mapping[str, Any]]]) -> None:
        """Rows at the end. Many at once are taken column by column, which is several times quicker."""
        here = len(self.keys)
        for _, _, row in rows:
            if not row.keys() <= self._values.keys():
                self._values |= {name: [None] * here for name in row if name not in self._values}
        for name, values in self._values.items():
            found = [row.get(name) for _, _, row in rows]
            column = self.columns.get(name)
            values.extend(found if column is None else self._clean(found, column.kind))
        for sample_id, place, _ in rows:
            key = key_of(sample_id)
            if key in self._rows:
                key = again_key(sample_id, len(self.keys))
            self._rows[key] = len(self.keys)
            self.keys.append(key)
            self._offsets.append(place.offset)
            self._lengths.append(place.length)

    @property
    def texts_are_cut(self) -> bool:
        """Whether the texts were so many that the later ones are kept only by their beginnings."""
        return self.room_for_text <= 0

    def place_of(self, row: int) -> Place:
        return Place(self._offsets[row], self._lengths[row])

    def values(self, name: str) -> list[Any]:
        """A column, None where a row has nothing; a name that no row has is a column of None."""
        return self._values.get(name) or [None] * len(self)

    def numbers(self, name: str) -> NDArray[np.float64]:
        """A column of numbers or flags, NaN where missing."""
        known = self._numbers.get(name)
        if known is None or len(known) != len(self):
            known = np.array([math.nan if value is None else float(value) for value in self.values(name)])
            self._numbers[name] = known
        return known

    def row_of(self, key: str) -> int | None:
        return self._rows.get(key)

    def row(self, place: int) -> dict[str, Any]:
        return {name: values[place] for name, values in self._values.items()}

    def in_order(self) -> NDArray[np.intp]:
        """Places of the rows in the order of the data."""
        return np.argsort(self.numbers("_index"), kind="stable")

    def _clean(self, values: list[Any], kind: Kind) -> list[Any]:
        """Values of the column's kind, or None: what stands in a file may be anything."""
        if kind == "number":
            return [_number(value) for value in values]
        if kind == "flag":
            return [value if isinstance(value, bool) else None for value in values]
        if kind == "word":
            return [self._word(value[:MOST_WORD]) if isinstance(value, str) else None for value in values]
        most = SHORT_TEXT if self.texts_are_cut else MOST_TEXT
        texts = [value[:most] if isinstance(value, str) else None for value in values]
        self.room_for_text -= sum(len(text) if text.isascii() else 4 * len(text) for text in texts if text)
        return texts

    def _word(self, word: str) -> str:
        """Words are few, and are chosen by the look of them: each is made safe to show once, and kept once."""
        known = self._words.get(word)
        if known is None:
            known = self._words[word] = printable(word, one_line=True).strip()
        return known


def key_of(sample_id: str) -> str:
    """A sample's name in an address: its id where that is short and plain, and otherwise its digest."""
    if _PLAIN_KEY.fullmatch(sample_id):
        return sample_id
    return "~" + hashlib.sha256(sample_id.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def again_key(sample_id: str, row: int) -> str:
    """The same for an id that is there already: a run has none twice, but files put together by hand do."""
    return f"{key_of(sample_id)}~{row}"


def _number(value: Any) -> int | float | None:
    is_number = type(value) is float or (isinstance(value, int | float) and not isinstance(value, bool))
    return value if is_number and -LARGEST < value < LARGEST else None  # also false for NaN
