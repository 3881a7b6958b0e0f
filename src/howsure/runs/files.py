"""Writing so that a crash leaves the old or the new, never half of either."""

from __future__ import annotations

import contextlib
import csv
import errno
import io
import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from howsure.errors import StorageError
from howsure.storage import address_of

_REMEDIES = {
    errno.ENOSPC: "the disk is full: free some space and run the same command again",
    errno.EDQUOT: "your quota on this disk is used up: free some space and run the same command again",
    errno.EROFS: "the disk is read-only: choose another --out",
    errno.EACCES: "you may not write there: choose another --out",
}

_BINARY = getattr(os, "O_BINARY", 0)

SCRAP = ".part"
"""How the name of a file ends that is not whole yet."""


@contextlib.contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """The operating system's refusals as one sentence that says what is safe and what to do."""
    try:
        yield
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        remedy = _REMEDIES.get(error.errno or 0, f"the system said «{error.strerror or error}»")
        if address_of(path) is not None:  # the store is not what refused
            remedy = f"its copy in {tempfile.gettempdir()} met «{error.strerror}»: set TMPDIR to a larger disk"
        raise StorageError(f"{path} cannot be written: {remedy}; samples written before are safe") from error


def to_json(value: Any, *, indent: int | None = None) -> bytes:
    """JSON that keeps every digit and refuses NaN and infinity, which would turn into a silent null elsewhere.

    Half a character (a lone surrogate, as in names that are no text) becomes U+FFFD: few readers of JSON take it.
    """
    separators = (",", ":") if indent is None else None
    plain = msgspec.to_builtins(value)
    text = json.dumps(plain, ensure_ascii=False, allow_nan=False, indent=indent, separators=separators)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode("utf-8")


def write_new(path: Path, value: Any) -> None:
    """A document outside of any run, as JSON, in a folder that is made where it is missing."""
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, to_json(value, indent=2) + b"\n")


def write_atomic(path: Path, content: bytes) -> None:
    """Replace a file's content in one step that outlives a power cut."""
    with replacing(path) as file:
        file.write(content)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file under a name of its own, which takes the place of the old one when all of it is on the disk.

    Who may read it is for the umask to say.
    """
    with storage_errors(path):
        scratch = path.parent / f".{path.name}.{os.urandom(4).hex()}{SCRAP}"
        handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o666)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(scratch, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(scratch)
            raise
        sync_folder(path.parent)


def remove_scraps(folder: Path) -> None:
    """Take away what writes that were killed left below a folder; only for whoever owns it, since others may be at
    work on theirs."""
    with storage_errors(folder):
        for scrap in folder.rglob(f".*.????????{SCRAP}"):
            scrap.unlink(missing_ok=True)


def write_csv(path: Path, rows: Iterable[Mapping[str, Any]], columns: Sequence[str] | None = None) -> None:
    """A table with a line a row, in the columns given or in all that rows have; what a row has not is an empty cell.

    Without columns, the rows are gone through twice.
    """
    names = list(columns or dict.fromkeys(name for row in rows for name in row))
    write_atomic(path, csv_lines([dict(zip(names, names, strict=True))], names) + csv_lines(rows, names))


def csv_lines(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> bytes:
    """Lines of a table without its header; every CSV of howsure is made here."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", restval="", lineterminator="\n")
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue().encode("utf-8", errors="backslashreplace")


_FORMULA = re.compile(r"'*(?:[\t\n]|\s*[=+\-@\uff1d\uff0b\uff0d\uff20])")
"""How a cell begins that a spreadsheet takes for a formula (OWASP, CSV injection; the last four are full-width signs),
or one that `as_text` wrote, so that `from_text` takes off no apostrophe of somebody else's."""


def _cell(value: Any) -> Any:
    """Numbers stay numbers; a text never begins like a formula, nor ends the line by a carriage return: Python's csv
    quotes only what its own lines end with."""
    return as_text(value.replace("\r", "\\r")) if isinstance(value, str) else value


def as_text(cell: str) -> str:
    """With an apostrophe before what a spreadsheet would work out."""
    return f"'{cell}" if _FORMULA.match(cell) else cell


def from_text(cell: str) -> str:
    """The text that `as_text` made this cell of."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell, 1) else cell


def sync_folder(folder: Path) -> None:
    """Make a new name in a folder outlive a power cut, where the system has such a thing."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Appender:
    """Appends whole blocks to a file; a block that does not fit is taken back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with storage_errors(path):
            self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | _BINARY, 0o666)
            sync_folder(path.parent)

    def append(self, block: bytes) -> None:
        size = os.fstat(self._handle).st_size
        try:
            with storage_errors(self.path):
                view = memoryview(block)
                while view:
                    view = view[os.write(self._handle, view) :]
                os.fsync(self._handle)
        except StorageError:
            os.ftruncate(self._handle, size)
            raise

    def close(self) -> None:
        os.close(self._handle)
