"""What every comparison of two runs is put together from: both beside each other, differences around zero, flips."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import htpy as h
from htpy import Element, Node

from howsure.report.pages.axes import Axis
from howsure.report.pages.columns import key_of
from howsure.report.pages.contract import Section
from howsure.report.pages.material import Material
from howsure.report.pages.named import Named, dots
from howsure.report.pages.parts import badge, table, words
from howsure.report.text import value_of, value_with_interval

MOST_FLIPS = 6
"""Of each kind on a page; `howsure compare` lists any number."""
_COLUMNS = ["", "A", "B", "B − A (95 % interval, paired)"]

Row = tuple[str, str, str, str]


class Flips(NamedTuple):
    """The samples that turned one way: what to call them, and how each is shown."""

    title: str
    lead: str
    right: bool
    flips: Sequence[dict[str, Any]]


def who(a: Material, b: Material) -> Section:
    """Which run is A, and which is B."""

    def about(one: Material) -> tuple[str, ...]:
        manifest = one.run.manifest
        study, model = manifest.identity.study, manifest.identity.model.get("name")
        texts = (study, model, manifest.source, one.folder.absolute().name, one.status)
        return tuple(words(text, 300) for text in texts)

    names = ("study", "model", "data", "run", "status")
    return Section("A and B", "", table(["", "A", "B"], list(zip(map(_whole, names), about(a), about(b), strict=True))))


def _whole(name: str) -> Element:
    """A name that is not broken, however long its neighbours are."""
    return h.span(class_="whole")[words(name)]


def sentence(text: str) -> str:
    """A line of the terminal as a sentence."""
    return f"{text[:1].upper()}{text[1:]}."


# -- figures ----------------------------------------------------------------------------------------------------------


def paired_table(rows: Sequence[Row], sentences: Sequence[str], notes: Sequence[str]) -> Section:
    return Section(
        "What changed",
        "B − A is taken sample by sample, over what both runs have, which sees far smaller differences than two "
        "figures beside each other. An interval that holds 0 says that there may be no difference at all.",
        [
            table(_COLUMNS, [tuple(words(cell, 400) for cell in row) for row in rows]),
            [h.p[words(one, 2_000)] for one in sentences],
            h.ul(class_="notes")[[h.li[words(note, 2_000)] for note in notes]] if notes else None,
        ],
    )


def around_zero(
    title: str, caption: str, axis: Axis, changes: Sequence[Named], note: Callable[[float], str], over: str = ""
) -> Node:
    """Differences with their intervals about an upright line at 0; nothing where there are none."""
    known = [change for change in changes if change.value is not None]
    if not known:
        return None
    rows = [change._replace(note=note(change.value or 0.0)) for change in known]
    return dots(title, caption, axis, rows, level=(0.0, "no change"), over=over)


def side_by_side(a: Material, b: Material) -> Section:
    """The headline figures of both, each with its own interval; no pairs are made."""
    first, second = (_headline(one) for one in (a, b))
    names = list(dict.fromkeys([*first, *second]))
    rows = [(_whole(name), *(_shown(side.get(name)) for side in (first, second))) for name in names]
    both = [name for name in names if _has(first.get(name)) and _has(second.get(name))]
    plots = [_two(name, first[name], second[name]) for name in both]
    body: list[Node] = [table(["", "A", "B"], rows) if rows else h.p(class_="quiet")["Neither run has figures yet."]]
    return Section(
        "Side by side",
        "Each figure with its own 95 % interval. The samples of the two runs were not paired, so that intervals which "
        "overlap say little about whether the runs differ.",
        [*body, h.div(class_="plots")[plots]],
    )


def _headline(one: Material) -> dict[str, dict[str, Any]]:
    return {words(entry["name"]): entry for entry in one.summary["headline"]} if one.summary else {}


def _has(entry: dict[str, Any] | None) -> bool:
    return entry is not None and entry["value"] is not None


def _shown(entry: dict[str, Any] | None) -> str:
    return "—" if entry is None else words(value_with_interval(entry))


def _two(name: str, a: dict[str, Any], b: dict[str, Any]) -> Element:
    share = a["unit"] == "share"
    label = name if share or not a["unit"] else f"{name}, {words(a['unit'], 20)}"
    rows = [Named.of(side, entry, value_of(entry)) for side, entry in (("A", a), ("B", b))]
    return dots(name, "The dot is the figure.", Axis(label, percent=share), rows)


# -- flips ------------------------------------------------------------------------------------------------------------


def flips(sides: Sequence[Flips], body: Callable[[dict[str, Any]], Node], a: Material, b: Material) -> Section:
    """What turned, one way on the left and the other on the right; those that moved farthest come first."""
    return Section(
        "What turned",
        "Samples that one run got right and the other wrong, those first that moved farthest.",
        h.div(class_="sides")[[_side(one, body, a, b) for one in sides]],
        "flips",
    )


def _side(one: Flips, body: Callable[[dict[str, Any]], Node], a: Material, b: Material) -> Element:
    shown, more = one.flips[:MOST_FLIPS], len(one.flips) - MOST_FLIPS
    return h.section[
        h.h3[f"{one.title}: {len(one.flips):,}"],
        h.p(class_="lead")[one.lead],
        [_card(flip, one.right, body(flip), a, b) for flip in shown] or h.p(class_="quiet")["None."],
        h.p(class_="quiet")[f"and {more:,} more: `howsure compare --flips {len(one.flips)}` lists all"]
        if more > 0
        else None,
    ]


def _card(flip: dict[str, Any], right: bool, body: Node, a: Material, b: Material) -> Element:
    key = key_of(flip["id"])
    links = [(name, one.links.sample(key)) for name, one in (("A", a), ("B", b))]
    return h.article(class_="card")[
        h.header[
            h.h4[words(flip["id"], 120)],
            h.span[[[h.a(href=address)[f"in {name}"], " "] for name, address in links if address]],
            badge("won" if right else "lost", "good" if right else "bad"),
        ],
        body,
    ]
