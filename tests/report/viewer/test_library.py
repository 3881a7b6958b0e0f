"""Runs in memory: read in steps, read on, read anew, and let go."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

from howsure.report import rows as columns
from howsure.report.rows import Column, Place, Table
from howsure.report.run_data import Embedded, StoredRun
from howsure.report.viewer import library
from howsure.report.viewer.library import Library, RunLinks
from howsure.report.views import RecordView
from report.viewer.asking import Browser, question, write_run

MANY = [question(place, 0.2 + 0.6 * (place % 2)) for place in range(300)]


def whole(folder: Path) -> StoredRun:
    return StoredRun(folder, Embedded(folder, 0))


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request reads one small block and no more, and the thread behind it is in no hurry."""
    monkeypatch.setattr(library, "FIRST_SECONDS", 1e-9)
    plain = StoredRun.read_some
    monkeypatch.setattr(StoredRun, "read_some", lambda self: (time.sleep(0.02), plain(self, 20_000))[1])


@pytest.mark.usefixtures("slow")
def test_the_first_rows_come_before_all_is_read(tmp_path: Path) -> None:
    write_run(tmp_path / "many", MANY)
    browser = Browser(tmp_path)
    first = browser.get("/run?path=many")
    assert len(first.rows) == 50
    assert "Still being read" in first.count
    assert 'data-poll="300"' in first.text
    assert browser.get("/table?path=many&f.correct=yes").count == "150 of 300 samples", "a filter waits for the rest"
    assert browser.get("/run?path=many").count == "300 samples"


@pytest.mark.usefixtures("slow")
def test_many_may_ask_while_a_run_is_read(tmp_path: Path) -> None:
    write_run(tmp_path / "many", MANY)
    shelf, counts = Library(tmp_path.resolve()), []

    def ask() -> None:
        run = shelf.whole("many")
        with run.lock:
            counts.append(len(run.data.table))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [300] * 8


def test_reading_in_steps_gives_what_reading_at_once_gives(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "many", MANY)
    steps = StoredRun(folder, RunLinks("many", folder), at_once=False)
    assert len(steps.table) == 0
    while not steps.read_some(1_500):
        pass
    for name in (*steps.table.columns, "_index"):
        assert steps.table.values(name) == whole(folder).table.values(name)
    assert [steps.sample(row).id for row in (0, 150, 299)] == ["q-0", "q-150", "q-299"]


def test_links_lead_to_pictures_that_are_there(tmp_path: Path) -> None:
    (tmp_path / "frames").mkdir()
    (tmp_path / "frames" / "a b.png").write_bytes(b"x")
    links = RunLinks("deep/run", tmp_path)
    assert links.picture("frames/a b.png") == "/picture?path=deep%2Frun&name=frames%2Fa+b.png"
    assert links.picture("frames/none.png") is None
    assert links.sample("k") == "/sample?path=deep%2Frun&key=k"


def test_a_torn_last_line_waits_until_it_is_whole(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "many", MANY[:3], finished=False)
    material = whole(folder)
    path = folder / "samples.jsonl"
    line = path.read_bytes().splitlines()[0].replace(b'"q-0"', b'"q-9"')
    with path.open("ab") as file:
        file.write(line[:40])
    material.refresh()
    assert (len(material.table), material.damaged_lines) == (3, 0)
    with path.open("ab") as file:
        file.write(line[40:] + b"\n{}\n")
    material.refresh()
    assert (material.table.keys[-1], len(material.table), material.damaged_lines) == ("q-9", 4, 1)


@pytest.mark.parametrize("in_place", [True, False])
def test_a_file_that_was_written_anew_is_read_anew(in_place: bool, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "many", MANY[:3])
    material = whole(folder)
    path = folder / "samples.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    other = [line.replace(b'"id":"q-', b'"id":"new-') for line in lines] * 2
    if in_place:
        with path.open("rb+") as file:
            file.write(b"".join(other))
    else:
        path.unlink()
        path.write_bytes(b"".join(other))
    material.refresh()
    assert material.table.values("id") == ["new-0", "new-1", "new-2"] * 2
    path.unlink()
    material.refresh()
    assert len(material.table) == 0


def test_a_folder_that_holds_another_study_now_is_read_as_such(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "many", MANY[:3])
    run = Library(tmp_path.resolve()).open("many")
    manifest = json.loads((folder / "run.json").read_text())
    manifest["identity"]["study"] = "unheard-of"
    (folder / "run.json").write_text(json.dumps(manifest))
    run.catch_up()
    assert isinstance(run.data.view, RecordView)
    assert [column.name for column in run.finder.columns()] == ["id", "correct"]
    assert len(run.data.table) == 3


def test_nobody_waits_for_a_reader_that_has_died(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path / "many", MANY)
    monkeypatch.setattr(library, "FIRST_SECONDS", 0.0)
    turns = iter([False])

    def fails(self: StoredRun) -> bool:
        return next(turns)

    monkeypatch.setattr(StoredRun, "read_some", fails)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    page = Browser(tmp_path).get("/run?path=many&sort=margin")
    for thread in threading.enumerate():
        if thread.name == "reading many":
            thread.join()
    assert page.status == 200
    assert "could not be read to their end" in page.text


def test_runs_are_let_go_when_there_is_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        write_run(tmp_path / name, MANY[:30])
    shelf = Library(tmp_path.resolve())
    one = shelf.open("a")
    assert one.bytes > 30 * library.ROW_BYTES
    monkeypatch.setattr(library, "MOST_BYTES", int(2.5 * one.bytes))
    shelf.open("b")
    assert shelf.open("a") is one, "used lately, so kept"
    shelf.open("c")
    assert shelf.open("a") is one
    assert list(shelf._opened) == ["c", "a"]


def test_a_file_that_cannot_be_read_is_told_on_its_page(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "many", MANY[:3])
    (folder / "samples.jsonl").unlink()
    (folder / "samples.jsonl").mkdir()
    page = Browser(tmp_path).get("/run?path=many")
    assert page.status == 200
    assert "samples.jsonl cannot be read" in page.text


def test_long_texts_are_kept_while_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "ROOM_FOR_TEXT", 10_000)
    table = Table([Column("text", "text", "text")])
    for place in range(5):
        table.append(f"s{place}", Place(0, 0), {"text": "x" * 9_000})
    assert [len(text) for text in table.values("text")] == [4_000, 4_000, 4_000, 200, 200]
    assert table.texts_are_cut


def test_samples_that_were_changed_are_seen_to_have_changed(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "many", MANY[:3])
    known = Library(tmp_path).whole("many")
    seen = known.version
    lines = (folder / "samples.jsonl").read_bytes()
    (folder / "new").write_bytes(lines.replace(b"Question number 1", b"Question number 7"))
    (folder / "new").rename(folder / "samples.jsonl")
    known.catch_up()
    assert known.version != seen, "as many as before, but not the same"
    assert "7" in known.data.table.values("question")[1]
