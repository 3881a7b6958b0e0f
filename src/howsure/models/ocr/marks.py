"""Small drawn things on a screen: boxes to tick, arrows, icons, plus and minus signs.

A reader of texts does not see them, and instructions often mean them ("the checkbox on the left of …"). They are taken
to be islands of contrast about as high as a line of text, and a few signs are told apart by where their ink lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from howsure.models.ocr.screen import Box, Mark, Text

CONTRAST = 22
"""By how much a pixel must differ from its neighbours to be ink, of 255."""

LEAST_PX, MOST_LINES = 5, 4.0
MOST_MARKS = 2000
LONG_LINES = 3.0
GRID = 9


def find_marks(pixels: NDArray[np.uint8], texts: Sequence[Text], line_height: float) -> list[Mark]:
    """The marks of an RGB image, from top to bottom; what lies on a text that was read is none."""
    import cv2

    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
    ink = _without_frames(_ink(pixels), line_height)
    for text in texts:
        if len(text.words.strip()) > 1:
            left, top, right, bottom = (int(v) for v in text.box)
            ink[max(0, top) : bottom, max(0, left) : right] = 0
    _, _, stats, _ = cv2.connectedComponentsWithStats(ink, connectivity=8)
    most = max(24.0, MOST_LINES * line_height)
    boxes = [_box(row) for row in stats[1:] if _is_mark(row, most)][:MOST_MARKS]
    marks = [Mark(box, "frame") for box in _frames(pixels, line_height)]
    marks += [Mark(box, _sign(grey, box), _colour(pixels, box)) for box in boxes]
    return sorted(marks, key=lambda mark: (mark.box.top, mark.box.left))


def _ink(pixels: NDArray[np.uint8]) -> Any:
    """Where neighbouring pixels differ, grown by a pixel so that the strokes of one icon hang together."""
    import cv2

    kernel = np.ones((3, 3), np.uint8)
    steps = cv2.morphologyEx(pixels, cv2.MORPH_GRADIENT, kernel).max(axis=2)
    return (steps > CONTRAST).astype(np.uint8)


def _without_frames(ink: Any, line_height: float) -> Any:
    """Long straight lines frame lists and windows, and would make one island of everything that touches them."""
    import cv2

    reach = max(30, round(LONG_LINES * line_height))
    across = cv2.morphologyEx(ink, cv2.MORPH_OPEN, np.ones((1, reach), np.uint8))
    down = cv2.morphologyEx(ink, cv2.MORPH_OPEN, np.ones((reach, 1), np.uint8))
    return ink & ~(across | down)


def _frames(pixels: NDArray[np.uint8], line_height: float) -> list[Box]:
    """Rims about as high as a field to write in, and wider than high."""
    import cv2

    _, _, stats, _ = cv2.connectedComponentsWithStats(_ink(pixels), connectivity=8)
    return [_box(row) for row in stats[1:] if _is_frame(row, line_height)][:MOST_MARKS]


def _is_frame(row: NDArray[np.int32], line_height: float) -> bool:
    _, _, width, height, area = (int(v) for v in row)
    rim = 2.0 * (width + height)
    return line_height <= height <= 3.2 * line_height and width >= 1.5 * height and rim < area < 0.6 * width * height


def _is_mark(row: NDArray[np.int32], most: float) -> bool:
    _, _, width, height, area = (int(v) for v in row)
    return LEAST_PX <= max(width, height) <= most and min(width, height) >= 3 and area >= 8


def _box(row: NDArray[np.int32]) -> Box:
    left, top, width, height = (float(v) for v in row[:4])
    return Box(left, top, left + width, top + height)


# -- what a mark looks like -------------------------------------------------------------------------------------------


def _sign(grey: NDArray[np.uint8], box: Box) -> str | None:
    """The sign that a mark shows, by itself or inside a frame."""
    for inset in (0.0, 0.28):
        across, down = box.width * inset, box.height * inset
        patch = grey[
            int(box.top + down) : max(int(box.top + down) + 1, round(box.bottom - down)),
            int(box.left + across) : max(int(box.left + across) + 1, round(box.right - across)),
        ]
        sign = _shape(patch)
        if sign is not None:
            return sign
    return None


def _shape(patch: NDArray[np.uint8]) -> str | None:
    ink = _cropped(patch)
    if ink is None:
        return None
    height, width = ink.shape
    if width >= 2.2 * height and ink.mean() > 0.6:
        return "minus" if width >= 5 else None
    if not 0.6 <= width / height <= 2.3 or min(width, height) < 4:
        return None
    cells = _on_grid(ink)
    if _is_plus(cells):
        return "plus"
    if _is_cross(cells):
        return "cross"
    return "down" if _points_down(cells) else None


def _cropped(patch: NDArray[np.uint8]) -> NDArray[np.bool_] | None:
    """Where the patch differs from its own rim, cut to what is there."""
    if patch.size < 12:
        return None
    rim = np.concatenate([patch[0], patch[-1], patch[:, 0], patch[:, -1]]).astype(np.int16)
    difference = np.abs(patch.astype(np.int16) - np.int16(np.median(rim)))
    most = int(difference.max())
    if most < CONTRAST:
        return None
    ink: NDArray[np.bool_] = difference > most * 0.45
    rows, columns = np.flatnonzero(ink.any(axis=1)), np.flatnonzero(ink.any(axis=0))
    return ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


def _on_grid(ink: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The share of ink in each cell of a 9 by 9 grid."""
    height, width = ink.shape
    rows = (np.arange(GRID * 4) * height / (GRID * 4)).astype(int)
    columns = (np.arange(GRID * 4) * width / (GRID * 4)).astype(int)
    fine = ink[np.ix_(rows, columns)].astype(np.float64)
    shares: NDArray[np.float64] = fine.reshape(GRID, 4, GRID, 4).mean(axis=(1, 3))
    return shares


def _is_plus(cells: NDArray[np.float64]) -> bool:
    middle = slice(3, 6)
    bars = min(float(cells[middle].max(axis=0).mean()), float(cells[:, middle].max(axis=1).mean()))
    return bars > 0.75 and _corners(cells) < 0.08


def _corners(cells: NDArray[np.float64]) -> float:
    return float(np.mean([cells[:3, :3], cells[:3, -3:], cells[-3:, :3], cells[-3:, -3:]]))


def _is_cross(cells: NDArray[np.float64]) -> bool:
    near = np.abs(np.subtract.outer(np.arange(GRID), np.arange(GRID))) <= 1
    first = np.where(near, cells, 0).max(axis=1)
    second = np.where(near[::-1], cells, 0).max(axis=1)
    sides = np.mean([cells[3:6, 0], cells[3:6, -1], cells[0, 3:6], cells[-1, 3:6]])
    return min(first.mean(), second.mean()) > 0.65 and float(sides) < 0.15


def _points_down(cells: NDArray[np.float64]) -> bool:
    """A triangle or a hook: wide above, one point below, nothing in the lower corners."""
    lower = np.mean([cells[-3:, :3], cells[-3:, -3:]])
    upper = min(cells[:3, :3].max(), cells[:3, -3:].max())
    return bool(upper > 0.5 and lower < 0.06 and cells[-2:, 3:6].max() > 0.5)


def _colour(pixels: NDArray[np.uint8], box: Box) -> str | None:
    """The name of the colour that most coloured pixels of a mark have."""
    import cv2

    patch = pixels[int(box.top) : int(box.bottom), int(box.left) : int(box.right)]
    hue, saturation, value = (cv2.cvtColor(patch, cv2.COLOR_RGB2HSV)[..., i].ravel() for i in range(3))
    vivid = (saturation > 90) & (value > 60)
    if vivid.sum() < max(6, 0.05 * hue.size):
        return None
    names = np.array(["red", "orange", "yellow", "green", "blue", "purple", "pink", "red"])
    counts = np.bincount(np.searchsorted([6, 20, 34, 85, 130, 150, 170], hue[vivid], side="right"), minlength=8)
    counts[0] += counts[7]
    return str(names[int(counts[:7].argmax())])
