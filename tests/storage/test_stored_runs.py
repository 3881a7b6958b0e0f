"""Run folders in a store: whatever happens on the way, nothing is lost and nothing is there twice."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from howsure.errors import HowsureError, InputError, RunDamaged, RunLocked, RunMismatch, StorageError, StoreWithoutLocks
from howsure.runs import Identity, Run, RunWriter, Sample, find_runs
from howsure.runs.places import piece_name
from howsure.storage import Lease, StoredFolder, holder
from howsure.storage import lease as leases
from howsure.storage.stores import filesystem
from storage.s3_server import S3Server

WHOLE = ["report.html", "run.json", "samples.jsonl", "summary.json", "table.csv"]


def identity(**options: Any) -> Identity:
    return Identity("mcq", options, {"name": "m"}, {"fingerprint": "sha256:x"}, 0)


def samples(first: int, last: int, **more: Any) -> list[Sample]:
    return [Sample(f"s{i}", i, {"value": i}, {"tokens": ["ä"] * i}, **more) for i in range(first, last)]


def work(place: str | Path, **options: Any) -> list[str]:
    """A run of six samples in three appends, taken up where it was left; what it kept."""
    with RunWriter(place, identity(), 6, **options) as writer:
        kept = sorted(writer.done)
        for first in (0, 2, 4):
            writer.append([one for one in samples(first, first + 2) if one.id not in writer.done])
        (writer.path / "table.csv").write_text("a,b\n")
        writer.finish({"coverage": {}, "headline": [], "total": sum(s.result["value"] for s in writer.samples)})
    return kept


def names(address: str) -> list[str]:
    return list(StoredFolder(address).files())


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    work(folder)
    return {name: (folder / name).read_bytes() for name in ("samples.jsonl", "summary.json", "table.csv")}


def stored(address: str) -> dict[str, bytes | None]:
    folder = StoredFolder(address)
    return {name: folder.read(name) for name in ("samples.jsonl", "summary.json", "table.csv")}


# -- the ordinary way -----------------------------------------------------------------------------------------------


def test_a_run_in_a_store_is_that_of_a_disk(store: str, undisturbed: dict[str, bytes]) -> None:
    address = f"{store}/runs/first"
    assert work(address) == []
    assert stored(address) == undisturbed
    assert names(address) == WHOLE
    run = Run(address)
    assert (run.status, str(run.path), len(run.records())) == ("finished", address, 6)
    assert run.path.name == "first"
    assert repr(run) == f"Run({address!r}, mcq, finished)"
    for hidden in (".old/run", "runs/first/copy"):  # as on a disk, none of these is looked into
        filesystem(store).pipe_file(f"{store}/{hidden}/run.json", b"{}")
    assert [str(path) for path in find_runs(store)] == [address]


def test_a_run_that_goes_on_is_read_as_far_as_it_is(store: str) -> None:
    address = f"{store}/runs/first"
    with RunWriter(address, identity(), 6) as writer:
        writer.append(samples(0, 2))
        assert names(address)[-1] == piece_name(0)
        assert (Run(address).status, len(Run(address).records())) == ("running", 2)
        writer.append(samples(2, 3))
        assert [one.id for one in Run(address).records()] == ["s0", "s1", "s2"]
    assert Run(address).status == "stopped"
    assert work(address) == ["s0", "s1", "s2"]


def test_samples_that_failed_are_done_again(store: str, undisturbed: dict[str, bytes]) -> None:
    address = f"{store}/run"
    with RunWriter(address, identity(), 6) as writer:
        writer.append(samples(0, 2, reason="no_answer", detail="x"))
        writer.append(samples(2, 4))
        writer.append(samples(4, 6, reason="no_answer", detail="x"))
    assert work(address) == [f"s{i}" for i in range(6)]
    assert work(address, retry_failed=True) == ["s2", "s3"]
    assert sorted((stored(address)["samples.jsonl"] or b"").splitlines()) == sorted(
        undisturbed["samples.jsonl"].splitlines()
    )


def test_a_folder_that_was_copied_into_a_store_goes_on_there(
    store: str, tmp_path: Path, undisturbed: dict[str, bytes]
) -> None:
    with RunWriter(tmp_path / "run", identity(), 6) as writer:
        writer.append(samples(0, 2))
    with (tmp_path / "run" / "samples.jsonl").open("ab") as file:
        file.write(b'{"id": "s2", "ind')
    folder = StoredFolder(f"{store}/run")
    for name in ("run.json", "samples.jsonl"):
        folder.put_file(name, tmp_path / "run" / name)
    assert work(f"{store}/run") == ["s0", "s1"]
    assert stored(f"{store}/run") == undisturbed


def test_another_run_and_a_stranger_are_refused(store: str) -> None:
    work(f"{store}/run")
    with (
        pytest.raises(RunMismatch, match=f"{store}/run holds another run"),
        RunWriter(f"{store}/run", identity(chat=True), 6),
    ):
        pass
    filesystem(store).pipe_file(f"{store}/mine/letter.txt", b"x")
    with pytest.raises(InputError, match="letter.txt' and is not a run folder"):
        work(f"{store}/mine")
    with pytest.raises(InputError, match="is not a run folder: it has no run.json"):
        Run(f"{store}/mine")
    assert [name for name in names(f"{store}/mine") if name.startswith(".")] == []


def test_no_secret_gets_into_the_manifest(store: str) -> None:
    source = "https://me:wonderful@host/data.jsonl?signature=wonderful"
    with RunWriter(f"{store}/run", identity(), 6, source=source):
        pass
    assert Run(f"{store}/run").manifest.source == "https://host/data.jsonl"
    with pytest.raises(ValueError, match="wonderful"), RunWriter(f"{store}/run", identity(), 6):
        raise ValueError(f"url={source!r}")
    assert Run(f"{store}/run").manifest.error == "ValueError: url='https://host/data.jsonl'"


def test_a_piece_that_is_missing_is_told(store: str) -> None:
    with RunWriter(f"{store}/run", identity(), 6) as writer:
        writer.append(samples(0, 2))
        writer.append(samples(2, 4))
    StoredFolder(f"{store}/run").remove([piece_name(0)])
    with pytest.raises(RunDamaged, match="lacks the samples from byte 0 to"):
        Run(f"{store}/run")


def test_a_manifest_of_any_size_is_not_read_into_memory(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    work(f"{store}/run")
    monkeypatch.setattr("howsure.runs.places.MOST_MANIFEST_BYTES", 100)
    for path in (f"{store}/run", *find_runs(f"{store}/run")):  # which is in the list, as one that cannot be read
        with pytest.raises(InputError, match=f"{store}/run/run.json is larger than 100 bytes"):
            Run(path)


def test_a_full_disk_here_is_not_blamed_on_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    address = "memory://full-here/run"

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with (
        pytest.raises(StorageError, match=f"{address}/samples.jsonl cannot be written: its copy .* set TMPDIR"),
        RunWriter(address, identity(), 6) as writer,
        monkeypatch.context() as patch,
    ):
        patch.setattr(os, "write", full)
        writer.append(samples(0, 2))
    assert work(address) == ["s0", "s1"]


# -- faults ---------------------------------------------------------------------------------------------------------


class Unwilling:
    """Every change after the first so many is refused: as if the process were killed there, for all the store sees."""

    def __init__(self, changes: int) -> None:
        self.left = changes

    def change(self, method: str = "PUT", path: str = "") -> int | None:
        if method not in ("PUT", "POST", "DELETE"):
            return None
        self.left -= 1
        return 403 if self.left < 0 else None


def left_and_taken_up(address: str, stop: Callable[[], None], undisturbed: dict[str, bytes]) -> bool:
    """Whether the work came to its end before it was stopped; all must be there when it was taken up."""
    try:
        work(address)
        ended = True
    except StorageError as error:
        ended = False
        assert "cannot be written" in str(error)
        assert "\n" not in str(error)
    stop()
    before = len(Run(address).records()) if "run.json" in names(address) else 0
    assert len(work(address)) == before
    assert stored(address) == undisturbed
    assert not [name for name in names(address) if name.startswith((".", "samples-"))]
    return ended


def test_a_store_may_refuse_any_change(undisturbed: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("howsure.runs.folder.write_report", lambda *_: None)
    store = filesystem("memory://any-change/")
    for changes in range(100):
        unwilling = Unwilling(changes)
        with monkeypatch.context() as patch:
            for name in ("pipe_file", "rm_file"):
                real = getattr(type(store), name)

                def refusing(*args: Any, real: Any = real, unwilling: Unwilling = unwilling, **kwargs: Any) -> Any:
                    if unwilling.change() is not None:
                        raise PermissionError("no more")
                    return real(*args, **kwargs)

                patch.setattr(type(store), name, refusing)
            ended = left_and_taken_up(f"memory://any-change/run-{changes}", patch.undo, undisturbed)
        if ended:
            break
    assert 12 < changes < 99


@pytest.mark.parametrize("changes", [3, 6, 9])
def test_a_server_may_begin_to_refuse(bucket: str, s3: S3Server, undisturbed: dict[str, bytes], changes: int) -> None:
    s3.fault = Unwilling(changes).change

    def stop() -> None:
        s3.fault = None

    assert not left_and_taken_up(f"{bucket}/run", stop, undisturbed)


def test_a_store_may_go_away_in_the_middle(bucket: str, s3: S3Server, undisturbed: dict[str, bytes]) -> None:
    with pytest.raises(StorageError, match="cannot be reached"), RunWriter(f"{bucket}/run", identity(), 6) as writer:
        writer.append(samples(0, 2))
        s3.stop()
        try:
            writer.append(samples(2, 4))
        finally:
            s3.start()
    assert work(f"{bucket}/run") == ["s0", "s1"]
    assert stored(f"{bucket}/run") == undisturbed


def test_an_answer_that_got_lost_is_no_second_writer(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request came through, its answer did not, and the library asked again."""
    real = StoredFolder.create

    def twice(self: StoredFolder, name: str, content: bytes) -> bool:
        real(self, name, content)
        return real(self, name, content)

    with RunWriter(f"{bucket}/run", identity(), 6) as writer:
        monkeypatch.setattr(StoredFolder, "create", twice)
        writer.append(samples(0, 2))
    assert len(Run(f"{bucket}/run").records()) == 2


# -- two writers ----------------------------------------------------------------------------------------------------


@pytest.fixture
def short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(leases.SECONDS_VARIABLE, "2")


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The holders of leases seem to be on machines that cannot be looked into."""
    monkeypatch.setattr(leases, "_is_dead", lambda about: False)
    return


def test_a_second_writer_is_told_who_writes(store: str) -> None:
    with RunWriter(f"{store}/run", identity(), 6) as writer:
        writer.append(samples(0, 2))
        with pytest.raises(RunLocked, match=f"{store}/run is being written by process {os.getpid()} on "):
            work(f"{store}/run")
        writer.append(samples(2, 3))
    assert work(f"{store}/run") == ["s0", "s1", "s2"]


def test_of_many_who_begin_at_once_one_writes(bucket: str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    refused = threading.Semaphore(0)

    def begin(_: int) -> bool:
        lease = Lease(StoredFolder(f"{bucket}/run"))
        try:
            lease.acquire()
        except RunLocked:
            refused.release()
            return False
        for _ in range(5):
            assert refused.acquire(timeout=60)
        lease.release()
        return True

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(begin, range(6))) == 1


def test_a_lease_that_is_kept_is_not_taken(short_leases: None, elsewhere: None) -> None:
    with RunWriter("memory://a-lease-that-is-kept/run", identity(), 6) as writer:
        writer.append(samples(0, 2))
        time.sleep(2.5)
        with pytest.raises(RunLocked):
            work("memory://a-lease-that-is-kept/run")
        writer.append(samples(2, 3))


def test_a_holder_whose_clock_is_wrong_is_not_robbed(
    short_leases: None, elsewhere: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RunWriter("memory://a-holder-whose-clock/run", identity(), 6) as writer:
        real = time.time
        monkeypatch.setattr(leases.time, "time", lambda: real() - 86_400)  # type: ignore[attr-defined]
        time.sleep(0.5)
        monkeypatch.setattr(leases, "_looks_alive", lambda about: False)
        with pytest.raises(RunLocked):
            work("memory://a-holder-whose-clock/run")
        writer.append(samples(0, 2))


def test_a_dead_holder_whose_clock_was_ahead_is_followed(
    short_leases: None, elsewhere: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time
    with monkeypatch.context() as patch:
        patch.setattr(leases.time, "time", lambda: real() + 86_400)  # type: ignore[attr-defined]
        dead = Lease(StoredFolder("memory://a-dead-holder-whose-/run"))
        dead.acquire()
        dead._ended.set()
    assert work("memory://a-dead-holder-whose-/run") == []


def test_one_that_sleeps_too_long_loses_its_lease(
    bucket: str, short_leases: None, elsewhere: None, monkeypatch: pytest.MonkeyPatch, undisturbed: dict[str, bytes]
) -> None:
    monkeypatch.setattr(Lease, "_renew_all_the_time", lambda self: None)
    with (
        pytest.raises(RunLocked, match="was taken over by another process"),
        RunWriter(f"{bucket}/run", identity(), 6) as asleep,
    ):
        asleep.append(samples(0, 2))
        time.sleep(2.1)
        assert Run(f"{bucket}/run").status == "stopped"
        assert work(f"{bucket}/run") == ["s0", "s1"]
        asleep.append(samples(2, 4))
    assert stored(f"{bucket}/run") == undisturbed
    assert Run(f"{bucket}/run").status == "finished"


def test_one_that_wakes_between_looking_and_writing_is_refused_by_the_store(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worst moment: its lease was looked at, and lost before the samples reached the store."""
    address = f"{store}/run"
    with (
        pytest.raises(RunLocked, match="was written to by another process"),
        RunWriter(address, identity(), 6) as asleep,
    ):
        asleep.append(samples(0, 2))
        StoredFolder(address).remove([".lease-000001"])
        with RunWriter(address, identity(), 6) as other:
            other.append(samples(2, 3))
        monkeypatch.setattr(Lease, "check", lambda self: None)
        asleep.append(samples(2, 4))
    assert [one.id for one in Run(address).records()] == ["s0", "s1", "s2"]


def test_a_store_that_cannot_refuse_is_warned_of(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def overwrites(self: StoredFolder, name: str, content: bytes) -> bool:
        self.put(name, content)
        return True

    monkeypatch.setattr(StoredFolder, "create", overwrites)
    with pytest.warns(StoreWithoutLocks, match="cannot refuse a second writer"):
        work(f"{store}/run")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        monkeypatch.undo()


@pytest.mark.parametrize(
    "content",
    [b"[" * 100_000, b'{"pid": null}', b'{"pid": %d, "machine": "M"}' % 10**30, b'{"renewed": %d}' % 10**400, b"\xff"],
    ids=["deep", "no process", "huge process", "huge time", "no text"],
)
def test_a_lease_that_is_none_holds_nobody_off(content: bytes) -> None:
    address = f"memory://odd-lease-{len(content)}/run"
    StoredFolder(address).put(".lease-000001", content.replace(b'"M"', json.dumps(leases.this_machine()).encode()))
    assert holder(StoredFolder(address)) is None
    assert work(address) == []


@pytest.mark.parametrize("given", ["0", "soon", "1e9"])
def test_a_lease_lasts_some_time(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(leases.SECONDS_VARIABLE, given)
    with pytest.raises(InputError, match="must be a number of seconds from 1 to 3600"):
        work("memory://lease/run")


KILLED = """
import os, sys
sys.path.insert(0, {tests!r})
from storage.test_stored_runs import RunWriter, identity, samples
with RunWriter(sys.argv[1], identity(), 6) as writer:
    writer.append(samples(0, 2))
    print("ready", flush=True)
    sys.stdin.readline()
    os.kill(os.getpid(), 9)
"""


def test_a_killed_writer_is_followed_at_once_on_its_machine(
    bucket: str, s3: S3Server, undisturbed: dict[str, bytes]
) -> None:
    code = KILLED.format(tests=str(Path(__file__).parents[1]))
    with subprocess.Popen(
        [sys.executable, "-c", code, f"{bucket}/run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"ready\n"
        with pytest.raises(RunLocked, match=f"process {process.pid}"):
            work(f"{bucket}/run")
        process.stdin.write(b"\n")
        process.stdin.close()
        assert process.wait() == -9
    assert Run(f"{bucket}/run").status == "stopped"
    assert work(f"{bucket}/run") == ["s0", "s1"]
    assert stored(f"{bucket}/run") == undisturbed


def test_an_address_made_a_path_makes_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(HowsureError, match="was an address before it was made a path"):
        work(Path("s3://bucket/run"))
    assert not list(tmp_path.iterdir())
