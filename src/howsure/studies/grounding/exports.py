"""out.json, results.txt and results.json: what scripts for per-user click runs read, for each user in a folder.

samples.jsonl is the truth. These files are made from it when a run is taken up, grow while it works, and are written
in the order of the data when it ends: whatever happened on the way, they end the same to the last byte.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from howsure.errors import InputError
from howsure.runs.files import storage_errors, sync_folder, to_json, write_atomic
from howsure.runs.reading import MANIFEST, Sample, read_manifest
from howsure.studies.grounding.judge import GroupFigures
from howsure.studies.grounding.record import GroundingRecord, Samples

OUT, RESULTS_TEXT, RESULTS_JSON = "out.json", "results.txt", "results.json"

FIELDS = (
    "pred_raw",
    "pred_coord",
    "gt_coord",
    "pred_content",
    "gt_content",
    "says",
    "why_not",
    "l2",
    "hit",
    "inside",
    "within_delta",
    "confidence",
    "labels",
)
"""Of a sample's result, in the order of the file; null where a sample has none of it."""

DECIMALS = {"accuracy": 4, "mean_l2": 2, "median_l2": 2}
"""The figures of results.txt, and how many decimals they have there."""

HEAD, TAIL = b"[\n", b"\n]\n"
LONGEST_NAME, HASH_DIGITS = 60, 12
_AS_IT_IS = re.compile(r"[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?")
_LIKE_A_HASH = re.compile(rf"-[0-9a-f]{{{HASH_DIGITS}}}$")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")

GroundingSample = Sample[GroundingRecord]
Judge = Callable[[Samples], GroupFigures]
Groups = dict[str | None, list[GroundingSample]]
"""The samples of each user; those of nobody under None."""


def safe_name(name: str) -> str:
    """A name from outside as a part of a file's name: it leaves no folder, and no two names become the same.

    Short names of small letters and digits stay as they are. All others keep what can be kept and end in a hash:
    capitals too, since there are disks for which `a` and `A` are one name.
    """
    if len(name) <= LONGEST_NAME and _AS_IT_IS.fullmatch(name) and not _LIKE_A_HASH.search(name):
        return name
    kept = _UNSAFE.sub("_", name[: 4 * LONGEST_NAME])[:LONGEST_NAME].strip("_")
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:HASH_DIGITS]
    return f"{kept or 'x'}-{digest}"


def entry(sample: GroundingSample) -> dict[str, Any]:
    """A sample as out.json has it. What is not known of it is null, a place never [0, 0]."""
    fields = {name: getattr(sample.result, name) for name in FIELDS}
    return {"id": sample.id, **fields, "reason": sample.reason, "detail": sample.detail}


def by_user(samples: Iterable[GroundingSample]) -> Groups:
    """Whose file a sample belongs into: that of its user, of each where it has several, of nobody where it has none."""
    groups: Groups = {}
    for sample in samples:
        for user in sample.result.labels.user or (None,):
            groups.setdefault(user, []).append(sample)
    return groups


class UserFiles:
    """The files of all users: whole JSON whenever one looks, and never behind samples.jsonl for longer than a stop."""

    def __init__(self, folder: Path, kept: Samples) -> None:
        self._folder = folder
        self._owners: dict[str, str | None] = {}
        groups = by_user(kept)
        for user, samples in groups.items():
            self._write(user, samples)
        known = {self._path(user) for user in groups}
        for left in sorted({self._folder / OUT, *folder.glob(f"user_*/{OUT}")} - known):
            if left.is_file():  # its samples were taken back, to be asked again
                write_atomic(left, _document([]))

    def append(self, samples: Samples) -> None:
        """Add samples that are in samples.jsonl already."""
        for user, more in by_user(samples).items():
            path = self._path(user)
            if path.is_file():
                _extend(path, more)
            else:
                self._write(user, more)

    def finish(self, delta: float, samples: Samples, judge_group: Judge) -> None:
        """Write all files anew, in the order of the data, and the figures of each user beside them."""
        options = read_manifest(self._folder).identity.options if (self._folder / MANIFEST).is_file() else {}
        asked = {"parser": options.get("parser"), "frame": options.get("frame"), "delta": delta}
        for user, group in by_user(sorted(samples, key=lambda sample: sample.index)).items():
            figures = judge_group(group)
            self._write(user, group)
            folder = self._path(user).parent
            write_atomic(folder / RESULTS_TEXT, results_text(user, figures, group, asked).encode("utf-8"))
            whole = {"user": user, **msgspec.to_builtins(figures), **asked, **_counts(group)}
            write_atomic(folder / RESULTS_JSON, to_json(whole, indent=2) + b"\n")

    def _write(self, user: str | None, samples: Samples) -> None:
        path = self._path(user)
        with storage_errors(path):
            if not path.parent.is_dir():
                path.parent.mkdir()
                sync_folder(self._folder)
        write_atomic(path, _document(samples))

    def _path(self, user: str | None) -> Path:
        if user is None:
            return self._folder / OUT
        name = f"user_{safe_name(user)}"
        if self._owners.setdefault(name, user) != user:
            raise InputError(f"users {self._owners[name]!r} and {user!r} would share the folder {name}: rename one")
        return self._folder / name / OUT


# -- out.json ---------------------------------------------------------------------------------------------------------


def _document(samples: Samples) -> bytes:
    return HEAD + _lines(samples) + TAIL if samples else b"[]\n"


def _lines(samples: Samples) -> bytes:
    return b",\n".join(to_json(entry(sample)) for sample in samples)


def _extend(path: Path, samples: Samples) -> None:
    """Write over the closing bracket, in one call, so that no reader finds the list open; what does not fit on the
    disk is taken back. Not forced onto the disk: after a power cut the file is made again from samples.jsonl."""
    with storage_errors(path), path.open("r+b", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        if size <= len(HEAD) + len(TAIL):
            block, start = _document(samples), 0
        else:
            block, start = b",\n" + _lines(samples) + TAIL, size - len(TAIL)
        old = os.pread(file.fileno(), size - start, start)
        try:
            if os.pwrite(file.fileno(), block, start) < len(block):
                _write_all(file.fileno(), block, start)
        except OSError:
            os.pwrite(file.fileno(), old, start)
            os.ftruncate(file.fileno(), size)
            raise


def _write_all(handle: int, block: bytes, start: int) -> None:
    """The whole block: a call that stops half-way, as on a disk that fills up, says why when it is made again."""
    done = 0
    while done < len(block):
        done += os.pwrite(handle, block[done:], start + done)


# -- results.txt ------------------------------------------------------------------------------------------------------


def results_text(user: str | None, figures: GroupFigures, samples: Samples, asked: dict[str, Any]) -> str:
    """The three figures as a dictionary, with fixed decimals, then what a reader of them must know: how answers were
    read, which a model that clicks without words has neither parser nor frame for."""
    title = "All samples"
    if user is not None:  # a name from outside can neither break the line nor the encoding
        title = f"User {''.join(c if c.isprintable() else ' ' for c in user[:200])}"
    values = {name: "None" if figures[name] is None else f"{figures[name]:.{n}f}" for name, n in DECIMALS.items()}
    counts = _counts(samples)
    reasons = sorted({sample.reason.replace("_", " ") for sample in samples if sample.reason is not None})
    distances = sum(sample.result.l2 is not None for sample in samples)
    lines = [
        f"===== {title} =====",
        "{",
        ",\n".join(f"    '{name}': {value}" for name, value in values.items()),
        "}",
        "",
        f"samples: {counts['items']}",
        f"wrong format: {counts['wrong_format_count']} (misses without a place and without a distance)",
        f"failed: {counts['failed_count']}" + (f" ({', '.join(reasons)})" if reasons else ""),
        f"distances: mean and median are over the {distances} samples that have one, in thousandths of the screen",
        f"delta: {asked['delta']:g} thousandths of the screen",
    ]
    if figures.point_in_target is not None:
        lines.append(f"inside the target: {figures.point_in_target:.4f} of the samples that have a box or polygon")
    if asked["parser"] is None and asked["frame"] is None:
        lines.append("parser and frame: none, the model clicks without words")
    else:
        lines += [f"parser: {asked['parser']}", f"frame: {asked['frame']}"]
    return "\n".join(lines) + "\n"


def _counts(samples: Samples) -> dict[str, int]:
    return {
        "items": len(samples),
        "wrong_format_count": sum(sample.result.says == "wrong_format" for sample in samples),
        "failed_count": sum(sample.failed for sample in samples),
    }
