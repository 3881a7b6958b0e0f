"""The run that a document is made of: a folder that is read on where it grows, or samples in memory."""

from __future__ import annotations

import base64
import contextlib
import copy
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import msgspec

from howsure.errors import CANNOT, RunDamaged
from howsure.report.rows import LARGEST, Place, Table, again_key, key_of
from howsure.report.views import View, columns_of, view_of
from howsure.runs import Run, Sample
from howsure.runs.folder import read_summary
from howsure.runs.reading import MOST_LINE_BYTES, SAMPLES, TOO_LARGE, LeanSample, is_too_heavy, open_file, read_file
from howsure.studies import registry
from howsure.studies.summary import Summary

PICTURE_KINDS = {".png": "image/png", ".jpg": "image/jpeg", ".gif": "image/gif"}
LARGEST_PICTURE_BYTES = 32_000_000
UNREADABLE = "unreadable_sample"
BLOCK_BYTES = 1 << 20
REMEMBERED_BYTES = 4_096
"""Of the last line that was read: whether it still stands there tells whether the file was written over."""

Row = tuple[str, Place, Mapping[str, Any]]


class Links(Protocol):
    """Where a page leads to: other pages in the viewer, nothing but the file itself in a report."""

    number: int
    """Which run of its page it is: what names within a page are told apart by."""

    def sample(self, key: str) -> str | None:
        """The address of a sample's own page, None where there is none."""
        ...

    def picture(self, name: str) -> str | None:
        """What to write into `src` for a picture of the run folder, None where it cannot be shown."""
        ...


class NoLinks:
    """Where nothing leads anywhere: a terminal."""

    number = 0

    def sample(self, key: str) -> str | None:
        return None

    def picture(self, name: str) -> str | None:
        return None


class RunData:
    """A run and its samples as rows; `summary` is what its study declares, None for a run that is not finished."""

    view: View
    table: Table
    links: Links
    summary: Any
    folder: Path
    source: str
    """Where the data was read from, as people know it."""

    @property
    def study(self) -> str:
        raise NotImplementedError

    def sample(self, row: int) -> Sample:
        raise NotImplementedError

    def row(self, sample: Sample) -> Mapping[str, Any]:
        """A sample as a row of the table; one that does not hold what it should is a row still."""
        try:
            row = self.view.row(sample)
        except (*CANNOT, RecursionError):
            row = {"reason": UNREADABLE}
        index = sample.index if abs(sample.index) < LARGEST else None
        right = sample.outcome.correct if sample.outcome else None
        return {"id": sample.id, "reason": sample.reason, "_index": index, "_right": right} | row


class HeldRun(RunData):
    """A run that has just ended, of samples that are in memory, without their evidence."""

    def __init__(self, study: str, result: Any, samples: Sequence[Sample]) -> None:
        self._study, self.summary, self.links, self._samples = study, result.summary, NoLinks(), samples
        self.folder = Path() if result.run is None else result.run.path
        self.source = getattr(result, "source", "")
        self.view = view_of(study)
        self.table = Table(columns_of(self.view))
        self.table.extend([(one.id, Place(0, 0), self.row(one)) for one in samples])

    @property
    def study(self) -> str:
        return self._study

    def sample(self, row: int) -> Sample:
        return self._samples[row]


class StoredRun(RunData):
    """A run folder.

    With `at_once` false nothing is read of the samples until `read_some` is called, again and again, until it says
    that all is here.
    """

    def __init__(self, folder: str | os.PathLike[str], links: Links, *, at_once: bool = True) -> None:
        self.folder = Path(folder)
        self.links = links
        self._read_as: str | None = None
        self.end_bytes, self._file_id, self._last_line = 0, -1, b""
        self.look_again()
        if at_once:
            self._read_all()

    @property
    def study(self) -> str:
        return self.run.manifest.identity.study

    def refresh(self) -> None:
        """Read what is new since the last time: the manifest, the summary, and samples that were added."""
        self.look_again()
        self._read_all()

    def look_again(self) -> None:
        """Read the manifest and the summary; the samples stay as they are, unless the run is of another study now."""
        self.run = Run(self.folder)
        self.status, self.source = self.run.status, self.run.manifest.source or ""
        known = registry.study_named(self.study) if registry.is_known(self.study) else None
        self.summary = None
        self.summary_problem: str | None = None
        if self.status == "finished":
            self._read_summary(known)
        if self.study != self._read_as:
            self._read_as = self.study
            self.view = view_of(self.study)
            self._record: Any = dict[str, Any] if known is None else known.record
            self._lean = msgspec.json.Decoder(LeanSample[self._record])  # type: ignore[name-defined]
            self._start_anew()

    def _read_summary(self, known: Any) -> None:
        """As its study declares it; of one that does not fit, such as an older one, what all summaries have."""
        try:
            self.summary = read_summary(self.folder, Summary if known is None else known.summary)
        except RunDamaged as error:
            self.summary_problem = str(error)
            with contextlib.suppress(RunDamaged):
                self.summary = read_summary(self.folder, Summary)

    def linked(self, links: Links) -> StoredRun:
        """The same run and rows with links of another kind."""
        other = copy.copy(self)
        other.links = links
        return other

    def sample(self, row: int) -> Sample:
        """A whole sample, evidence and all, from the disk."""
        place = self.table.place_of(row)
        path = self.folder / SAMPLES
        try:
            with open_file(self.folder, SAMPLES) as file:
                file.seek(place.offset)
                line = file.read(place.length)
            if is_too_heavy(line):
                raise RunDamaged(f"{path}: the line at byte {place.offset:,} {TOO_LARGE}")
            found = self._whole(line)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise RunDamaged(f"{path}, byte {place.offset}: this sample cannot be read: {error}") from error
        if self.table.keys[row] not in (key_of(found.id), again_key(found.id, row)):
            raise RunDamaged(f"{path} was written anew while it was read: load the page again")
        return found

    def _whole(self, line: bytes) -> Sample:
        """As its study declares it, or as plain data where it does not fit, which its page says."""
        try:
            return msgspec.json.decode(line, type=Sample[self._record])  # type: ignore[name-defined]
        except msgspec.ValidationError:
            return msgspec.json.decode(line, type=Sample[dict[str, Any]])

    # -- reading ----------------------------------------------------------------------------------------------------

    def read_some(self, most_bytes: int = BLOCK_BYTES) -> bool:
        """Read on by about so much; true once every whole line of samples.jsonl is here."""
        path = self.folder / SAMPLES
        try:
            with open_file(self.folder, SAMPLES) as file:
                found = os.fstat(file.fileno())
                if self._is_another(file, found):
                    self._start_anew()
                    self._file_id = found.st_ino
                if found.st_size == self.end_bytes:
                    return True
                file.seek(self.end_bytes)
                block = _whole_lines(file, path, most_bytes)
        except FileNotFoundError:
            self._start_anew()
            return True
        except OSError as error:
            raise RunDamaged(f"{path} cannot be read: {error.strerror}") from error
        self.table.extend(self._rows_of(block))
        return not block or found.st_size <= self.end_bytes

    def _read_all(self) -> None:
        while not self.read_some():
            pass

    def _start_anew(self) -> None:
        self.table = Table(columns_of(self.view))
        self.damaged_lines = 0
        self.end_bytes, self._file_id, self._last_line = 0, -1, b""

    def _is_another(self, file: BinaryIO, found: os.stat_result) -> bool:
        """Whether the file is no longer the one of which the rows are: replaced, cut, or written over."""
        if found.st_ino != self._file_id or found.st_size < self.end_bytes:
            return True
        file.seek(self.end_bytes - len(self._last_line))
        return file.read(len(self._last_line)) != self._last_line

    def _rows_of(self, block: bytes) -> list[Row]:
        rows = []
        lines = block.split(b"\n")[:-1]
        for line in lines:
            row = self._row(line)
            if row is None:
                self.damaged_lines += 1
            else:
                rows.append(row)
            self.end_bytes += len(line) + 1
        if lines:
            self._last_line = lines[-1][-REMEMBERED_BYTES:] + b"\n"
        return rows

    def _row(self, line: bytes) -> Row | None:
        """None for a line that holds no sample."""
        if is_too_heavy(line):
            return None
        try:
            sample = self._lean_sample(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        return sample.id, Place(self.end_bytes, len(line)), self.row(sample)

    def _lean_sample(self, line: bytes) -> Sample:
        try:
            return self._lean.decode(line).sample()
        except msgspec.ValidationError:
            return _PLAIN.decode(line).sample()


_PLAIN = msgspec.json.Decoder(LeanSample[dict[str, Any]])


def _whole_lines(file: BinaryIO, path: Path, most_bytes: int) -> bytes:
    """About so many bytes up to the end of a line; nothing where the last line is not whole yet."""
    blocks = [file.read(most_bytes)]
    while (end := blocks[-1].rfind(b"\n")) < 0:
        blocks.append(file.read(most_bytes))
        if not blocks[-1]:
            return b""
        if len(blocks) * most_bytes > MOST_LINE_BYTES:
            raise RunDamaged(f"{path} has a line that {TOO_LARGE}")
    return b"".join([*blocks[:-1], blocks[-1][: end + 1]])


# -- pictures ---------------------------------------------------------------------------------------------------------


def file_within(folder: Path, name: str) -> Path | None:
    """A file of the folder by its name, None for one that is not there, is hidden, or lies outside, by whatever way."""
    if not name or "\0" in name:
        return None
    root = folder.resolve()
    try:
        path = (root / name).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        return None
    if not path.is_file() or not path.is_relative_to(root):
        return None
    return None if any(part.startswith(".") for part in path.relative_to(root).parts) else path


def picture_within(folder: Path, name: str) -> Path | None:
    """A picture of the folder, by what its name says, and of a size that is one."""
    path = file_within(folder, name)
    if path is None or path.suffix.lower() not in PICTURE_KINDS or path.stat().st_size > LARGEST_PICTURE_BYTES:
        return None
    return path


class Embedded:
    """Links of a page that stands alone: pictures go into it, until it would be too large."""

    def __init__(self, folder: Path, budget_bytes: int, number: int = 0) -> None:
        self.folder = folder
        self.number = number
        self.left = budget_bytes
        self.left_out = 0
        self.drawn: set[str] = set()
        """The ids of pictures that the page holds already, to be drawn again without another copy."""

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
        content = base64.b64encode(read_file(self.folder, name, LARGEST_PICTURE_BYTES)).decode("ascii")
        return f"data:{PICTURE_KINDS[path.suffix.lower()]};base64,{content}"
