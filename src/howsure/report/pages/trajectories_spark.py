"""A run's uncertainty at a glance: one small line without axes, and its ends in words."""

from __future__ import annotations

import math
from collections.abc import Sequence

import htpy as h
from htpy import Element

from howsure.report.charts import Axis, Scale
from howsure.report.charts import px
from howsure.report.html import number
from howsure.report.text import counted

WIDTH_PX, HEIGHT_PX, EDGE_PX = 300.0, 40.0, 5.0
MOST_TURNS = 200
READ_TURNS = 40
"""Values that are read out to those who cannot see the line."""


def spark(values: Sequence[float | None], whose: str) -> Element:
    """U over the turns of one speaker; the line has gaps where a turn has none."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known:
        return h.p(class_="quiet")[f"No turn of the {whose} has a finite U."]
    shown = values[:MOST_TURNS]
    x = Scale(Axis("", 0, max(len(shown) - 1, 1)), [], EDGE_PX, WIDTH_PX - EDGE_PX, 2)
    y = Scale(Axis("", 0, max(*known, 1e-9)), [], HEIGHT_PX - EDGE_PX, EDGE_PX, 2)
    read = ", ".join(_read(value) for value in values[:READ_TURNS]) + (", …" if len(values) > READ_TURNS else "")
    return h.div(class_="spark")[
        h.svg(
            {"viewBox": f"0 0 {px(WIDTH_PX)} {px(HEIGHT_PX)}", "aria-label": f"U of the {whose} by turn, nats: {read}"},
            role="img",
        )[
            h.path(class_="axis", d=f"M0 {px(HEIGHT_PX - EDGE_PX)}H{px(WIDTH_PX)}"),
            [h.path(class_="line s0", d=path) for path in _paths(shown, x, y)],
            [
                h.circle(class_="point s0", cx=px(x(place)), cy=px(y(value)), r="2.5")
                for place, value in enumerate(shown)
                if value is not None and math.isfinite(value)
            ],
        ],
        h.span(class_="quiet")[_ends(values, known, whose)],
    ]


def _read(value: float | None) -> str:
    return "none" if value is None else "infinite" if math.isinf(value) else number(value, 2)


def _paths(values: Sequence[float | None], x: Scale, y: Scale) -> list[str]:
    """Lines between neighbours that both have a value."""
    paths: list[list[str]] = [[]]
    for place, value in enumerate(values):
        if value is None or not math.isfinite(value):
            paths.append([])
        else:
            paths[-1].append(f"{px(x(place))} {px(y(value))}")
    return [f"M{'L'.join(path)}" for path in paths if len(path) > 1]


def _ends(values: Sequence[float | None], known: Sequence[float], whose: str) -> str:
    infinite = ", infinite once or more" if math.inf in values else ""
    turns = f"U over the {whose}'s {counted(len(values), 'turn')}"
    cut = f"; the first {MOST_TURNS} are drawn" if len(values) > MOST_TURNS else ""
    return f"{turns}: {number(min(known), 2)} to {number(max(known), 2)} nats{infinite}{cut}"
