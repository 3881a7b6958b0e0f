"""The run folder: run.json, samples.jsonl, summary.json.

`Run` reads one, finished or not, wherever it lies (`places.py`). `RunWriter` writes it so that it can be left at any
moment, by Ctrl-C or by power loss, and taken up again: finished samples are kept, a torn last line is dropped and
redone, and nothing is ever written twice. The one writer lets nobody else in.
"""

from __future__ import annotations

import datetime
import os
import platform
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from importlib import metadata
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from howsure.errors import HowsureError, InputError, MissingExtra, ReportNotWritten, RunDamaged, RunMismatch
from howsure.runs.files import Appender, remove_scraps, storage_errors, to_json, write_atomic
from howsure.runs.places import bring_run, is_locked, writing_place
from howsure.runs.reading import (
    MANIFEST,
    MOST_SUMMARY_BYTES,
    SAMPLES,
    SUMMARY,
    Identity,
    LeanSample,
    Manifest,
    Sample,
    Status,
    encoded,
    open_file,
    read_json_file,
    read_manifest,
    whole_lines,
)
from howsure.storage import address_of, checked, shown_path, without_secrets
from howsure.types import Shown

if TYPE_CHECKING:
    import polars

_VERSIONED = ("howsure", "numpy", "torch", "transformers", "openai")


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
    address = address_of(given)
    return Path(given) if address is None else bring_run(address, whole=whole)


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


# -- writing --------------------------------------------------------------------------------------------------------


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
        record: Any = dict[str, Any],
        retry_failed: bool = False,
        lacks: Callable[[Sample], bool] = lambda sample: sample.failed,
    ) -> None:
        """`record` is the struct that the study's samples hold; `lacks` says which of them are done again with
        `retry_failed`."""
        self._record = record
        self._there = writing_place(path)
        self.path = self._there.path
        self._wanted = Manifest(
            identity=identity, items=items, status="running", started=_now(), source=shown_path(source)
        )
        self._again = lacks if retry_failed else None
        self._finished = False

    def __enter__(self) -> RunWriter:
        self._there.acquire()  # what is in it is on this machine from then on
        try:
            self.manifest = self._take_up()
            remove_scraps(self.path)
            self.samples = self._kept_samples()
            self.done = {sample.id for sample in self.samples}
            self.resumed = len(self.done)
            self._appender = Appender(self.path / SAMPLES)
        except BaseException:
            self._there.release()
            raise
        return self

    def append(self, samples: Sequence[Sample]) -> None:
        """Write finished samples; they are on the disk, or in the store, when this returns."""
        again = [sample.id for sample in samples if sample.id in self.done]
        if again:
            raise InputError(f"sample {again[0]!r} is in this run already")
        lines = b"".join(encoded(sample) + b"\n" for sample in samples)
        self._there.append(lines)
        self._appender.append(lines)
        self.samples.extend(sample.without_evidence() for sample in samples)
        self.done.update(sample.id for sample in samples)

    def finish(self, summary: Any) -> None:
        """Write the summary, close the run as finished, and have its report written."""
        self._there.check()
        write_atomic(self.path / SUMMARY, to_json(summary, indent=2) + b"\n")
        self._there.compact()
        self._there.put_rest()
        self._set_status("finished")
        self._finished = True
        self._there.hand_over()  # the report is made of what is here
        write_report(self.path)

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
            self._there.release()

    def _take_up(self) -> Manifest:
        """The manifest of a new run, or that of the run that is here if it is the same one."""
        if not (self.path / MANIFEST).is_file():
            strangers = [p.name for p in self.path.iterdir() if not p.name.startswith(".")]
            if strangers:
                raise InputError(
                    f"{self.path} holds {sorted(strangers)[0]!r} and is not a run folder: choose another --out"
                )
            manifest = self._wanted
        else:
            self._check_links()
            manifest = read_manifest(self.path)
            differences = manifest.identity.differences(self._wanted.identity)
            if differences and not read_samples(self.path, False)[0]:
                manifest, differences = self._wanted, []  # a run that never got to a sample has nothing to mix up
            if differences:
                raise RunMismatch(
                    f"{self.path} holds another run ({'; '.join(differences[:4])}): choose another --out, or delete it"
                )
            manifest.sessions += 1
        if manifest.status != "finished":
            manifest.status, manifest.error, manifest.ended = "running", None, None
        manifest.owner = self._there.owner()
        manifest.versions = _versions()
        write_atomic(self.path / MANIFEST, _manifest_json(manifest))
        self._there.put(MANIFEST)
        return manifest

    def _check_links(self) -> None:
        """A run is not written through links, which whoever sent it may have put there."""
        inside = os.path.realpath(self.path)
        with storage_errors(self.path), os.scandir(self.path) as entries:
            links = [entry.path for entry in entries if entry.is_symlink()]
        for link in links:
            if not Path(os.path.realpath(link)).is_relative_to(inside):
                raise RunDamaged(f"{link} leads out of {self.path}: put the folder or file itself there")

    def _kept_samples(self) -> list[Sample]:
        path = self.path / SAMPLES
        samples, intact_bytes = read_samples(self.path, False, self._record)
        again = {sample.id for sample in samples if self._again is not None and self._again(sample)}
        if again:
            samples = [sample for sample in samples if sample.id not in again]
            with open_samples(self.path) as file:
                every = whole_lines(file, path)
                lines = [line for line in every if msgspec.json.decode(line, type=_Named).id not in again]
            self._there.compact()
            write_atomic(path, b"".join(lines))
            self._there.compact()
        elif path.exists() and intact_bytes < path.stat().st_size:
            self._there.compact()
            with storage_errors(path):
                os.truncate(path, intact_bytes)
            self._there.compact()
        return samples

    def _set_status(self, status: Status, error: str | None = None) -> None:
        if status == "finished" and self.manifest.status == "finished" and self.manifest.ended:
            return
        self._there.check()
        # A clock may have been set back meanwhile, and no run ends before it began.
        self.manifest.status, self.manifest.error = status, error
        self.manifest.ended = max(_now(), self.manifest.started)
        write_atomic(self.path / MANIFEST, _manifest_json(self.manifest))
        self._there.put(MANIFEST)


def write_report(folder: Path, *pair: Path) -> None:
    """A page for people, made after the run is safe on the disk; no fault in it may cost them the run. With two runs,
    it is about what changed between them."""
    # The second place, after `types.Shown`, where a lower room asks the one that makes pages.
    try:
        from howsure.report import run_report

        run_report.write_pair_report(folder, *pair) if pair else run_report.write_report(folder)
    except Exception as error:  # noqa: BLE001  whatever it is, the run is whole and its maker shall go on
        problem = f"{folder}: no report was written ({type(error).__name__}: {error}); the run itself is whole"
        warnings.warn(f"{problem}, and `howsure report {folder}` tries again", ReportNotWritten, stacklevel=3)


class _Named(msgspec.Struct):
    id: str


def _manifest_json(manifest: Manifest) -> bytes:
    return to_json(msgspec.to_builtins(manifest), indent=2) + b"\n"


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in _VERSIONED:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def _now() -> str:
    """To the microsecond: two runs of the same may begin in one second, and are told apart by this."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
