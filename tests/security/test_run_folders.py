"""Run folders that somebody else wrote: no pipe is waited for, no giant is read, no link is followed out; and whose
files they are, and who may write them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fuzz.mutations import PART
from fuzz.seeds import example_run

import howsure
from howsure.errors import InputError, RunDamaged
from howsure.runs import Identity, Run, RunWriter, Sample, find_runs
from howsure.runs.reading import (
    MOST_DECODED_BYTES,
    MOST_DECODED_MANIFEST_BYTES,
    MOST_LINE_BYTES,
    MOST_MANIFEST_BYTES,
    MOST_SUMMARY_BYTES,
    is_too_heavy,
)
from howsure.studies.trust.artefacts import grounding_after
from report.viewer.asking import Browser
from sizes import in_long

pytestmark = pytest.mark.skipif(os.name != "posix", reason="no pipes here")
TESTS = Path(__file__).parents[1]
ORDER = ("run.json", "samples.jsonl", "summary.json")
FILES = ("run.json", "summary.json", "samples.jsonl")
MOST_MIB = 600
GIGABYTE = 1 << 30
LIMIT_S = 120
"""A pipe is waited for without end; this is for slow machines."""


def make_run(root: Path, name: str = "run") -> Path:
    """A finished run of clicks below a folder."""
    run = root / name
    run.mkdir(parents=True)
    for file, content in zip(ORDER, example_run("grounding").split(PART), strict=True):
        (run / file).write_bytes(content)
    return run


def read_by_all(folder: Path, *readers: str) -> dict[str, Any]:
    """What each reader says of the run below, in a process of its own."""
    paths = [str(TESTS), str(Path(howsure.__file__).parents[1])]
    done = subprocess.run(
        [sys.executable, str(TESTS / "security" / "run_readers.py"), str(folder), *readers],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "2000"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return {one["reader"]: one for one in map(json.loads, done.stdout.splitlines())}


def assert_refused(said: dict[str, Any], words: str, *, but: set[str]) -> None:
    """Every reader but those that do not look at the file says this, in a sentence; a table breaks it into lines."""
    for name, one in said.items():
        assert "Traceback" not in one["said"], name
        assert name in {"runs", *but} or words in " ".join(one["said"].split()), (name, one["said"][-500:])


# -- files that are none ----------------------------------------------------------------------------------------------

UNREAD = {
    "run.json": set[str](),
    "summary.json": {"overlay", "taken up", "report", "notebook"},
    "samples.jsonl": {"runs", "runs as JSON", "notebook"},
}
"""Who does not look at a file; a page of a run says what is wrong with its summary in a part of its own."""


@pytest.mark.parametrize("file", FILES)
def test_a_pipe_is_refused_by_every_reader(tmp_path: Path, file: str) -> None:
    run = make_run(tmp_path)
    (run / file).unlink()
    os.mkfifo(run / file)
    assert_refused(read_by_all(tmp_path), f"{file} is not a file but a pipe or a device", but=UNREAD[file])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: path.symlink_to("/dev/zero"), "leads out of"),
        (lambda path: path.symlink_to(path.parent.parent / "secret.json"), "leads out of"),
        (lambda path: path.symlink_to(path), "leads out of|Too many levels"),
        (lambda path: socket.socket(socket.AF_UNIX).bind(path.name), "pipe or a device"),
    ],
    ids=["folder", "device", "link", "loop", "socket"],
)
@pytest.mark.parametrize("file", FILES)
def test_what_is_no_file_is_damage(
    tmp_path: Path, file: str, make: Callable[[Path], None], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path)
    shutil.copy(run / file, tmp_path / "secret.json")
    (run / file).unlink()
    monkeypatch.chdir(run)  # the names of sockets are short
    make(run / file)
    with pytest.raises(RunDamaged, match=words):
        (lambda opened: (opened.summary, opened.records()))(Run(run))


def test_a_pipe_that_changes_keeps_no_page_waiting(tmp_path: Path) -> None:
    """It was opened when the run was looked at again, by a thread that nothing could end."""
    run = make_run(tmp_path)
    (run / "samples.jsonl").unlink()
    os.mkfifo(run / "samples.jsonl")
    browser, found = Browser(tmp_path), []
    browser.get("/run?path=run")
    os.utime(run / "samples.jsonl", (1, 1))
    looking = threading.Thread(target=lambda: found.append(browser.get("/run?path=run")), daemon=True)
    looking.start()
    looking.join(LIMIT_S / 4)
    assert found, "the viewer waits for the pipe"
    assert "samples.jsonl is not a file but a pipe or a device" in found[0].text


def test_one_damaged_run_does_not_end_the_list(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        make_run(tmp_path, name)
    (tmp_path / "b" / "run.json").unlink()
    os.mkfifo(tmp_path / "b" / "run.json")
    said = read_by_all(tmp_path, "runs", "runs as JSON")
    rows = {Path(row["path"]).name: row for row in json.loads(said["runs as JSON"]["said"])}
    assert {name: row["status"] for name, row in rows.items()} == {"a": "finished", "b": "damaged", "c": "finished"}
    assert rows["b"]["error"].endswith(
        "run.json is not a file but a pipe or a device; restore it, or start the run anew"
    )
    assert said["runs"]["said"].count("finished") == 2


def test_odd_trees_are_walked_to_their_end(tmp_path: Path) -> None:
    """Loops of links, folders of that name, and a path longer than any path may be."""
    make_run(tmp_path / "x")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "folder" / "run.json").mkdir(parents=True)
    here = os.getcwd()
    try:
        os.chdir(tmp_path)
        for _ in range(60):
            os.mkdir("d" * 200)
            os.chdir("d" * 200)
    finally:
        os.chdir(here)
    try:
        assert find_runs(tmp_path) == [tmp_path / "x" / "run"]
    finally:
        subprocess.run(["rm", "-rf", str(tmp_path / ("d" * 200))], check=False)


def test_what_an_episode_left_behind_is_not_read_from_elsewhere(tmp_path: Path) -> None:
    """It becomes part of prompts, which go to a server."""
    (tmp_path / "secret").write_text("the password is 1234\n")
    (tmp_path / "run" / "grounding").mkdir(parents=True)
    (tmp_path / "run" / "grounding" / "episode-1.txt").symlink_to(tmp_path / "secret")
    with pytest.raises(InputError, match="leads out of"):
        grounding_after(tmp_path / "run", 1)


@pytest.mark.parametrize("name", ["pictures", "user_1", "samples.jsonl", "steps.csv"])
def test_a_run_is_not_written_through_a_link(tmp_path: Path, name: str) -> None:
    run = make_run(tmp_path)
    manifest = Run(run).manifest
    (tmp_path / "mine").mkdir()
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(tmp_path / "mine")
    before = (run / "run.json").read_bytes()
    with pytest.raises(RunDamaged, match=f"{name} leads out of"), RunWriter(run, manifest.identity, manifest.items):
        pass
    assert (run / "run.json").read_bytes() == before
    (run / name).unlink()
    (run / "inside").mkdir()
    (run / "near").symlink_to("inside")
    with RunWriter(run, manifest.identity, manifest.items):
        pass


def test_a_picture_that_is_swapped_for_a_link_is_not_served(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    (tmp_path / "secret.jpg").write_bytes(b"secret")
    (run / "pictures").mkdir()
    for name, make in (("link", lambda path: path.symlink_to(tmp_path / "secret.jpg")), ("pipe", os.mkfifo)):
        make(run / "pictures" / f"{name}.jpg")
        assert Browser(tmp_path).get(f"/picture?path=run&name=pictures/{name}.jpg").status == 404


# -- giants -----------------------------------------------------------------------------------------------------------


def sparse(path: Path, size: int = GIGABYTE) -> None:
    with path.open("wb") as file:
        file.truncate(size)


@pytest.mark.parametrize("file", FILES)
def test_a_sparse_gigabyte_takes_no_memory(tmp_path: Path, file: str) -> None:
    run = make_run(tmp_path)
    sparse(run / file)
    said = read_by_all(tmp_path)
    assert_refused(said, {"samples.jsonl": "is more than 64 MiB"}.get(file, f"{file} is larger than"), but=UNREAD[file])
    assert {name: one["peak_mib"] for name, one in said.items() if one["peak_mib"] > MOST_MIB} == {}


def filled(head: bytes, unit: bytes, tail: bytes, most_bytes: int, most_decoded_bytes: int) -> bytes:
    """As much of a unit as a file may hold; within a factor of two."""
    content = b""
    while not content or is_too_heavy(content, most_decoded_bytes):
        content = head + b",".join([unit] * ((most_bytes - len(head) - len(tail)) // (len(unit) + 1))) + tail
        most_bytes //= 2
    return content


@pytest.mark.parametrize("unit", ['{"":{}}', *in_long("0.1", '"éé"')], ids=["objects", "numbers", "texts"])
def test_json_that_swells_stays_within_memory(tmp_path: Path, unit: str) -> None:
    """As much as each of the files may hold of what takes most memory when it is decoded: up to 34 times its bytes."""
    run = make_run(tmp_path)
    manifest = json.loads((run / "run.json").read_bytes())
    manifest["identity"]["options"] = {"a": "HERE"}
    for file, whole, most_bytes, most_decoded_bytes in (
        ("run.json", json.dumps(manifest), MOST_MANIFEST_BYTES, MOST_DECODED_MANIFEST_BYTES),
        ("samples.jsonl", '{"id":"x","index":0,"result":{"a":"HERE"}}\n', MOST_LINE_BYTES, MOST_DECODED_BYTES),
        ("summary.json", '{"headline":"HERE"}', MOST_SUMMARY_BYTES, MOST_DECODED_BYTES),
    ):
        head, tail = whole.encode().split(b'"HERE"')
        content = filled(head + b"[", unit.encode(), b"]" + tail, most_bytes, most_decoded_bytes)
        (run / file).write_bytes(content)
    said = read_by_all(tmp_path, "viewer", "taken up")
    assert said["taken up"]["said"] == "1 samples", "it is not refused"
    assert {name: one["peak_mib"] for name, one in said.items() if one["peak_mib"] > MOST_MIB} == {}
    assert all("Traceback" not in one["said"] for one in said.values())


def test_json_that_would_swell_further_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    (run / "summary.json").write_bytes(b'{"headline":[' + b"{}," * (2 << 20) + b"0]}")
    with pytest.raises(RunDamaged, match="summary.json holds far too many values; restore it"):
        _ = Run(run).summary
    (run / "samples.jsonl").write_bytes(b'{"id":"x","index":0,"result":{"a":[' + b"{}," * (2 << 20) + b"0]}}\n")
    with pytest.raises(RunDamaged, match="samples.jsonl, line 1, is more than 64 MiB, or holds far too many values"):
        Run(run).records()


# -- whose files they are ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("umask", "mode"), [(0o077, 0o600), (0o022, 0o644), (0o002, 0o664)])
def test_files_have_the_mode_that_the_umask_gives(tmp_path: Path, umask: int, mode: int) -> None:
    make_run(tmp_path / "sent")
    before = os.umask(umask)
    try:
        with RunWriter(tmp_path / "run", IDENTITY, 2) as writer:
            writer.append([Sample("a", 0, {"x": 1.0})])
            writer.finish({"study": "mcq"})  # what does not fit is said in the report
        read_by_all(tmp_path / "sent", "report", "export")
    finally:
        os.umask(before)
    written = [*(tmp_path / "run").iterdir(), tmp_path / "sent" / "report.html", tmp_path / "sent" / "x.parquet"]
    assert {path.name for path in written} >= {"run.json", "samples.jsonl", "summary.json"}
    assert {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in written} == dict.fromkeys(
        (path.name for path in written), oct(mode)
    )


# -- one writer -------------------------------------------------------------------------------------------------------

IDENTITY = Identity("mcq", {"prompt": "x"}, {"name": "toy"}, {"fingerprint": "sha256:1"}, 0)
WRITES = """
import sys
from pathlib import Path
from howsure.errors import HowsureError
from howsure.runs import Identity, RunWriter, Sample
identity = Identity("mcq", {"prompt": "x"}, {"name": "toy"}, {"fingerprint": "sha256:1"}, 0)
try:
    with RunWriter(Path(sys.argv[1]), identity, 99) as writer:
        for number, _ in enumerate(iter(sys.stdin.readline, "")):
            writer.append([Sample(f"{sys.argv[2]}{number}", number)])
            print("written", flush=True)
except HowsureError as error:
    print(f"{type(error).__name__}: {error}", flush=True)
"""


class Writer:
    """A process that writes a sample of its own whenever it is told to, and says how that went."""

    def __init__(self, folder: Path, name: str) -> None:
        paths = str(Path(howsure.__file__).parents[1])
        self.process = subprocess.Popen(
            [sys.executable, "-c", WRITES, str(folder), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": paths},
        )

    def write(self) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        return self.process.stdout.readline().strip()


@pytest.fixture
def writers() -> Iterator[Callable[[Path, str], Writer]]:
    made: list[Writer] = []

    def make(folder: Path, name: str) -> Writer:
        made.append(Writer(folder, name))
        return made[-1]

    yield make
    for one in made:
        one.process.kill()
        one.process.communicate()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes cannot be told apart here")
def test_a_second_writer_is_refused_though_the_lock_was_removed(tmp_path: Path, writers: Any) -> None:
    first = writers(tmp_path / "run", "a")
    assert first.write() == "written"
    (tmp_path / "run" / ".lock").unlink()
    before = (tmp_path / "run" / "run.json").read_bytes()
    second = writers(tmp_path / "run", "b")
    assert f"RunLocked: {tmp_path / 'run'} is being written by process {first.process.pid}" in second.write()
    assert (tmp_path / "run" / "run.json").read_bytes() == before
    assert [sample.id for sample in Run(tmp_path / "run").records()] == ["a0"]


@pytest.mark.parametrize("taken", [False, True], ids=["removed", "made anew"])
def test_a_writer_whose_lock_was_removed_writes_no_more(tmp_path: Path, taken: bool, writers: Any) -> None:
    first = writers(tmp_path / "run", "a")
    assert first.write() == "written"
    (tmp_path / "run" / ".lock").unlink()
    if taken:
        (tmp_path / "run" / ".lock").touch()
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    assert ".lock was removed while this process wrote the run" in first.write()
    first.process.wait(LIMIT_S)
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before


def test_a_writer_that_was_killed_or_stopped_keeps_nobody_out(tmp_path: Path, writers: Any) -> None:
    """Even where its lock was removed; nor does one that lives keep anybody from a copy of its folder."""
    first = writers(tmp_path / "run", "a")
    assert first.write() == "written"
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    assert writers(tmp_path / "copy", "b").write() == "written"
    first.process.send_signal(signal.SIGKILL)
    time.sleep(0.2)  # not waited for, so that its number is still taken
    (tmp_path / "run" / ".lock").unlink()
    assert writers(tmp_path / "run", "c").write() == "written"
