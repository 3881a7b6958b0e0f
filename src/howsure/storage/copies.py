"""Copies on this machine of what lies elsewhere, called by the address that they were fetched from.

Readers want files, and their messages name them. A `Copy` is a path that opens the file here and shows itself as its
address; nothing of the folder that it really lies in ever reaches a message or a manifest. All copies of a process lie
in one folder that goes away with it; what a killed process left is cleared away by the next one.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from howsure.errors import InputError, StorageError
from howsure.storage.addresses import Place, checked, is_address, is_plain_name, shown, split
from howsure.storage.stores import MOST_BYTES, StoredFolder, download, is_file, version_of

PREFIX, ALIVE = "howsure-copies-", ".alive"

_guard = threading.RLock()
_state: dict[str, Any] = {}
_folders: dict[str, str] = {}
"""Folders of copies by what they are copies of."""
_addresses: dict[str, str] = {}
"""What stands before the paths in a numbered folder, to make addresses of them."""
_versions: dict[str, Any] = {}
"""What the store said of each copy when it was fetched."""


class Copy(type(Path())):  # type: ignore[misc]
    """A path on this machine that shows itself as the address that it is a copy of."""

    __slots__ = ()

    def __str__(self) -> str:
        return shown_path(super().__str__())

    def __repr__(self) -> str:
        return f"Copy({str(self)!r})"

    def __fspath__(self) -> str:
        return str(super().__str__())

    def __bytes__(self) -> bytes:
        return os.fsencode(self.__fspath__())

    # Later versions of Python look into folders by a path's text, which here is its address.
    def iterdir(self) -> Iterator[Copy]:
        return map(Copy, Path(self.__fspath__()).iterdir())

    def glob(self, pattern: str, **how: Any) -> Iterator[Copy]:
        return map(Copy, Path(self.__fspath__()).glob(pattern, **how))

    def rglob(self, pattern: str, **how: Any) -> Iterator[Copy]:
        return map(Copy, Path(self.__fspath__()).rglob(pattern, **how))


def local(place: Place, *, fresh: bool = True, most_bytes: int | None = None) -> Path:
    """Where a place is opened: a path as it is, a file at an address as its copy.

    It is fetched once a process, and again where the store has another version of it by now. Without `fresh`, that is
    not asked: for those who check what they get. A file at an address that is larger than `most_bytes` is not fetched.
    """
    usable = checked(place)
    if not is_address(usable):
        return as_copy(Path(usable))
    address = str(usable)
    folder, name = split(address)
    target: Path = folder_for(folder, of=address if "?" in address else folder) / name
    if fresh or not target.is_file():
        version = version_of(address)
        if version is None or version != _versions.get(os.fspath(target)) or not target.is_file():
            download(address, target, most_bytes or MOST_BYTES)
            _versions[os.fspath(target)] = version
    return target


def local_folder(place: Place, wanted: Callable[[str], bool]) -> Path:
    """Where a file or folder is read: a path as it is, a file at an address as its copy; of a folder at an address a
    copy that holds the files below it whose names, from the folder on, are wanted."""
    given = checked(place)
    if not is_address(given) or is_file(given):
        return local(given)
    stored = StoredFolder(str(given))
    target = folder_for(stored.address)
    names = {name: version for name, version in stored.files().items() if wanted(name)}
    paths = {name: os.fspath(target / name) for name in names}
    stored.fetch([name for name in names if _versions.get(paths[name]) != names[name]], target)
    _versions.update({paths[name]: version for name, version in names.items()})
    return target


def as_copy(path: Path) -> Path:
    """A path that lies among the copies, as one that knows its address; any other as it is."""
    return Copy(path) if not isinstance(path, Copy) and _split_scratch(os.fspath(path)) else path


def folder_for(address: str, of: str | None = None) -> Copy:
    """The folder that holds copies of what lies below an address; made where there is none yet."""
    with _guard:
        _root()
        key = of or address
        return Copy(_folders[key]) if key in _folders else new_folder_for(address, key)


def new_folder_for(address: str, key: str | None = None) -> Copy:
    """A folder of its own for an address, which nobody else in this process is given, unless it is the `key`'s.

    It has the last part of the address as its name: a run is known by the name of its folder.
    """
    above, slash, name = address.rstrip("/").rpartition("/")
    if not is_plain_name(name):
        raise InputError(f"{shown(address)} cannot be copied here: its last part is no name of a file or folder")
    with _guard:
        root = _root()
        number = str(len(_addresses))
        _addresses[number] = above + slash
        path = os.path.join(root, number, name)
        os.makedirs(path)
        if key is not None:
            _folders[key] = path
        return Copy(path)


def shown_path(path: str) -> str:
    """A path among the copies as the address that it stands for; any other, and any address, as it may be shown."""
    address = address_of(path)
    if address is None:
        return path
    return shown(address) if is_address(address) else address


def absolute(path: str) -> str:
    """A path from the root on, or an address, as it is written into a run."""
    address = shown_path(path)
    return address if is_address(address) else os.path.abspath(path)


def address_of(path: Place) -> str | None:
    """The address that this is, or that a path among the copies stands for; None for any other path."""
    if is_address(path):
        return str(path)
    parts = _split_scratch(os.fspath(path))
    if parts is None:
        return None
    number, rest = parts
    return _addresses[number] + rest if rest else _addresses[number].rstrip("/")


def adopt(folder: Copy, key: str) -> None:
    """Let a folder of copies be the one that `folder_for(key)` gives from now on."""
    with _guard:
        _folders[key] = os.fspath(folder)


def _split_scratch(path: str) -> tuple[str, str] | None:
    root = _state.get("root")
    if root is None or not path.startswith(root + os.sep):
        return None
    number, _, rest = path[len(root) + 1 :].partition(os.sep)
    return (number, rest.replace(os.sep, "/")) if number in _addresses else None


# -- written here, put there ---------------------------------------------------------------------------------------


@contextlib.contextmanager
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


def put_back(path: Path) -> None:
    """Put a copy that was written here where it belongs; any other path is there already."""
    address = address_of(path)
    if address is not None:
        folder, _, name = address.rpartition("/")
        StoredFolder(folder).put_file(name, path)


# -- the folder of this process -----------------------------------------------------------------------------------


def _root() -> str:
    with _guard:
        if _state.get("pid") != os.getpid():  # a forked child makes its own
            root, alive = _new_root()
            _state.update(root=root, pid=os.getpid(), alive=alive)
            _folders.clear()
            _addresses.clear()
            atexit.register(_clear, root, os.getpid())
        return str(_state["root"])


def _new_root() -> tuple[str, Any]:
    """A folder that only this user can look into, and the lock on it. It has another name until it is locked: one that
    is not locked is taken for left behind."""
    try:
        _clear_left_behind()
        made = os.path.realpath(tempfile.mkdtemp(prefix=f".{PREFIX}"))
        alive = _hold(os.path.join(made, ALIVE))
        root = os.path.join(os.path.dirname(made), os.path.basename(made).removeprefix("."))
        os.rename(made, root)
    except OSError as error:
        raise StorageError(
            f"there is no place for copies of what lies elsewhere ({error.strerror or error}): set TMPDIR to a folder "
            "that can be written, with room"
        ) from error
    return root, alive


def _hold(path: str) -> Any:
    """A lock that lasts as long as this process."""
    from filelock import FileLock

    lock = FileLock(path, timeout=0)
    lock.acquire()
    return lock


def _clear(root: str, pid: int) -> None:
    if os.getpid() == pid:
        shutil.rmtree(root, ignore_errors=True)
        _state.pop("alive").release()  # a lock that is dropped later, when Python itself is taken down, complains


def _clear_left_behind() -> None:
    """Remove the copies of processes that were killed: whoever still lives holds a lock on theirs."""
    from filelock import Timeout

    for path in _folders_of_copies():
        try:
            lock = _hold(os.path.join(path, ALIVE))
        except (Timeout, OSError):
            continue
        shutil.rmtree(path, ignore_errors=True)
        lock.release()


def _folders_of_copies() -> list[str]:
    """Those of this user that say whether they are in use; a link in a folder that everybody writes to is none."""
    paths = []
    with contextlib.suppress(PermissionError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):  # gone since
                if entry.name.startswith(PREFIX) and entry.is_dir(follow_symlinks=False) and _is_ours(entry):
                    paths.append(entry.path)
    return [path for path in paths if os.path.isfile(os.path.join(path, ALIVE))]


def _is_ours(entry: os.DirEntry[str]) -> bool:
    return os.name != "posix" or entry.stat(follow_symlinks=False).st_uid == os.getuid()
