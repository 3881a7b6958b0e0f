"""Questions with images: found where one would look, checked before a model is loaded, counted by their bytes."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

import howsure
from howsure.errors import InputError, MissingCapability
from howsure.models import images
from howsure.runs.run import prepared
from howsure.studies.mcq import MCQ, McqOptions
from howsure.studies.mcq.data import read_questions
from studies.on_paper import OnPaper, write

GOOD = {"question": "what is it?", "choices": ["a cup", "a cat"], "answer_index": 0}
TABLE = {" a cup": -1.0, " a cat": -2.0}


def png(path: Path, colour: str = "red", size: tuple[int, int] = (8, 6)) -> Path:
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)
    return path


def huge_header(path: Path) -> Path:
    """A PNG that says it has ten thousand million pixels, in 57 bytes."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + header + chunk(b"IEND", b""))
    return path


def torn(path: Path) -> Path:
    from PIL import Image

    Image.effect_noise((64, 64), 50).save(path)
    path.write_bytes(path.read_bytes()[:-900])
    return path


@pytest.fixture
def bad_images(tmp_path: Path) -> dict[str, Path]:
    (tmp_path / "text.png").write_text("this is no image")
    (tmp_path / "empty.png").touch()
    (tmp_path / "folder.png").mkdir()
    return {
        "gone": tmp_path / "gone.png",
        "torn": torn(tmp_path / "torn.png"),
        "text": tmp_path / "text.png",
        "empty": tmp_path / "empty.png",
        "folder": tmp_path / "folder.png",
        "huge": huge_header(tmp_path / "huge.png"),
    }


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("gone", "image_path 'gone.png' is no file, tried /"),
        ("folder", "image_path 'folder.png' is no file"),
        ("torn", "image_path: image .*torn.png cannot be decoded"),
        ("text", "image_path: image .*text.png is none of PNG"),
        ("empty", "image_path: image .*empty.png is empty"),
        ("huge", "image_path: image .*huge.png .*(absurdly large|exceeds limit)"),
    ],
)
def test_a_bad_image_is_named_with_line_and_field(
    tmp_path: Path, bad_images: dict[str, Path], kind: str, words: str
) -> None:
    png(tmp_path / "good.png")
    lines = [GOOD | {"image_path": "good.png"}, GOOD, GOOD | {"image_path": bad_images[kind].name}]
    path = write(tmp_path / "q.jsonl", *lines)
    with pytest.raises(InputError, match=f"q.jsonl, line 3: {words}"):
        read_questions(path)
    found = read_questions(path, skip_bad=True)
    assert (len(found.items), found.skipped, found.image_count) == (2, 1, 1)


def test_bad_images_and_bad_json_are_counted_together(tmp_path: Path, bad_images: dict[str, Path]) -> None:
    lines = [GOOD | {"image_path": path.name} for path in bad_images.values()]
    path = write(tmp_path / "q.jsonl", lines[0], "{", *lines[1:], GOOD)
    with pytest.raises(InputError, match=r"line 1: image_path 'gone.png'.*\(6 more bad lines follow\)"):
        read_questions(path)
    result = howsure.mcq(path, OnPaper(TABLE), out=tmp_path / "run", skip_bad=True)
    assert result.summary["coverage"]["text"] == "scored 1 of 8; 7 missing: 7 bad line"


def test_a_bad_image_does_not_use_up_max_samples(tmp_path: Path) -> None:
    png(tmp_path / "good.png")
    lines = [GOOD | {"image_path": name, "id": i} for i, name in enumerate(["gone.png", "good.png", "good.png"])]
    path = write(tmp_path / "q.jsonl", *lines, "{ never read")
    found = read_questions(path, max_samples=2, skip_bad=True)
    assert [item.id for item in found.items] == ["1", "2"]
    assert found.skipped == 1


def test_where_a_relative_path_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, root, here = (tmp_path / name for name in ("data", "root", "here"))
    for folder, colour in ((data, "red"), (root, "green"), (here, "blue")):
        png(folder / "x.png", colour)
    png(here / "only-here.png")
    monkeypatch.chdir(here)
    path = write(data / "q.jsonl", GOOD | {"image_path": "x.png"})

    def found(**options: Any) -> Path:
        picture = read_questions(path, **options).items[0].image
        assert picture is not None
        return Path(picture.path).resolve()

    assert found() == data / "x.png", "beside the file that names it"
    assert found(image_root=root) == root / "x.png", "but a root that was given wins"
    write(path, GOOD | {"image_path": "only-here.png"})
    assert found() == here / "only-here.png", "then the working directory"
    with pytest.raises(InputError, match=r"tried /\S+/root/only-here.png \(--image-root"):
        read_questions(path, image_root=root)
    write(path, GOOD | {"image_path": str(root / "x.png")})
    assert found() == found(image_root=here) == root / "x.png", "an absolute path is what it says"
    with pytest.raises(InputError, match="--image-root .*gone is not a folder"):
        read_questions(path, image_root=tmp_path / "gone")


def test_an_image_counts_by_its_bytes_not_by_its_place(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        png(tmp_path / folder / "x.png", "red")
        write(tmp_path / folder / "q.jsonl", GOOD | {"image_path": "x.png"}, GOOD)
    one, two = (read_questions(tmp_path / folder / "q.jsonl") for folder in ("one", "two"))
    assert (one.fingerprint, [i.id for i in one.items]) == (two.fingerprint, [i.id for i in two.items])
    png(tmp_path / "two" / "x.png", "blue")
    other = read_questions(tmp_path / "two" / "q.jsonl")
    assert other.items[0].id != one.items[0].id
    assert other.items[1].id == one.items[1].id
    assert other.fingerprint != one.fingerprint


def test_questions_without_images_keep_their_names(tmp_path: Path) -> None:
    question = "What is the capital of France?"
    choices = ["Paris", "Madrid", "Rome", "Berlin"]
    path = write(tmp_path / "q.jsonl", {"question": question, "choices": choices, "answer_index": 0})
    assert read_questions(path).items[0].id == "2945b6e478f8"


def test_a_file_is_read_once_however_many_ask_about_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    png(tmp_path / "x.png")
    path = write(tmp_path / "q.jsonl", *[GOOD | {"image_path": "x.png", "id": i} for i in range(20)])
    read: list[Any] = []
    inspect = images.inspect_picture
    monkeypatch.setattr(images, "inspect_picture", lambda path, *rest: read.append(path) or inspect(path, *rest))
    assert read_questions(path).image_count == 20
    assert len(read) == 1


def test_a_text_model_is_refused_before_any_work(tmp_path: Path, tiny_folder: Path) -> None:
    png(tmp_path / "x.png")
    path = write(tmp_path / "q.jsonl", GOOD | {"image_path": "x.png"}, GOOD, GOOD)
    for model in (OnPaper(TABLE), f"hf:{tiny_folder}"):
        with pytest.raises(MissingCapability, match="1 of 3 questions have an image, and .* reads text only: take"):
            howsure.mcq(path, model, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_image_goes_to_the_model_with_the_question_and_not_with_the_choice_alone(tmp_path: Path) -> None:
    png(tmp_path / "x.png", size=(8, 6))
    path = write(tmp_path / "q.jsonl", GOOD | {"image_path": "x.png"}, GOOD)
    model = OnPaper(TABLE, images=True)
    result = howsure.mcq(path, model, out=tmp_path / "run")
    asked, alone = model.asked
    assert [item.image and (item.image.width, item.image.height) for item in asked] == [(8, 6), None]
    assert [(item.prefix, item.image) for item in alone] == [("", None)]
    with_image, without = (sample.result for sample in result.samples)
    assert with_image["image_path"] == str(tmp_path / "x.png")
    assert len(with_image["image_sha256"]) == 64
    assert without["image_path"] is None


def test_a_dry_run_counts_images(tmp_path: Path) -> None:
    png(tmp_path / "x.png")
    path = write(tmp_path / "q.jsonl", GOOD | {"image_path": "x.png"}, GOOD)
    with prepared(MCQ, McqOptions(path, OnPaper(TABLE, images=True))) as ready:
        assert ready.cost()["images"] == 1


def test_a_real_image_text_model_from_file_to_summary(tmp_path: Path) -> None:
    from tiny_vision import build_vision, picture

    for i, width in enumerate((40, 64, 40)):
        picture(tmp_path / f"{i}.png", width, 56, seed=i)
    rows = [GOOD | {"question": f"what is it, {i}?", "image_path": f"{i}.png"} for i in range(3)]
    path = write(tmp_path / "q.jsonl", *rows, GOOD)
    model = howsure.load(f"hf:{build_vision('qwen3_vl', tmp_path / 'model')}")
    result = howsure.mcq(path, model, out=tmp_path / "run")
    assert result.summary["coverage"]["text"] == "scored 4 of 4"
    assert model.counters.images_run == 3, "each image once, however many choices, and none for PMI"
    same = howsure.mcq(write(tmp_path / "r.jsonl", rows[0] | {"image_path": "1.png"}), model, out=tmp_path / "other")
    here, there = (found.samples[0].result["log_likelihoods"] for found in (result, same))
    assert here != pytest.approx(there, abs=1e-3), "another image, another answer"
    (tmp_path / "2.png").rename(tmp_path / "away.png")
    less = howsure.mcq(path, model, out=tmp_path / "less", skip_bad=True)
    assert less.summary["coverage"]["text"] == "scored 3 of 4; 1 missing: 1 bad line"


def test_an_image_that_is_lost_during_the_run_fails_alone(tmp_path: Path) -> None:
    from tiny_vision import build_vision, picture

    for i in range(2):
        picture(tmp_path / f"{i}.png", 40, 56, seed=i)
    path = write(tmp_path / "q.jsonl", *[GOOD | {"image_path": f"{i}.png"} for i in range(2)])
    options = McqOptions(path, f"hf:{build_vision('qwen3_vl', tmp_path / 'model')}", out=tmp_path / "run")
    with prepared(MCQ, options) as ready:
        (tmp_path / "1.png").unlink()
        result = ready.run()
    assert [sample.reason for sample in result.samples] == [None, "unreadable_image"]
    assert result.summary["total_count"] == 2
