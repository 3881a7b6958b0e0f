"""Who writes a run folder on this machine: `.lock`, held for as long as it is written.

Whoever removes that file lets others make another one and hold that. So the holder looks before each write whether it
is still the one that it holds, and whoever comes looks into run.json whether a process that held another one is alive.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

from howsure.errors import RunLocked
from howsure.runs.files import storage_errors
from howsure.runs.reading import LOCK, MANIFEST, read_manifest
from howsure.storage.lease import this_machine

PATIENCE_SECONDS = 0.3
"""For how long a writer waits for its lock, which those who look whether anybody writes hold for an instant."""


class FolderLock:
    """The lock of one folder: acquire, check before each write, release."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def acquire(self) -> None:
        """Take the lock, or raise RunLocked with who has it."""
        from filelock import FileLock, Timeout

        self._lock = FileLock(self._folder / LOCK, timeout=PATIENCE_SECONDS)
        with storage_errors(self._folder):
            try:
                self._lock.acquire()
            except Timeout as error:
                raise _locked(self._folder, _writer_of(self._folder)) from error
        try:
            self._held = self._identity()
            if (writer := self._writer_of_another_lock()) is not None:
                raise _locked(self._folder, writer)
        except BaseException:
            self._lock.release()
            raise

    def check(self) -> None:
        """Raise RunLocked where the file that is held is no longer the folder's lock."""
        try:
            still = self._identity()
        except OSError:
            still = None
        if still != self._held:
            raise RunLocked(
                f"{self._folder / LOCK} was removed while this process wrote the run, and another may write it by now: "
                "this one stops; the same command goes on with what is there"
            )

    def release(self) -> None:
        self._lock.release()

    def owner(self) -> dict[str, Any]:
        """Who this is, as run.json says it."""
        pid = os.getpid()
        return {"pid": pid, "host": socket.gethostname(), "process": _process(pid), "lock": self._held}

    def _identity(self) -> list[int]:
        """The numbers of the folder and its lock: a copy of a folder has others."""
        return [os.stat(self._folder).st_ino, os.stat(self._folder / LOCK).st_ino]

    def _writer_of_another_lock(self) -> str | None:
        """The process that run.json names, where it holds what was this folder's lock, and lives."""
        if not (self._folder / MANIFEST).is_file():
            return None
        manifest = read_manifest(self._folder)
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
