"""From an address to a run folder, and to nothing outside the folder that is served."""

from __future__ import annotations

import os
from pathlib import Path

from howsure.errors import HowsureError, InputError
from howsure.runs.reading import MANIFEST

HERE = "."
_SYSTEMS_OWN = ("\\", ":") if os.name == "nt" else ()
"""What would lead to another place by another spelling, on Windows."""

Mark = tuple[int, int, int] | None
"""By what a file is seen to have changed; None where there is none."""


class NotServed(HowsureError):
    """Something that is not there, or that is not for the viewer to show."""


def run_within(root: Path, name: str) -> Path:
    """The run folder with this name below `root`, which must be resolved. Symbolic links are not followed."""
    parts = [] if name == HERE else name.split("/")
    if any(_is_odd(part) for part in parts):
        raise NotServed("The address names no run folder below the one that is served.")
    folder = root.joinpath(*parts)
    try:
        if folder.resolve(strict=True) != folder or not (folder / MANIFEST).exists():
            raise NotServed("There is no run folder of this name; it may have been moved or deleted.")
    except (OSError, RuntimeError, ValueError) as error:
        if isinstance(error, HowsureError):
            raise
        raise NotServed("There is no run folder of this name; it may have been moved or deleted.") from error
    return folder


def name_within(root: Path, folder: Path) -> str:
    return folder.relative_to(root).as_posix()


def served_root(folder: Path) -> Path:
    """The folder to serve, by the one name that all checks go by."""
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder: name one that holds run folders, or make some with `howsure demo`")
    return folder.resolve()


def mark_of(path: Path) -> Mark:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _is_odd(part: str) -> bool:
    """Hidden folders are none of ours, and neither is anything that climbs."""
    return not part or part.startswith(".") or "\0" in part or any(sign in part for sign in _SYSTEMS_OWN)
