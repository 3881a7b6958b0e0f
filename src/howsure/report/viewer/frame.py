"""What stands around every page of the viewer, and parts that can fail without taking the page with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import htpy as h
from htpy import Element, Node
from markupsafe import Markup

from howsure.report.document import Section
from howsure.report.html import notice, served, words
from howsure.report.run_report import rendered
from howsure.report.views import guarded

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
