"""Blocks as HTML, and the page around them. Text from outside goes through `words` or `long_text`, always.

A report carries its style and script and names them by their digests: a browser runs these two and nothing else. The
viewer serves both from its own address.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from itertools import groupby
from typing import Any

import htpy as h
from htpy import Element, Node
from markupsafe import Markup

from howsure.report.document import (
    Block,
    Card,
    Cards,
    Facts,
    Head,
    Html,
    Lines,
    Marked,
    Notes,
    Plot,
    Prose,
    Quoted,
    Section,
    Side,
    Table,
    Tokens,
    Value,
)
from howsure.report.text import interval_of, printable, shortened, value_of
from howsure.report.tokens import legend, shaded
from howsure.studies.summary import Coverage, Figure

MOST_CHARACTERS = 20_000
"""Of one text on a page. A megabyte on one line makes every browser crawl, and nobody reads it."""
FOLDED_CHARACTERS = 1_200
SHOWN_ROWS = 500
MOST_CARDS = 6
"""Of each kind."""
CELL_CHARACTERS = 200
TITLE_CHARACTERS = 120
ICON = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath fill='%230072b2' d='M1 8a7 7 0 0 1 14 0h-3a4 4 0 0 0-8 0z'/%3E%3Cpath stroke='%23d55e00' stroke-width='2' d='M8 11 12 4'/%3E%3C/svg%3E"  # noqa: E501


# -- blocks -----------------------------------------------------------------------------------------------------------


def section(one: Section, level: int = 2) -> Element | None:
    """A section; nothing where a page shows nothing of it."""
    shown = blocks(one.blocks)
    if one.on == "terminal" or not shown:
        return None
    heading = h.h2 if level == 2 else h.h3
    return h.section(id=one.anchor or None)[
        heading[one.title], h.p(class_="lead")[one.lead] if one.lead else None, shown
    ]


def blocks(several: Sequence[Block]) -> list[Node]:
    """Blocks one below the other; plots that follow each other stand side by side where there is room."""
    rendered: list[Node] = []
    for are_plots, group in groupby(
        (one for one in several if one.on != "terminal"), lambda one: isinstance(one, Plot)
    ):
        made = [block(one) for one in group]
        rendered += [h.div(class_="plots")[made]] if are_plots else made
    return rendered


def block(one: Block) -> Node:
    match one:
        case Facts():
            return facts(one.rows)
        case Table():
            numeric = [place for place, head in enumerate(one.headers) if isinstance(head, Head) and head.numeric]
            names = [head.name if isinstance(head, Head) else head for head in one.headers]
            return table(names, one.rows, caption=one.caption or None, numeric=numeric)
        case Plot():
            return _plot(one)
        case Prose(kind="plain"):
            return h.p[words(one.text, 2_000)]
        case Prose():
            return h.p(class_="quiet" if one.kind == "quiet" else "notice")[words(one.text, 2_000)]
        case Notes():
            return notes(one.lines)
        case Quoted():
            return long_text(one.text, fold=one.fold, label=one.label)
        case Tokens():
            return [legend(), shaded(one.shades, one.label)]
        case Html():
            return one.node
        case Cards():
            return _cards(one)
        case Lines():
            return h.pre[printable("\n".join(one.lines))]


def _plot(one: Plot) -> Element:
    return h.figure(class_="plot")[
        h.figcaption[h.strong[one.title], " ", one.caption],
        one.drawing,
        one.legend,
        data_table("The numbers of this plot", one.headers, one.rows),
    ]


def notes(lines: Sequence[str]) -> Node:
    return h.ul(class_="notes")[[h.li[words(line, 2_000)] for line in lines]] if lines else None


# -- pieces -----------------------------------------------------------------------------------------------------------


def words(text: object, characters: int = CELL_CHARACTERS) -> str:
    """A text from outside on one line: nothing in it can move or hide what stands around it."""
    return shortened(str(text), characters)


def long_text(text: str, *, fold: bool = True, label: str = "") -> Node:
    """A text from outside as it is, line breaks and all; a long one is folded, a very long one cut, and says so."""
    shown = printable(text[:MOST_CHARACTERS])
    rest = len(text) - MOST_CHARACTERS
    cut = h.p(class_="quiet")[f"… and {rest:,} more characters, which are in samples.jsonl"] if rest > 0 else None
    if not fold or len(text) <= FOLDED_CHARACTERS:
        return [h.pre(class_="said", dir="auto")[shown], cut]
    return [
        h.details(class_="folded")[
            h.summary[
                label or [h.span(class_="said", dir="auto")[words(text, 300)], h.span(class_="quiet")[" all of it"]]
            ],
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


def facts(entries: Iterable[tuple[str, Any]]) -> Element:
    """Names and values, one below the other; what is None is left out."""
    return h.dl(class_="facts")[[[h.dt[name], h.dd[_cell(value)]] for name, value in entries if value is not None]]


def notice(text: str) -> Element:
    return h.p(class_="notice")[words(text, 2_000)]


def tiles(figures: Sequence[Figure], coverage: Coverage | None) -> Element:
    """The headline figures, each with its interval in words, and the coverage as one of them."""
    return h.ul(class_="tiles")[
        [_tile(figure) for figure in figures],
        h.li(class_="full" if coverage.scored == coverage.items else "partial")[
            h.span(class_="name")["coverage"],
            h.strong[f"{coverage.scored:,} of {coverage.items:,}"],
            h.span(class_="quiet")[words(coverage.text.partition("; ")[2] or "nothing is missing", 400)],
            h.span(class_="meaning")["scored / total"],
        ]
        if coverage is not None
        else None,
    ]


def _tile(figure: Figure) -> Element:
    interval = interval_of(figure)
    doubt = f"{figure.level:.0%} interval {interval}" if interval and figure.level else interval
    below = "; ".join(part for part in (doubt, figure.note) if part)
    return h.li(title=words(figure.method or "") or None)[
        h.span(class_="name")[words(figure.name)],
        h.strong[words(value_of(figure))],
        h.span(class_="quiet")[words(below or "no interval", 400)],
        h.span(class_="meaning")[words(figure.meaning, 400)] if figure.meaning else None,
    ]


def _cards(found: Cards) -> Element:
    """The kinds side by side; the cards themselves where there is one kind alone, without a title."""
    if not any(side.cards for side in found.sides):
        return h.p(class_="quiet")[found.nothing]
    if len(found.sides) == 1 and not found.sides[0].title:
        return h.div(class_="gallery")[[card(one) for one in found.sides[0].cards[:MOST_CARDS]]]
    return h.div(class_="sides")[[_side(side) for side in found.sides]]


def _side(side: Side) -> Element:
    left_out = len(side.cards) - MOST_CARDS
    return h.section[
        h.h3[side.title],
        h.p(class_="lead")[side.lead] if side.lead else None,
        [card(one) for one in side.cards[:MOST_CARDS]] or h.p(class_="quiet")["None."],
        h.p(class_="quiet")[f"and {left_out:,} more{f': {side.more}' if side.more else ''}"] if left_out > 0 else None,
    ]


def card(one: Card) -> Element:
    """A sample in short; its title leads to its page where it has one."""
    title, address = words(one.title, 120), one.links.get("")
    others = [(name, link) for name, link in one.links.items() if name]
    return h.article(class_="card")[
        h.header[
            h.h4[h.a(href=address)[title] if address else title],
            h.span[[[h.a(href=link)[name], " "] for name, link in others]] if others else None,
            badge(one.verdict, "none" if one.right is None else "good" if one.right else "bad"),
        ],
        blocks(one.body()),
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
    if isinstance(value, Marked):
        shown = words(value)
        return h.strong[shown] if value.kind == "strong" else h.span(class_=value.kind)[shown]
    return words(value, 400) if isinstance(value, str | Value) else value


# -- the page around them ---------------------------------------------------------------------------------------------


@cache
def asset(name: str) -> str:
    return (files("howsure.report") / "assets" / name).read_text(encoding="utf-8")


def standalone(title: str, body: Node) -> str:
    """A page in one file that needs nothing else and lets nothing else in."""
    style, script = asset("howsure.css"), asset("howsure.js")
    head = [
        h.meta({"http-equiv": "Content-Security-Policy"}, content=standalone_policy()),
        h.style[Markup(style)],  # both are ours, and hold nothing from outside
    ]
    return _page(title, head, [body, h.script[Markup(script)]])


def standalone_policy() -> str:
    """What such a page may do: show its own style and pictures, and run its own script."""
    style, script = _digest(asset("howsure.css")), _digest(asset("howsure.js"))
    return (
        f"default-src 'none'; img-src data:; style-src '{style}'; script-src '{script}'; "
        "base-uri 'none'; form-action 'none'"
    )


def served(title: str, body: Node) -> str:
    """A page of the viewer."""
    head = [
        h.link(rel="stylesheet", href="/assets/howsure.css"),
        h.script(src="/assets/howsure.js", defer=True),
        h.script(src="/assets/viewer.js", defer=True),
    ]
    return _page(title, head, body)


def fragment(body: Node) -> str:
    """Some parts for a notebook, with their style; scripts do not run there."""
    return str(h.div(class_="hs")[h.style[Markup(asset("howsure.css"))], body])


def _page(title: str, head: Node, body: Node) -> str:
    page: Element = h.html(lang="en")[
        h.head[
            h.meta(charset="utf-8"),
            h.meta(name="viewport", content="width=device-width, initial-scale=1"),
            h.meta(name="referrer", content="no-referrer"),
            h.title[shortened(title, TITLE_CHARACTERS)],
            h.link(rel="icon", href=ICON),
            head,
        ],
        h.body(class_="hs")[body],
    ]
    return str(page)


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
