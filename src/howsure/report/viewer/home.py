"""The list of runs."""

from __future__ import annotations

import htpy as h
from htpy import Element, Node

from howsure.report.html import words
from howsure.report.viewer.address import State
from howsure.report.viewer.frame import page
from howsure.report.viewer.grid import Grid, grid
from howsure.report.viewer.listing import Listed

POLL_MS = "2000"


def home_page(found: Listed, state: State, folder: str) -> str:
    return page(
        "Runs",
        [("All runs", None)],
        [
            h.h1["Runs"],
            h.p(class_="lead")[f"Below {words(folder, 300)}, newest first. Choose one, or two to compare."],
            _welcome() if not found.names else None,
            h.section(id="table", aria_label="Runs")[home_grid(found, state), _compare()],
        ],
        live="/live",
        seen=found.version,
        poll=POLL_MS,
    )


def _welcome() -> Element:
    return h.p(class_="notice")[
        "There are no runs here yet. ",
        h.code["howsure demo"],
        " makes one of every study; this page shows them as they come.",
    ]


def home_grid(found: Listed, state: State) -> Element:
    status = found.finder.table.values("status")
    kept = dict(state.kept)
    shown: set[str] = set()

    def choose(row: int) -> Node:
        if status[row] == "damaged":
            return None
        name = found.names[row]
        shown.add(name)
        return h.span(class_="ab")[
            [
                h.label[
                    h.input(
                        id=f"{side}.{name}",
                        type="radio",
                        form="compare",
                        name=side,
                        value=name,
                        checked=kept.get(side) == name,
                    ),
                    side.upper(),
                ]
                for side in ("a", "b")
            ]
        ]

    def link(row: int) -> str | None:
        return None if status[row] == "damaged" else State(found.names[row]).to("/run")

    table = grid(Grid(found.finder, state, "/", "run", link, choose, "compare"))
    return h.div[h.div(data_swap="chosen")[_chosen(kept, shown)], table]


def _chosen(kept: dict[str, str], shown: set[str]) -> Node:
    """Which runs are chosen; those on another page of the table are sent along all the same."""
    if not kept:
        return None
    return [
        [
            h.input(type="hidden", form="compare", name=side, value=name)
            for side, name in kept.items()
            if name not in shown
        ],
        h.p(class_="quiet")[f"Chosen: {', '.join(f'{side.upper()} is {words(kept[side], 80)}' for side in kept)}."],
    ]


def _compare() -> Element:
    return h.form(id="compare", method="get", action="/compare", class_="compare")[
        h.button(type="submit")["Compare A with B"],
        h.span(class_="quiet")["Choose A and B in the table: two runs of one study over the same data."],
    ]
