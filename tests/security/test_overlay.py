"""`howsure grounding overlay` on runs of others: nothing is fetched or waited for, damage is a sentence, and pictures
go where they were wanted."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from howsure.errors import HowsureError, InputError, RunDamaged
from howsure.runs import Run, Sample
from howsure.runs.pictures import name_of, small_copy
from howsure.studies.grounding.overlay import write_overlays
from studies.grounding.clicks_on_paper import about, answered, as_written, run_of, screen

LIMIT_S = 60


def run_with(folder: Path, *samples: Sample) -> Run:
    """A run as it may have been sent: its samples were never checked."""
    run_of(folder, [])
    lines = [json.dumps({"id": one.id, "index": one.index, "result": one.result}) for one in samples]
    (folder / "samples.jsonl").write_text("".join(line + "\n" for line in lines))
    return Run(folder)


def clicked_on(path: object, sha256: str = "0" * 64, **more: Any) -> Sample:
    sample = as_written(answered("s", 0, about(), (1.0, 1.0)))
    sample.result.update({"image_path": path, "image_sha256": sha256} | more)
    return sample


class Asked(list[str]):
    """A server that writes down what it was asked for."""

    def __enter__(self) -> Asked:
        asked = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(self.path)
                self.send_error(404)

            do_HEAD = do_GET

            def log_message(self, *_: Any) -> None: ...

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


# -- what it names ----------------------------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[Asked]:
    with Asked() as server:
        yield server


def test_an_address_is_never_asked_for(tmp_path: Path, server: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not from the web, and not from a store, which the user's keys would sign for."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.address)
    for number, place in enumerate((f"{server.address}/a.png", "s3://bucket/a.png", "S3://bucket/a.png")):
        for root in (None, tmp_path):
            run = run_with(tmp_path / f"run{number}", clicked_on(place))
            with pytest.raises(InputError, match="nothing is fetched for a run.*--image-root"):
                write_overlays(run, tmp_path / "o", every=True, image_root=root)
    assert server == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_and_a_device_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "link.png").symlink_to(tmp_path / "pipe.png")
    for place in (tmp_path / "pipe.png", tmp_path / "link.png", "/dev/zero", "/dev/tty", tmp_path):
        run, said = run_with(tmp_path / "run", clicked_on(str(place))), list[str]()

        def draw(run: Run = run, said: list[str] = said) -> None:
            with pytest.raises(InputError) as caught:
                write_overlays(run, tmp_path / "o", every=True, image_root=tmp_path)
            said.append(str(caught.value))

        drawing = threading.Thread(target=draw, daemon=True)
        drawing.start()
        drawing.join(LIMIT_S)
        assert said, f"{place} is waited for"
        assert "pipe or a device" in said[0] or "Is a directory" in said[0] or "No such device" in said[0]


@pytest.mark.parametrize(
    "place",
    ["a\0b.png", "x" * 5000, "a/" * 3000 + "b", "", "/etc/passwd", "..", "//host/share/a.png"],
)
def test_odd_names_are_refused_in_a_sentence(tmp_path: Path, place: str) -> None:
    run = run_with(tmp_path / "run", clicked_on(place))
    with pytest.raises(InputError, match="sample 's' cannot be drawn"):
        write_overlays(run, tmp_path / "o", every=True, image_root=tmp_path)


def test_a_file_is_drawn_only_by_those_who_know_its_bytes(tmp_path: Path) -> None:
    picture = screen(tmp_path / "private.png")
    run = run_with(tmp_path / "run", clicked_on(picture.path))
    with pytest.raises(InputError, match="private.png has changed since it was checked"):
        write_overlays(run, tmp_path / "o", every=True)
    run = run_with(tmp_path / "run", clicked_on(picture.path, picture.sha256))
    assert len(write_overlays(run, tmp_path / "o", every=True)) == 1


def test_an_image_that_is_too_large_to_draw_on_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "large.bmp"
    Image.new("1", (7000, 6000)).save(path)
    run = run_with(tmp_path / "run", clicked_on(str(path), hashlib.sha256(path.read_bytes()).hexdigest()))
    with pytest.raises(InputError, match="cannot be drawn: .*large.bmp has more than 40 million pixels"):
        write_overlays(run, tmp_path / "o", every=True)


def test_the_runs_own_copy_is_drawn_on_where_the_screen_is_elsewhere(tmp_path: Path) -> None:
    picture = screen(tmp_path / "a.png")
    run = run_with(tmp_path / "run", clicked_on("s3://bucket/a.png", picture.sha256))
    copy = tmp_path / "run" / str(name_of(picture.sha256))
    copy.parent.mkdir()
    copy.write_bytes(small_copy(picture) or b"")
    assert len(write_overlays(run, tmp_path / "o", every=True)) == 1
    copy.unlink()
    copy.symlink_to(picture.path)
    with pytest.raises(HowsureError, match="leads out of"):
        write_overlays(run, tmp_path / "o", every=True)


# -- where pictures go ------------------------------------------------------------------------------------------------


def test_ids_lead_nowhere(tmp_path: Path) -> None:
    picture = screen(tmp_path / "a.png")
    ids = ("../../x", "/etc/x", "a\0b", "", ".", "..", "A", "a", "x" * 5000, "\u202e", "con", "a/b", "a\\b")
    made = [clicked_on(picture.path, picture.sha256) for _ in ids]
    samples = [Sample(name, number, one.result) for number, (name, one) in enumerate(zip(ids, made, strict=True))]
    paths = write_overlays(run_with(tmp_path / "run", *samples), tmp_path / "o", every=True)
    assert len({path.name.lower() for path in paths}) == len(ids)
    assert {path.parent for path in paths} == {tmp_path / "o"}


def test_the_runs_folder_of_overlays_is_no_link(tmp_path: Path) -> None:
    """It would write over the user's own pictures, by names that the run chooses."""
    picture = screen(tmp_path / "mine" / "s.png")
    before = Path(picture.path).read_bytes()
    run = run_with(tmp_path / "run", clicked_on(picture.path, picture.sha256))
    (tmp_path / "run" / "overlays").symlink_to(tmp_path / "mine")
    with pytest.raises(InputError, match="overlays is a link that leads out of .*--to"):
        write_overlays(run, run.path / "overlays", every=True)
    assert Path(picture.path).read_bytes() == before


# -- damage -----------------------------------------------------------------------------------------------------------

WRONG: tuple[Any, ...] = (None, "x", 7, -1.5, True, [], {}, [None], ["x"], [[]], [0.5] * 5, {"x": [{}]}, 10**400, 1e308)
SOUND: dict[str, tuple[Any, ...]] = {
    "instruction": ("x",),
    "image_path": ("x",),
    "image_sha256": ("x",),
    "image_size": (),
    "target": (),
    "gt_coord": (None,),
    "gt_content": (None, "x"),
    "says": (None,),
    "why_not": (None, "x"),
    "pred_raw": (None, "x"),
    "pred_coord": (None,),
    "pred_content": (None, "x"),
    "l2": (None, 7, -1.5, 1e308),
    "hit": (None, True),
    "inside": (None, True),
    "within_delta": (None, True),
    "confidence": (None, {}, {"x": [{}]}),
    "confidence_missing": (None, {}, {"x": [{}]}),
    "samples": (None,),
}


@pytest.mark.parametrize("field", SOUND)
def test_a_wrong_type_is_damage_with_its_place(tmp_path: Path, field: str) -> None:
    picture = screen(tmp_path / "a.png")
    for number, value in enumerate([*WRONG, ...]):
        sample = clicked_on(picture.path, picture.sha256)
        if value is ...:
            sample.result.pop(field, None)
        else:
            sample.result[field] = value
        run = run_with(tmp_path / f"run{number}", sample)
        if value is ... or any(type(value) is type(one) and value == one for one in SOUND[field]):
            try:
                write_overlays(run, tmp_path / "o", worst=5, surely_wrong=5)
            except InputError as error:  # an image of another name, or none that is surely wrong
                assert "cannot be drawn" in str(error) or "no confidence" in str(error)
            except RunDamaged as error:
                assert f"missing required field `{field}`" in str(error)
            continue
        with pytest.raises(RunDamaged, match=r"samples.jsonl, line 1: .*; delete that line"):
            write_overlays(run, tmp_path / "o", worst=5, surely_wrong=5)


TARGETS: tuple[Any, ...] = (
    {"kind": "point", "coords": []},
    {"kind": "point", "coords": [1.0, 2.0, 3.0]},
    {"kind": "box", "coords": [1.0, 2.0]},
    {"kind": "polygon", "coords": [1.0, 2.0, 3.0, 4.0]},
    {"kind": "refusal", "coords": [1.0, 2.0]},
    {"kind": "star", "coords": []},
    {"kind": "point"},
    {"coords": [1.0, 2.0]},
    {"kind": "point", "coords": [None, 1.0]},
)


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_that_is_none_is_damage(tmp_path: Path, target: Any) -> None:
    picture = screen(tmp_path / "a.png")
    sample = clicked_on(picture.path, picture.sha256, target=target)
    with pytest.raises(RunDamaged, match=r"samples.jsonl(, line 1|: sample 's' cannot be drawn): "):
        write_overlays(run_with(tmp_path / "run", sample), tmp_path / "o", every=True)


@pytest.mark.parametrize(
    "more",
    [
        {"pred_coord": [1e308, -1e308], "l2": 1e308},
        {"pred_coord": [1e308, 1e308], "gt_coord": [-1e308, 0], "target": {"kind": "point", "coords": [-1e308, 1]}},
        {"target": {"kind": "box", "coords": [900.0, 900.0, 1.0, 1.0]}},
        {"target": {"kind": "polygon", "coords": [1e308, -1e308] * 3}},
        {"gt_coord": None},
        {"l2": None},
        {"samples": {"asked": -1, "points": [[1e300, 5]], "wrong_format": 10**18, "refusals": -7, "failed": 0}},
        {"confidence": {"coordinate_mean": 1e308, "spread": -1.0, "x" * 5000: None}},
        {"image_size": [0, -5]},
        {"instruction": "\x00\x1b[2J\u202e" * 10_000},
    ],
)  # fmt: skip
def test_what_is_odd_is_drawn_all_the_same(tmp_path: Path, more: dict[str, Any]) -> None:
    picture = screen(tmp_path / "a.png")
    sample = clicked_on(picture.path, picture.sha256)
    sample.result.update(more)
    run = run_with(tmp_path / "run", sample)
    assert len(write_overlays(run, tmp_path / "o", worst=5, surely_wrong=5, every=True)) == 1


def test_many_marks_take_no_time(tmp_path: Path) -> None:
    picture = screen(tmp_path / "a.png")
    points = [[number % 1000, number % 999] for number in range(200_000)]
    drawn = {"asked": 1, "points": points, "wrong_format": 0, "refusals": 0, "failed": 0}
    corners = [float(number * 7 % 1000) for number in range(40_000)]
    sample = clicked_on(picture.path, picture.sha256, samples=drawn, target={"kind": "polygon", "coords": corners})
    began = time.process_time()
    assert len(write_overlays(run_with(tmp_path / "run", sample), tmp_path / "o", every=True)) == 1
    assert time.process_time() - began < 10
