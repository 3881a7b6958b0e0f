"""The page of a run: figures, samples worth a look, plots, and the table of all samples."""

from __future__ import annotations

import htpy as h
from htpy import Element, Node
from markupsafe import Markup

from howsure.report.html import notice
from howsure.report.run_report import footer, header, overview, title_of
from howsure.report.text import counted
from howsure.report.viewer.address import State, address
from howsure.report.viewer.frame import Crumb, page, safely, sections
from howsure.report.viewer.grid import Grid, grid
from howsure.report.viewer.library import Opened
from howsure.report.viewer.progress import progress_line
from howsure.report.views import sections_of

DRAWN_AT_ONCE = 5_000
"""Samples of which the plots are drawn while the page waits; of more they come after the table."""
POLLS_MS = {"running": "2000", "finished": ""}
OTHER_POLL_MS = "10000"
_HOLD = ("hold no sample that can be read, and are", "holds no sample that can be read, and is")
STILL_READING = "Still being read: sorting and filtering wait for the rest."


def run_page(run: Opened, state: State) -> str:
    data = run.data
    return page(
        title_of(data),
        [("All runs", "/"), (run.name, None)],
        [
            h.div(data_swap="header")[safely(lambda: header(data), "The head of this page")],
            h.div(data_swap="live")[safely(lambda: progress_line(run), "How far it is")],
            h.div(data_swap="overview")[safely(lambda: overview(data), "The summary") if run.complete else None],
            _ways(run),
            h.div(id="parts", data_swap="parts")[_parts(run)],
            h.section(id="table", aria_labelledby="samples")[h.h2(id="samples")["All samples"], run_grid(run, state)],
            footer(),
        ],
        live=address("/live", [("path", run.name)]),
        seen=run.version,
        status=data.status,
        poll=POLLS_MS.get(data.status, OTHER_POLL_MS) if run.complete else "300",
    )


def _ways(run: Opened) -> Element:
    """Where to go from here."""
    name = [("path", run.name)]
    return h.nav(class_="crumbs", aria_label="On this page and beyond")[
        h.a(href="#look")["Worth a look"],
        h.a(href="#table")["All samples"],
        h.a(href=address("/report", name))["Report in one file"],
        h.a(href=address("/", [("a", run.name)]))["Compare with another run"],
    ]


def _parts(run: Opened) -> Node:
    if run.complete and (len(run.data.table) <= DRAWN_AT_ONCE or "parts" in run.drawn):
        return drawn_parts(run)
    where = address("/parts", [("path", run.name)])
    link = h.a(href=where)["Samples worth a look, and the plots"]
    return h.p(class_="quiet", data_later=where)[link, " are coming …"]


def drawn_parts(run: Opened) -> Node:
    """Picks and plots; drawn once, until anything changes."""
    if "parts" not in run.drawn:
        run.drawn["parts"] = str(
            h.fragment[sections(lambda: sections_of(run.data.study, run.data.summary, run.data), "The plots")]
        )
    return Markup(run.drawn["parts"])


def parts_page(run: Opened) -> str:
    """Picks and plots by themselves, for large runs: the page of the run fetches them after its table."""
    data = run.data
    crumbs: list[Crumb] = [("All runs", "/"), (run.name, State(run.name).to("/run")), ("plots", None)]
    return page(title_of(data), crumbs, [h.h1[title_of(data)], h.div(data_swap="parts")[drawn_parts(run)]])


def run_grid(run: Opened, state: State) -> Element:
    table = run.data.table

    def link(row: int) -> str:
        return state.asking(page=1).to("/sample", key=table.keys[row])

    remark = "" if run.complete else STILL_READING
    return h.div[
        h.div(data_swap="damage")[_damage(run)],
        grid(Grid(run.finder, state, "/run", "sample", link, remark=remark)),
    ]


def _damage(run: Opened) -> Node:
    lines = run.data.damaged_lines
    return [
        notice(run.problem) if run.problem else None,
        notice(f"{counted(lines, 'line')} of samples.jsonl {_HOLD[lines == 1]} left out.") if lines else None,
    ]
