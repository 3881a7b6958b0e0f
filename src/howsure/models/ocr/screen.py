"""What is on a screen: the texts that were read, each with its box, and the small drawn things beside them.

All places are pixels of the image as it is shown. A text knows where each of its characters stands, so that one word of
a line can be clicked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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


class Mark(NamedTuple):
    """A small drawn thing that is no text, such as an icon or a box to tick; `sign` is its shape where known."""

    box: Box
    sign: str | None = None
    colour: str | None = None


class Screen(NamedTuple):
    """A screen as it was read."""

    width: int
    height: int
    texts: Sequence[Text]
    marks: Sequence[Mark] = ()

    @property
    def line_height(self) -> float:
        """The usual height of a text here, as the measure of what is near."""
        heights = sorted(text.box.height for text in self.texts)
        return heights[len(heights) // 2] if heights else max(1.0, self.height / 40)
