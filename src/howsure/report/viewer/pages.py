"""The pages of the viewer: the list of runs, a run, a sample, two runs compared."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import htpy as h
import numpy as np
from htpy import Element, Node
from markupsafe import Markup

from howsure.report.document import Prose, Section
from howsure.report.html import facts, notes, notice, served, words
from howsure.report.run_report import footer, header, overview, rendered, title_of
from howsure.report.text import counted, percent
from howsure.report.viewer.grid import Grid, cell, grid
from howsure.report.viewer.library import Listed, NotServed, Opened, compare_apart
from howsure.report.viewer.query import PAGE_ROWS, State, address
from howsure.report.views import as_written, guarded, sections_of
from howsure.studies.comparing import Comparison

Crumb = tuple[str, str | None]


def page(title: str, crumbs: Sequence[Crumb], body: Node, **about: str) -> str:
    """A whole page; `about` becomes data-… of its main part, for the script."""
    return served(
        f"{title} · howsure",
        [
            h.a(class_="skip", href="#main")["To the content"],
            h.header(class_="top")[
                h.nav(class_="crumbs", aria_label="Where you are")[
                    [
                        [h.span(aria_hidden="true")["›"] if place else None, _crumb(*one)]
                        for place, one in enumerate(crumbs)
                    ]
                ]
            ],
            h.main({f"data-{name}": value for name, value in about.items()}, id="main", tabindex="-1")[
                h.p(class_="notice", role="status", id="lost", hidden=True), body
            ],
        ],
    )


def _crumb(label: str, to: str | None) -> Element:
    shown = words(label, 80)
    return h.a(href=to)[shown] if to else h.span(aria_current="page")[shown]


def safely(make: Callable[[], Node], what: str) -> Node:
    """A part of a page as it is written, or a sentence where the files do not hold what it needs."""
    return guarded(
        lambda: Markup(str(h.fragment[make()])),  # written by htpy, which has escaped what came from outside
        lambda why: Markup(str(notice(f"{what} cannot be shown, since the files do not hold what is needed: {why}"))),
    )


def sections(make: Callable[[], Sequence[Section]], what: str) -> Node:
    """Sections one after the other, each on its own feet."""
    return safely(lambda: rendered(make()), what)


def problem_page(sentence: str) -> str:
    body = [h.h1["This cannot be shown"], h.p[words(sentence, 2_000)], h.p[h.a(href="/")["The list of runs"]]]
    return page("Not here", [("All runs", "/")], body)


SHOWN_REASONS = 6


def progress_of(run: Opened) -> dict[str, Any]:
    """Status, how many samples of how many, the share that is right so far, and what is missing by its reason."""
    data = run.data
    right = data.table.numbers("_right")
    judged = right[np.isfinite(right)]
    missing = Counter(reason for reason in data.table.values("reason") if reason is not None)
    return {
        "status": data.status,
        "samples": len(data.table),
        "items": data.run.manifest.items,
        "judged": len(judged),
        "share_right": float(judged.mean()) if len(judged) else None,
        "missing": dict(missing.most_common()),
        "complete": run.complete,
        "version": run.version,
    }


def progress_line(run: Opened) -> Node:
    """The same in words; nothing for a run that is finished and wholly read."""
    found = progress_of(run)
    if found["status"] == "finished" and run.complete:
        return None
    if not run.complete:
        return h.p(class_="notice")[f"Reading: {counted(found['samples'], 'sample')} so far …"]
    share = None if found["share_right"] is None else f"{percent(found['share_right'])} right so far"
    said = [f"{found['samples']:,} of {counted(found['items'], 'sample')}", share, _missing(found["missing"])]
    return h.p(class_="notice")[
        h.strong[words(found["status"])], ": " + "; ".join(part for part in said if part is not None)
    ]


def _missing(reasons: dict[str, int]) -> str:
    if not reasons:
        return "nothing missing"
    shown = [f"{count:,} {words(reason, 60)}" for reason, count in list(reasons.items())[:SHOWN_REASONS]]
    return f"{sum(reasons.values()):,} missing: {', '.join(shown)}{' …' if len(reasons) > SHOWN_REASONS else ''}"


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


def sample_page(run: Opened, state: State, key: str) -> str:
    data = run.data
    row = data.table.row_of(key)
    if row is None:
        raise NotServed("There is no such sample in this run.")
    name = words(data.table.values("id")[row], 120)
    ways = _neighbours(run, state, row)

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


def _neighbours(run: Opened, state: State, row: int) -> Element:
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


MOST_DRAWN = 4
_ONE_AT_A_TIME = threading.Lock()


def comparison_page(a: Opened, b: Opened) -> str:
    return page(
        f"{a.name} and {b.name}",
        [("All runs", "/"), ("comparison", None)],
        [
            h.h1["Two runs compared"],
            h.nav(class_="crumbs", aria_label="The two runs")[
                _named("A", a),
                _named("B", b),
                h.a(href=address("/compare", [("a", b.name), ("b", a.name)]))["The other way round"],
            ],
            _drawn(a, b),
        ],
    )


def _drawn(a: Opened, b: Opened) -> Node:
    """Drawn once, until either run changes; of two large runs it takes seconds, and nobody waits but who asked."""
    from howsure.report.comparison import compared  # these draw on the studies, which take a while to load

    with _ONE_AT_A_TIME:
        known = f"{a.version} with {b.name}, {b.version}"
        written = a.drawn.get(known)
        if written is None:
            found = compared(a.data, b.data, compare_apart)
            with _held(a, b):
                written = str(h.fragment[safely(lambda: _whole(found, a, b), "The comparison")])
                a.drawn = dict(list(a.drawn.items())[-MOST_DRAWN:]) | {known: written}
    return Markup(written)


def _whole(found: Comparison | str, a: Opened, b: Opened) -> Node:
    from howsure.report.comparison import laid_out

    document = laid_out(found, a.data, b.data)
    return [rendered(document.sections), notes(document.notes)]


@contextlib.contextmanager
def _held(a: Opened, b: Opened) -> Iterator[None]:
    with contextlib.ExitStack() as held:
        for one in sorted({a.name: a, b.name: b}.values(), key=lambda run: run.name):
            held.enter_context(one.lock)  # always in the same order, so that nobody waits for ever
        yield


def _named(side: str, run: Opened) -> Element:
    return h.span[f"{side}: ", h.a(href=State(run.name).to("/run"))[words(run.name, 80)]]
