"""How well a place stands in a relation to an anchor, from 0 to 1, and where such a place is if nothing is there."""

from __future__ import annotations

from howsure.models.ocr.screen import Box

DIRECTED = frozenset({"left_of", "right_of", "above", "below", "beside", "for", "left_end", "right_end", "between"})
"""Relations that say on which side of the anchor the target stands."""

_OVERLAP = 0.35


def stands(relation: str, box: Box, anchor: Box, line: float) -> float:
    """How well `box` stands in the relation to `anchor`; `line` is the height of a line, the measure of near."""
    if relation == "left_of":
        return _beside(box, anchor, line) if box.x < anchor.left + line / 2 else 0.0
    if relation == "right_of":
        return _beside(box, anchor, line) if box.x > anchor.right - line / 2 else 0.0
    if relation == "above":
        return _stacked(box, anchor, line) if box.y < anchor.top + line / 4 else 0.0
    if relation == "below":
        return _stacked(anchor, box, line) if box.y > anchor.bottom - line / 4 else 0.0
    if relation == "between":
        return _within(box, anchor, line)
    if relation == "beside":
        return max(
            stands("right_of", box, anchor, line),
            0.9 * stands("left_of", box, anchor, line),
            0.3 * stands("above", box, anchor, line),
            0.3 * stands("below", box, anchor, line),
        )
    if relation == "for":
        return max(stands("right_of", box, anchor, line), 0.9 * stands("left_of", box, anchor, line))
    if relation in ("left_end", "right_end"):
        return _at_end(relation, box, anchor, line)
    return _inside(box, anchor, line)


def _near(gap: float, line: float) -> float:
    """1 where things touch, one half at 12 lines' distance."""
    return 1.0 / (1.0 + max(0.0, gap) / (12.0 * line))


def _beside(box: Box, anchor: Box, line: float) -> float:
    shared = box.shares_row(anchor)
    return shared * _near(box.gap(anchor), line) if shared >= _OVERLAP else 0.0


def _stacked(upper: Box, lower: Box, line: float) -> float:
    """Things one over the other; a list that is indented under its heading still stands under it."""
    aside = max(0.0, upper.left - lower.right, lower.left - upper.right)
    return _near(lower.top - upper.bottom, line) * _near(3.0 * aside, line)


def _at_end(relation: str, box: Box, anchor: Box, line: float) -> float:
    """At one end of a wide thing of which only the words are known: in their row, or a little above it."""
    if box.bottom < anchor.top - 2 * line or box.top > anchor.bottom + 2 * line:
        return 0.0
    right = relation == "right_end"
    if (right and box.x < anchor.right) or (not right and box.x > anchor.left):
        return 0.0
    off = abs(box.y - anchor.y) / line
    return 1.0 / (1.0 + 0.5 * off) / (1.0 + box.gap(anchor) / (60.0 * line))


def _inside(box: Box, anchor: Box, line: float) -> float:
    """In something whose title is the anchor: near it, rather under it than over it."""
    nearness = 1.0 / (1.0 + box.gap(anchor) / (25.0 * line))
    return nearness if box.y >= anchor.top - line else 0.75 * nearness


def _within(box: Box, anchor: Box, line: float) -> float:
    """Inside the room between two anchors, which is given as one box; best in its middle."""
    across = abs(box.x - anchor.x) / max(line, anchor.width / 2)
    down = abs(box.y - anchor.y) / max(line, anchor.height / 2)
    return max(0.0, 1.0 - 0.5 * across) * max(0.0, 1.0 - 0.5 * down) if max(across, down) <= 1.0 else 0.0


def displaced(relation: str, anchor: Box, line: float) -> tuple[float, float]:
    """Where to click when nothing lies on that side of the anchor: one line away from it."""
    if relation in ("left_of", "left_end"):
        return anchor.left - line, anchor.y
    if relation in ("right_of", "right_end", "beside", "for"):
        return anchor.right + line, anchor.y
    if relation == "above":
        return anchor.x, anchor.top - line
    if relation == "below":
        return anchor.x, anchor.bottom + line
    return anchor.x, anchor.y
