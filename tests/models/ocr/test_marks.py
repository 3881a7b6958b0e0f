"""Small drawn things are found, and a few signs told apart, on screens drawn here."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from howsure.models.ocr.reading import find_marks
from howsure.models.ocr.screen import Box, Mark, Text

pytest.importorskip("cv2")
Image = pytest.importorskip("PIL.Image")
ImageDraw = pytest.importorskip("PIL.ImageDraw")

LINE = 18.0
COLOURS = [("white", "black"), ("black", "white"), ("#dddddd", "#555555"), ("#3584e4", "white")]


def marks_of(
    draw: Callable[[ImageDraw.ImageDraw], None], ground: str = "white", texts: tuple[Text, ...] = ()
) -> list[Mark]:
    image = Image.new("RGB", (300, 200), ground)
    draw(ImageDraw.Draw(image))
    return find_marks(np.asarray(image), texts, LINE)


def plus(canvas: ImageDraw.ImageDraw, ink: str) -> None:
    canvas.rectangle((100, 106, 113, 107), fill=ink)
    canvas.rectangle((106, 100, 107, 113), fill=ink)


def minus(canvas: ImageDraw.ImageDraw, ink: str) -> None:
    canvas.rectangle((100, 105, 113, 107), fill=ink)


def cross(canvas: ImageDraw.ImageDraw, ink: str) -> None:
    canvas.line((100, 100, 112, 112), fill=ink, width=2)
    canvas.line((100, 112, 112, 100), fill=ink, width=2)


def ring(canvas: ImageDraw.ImageDraw, ink: str) -> None:
    canvas.ellipse((100, 100, 114, 114), outline=ink, width=2)


@pytest.mark.parametrize(
    ("draw", "sign"),
    [(plus, "plus"), (minus, "minus"), (cross, "cross"), (ring, None)],
    ids=["plus", "minus", "cross", "ring"],
)
@pytest.mark.parametrize(("ground", "ink"), COLOURS)
def test_signs(draw: Callable[[ImageDraw.ImageDraw, str], None], sign: str | None, ground: str, ink: str) -> None:
    (found,) = marks_of(lambda canvas: draw(canvas, ink), ground)
    assert found.sign == sign
    assert abs(found.box.x - 107) < 3
    assert abs(found.box.y - 106.5) < 4


def test_a_box_that_touches_a_long_frame_is_still_found() -> None:
    def tree(canvas: ImageDraw.ImageDraw) -> None:
        canvas.rectangle((50, 10, 280, 190), outline="black")
        canvas.rectangle((52, 90, 63, 101), fill="#888888")

    assert any(abs(mark.box.x - 58) < 4 and abs(mark.box.y - 96) < 4 for mark in marks_of(tree))


def test_what_was_read_is_no_mark() -> None:
    read = Text("word", Box(95, 95, 120, 120))
    assert marks_of(lambda canvas: plus(canvas, "black"), texts=(read,)) == []
    assert len(marks_of(lambda canvas: plus(canvas, "black"), texts=(read._replace(words="+"),))) == 1


def test_fields_have_rims() -> None:
    found = marks_of(lambda canvas: canvas.rectangle((60, 80, 240, 108), outline="#888888"))
    frames = [mark for mark in found if mark.sign == "frame"]
    assert len(frames) == 1
    assert abs(frames[0].box.x - 150) < 3


def test_an_empty_and_a_tiny_image_hold_nothing() -> None:
    assert marks_of(lambda canvas: None) == []
    assert find_marks(np.zeros((1, 1, 3), np.uint8), (), LINE) == []
