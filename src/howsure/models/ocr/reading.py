"""Reading a screen: texts by RapidOCR, with the places of their characters, and the small drawn things between them.

The detector finds small texts and single letters better in an enlarged image, so that a screen is enlarged before it is
read; a very large one is reduced, so that no image takes more than a known time and memory.

Boxes to tick, switches, icons, the rims of fields and signs such as + are no texts, and instructions often mean them
("the checkbox on the left of …"). They are taken to be islands of contrast, and a few signs are told apart by where
their ink lies.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from howsure.errors import MissingExtra, ModelError
from howsure.models.builtin import sha256_of
from howsure.models.ocr.screen import Box, Mark, Screen, Text, apart

PACKAGE = "rapidocr-onnxruntime"
ENLARGED = 1.5
LONGEST_SIDE_PX = 3000
SHORTEST_SIDE_PX = 64
"""A narrower image is set into a margin of its own colour: the detector needs room around a text. By itself it would
enlarge such an image until the shorter side has 736 pixels, however long that makes the other."""

MOST_THREADS = 8
OPTIONS: dict[str, Any] = {
    "use_cls": False,
    "text_score": 0.5,
    "max_side_len": LONGEST_SIDE_PX,
    "det_limit_side_len": SHORTEST_SIDE_PX,
}


class ScreenReader:
    """RapidOCR's detector and recogniser. They are loaded when the first screen is read."""

    def load(self) -> None:
        _ = self.engine

    def close(self) -> None:
        """Let go of the networks; the next screen loads them again."""
        self.__dict__.pop("engine", None)

    def fingerprint(self) -> dict[str, Any]:
        """What makes these readings these readings."""
        return {
            "package": f"{PACKAGE} {metadata.version(PACKAGE)}",
            "weights": {path.name: sha256_of(path) for path in _weights()},
            "options": {**OPTIONS, "enlarged": ENLARGED},
        }

    @cached_property
    def engine(self) -> Any:
        rapidocr = _rapidocr()
        for name in ("RapidOCR", "OrtInferSession"):
            logging.getLogger(name).setLevel(logging.ERROR)
        return rapidocr.RapidOCR(intra_op_num_threads=_threads(), inter_op_num_threads=1, **OPTIONS)

    def read(self, image: Any) -> Screen:
        """What stands on an RGB image of Pillow."""
        pixels = np.asarray(image)
        height, width = pixels.shape[:2]
        shown, scale = _scaled(pixels)
        rows, _ = self.engine(np.ascontiguousarray(shown[:, :, ::-1]), return_word_box=True)
        texts = [piece for row in rows or () for piece in apart(_text(row, scale))]
        texts = [text for text in texts if text.box.left < width and text.box.top < height]
        line_height = Screen(width, height, texts).line_height
        return Screen(width, height, texts, find_marks(pixels, texts, line_height))


def _rapidocr() -> Any:
    try:
        import rapidocr_onnxruntime
    except ModuleNotFoundError as error:
        raise MissingExtra("model 'ocr'", "gui", error.name or PACKAGE) from error
    except ImportError as error:
        reason = " ".join(str(error).split())[:160]
        raise ModelError(
            f"model 'ocr' cannot load OpenCV ({reason}): pip uninstall -y opencv-python, "
            "then pip install --force-reinstall opencv-python-headless"
        ) from error
    return rapidocr_onnxruntime


def _threads() -> int:
    """As many as this process may use, and no more than these small networks can."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(usable, MOST_THREADS)


def _weights() -> list[Path]:
    files = metadata.files(PACKAGE) or []
    return sorted(Path(str(file.locate())) for file in files if file.suffix == ".onnx" and "_cls_" not in file.name)


def _scaled(pixels: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], float]:
    """The image as the detector gets it, and by how much it is larger."""
    import cv2

    height, width = pixels.shape[:2]
    scale = min(ENLARGED, LONGEST_SIDE_PX / max(height, width))
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    method = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    shown: NDArray[np.uint8] = cv2.resize(pixels, size, interpolation=method)
    right, bottom = max(0, SHORTEST_SIDE_PX - size[0]), max(0, SHORTEST_SIDE_PX - size[1])
    if right or bottom:
        shown = cv2.copyMakeBorder(shown, 0, bottom, 0, right, cv2.BORDER_REPLICATE)
    return shown, scale


def _text(row: Sequence[Any], scale: float) -> Text:
    corners, words, letters = row[0], str(row[1]), row[3]
    across, down = [c[0] / scale for c in corners], [c[1] / scale for c in corners]
    places = tuple(sum(corner[0] for corner in letter) / 4 / scale for letter in letters)
    known = len(places) == len(words)
    return Text(words, Box(min(across), min(down), max(across), max(down)), places if known else ())


# -- drawn things -----------------------------------------------------------------------------------------------------

CONTRAST = 22
"""By how much a pixel must differ from its neighbours to be ink, of 255."""

LEAST_PX, MOST_LINES = 5, 4.0
MOST_MARKS = 2000
LONG_LINES = 3.0
GRID = 9


def find_marks(pixels: NDArray[np.uint8], texts: Sequence[Text], line_height: float) -> list[Mark]:
    """The marks of an RGB image, from top to bottom; what lies on a text that was read is none."""
    import cv2

    # neighbours that differ, grown by a pixel so that the strokes of one icon hang together
    ink = (cv2.morphologyEx(pixels, cv2.MORPH_GRADIENT, _block(3, 3)).max(axis=2) > CONTRAST).astype(np.uint8)
    marks = [Mark(box, "frame") for box, area in _islands(ink) if _is_frame(box, area, line_height)][:MOST_MARKS]
    reach = max(30, round(LONG_LINES * line_height))  # long lines make one island of everything that touches them
    for line in (_block(1, reach), _block(reach, 1)):
        ink &= ~cv2.morphologyEx(ink, cv2.MORPH_OPEN, line)
    for text in texts:
        if len(text.words) > 1:
            left, top, right, bottom = (max(0, int(edge)) for edge in text.box)
            ink[top:bottom, left:right] = 0
    most = max(24.0, MOST_LINES * line_height)
    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
    boxes = [box for box, area in _islands(ink) if _is_mark(box, area, most)][:MOST_MARKS]
    marks += [Mark(box, _sign(grey, box)) for box in boxes]
    return sorted(marks, key=lambda mark: (mark.box.top, mark.box.left))


def _block(height: int, width: int) -> NDArray[np.uint8]:
    return np.ones((height, width), np.uint8)


def _islands(ink: Any) -> list[tuple[Box, float]]:
    """What hangs together: its box and how much of it is ink."""
    import cv2

    _, _, stats, _ = cv2.connectedComponentsWithStats(ink, connectivity=8)
    rows = stats[1:].astype(float).tolist()
    return [(Box(left, top, left + width, top + height), area) for left, top, width, height, area in rows]


def _is_frame(box: Box, area: float, line_height: float) -> bool:
    """A rim about as high as a field to write in, and wider than high."""
    rim = 2 * (box.width + box.height)
    fits = line_height <= box.height <= 3.2 * line_height and box.width >= 1.5 * box.height
    return fits and rim < area < 0.6 * box.width * box.height


def _is_mark(box: Box, area: float, most: float) -> bool:
    return LEAST_PX <= max(box.width, box.height) <= most and min(box.width, box.height) >= 3 and area >= 8


def _sign(grey: NDArray[np.uint8], box: Box) -> str | None:
    """The sign that a mark shows."""
    ink = _cropped(grey[int(box.top) : int(box.bottom), int(box.left) : int(box.right)])
    if ink is None:
        return None
    height, width = ink.shape
    if width >= 2.2 * height and ink.mean() > 0.6:
        return "minus" if width >= 5 else None
    if not 0.6 <= width / height <= 2.3 or min(width, height) < 4:
        return None
    cells = _on_grid(ink)
    return "plus" if _is_plus(cells) else "cross" if _is_cross(cells) else None


def _cropped(patch: NDArray[np.uint8]) -> NDArray[np.bool_] | None:
    """Where the patch differs from its own rim, cut to what is there."""
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
    rows, columns = ((np.arange(GRID * 4) * length / (GRID * 4)).astype(int) for length in ink.shape)
    fine = ink[np.ix_(rows, columns)].astype(np.float64)
    shares: NDArray[np.float64] = fine.reshape(GRID, 4, GRID, 4).mean(axis=(1, 3))
    return shares


def _is_plus(cells: NDArray[np.float64]) -> bool:
    middle = slice(3, 6)
    bars = min(float(cells[middle].max(axis=0).mean()), float(cells[:, middle].max(axis=1).mean()))
    corners = float(np.mean([cells[:3, :3], cells[:3, -3:], cells[-3:, :3], cells[-3:, -3:]]))
    return bars > 0.75 and corners < 0.08


def _is_cross(cells: NDArray[np.float64]) -> bool:
    near = np.abs(np.subtract.outer(np.arange(GRID), np.arange(GRID))) <= 1
    strokes = [np.where(band, cells, 0).max(axis=1).mean() for band in (near, near[::-1])]
    sides = np.mean([cells[3:6, 0], cells[3:6, -1], cells[0, 3:6], cells[-1, 3:6]])
    return min(strokes) > 0.65 and float(sides) < 0.15
