"""What a run folder holds, as types, and opening its files, which may come from anybody.

What is read is a regular file, in the folder itself, and of a size that does not fill the memory. JSON is judged before
it is decoded: as Python's objects it takes up to 34 times its bytes (`{"":{}}`).
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO, Generic, Literal

import msgspec
from typing_extensions import TypeVar

from howsure.errors import EvidenceError, InputError, RunDamaged
from howsure.evidence import Outcome
from howsure.runs.files import to_json
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

FORMAT = 1

Status = Literal["running", "finished", "interrupted", "failed"]


Record = TypeVar("Record", default=Any)
"""What the samples of one study hold: its declared struct, or a dictionary where the study is not known."""


class Sample(msgspec.Struct, Generic[Record], frozen=True, omit_defaults=True):
    """One line of samples.jsonl: what was found for one item, or the reason why nothing was.

    `id` is stable over runs and machines, `index` is the item's place in the data. A failed sample has a short
    `reason` to be counted by and a `detail` to be read; a sample that worked has neither.
    """

    id: str
    index: int
    result: Record = msgspec.field(default_factory=dict)  # type: ignore[assignment]
    evidence: Any = msgspec.field(default_factory=dict)
    outcome: Outcome | None = None
    reason: str | None = None
    detail: str | None = None

    @property
    def failed(self) -> bool:
        return self.reason is not None

    def without_evidence(self) -> Sample[Record]:
        """What summaries are made of. Evidence is the bulk of a sample, and stays on the disk."""
        return msgspec.structs.replace(self, evidence={}) if self.evidence else self


class LeanSample(msgspec.Struct, Generic[Record]):
    """A line of samples.jsonl without its evidence, which is skipped and never built."""

    id: str
    index: int
    result: Record = msgspec.field(default_factory=dict)  # type: ignore[assignment]
    outcome: Outcome | None = None
    reason: str | None = None
    detail: str | None = None

    def sample(self) -> Sample[Record]:
        return Sample(self.id, self.index, self.result, {}, self.outcome, self.reason, self.detail)


def encoded(sample: Sample) -> bytes:
    """A line of samples.jsonl. NaN and infinity are refused, which msgspec would write as null without a word."""
    if not (_is_finite(sample.result) and _is_finite(sample.evidence)):
        place = _not_finite(sample.result, "result") or _not_finite(sample.evidence, "evidence")
        raise EvidenceError(f"sample {sample.id!r} holds a number that JSON has no word for, at {place}")
    try:
        return _ENCODER.encode(sample)
    except UnicodeEncodeError:  # half a character, as in names that are no text
        return to_json(sample)


_ENCODER = msgspec.json.Encoder()


def _is_finite(value: Any) -> bool:
    """Whether no number in it is NaN or infinite; lists of numbers are looked at by their sum, which is quick."""
    kind = type(value)
    if kind is float:
        return bool(value - value == 0.0)
    if kind is list or kind is tuple:
        if value and type(value[0]) is float:
            try:
                total = sum(value)
            except (TypeError, OverflowError):  # not only numbers, or an integer beyond all floats
                total = math.nan
            if total - total == 0.0:
                return True
        return _NO_NUMBERS.issuperset(map(type, value)) or all(map(_is_finite, value))
    if kind is dict:
        return all(map(_is_finite, value.values()))
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            one = getattr(value, name)
            if type(one) not in _NO_NUMBERS and not _is_finite(one):
                return False
    return True


_NO_NUMBERS = frozenset({str, int, bool, type(None)})
"""Types whose values are never NaN."""


def _not_finite(value: Any, place: str) -> str | None:
    """Where the first NaN or infinity stands; None where there is none."""
    if isinstance(value, float):
        return None if math.isfinite(value) else place
    if isinstance(value, (list, tuple)):
        parts = [(f"{place}[{i}]", one) for i, one in enumerate(value)]
    elif isinstance(value, dict):
        parts = [(f"{place}.{name}", one) for name, one in value.items()]
    elif isinstance(value, msgspec.Struct):
        parts = [(f"{place}.{name}", getattr(value, name)) for name in value.__struct_fields__]
    else:
        return None
    return next((bad for name, one in parts if (bad := _not_finite(one, name)) is not None), None)


class Identity(msgspec.Struct, frozen=True):
    """What makes a run this run: a change in any of it is another run, never a continuation."""

    study: str
    options: dict[str, Any]
    model: dict[str, Any]
    data: dict[str, Any]
    seed: int

    def differences(self, other: Identity) -> list[str]:
        """Each field that differs, as a short text: here against there."""
        mine, theirs = msgspec.to_builtins(self), msgspec.to_builtins(other)
        return _differences("", mine, theirs)


class Manifest(msgspec.Struct):
    """run.json."""

    identity: Identity
    items: int
    status: Status
    started: str
    ended: str | None = None
    error: str | None = None
    sessions: int = 1
    owner: dict[str, Any] = {}
    versions: dict[str, str] = {}
    source: str = ""
    """Where the data was read from; a note for people, since the fingerprint decides."""
    format: int = FORMAT


def _differences(place: str, mine: Any, theirs: Any) -> list[str]:
    if isinstance(mine, dict) and isinstance(theirs, dict):
        keys = [*mine, *(key for key in theirs if key not in mine)]
        return [
            difference
            for key in keys
            for difference in _differences(f"{place}.{key}" if place else str(key), mine.get(key), theirs.get(key))
        ]
    return [] if mine == theirs else [f"{place} was {_short(mine)}, now {_short(theirs)}"]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


# -- opening --------------------------------------------------------------------------------------------------------


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
