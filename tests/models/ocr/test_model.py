"""The model as the studies use it: real reading of screens drawn here."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

import howsure
from howsure.errors import MissingExtra, ModelError
from howsure.models.contract import Click, ClickRequest, Failure, ModelOptions
from howsure.models.images import Picture, inspect_picture
from howsure.models.ocr import SCREENS_KEPT, OcrModel, reading
from howsure.models.ocr.screen import Screen

Image = pytest.importorskip("PIL.Image")
ImageDraw = pytest.importorskip("PIL.ImageDraw")
ImageFont = pytest.importorskip("PIL.ImageFont")
pytest.importorskip("rapidocr_onnxruntime")


def picture(
    draw: Callable[[ImageDraw.ImageDraw, ImageFont.ImageFont], None], size: tuple[int, int] = (420, 240)
) -> Picture:
    image = Image.new("RGB", size, "#f6f5f4")
    draw(ImageDraw.Draw(image), ImageFont.load_default(size=16))
    content = io.BytesIO()
    image.save(content, "PNG")
    return Picture.made(content.getvalue(), "drawn.png", size)


def dialog(canvas: ImageDraw.ImageDraw, font: ImageFont.ImageFont) -> None:
    canvas.text((150, 10), "Preferences", fill="black", font=font)
    for y, words in ((60, "Allow growing"), (100, "Keep aspect")):
        canvas.rectangle((30, y + 2, 44, y + 16), outline="black")
        canvas.text((60, y), words, fill="black", font=font)
    canvas.rectangle((210, 180, 290, 215), outline="#888888")
    canvas.text((222, 188), "Cancel", fill="black", font=font)
    canvas.rectangle((310, 180, 390, 215), outline="#888888")
    canvas.text((328, 188), "Apply", fill="black", font=font)


def grid(canvas: ImageDraw.ImageDraw, font: ImageFont.ImageFont) -> None:
    for i, letter in enumerate("ABCDEF"):
        canvas.text((85 + 80 * i, 10), letter, fill="black", font=font)
    for n in range(1, 11):
        canvas.text((12, 10 + 26 * n), str(n), fill="black", font=font)


class NoMeaning:
    """Stands for an embedder that is not needed."""

    def likeness(self, phrase: str, texts: list[str]) -> list[float]:
        return [0.0] * len(texts)

    def load(self) -> None: ...

    def close(self) -> None: ...

    def fingerprint(self) -> None: ...


@pytest.fixture(scope="module")
def model() -> OcrModel:
    found = OcrModel()
    found.meaning = NoMeaning()  # type: ignore[assignment]
    found.load()
    return found


def click(model: OcrModel, instruction: str, screen: Picture) -> Click:
    (found,) = model.click([ClickRequest(instruction, screen)])
    assert isinstance(found, Click), found
    return found


@pytest.mark.parametrize(
    ("instruction", "left", "top", "right", "bottom", "how"),
    [
        ('Click the "Apply" button', 310, 180, 390, 215, "exact"),
        ('Click "Cancel" in the Preferences dialog', 210, 180, 290, 215, "exact"),
        ("Click Keep aspect", 60, 100, 160, 120, "exact"),
        ('Click the checkbox on the left of "Allow growing"', 30, 62, 44, 76, "relation"),
        ('Click the checkbox next to "Keep aspect"', 30, 102, 44, 116, "relation"),
    ],
)
def test_a_dialog(model: OcrModel, instruction: str, left: int, top: int, right: int, bottom: int, how: str) -> None:
    found = click(model, instruction, picture(dialog))
    assert left <= found.x_px <= right
    assert top <= found.y_px <= bottom
    assert found.how == how
    assert 0.2 < found.confidence <= 1


def test_a_sheet(model: OcrModel) -> None:
    found = click(model, "Click cell D7", picture(grid, (580, 300)))
    assert found.how == "cell"
    assert abs(found.x_px - 331) < 20
    assert abs(found.y_px - 201) < 10


def test_each_image_is_read_once_and_answers_keep_their_order(model: OcrModel) -> None:
    one, other = picture(dialog), picture(grid, (580, 300))
    model.close()
    before = model.counters.images_run
    wanted = ['Click "Apply"', "Click cell B3", 'Click "Cancel"', "Click cell C3"]
    requests = [ClickRequest(text, (one, other)[i % 2]) for i, text in enumerate(wanted)]
    found = model.click(requests)
    assert model.counters.images_run == before + 2
    assert [one.matched for one in found if isinstance(one, Click)] == ["Apply", "B3", "Cancel", "C3"]
    assert model.click(requests) == found
    assert model.counters.images_run == before + 2, "screens are kept between calls"
    model.close()
    assert model.click(requests) == found, "reading again gives the same"


def test_no_more_screens_are_kept_than_a_few(model: OcrModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model.reader, "read", lambda image: Screen(*image.size, []))
    for i in range(SCREENS_KEPT + 3):
        model.click([ClickRequest("x", picture(lambda canvas, font, i=i: canvas.point((i, 1), "red"), (40, 40)))])
    assert len(model._screens) == SCREENS_KEPT
    model.close()


@pytest.mark.parametrize("size", [(1, 1), (2, 900), (900, 2), (33, 31), (6000, 40)])
def test_nothing_to_read(model: OcrModel, size: tuple[int, int]) -> None:
    (found,) = model.click([ClickRequest('Click "Apply"', picture(lambda canvas, font: None, size))])
    assert isinstance(found, Failure)
    assert found.reason == "no_text"


def test_a_very_large_screen_is_read_and_clicked_in_its_own_pixels(model: OcrModel) -> None:
    def huge(canvas: ImageDraw.ImageDraw, font: ImageFont.ImageFont) -> None:
        canvas.text((5000, 300), "Apply", fill="black", font=ImageFont.load_default(size=90))

    found = click(model, 'Click "Apply"', picture(huge, (6000, 600)))
    assert 5000 < found.x_px < 5300
    assert 300 < found.y_px < 430


def test_an_instruction_without_words(model: OcrModel) -> None:
    (found,) = model.click([ClickRequest("  ", picture(dialog))])
    assert isinstance(found, Failure)
    assert found.reason == "no_instruction"


def test_an_image_that_changed_is_refused(model: OcrModel, tmp_path: Path) -> None:
    path = tmp_path / "screen.png"
    path.write_bytes(picture(dialog).read())
    checked = inspect_picture(path)
    path.write_bytes(picture(grid).read())
    model.close()
    (found,) = model.click([ClickRequest('Click "Apply"', checked)])
    assert isinstance(found, Failure)
    assert found.reason == "unreadable_image"
    assert "changed" in found.detail


def test_nothing_is_printed_or_logged(
    model: OcrModel, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    model.close()
    with caplog.at_level(logging.WARNING):
        click(model, 'Click "Apply"', picture(dialog))
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []


def test_the_fingerprint_names_package_weights_and_embedder(model: OcrModel) -> None:
    found = model.fingerprint()
    assert found["reader"]["package"].startswith("rapidocr-onnxruntime 1.")
    assert sorted(len(value) for value in found["reader"]["weights"].values()) == [64, 64]
    assert found["embedder"] is None, "matching by letters alone shows"
    json.dumps(found, allow_nan=False)


def test_without_the_embedder_it_matches_by_letters_and_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from howsure.models.embedding import SentenceEmbedder

    def missing(self: SentenceEmbedder) -> None:
        raise MissingExtra("the sentence embedder", "local", "torch")

    monkeypatch.setattr(SentenceEmbedder, "load", missing)
    said: list[str] = []
    found = howsure.load("ocr", announce=said.append)
    assert found.fingerprint()["embedder"] is None
    assert isinstance(found.click([ClickRequest("Click the frobnicator", picture(dialog))])[0], Click)
    assert len(said) == 1
    assert 'pip install "howsure[local]"' in said[0]


@pytest.mark.real_model
def test_meaning_finds_what_letters_do_not() -> None:
    found = howsure.load("ocr")
    (choice,) = found.click([ClickRequest('Click "Abort"', picture(dialog))])
    assert isinstance(choice, Click)
    assert (choice.how, choice.matched) == ("meaning", "Cancel")
    assert found.fingerprint()["embedder"]["embedder"] == "all-MiniLM-L6-v2"


def broken(error: ImportError) -> Callable[..., object]:
    def refuse(name: str, *rest: object) -> object:
        if name == "rapidocr_onnxruntime":
            raise error
        return original(name, *rest)

    import builtins

    original = builtins.__import__
    return refuse


@pytest.mark.parametrize(
    ("error", "kind", "remedy"),
    [
        (ImportError("libGL.so.1: cannot open shared object file"), ModelError, "opencv-python-headless"),
        (ModuleNotFoundError("No module", name="rapidocr_onnxruntime"), MissingExtra, r"howsure\[gui\]"),
    ],
    ids=["no libGL", "not installed"],
)
def test_a_reader_that_cannot_be_loaded(
    error: ImportError, kind: type[Exception], remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("builtins.__import__", broken(error))
    with pytest.raises(kind, match=remedy) as caught:
        reading.ScreenReader().load()
    assert "\n" not in str(caught.value)


def test_options_are_taken() -> None:
    assert OcrModel(ModelOptions()).name == "ocr"
