"""Plots as SVG, each with a table of its numbers: lines, bands, points and bars over two axes, and dots by name.

Drawn by hand, since what is wanted is found in no library at once: no script and no style of its own, so that a page
can forbid both; colours that follow the page, light, dark and printed; text that stays text; and small enough that a
report holds a dozen. Series differ in colour, dash and shape, so that none of the three is needed to tell them apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeGuard

import htpy as h
import numpy as np
from htpy import Element, Node

from howsure.report.document import Cell, On, Plot, Value
from howsure.report.text import shortened

# -- axes -------------------------------------------------------------------------------------------------------------

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


class Axis(NamedTuple):
    """An axis: what it counts, and its ends where they are given; otherwise the data decides."""

    label: str
    low: float | None = None
    high: float | None = None
    percent: bool = False
    whole: bool = False
    log: bool = False
    ticks: Sequence[tuple[float, str]] | None = None


class Scale:
    """Values to pixels."""

    def __init__(self, axis: Axis, values: Iterable[float], start_px: float, end_px: float, most_ticks: int) -> None:
        self._axis = axis
        self._start, self._end = start_px, end_px
        low, high = _ends(axis, [value for value in values if math.isfinite(value)])
        self.ticks = list(axis.ticks) if axis.ticks is not None else _ticks(axis, low, high, most_ticks)
        if axis.ticks is None and self.ticks:
            low = low if axis.low is not None else min(low, self.ticks[0][0])
            high = high if axis.high is not None else max(high, self.ticks[-1][0])
        self.low, self.high = low, high

    def __call__(self, value: float) -> float:
        low, high, value = (math.log10(v) if self._axis.log else v for v in (self.low, self.high, value))
        share = (value - low) / (high - low)
        return self._start + min(max(share, -0.02), 1.02) * (self._end - self._start)

    def shows(self, value: float) -> bool:
        return math.isfinite(value) and (value > 0 or not self._axis.log)


def _ends(axis: Axis, values: list[float]) -> tuple[float, float]:
    if axis.log:
        values = [value for value in values if value > 0]
    low = axis.low if axis.low is not None else min(values, default=1.0 if axis.log else 0.0)
    high = axis.high if axis.high is not None else max(values, default=low + 1.0)
    if high - low <= max(abs(low) * 1e-12, 1e-300):  # what differs by rounding alone is one value
        room = abs(low) * 0.1
        high = low * 10 if axis.log else low + (room if room > 1e-300 else 1.0)
    return low, high


def _ticks(axis: Axis, low: float, high: float, most: int) -> list[tuple[float, str]]:
    if axis.log:
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        every = max(1, math.ceil((last - first) / most))
        return [(10.0**power, f"{10.0**power:g}") for power in range(first, last + 1, every)]
    step = _step(high - low, most)
    step = max(1.0, float(math.ceil(step - 1e-9))) if axis.whole else step
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    values = [place * step for place in range(first, last + 1)]
    if axis.low is not None:
        values = [value for value in values if value >= low - step * 1e-6]
    if axis.high is not None:
        values = [value for value in values if value <= high + step * 1e-6]
    return [(value, tick_text(value, step, axis.percent)) for value in values]


def _step(span: float, most: int) -> float:
    """The smallest round step that needs no more than so many."""
    rough = span / max(most, 1)
    size = 10.0 ** math.floor(math.log10(rough))
    return next(size * step for step in _STEPS if size * step >= rough * (1 - 1e-9))


def tick_text(value: float, step: float, percent: bool) -> str:
    if percent:
        return f"{value * 100:.{_tick_decimals(step * 100)}f} %"
    if abs(value) >= 1e5 or (value != 0 and step < 1e-4):
        digits = math.floor(math.log10(abs(value))) - math.floor(math.log10(step)) + 2
        return f"{value:.{max(digits, 3)}g}"
    return f"{value:.{_tick_decimals(step)}f}"


def _tick_decimals(step: float) -> int:
    return next((digits for digits in range(6) if abs(round(step, digits) - step) < step * 1e-6), 6)


# -- charts -----------------------------------------------------------------------------------------------------------

LEFT, RIGHT, TOP, BOTTOM = 62.0, 20.0, 10.0, 44.0
HALF_LETTER_PX = 3.4
"""Room that a label takes for each letter on either side of its middle."""
MOST_SERIES = 6
MOST_POINTS = 2_000
LABEL_CHARACTERS = 48
TIP_CHARACTERS = 300

Values = Sequence[float | None]


class _Legend(NamedTuple):
    label: str
    series: int
    kind: str


class Chart:
    """A plot in the making; `figure` is the finished one."""

    def __init__(self, title: str, x: Axis, y: Axis, *, width: int = 560, height: int = 280) -> None:
        self.title = title
        self._x, self._y = x, y
        self.width, self.height = width, height
        self._drawn: list[Any] = []
        self._xs: list[float] = []
        self._ys: list[float] = []
        self._legend: list[_Legend] = []
        self._not_drawn = 0

    # -- what there is to see ------------------------------------------------------------------------------------------

    def line(
        self, xs: Values, ys: Values, label: str = "", series: int = 0, *, step: bool = False, thin: bool = False
    ) -> Chart:
        """A line, broken where a value is missing."""
        pairs = self._seen(xs, ys)
        self._name(label, series, "line")
        kind = "line thin" if thin else "line"
        self._drawn.append(lambda x, y: h.path(class_=f"{kind} s{series}", d=_path(pairs, x, y, step)))
        return self

    def band(self, xs: Values, lows: Values, highs: Values, series: int = 0) -> Chart:
        """The room between two lines; where either is missing there is none, and the band has a gap."""
        pieces: list[list[tuple[float, float, float]]] = [[]]
        for a, low, high in zip(xs, lows, highs, strict=True):
            if _finite(a) and _finite(low) and _finite(high):
                pieces[-1].append((a, low, high))
            elif pieces[-1]:
                pieces.append([])
        self._xs += [row[0] for piece in pieces for row in piece]
        self._ys += [value for piece in pieces for row in piece for value in row[1:]]

        def draw(x: Scale, y: Scale) -> Element:
            return h.path(class_=f"band s{series}", d="".join(_around(piece, x, y) for piece in pieces if piece))

        self._drawn.append(draw)
        return self

    def points(
        self,
        xs: Values,
        ys: Values,
        label: str = "",
        series: int = 0,
        *,
        tips: Sequence[str] | None = None,
        links: Sequence[str | None] | None = None,
    ) -> Chart:
        """A mark for each pair; `tips` tell more when pointed at, `links` lead somewhere."""
        pairs = self._seen(xs, ys)
        self._name(label, series, "point")

        def draw(x: Scale, y: Scale) -> Node:
            return [
                _linked(
                    _mark(x(a), y(b), series, None if tips is None else tips[place]),
                    None if links is None else links[place],
                )
                for place, (a, b) in enumerate(pairs)
                if a is not None and b is not None and x.shows(a) and y.shows(b)
            ]

        self._drawn.append(draw)
        return self

    def bars(
        self,
        lefts: Sequence[float],
        rights: Sequence[float],
        tops: Values,
        label: str = "",
        series: int = 0,
        *,
        bottoms: Sequence[float] | None = None,
        tips: Sequence[str] | None = None,
        pale: bool = False,
    ) -> Chart:
        """Upright bars from `bottoms` (0) to `tops`; pale where something else is to be seen before them."""
        floors = [0.0] * len(lefts) if bottoms is None else list(bottoms)
        rows = [
            row for row in zip(lefts, rights, floors, tops, _tips(tips, len(lefts)), strict=True) if _finite(row[3])
        ]
        self._not_drawn += len(lefts) - len(rows)
        self._xs += [value for row in rows for value in row[:2]]
        self._ys += [value for row in rows for value in row[2:4] if value is not None]
        kind = "bar pale" if pale else "bar"
        self._name(label, series, kind)
        self._drawn.append(lambda x, y: [_bar(x, y, row, series, kind) for row in rows])
        return self

    def whiskers(self, xs: Values, lows: Values, highs: Values, series: int = 0) -> Chart:
        """An upright interval at each x."""
        rows = [row for row in zip(xs, lows, highs, strict=True) if all(map(_finite, row))]
        self._xs += [row[0] for row in rows if row[0] is not None]
        self._ys += [value for row in rows for value in row[1:] if value is not None]
        self._drawn.append(lambda x, y: [_whisker(x, y, row, series) for row in rows])
        return self

    def level(self, value: float, label: str = "") -> Chart:
        """A level line to compare with."""
        self._ys.append(value)

        def draw(x: Scale, y: Scale) -> Node:
            at = y(value)
            return [
                h.path(class_="rule", d=f"M{px(LEFT)} {px(at)}H{px(self.width - RIGHT)}"),
                text_at(self.width - RIGHT - 2, at - 4, label, "end") if label else None,
            ]

        self._drawn.append(draw)
        return self

    def upright(self, value: float, label: str = "", *, row: int = 0) -> Chart:
        """An upright line at a place of the x axis; labels of neighbours keep apart on rows of their own."""
        self._xs.append(value)

        def draw(x: Scale, y: Scale) -> Node:
            at = x(value)
            anchor, shift = ("end", -4) if at > (LEFT + self.width) * 0.6 else ("start", 4)
            return [
                h.path(class_="rule", d=f"M{px(at)} {px(TOP)}V{px(self.height - BOTTOM)}"),
                text_at(at + shift, TOP + 11 + 14 * row, label, anchor) if label else None,
            ]

        self._drawn.append(draw)
        return self

    def diagonal(self) -> Chart:
        """From corner to corner: what is expected on both axes alike."""
        self._drawn.append(
            lambda x, y: h.path(class_="rule", d=f"M{px(x(x.low))} {px(y(y.low))}L{px(x(x.high))} {px(y(y.high))}")
        )
        return self

    # -- finished ------------------------------------------------------------------------------------------------------

    def figure(self, caption: str, headers: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Plot:
        """The plot with its caption, its legend, and its numbers as a table for those who cannot see it."""
        x = Scale(self._x, self._xs, LEFT, self.width - RIGHT, 8)
        y = Scale(self._y, self._ys, self.height - BOTTOM, TOP, 5)
        drawing = _drawing(self.title, self.width, self.height)[self._frame(x, y), [draw(x, y) for draw in self._drawn]]
        return Plot(self.title, f"{caption}{self._left_out()}", drawing, headers, rows, self._legend_node())

    def _left_out(self) -> str:
        if not self._not_drawn:
            return ""
        if self._not_drawn == 1:
            return " 1 mark or point of a line has no value, and is not drawn."
        return f" {self._not_drawn:,} marks or points of lines have no value, and are not drawn."

    def _frame(self, x: Scale, y: Scale) -> Node:
        right, floor = self.width - RIGHT, self.height - BOTTOM
        return [
            [h.path(class_="grid", d=f"M{px(LEFT)} {px(y(value))}H{px(right)}") for value, _ in y.ticks],
            [text_at(LEFT - 7, y(value) + 4, words, "end") for value, words in y.ticks],
            [h.path(class_="tick", d=f"M{px(x(value))} {px(floor)}v4") for value, _ in x.ticks],
            [
                text_at(min(x(value), self.width - HALF_LETTER_PX * len(words)), floor + 17, words, "middle")
                for value, words in x.ticks
            ],
            h.path(class_="axis", d=f"M{px(LEFT)} {px(floor)}H{px(right)}"),
            text_at((LEFT + right) / 2, self.height - 7, self._x.label, "middle", "label"),
            h.text(
                {"text-anchor": "middle", "transform": f"translate(13 {px((TOP + floor) / 2)}) rotate(-90)"},
                class_="label",
            )[shortened(self._y.label, LABEL_CHARACTERS)],
        ]

    def _legend_node(self) -> Node:
        if not self._legend:
            return None
        return h.ul(class_="legend")[
            [
                h.li[
                    h.svg({"viewBox": "0 0 26 12", "aria-hidden": "true"}, width="26", height="12")[_sample(entry)],
                    shortened(entry.label, LABEL_CHARACTERS),
                ]
                for entry in self._legend
            ]
        ]

    def _name(self, label: str, series: int, kind: str) -> None:
        if label:
            self._legend.append(_Legend(label, series % MOST_SERIES, kind))

    def _seen(self, xs: Values, ys: Values) -> list[tuple[float | None, float | None]]:
        """Pairs, None where one is missing; those that there are decide how far the axes go."""
        pairs = list(zip(xs, ys, strict=True))
        known = [(a, b) for a, b in pairs if _finite(a) and _finite(b)]
        self._not_drawn += len(pairs) - len(known)
        self._xs += [a for a, _ in known if a is not None]
        self._ys += [b for _, b in known if b is not None]
        return [(a, b) if _finite(a) and _finite(b) else (None, None) for a, b in pairs]


# -- pieces -----------------------------------------------------------------------------------------------------------


def _path(pairs: Sequence[tuple[float | None, float | None]], x: Scale, y: Scale, step: bool) -> str:
    parts, pen_down = [], False
    for a, b in pairs:
        if a is None or b is None or not (x.shows(a) and y.shows(b)):
            pen_down = False
            continue
        if not pen_down:
            parts.append(f"M{px(x(a))} {px(y(b))}")
        else:
            parts.append(f"H{px(x(a))}V{px(y(b))}" if step else f"L{px(x(a))} {px(y(b))}")
        pen_down = True
    return "".join(parts)


def _joined(places: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{px(a)} {px(b)}" for a, b in places)


def _around(rows: Sequence[tuple[float, float, float]], x: Scale, y: Scale) -> str:
    """Along the upper ends, and back along the lower ones."""
    there = [(x(a), y(high)) for a, _, high in rows]
    return _joined(there + [(x(a), y(low)) for a, low, _ in reversed(rows)]) + "Z"


def _mark(at_x: float, at_y: float, series: int, tip: str | None) -> Element:
    """A disc, a square, a diamond or a triangle, by series."""
    shape = series % 4
    words = h.title[shortened(tip, TIP_CHARACTERS)] if tip else None
    kind = f"point s{series % MOST_SERIES}"
    if shape == 0:
        return h.circle(class_=kind, cx=px(at_x), cy=px(at_y), r="3.6")[words]
    outlines = {
        1: [(-3.3, -3.3), (3.3, -3.3), (3.3, 3.3), (-3.3, 3.3)],
        2: [(0, -4.6), (4.6, 0), (0, 4.6), (-4.6, 0)],
        3: [(0, -4.4), (4.2, 3.4), (-4.2, 3.4)],
    }
    corners = [(at_x + a, at_y + b) for a, b in outlines[shape]]
    return h.path(class_=kind, d=_joined(corners) + "Z")[words]


def _linked(mark: Element, link: str | None) -> Element:
    return mark if link is None else h.a(href=link)[mark]


def _bar(x: Scale, y: Scale, row: Sequence[Any], series: int, kind: str = "bar") -> Element:
    left, right, bottom, top, tip = row
    high, low = sorted((y(top), y(bottom)))
    width = max(x(right) - x(left) - 1, 1.0)
    words = h.title[shortened(tip, TIP_CHARACTERS)] if tip else None
    return h.rect(
        class_=f"{kind} s{series % MOST_SERIES}",
        x=px(x(left)),
        y=px(high),
        width=px(width),
        height=px(max(low - high, 0)),
    )[words]


def _whisker(x: Scale, y: Scale, row: Sequence[Any], series: int) -> Element:
    at, low, high = x(row[0]), y(row[1]), y(row[2])
    ends = f"M{px(at - 4)} {px(low)}h8M{px(at - 4)} {px(high)}h8"
    return h.path(class_=f"whisker s{series % MOST_SERIES}", d=f"M{px(at)} {px(low)}V{px(high)}{ends}")


def _sample(entry: _Legend) -> Element:
    if entry.kind == "line":
        return h.path(class_=f"line s{entry.series}", d="M1 6H25")
    if entry.kind.startswith("bar"):
        return h.rect(class_=f"{entry.kind} s{entry.series}", x="6", y="1", width="14", height="10")
    return _mark(13, 6, entry.series, None)


def _drawing(title: str, width_px: float, height_px: float) -> Element:
    size = {"viewBox": f"0 0 {px(width_px)} {px(height_px)}", "width": px(width_px), "height": px(height_px)}
    return h.svg(size, role="img", aria_label=f"{title}: the table below has the numbers")


def text_at(at_x: float, at_y: float, words: str, anchor: str, kind: str = "") -> Element:
    return h.text({"text-anchor": anchor}, class_=kind or None, x=px(at_x), y=px(at_y))[
        shortened(words, LABEL_CHARACTERS)
    ]


def _tips(tips: Sequence[str] | None, count: int) -> Sequence[str | None]:
    return [None] * count if tips is None else tips


def _finite(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)


def px(value: float) -> str:
    """A coordinate: a tenth of a pixel is enough."""
    return f"{value:.1f}".removesuffix(".0")


def thinned(count: int, most: int = MOST_POINTS) -> list[int]:
    """Places spread evenly over so many, all of them where they are few: more marks than this are one blot."""
    return list(range(count)) if count <= most else np.linspace(0, count - 1, most).round().astype(int).tolist()


# -- values by name ---------------------------------------------------------------------------------------------------

ROW_PX, TOP_PX, FOOT_PX, NAMES_PX, WIDTH_PX, NOTE_PX = 24.0, 6.0, 40.0, 190.0, 620.0, 90.0
LEVEL_PX, LETTER_PX = 16.0, 6.6
"""Room above the rows for the name of an upright line, and for a letter of a note."""
NAME_CHARACTERS = 28
SHOWN_ROWS = 30


class Named(NamedTuple):
    """One row: a name, its value (the line of an interval that holds only roughly is dashed), a word at the right."""

    name: str
    value: Value
    note: str = ""


def dots(
    title: str,
    caption: str,
    axis: Axis,
    rows: Sequence[Named],
    *,
    level: tuple[float, str] | None = None,
    over: str = "",
    on: On = "page",
) -> Plot:
    """All rows as one plot; `level` is an upright line to compare with and its name, `over` what intervals are over."""
    shown = rows[:SHOWN_ROWS]
    top = TOP_PX + (LEVEL_PX if level else 0.0)
    height = top + ROW_PX * max(len(shown), 1) + FOOT_PX
    values = [row.value for row in shown]
    known = [end for one in values for end in (one.value, one.low, one.high) if end is not None]
    end = WIDTH_PX - _note_px(shown)
    x = Scale(axis, known + ([level[0]] if level else []), NAMES_PX, end, 5)
    more = f" The first {SHOWN_ROWS} of {len(rows):,} are drawn." if len(rows) > SHOWN_ROWS else ""
    drawing = _drawing(title, WIDTH_PX, height)[
        _rows_frame(x, axis, top, height, end, level),
        [_row(row, top + ROW_PX * (place + 0.5), x, end) for place, row in enumerate(shown)],
    ]
    headers = ["", axis.label, "low", "high", ""]
    numbers = [(row.name, row.value.value, row.value.low, row.value.high, _noted(row)) for row in rows]
    return Plot(title, f"{caption}{_about_lines(values, over)}{more}", drawing, headers, numbers, on=on)


def _about_lines(values: Sequence[Value], over: str) -> str:
    """What the lines are, which of them hold only roughly, and why some rows have none."""
    if not any(one.low is not None for one in values):
        return ""
    said = f" The line is its 95 % interval{f' over {over}' if over else ''}"
    if any(one.approximate for one in values):
        said += "; where it is dashed, it holds only roughly"
    without = any(one.value is not None and one.low is None for one in values)
    return f"{said}.{' Rows without a line have no interval.' if without else ''}"


def _noted(row: Named) -> str:
    return "; ".join(part for part in (row.note, "about" if row.value.approximate else "") if part)


def _note_px(rows: Sequence[Named]) -> float:
    """Room for the longest note."""
    return max(NOTE_PX, 14 + LETTER_PX * min(max((len(row.note) for row in rows), default=0), NAME_CHARACTERS))


def _rows_frame(x: Scale, axis: Axis, top: float, height: float, end: float, level: tuple[float, str] | None) -> Node:
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
    one = row.value
    parts: list[Node] = [text_at(NAMES_PX - 10, at + 4, shortened(row.name, NAME_CHARACTERS), "end", "label")]
    if one.low is not None and one.high is not None:
        dashes = {"stroke-dasharray": "4 3"} if one.approximate else {}
        parts.append(h.path(dashes, class_="whisker s0", d=f"M{px(x(one.low))} {px(at)}H{px(x(one.high))}"))
    if one.value is None:
        parts.append(text_at(NAMES_PX + 4, at + 4, "no value", "start"))
    else:
        parts.append(h.circle(class_="point s0", cx=px(x(one.value)), cy=px(at), r="4.5"))
    parts.append(text_at(end + 8, at + 4, shortened(row.note, NAME_CHARACTERS), "start"))
    return parts
