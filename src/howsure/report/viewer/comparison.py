"""Two runs side by side."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import htpy as h
from htpy import Element, Node
from markupsafe import Markup

from howsure.report.html import notes, words
from howsure.report.run_report import rendered
from howsure.report.viewer import apart
from howsure.report.viewer.address import State, address
from howsure.report.viewer.frame import page, safely
from howsure.report.viewer.library import Opened
from howsure.studies.comparing import Comparison

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
            found = compared(a.data, b.data, apart.compare)
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
