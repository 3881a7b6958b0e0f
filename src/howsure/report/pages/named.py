"""Values by name, one below the other: a dot for the value, a line for its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import htpy as h
from htpy import Element, Node

from howsure.report.pages.axes import Axis, Scale
from howsure.report.pages.chart import px, text_at
from howsure.report.pages.parts import data_table
from howsure.report.text import shortened

ROW_PX, TOP_PX, FOOT_PX, NAMES_PX, WIDTH_PX, NOTE_PX = 24.0, 6.0, 40.0, 190.0, 620.0, 90.0
LEVEL_PX, LETTER_PX = 16.0, 6.6
"""Room above the rows for the name of an upright line, and for a letter of a note."""
NAME_CHARACTERS = 28
SHOWN_ROWS = 30


class Named(NamedTuple):
    """One row: a name, a value with the ends of its interval where they are known, and a word at the right.

    An interval that holds only roughly (`rough`) is drawn as a dashed line.
    """

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    note: str = ""
    rough: bool = False

    @classmethod
    def of(
        cls, name: str, entry: Mapping[str, Any], note: str = "", *, value: str = "value", prefix: str = ""
    ) -> Named:
        """From a figure of a summary: its value and its interval, whose names may have a prefix."""
        low, high = entry.get(f"{prefix}low"), entry.get(f"{prefix}high")
        return cls(name, entry[value], low, high, note, bool(entry.get(f"{prefix}approximate")))


def dots(
    title: str,
    caption: str,
    axis: Axis,
    rows: Sequence[Named],
    *,
    level: tuple[float, str] | None = None,
    over: str = "",
) -> Element:
    """All rows as one plot; `level` is an upright line to compare with and its name, `over` what intervals are over."""
    shown = rows[:SHOWN_ROWS]
    top = TOP_PX + (LEVEL_PX if level else 0.0)
    height = top + ROW_PX * max(len(shown), 1) + FOOT_PX
    known = [value for row in shown for value in (row.value, row.low, row.high) if value is not None]
    end = WIDTH_PX - _note_px(shown)
    x = Scale(axis, known + ([level[0]] if level else []), NAMES_PX, end, 5)
    more = f" The first {SHOWN_ROWS} of {len(rows):,} are drawn." if len(rows) > SHOWN_ROWS else ""
    return h.figure(class_="plot")[
        h.figcaption[h.strong[title], " ", caption, _about_lines(shown, over), more],
        h.svg(
            {"viewBox": f"0 0 {px(WIDTH_PX)} {px(height)}", "aria-label": f"{title}: the table below has the numbers"},
            role="img",
            width=px(WIDTH_PX),
            height=px(height),
        )[
            _frame(x, axis, top, height, end, level),
            [_row(row, top + ROW_PX * (place + 0.5), x, end) for place, row in enumerate(shown)],
        ],
        data_table(
            "The numbers of this plot",
            ["", axis.label, "low", "high", ""],
            [(row.name, row.value, row.low, row.high, _noted(row)) for row in rows],
        ),
    ]


def _about_lines(rows: Sequence[Named], over: str) -> str:
    """What the lines are, which of them hold only roughly, and why some rows have none."""
    if not any(row.low is not None for row in rows):
        return ""
    said = f" The line is its 95 % interval{f' over {over}' if over else ''}"
    if any(row.rough for row in rows):
        said += "; where it is dashed, it holds only roughly"
    without = any(row.value is not None and row.low is None for row in rows)
    return f"{said}.{' Rows without a line have no interval.' if without else ''}"


def _noted(row: Named) -> str:
    return "; ".join(part for part in (row.note, "about" if row.rough else "") if part)


def _note_px(rows: Sequence[Named]) -> float:
    """Room for the longest note."""
    return max(NOTE_PX, 14 + LETTER_PX * min(max((len(row.note) for row in rows), default=0), NAME_CHARACTERS))


def _frame(x: Scale, axis: Axis, top: float, height: float, end: float, level: tuple[float, str] | None) -> Node:
    floor = height - FOOT_PX
    rule = None
    if level is not None:
        rule = [
            h.path(class_="rule", d=f"M{px(x(level[0]))} {px(top)}V{px(floor)}"),
            text_at(x(level[0]), top - 5, level[1], "middle"),
        ]
    return [
        [h.path(class_="grid", d=f"M{px(x(value))} {px(top)}V{px(floor)}") for value, _ in x.ticks],
        [text_at(x(value), floor + 15, words, "middle") for value, words in x.ticks],
        text_at((NAMES_PX + end) / 2, height - 6, axis.label, "middle", "label"),
        rule,
    ]


def _row(row: Named, at: float, x: Scale, end: float) -> Node:
    parts: list[Node] = [text_at(NAMES_PX - 10, at + 4, shortened(row.name, NAME_CHARACTERS), "end", "label")]
    if row.low is not None and row.high is not None:
        dashes = {"stroke-dasharray": "4 3"} if row.rough else {}
        parts.append(h.path(dashes, class_="whisker s0", d=f"M{px(x(row.low))} {px(at)}H{px(x(row.high))}"))
    if row.value is None:
        parts.append(text_at(NAMES_PX + 4, at + 4, "no value", "start"))
    else:
        parts.append(h.circle(class_="point s0", cx=px(x(row.value)), cy=px(at), r="4.5"))
    parts.append(text_at(end + 8, at + 4, shortened(row.note, NAME_CHARACTERS), "start"))
    return parts
