"""Pieces that every page is put together from. Text from outside goes through `words` or `long_text`, always."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import htpy as h
from htpy import Element, Node

from howsure.report.pages.contract import Card, Picks, Section
from howsure.report.text import interval_of, printable, shortened, value_of

MOST_CHARACTERS = 20_000
"""Of one text on a page. A megabyte on one line makes every browser crawl, and nobody reads it."""
FOLDED_CHARACTERS = 1_200
SHOWN_ROWS = 500
CELL_CHARACTERS = 200


def words(text: object, characters: int = CELL_CHARACTERS) -> str:
    """A text from outside on one line: nothing in it can move or hide what stands around it."""
    return shortened(str(text), characters)


def long_text(text: str, *, fold: bool = True) -> Node:
    """A text from outside as it is, line breaks and all; a long one is folded, a very long one cut, and says so."""
    shown = printable(text[:MOST_CHARACTERS])
    rest = len(text) - MOST_CHARACTERS
    cut = h.p(class_="quiet")[f"… and {rest:,} more characters, which are in samples.jsonl"] if rest > 0 else None
    if not fold or len(text) <= FOLDED_CHARACTERS:
        return [h.pre(class_="said", dir="auto")[shown], cut]
    return [
        h.details(class_="folded")[
            h.summary[h.span(class_="said", dir="auto")[words(text, 300)], h.span(class_="quiet")[" all of it"]],
            h.pre(class_="said", dir="auto")[shown],
            cut,
        ]
    ]


def number(value: float | None, digits: int = 3, unit: str = "") -> str:
    """`0.123 nats`; a dash for what is missing."""
    if value is None or not math.isfinite(value):
        return "—"
    shown = f"{value:,.{digits}f}" if abs(value) < 1e7 else f"{value:.4g}"
    return f"{shown} {unit}".rstrip()


def flag(value: bool | None, names: tuple[str, str] = ("yes", "no")) -> str:
    return "—" if value is None else names[0] if value else names[1]


def badge(text: str, kind: str) -> Element:
    """A verdict in a word; `kind` is good, bad, doubt or none."""
    return h.span(class_=f"badge {kind}")[text]


def table(
    headers: Sequence[str], rows: Sequence[Sequence[Any]], *, caption: str | None = None, numeric: Sequence[int] = ()
) -> Element:
    """A plain table; the columns in `numeric` are set to the right. Cells that are text are made safe here."""
    shown, left_out = rows[:SHOWN_ROWS], len(rows) - SHOWN_ROWS
    kinds = ["num" if place in numeric else None for place in range(len(headers))]
    return h.div(class_="scroll", tabindex="0", role="region", aria_label=caption or "table")[
        h.table[
            h.caption[caption] if caption else None,
            h.thead[h.tr[[h.th(scope="col", class_=kind)[name] for name, kind in zip(headers, kinds, strict=True)]]],
            h.tbody[
                [h.tr[[h.td(class_=kind)[_cell(cell)] for cell, kind in zip(row, kinds, strict=True)]] for row in shown]
            ],
        ],
        h.p(class_="quiet")[f"and {left_out:,} more rows"] if left_out > 0 else None,
    ]


def data_table(title: str, headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> Element:
    """A table that opens when asked for: what a plot says, in numbers."""
    numeric = [
        place
        for place in range(len(headers))
        if rows and all(row[place] is None or isinstance(row[place], int | float) for row in rows)
    ]
    return h.details(class_="numbers")[h.summary[title], table(headers, rows, numeric=numeric)]


def facts(entries: Mapping[str, Any]) -> Element:
    """Names and values, one below the other; what is None is left out."""
    return h.dl(class_="facts")[
        [[h.dt[name], h.dd[_cell(value)]] for name, value in entries.items() if value is not None]
    ]


def notice(text: str) -> Element:
    return h.p(class_="notice")[words(text, 2_000)]


def section(one: Section, level: int = 2) -> Element:
    heading = h.h2 if level == 2 else h.h3
    return h.section(id=one.anchor or None)[
        heading[one.title], h.p(class_="lead")[one.lead] if one.lead else None, one.body
    ]


def tiles(summary: Mapping[str, Any]) -> Element:
    """The headline figures, each with its interval in words, and the coverage as one of them."""
    coverage = summary["coverage"]
    return h.ul(class_="tiles")[
        [_tile(entry) for entry in summary["headline"]],
        h.li(class_="full" if coverage["scored"] == coverage["items"] else "partial")[
            h.span(class_="name")["coverage"],
            h.strong[f"{coverage['scored']:,} of {coverage['items']:,}"],
            h.span(class_="quiet")[words(coverage["text"].partition("; ")[2] or "nothing is missing", 400)],
            h.span(class_="meaning")["scored / total"],
        ],
    ]


def _tile(entry: Mapping[str, Any]) -> Element:
    interval, level = interval_of(dict(entry)), entry.get("level")
    doubt = f"{level:.0%} interval {interval}" if interval and level else interval
    below = "; ".join(part for part in (doubt, entry.get("note")) if part)
    return h.li(title=words(entry.get("method") or "") or None)[
        h.span(class_="name")[words(entry["name"])],
        h.strong[words(value_of(dict(entry)))],
        h.span(class_="quiet")[words(below or "no interval", 400)],
        h.span(class_="meaning")[words(meaning, 400)] if (meaning := entry.get("meaning")) else None,
    ]


def picks(found: Picks, links: Any) -> Element:
    """The two kinds side by side."""
    if not found.surely_wrong and not found.doubtfully_right:
        return h.p(class_="quiet")[found.nothing or "There are no such samples in this run."]
    sides = zip(
        found.titles,
        (found.surely_words, found.doubtfully_words),
        (found.surely_wrong, found.doubtfully_right),
        strict=True,
    )
    return h.div(class_="sides")[
        [
            h.section[
                h.h3[title],
                h.p(class_="lead")[lead],
                [card(one, links) for one in cards] or h.p(class_="quiet")["None in this run."],
            ]
            for title, lead, cards in sides
        ]
    ]


def card(one: Card, links: Any) -> Element:
    """A sample in short; its title leads to its page where it has one."""
    address = links.sample(one.key)
    title = words(one.title, 120)
    return h.article(class_="card")[
        h.header[
            h.h4[h.a(href=address)[title] if address else title],
            badge(one.verdict, "none" if one.right is None else "good" if one.right else "bad"),
        ],
        one.body,
    ]


def _cell(value: Any) -> Node:
    if value is None:
        return "—"
    if isinstance(value, bool):
        return flag(value)
    if isinstance(value, float):
        return f"{value:.4g}" if math.isfinite(value) else "—"
    if isinstance(value, int):
        return f"{value:,}"
    return words(value) if isinstance(value, str) else value
