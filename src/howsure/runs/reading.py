"""Opening files of a run folder, which may come from anybody.

What is read is a regular file, in the folder itself, and of a size that does not fill the memory. JSON is judged before
it is decoded: as Python's objects it takes up to 34 times its bytes (`{"":{}}`).
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, BinaryIO

import msgspec

from howsure.errors import InputError, RunDamaged
from howsure.runs.records import Manifest
from howsure.storage import open_regular, read_regular

MANIFEST, SAMPLES, SUMMARY, LOCK = "run.json", "samples.jsonl", "summary.json", ".lock"

MOST_MANIFEST_BYTES, MOST_SUMMARY_BYTES, MOST_LINE_BYTES = 8 << 20, 32 << 20, 64 << 20
MOST_COUNTED_BYTES = 4 << 30
LIGHT_BYTES = 1 << 20
"""JSON of this size may hold what it likes."""

MOST_DECODED_BYTES, MOST_DECODED_MANIFEST_BYTES = 128 << 20, 40 << 20
"""What JSON may take in memory. A manifest is there several times over when a run is taken up."""

CONTAINER_BYTES, TEXT_BYTES, VALUE_BYTES = 200, 64, 32
"""What an object or a list, a text or name beside its characters, and what follows a comma take at most."""

TOO_LARGE = f"is more than {MOST_LINE_BYTES >> 20} MiB, or holds far too many values, for a sample; delete that line"
_REMEDY = "restore it, or start the run anew"


def open_file(folder: Path, name: str) -> BinaryIO:
    """A file of a run, by its name from the folder on; FileNotFoundError where there is none."""
    with _as_damage(folder, name):
        return open_regular(os.path.join(folder, name), within=folder, remedy=_REMEDY)


def read_file(folder: Path, name: str, most_bytes: int) -> bytes:
    """All of such a file."""
    with _as_damage(folder, name):
        return read_regular(os.path.join(folder, name), most_bytes, within=folder, remedy=_REMEDY)


@contextlib.contextmanager
def _as_damage(folder: Path, name: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except InputError as error:
        raise RunDamaged(str(error)) from error
    except OSError as error:
        raise RunDamaged(f"{folder / name} cannot be read: {error.strerror}; {_REMEDY}") from error


def read_json_file(folder: Path, name: str, most_bytes: int, most_decoded_bytes: int = MOST_DECODED_BYTES) -> bytes:
    """The same for a JSON document, which is light enough to be decoded."""
    content = read_file(folder, name, most_bytes)
    if is_too_heavy(content, most_decoded_bytes):
        raise RunDamaged(f"{folder / name} holds far too many values; {_REMEDY}")
    return content


def read_manifest(folder: Path) -> Manifest:
    try:
        content = read_json_file(folder, MANIFEST, MOST_MANIFEST_BYTES, MOST_DECODED_MANIFEST_BYTES)
    except FileNotFoundError as error:
        raise InputError(f"{folder} is not a run folder: it has no {MANIFEST}") from error
    try:
        return msgspec.json.decode(content, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RunDamaged(f"{folder / MANIFEST} cannot be read: {error}; {_REMEDY}") from error


def is_too_heavy(content: bytes, most_bytes: int = MOST_DECODED_BYTES) -> bool:
    """Whether JSON would take absurdly much memory when it is decoded."""
    if len(content) <= LIGHT_BYTES:
        return False
    # One character of four bytes makes all of a text's as wide.
    bytes_each = 1 if content.isascii() and b"\\u" not in content else 4
    containers, texts = content.count(b"{") + content.count(b"["), content.count(b'"') // 2
    rest = containers * CONTAINER_BYTES + texts * TEXT_BYTES + content.count(b",") * VALUE_BYTES
    return len(content) * bytes_each + rest > most_bytes


def count_lines(file: IO[bytes]) -> tuple[int, int]:
    """How many lines there are from here on, and in how many bytes; nobody waits for the rest of an endless file."""
    lines = size = 0
    while size < MOST_COUNTED_BYTES and (block := file.read(1 << 20)):
        lines, size = lines + block.count(b"\n"), size + len(block)
    return lines, size


def whole_lines(file: IO[bytes], name: str | os.PathLike[str]) -> Iterator[bytes]:
    """The lines of a file of samples, without a torn last one."""
    for number in itertools.count(1):
        line = file.readline(MOST_LINE_BYTES + 1)
        if len(line) > LIGHT_BYTES and (len(line) > MOST_LINE_BYTES or is_too_heavy(line)):
            raise RunDamaged(f"{name}, line {number}, {TOO_LARGE}")
        if not line.endswith(b"\n"):
            return  # torn, being written, or the end
        yield line
