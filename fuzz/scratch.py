"""A folder in memory for readers that want a path: writing thousands of inputs a second wears no disk."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

RAM = "/dev/shm"
HERE = "HOWSURE_FUZZ_SCRATCH"
"""The variable that names a folder for processes that cannot sweep behind themselves, as libFuzzer's end at once."""

_FOLDERS: dict[int, Path] = {}


def ram() -> str | None:
    """Where memory can be written to as a folder; None, the usual place, where there is no such thing."""
    return RAM if os.access(RAM, os.W_OK) else None


def folder() -> Path:
    """The folder of this process, made when first asked for; a forked child has its own."""
    here = _FOLDERS.get(os.getpid())
    if here is None:
        here = _FOLDERS[os.getpid()] = Path(tempfile.mkdtemp(prefix="howsure-fuzz-", dir=os.environ.get(HERE) or ram()))
    return here


def put(name: str, data: bytes) -> Path:
    """A file with this content; what stood there before is gone."""
    path = folder() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def sweep() -> None:
    """Away with this process's folder."""
    here = _FOLDERS.pop(os.getpid(), None)
    if here is not None:
        shutil.rmtree(here, ignore_errors=True)
