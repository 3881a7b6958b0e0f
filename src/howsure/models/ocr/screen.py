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

    def shares_row(self, other: Box) -> float:
        """How much of the lower of two boxes stands at the height of the other, from 0 to 1."""
        shared = min(self.bottom, other.bottom) - max(self.top, other.top)
        return max(0.0, shared) / max(1.0, min(self.height, other.height))

    def gap(self, other: Box) -> float:
        """The empty way between two boxes; 0 where they touch or overlap."""
        across = max(0.0, other.left - self.right, self.left - other.right)
        down = max(0.0, other.top - self.bottom, self.top - other.bottom)
        return math.hypot(across, down)


class Text(NamedTuple):
    """A text as it was read: `places` holds the middle of each character, from left to right, or nothing."""

    words: str
    box: Box
    places: tuple[float, ...] = ()

    def part(self, first: int, last: int) -> Text:
        """The characters from `first` up to, not including, `last`."""
        count, box = len(self.words), self.box
        if len(self.places) == count:
            half = box.width / count / 2
            left = box.left if first == 0 else max(box.left, self.places[first] - half)
            right = box.right if last == count else min(box.right, self.places[last - 1] + half)
        else:
            left, right = (box.left + at * box.width / max(1, count) for at in (first, last))
        return Text(self.words[first:last], box._replace(left=left, right=max(left, right)), self.places[first:last])


WIDE_GAP = 1.25
"""Neighbouring characters that stand further apart than this, in heights of their line, belong to different things."""


def apart(text: Text) -> list[Text]:
    """The text in pieces, where it holds things that merely stand in one row, such as the letters of a toolbar."""
    shown = [i for i, character in enumerate(text.words) if not character.isspace()]
    if not shown or len(text.places) != len(text.words):
        return [text] if shown else []
    cuts = [(i, j) for i, j in pairwise(shown) if text.places[j] - text.places[i] > WIDE_GAP * text.box.height]
    firsts, lasts = [shown[0], *(j for _, j in cuts)], [*(i for i, _ in cuts), shown[-1]]
    return [text.part(first, last + 1) for first, last in zip(firsts, lasts, strict=True)]


class Mark(NamedTuple):
    """A small drawn thing that is no text, such as an icon or a box to tick; `sign` is its shape where known."""

    box: Box
    sign: str | None = None


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
