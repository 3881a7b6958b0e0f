"""The run folder: run.json, samples.jsonl, summary.json.

`RunWriter` owns a folder while it works, and lets nobody else in. `Run` reads one, finished or not. A folder can be
left at any moment, by Ctrl-C or by power loss, and taken up again: finished samples are kept, a torn last line
is dropped and redone, and nothing is ever written twice. A folder may lie in a store (`stored.py`).
"""

from __future__ import annotations

import contextlib
import datetime
import os
import platform
import socket
import warnings
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec

from howsure import wiring
from howsure.errors import (
    HowsureError,
    InputError,
    MissingExtra,
    ReportNotWritten,
    RunDamaged,
    RunLocked,
    RunMismatch,
)
from howsure.runs.files import Appender, remove_scraps, storage_errors, to_json, write_atomic
from howsure.runs.records import Identity, LeanSample, Manifest, Sample, Status
from howsure.runs.stored import InStore, OnDisk, bring_run, find_stored_runs
from howsure.storage import StoredFolder, address_of, checked, holder, is_address, shown_path, without_secrets

if TYPE_CHECKING:
    import polars

MANIFEST, SAMPLES, SUMMARY, LOCK = "run.json", "samples.jsonl", "summary.json", ".lock"
LOCK_PATIENCE_SECONDS = 0.3
"""For how long a writer waits for its lock, which those who look whether anybody writes hold for an instant."""
_VERSIONED = ("howsure", "numpy", "torch", "transformers", "openai")


class Run:
    """A run folder, read."""

    def __init__(self, path: str | os.PathLike[str], *, whole: bool = True) -> None:
        """A folder here, or an address. Of the latter a copy is fetched, and `path` is that copy, which shows itself
        as the address; without `whole` it holds no samples, which is enough for a list of runs."""
        self.path = opened(path, whole=whole)
        self.manifest = read_manifest(self.path)

    @property
    def status(self) -> str:
        """The manifest's status, or `stopped` for a run that says it is running while nobody runs it."""
        if self.manifest.status == "running" and not is_locked(self.path):
            return "stopped"
        return self.manifest.status

    @property
    def summary(self) -> dict[str, Any] | None:
        """The summary of a finished run, None before that."""
        path = self.path / SUMMARY
        return read_json(path) if path.is_file() else None

    def records(self, *, evidence: bool = True) -> list[Sample]:
        """The samples so far, in the order of the data; without their evidence they take far less memory."""
        return sorted(read_samples(self.path / SAMPLES, evidence)[0], key=lambda sample: sample.index)

    def samples(self) -> list[dict[str, Any]]:
        """The samples so far as plain dictionaries, in the order of the data."""
        return [msgspec.to_builtins(sample) for sample in self.records()]

    def frame(self) -> polars.DataFrame:
        """The samples as a Polars table: one row each, the fields of `result` and `outcome` as columns."""
        try:
            import polars
        except ImportError as error:
            raise MissingExtra("a table of samples", "stats", "polars") from error
        rows = [
            {"id": s.id, "index": s.index, "reason": s.reason, "detail": s.detail}
            | s.result
            | (msgspec.to_builtins(s.outcome) if s.outcome else {})
            for s in self.records(evidence=False)
        ]
        columns = list(dict.fromkeys(name for row in rows for name in row))
        try:
            return polars.DataFrame([{c: row.get(c) for c in columns} for row in rows], infer_schema_length=None)
        except (polars.exceptions.PolarsError, TypeError, ValueError, OverflowError) as error:
            why = f"some column holds values of kinds that do not go together ({error})"
            raise RunDamaged(f"{self.path} cannot be a table: {why}; take its samples one by one instead") from error

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, {self.manifest.identity.study}, {self.status})"

    def _repr_html_(self) -> str:
        return str(wiring.ask("html", self))


class RunWriter:
    """The one process that writes a run; a context manager.

    >>> with RunWriter(folder, identity, items=3) as writer:  # doctest: +SKIP
    ...     writer.append(samples)
    ...     writer.finish(summary)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        identity: Identity,
        items: int,
        *,
        source: str = "",
        retry_failed: bool = False,
    ) -> None:
        self._there = writing_place(path)
        self.path = self._there.path
        self._wanted = Manifest(
            identity=identity, items=items, status="running", started=_now(), source=shown_path(source)
        )
        self._retry_failed = retry_failed
        self._finished = False

    def __enter__(self) -> RunWriter:
        self._lock = _owned(self._there)
        try:
            self.manifest = self._take_up()
            remove_scraps(self.path)
            self.samples = self._kept_samples()
            self.done = {sample.id for sample in self.samples}
            self.resumed = len(self.done)
            self._appender = Appender(self.path / SAMPLES)
        except BaseException:
            self._lock.release()
            raise
        return self

    def append(self, samples: Sequence[Sample]) -> None:
        """Write finished samples; they are on the disk, or in the store, when this returns."""
        again = [sample.id for sample in samples if sample.id in self.done]
        if again:
            raise InputError(f"sample {again[0]!r} is in this run already")
        lines = b"".join(to_json(msgspec.to_builtins(sample)) + b"\n" for sample in samples)
        self._there.append(lines)
        self._appender.append(lines)
        self.samples.extend(sample.without_evidence() for sample in samples)
        self.done.update(sample.id for sample in samples)

    def finish(self, summary: dict[str, Any]) -> None:
        """Write the summary, close the run as finished, and have its report written."""
        write_atomic(self.path / SUMMARY, to_json(summary, indent=2) + b"\n")
        self._there.compact()
        self._there.put_rest()
        self._set_status("finished")
        self._finished = True
        self._there.hand_over()  # the report is made of what is here
        have_report_written("report", self.path)

    def keep(self, *names: str) -> None:
        """Have files of the folder outlive this session that no later one could make again."""
        self._there.put(*names)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            self._appender.close()
            if self._finished:
                self._there.put_rest()
                self._there.hand_over()
            elif isinstance(error, KeyboardInterrupt):
                self._set_status("interrupted")
            elif error is not None:
                self._set_status("failed", without_secrets(f"{type(error).__name__}: {error}"))
        except HowsureError:
            if error is None:
                raise
        finally:
            self._lock.release()

    def _take_up(self) -> Manifest:
        """The manifest of a new run, or that of the run that is here if it is the same one."""
        if not (self.path / MANIFEST).is_file():
            strangers = [p.name for p in self.path.iterdir() if not p.name.startswith(".")]
            if strangers:
                raise InputError(
                    f"{self.path} holds {sorted(strangers)[0]!r} and is no run folder: choose another --out"
                )
            manifest = self._wanted
        else:
            manifest = read_manifest(self.path)
            differences = manifest.identity.differences(self._wanted.identity)
            if differences and not read_samples(self.path / SAMPLES, False)[0]:
                manifest, differences = self._wanted, []  # a run that never got to a sample has nothing to mix up
            if differences:
                raise RunMismatch(
                    f"{self.path} holds another run ({'; '.join(differences[:4])}): choose another --out, or delete it"
                )
            manifest.sessions += 1
        if manifest.status != "finished":
            manifest.status, manifest.error, manifest.ended = "running", None, None
        manifest.owner = {"pid": os.getpid(), "host": socket.gethostname()}
        manifest.versions = _versions()
        write_atomic(self.path / MANIFEST, _manifest_json(manifest))
        self._there.put(MANIFEST)
        return manifest

    def _kept_samples(self) -> list[Sample]:
        path = self.path / SAMPLES
        if not is_there(path):
            return []
        samples, intact_bytes = read_samples(path, evidence=False)
        if self._retry_failed and any(sample.failed for sample in samples):
            samples = [sample for sample in samples if not sample.failed]
            kept = {sample.id for sample in samples}
            lines = (line for line in _whole_lines(path) if msgspec.json.decode(line, type=_Named).id in kept)
            self._there.compact()
            write_atomic(path, b"".join(lines))
            self._there.compact()
        elif intact_bytes < path.stat().st_size:
            self._there.compact()
            with storage_errors(path):
                os.truncate(path, intact_bytes)
            self._there.compact()
        return samples

    def _set_status(self, status: Status, error: str | None = None) -> None:
        if status == "finished" and self.manifest.status == "finished" and self.manifest.ended:
            return
        # A clock may have been set back meanwhile, and no run ends before it began.
        self.manifest.status, self.manifest.error = status, error
        self.manifest.ended = max(_now(), self.manifest.started)
        write_atomic(self.path / MANIFEST, _manifest_json(self.manifest))
        self._there.put(MANIFEST)


def opened(path: str | os.PathLike[str], *, whole: bool = True) -> Path:
    """Where a run folder can be read: itself, or an up to date copy of one that lies in a store."""
    given = checked(path)
    address = str(given) if is_address(given) else address_of(given)
    if address is None:
        return Path(given)
    return bring_run(address, whole=whole)


def writing_place(path: str | os.PathLike[str]) -> OnDisk:
    """Where a run folder is written: itself, or a store."""
    given = checked(path)
    address = str(given) if is_address(given) else address_of(given)
    return OnDisk(Path(given)) if address is None else InStore(address)


def _owned(there: OnDisk) -> Any:
    """What keeps others out of a run folder, to be released; what is in it is on this machine from then on."""
    if isinstance(there, InStore):
        there.acquire()
        return there
    with storage_errors(there.path):
        there.path.mkdir(parents=True, exist_ok=True)
    return _lock(there.path)


def have_report_written(what: str, folder: Path, *more: Path) -> None:
    """A page for people, made after the run is safe on the disk; no fault in it may cost them the run."""
    try:
        wiring.ask(what, folder, *more)
    except Exception as error:  # noqa: BLE001  whatever it is, the run is whole and its maker shall go on
        problem = f"{folder}: no report was written ({type(error).__name__}: {error}); the run itself is whole"
        warnings.warn(f"{problem}, and `howsure report {folder}` tries again", ReportNotWritten, stacklevel=3)


def read_manifest(folder: Path) -> Manifest:
    path = folder / MANIFEST
    if not path.is_file():
        raise InputError(f"{folder} is no run folder: it has no {MANIFEST}")
    try:
        return msgspec.json.decode(path.read_bytes(), type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, OSError, RecursionError) as error:
        raise RunDamaged(f"{path} cannot be read: {error}; restore it, or start the run anew") from error


class _Named(msgspec.Struct):
    id: str


_LEAN = msgspec.json.Decoder(LeanSample)


def _lean(line: bytes) -> Sample:
    return _LEAN.decode(line).sample()


def read_samples(path: Path, evidence: bool = True) -> tuple[list[Sample], int]:
    """The whole samples of a file and the bytes that they take; a torn last line is left out."""
    if not is_there(path):
        return [], 0
    samples: list[Sample] = []
    seen: set[str] = set()
    intact = 0
    decode = msgspec.json.Decoder(Sample).decode if evidence else _lean
    for number, line in enumerate(_whole_lines(path), 1):
        try:
            sample = decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise RunDamaged(f"{path}, line {number}: {error}; delete that line to have its sample redone") from error
        if sample.id in seen:
            raise RunDamaged(f"{path}, line {number}: sample {sample.id!r} is there twice; delete one of the two")
        seen.add(sample.id)
        samples.append(sample)
        intact += len(line)
    return samples, intact


def is_there(path: Path) -> bool:
    """Whether there is a file of samples. A pipe, which would be waited for, or a folder in its place is no run's."""
    if path.is_file():
        return True
    if os.path.lexists(path):
        raise RunDamaged(f"{path} is no file: move it away, and restore the samples or have them done again")
    return False


def read_json(path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, OSError, RecursionError) as error:
        raise RunDamaged(f"{path} cannot be read: {error}; run the same command again to have it rewritten") from error


def find_runs(folder: str | os.PathLike[str]) -> list[Path]:
    """The run folders at or below a folder, newest first; a run is not searched for further runs.

    In a store, the copies that come back hold no samples yet; `Run` fetches them.
    """
    given = checked(folder)
    if is_address(given):
        return find_stored_runs(str(given))
    root = Path(given)
    if not root.is_dir():
        raise InputError(f"{root} is not a folder")
    found = []
    for place, folders, files in os.walk(root):
        if MANIFEST in files:
            with contextlib.suppress(OSError):  # gone since, or a link that leads nowhere
                found.append(((Path(place) / MANIFEST).stat().st_mtime, Path(place)))
            folders.clear()
        folders[:] = [name for name in folders if not name.startswith(".")]
    return [path for _, path in sorted(found, key=lambda one: one[0], reverse=True)]


def is_locked(folder: Path) -> bool:
    """Whether a process is writing the run now. Nothing is written to find out, and whoever asks at the same time is
    not taken for a writer."""
    if (address := address_of(folder)) is not None:
        return holder(StoredFolder(address)) is not None
    if os.name == "nt":
        return _is_held(folder / LOCK)
    import fcntl

    try:
        handle = os.open(folder / LOCK, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)  # which gives the lock back
    return False


def _is_held(lock: Path) -> bool:
    """The same where locks cannot be shared."""
    from filelock import FileLock, Timeout

    if not lock.exists():
        return False
    try:
        with FileLock(lock, timeout=0):
            return False
    except (Timeout, OSError):
        return True


def _whole_lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield line


def _lock(folder: Path) -> Any:
    from filelock import FileLock, Timeout

    lock = FileLock(folder / LOCK, timeout=LOCK_PATIENCE_SECONDS)
    with storage_errors(folder):
        try:
            lock.acquire()
        except Timeout as error:
            who = _writer_of(folder)
            raise RunLocked(f"{folder} is being written by {who}: wait for it, or choose another --out") from error
    return lock


def _writer_of(folder: Path) -> str:
    """Who has the lock; for an instant the manifest still names the last one, who may be gone."""
    owner = read_manifest(folder).owner if (folder / MANIFEST).is_file() else {}
    gone = owner.get("host") == socket.gethostname() and not _is_alive(owner.get("pid"))
    return "another process" if gone or not owner else f"process {owner.get('pid')} on {owner.get('host')}"


def _is_alive(pid: Any) -> bool:
    if os.name != "posix" or not isinstance(pid, int) or pid <= 0:
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _manifest_json(manifest: Manifest) -> bytes:
    return to_json(msgspec.to_builtins(manifest), indent=2) + b"\n"


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _VERSIONED:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
