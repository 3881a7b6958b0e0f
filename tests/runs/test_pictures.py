"""Small copies of pictures: of the right bytes, small, the same every time, and completed by a run that goes on."""

from __future__ import annotations

import hashlib
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import howsure
from howsure.errors import PicturesNotKept, StorageError
from howsure.models.images import Picture, inspect_picture
from howsure.runs import Run, pictures
from howsure.runs.pictures import PictureKeeper, kept_count, name_of, small_copy
from howsure.studies.grounding.study import grounding
from scripted import Writer
from studies.grounding.screens import answer, flat, write_lines
from studies.on_paper import OnPaper, write
from studies.test_mcq_images import huge_header, torn


def shades(path: Path, size: tuple[int, int] = (320, 200), kind: str = "PNG", **how: Any) -> Picture:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.linear_gradient("L").convert("RGB").resize(size).save(path, kind, **how)
    return inspect_picture(path)


def copies(run: Path) -> dict[str, bytes]:
    return {str(path.relative_to(run)): path.read_bytes() for path in sorted((run / "pictures").glob("*"))}


def opened(content: bytes) -> Image.Image:
    return Image.open(io.BytesIO(content))


# -- one copy ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "expected"),
    [((320, 200), (320, 200)), ((2560, 1440), (1280, 720)), ((900, 2700), (427, 1280)), ((5000, 2), (1280, 1))],
)
def test_a_copy_is_as_long_as_it_may_be(tmp_path: Path, size: tuple[int, int], expected: tuple[int, int]) -> None:
    copy = opened(small_copy(shades(tmp_path / "a.png", size)) or b"")
    assert (copy.format, copy.mode, copy.size) == ("JPEG", "RGB", expected)


def test_a_copy_carries_no_metadata_and_is_the_same_every_time(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x010E] = "taken at home"
    how: dict[str, Any] = {"comment": b"for my eyes", "exif": exif, "icc_profile": b"a profile", "dpi": (300, 300)}
    picture = shades(tmp_path / "a.jpg", kind="JPEG", **how)
    content = small_copy(picture)
    assert content is not None
    assert content == small_copy(picture)
    assert not opened(content).getexif()
    assert set(opened(content).info) == {"jfif", "jfif_version", "jfif_unit", "jfif_density"}
    assert all(word not in content for word in (b"for my eyes", b"at home", b"a profile"))


def test_what_is_shown_turned_is_kept_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    copy = small_copy(shades(tmp_path / "a.jpg", (40, 20), "JPEG", exif=exif))
    assert opened(copy or b"").size == (20, 40)


def test_nothing_is_kept_of_other_bytes_or_bad_ones(tmp_path: Path) -> None:
    picture = shades(tmp_path / "a.png")
    shades(tmp_path / "a.png", (321, 200))
    assert small_copy(picture) is None, "the file has changed since it was asked about"
    (tmp_path / "a.png").unlink()
    assert small_copy(picture) is None
    for path in (torn(tmp_path / "torn.png"), huge_header(tmp_path / "huge.png")):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        assert small_copy(Picture(str(path), 8, 8, digest)) is None


def test_names_come_of_digests_alone() -> None:
    assert name_of("ab" * 32) == "pictures/abababababababababababab.jpg"
    for bad in ("", "ab", "../" * 21 + "a", "AB" * 32, "ab" * 32 + "\n"):
        assert name_of(bad) is None


# -- a run's copies ---------------------------------------------------------------------------------------------------


def test_each_picture_once_and_no_more_than_there_is_room_for(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    all_of_them = [shades(tmp_path / f"{i}.png", (300, 200 + i)) for i in range(4)]
    one = len(small_copy(all_of_them[0]) or b"")
    with PictureKeeper(run, most_bytes=round(2.5 * one)) as keeper:
        keeper.keep([all_of_them[0], None, all_of_them[0]])
        keeper.keep(all_of_them)
    names = [name_of(picture.sha256) for picture in all_of_them]
    assert sorted(copies(run)) == sorted(str(name) for name in names[:2])
    digests = [picture.sha256 for picture in all_of_them]
    assert kept_count(run, [*digests, digests[0], "no digest"]) == (2, 4)
    with PictureKeeper(run, most_bytes=round(2.5 * one)) as keeper:
        keeper.keep(reversed(all_of_them))
    assert len(copies(run)) == 2, "copies of an earlier session count"


def test_without_a_picture_there_is_no_folder(tmp_path: Path) -> None:
    with PictureKeeper(tmp_path) as keeper:
        keeper.keep([None, Picture(str(tmp_path / "gone.png"), 8, 8, "0" * 64)])
    assert list(tmp_path.iterdir()) == []
    assert kept_count(tmp_path, ["0" * 64]) == (0, 1)


def test_a_copy_that_cannot_be_written_is_told_and_costs_nothing_else(tmp_path: Path) -> None:
    some = [shades(tmp_path / f"{i}.png", (300, 200 + i)) for i in range(3)]
    (tmp_path / "pictures").write_text("in the way")
    with pytest.warns(PicturesNotKept, match="pictures cannot be written") as told, PictureKeeper(tmp_path) as keeper:
        keeper.keep(some)
    assert len(told) == 1
    with pytest.raises(KeyboardInterrupt), PictureKeeper(tmp_path) as keeper:
        keeper.keep(some)
        raise KeyboardInterrupt


def test_a_full_disk_gets_no_more_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Path] = []

    def refuse(path: Path, content: bytes) -> None:
        tried.append(path)
        raise StorageError("the disk is full")

    monkeypatch.setattr(pictures, "write_atomic", refuse)
    with pytest.warns(PicturesNotKept, match="the disk is full"), PictureKeeper(tmp_path) as keeper:
        keeper.keep([shades(tmp_path / f"{i}.png", (300, 200 + i)) for i in range(3)])
    assert len(tried) == 1, "what room there is belongs to the samples"


def test_a_run_ends_whole_without_room_for_its_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, content: bytes) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(pictures, "write_atomic", refuse)
    with pytest.warns(PicturesNotKept):
        run = run_of(clicking(tmp_path / "data"), tmp_path / "run")
    assert (run.status, len(list(run.samples()))) == ("finished", 3)
    assert "0 have a copy" in (run.path / "report.html").read_text()


def test_a_picture_that_breaks_the_copying_costs_only_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    some = [shades(tmp_path / f"{i}.png", (300, 200 + i)) for i in range(3)]

    def sometimes(picture: Picture) -> bytes | None:
        if picture is some[1]:
            raise MemoryError("too large")
        return small_copy(picture)

    monkeypatch.setattr(pictures, "small_copy", sometimes)
    with pytest.warns(PicturesNotKept, match="too large"), PictureKeeper(tmp_path) as keeper:
        keeper.keep(some)
    assert kept_count(tmp_path, [one.sha256 for one in some]) == (2, 3)


def clicking(folder: Path, count: int = 3) -> Path:
    for i in range(count):
        shades(folder / f"{i}.png", (200 + i, 100))
    return write_lines(folder / "d.jsonl", [flat(image=f"{i}.png", id=f"s{i}") for i in range(count)])


def run_of(data: Path, out: Path, stop_at: int | None = None) -> Run:
    def write_answer(messages: Any, number: int) -> str:
        if number == stop_at:
            raise KeyboardInterrupt
        return answer(500, 510)

    return grounding(data, Writer(write_answer), out=out, batch_size=1).run


def test_a_run_that_was_stopped_completes_its_copies(tmp_path: Path) -> None:
    data = clicking(tmp_path / "data")
    whole = copies(run_of(data, tmp_path / "whole").path)
    assert len(whole) == 3
    with pytest.raises(KeyboardInterrupt):
        run_of(data, tmp_path / "torn", stop_at=2)
    for path in (tmp_path / "torn" / "pictures").glob("*"):
        path.unlink()
    assert copies(run_of(data, tmp_path / "torn").path) == whole


def test_a_finished_run_without_copies_gets_them_by_the_same_command(tmp_path: Path) -> None:
    data = clicking(tmp_path / "data")
    run = run_of(data, tmp_path / "run")
    whole = copies(run.path)
    for path in (run.path / "pictures").glob("*"):
        path.unlink()
    assert copies(run_of(data, run.path, stop_at=0).path) == whole, "and nothing is asked again"


def test_questions_with_images_keep_them(tmp_path: Path) -> None:
    shades(tmp_path / "cup.png")
    lines = [{"question": "what is it?", "choices": ["a cup", "a cat"], "answer_index": 0} for _ in range(3)]
    path = write(
        tmp_path / "q.jsonl", lines[0] | {"image_path": "cup.png"}, lines[1] | {"image_path": "cup.png"}, lines[2]
    )
    result = howsure.mcq(path, OnPaper({" a cup": -1.0, " a cat": -2.0}, images=True), out=tmp_path / "run")
    (digest,) = {s.result["image_sha256"] for s in result.samples if s.result["image_sha256"] is not None}
    assert list(copies(tmp_path / "run")) == [name_of(digest)]


def test_questions_without_images_never_load_pillow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name == "PIL" or name.startswith("PIL.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "PIL", None)
    line = {"question": "what is it?", "choices": ["a cup", "a cat"], "answer_index": 0}
    howsure.mcq(write(tmp_path / "q.jsonl", line), OnPaper({" a cup": -1.0, " a cat": -2.0}), out=tmp_path / "run")
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "finished"
    assert not (tmp_path / "run" / pictures.FOLDER).exists()
