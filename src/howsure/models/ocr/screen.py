"""What is on a screen: the texts that were read, each with its box, and the small drawn things beside them.

All places are pixels of the image as it is shown. A text knows where each of its characters stands, so that one word of
a line can be clicked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple


class Box(NamedTuple):
    """A rectangle with upright sides."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def x(self) -> float:
        return (self.left + self.right) / 2

    @property
    def y(self) -> float:
        return (self.top + self.bottom) / 2

    @property
    def width(self) -> float:
        return self.right - self.left

    @property
    def height(self) -> float:
        return self.bottom - self.top

    def joined(self, other: Box) -> Box:
        return Box(
            min(self.left, other.left),
            min(self.top, other.top),
            max(self.right, other.right),
            max(self.bottom, other.bottom),
        )

    def shares_row(self, other: Box) -> float:
        """How much of the lower of two boxes stands at the height of the other, from 0 to 1."""
        shared = min(self.bottom, other.bottom) - max(self.top, other.top)
        return max(0.0, shared) / max(1.0, min(self.height, other.height))

    def shares_column(self, other: Box) -> float:
        """How much of the narrower of two boxes stands above or below the other, from 0 to 1."""
        shared = min(self.right, other.right) - max(self.left, other.left)
        return max(0.0, shared) / max(1.0, min(self.width, other.width))

    def gap(self, other: Box) -> float:
        """The empty way between two boxes; 0 where they touch or overlap."""
        across = max(0.0, other.left - self.right, self.left - other.right)
        down = max(0.0, other.top - self.bottom, self.top - other.bottom)
        return math.hypot(across, down)


class Text(NamedTuple):
    """A text as it was read: `places` holds the middle of each character, from left to right, or nothing."""

    words: str
    box: Box
    certainty: float = 1.0
    places: tuple[float, ...] = ()
    seams: tuple[int, ...] = ()
    """Where texts were put together: only a name that reaches across one of these counts here."""

    def part(self, first: int, last: int) -> Box:
        """The box of the characters from `first` up to, not including, `last`."""
        if len(self.places) == len(self.words) and len(self.words) > 1:
            half = self.box.width / len(self.words) / 2
            left = self.box.left if first == 0 else max(self.box.left, self.places[first] - half)
            right = self.box.right if last == len(self.words) else min(self.box.right, self.places[last - 1] + half)
        else:
            step = self.box.width / max(1, len(self.words))
            left, right = self.box.left + first * step, self.box.left + last * step
        return self.box._replace(left=left, right=max(left, right))


WIDE_GAP, WIDER_GAP, USUAL_GAPS = 0.95, 1.25, 2.4
"""Neighbouring characters belong to different things where they stand further apart than the first, in heights of their
line, and than so many usual gaps of that line; or further than the second in any case."""


def apart(text: Text) -> list[Text]:
    """The text in pieces, where it holds things that merely stand in one row, such as the letters of a toolbar."""
    places, height = text.places, text.box.height
    if len(places) != len(text.words) or text.box.width < height:
        return [text]
    shown = [i for i, character in enumerate(text.words) if not character.isspace()]
    gaps = [(places[i] - places[before], i) for before, i in pairwise(shown)]
    usual = sorted(gap for gap, _ in gaps)[len(gaps) // 2] if gaps else 0.0
    least = min(WIDER_GAP * height, max(WIDE_GAP * height, USUAL_GAPS * usual))
    cuts = [i for gap, i in gaps if gap > least]
    edges = [0, *cuts, len(places)]
    pieces = [_between(text, first, last) for first, last in pairwise(edges)]
    return [piece for piece in pieces if piece.words]


def _between(text: Text, first: int, last: int) -> Text:
    while last > first and text.words[last - 1].isspace():
        last -= 1
    while first < last and text.words[first].isspace():
        first += 1
    if first == 0 and last == len(text.words):
        return text
    half = text.box.height / 2.5
    left = text.box.left if first == 0 else text.places[first] - half if first < last else text.box.right
    right = text.box.right if last == len(text.words) else text.places[last - 1] + half if first < last else left
    return Text(
        text.words[first:last], text.box._replace(left=left, right=right), text.certainty, text.places[first:last]
    )


class Mark(NamedTuple):
    """A small drawn thing that is no text, such as an icon or a box to tick; `sign` is its shape where known."""

    box: Box
    sign: str | None = None
    colour: str | None = None


@dataclass(frozen=True)
class Screen:
    """A screen as it was read."""

    width: int
    height: int
    texts: Sequence[Text]
    marks: Sequence[Mark] = ()

    @cached_property
    def line_height(self) -> float:
        """The usual height of a text here, as the measure of what is near."""
        heights = sorted(text.box.height for text in self.texts)
        return max(1.0, heights[len(heights) // 2]) if heights else max(1.0, self.height / 40)

    @cached_property
    def spelled(self) -> Sequence[Text]:
        """The texts, and those that stand so close after or under one another that they may be one."""
        texts = list(self.texts)
        for first in self.texts:
            row = first
            for _ in range(MOST_JOINED):
                after = _next_in_row(row, self.texts)
                if after is None:
                    break
                row = _one(row, after)
                texts.append(row)
            under = _next_line(first, self.texts)
            if under is not None:
                texts.append(_one(first, under))
        return texts


MOST_JOINED = 3


def _one(first: Text, second: Text) -> Text:
    words = f"{first.words} {second.words}"
    seams = (*first.seams, len(first.words))
    places: tuple[float, ...] = ()
    if second.box.left >= first.box.x and all(len(one.places) == len(one.words) for one in (first, second)):
        places = (*first.places, (first.box.right + second.box.left) / 2, *second.places)
    return Text(words, first.box.joined(second.box), min(first.certainty, second.certainty), places, seams)


def _next_in_row(text: Text, texts: Sequence[Text]) -> Text | None:
    reach = 2.2 * text.box.height
    near = [
        other
        for other in texts
        if -3 <= other.box.left - text.box.right <= reach and other.box.shares_row(text.box) > 0.6
    ]
    return min(near, key=lambda other: other.box.left, default=None)


def _next_line(text: Text, texts: Sequence[Text]) -> Text | None:
    height = text.box.height
    near = [
        other
        for other in texts
        if -0.3 * height <= other.box.top - text.box.bottom <= 0.8 * height
        and other is not text
        and other.box.shares_column(text.box) > 0.6
    ]
    return min(near, key=lambda other: other.box.top, default=None)
