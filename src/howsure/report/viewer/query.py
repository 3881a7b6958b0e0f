"""Which rows of a table are wanted, in which order, and the address that says so, to be kept and shared."""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

import numpy as np
from numpy.typing import NDArray

from howsure.report.rows import Column, Table
from howsure.report.text import shortened

PAGE_ROWS = 50
MOST_CHOICES = 100
"""Words that a list can hold; beyond them a person types."""
MOST_CONDITION_CHARACTERS = 1_000
KEPT_RESULTS = 8

Mask = NDArray[np.bool_]
Rows = NDArray[np.intp]

_NUMBER = r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?)"
_COMPARISON = re.compile(rf"(<=|>=|<|>|!=|=|≤|≥|≠)?\s*{_NUMBER}")
_RANGE = re.compile(rf"(?=.*[0-9]){_NUMBER}?\s*\.\.\s*{_NUMBER}?")
_THOUSANDS = re.compile(r"(?<![0-9.,])[1-9][0-9]{0,2}(?:,[0-9]{3})+(?![0-9,])")


class Query(NamedTuple):
    """What a person asked of a table; all of it stands in the address."""

    search: str = ""
    filters: tuple[tuple[str, str], ...] = ()
    sort: str = ""
    """A column; with a minus in front, the largest first; empty is the order of the data."""
    page: int = 1

    @property
    def is_plain(self) -> bool:
        """Whether the rows come as they are: all of them, in the order of the data."""
        return not (self.search or self.filters or self.sort)


class Found(NamedTuple):
    rows: Rows
    problems: tuple[str, ...]
    """What could not be understood, a sentence each."""


class Finder:
    """Looks things up in one table, and remembers what was asked last."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._length = -1
        self._results: OrderedDict[Query, Found] = OrderedDict()
        self._orders: dict[str, Rows] = {}
        self._choices: dict[str, list[str] | None] = {}
        self._columns: list[Column] | None = None

    def find(self, query: Query) -> Found:
        """The rows that are wanted, in the order that is wanted; `page` plays no part."""
        self._notice_growth()
        asked = query._replace(page=1)
        found = self._results.get(asked)
        if found is None:
            found = self._results[asked] = self._look(asked)
            while len(self._results) > KEPT_RESULTS:
                self._results.popitem(last=False)
        self._results.move_to_end(asked)
        return found

    def columns(self) -> list[Column]:
        """The columns of which any row has a value, and the first in any case."""
        self._notice_growth()
        if self._columns is None:
            every = list(self.table.columns.values())
            there = [any(value is not None for value in self.table.values(one.name)) for one in every]
            self._columns = [one for place, one in enumerate(every) if there[place] or place == 0]
        return self._columns

    def choices(self, name: str) -> list[str] | None:
        """The words of a column, None where they are too many to choose from."""
        self._notice_growth()
        if name not in self._choices:
            words = {value for value in self.table.values(name) if value is not None}
            self._choices[name] = sorted(words) if len(words) <= MOST_CHOICES else None
        return self._choices[name]

    # -- how --------------------------------------------------------------------------------------------------------

    def _notice_growth(self) -> None:
        if len(self.table) != self._length:
            self._length = len(self.table)
            self._results.clear()
            self._orders.clear()
            self._choices.clear()
            self._columns = None

    def _look(self, query: Query) -> Found:
        problems: list[str] = []
        mask = np.ones(len(self.table), dtype=bool)
        for name, condition in query.filters:
            problem = self._narrow(mask, name, condition)
            problems += [problem] if problem else []
        if query.search:
            mask &= self._search(query.search)
        order, problem = self._order(query.sort)
        problems += [problem] if problem else []
        return Found(order[mask[order]], tuple(problems))

    def _narrow(self, mask: Mask, name: str, condition: str) -> str | None:
        column = self.table.columns.get(name)
        if column is None:
            return f"There is no column {shortened(name, 60)!r}: this filter was left out."
        found = matching(self.table, column, condition)
        if isinstance(found, str):
            return f"{column.label}: {found}; this filter was left out."
        mask &= found
        return None

    def _search(self, text: str) -> Mask:
        mask = np.zeros(len(self.table), dtype=bool)
        for column in self.table.columns.values():
            if column.kind in ("text", "word"):
                mask |= _containing(self.table.values(column.name), text)
        return mask

    def _order(self, sort: str) -> tuple[Rows, str | None]:
        name = sort.removeprefix("-")
        problem = None
        if name and name not in self.table.columns:
            problem = f"There is no column {shortened(name, 60)!r} to sort by: the rows are in the order of the data."
            sort = name = ""
        if sort not in self._orders:
            self._orders[sort] = ordered(self.table, name, falling=sort.startswith("-"))
        return self._orders[sort], problem


# -- order ------------------------------------------------------------------------------------------------------------


def ordered(table: Table, name: str, *, falling: bool = False) -> Rows:
    """All rows by a column, what is missing last either way, equals in the order of the data."""
    base = table.in_order()
    if not name:
        return base
    if table.columns[name].kind in ("number", "flag"):
        values = table.numbers(name)[base]
        return base[np.argsort(-values if falling else values, kind="stable")]
    texts = table.values(name)
    known = [row for row in base.tolist() if texts[row] is not None]
    known.sort(key=lambda row: texts[row].casefold(), reverse=falling)
    missing = [row for row in base.tolist() if texts[row] is None]
    return np.array(known + missing, dtype=np.intp)


# -- conditions -------------------------------------------------------------------------------------------------------


def matching(table: Table, column: Column, condition: str) -> Mask | str:
    """The rows that a condition holds for, or what is wrong with it."""
    condition = condition.strip()
    if len(condition) > MOST_CONDITION_CHARACTERS:
        return f"a condition may have {MOST_CONDITION_CHARACTERS:,} characters"
    if column.kind == "text":
        return _containing(table.values(column.name), condition)
    if condition.casefold() in ("missing", "known"):
        known = np.fromiter((value is not None for value in table.values(column.name)), bool, len(table))
        return known if condition.casefold() == "known" else ~known
    return _KINDS[column.kind](table, column, condition)


def _by_word(table: Table, column: Column, condition: str) -> Mask | str:
    values = table.values(column.name)
    if not condition.startswith("="):
        return _containing(values, condition)
    return np.fromiter((value == condition[1:] for value in values), bool, len(values))


def _by_flag(table: Table, column: Column, condition: str) -> Mask | str:
    wanted = {"yes": 1.0, "no": 0.0}.get(condition.casefold())
    if wanted is None:
        return f"«{shortened(condition, 60)}» is not one of yes, no, missing, known"
    found: Mask = table.numbers(column.name) == wanted
    return found


def _by_number(table: Table, column: Column, condition: str) -> Mask | str:
    values = table.numbers(column.name)
    written = _THOUSANDS.sub(lambda found: found[0].replace(",", ""), condition.replace("−", "-"))  # as pages write it
    between = _RANGE.fullmatch(written)
    if between:
        low, high = float(between[1] or "-inf"), float(between[2] or "inf")
        if low > high:
            return f"the range «{shortened(condition, 60)}» runs backwards, from the larger to the smaller"
        return (values >= low) & (values <= high)
    compared = _COMPARISON.fullmatch(written)
    if compared is None:
        return (
            f"«{shortened(condition, 60)}» is no condition on a number, such as >0.5, <= 2, 0.2..0.8, missing or known"
        )
    sign, bound = compared[1] or "=", float(compared[2])
    return _COMPARE[sign](values, bound, _half_a_digit(bound, column.digits))


_KINDS: dict[str, Callable[[Table, Column, str], Mask | str]] = {
    "word": _by_word,
    "flag": _by_flag,
    "number": _by_number,
}


def _half_a_digit(bound: float, digits: int) -> float:
    """Half of the last digit that `parts.number` shows: so many decimals, or four digits in all of a large number."""
    is_large = 1e7 <= abs(bound) < math.inf
    return 0.5 * 10.0 ** (math.floor(math.log10(abs(bound))) - 3 if is_large else -digits)


def _equal(values: NDArray[np.float64], bound: float, half_a_digit: float) -> Mask:
    """What is shown as this number: a person can only ask for what is seen."""
    found: Mask = np.abs(values - bound) <= half_a_digit
    return found


_COMPARE: dict[str, Callable[[NDArray[np.float64], float, float], Mask]] = {
    "<": lambda values, bound, _: values < bound,
    ">": lambda values, bound, _: values > bound,
    "<=": lambda values, bound, _: values <= bound,
    "≤": lambda values, bound, _: values <= bound,
    ">=": lambda values, bound, _: values >= bound,
    "≥": lambda values, bound, _: values >= bound,
    "=": _equal,
    "!=": lambda values, bound, half: ~_equal(values, bound, half) & np.isfinite(values),
    "≠": lambda values, bound, half: ~_equal(values, bound, half) & np.isfinite(values),
}


def _containing(values: Sequence[Any], part: str) -> Mask:
    wanted = part.strip().casefold()
    return np.fromiter((value is not None and wanted in value.casefold() for value in values), bool, len(values))


FILTER = "f."
MOST_FIELDS = 200


class State(NamedTuple):
    """A table and what is asked of it: `path` names the run, None means the list of runs."""

    path: str | None
    query: Query = Query()
    kept: tuple[tuple[str, str], ...] = ()
    """Other parts of the address that links within the table must not lose."""

    def to(self, page: str, **more: str) -> str:
        """The address of a page about the same rows."""
        return address(page, [*self.fields(), *more.items()])

    def fields(self) -> list[tuple[str, str]]:
        path = [] if self.path is None else [("path", self.path)]
        return [*path, *self.kept, *query_fields(self.query)]

    def asking(self, **changes: object) -> State:
        return self._replace(query=self.query._replace(**changes))  # type: ignore[arg-type]


def fields_of(query_string: bytes) -> dict[str, str]:
    """The fields of an address; the last counts where one is there twice. Raises ValueError where they are too many."""
    pairs = parse_qsl(
        query_string.decode("latin-1"), keep_blank_values=True, errors="surrogateescape", max_num_fields=MOST_FIELDS
    )
    return dict(pairs)


def query_of(fields: Mapping[str, str]) -> Query:
    filters = tuple(
        (name.removeprefix(FILTER), value.strip())
        for name, value in fields.items()
        if name.startswith(FILTER) and value.strip()
    )
    page = fields.get("page", "")
    return Query(
        fields.get("q", "").strip(),
        filters,
        fields.get("sort", ""),
        int(page) if page.isascii() and page.isdigit() and len(page) < 10 else 1,
    )


def query_fields(query: Query) -> list[tuple[str, str]]:
    found = [("q", query.search), *((FILTER + name, value) for name, value in query.filters), ("sort", query.sort)]
    return [(name, value) for name, value in found if value] + ([("page", str(query.page))] if query.page > 1 else [])


def address(page: str, fields: Iterable[tuple[str, str]]) -> str:
    written = urlencode(list(fields), errors="surrogateescape")
    return f"{page}?{written}" if written else page
