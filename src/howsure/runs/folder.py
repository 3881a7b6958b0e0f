"""The run folder, read: run.json, samples.jsonl, summary.json.

`Run` reads one, finished or not, wherever it lies (`stored.py`); `writer.py` writes it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from howsure.errors import InputError, MissingExtra, RunDamaged
from howsure.runs.reading import LOCK as LOCK
from howsure.runs.reading import MANIFEST as MANIFEST
from howsure.runs.reading import MOST_SUMMARY_BYTES, open_file, read_json_file, whole_lines
from howsure.runs.reading import SAMPLES as SAMPLES
from howsure.runs.reading import SUMMARY as SUMMARY
from howsure.runs.reading import read_manifest as read_manifest
from howsure.runs.records import LeanSample, Sample
from howsure.runs.stored import bring_run, find_stored_runs, run_folders
from howsure.storage import StoredFolder, address_of, checked, holder, is_address
from howsure.types import Shown

if TYPE_CHECKING:
    import polars


class Run(Shown):
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
        content: dict[str, Any] | None = read_summary(self.path)
        return content

    def records(self, *, evidence: bool = True, record: Any = dict[str, Any]) -> list[Sample]:
        """The samples so far, in the order of the data; without their evidence they take far less memory.

        `record` is the struct that a study declares for what its samples hold; without, they are dictionaries.
        """
        return sorted(read_samples(self.path, evidence, record)[0], key=lambda sample: sample.index)

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


def opened(path: str | os.PathLike[str], *, whole: bool = True) -> Path:
    """Where a run folder can be read: itself, or an up to date copy of one that lies in a store."""
    given = checked(path)
    address = str(given) if is_address(given) else address_of(given)
    if address is None:
        return Path(given)
    return bring_run(address, whole=whole)


def read_summary(folder: Path, kind: Any = dict[str, Any]) -> Any:
    """The summary of a finished run, None before that; `kind` is what its study says that it holds."""
    try:
        content = read_json_file(folder, SUMMARY, MOST_SUMMARY_BYTES)
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = f"{error}; run the same command again to have it rewritten"
        raise RunDamaged(f"{folder / SUMMARY} cannot be read: {why}") from error


def read_samples(folder: Path, evidence: bool = True, record: Any = dict[str, Any]) -> tuple[list[Sample], int]:
    """The whole samples of a run and the bytes that they take; a torn last line is left out.

    `record` is what the study says that its samples hold. One that does not fit is named by its line and field.
    """
    path = folder / SAMPLES
    samples: list[Sample] = []
    seen: set[str] = set()
    intact = 0
    decode = _decoder(record, evidence)
    with open_samples(folder) as file:
        for number, line in enumerate(whole_lines(file, path), 1):
            try:
                sample = decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise RunDamaged(
                    f"{path}, line {number}: {error}; delete that line to have its sample redone"
                ) from error
            if sample.id in seen:
                raise RunDamaged(f"{path}, line {number}: sample {sample.id!r} is there twice; delete one of the two")
            seen.add(sample.id)
            samples.append(sample)
            intact += len(line)
    return samples, intact


@cache
def _decoder(record: Any, evidence: bool) -> Callable[[bytes], Sample]:
    if evidence:
        return msgspec.json.Decoder(Sample[record]).decode
    lean = msgspec.json.Decoder(LeanSample[record]).decode
    return lambda line: lean(line).sample()


def open_samples(folder: Path) -> BinaryIO:
    """The samples of a run; a run that has none yet has an empty file."""
    try:
        return open_file(folder, SAMPLES)
    except FileNotFoundError:
        return BytesIO()


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
    dated = []
    for place in run_folders(os.walk(root)):
        with contextlib.suppress(OSError):  # gone since, or a link that leads nowhere
            dated.append(((Path(place) / MANIFEST).stat().st_mtime, Path(place)))
    return [path for _, path in sorted(dated, key=lambda one: one[0], reverse=True)]


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
