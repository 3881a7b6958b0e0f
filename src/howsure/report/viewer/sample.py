"""The page of a sample, with the way to its neighbours and back to the table as it was."""

from __future__ import annotations

import htpy as h
import numpy as np
from htpy import Element, Node

from howsure.report.document import Prose, Section
from howsure.report.html import facts, words
from howsure.report.run_report import title_of
from howsure.report.viewer.address import State
from howsure.report.viewer.frame import page, safely, sections
from howsure.report.viewer.grid import cell
from howsure.report.viewer.library import Opened
from howsure.report.viewer.places import NotServed
from howsure.report.viewer.query import PAGE_ROWS
from howsure.report.views import as_written, guarded


def sample_page(run: Opened, state: State, key: str) -> str:
    data = run.data
    row = data.table.row_of(key)
    if row is None:
        raise NotServed("There is no such sample in this run.")
    name = words(data.table.values("id")[row], 120)
    ways = _ways(run, state, row)

    def about() -> list[Section]:
        sample = data.sample(row)

        def as_it_is(why: str) -> list[Section]:
            missing = Prose(f"This sample does not hold what its page needs: {why}", "warning")
            return [Section("What is wrong", [missing]), as_written(sample)]

        return guarded(lambda: list(data.view.about(sample, data)), as_it_is)

    return page(
        f"{name} of {title_of(data)}",
        [("All runs", "/"), (run.name, State(run.name).to("/run")), (name, None)],
        [
            h.h1(dir="auto")[name],
            ways,
            safely(lambda: _row_facts(run, row), "Its row of the table"),
            sections(about, "This sample"),
            ways,
        ],
    )


def _row_facts(run: Opened, row: int) -> Element:
    """What the table says of it, except its texts, which stand below in full."""
    shown: dict[str, Node] = {}
    for column in run.finder.columns()[1:]:
        value = run.data.table.values(column.name)[row]
        if column.kind != "text" and value is not None:
            shown[column.label] = h.span(title=column.help or None)[cell(value, column), f" {column.unit}".rstrip()]
    return facts(shown.items())


def _ways(run: Opened, state: State, row: int) -> Element:
    rows = run.finder.find(state.query).rows
    found = np.flatnonzero(rows == row)
    place = int(found[0]) if len(found) else None
    back = state.asking(page=1 if place is None else place // PAGE_ROWS + 1).to("/run") + "#table"

    def neighbour(label: str, to: int | None) -> Node:
        if to is None or not 0 <= to < len(rows):
            return h.span(class_="quiet")[label]
        return h.a(href=state.to("/sample", key=run.data.table.keys[rows[to]]), rel=label)[label]

    selected = "all samples" if state.query.is_plain else "the samples as sorted and filtered"
    where = "not among those filtered" if place is None else f"{place + 1:,} of {len(rows):,} of {selected}"
    return h.nav(class_="crumbs", aria_label="Samples")[
        h.a(href=back)["Back to the table"],
        neighbour("previous", None if place is None else place - 1),
        h.span(class_="quiet")[where],
        neighbour("next", None if place is None else place + 1),
    ]
