"""A table that sorts and filters: plain links and a form, so that it works without any script.

The script only fetches the same table anew and puts the pieces marked `data-swap` in place, so that the page stays
where it is and what a person is typing in is left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import htpy as h
from htpy import Element, Node

from howsure.report.html import flag, notice, number, words
from howsure.report.rows import Column
from howsure.report.text import counted
from howsure.report.viewer.query import FILTER, PAGE_ROWS, Finder, Found, State

CHOICE_CHARACTERS = 60
SHORT_CHARACTERS, WIDE_CHARACTERS = 16, 60
"""Texts that are not broken into lines, and those that are given room."""
ARROWS = {"ascending": " ▲", "descending": " ▼", None: ""}
CUT_TEXTS = "The texts are so long that those of later rows are searched by their beginnings only."
HINTS = {"number": ">0.5", "text": "contains", "word": "contains"}


class Grid(NamedTuple):
    """What a table is about; `noun` is what a row is, `page` the address of the page that it stands on."""

    finder: Finder
    state: State
    page: str
    noun: str
    link: Callable[[int], str | None]
    """The address that a row leads to."""
    before: Callable[[int], Node] | None = None
    """A cell in front of a row, and `before_head` above it."""
    before_head: str = ""
    remark: str = ""
    """A sentence beside the count, such as that not all is read yet."""


def grid(one: Grid) -> Element:
    """The table with everything around it."""
    found = one.finder.find(one.state.query)
    pages = max(1, -(-len(found.rows) // PAGE_ROWS))
    page = min(max(one.state.query.page, 1), pages)
    columns = one.finder.columns()
    rows = found.rows[(page - 1) * PAGE_ROWS : page * PAGE_ROWS].tolist()
    return h.div(id="grid", data_columns=" ".join(column.name for column in columns))[
        _form(one),
        h.p(class_="count", role="status", aria_live="polite", data_swap="count")[_count(one, found)],
        h.div(data_swap="problems")[[notice(problem) for problem in found.problems]],
        h.div(class_="scroll", tabindex="0", role="region", aria_label=f"Table of {one.noun}s")[
            h.table(class_="grid")[
                h.thead[h.tr(data_swap="heads")[_heads(one, columns)], h.tr(class_="filters")[_filters(one, columns)]],
                h.tbody(data_swap="rows")[[_row(one, columns, row) for row in rows] or _nothing(one, columns)],
            ]
        ],
        h.nav(class_="pager", aria_label="Pages of the table", data_swap="pager")[_pager(one, page, pages)],
        _legend(columns),
    ]


def _count(one: Grid, found: Found) -> str:
    every = len(one.finder.table)
    shown = counted(every, one.noun) if len(found.rows) == every else f"{len(found.rows):,} of {every:,} {one.noun}s"
    remarks = [one.remark] if one.remark else []
    remarks += [CUT_TEXTS] if one.finder.table.texts_are_cut else []
    return " ".join([f"{shown}.", *remarks]) if remarks else shown


# -- asking -----------------------------------------------------------------------------------------------------------


def _form(one: Grid) -> Element:
    state = one.state
    hidden = [*([] if state.path is None else [("path", state.path)]), *state.kept]
    return h.form(id="filters", method="get", action=f"{one.page}#table", role="search")[
        h.span(data_swap="kept")[
            [h.input(type="hidden", name=name, value=value) for name, value in (*hidden, ("sort", state.query.sort))]
        ],
        h.label(for_="q")["Search in all text"],
        h.input(id="q", type="search", name="q", value=state.query.search, autocomplete="off", spellcheck="false"),
        h.button(type="submit")["Apply"],
        h.a(id="clear", href=_clear(state).to(one.page) + "#table", data_in_place=True)["Clear all"],
    ]


def _clear(state: State) -> State:
    return state.asking(search="", filters=(), sort="", page=1)


def _filters(one: Grid, columns: list[Column]) -> Node:
    asked = dict(one.state.query.filters)
    return [
        h.td if one.before else None,
        [h.td(class_=_class(column))[_filter(one, column, asked.get(column.name, ""))] for column in columns],
    ]


def _filter(one: Grid, column: Column, asked: str) -> Node:
    name = FILTER + column.name
    label = f"Filter by {column.label}"
    options = _options(one, column)
    if options is None:
        return h.input(
            id=name, form="filters", name=name, value=asked, aria_label=label, placeholder=HINTS[column.kind],
            autocomplete="off", spellcheck="false", size="6" if column.kind == "number" else "10",
        )  # fmt: skip
    if asked and asked not in dict(options):
        options = [*options, (asked, words(asked, CHOICE_CHARACTERS))]
    return h.select(id=name, form="filters", name=name, aria_label=label)[
        h.option(value="")["all"],
        [h.option(value=value, selected=value == asked)[shown] for value, shown in options],
    ]


def _options(one: Grid, column: Column) -> list[tuple[str, str]] | None:
    """What a list of choices offers, None where a person types."""
    if column.kind == "flag":
        return [("yes", "yes"), ("no", "no"), ("missing", "missing")]
    choices = one.finder.choices(column.name) if column.kind == "word" else None
    if choices is None:
        return None
    named = [(f"={choice}", words(choice, CHOICE_CHARACTERS) or "(empty)") for choice in choices]
    return [*named, ("missing", "(none)"), ("known", "(any)")]


# -- the table itself -------------------------------------------------------------------------------------------------


def _heads(one: Grid, columns: list[Column]) -> Node:
    return [
        h.th(scope="col")[one.before_head] if one.before else None,
        [_head(one.state, one.page, column) for column in columns],
    ]


def _head(state: State, page: str, column: Column) -> Element:
    """The first click sorts upwards, the second downwards, the third gives the order of the data back."""
    sort = state.query.sort
    rising, falling = column.name, f"-{column.name}"
    following, direction = {rising: (falling, "ascending"), falling: ("", "descending")}.get(sort, (rising, None))
    target = state.asking(sort=following, page=1).to(page) + "#table"
    unit = f", {column.unit}" if column.unit else ""
    return h.th(scope="col", class_=_class(column), aria_sort=direction, title=column.help or None)[
        h.a(id=f"sort.{column.name}", href=target, data_in_place=True)[
            f"{column.label}{unit}", h.span(aria_hidden="true")[ARROWS[direction]]
        ]
    ]


def _row(one: Grid, columns: list[Column], row: int) -> Element:
    values = [one.finder.table.values(column.name)[row] for column in columns]
    first, address = columns[0], one.link(row)
    name = cell(values[0], first)
    return h.tr[
        h.td(class_="choose")[one.before(row)] if one.before else None,
        h.th(scope="row", dir="auto")[h.a(href=address)[name] if address else name],
        [
            h.td(class_=_width(value, column), dir="auto" if column.kind in ("text", "word") else None)[
                cell(value, column)
            ]
            for value, column in zip(values[1:], columns[1:], strict=True)
        ],
    ]


def cell(value: Any, column: Column) -> Node:
    """A value as it stands in the table, or as a fact about a sample."""
    if value is None:
        return "—"
    if column.kind == "number":
        return number(float(value), 0 if isinstance(value, int) else column.digits)
    if column.kind == "flag":
        return flag(value) if column.name != "correct" else h.strong(class_="good" if value else "bad")[flag(value)]
    return words(value, column.shown) or "(empty)"


def _nothing(one: Grid, columns: list[Column]) -> Element:
    text = "Nothing fits these filters." if len(one.finder.table) else f"There are no {one.noun}s here yet."
    return h.tr[h.td(colspan=str(len(columns) + bool(one.before)))[text]]


def _class(column: Column) -> str | None:
    return "num" if column.kind == "number" else "text" if column.kind == "text" else None


def _width(value: Any, column: Column) -> str | None:
    if column.kind != "text" or value is None:
        return _class(column)
    return "text short" if len(value) <= SHORT_CHARACTERS else "text wide" if len(value) > WIDE_CHARACTERS else "text"


def _pager(one: Grid, page: int, pages: int) -> Node:
    def link(name: str, label: str, to: int, there: bool) -> Node:
        target = one.state.asking(page=to).to(one.page) + "#table"
        return (
            h.a(id=f"page.{name}", href=target, data_in_place=True)[label] if there else h.span(class_="quiet")[label]
        )

    if pages == 1:
        return None
    return [
        link("first", "first", 1, page > 1),
        link("previous", "previous", page - 1, page > 1),
        h.span[f"page {page:,} of {pages:,}"],
        link("next", "next", page + 1, page < pages),
        link("last", "last", pages, page < pages),
    ]


def _legend(columns: list[Column]) -> Element:
    helped = [column for column in columns if column.help]
    return h.details(class_="numbers")[
        h.summary["What the columns mean, and how to filter"],
        h.dl(class_="facts")[[[h.dt[column.label], h.dd[column.help]] for column in helped]],
        h.ul[
            h.li["A heading sorts: once upwards, twice downwards, and then back. What is missing comes last."],
            h.li["Text: the rows that contain what you type, in capitals or not."],
            h.li["Numbers: >0.5, <= 2, 0.2..0.8, 3 (what is shown as 3), missing (no number), known (any number)."],
        ],
    ]
