"""Two runs side by side."""

from __future__ import annotations

import htpy as h
from htpy import Element, Node
from markupsafe import Markup

from howsure.report.pages.parts import words
from howsure.report.viewer.address import State, address
from howsure.report.viewer.frame import page, sections
from howsure.report.viewer.library import Opened

MOST_DRAWN = 4


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
    """Drawn once, until either run changes; of two large runs it takes seconds."""
    from howsure.report.pages.compare import comparison  # it draws on the studies, which take a while to load

    known = f"with {b.name}, {b.version}"
    if known not in a.drawn:
        written = str(h.fragment[sections(lambda: comparison(a.material, b.material), "The comparison")])
        a.drawn = dict(list(a.drawn.items())[-MOST_DRAWN:]) | {known: written}
    return Markup(a.drawn[known])


def _named(side: str, run: Opened) -> Element:
    return h.span[f"{side}: ", h.a(href=State(run.name).to("/run"))[words(run.name, 80)]]
