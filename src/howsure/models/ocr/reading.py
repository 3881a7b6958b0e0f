"""Reading a screen with RapidOCR: texts with the places of their characters, and the marks between them.

The detector finds small texts and single letters better in an enlarged image, so that a screen is enlarged before it is
read; a very large one is reduced, so that no image takes more than a known time and memory.
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
from howsure.models.ocr.marks import find_marks
from howsure.models.ocr.screen import Box, Screen, Text, apart

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
        texts = [text for text in texts if text.words.strip() and text.box.left < width and text.box.top < height]
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
    corners, words, certainty, letters = row[0], str(row[1]), float(row[2]), row[3]
    across, down = [c[0] / scale for c in corners], [c[1] / scale for c in corners]
    places = tuple(sum(corner[0] for corner in letter) / 4 / scale for letter in letters)
    known = len(places) == len(words)
    return Text(words, Box(min(across), min(down), max(across), max(down)), certainty, places if known else ())
