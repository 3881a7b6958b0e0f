"""A run folder in a store, where nothing can be appended to.

The writer works in a folder on this machine, as always, and everything that counts is put into the store before it goes
on. Each append is one new file, `samples-<bytes before it>.jsonl`, which is there whole or not at all, and which the
store refuses to make twice: of two writers that both believe to be the only one, the second stops. When a run ends,
`samples.jsonl` is put whole, and only then are the pieces removed. A piece that begins before the end of
`samples.jsonl` is therefore in it already; the others follow it without a gap. So a writer may stop anywhere.
"""

from __future__ import annotations

import os
import re
import socket
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from howsure.errors import InputError, RunDamaged, RunLocked, StoreWithoutLocks
from howsure.runs.files import storage_errors, write_atomic
from howsure.runs.lock import FolderLock
from howsure.runs.reading import MANIFEST, MOST_MANIFEST_BYTES, MOST_SUMMARY_BYTES, SAMPLES, SUMMARY
from howsure.storage import Copy, Folder, Lease, StoredFolder, adopt, folder_for, joined, new_folder_for, walk
from howsure.storage.stores import AT_ONCE, Version

REPORT = "report.html"
MADE_ANEW = ("pictures/", "frames/", REPORT)
"""What a run that is taken up makes again where it is missing, and so does not fetch."""
ATTEMPTS, READ_AHEAD = 3, 64

_PIECE = re.compile(r"samples-(\d{15})\.jsonl")
_known: dict[str, dict[str, Version | None]] = {}
"""For each folder of copies, the versions of the files in it."""


def piece_name(offset_bytes: int) -> str:
    return f"samples-{offset_bytes:015d}.jsonl"


def pieces_of(files: dict[str, Version]) -> list[tuple[int, str]]:
    """The pieces of samples among some files: where each begins, and its name."""
    return sorted((int(match[1]), name) for name in files if (match := _PIECE.fullmatch(name)))


class OnDisk:
    """Where a run folder lies on this machine's disk: what is written there is all there is to do."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def acquire(self) -> None:
        """Become the one writer."""
        with storage_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        self._lock = FolderLock(self.path)
        self._lock.acquire()

    def check(self) -> None:
        """Called before anything is written: raises RunLocked where this is no longer the one writer."""
        self._lock.check()

    def release(self) -> None:
        """Let others write."""
        self._lock.release()

    def owner(self) -> dict[str, Any]:
        """Who writes, as run.json says it."""
        return self._lock.owner()

    def append(self, block: bytes) -> None:
        """Called before a block of samples is appended on the disk."""
        self.check()

    def put(self, *names: str) -> None:
        """Called after files were written anew on the disk."""

    def compact(self) -> None:
        """Called before samples.jsonl is made anew, and when a run ends."""

    def put_rest(self) -> None:
        """Called when a run ends, for all that was written beside the samples."""

    def hand_over(self) -> None:
        """Called when a run has ended, and all of it is written."""


class InStore(OnDisk):
    """Where a run folder lies in a store, and is worked on in a folder of copies."""

    def __init__(self, address: str) -> None:
        self.folder = StoredFolder(address)
        super().__init__(new_folder_for(self.folder.address))
        self._lease = Lease(self.folder)
        self._pieces: list[str] = []
        self._end_bytes = 0
        self._put: dict[str, tuple[int, int]] = {}

    def acquire(self) -> None:
        """Become the one writer, and fetch what is there."""
        self._lease.acquire()
        try:
            if not self._lease.is_exclusive():
                warnings.warn(
                    f"{self.folder}: this store cannot refuse a second writer; start no other process with this --out",
                    StoreWithoutLocks,
                    stacklevel=4,
                )
            self._bring()
        except BaseException:
            self._lease.release()
            raise

    def check(self) -> None:
        self._lease.check()

    def release(self) -> None:
        self._lease.release()

    def owner(self) -> dict[str, Any]:
        return {"pid": os.getpid(), "host": socket.gethostname()}

    def _bring(self) -> None:
        files = self.folder.files()
        visible = [name for name in files if not name.startswith(".")]
        if visible and MANIFEST not in files:
            raise InputError(f"{self.folder} holds {visible[0]!r} and is not a run folder: choose another --out")
        pieces = pieces_of(files)
        rest = {name for name in visible if name != SAMPLES and not name.startswith(MADE_ANEW)}
        self.folder.fetch(rest - {name for _, name in pieces}, self.path)
        bring_samples(self.folder, files, self.path / SAMPLES, None, new=True)
        whole = (files.get(SAMPLES) or (0,))[0]
        self.folder.remove(name for offset, name in pieces if offset < whole)
        self._pieces = [name for offset, name in pieces if offset >= whole]
        self._put = {name: _mark(self.path / name) for name in self._names() if name != SAMPLES or not self._pieces}
        self._end_bytes = _size(self.path / SAMPLES)

    def append(self, block: bytes) -> None:
        """Samples are in the store when this returns."""
        if not block:
            return
        self._lease.check()
        name = piece_name(self._end_bytes)
        if not self.folder.create(name, block) and self.folder.read(name) != block:
            # The same bytes would be our own: an answer that got lost, and a second attempt.
            raise RunLocked(
                f"{self.folder} was written to by another process: this one stops; the same command goes on with what "
                "is there"
            )
        self._pieces.append(name)
        self._end_bytes += len(block)

    def put(self, *names: str) -> None:
        for name in names:
            self._lease.check()
            mark = _mark(self.path / name)
            self.folder.put_file(name, self.path / name)
            self._put[name] = mark

    def compact(self) -> None:
        """All samples as one file; the pieces of it go when it is there."""
        if self._pieces or _mark(self.path / SAMPLES) != self._put.get(SAMPLES):
            self.put(SAMPLES)
        self.folder.remove(self._pieces)
        self._pieces, self._end_bytes = [], _size(self.path / SAMPLES)

    def put_rest(self) -> None:
        """Whatever else was written or changed: tables, pictures, the report."""
        changed = [name for name in self._names() if _mark(self.path / name) != self._put.get(name)]
        self.put(*(name for name in changed if name not in (SAMPLES, MANIFEST)))

    def hand_over(self) -> None:
        """Let those who read this run in this process use what is here already."""
        versions = self.folder.files()
        same = {name: one for name, one in versions.items() if one[0] == _size(self.path / name)}
        _known[os.fspath(self.path)] = {SAMPLES: None, **same}
        assert isinstance(self.path, Copy)
        adopt(self.path, _key(self.folder))

    def _names(self) -> list[str]:
        return sorted(_names_in(os.fspath(self.path)))


def _names_in(root: str) -> Iterator[str]:
    for place, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if not name.startswith("."):
                yield os.path.relpath(os.path.join(place, name), root).replace(os.sep, "/")


def _mark(path: Path) -> tuple[int, int]:
    """What tells whether a file on this machine was changed."""
    if not path.is_file():
        return (0, 0)
    about = path.stat()
    return about.st_size, about.st_mtime_ns


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


# -- reading ------------------------------------------------------------------------------------------------------


def _key(folder: StoredFolder) -> str:
    """Under which the copy of a run is known, apart from copies of single files of it."""
    return f"run {folder.address}"


def bring_run(address: str, *, whole: bool = True) -> Path:
    """A run's folder as a copy on this machine, brought up to date; without its samples where not `whole`."""
    folder = StoredFolder(address)
    path = folder_for(folder.address, of=_key(folder))
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _bring(folder, path, whole)
            break
        except InputError as error:
            # A run that ends just now puts its samples together and removes the pieces that were listed.
            if attempt == ATTEMPTS or not isinstance(error.__cause__, FileNotFoundError):
                raise
    return path


def _bring(folder: StoredFolder, path: Path, whole: bool) -> None:
    # Before the list, so that samples are never older than what it says.
    manifest = folder.read(MANIFEST, MOST_MANIFEST_BYTES)
    if manifest is None:
        raise InputError(f"{folder} is not a run folder: it has no {MANIFEST}")
    write_atomic(path / MANIFEST, manifest)
    known = _known.setdefault(os.fspath(path), {})
    if not whole:
        summary = folder.read(SUMMARY, MOST_SUMMARY_BYTES)
        if summary is not None:
            write_atomic(path / SUMMARY, summary)
        return
    files = folder.files()
    rest = {name for name in files if not name.startswith(".") and name not in (MANIFEST, SAMPLES)}
    rest -= {name for _, name in pieces_of(files)}
    folder.fetch([name for name in rest if files[name] != known.get(name) or not (path / name).is_file()], path)
    for gone in set(_names_in(os.fspath(path))) - rest - {MANIFEST, SAMPLES}:
        (path / gone).unlink()
    bring_samples(folder, files, path / SAMPLES, known.get(SAMPLES), new=SAMPLES not in known)
    _known[os.fspath(path)] = {**files, SAMPLES: files.get(SAMPLES)}


def run_folders(tree: Iterable[Folder]) -> Iterator[str]:
    """Those of a walk's folders that hold a run: the outermost ones, and none that is hidden."""
    for place, folders, names in tree:
        if MANIFEST in names:
            yield place
        folders[:] = [] if MANIFEST in names else [name for name in folders if not name.startswith(".")]


def find_stored_runs(address: str) -> list[Path]:
    """The run folders at or below an address, newest first, as copies that hold no samples yet."""
    root = StoredFolder(address)
    files = root.files()
    if not files:
        raise InputError(f"{root} holds nothing; check the spelling")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        runs = list(pool.map(_listed, run_folders(walk(root.address, (joined(root.address, one) for one in files)))))
    return sorted(runs, key=_begun, reverse=True)


def _listed(address: str) -> Path:
    """One of several runs; where it cannot be brought, whoever opens it hears why."""
    try:
        return bring_run(address, whole=False)
    except InputError:
        folder = StoredFolder(address)
        return folder_for(folder.address, of=_key(folder))


def _begun(path: Path) -> str:
    """When a run says that it was begun, for their order; stores know only when a file was put."""
    try:
        return str(msgspec.json.decode((path / MANIFEST).read_bytes(), type=_Begun).started)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, FileNotFoundError):
        return ""


class _Begun(msgspec.Struct):
    started: str = ""


def bring_samples(
    folder: StoredFolder, files: dict[str, Version], path: Path, known: Version | None, *, new: bool
) -> None:
    """All samples that a store has, in one file here; what was brought before, of the version `known`, is kept."""
    if new or files.get(SAMPLES) != known:
        path.unlink(missing_ok=True)
        folder.fetch([SAMPLES] if SAMPLES in files else [], path.parent)
    end_bytes = _size(path)
    new_pieces = [(offset, name) for offset, name in pieces_of(files) if offset >= end_bytes]
    for offset, name, block in _read(folder, new_pieces):
        if offset > end_bytes:
            raise RunDamaged(
                f"{folder} lacks the samples from byte {end_bytes:,} to {offset:,}: restore them, or delete {name} and "
                "those after it to have them done again"
            )
        with storage_errors(path), path.open("ab") as file:
            file.write(block)
        end_bytes += len(block)


def _read(folder: StoredFolder, pieces: list[tuple[int, str]]) -> Iterator[tuple[int, str, bytes]]:
    """Pieces in order with what they hold, several fetched at a time."""
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="pieces") as pool:
        for start in range(0, len(pieces), READ_AHEAD):
            some = pieces[start : start + READ_AHEAD]
            for (offset, name), block in zip(some, pool.map(folder.read, [name for _, name in some]), strict=True):
                if block is None:
                    raise InputError(f"{folder} changed while it was read: try again") from FileNotFoundError(name)
                yield offset, name, block
