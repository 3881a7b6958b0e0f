"""Any form of data as flat JSON lines, from which the same samples are read again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from howsure.errors import InputError
from howsure.runs.files import to_json, write_atomic
from howsure.studies.grounding.reading.data import PathLike, find_items, options
from howsure.studies.grounding.reading.flat_records import flat_record
from howsure.studies.grounding.reading.places import relative


class ConvertResult(NamedTuple):
    """How many samples were written, how many bad entries left out, and the folder that the image paths begin at."""

    written: int
    skipped: int
    image_root: str


def check_new(target: Path) -> None:
    """Raises unless a file can be written there that was not there before."""
    if target.exists():
        raise InputError(f"{target} is there already; name another file, or remove it first")
    if not target.parent.is_dir():
        raise InputError(f"{target.parent} is not a folder; make it first")


def convert(
    data: PathLike,
    to: PathLike,
    *,
    users: list[int] | None = None,
    image_root: PathLike | None = None,
    boxes: str | None = None,
    box_units: str | None = None,
    parser: str = "strict",
    skip_bad: bool = False,
    max_samples: int | None = None,
) -> ConvertResult:
    """Write the samples of any data as JSON lines; reading those with the image root that comes back gives the same."""
    target = Path(to)
    check_new(target)
    how = options(users, image_root, boxes, box_units, parser, skip_bad, max_samples)
    items, root = find_items(data, how)
    lines = [to_json(flat_record(item, relative(os.fspath(item.image.path), root))) for item in items.items]
    write_atomic(target, b"\n".join(lines) + b"\n")
    return ConvertResult(len(lines), items.skipped, root)
