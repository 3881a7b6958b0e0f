"""Stores that fsspec knows: opening one by the address of something in it, reading its files, listing and writing its
folders; and what it refuses, in one sentence.

A file is put whole or not at all, which stores promise; nothing is ever appended to or renamed, which they cannot do.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from howsure.errors import HowsureError, InputError, MissingExtra, StorageError
from howsure.storage.addresses import (
    GLOB_SIGNS,
    WEB,
    Place,
    checked,
    is_address,
    is_plain_name,
    joined,
    kind_of,
    shown,
    without_secrets,
)

CONNECT_SECONDS, READ_SECONDS, ATTEMPTS = 10, 60, 3
"""How long a store may take to be reached and to say something, and how often it is asked when it fails."""

_EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs"}
_PACKAGES = {"s3": "s3fs", "gcs": "gcsfs", "store": "fsspec"}
_LIBRARIES = frozenset(
    {"aiobotocore", "aiohttp", "botocore", "fsspec", "gcsfs", "google", "requests", "s3fs", "urllib3"}
)
_UNREACHABLE = ("EndpointConnection", "ClientConnector", "ConnectionError", "ConnectionRefused", "ConnectTimeout")
_NO_KEY = ("NoCredentials", "PartialCredentials", "DefaultCredentials", "TokenRetrieval", "RefreshError")
_LATE = ("TimeoutError", "ReadTimeout", "ServerTimeout", "FSTimeout")
LONGEST_QUOTE = 200

CHUNK_BYTES, AT_ONCE = 4 << 20, 8
MOST_BYTES = 64 << 30
"""Of one file that is fetched; larger ones are no data file but a mistake."""

MOST_UNSTATED_BYTES = 256 << 20
"""Of a file whose size the server does not state: its answer may have no end."""

PATIENCE_SECONDS, SLOWEST_BYTES_PER_S = 60, 1024
"""A file that comes more slowly than this, once it had some time to begin, is given up."""

_VERSIONS = ("ETag", "etag", "generation", "LastModified", "mtime", "created")

Folder = tuple[str, list[str], list[str]]
"""As `os.walk` gives it: where it lies, the names of the folders in it, and those of the files."""

Version = tuple[Any, ...]
"""Size and what the store says of a file's content or time: another version has another one."""

IN_ONE_REQUEST_BYTES = 32 << 20


def filesystem(address: str) -> Any:
    """The fsspec file system that an address belongs to; what it lists is never remembered."""
    try:
        import fsspec
    except ImportError as error:
        raise MissingExtra(f"{shown(address)}", "store", "fsspec") from error
    kind = kind_of(str(checked(address)))
    options: dict[str, Any] = {"use_listings_cache": False}  # since others write too
    if kind in ("s3", "s3a"):
        patience = {"connect_timeout": CONNECT_SECONDS, "read_timeout": READ_SECONDS}
        retries = {"retries": {"total_max_attempts": ATTEMPTS, "mode": "standard"}}
        theirs = fsspec.config.conf.get("s3", {}).get("config_kwargs", {})  # the user's own settings come first
        options["config_kwargs"] = patience | retries | theirs
    try:
        if kind in WEB:
            from howsure.storage.web import Web

            return Web(**options)
        return fsspec.filesystem(kind, **options)
    except ImportError as error:
        extra = _EXTRAS.get(kind, "store")
        package = _PACKAGES[extra] if extra != "store" else (getattr(error, "name", None) or kind)
        raise MissingExtra(f"{shown(address)}", extra, package) from error
    except ValueError as error:
        raise InputError(
            f"{shown(address)} begins with {kind}://, which no installed package knows: {error}"
        ) from error


@contextlib.contextmanager
def asked(address: str, doing: str = "read") -> Iterator[Any]:
    """The store of an address, whose refusals become one sentence: an InputError where something was to be read, a
    StorageError where it was to be `written`."""
    try:
        yield filesystem(address)
    except HowsureError:
        raise
    except Exception as error:
        if isinstance(error.__cause__, HowsureError):  # a refusal of ours that the store's library took for its own
            raise error.__cause__ from None
        is_the_stores = isinstance(error, OSError | EOFError) or type(error).__module__.split(".")[0] in _LIBRARIES
        if not is_the_stores:
            raise
        sentence = f"{shown(address)} cannot be {doing}: {why(error, address)}"
        if doing == "read":
            raise InputError(sentence) from error
        raise StorageError(f"{sentence}; samples written before are safe") from error


def why(error: Exception, address: str) -> str:
    """What is wrong and what to do about it, in words that hold no secret."""
    names = {kind.__name__ for one in (error, error.__cause__) for kind in type(one).__mro__}
    words = " ".join(without_secrets(str(error), address).split())[:LONGEST_QUOTE]

    def is_one_of(kinds: tuple[str, ...]) -> bool:
        return any(kind in name for kind in kinds for name in names)

    if is_one_of(_NO_KEY):
        return (
            "there are no credentials for this store; set them as its own tools expect (AWS_ACCESS_KEY_ID and the like)"
        )
    if is_one_of(_LATE):
        return "the store did not answer in time; try again later"
    if is_one_of(_UNREACHABLE):
        return f"the store cannot be reached («{words}»); check the network and the endpoint"
    status = getattr(error, "status", None) or getattr(error.__cause__, "status", None)  # of an answer of the web
    if status in (401, 403):
        return f"access is denied (status {status}); check the credentials, or ask for a new address"
    if isinstance(error, FileNotFoundError):
        what = "bucket" if "bucket does not exist" in words.lower() else "file or folder"
        return f"there is no such {what}; check the spelling"
    if isinstance(error, PermissionError):
        return f"access is denied («{words}»); check the credentials and what they may do"
    return f"the store said «{words or type(error).__name__}»"


# -- reading --------------------------------------------------------------------------------------------------------


def version_in(about: dict[str, Any]) -> Version:
    """The version that a store's description of a file tells."""
    return (about.get("size"), *(str(about[key]) for key in _VERSIONS if about.get(key) is not None))


def version_of(address: str) -> Version | None:
    """The version of a file; None where the store tells nothing but its size."""
    with asked(address) as store:
        version = version_in(store.info(address))
    return version if len(version) > 1 else None


def read_bytes(address: str, most_bytes: int = MOST_BYTES) -> bytes:
    """All of a file, or an InputError that says why not."""
    return b"".join(_pieces(address, most_bytes, most_bytes + 1))


def _pieces(address: str, most_bytes: int, piece_bytes: int) -> Generator[bytes]:
    """A file from beginning to end. A server that states no size may send for ever, or a byte a minute."""
    with asked(address) as store, store.open(address, "rb", cache_type="none") as file:
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
    with asked(address) as store, store.open(address, "rb") as file:
        yield file


def download(address: str, target: Path, most_bytes: int = MOST_BYTES) -> None:
    """Fetch a file piece by piece; `target` is there whole or not at all."""
    folder = os.path.dirname(os.fspath(target))
    with _no_copy(target):
        os.makedirs(folder, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".part-", dir=folder)
    try:
        with (
            os.fdopen(handle, "wb") as scratch,
            contextlib.closing(_pieces(address, most_bytes, CHUNK_BYTES)) as pieces,
        ):
            for piece in pieces:
                with _no_copy(target):
                    scratch.write(piece)
                    scratch.flush()
        with _no_copy(target):
            os.replace(name, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


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


# -- finding --------------------------------------------------------------------------------------------------------


def listing(address: str) -> list[str]:
    """The files at an address, as addresses in order: the file itself, all below a folder, or what matches a pattern.

    An InputError where there is none.
    """
    if kind_of(address) in WEB:
        if GLOB_SIGNS.search(shown(address)) or address.endswith("/"):
            raise InputError(f"{shown(address)} is no single file: the web has no folders, so name files one by one")
        return [address]
    top = _top(address)
    with asked(address) as store:
        entries = store.glob(address, detail=True) if GLOB_SIGNS.search(address) else store.find(address, detail=True)
        start = len(store._strip_protocol(f"{top}/").rstrip("/"))
    below = [path[start:].removeprefix("/") for path, about in entries.items() if about.get("type") == "file"]
    files = [f"{top}/{name}" if name else top for name in sorted(below) if not name.endswith("/")]
    if not files:
        raise InputError(f"{shown(address)} holds no file; check the spelling")
    return files


def _top(address: str) -> str:
    """The folder's address; of a pattern, the folder that all its matches lie in."""
    sign = GLOB_SIGNS.search(address)
    return address[: sign.start()].rpartition("/")[0] if sign else address.rstrip("/")


def walk(address: str, files: Iterable[str]) -> Iterator[Folder]:
    """Files that are listed at an address as `os.walk` goes through folders: from the top down, by name. A folder that
    is taken off the list of folders is not gone into."""
    top = _top(address)
    folders: defaultdict[str, set[str]] = defaultdict(set)
    names: defaultdict[str, list[str]] = defaultdict(list)
    for file in files:
        *above, name = file.removeprefix(f"{top}/").split("/")
        here = top
        for folder in above:
            folders[here].add(folder)
            here = f"{here}/{folder}"
        names[here].append(name)
    waiting = [top]
    while waiting:
        here = waiting.pop()
        within = sorted(folders[here])
        yield here, within, names[here]
        waiting += [f"{here}/{folder}" for folder in reversed(within)]


def names_below(place: Place) -> list[str]:
    """The names of the files directly in a folder, in order; none where there is no such folder."""
    if not is_address(place):
        return sorted(next(os.walk(place), ("", [], []))[2])
    with asked(str(place)) as store:
        try:
            entries = store.ls(joined(str(place), ""), detail=True)
        except FileNotFoundError:
            return []
    return sorted({entry["name"].rpartition("/")[2] for entry in entries if entry.get("type") == "file"} - {""})


def is_file(place: Place) -> bool:
    """Whether there is a file; a store that cannot be asked is an InputError."""
    if not is_address(place):
        return os.path.isfile(place)
    with asked(str(place)) as store:
        return bool(store.isfile(place))


def is_folder(place: Place) -> bool:
    """Whether there is a folder; in a store, whether anything lies below an address."""
    if not is_address(place):
        return os.path.isdir(place)
    if kind_of(str(place)) in WEB:
        return True  # the web has no folders that could be missing
    with asked(str(place)) as store:
        return bool(store.isdir(place))


def is_there(place: Place) -> bool:
    """Whether there is a file, or on this machine anything at all."""
    return is_file(place) if is_address(place) else os.path.exists(place)


def files_among(addresses: Iterable[str]) -> set[str]:
    """Those of some addresses at which there is a file, asked several at a time."""
    places = list(dict.fromkeys(addresses))
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="look") as pool:
        return {place for place, there in zip(places, pool.map(is_file, places), strict=True) if there}


# -- folders --------------------------------------------------------------------------------------------------------


class StoredFolder:
    """A folder at an address."""

    def __init__(self, address: str) -> None:
        self.address = str(checked(address)).rstrip("/")
        if kind_of(self.address) in WEB:
            raise InputError(f"{shown(self.address)} is on the web, which has no folders: copy it here first")
        if "?" in self.address:
            raise InputError(f"{shown(self.address)} is followed by ?, which no folder's address can hold: take it out")
        self._prefix = joined(filesystem(self.address)._strip_protocol(self.address), "")

    def __str__(self) -> str:
        return shown(self.address)

    def files(self) -> dict[str, Version]:
        """The files below, by their names from the folder on, each with its version."""
        with asked(self.address) as store:
            entries = store.find(self.address, detail=True)
        named = {path[len(self._prefix) :]: about for path, about in entries.items() if path.startswith(self._prefix)}
        return {
            name: version_in(about)
            for name, about in sorted(named.items())
            if about.get("type") == "file" and all(map(is_plain_name, name.split("/")))
        }

    def read(self, name: str, most_bytes: int | None = None) -> bytes | None:
        """The content of a small file; None where there is none. One of strangers may be larger than any memory."""
        path = joined(self.address, name)
        with asked(path) as store:
            try:
                if most_bytes is not None:
                    check_size(path, store.info(path)["size"] or 0, most_bytes, "restore it, or delete it")
                return bytes(store.cat_file(path))
            except FileNotFoundError:
                return None

    def put(self, name: str, content: bytes) -> None:
        """Put a file in place of whatever was there."""
        path = joined(self.address, name)
        with asked(path, "written") as store:
            store.pipe_file(path, content)

    def put_file(self, name: str, path: Path) -> None:
        """The same for a file on this machine, of any size."""
        if path.stat().st_size <= IN_ONE_REQUEST_BYTES:
            self.put(name, path.read_bytes())
            return
        target = joined(self.address, name)
        with asked(target, "written") as store:
            store.put_file(os.fspath(path), target)

    def create(self, name: str, content: bytes) -> bool:
        """Put a file where none is; False where there is one. Stores that cannot tell overwrite it."""
        path = joined(self.address, name)
        with asked(path, "written") as store:
            try:
                store.pipe_file(path, content, mode="create")
            except FileExistsError:
                return False
        return True

    def remove(self, names: Iterable[str]) -> None:
        """Remove files, several at a time; one that is gone already is no matter."""
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="remove") as pool:
            list(pool.map(self._remove, list(names)))

    def _remove(self, name: str) -> None:
        path = joined(self.address, name)
        with asked(path, "written") as store, contextlib.suppress(FileNotFoundError):
            store.rm_file(path)

    def fetch(self, names: Iterable[str], into: Path) -> None:
        """Copy files here, several at a time."""
        wanted = list(names)
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="fetch") as pool:
            list(pool.map(lambda name: download(joined(self.address, name), into / name), wanted))
