"""Two runs side by side."""

from __future__ import annotations

import htpy as h

from howsure.report.pages.parts import facts
from howsure.report.pages.report import title_of
from howsure.report.viewer.address import State
from howsure.report.viewer.frame import page, sections
from howsure.report.viewer.library import Opened


def comparison_page(a: Opened, b: Opened) -> str:
    from howsure.report.pages.compare import comparison  # it draws on the studies, which take a while to load

    return page(
        f"{a.name} and {b.name}",
        [("All runs", "/"), ("comparison", None)],
        [
            h.h1["Two runs compared"],
            facts({"A": _named(a), "B": _named(b)}),
            h.p[h.a(href=State(None, kept=(("a", b.name), ("b", a.name))).to("/compare"))["The other way round"]],
            sections(lambda: comparison(a.material, b.material), "The comparison"),
        ],
    )


def _named(run: Opened) -> h.Element:
    return h.span[h.a(href=State(run.name).to("/run"))[title_of(run.material)], f", {run.name}"]
