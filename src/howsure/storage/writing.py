"""Writing files that belong to a folder, wherever it lies: beside a run, not the run itself."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from howsure.errors import InputError
from howsure.storage.addresses import is_address, joined
from howsure.storage.folder import StoredFolder
from howsure.storage.reading import is_file
from howsure.storage.scratch import address_of, new_folder_for

Place = str | os.PathLike[str]


def below(place: Place, name: str) -> Place:
    """A name in a folder, which may be an address; the folder itself where there is no name."""
    if not is_address(place):
        return Path(place) / name
    return joined(str(place), name) if name else place


def is_there(place: Place) -> bool:
    """Whether there is a file."""
    return is_file(str(place)) if is_address(place) else os.path.exists(place)


@contextmanager
def writable_folder(place: Place) -> Iterator[Path]:
    """A folder on this machine to write files into; they are put where they belong when the `with` ends well."""
    if not is_address(place):
        yield Path(place)
        return
    folder = new_folder_for(str(place).rstrip("/"))
    yield folder
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.startswith("."):
            put_back(path)


def check_writable(option: str, path: Place) -> None:
    """Find out before the work whether a file of its result can be written. Nothing is left behind: a folder that is
    missing is made by whoever writes."""
    target = Path(path)
    if target.is_dir():
        raise InputError(f"{option} {target} is a folder: name a file")
    folder = next((one for one in target.absolute().parents if one.exists()), target.parent)
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise InputError(f"{option} {target} cannot be written: {error.strerror}; name another file") from error


def put_back(path: Path) -> None:
    """Put a copy that was written here where it belongs; any other path is there already."""
    address = address_of(path)
    if address is not None:
        folder, _, name = address.rpartition("/")
        StoredFolder(folder).put_file(name, path)
