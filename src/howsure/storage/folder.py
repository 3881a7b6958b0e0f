"""A folder in a store: its files with what tells one version from another, and one request for each change.

A file is put whole or not at all, which stores promise; nothing is ever appended to or renamed, which they cannot do.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from howsure.errors import InputError
from howsure.storage.addresses import WEB, checked, joined, kind_of, shown
from howsure.storage.reading import AT_ONCE, Version, check_size, download, version_in
from howsure.storage.scratch import is_plain_name
from howsure.storage.stores import filesystem, store_errors

IN_ONE_REQUEST_BYTES = 32 << 20


class StoredFolder:
    """A folder at an address."""

    def __init__(self, address: str) -> None:
        self.address = str(checked(address)).rstrip("/")
        if kind_of(self.address) in WEB:
            raise InputError(f"{shown(self.address)} is on the web, which has no folders: copy it here first")
        if "?" in self.address:
            raise InputError(f"{shown(self.address)} is followed by ?, which no folder's address can hold: take it out")
        self._store = filesystem(self.address)
        self._prefix = str(self._store._strip_protocol(self.address)).rstrip("/") + "/"

    def __str__(self) -> str:
        return shown(self.address)

    def files(self, below: str = "") -> dict[str, Version]:
        """The files below, by their names from the folder on, each with its version."""
        with store_errors(self.address):
            entries = self._store.find(joined(self.address, below) if below else self.address, detail=True)
        named = {path[len(self._prefix) :]: about for path, about in entries.items() if path.startswith(self._prefix)}
        return {
            name: version_in(about)
            for name, about in sorted(named.items())
            if about.get("type") == "file" and all(map(is_plain_name, name.split("/")))
        }

    def read(self, name: str, most_bytes: int | None = None) -> bytes | None:
        """The content of a small file; None where there is none. One of strangers may be larger than any memory."""
        path = joined(self.address, name)
        with store_errors(path):
            try:
                if most_bytes is not None:
                    check_size(path, self._store.info(path)["size"] or 0, most_bytes, "restore it, or delete it")
                return bytes(self._store.cat_file(path))
            except FileNotFoundError:
                return None

    def put(self, name: str, content: bytes) -> None:
        """Put a file in place of whatever was there."""
        with store_errors(joined(self.address, name), "written"):
            self._store.pipe_file(joined(self.address, name), content)

    def put_file(self, name: str, path: Path) -> None:
        """The same for a file on this machine, of any size."""
        local = os.fspath(path)
        if os.path.getsize(local) <= IN_ONE_REQUEST_BYTES:
            with open(local, "rb") as file:
                return self.put(name, file.read())
        with store_errors(joined(self.address, name), "written"):
            self._store.put_file(local, joined(self.address, name))
        return None

    def create(self, name: str, content: bytes) -> bool:
        """Put a file where none is; False where there is one. Stores that cannot tell overwrite it."""
        with store_errors(joined(self.address, name), "written"):
            try:
                self._store.pipe_file(joined(self.address, name), content, mode="create")
            except FileExistsError:
                return False
        return True

    def remove(self, names: Iterable[str]) -> None:
        """Remove files, several at a time; one that is gone already is no matter."""
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="remove") as pool:
            list(pool.map(self._remove, list(names)))

    def _remove(self, name: str) -> None:
        path = joined(self.address, name)
        with store_errors(path, "written"), contextlib.suppress(FileNotFoundError):
            self._store.rm_file(path)

    def fetch(self, names: Iterable[str], into: Path) -> None:
        """Copy files here, several at a time."""
        wanted = list(names)
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="fetch") as pool:
            list(pool.map(lambda name: download(joined(self.address, name), into / name), wanted))
