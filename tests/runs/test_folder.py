"""The run folder: resumed, locked, refused, read back; and torn by hand in every way a crash tears it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest

from howsure.errors import InputError, MissingExtra, RunDamaged, RunLocked, RunMismatch, StorageError
from howsure.evidence import Outcome
from howsure.runs import Identity, Run, RunWriter, Sample, find_runs
from howsure.runs.files import to_json
from howsure.runs.places import is_locked

pytestmark = pytest.mark.usefixtures("lenient_pages")  # their summaries hold next to nothing

IDENTITY = Identity("mcq", {"prompt": "x"}, {"name": "toy"}, {"fingerprint": "sha256:1"}, 0)


def sample(i: int, **changes: object) -> Sample:
    fields: dict[str, object] = {"result": {"value": i / 3}, "outcome": Outcome(correct=i % 2 == 0)}
    return Sample(f"s{i}", i, **(fields | changes))


def write(folder: Path, indices: range, *, finish: bool = False, identity: Identity = IDENTITY) -> RunWriter:
    with RunWriter(folder, identity, items=10) as writer:
        writer.append([sample(i) for i in indices])
        if finish:
            writer.finish({"study": "mcq", "sum": sum(s.result["value"] for s in writer.samples)})
    return writer


def test_a_finished_run_reads_back_exactly(tmp_path: Path) -> None:
    write(tmp_path / "run", range(10), finish=True)
    run = Run(tmp_path / "run")
    assert run.status == "finished"
    assert run.records() == [sample(i) for i in range(10)]
    assert run.samples()[3] == {"id": "s3", "index": 3, "result": {"value": 1.0}, "outcome": {"correct": False}}
    assert run.summary == {"study": "mcq", "sum": sum(i / 3 for i in range(10))}
    frame = run.frame()
    assert frame["correct"].to_list() == [i % 2 == 0 for i in range(10)]
    assert frame["value"].to_list() == [i / 3 for i in range(10)]
    manifest = json.loads((tmp_path / "run" / "run.json").read_text())
    assert manifest["status"] == "finished"
    assert manifest["versions"]["numpy"]


def test_a_stopped_run_goes_on_and_ends_alike(tmp_path: Path) -> None:
    write(tmp_path / "whole", range(10), finish=True)
    write(tmp_path / "parts", range(4))
    assert Run(tmp_path / "parts").status == "stopped"
    with RunWriter(tmp_path / "parts", IDENTITY, items=10) as writer:
        assert writer.done == {f"s{i}" for i in range(4)}
    write(tmp_path / "parts", range(4, 10), finish=True)
    assert (tmp_path / "parts" / "summary.json").read_bytes() == (tmp_path / "whole" / "summary.json").read_bytes()
    assert (tmp_path / "parts" / "samples.jsonl").read_bytes() == (tmp_path / "whole" / "samples.jsonl").read_bytes()


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_torn_last_line_is_dropped_and_redone(tmp_path: Path, cut: int) -> None:
    write(tmp_path, range(4))
    path = tmp_path / "samples.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    with RunWriter(tmp_path, IDENTITY, items=10) as writer:
        assert writer.done == {"s0", "s1", "s2"}
        writer.append([sample(3)])
    assert path.read_bytes() == whole


def test_nul_bytes_after_a_power_cut_are_a_torn_line(tmp_path: Path) -> None:
    write(tmp_path, range(2))
    with (tmp_path / "samples.jsonl").open("ab") as file:
        file.write(b"\0" * 4096)
    with RunWriter(tmp_path, IDENTITY, items=10) as writer:
        assert writer.done == {"s0", "s1"}
    assert b"\0" not in (tmp_path / "samples.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("line", "words"),
    [(b"garbage\n", "line 2"), (b'{"id": 3}\n', "line 2"), (b'{"id":"s0","index":0}\n', "'s0' is there twice")],
)
def test_damage_in_the_middle_is_named_by_line(tmp_path: Path, line: bytes, words: str) -> None:
    write(tmp_path, range(2))
    path = tmp_path / "samples.jsonl"
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + line + second)
    with pytest.raises(RunDamaged, match=words):
        RunWriter(tmp_path, IDENTITY, items=10).__enter__()
    with pytest.raises(RunDamaged, match=words):
        Run(tmp_path).records()


def test_no_sample_twice(tmp_path: Path) -> None:
    with RunWriter(tmp_path, IDENTITY, items=10) as writer:
        writer.append([sample(1)])
        with pytest.raises(InputError, match="'s1' is in this run already"):
            writer.append([sample(1)])


def test_another_run_is_refused_with_the_difference(tmp_path: Path) -> None:
    write(tmp_path, range(2))
    before = (tmp_path / "run.json").read_bytes()
    other = Identity("mcq", {"prompt": "y", "new": 1}, {"name": "toy"}, {"fingerprint": "sha256:2"}, 1)
    with pytest.raises(RunMismatch) as caught:
        write(tmp_path, range(2, 4), identity=other)
    for words in ("options.prompt was 'x', now 'y'", "options.new was None, now 1", "data.fingerprint", "seed was 0"):
        assert words in str(caught.value)
    assert (tmp_path / "run.json").read_bytes() == before


def test_a_run_that_never_got_to_a_sample_makes_room(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), RunWriter(tmp_path, IDENTITY, items=10):
        raise RuntimeError("no such model")
    other = Identity("mcq", {"prompt": "y"}, {"name": "better"}, {"fingerprint": "sha256:1"}, 0)
    write(tmp_path, range(2), identity=other)
    assert Run(tmp_path).manifest.identity == other


def test_a_folder_of_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(InputError, match=r"thesis\.tex.*choose another --out"):
        write(tmp_path, range(2))
    assert sorted(p.name for p in tmp_path.iterdir() if not p.name.startswith(".")) == ["thesis.tex"]


def test_a_second_process_is_told_who_has_the_run(tmp_path: Path) -> None:
    code = (
        "import sys; from howsure.runs import *\n"
        f"i = Identity('mcq', {{'prompt': 'x'}}, {{'name': 'toy'}}, {{'fingerprint': 'sha256:1'}}, 0)\n"
        f"w = RunWriter({str(tmp_path)!r}, i, 10).__enter__()\n"
        "print('in', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout.readline() == "in\n"
        assert Run(tmp_path).status == "running"
        with pytest.raises(RunLocked, match=f"process {other.pid} on"):
            write(tmp_path, range(1))
    finally:
        other.kill()
        other.communicate()
    write(tmp_path, range(1))
    assert Run(tmp_path).status == "stopped"


@pytest.mark.skipif(os.name == "nt", reason="locks cannot be shared there")
def test_whoever_looks_is_no_writer_and_keeps_none_out(tmp_path: Path) -> None:
    import fcntl

    write(tmp_path, range(1))
    with open(tmp_path / ".lock", "rb") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        assert not is_locked(tmp_path)
        assert Run(tmp_path).status == "stopped"
        done = threading.Timer(0.1, lambda: fcntl.flock(looking, fcntl.LOCK_UN))
        done.start()
        write(tmp_path, range(1, 2))
        done.join()
    assert len(Run(tmp_path).records()) == 2


@pytest.mark.skipif(os.name == "nt", reason="the lock is written to there")
def test_looking_writes_nothing(tmp_path: Path) -> None:
    write(tmp_path / "run", range(1))
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "run" / ".lock").unlink()
    (tmp_path / "run" / ".lock").symlink_to(tmp_path / "precious")
    before = (tmp_path / "precious").stat().st_mtime_ns
    is_locked(tmp_path / "run")
    assert (tmp_path / "precious").read_text() == "mine"
    assert (tmp_path / "precious").stat().st_mtime_ns == before
    (tmp_path / "run" / ".lock").unlink()
    assert not is_locked(tmp_path / "run")
    assert not (tmp_path / "run" / ".lock").exists()


def test_failed_samples_are_kept_until_a_retry_is_asked_for(tmp_path: Path) -> None:
    with RunWriter(tmp_path, IDENTITY, items=10) as writer:
        writer.append([sample(0), Sample("s1", 1, reason="server_error", detail="500")])
    with RunWriter(tmp_path, IDENTITY, items=10) as writer:
        assert writer.done == {"s0", "s1"}
    with RunWriter(tmp_path, IDENTITY, items=10, retry_failed=True) as writer:
        assert writer.done == {"s0"}
        writer.append([sample(1)])
    assert [s.failed for s in Run(tmp_path).records()] == [False, False]


def test_the_manifest_says_how_it_ended(tmp_path: Path) -> None:
    for error, status in ((KeyboardInterrupt(), "interrupted"), (RuntimeError("boom"), "failed")):
        folder = tmp_path / status
        with pytest.raises(type(error)), RunWriter(folder, IDENTITY, items=10):
            raise error
        assert Run(folder).status == status
    assert Run(tmp_path / "failed").manifest.error == "RuntimeError: boom"


def test_numbers_that_json_cannot_hold_are_refused_not_nulled(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at result.value"), RunWriter(tmp_path, IDENTITY, items=1) as writer:
        writer.append([sample(0, result={"value": float("nan")})])
    assert Run(tmp_path).records() == []


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\xff", b'{"identity": 3}', b"[" * 100_000])
def test_a_damaged_manifest_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(RunDamaged, match=r"run\.json cannot be read"):
        Run(tmp_path)


def test_what_is_no_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a run folder"):
        Run(tmp_path)
    with pytest.raises(InputError, match="not a folder"):
        find_runs(tmp_path / "gone")


def test_runs_are_found_newest_first_and_not_inside_each_other(tmp_path: Path) -> None:
    for age, name in ((20, "a/old"), (10, "new"), (5, "new/inner")):
        write(tmp_path / name, range(1))
        manifest = tmp_path / name / "run.json"
        os.utime(manifest, (1e9 - age, 1e9 - age))
    assert [str(p.relative_to(tmp_path)) for p in find_runs(tmp_path)] == ["new", "a/old"]


def test_a_manifest_that_leads_nowhere_hides_no_other_run(tmp_path: Path) -> None:
    write(tmp_path / "good", range(1))
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "run.json").symlink_to(tmp_path / "nowhere")
    assert find_runs(tmp_path) == [tmp_path / "good"]


def test_a_full_disk_is_one_sentence_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system takes part of the block, then refuses, as a full disk does."""
    import errno

    from howsure.runs import files

    real, room = os.write, [700]

    def write_until_full(handle: int, block: bytes) -> int:
        taken = real(handle, bytes(block)[: room[0]])
        room[0] -= taken
        if taken == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return taken

    with RunWriter(tmp_path, IDENTITY, items=100) as writer:
        monkeypatch.setattr(files.os, "write", write_until_full)
        with pytest.raises(StorageError, match=r"samples\.jsonl cannot be written: the disk is full: free some space"):
            for i in range(0, 100, 2):
                writer.append([sample(i), sample(i + 1)])
        monkeypatch.undo()
        kept = len(writer.done)
    assert 0 < kept < 100
    lines = (tmp_path / "samples.jsonl").read_bytes().splitlines()
    assert len(lines) == kept, "a block that did not fit is taken back whole"
    write(tmp_path, range(kept, 100), finish=True)
    assert len(Run(tmp_path).records()) == 100


def test_a_really_full_disk(tmp_path: Path) -> None:
    """The same on a file system of 64 KiB, where this machine lets us make one."""
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)], capture_output=True, text=True, check=False
    )
    if made.returncode != 0:
        pytest.skip(f"no small file system can be mounted here: {made.stderr.strip()}")
    try:
        with (
            pytest.raises(StorageError, match="the disk is full"),
            RunWriter(tmp_path / "r", IDENTITY, 10**6) as writer,
        ):
            for i in range(10**5):
                writer.append([sample(i)])
        kept = len(Run(tmp_path / "r").records())
        assert kept > 100
        assert len((tmp_path / "r" / "samples.jsonl").read_bytes().splitlines()) == kept
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_folder_that_may_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="cannot be written"):
        write(tmp_path / "file" / "run", range(1))


def test_a_table_without_polars_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, range(1))
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingExtra, match=r'pip install "howsure\[stats\]"'):
        Run(tmp_path).frame()


def test_half_a_character_can_be_written_and_read_back() -> None:
    assert msgspec.json.decode(to_json({"name": "n\udcff 😀"})) == {"name": "n\ufffd 😀"}
