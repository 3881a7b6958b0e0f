"""Writing a run folder, so that it can be left at any moment, by Ctrl-C or by power loss, and taken up again.

Finished samples are kept, a torn last line is dropped and redone, and nothing is ever written twice. The one writer
lets nobody else in. A folder may lie in a store (`stored.py`).
"""

from __future__ import annotations

import datetime
import os
import platform
import warnings
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from howsure.errors import HowsureError, InputError, ReportNotWritten, RunDamaged, RunMismatch
from howsure.runs.files import Appender, remove_scraps, storage_errors, to_json, write_atomic
from howsure.runs.folder import MANIFEST, SAMPLES, SUMMARY, open_samples, read_manifest, read_samples
from howsure.runs.reading import whole_lines
from howsure.runs.records import Identity, Manifest, Sample, Status, encoded
from howsure.runs.stored import InStore, OnDisk
from howsure.storage import address_of, checked, is_address, shown_path, without_secrets

_VERSIONED = ("howsure", "numpy", "torch", "transformers", "openai")


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


def writing_place(path: str | os.PathLike[str]) -> OnDisk:
    """Where a run folder is written: itself, or a store."""
    given = checked(path)
    address = str(given) if is_address(given) else address_of(given)
    return OnDisk(Path(given)) if address is None else InStore(address)


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
