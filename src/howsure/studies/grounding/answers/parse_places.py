"""All places that a text writes: brackets, two brackets as corners, named axes, and numbers after a word or a tag."""

from __future__ import annotations

import re
from typing import NamedTuple

from howsure.studies.grounding.answers.parse_context import Context, Rank, context_before
from howsure.studies.grounding.answers.parse_numbers import NUMBER, NUMBER_ENDS, coordinates
from howsure.studies.grounding.answers.readings import Span

CORNERS = 4
"""The numbers of a box: left, top, right and bottom, in this order."""


class Place(NamedTuple):
    """Somewhere that a text writes, in two numbers or four; or why these numbers are no place."""

    rank: Rank
    shape: str
    numbers: tuple[float, ...]
    spans: tuple[Span, ...]
    why_not: str | None = None
    enclosed: bool = False

    @property
    def is_box(self) -> bool:
        return len(self.numbers) == CORNERS

    @property
    def middle(self) -> tuple[float, float]:
        if not self.is_box:
            return self.numbers[0], self.numbers[1]
        left, top, right, bottom = self.numbers
        return (left + right) / 2, (top + bottom) / 2

    def holds(self, x: float, y: float) -> bool:
        """Whether a box holds a point, whichever of its corners is written first."""
        left, top, right, bottom = self.numbers
        return min(left, right) <= x <= max(left, right) and min(top, bottom) <= y <= max(top, bottom)


_BETWEEN = r"(?:\s*+[,;]\s*+|\s++)"
_ITEM = rf"[\"']?({NUMBER})[\"']?"
_MORE = rf"(?:{_BETWEEN}[\"']?{NUMBER}[\"']?)*+"
_LIST = rf"{_ITEM}{_BETWEEN}{_ITEM}(?:{_BETWEEN}{_ITEM}(?:{_BETWEEN}{_ITEM}(?:{_BETWEEN}{_ITEM})?)?)?"
"""Two numbers to five; a fifth says that there are too many, and looking for more of them costs time."""
_GROUP = re.compile(rf"[(\[{{]\s*+{_LIST}{_MORE}\s*+(?:[)\]}}]|(?=,\s*+[A-Za-z_]{{1,20}}\s*+=))")
_LONE_PAIR = re.compile(rf"\s*+[(\[]\s*+({NUMBER}),\s*+({NUMBER})\s*+[)\]]\s*+")
_JOINED = re.compile(r"\s*+(?:,|to|->|→|-|~)\s*+", re.IGNORECASE)
_UNBRACKETED = re.compile(rf"(?<![\w.,(\[{{+-]){_LIST}{NUMBER_ENDS}(?=[ \t]*+(?:[^\w\s,%×°.+-]|\.(?![0-9])|[\r\n]|\Z))")
_WHOLE = re.compile(_LIST + _MORE)
_AXIS_NAME = r"[\"']?([xy])(?:[-_ ]?coord(?:inate)?)?[\"']?\s*+(?:=|:|is\b)\s*+[\"']?"
_SIZE = rf"[\"']?\s*+[,;]?\s*+[\"']?{{}}[\"']?\s*+[=:]\s*+[\"']?({NUMBER})"
_AXES = re.compile(
    rf"(?<![A-Za-z0-9_]){_AXIS_NAME}({NUMBER})[\"']?\s*+[,;]?\s*+(?:and\s++)?(?:the\s++)?{_AXIS_NAME}({NUMBER}){NUMBER_ENDS}"
    rf"(?:{_SIZE.format('(?:w|width)')}{_SIZE.format('(?:h|height)')}{NUMBER_ENDS})?",
    re.IGNORECASE,
)
_EDGE = rf"[\"']?\s*+[=:]\s*+[\"']?({NUMBER})[\"']?\s*+[,;]?\s*+[\"']?"
_EDGES = re.compile(
    rf"(?<![A-Za-z0-9_])(?:x_?1|x_?min|left){_EDGE}(?:y_?1|y_?min|top)[\"']?\s*+[=:]\s*+[\"']?({NUMBER}){NUMBER_ENDS}"
    rf"(?:[\"']?\s*+[,;]?\s*+[\"']?(?:x_?2|x_?max|right){_EDGE}"
    rf"(?:y_?2|y_?max|bottom)[\"']?\s*+[=:]\s*+[\"']?({NUMBER}){NUMBER_ENDS})?",
    re.IGNORECASE,
)
_WRONG_COUNTS = {3: "three_numbers", 5: "too_many_numbers"}


def places(text: str) -> list[Place]:
    """Every place of a plain text, in the order of writing within each way of writing."""
    if lone := _LONE_PAIR.fullmatch(text):
        return [_place(lone, Rank.BRACKETED, "pair")]
    found: list[Place] = []
    if "(" in text or "[" in text or "{" in text:
        found += _bracketed(text)
    if ("x" in text and "y" in text) or ("X" in text and "Y" in text) or "left" in text:
        found += _by_axes(text)
    if not any(place.rank is Rank.STRUCTURED for place in found):
        found += _introduced(text)
    return found


def whole(text: str) -> Place | None:
    """The numbers that are all there is of a text, punctuation aside."""
    start = len(text) - len(text.lstrip(" \t\r\n`~\"'$"))
    end = len(text.rstrip(" \t\r\n`~\"'$.。"))
    match = _WHOLE.fullmatch(text, start, end)
    return None if match is None else _place(match, Rank.WHOLE, "numbers")


def _bracketed(text: str) -> list[Place]:
    groups = list(_GROUP.finditer(text))
    out: list[Place] = []
    first_corner: re.Match[str] | None = None
    i = 0
    while i < len(groups):
        group = groups[i]
        run = _run(text, groups, i)
        i += run
        context = context_before(text, group.start())
        if context.rank is None:
            continue
        if run == 2:
            out.append(_corners(group, groups[i - 1], context.rank, "two_corners"))
        elif run > 2:
            out += [_place(one, context.rank, "pair") for one in groups[i - run : i]]
        elif context.corner == "last" and first_corner is not None:
            out[-1] = _corners(first_corner, group, out[-1].rank, "named_corners")
        else:
            out.append(_in_brackets(group, context))
        first_corner = group if run == 1 and context.corner == "first" and group.lastindex == 2 else None
    return out


def _run(text: str, groups: list[re.Match[str]], first: int) -> int:
    """How many pairs stand in a row from here: two in a row are the corners of a box."""
    length = 1
    while (
        first + length < len(groups)
        and groups[first + length - 1].lastindex == groups[first + length].lastindex == 2
        and _JOINED.fullmatch(text, groups[first + length - 1].end(), groups[first + length].start())
    ):
        length += 1
    return length


def _in_brackets(group: re.Match[str], context: Context) -> Place:
    rank = context.rank or Rank.BRACKETED
    if context.corner == "first" and group.lastindex == 2:
        return _place(group, rank, "top_left")
    return _place(group, rank if context.corner is None else Rank.BRACKETED, "pair" if group.lastindex == 2 else "box")


def _corners(first: re.Match[str], second: re.Match[str], rank: Rank, shape: str) -> Place:
    written = (first[1], first[2], second[1], second[2])
    spans = (first.span(1), first.span(2), second.span(1), second.span(2))
    return _checked(rank, shape, written, spans)


def _place(match: re.Match[str], rank: Rank, shape: str, enclosed: bool = False) -> Place:
    count = match.lastindex or 0
    if count == 2:
        return _checked(rank, shape, (match[1], match[2]), (match.span(1), match.span(2)), enclosed)
    written = tuple(match[i] for i in range(1, count + 1))
    spans = tuple(match.span(i) for i in range(1, count + 1))
    if count in _WRONG_COUNTS:
        return Place(rank, shape, (), spans, _WRONG_COUNTS[count])
    if count == CORNERS and _may_be_decimals(match):
        return Place(rank, shape, (), spans, "mixed_separators")
    return _checked(rank, shape, written, spans, enclosed)


def _checked(
    rank: Rank, shape: str, written: tuple[str, ...], spans: tuple[Span, ...], enclosed: bool = False
) -> Place:
    numbers = coordinates(written)
    if numbers is None:
        return Place(rank, shape, (), spans, "absurd_number")
    return Place(rank, shape, numbers, spans, None, enclosed)


def _may_be_decimals(match: re.Match[str]) -> bool:
    """`0,45, 0,32` and `0,45; 0,32` are two numbers with decimal commas as likely as four."""
    first, second, third = (match.string[match.end(i) : match.start(i + 1)] for i in (1, 2, 3))
    return first == third == "," and second != ","


def _by_axes(text: str) -> list[Place]:
    out = []
    for match in _AXES.finditer(text):
        one, two = match[1].lower(), match[3].lower()
        if one == two:
            continue
        order = (2, 4) if one == "x" else (4, 2)
        wide = (*order, 5, 6) if match[5] is not None else order
        place = _checked(
            Rank.STRUCTURED, "axes", tuple(match[i] for i in wide), tuple(match.span(i) for i in wide), True
        )
        out.append(_from_size(place) if place.is_box else place)
    for match in _EDGES.finditer(text):
        out += _edges(match)
    return out


def _from_size(place: Place) -> Place:
    """A corner with width and height, as a box."""
    x, y, width, height = place.numbers
    return place._replace(shape="axes_and_size", numbers=(x, y, x + width, y + height))


def _edges(match: re.Match[str]) -> list[Place]:
    """Four named edges are a box, except in the tag <points>, which counts points."""
    counted = match.string.rfind("<points", max(0, match.start() - 24), match.start()) >= 0
    wanted: list[tuple[int, ...]] = [(1, 2), (3, 4)] if counted else [(1, 2, 3, 4)]
    if match[3] is None:
        wanted = [(1, 2)] if counted else []
    return [
        _checked(Rank.STRUCTURED, "edges", tuple(match[i] for i in one), tuple(match.span(i) for i in one), True)
        for one in wanted
    ]


def _introduced(text: str) -> list[Place]:
    out = []
    for match in _UNBRACKETED.finditer(text):
        context = context_before(text, match.start())
        if context.rank is None or not context.introduces:
            continue
        if context.enclosed or "," in text[match.end(1) : match.start(2)]:
            shape = "pair" if match.lastindex == 2 else "box"
            out.append(_place(match, context.rank, f"unbracketed_{shape}", context.enclosed))
    return out
