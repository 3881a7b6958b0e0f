"""Reading what lies at an address: the bytes of a file, the files of a folder."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from howsure.errors import InputError, StorageError
from howsure.storage.addresses import GLOB_SIGNS, WEB, kind_of, shown
from howsure.storage.stores import filesystem, full_address, store_errors

CHUNK_BYTES, AT_ONCE = 4 << 20, 8
MOST_BYTES = 64 << 30
"""Of one file that is fetched; larger ones are no data file but a mistake."""

MOST_UNSTATED_BYTES = 256 << 20
"""Of a file whose size the server does not state: its answer may have no end."""

PATIENCE_SECONDS, SLOWEST_BYTES_PER_S = 60, 1024
"""A file that comes more slowly than this, once it had some time to begin, is given up."""

_VERSIONS = ("ETag", "etag", "generation", "LastModified", "mtime", "created")

Version = tuple[Any, ...]
"""Size and what the store says of a file's content or time: another version has another one."""


def version_in(about: dict[str, Any]) -> Version:
    """The version that a store's description of a file tells."""
    return (about.get("size"), *(str(about[key]) for key in _VERSIONS if about.get(key) is not None))


def version_of(address: str) -> Version | None:
    """The version of a file; None where the store tells nothing but its size."""
    store = filesystem(address)
    with store_errors(address):
        version = version_in(store.info(address))
    return version if len(version) > 1 else None


def read_bytes(address: str, most_bytes: int = MOST_BYTES) -> bytes:
    """All of a file, or an InputError that says why not."""
    return b"".join(_pieces(address, most_bytes, most_bytes + 1))


def _pieces(address: str, most_bytes: int, piece_bytes: int) -> Generator[bytes]:
    """A file from beginning to end. A server that states no size may send for ever, or a byte a minute."""
    store = filesystem(address)
    with store_errors(address), store.open(address, "rb", cache_type="none") as file:
        size, count, begun = getattr(file, "size", None), 0, time.monotonic()
        remedy = "split it, or make it smaller"
        if size is None:
            most_bytes, remedy = min(most_bytes, MOST_UNSTATED_BYTES), "download it, and name the file"
        check_size(address, size or 0, most_bytes, remedy)
        while piece := bytes(file.read(piece_bytes)):
            count += len(piece)
            check_size(address, count, most_bytes, remedy)
            if time.monotonic() - begun > PATIENCE_SECONDS + count / SLOWEST_BYTES_PER_S:
                raise InputError(f"{shown(address)} comes too slowly ({count:,} bytes until now); try again later")
            yield piece
        if size is not None and count != size:  # a connection that ends early looks like the end to some libraries
            raise InputError(f"{shown(address)} broke off after {count:,} of {size:,} bytes; try again")


@contextlib.contextmanager
def open_stored(address: str) -> Iterator[Any]:
    """A file to be read here and there, of which only those parts are fetched."""
    store = filesystem(address)
    with store_errors(address), store.open(address, "rb") as file:
        yield file


def listing(address: str) -> list[str]:
    """The files at an address, as addresses in order: the file itself, all below a folder, or what matches a pattern.

    An InputError where there is none.
    """
    if kind_of(address) in WEB:
        if GLOB_SIGNS.search(shown(address)) or address.endswith("/"):
            raise InputError(f"{shown(address)} is no single file: the web has no folders, so name files one by one")
        return [address]
    store = filesystem(address)
    with store_errors(address):
        entries = store.glob(address, detail=True) if GLOB_SIGNS.search(address) else store.find(address, detail=True)
    files = sorted(full_address(address, path) for path, about in entries.items() if about.get("type") == "file")
    wanted = [file for file in files if not file.endswith("/")]
    if not wanted:
        raise InputError(f"{shown(address)} holds no file; check the spelling")
    return wanted


def names_below(address: str) -> list[str]:
    """The names of the files directly in a folder, in order; none where there is no such folder."""
    store = filesystem(address)
    with store_errors(address):
        try:
            entries = store.ls(address.rstrip("/") + "/", detail=True)
        except FileNotFoundError:
            return []
    return sorted({entry["name"].rpartition("/")[2] for entry in entries if entry.get("type") == "file"} - {""})


def is_file(address: str) -> bool:
    """Whether there is a file; a store that cannot be asked is an InputError."""
    store = filesystem(address)
    with store_errors(address):
        return bool(store.isfile(address))


def files_among(addresses: Iterable[str]) -> set[str]:
    """Those of some addresses at which there is a file, asked several at a time."""
    asked = list(dict.fromkeys(addresses))
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="look") as pool:
        return {address for address, there in zip(asked, pool.map(is_file, asked), strict=True) if there}


def is_folder(address: str) -> bool:
    """Whether anything lies below an address."""
    if kind_of(address) in WEB:
        return True  # the web has no folders that could be missing
    store = filesystem(address)
    with store_errors(address):
        return bool(store.isdir(address))


def download(address: str, target: Path, most_bytes: int = MOST_BYTES) -> None:
    """Fetch a file piece by piece; `target` is there whole or not at all."""
    with _new_file(target) as scratch, contextlib.closing(_pieces(address, most_bytes, CHUNK_BYTES)) as pieces:
        for piece in pieces:
            _write(scratch, piece, target)


@contextlib.contextmanager
def _new_file(target: Path) -> Iterator[Any]:
    with _no_copy(target):
        os.makedirs(os.path.dirname(os.fspath(target)), exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".part-", dir=os.path.dirname(os.fspath(target)))
    try:
        with os.fdopen(handle, "wb") as scratch:
            yield scratch
        with _no_copy(target):
            os.replace(name, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


def _write(scratch: Any, chunk: bytes, target: Path) -> None:
    with _no_copy(target):
        scratch.write(chunk)
        scratch.flush()


@contextlib.contextmanager
def _no_copy(target: Path) -> Iterator[None]:
    """What keeps a copy from being made here as one sentence."""
    try:
        yield
    except (FileExistsError, IsADirectoryError, NotADirectoryError) as error:
        raise InputError(
            f"{target} cannot be copied here: the store has a file and a folder of the same name; move one of them away"
        ) from error
    except OSError as error:
        raise StorageError(
            f"{tempfile.gettempdir()} cannot hold a copy of {target}: {error.strerror}; set TMPDIR to a larger disk"
        ) from error


def check_size(address: str, count: int, most_bytes: int, remedy: str) -> None:
    """Refuse what is too large to be what it should be."""
    if count > most_bytes:
        raise InputError(f"{shown(address)} is larger than {most_bytes:,} bytes; {remedy}")
