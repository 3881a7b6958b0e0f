"""Where a run folder lies and who writes it: on this machine's disk behind a lock, or in a store under a lease.

`.lock` is held for as long as a folder on the disk is written. Whoever removes that file lets others make another one
and hold that. So the holder looks before each write whether it is still the one that it holds, and whoever comes looks
into run.json whether a process that held another one is alive.

In a store nothing can be appended to. The writer works in a folder on this machine, as always, and everything that
counts is put into the store before it goes on. Each append is one new file, `samples-<bytes before it>.jsonl`, which is
there whole or not at all, and which the store refuses to make twice: of two writers that both believe to be the only
one, the second stops. When a run ends, `samples.jsonl` is put whole, and only then are the pieces removed. A piece that
begins before the end of `samples.jsonl` is therefore in it already; the others follow it without a gap. So a writer may
stop anywhere.
"""

from __future__ import annotations

import contextlib
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
from howsure.runs.reading import (
    LOCK,
    MANIFEST,
    MOST_MANIFEST_BYTES,
    MOST_SUMMARY_BYTES,
    SAMPLES,
    SUMMARY,
    read_manifest,
)
from howsure.storage import (
    Copy,
    Folder,
    Lease,
    StoredFolder,
    address_of,
    adopt,
    checked,
    folder_for,
    holder,
    is_address,
    joined,
    new_folder_for,
    walk,
)
from howsure.storage.lease import this_machine
from howsure.storage.stores import AT_ONCE, Version

REPORT = "report.html"
MADE_ANEW = ("pictures/", "frames/", REPORT)
"""What a run that is taken up makes again where it is missing, and so does not fetch."""
ATTEMPTS, READ_AHEAD = 3, 64

_PIECE = re.compile(r"samples-(\d{15})\.jsonl")
_known: dict[str, dict[str, Version | None]] = {}
"""For each folder of copies, the versions of the files in it."""

PATIENCE_SECONDS = 0.3
"""For how long a writer waits for its lock, which those who look whether anybody writes hold for an instant."""


def writing_place(path: str | os.PathLike[str]) -> OnDisk:
    """Where a run folder is written: itself, or a store."""
    given = checked(path)
    address = address_of(given)
    return OnDisk(Path(given)) if address is None else InStore(address)


def is_locked(folder: Path) -> bool:
    """Whether a process is writing the run now. Nothing is written to find out, and whoever asks at the same time is
    not taken for a writer."""
    if (address := address_of(folder)) is not None:
        return holder(StoredFolder(address)) is not None
    if os.name == "nt":
        return _is_held(folder / LOCK)
    import fcntl

    try:
        handle = os.open(folder / LOCK, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)  # which gives the lock back
    return False


def _is_held(lock: Path) -> bool:
    """The same where locks cannot be shared."""
    from filelock import FileLock, Timeout

    if not lock.exists():
        return False
    try:
        with FileLock(lock, timeout=0):
            return False
    except (Timeout, OSError):
        return True


# -- on this machine ------------------------------------------------------------------------------------------------


class OnDisk:
    """Where a run folder lies on this machine's disk: what is written there is all there is to do."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def acquire(self) -> None:
        """Become the one writer, or raise RunLocked with who is."""
        from filelock import FileLock, Timeout

        with storage_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = FileLock(self.path / LOCK, timeout=PATIENCE_SECONDS)
            try:
                self._lock.acquire()
            except Timeout as error:
                raise _locked(self.path, _writer_of(self.path)) from error
        try:
            self._held = self._identity()
            if (writer := self._writer_of_another_lock()) is not None:
                raise _locked(self.path, writer)
        except BaseException:
            self._lock.release()
            raise

    def check(self) -> None:
        """Called before anything is written: raises RunLocked where the file that is held is no longer the folder's
        lock."""
        try:
            still = self._identity()
        except OSError:
            still = None
        if still != self._held:
            raise RunLocked(
                f"{self.path / LOCK} was removed while this process wrote the run, and another may write it by now: "
                "this one stops; the same command goes on with what is there"
            )

    def release(self) -> None:
        """Let others write."""
        self._lock.release()

    def owner(self) -> dict[str, Any]:
        """Who writes, as run.json says it."""
        pid = os.getpid()
        return {"pid": pid, "host": socket.gethostname(), "process": _process(pid), "lock": self._held}

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

    def _identity(self) -> list[int]:
        """The numbers of the folder and its lock: a copy of a folder has others."""
        return [os.stat(self.path).st_ino, os.stat(self.path / LOCK).st_ino]

    def _writer_of_another_lock(self) -> str | None:
        """The process that run.json names, where it holds what was this folder's lock, and lives."""
        if not (self.path / MANIFEST).is_file():
            return None
        manifest = read_manifest(self.path)
        owner, (folder, lock) = manifest.owner, self._held
        held = owner.get("lock")
        another = isinstance(held, list) and held[:1] == [folder] and held != [folder, lock]
        if manifest.status != "running" or not another or owner.get("pid") == os.getpid():
            return None
        process = owner.get("process")
        return _name(owner) if process is not None and process == _process(owner.get("pid")) else None


def _locked(folder: Path, who: str) -> RunLocked:
    return RunLocked(f"{folder} is being written by {who}: wait for it, or choose another --out")


def _writer_of(folder: Path) -> str:
    """Who has the lock; for an instant the manifest still names the last one, who may be gone."""
    owner = read_manifest(folder).owner if (folder / MANIFEST).is_file() else {}
    gone = owner.get("host") == socket.gethostname() and not _is_alive(owner.get("pid"))
    return "another process" if gone or not owner else _name(owner)


def _name(owner: dict[str, Any]) -> str:
    return f"process {owner.get('pid')} on {owner.get('host')}"


def _is_alive(pid: Any) -> bool:
    if os.name != "posix" or not isinstance(pid, int) or pid <= 0:
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _process(pid: Any) -> str | None:
    """A process that lives, apart from any other that ever had its number; None where the system does not tell."""
    try:
        about = Path(f"/proc/{int(pid)}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except (OSError, TypeError, ValueError):
        return None
    state, started = about[0], about[19]
    return None if state in "ZX" else f"{this_machine()} {pid} {started}"


# -- in a store -----------------------------------------------------------------------------------------------------


def piece_name(offset_bytes: int) -> str:
    return f"samples-{offset_bytes:015d}.jsonl"


def pieces_of(files: dict[str, Version]) -> list[tuple[int, str]]:
    """The pieces of samples among some files: where each begins, and its name."""
    return sorted((int(match[1]), name) for name in files if (match := _PIECE.fullmatch(name)))


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


# -- reading what lies in a store ----------------------------------------------------------------------------------


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


def find_runs(folder: str | os.PathLike[str]) -> list[Path]:
    """The run folders at or below a folder, newest first; a run is not searched for further runs.

    In a store, the copies that come back hold no samples yet; `Run` fetches them.
    """
    given = checked(folder)
    if is_address(given):
        root = StoredFolder(str(given))
        files = [joined(root.address, name) for name in root.files()]
        if not files:
            raise InputError(f"{root} holds nothing; check the spelling")
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return sorted(pool.map(_listed, _run_folders(walk(root.address, files))), key=_begun, reverse=True)
    if not os.path.isdir(given):
        raise InputError(f"{Path(given)} is not a folder")
    dated = []
    for place in _run_folders(os.walk(given)):
        with contextlib.suppress(OSError):  # gone since, or a link that leads nowhere
            dated.append((os.stat(os.path.join(place, MANIFEST)).st_mtime, Path(place)))
    return [path for _, path in sorted(dated, key=lambda one: one[0], reverse=True)]


def _run_folders(tree: Iterable[Folder]) -> Iterator[str]:
    """Those of a walk's folders that hold a run: the outermost ones, and none that is hidden."""
    for place, folders, names in tree:
        if MANIFEST in names:
            yield place
        folders[:] = [] if MANIFEST in names else [name for name in folders if not name.startswith(".")]


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
