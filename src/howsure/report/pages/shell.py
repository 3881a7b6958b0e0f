"""The page around the parts: head, style, script, and the rules that keep anything else from running.

A report carries its style and script, and names them by their digests: a browser runs these two and nothing else. The
viewer serves both from its own address.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

import htpy as h
from htpy import Element, Node
from markupsafe import Markup

from howsure.report.text import shortened

ICON = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath fill='%230072b2' d='M1 8a7 7 0 0 1 14 0h-3a4 4 0 0 0-8 0z'/%3E%3Cpath stroke='%23d55e00' stroke-width='2' d='M8 11 12 4'/%3E%3C/svg%3E"  # noqa: E501
TITLE_CHARACTERS = 120


@cache
def asset(name: str) -> str:
    return (files("howsure.report.pages") / "assets" / name).read_text(encoding="utf-8")


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
