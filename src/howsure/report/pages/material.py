"""What pages are made of: a run folder, read once, and read on where it has grown."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any, Protocol

import msgspec

from howsure.errors import InputError, RunDamaged
from howsure.evidence import Outcome
from howsure.report.pages.columns import Place, Table
from howsure.report.pages.contract import CANNOT, columns_of, pages_of
from howsure.runs import Run, Sample
from howsure.runs.folder import SAMPLES

PICTURE_KINDS = {".png": "image/png", ".jpg": "image/jpeg", ".gif": "image/gif"}
LARGEST_PICTURE_BYTES = 32_000_000
UNREADABLE = "unreadable_sample"


class Links(Protocol):
    """Where a page leads to: other pages in the viewer, nothing but the file itself in a report."""

    def sample(self, key: str) -> str | None:
        """The address of a sample's own page, None where there is none."""
        ...

    def picture(self, name: str) -> str | None:
        """What to write into `src` for a picture of the run folder, None where it cannot be shown."""
        ...


class _Lean(msgspec.Struct):
    """A line of samples.jsonl without its evidence, which is skipped and never built."""

    id: str
    index: int
    result: dict[str, Any] = {}
    outcome: Outcome | None = None
    reason: str | None = None
    detail: str | None = None


class Material:
    """A run and its rows. `summary` is None for a run that is not finished."""

    def __init__(self, folder: str | os.PathLike[str], links: Links) -> None:
        self.folder = Path(folder)
        self.links = links
        self.run = Run(self.folder)
        self.pages = pages_of(self.study)
        self._decoder = msgspec.json.Decoder(_Lean)
        self._start_anew()
        self.refresh()

    @property
    def study(self) -> str:
        return self.run.manifest.identity.study

    def refresh(self) -> None:
        """Read what is new since the last time: the manifest, the summary, and samples that were added."""
        self.run = Run(self.folder)
        self.status = self.run.status
        try:
            self.summary = self.run.summary if self.status == "finished" else None
            self.summary_problem = None
        except RunDamaged as error:
            self.summary, self.summary_problem = None, str(error)
        self._read_on()

    def sample(self, row: int) -> Sample:
        """A whole sample, evidence and all, from the disk."""
        place = self.table.places[row]
        path = self.folder / SAMPLES
        try:
            with path.open("rb") as file:
                file.seek(place.offset)
                return msgspec.json.decode(file.read(place.length), type=Sample)
        except (OSError, msgspec.DecodeError, RecursionError) as error:
            raise RunDamaged(f"{path}, byte {place.offset}: this sample cannot be read: {error}") from error

    # -- reading ----------------------------------------------------------------------------------------------------

    def _start_anew(self) -> None:
        self.table = Table(columns_of(self.pages))
        self.damaged_lines = 0
        self._end = 0
        self._file_id: int | None = None

    def _read_on(self) -> None:
        path = self.folder / SAMPLES
        try:
            found = path.stat()
        except FileNotFoundError:
            return self._start_anew()
        if found.st_ino != self._file_id or found.st_size < self._end:
            self._start_anew()
            self._file_id = found.st_ino
        if found.st_size == self._end:
            return None
        with path.open("rb") as file:
            file.seek(self._end)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._take(line)
                self._end += len(line)
        return None

    def _take(self, line: bytes) -> None:
        place = Place(self._end, len(line))
        try:
            lean = self._decoder.decode(line)
        except (msgspec.DecodeError, RecursionError):
            self.damaged_lines += 1
            return
        sample = Sample(lean.id, lean.index, lean.result, {}, lean.outcome, lean.reason, lean.detail)
        try:
            row = self.pages.row(sample)
        except CANNOT:
            row = {"reason": UNREADABLE}
        self.table.append(lean.id, place, {"id": lean.id, "reason": lean.reason, "_index": lean.index} | row)


# -- pictures ---------------------------------------------------------------------------------------------------------


def file_within(folder: Path, name: str) -> Path | None:
    """A file of the folder by its name, None for one that is not there or that lies outside, by whatever way."""
    if not name or "\0" in name:
        return None
    root = folder.resolve()
    try:
        path = (root / name).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        return None
    return path if path.is_file() and path.is_relative_to(root) else None


def picture_within(folder: Path, name: str) -> Path | None:
    """A picture of the folder, by what its name says, and of a size that is one."""
    path = file_within(folder, name)
    if path is None or path.suffix.lower() not in PICTURE_KINDS or path.stat().st_size > LARGEST_PICTURE_BYTES:
        return None
    return path


class Embedded:
    """Links of a page that stands alone: pictures go into it, until it would be too large."""

    def __init__(self, folder: Path, budget_bytes: int) -> None:
        self.folder = folder
        self.left = budget_bytes
        self.left_out = 0

    def sample(self, key: str) -> str | None:
        return None

    def picture(self, name: str) -> str | None:
        path = picture_within(self.folder, name)
        if path is None:
            return None
        size = path.stat().st_size * 4 // 3
        if size > self.left:
            self.left_out += 1
            return None
        self.left -= size
        return data_url(path)


def data_url(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    return f"data:{PICTURE_KINDS[path.suffix.lower()]};base64,{base64.b64encode(content).decode('ascii')}"
