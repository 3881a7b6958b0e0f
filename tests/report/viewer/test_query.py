"""Sorting and filtering against the naive way of doing it, and what is said about conditions that make no sense."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howsure.report.html import number
from howsure.report.rows import Column, Place, Table
from howsure.report.viewer.query import MOST_CHOICES, Finder, Query, address, fields_of, query_of

COLUMNS = (
    Column("id", "sample", "text"),
    Column("size", "size", "number", digits=2),
    Column("right", "right", "flag"),
    Column("group", "group", "word"),
    Column("text", "text", "text"),
    Column("never", "never", "number"),
)
ROW = st.fixed_dictionaries(
    {
        "size": st.none() | st.integers(-5, 5) | st.floats(-3, 3).map(lambda x: round(x, 3)),
        "right": st.none() | st.booleans(),
        "group": st.none() | st.sampled_from(["a", "B", "b", "missing"]),
        "text": st.none() | st.text("aAbBßé <", max_size=5),
        "_index": st.integers(0, 8),
    }
)


def table_of(rows: list[dict[str, Any]]) -> Table:
    table = Table(COLUMNS)
    table.extend([(f"s{place}", Place(0, 0), {"id": f"s{place}"} | row) for place, row in enumerate(rows)])
    return table


def found(rows: list[dict[str, Any]], query: Query) -> list[int]:
    result = Finder(table_of(rows)).find(query)
    assert result.problems == ()
    return [int(row) for row in result.rows]


def naive_order(rows: list[dict[str, Any]], name: str, falling: bool) -> list[int]:
    places = sorted(range(len(rows)), key=lambda place: rows[place]["_index"])
    if not name:
        return places

    def key(place: int) -> Any:
        value = rows[place][name]
        return value.casefold() if isinstance(value, str) else value

    known = [place for place in places if rows[place][name] is not None]
    return sorted(known, key=key, reverse=falling) + [place for place in places if rows[place][name] is None]


@settings(max_examples=60)
@given(st.lists(ROW, max_size=12), st.sampled_from(["", "size", "right", "group", "text"]), st.booleans())
def test_order_is_that_of_a_plain_sort_with_the_missing_last(
    rows: list[dict[str, Any]], name: str, falling: bool
) -> None:
    sort = f"-{name}" if falling and name else name
    assert found(rows, Query(sort=sort)) == naive_order(rows, name, falling)


CONDITIONS: dict[tuple[str, str], Any] = {
    ("size", ">0.5"): lambda value: value is not None and value > 0.5,
    ("size", " <= 2 "): lambda value: value is not None and value <= 2,
    ("size", "≥-1e0"): lambda value: value is not None and value >= -1,
    ("size", "-0.2..0.8"): lambda value: value is not None and -0.2 <= value <= 0.8,
    ("size", "-2 .. -1"): lambda value: value is not None and -2 <= value <= -1,
    ("size", "> −0.5"): lambda value: value is not None and value > -0.5,
    ("size", "..1"): lambda value: value is not None and value <= 1,
    ("size", "1 .."): lambda value: value is not None and value >= 1,
    ("size", "2"): lambda value: value is not None and abs(value - 2) <= 0.005,
    ("size", "!= 2"): lambda value: value is not None and abs(value - 2) > 0.005,
    ("size", "missing"): lambda value: value is None,
    ("size", "Known"): lambda value: value is not None,
    ("right", "yes"): lambda value: value is True,
    ("right", "no"): lambda value: value is False,
    ("right", "missing"): lambda value: value is None,
    ("group", "=b"): lambda value: value == "b",
    ("group", "=missing"): lambda value: value == "missing",
    ("group", "missing"): lambda value: value is None,
    ("group", "b"): lambda value: value is not None and value.casefold() == "b",
    ("text", "A"): lambda value: value is not None and "a" in value.casefold(),
    ("text", "SS"): lambda value: value is not None and "ss" in value.casefold(),
    ("text", "missing"): lambda value: value is not None and "missing" in value,
}


@settings(max_examples=60)
@given(
    st.lists(ROW, max_size=12),
    st.lists(st.sampled_from(sorted(CONDITIONS)), max_size=3, unique_by=lambda one: one[0]),
    st.sampled_from(["", "size", "-text"]),
)
def test_filters_are_those_of_a_plain_loop(
    rows: list[dict[str, Any]], filters: list[tuple[str, str]], sort: str
) -> None:
    order = naive_order(rows, sort.removeprefix("-"), sort.startswith("-"))
    wanted = [place for place in order if all(CONDITIONS[one](rows[place][one[0]]) for one in filters)]
    assert found(rows, Query(filters=tuple(filters), sort=sort)) == wanted


@settings(max_examples=60)
@given(st.lists(ROW, max_size=12), st.text("aAbBßé <", min_size=1, max_size=2).filter(str.strip))
def test_the_search_looks_into_all_texts(rows: list[dict[str, Any]], part: str) -> None:
    wanted = part.strip().casefold()

    def holds(place: int) -> bool:
        values = (f"s{place}", rows[place]["group"], rows[place]["text"])
        return any(value is not None and wanted in value.casefold() for value in values)

    assert found(rows, Query(search=part)) == [place for place in naive_order(rows, "", False) if holds(place)]


PLAIN_ROWS: list[dict[str, Any]] = [
    {"size": 1.0, "right": True, "group": "a", "text": "x", "_index": 0},
    {"size": None, "right": None, "group": None, "text": None, "_index": 1},
]


@pytest.mark.parametrize(
    ("name", "condition", "words"),
    [
        ("size", "abc", "size: «abc» is no condition on a number, such as >0.5"),
        ("size", "0,5", "«0,5» is no condition on a number"),
        ("size", "> ", "is no condition on a number"),
        ("size", "nan", "is no condition on a number"),
        ("size", "inf", "is no condition on a number"),
        ("size", "..", "is no condition on a number"),
        ("size", "0,500", "is no condition on a number"),
        ("size", "0.8..0.2", "runs backwards"),
        ("size", "1" * 2000, "may have 1,000 characters"),
        ("right", "perhaps", "right: «perhaps» is not one of yes, no, missing, known"),
        ("nonsense", "1", "There is no column 'nonsense'"),
        ("_index", "1", "There is no column '_index'"),
    ],
)
def test_a_condition_that_makes_no_sense_is_told_and_left_out(name: str, condition: str, words: str) -> None:
    result = Finder(table_of(PLAIN_ROWS)).find(Query(filters=((name, condition), ("right", "yes"))))
    assert words in result.problems[0]
    assert "left out" in result.problems[0]
    assert result.rows.tolist() == [0], "the other filter holds"


def test_sorting_by_a_column_that_is_not_there_is_told() -> None:
    result = Finder(table_of(PLAIN_ROWS)).find(Query(sort="-nonsense"))
    assert result.problems == ("There is no column 'nonsense' to sort by: the rows are in the order of the data.",)
    assert result.rows.tolist() == [0, 1]


def test_a_huge_exponent_is_a_number_like_any_other() -> None:
    assert found(PLAIN_ROWS, Query(filters=(("size", "<1e999"),))) == [0]
    assert found(PLAIN_ROWS, Query(filters=(("size", ">1e999"),))) == []


@pytest.mark.parametrize(("value", "shown"), [(1234567.8, "1,234,567.80"), (12_345_678, "1.235e+07"), (-2e9, "-2e+09")])
def test_a_large_number_is_found_as_it_is_shown(value: float, shown: str) -> None:
    assert number(value, 2) == shown
    assert found([{"size": value, "_index": 0}, {"size": 1, "_index": 1}], Query(filters=(("size", shown),))) == [0]


def test_every_word_that_is_offered_is_found() -> None:
    finder = Finder(table_of([{"group": word, "_index": 0} for word in (" padded ", "padded", "\ttab", " ", "")]))
    for word in finder.choices("group") or ():
        asked = query_of(fields_of(address("", [("f.group", f"={word}")])[1:].encode()))
        assert [finder.table.values("group")[row] for row in finder.find(asked).rows] != [], word


def test_columns_without_any_value_are_not_shown() -> None:
    finder = Finder(table_of(PLAIN_ROWS))
    assert [column.name for column in finder.columns()] == ["id", "size", "right", "group", "text"]
    assert [column.name for column in Finder(table_of([])).columns()] == ["id"]


def test_what_was_remembered_is_forgotten_when_rows_are_added() -> None:
    table = table_of(PLAIN_ROWS)
    finder = Finder(table)
    query = Query(filters=(("never", "known"),), sort="size")
    assert finder.find(query).rows.tolist() == []
    assert finder.choices("group") == ["a"]
    table.append("new", Place(0, 0), {"id": "new", "never": 3, "size": 0, "group": "z", "_index": 9})
    assert finder.find(query).rows.tolist() == [2]
    assert finder.choices("group") == ["a", "z"]
    assert "never" in [column.name for column in finder.columns()]
    assert finder.find(query) is finder.find(query._replace(page=7)), "pages of one question are looked up once"


def test_too_many_words_are_typed_and_not_chosen() -> None:
    rows = [{"group": f"g{place}", "_index": place} for place in range(MOST_CHOICES + 1)]
    assert Finder(table_of(rows)).choices("group") is None


def test_values_of_the_wrong_kind_are_missing() -> None:
    wrong = [{"size": value, "right": 1, "group": 3, "text": ["x"], "_index": 0} for value in
             (True, "1", math.nan, math.inf, 10**400, [1], None)]  # fmt: skip
    table = table_of(wrong)
    assert table.values("size") == [None] * 7
    assert table.values("right") == table.values("group") == table.values("text") == [None] * 7
