"""One writer at a time in a folder of a store, which has no locks.

A lease is a small file `.lease-000001` that its holder made, where none was, and renews all the time. One that was not
renewed for long enough is taken over by making the next number: of several who try, one succeeds. Whoever finds a
higher number, or another name in the own file, has lost the lease and stops.

Clocks decide only how long somebody waits. A lease that looks old by the clock is watched for a while before it is
taken over; and what a holder writes that was asleep meanwhile is refused by the store (`StoredFolder.create`).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import threading
import time
import uuid
from pathlib import Path
from typing import Annotated, Any

import msgspec

from howsure.errors import HowsureError, InputError, RunLocked, StorageError
from howsure.storage.stores import StoredFolder, names_below

SECONDS_VARIABLE, DEFAULT_SECONDS = "HOWSURE_LEASE_SECONDS", 30.0
RENEWALS = 3
"""In the time that a lease lasts."""
NAME = ".lease-{:06d}"
_NUMBER = re.compile(r"\.lease-(\d{6})")
_held_here: set[str] = set()
"""The leases of this process, by their ids."""


class Lease:
    """A lease on a folder: acquire, check before each change, release."""

    def __init__(self, folder: StoredFolder) -> None:
        self.folder = folder
        self.seconds = _seconds()
        self.id = uuid.uuid4().hex
        self.number = 0
        self.lost: str | None = None
        self._renewed = 0.0
        self._ended = threading.Event()
        self._renewing = threading.Lock()

    def acquire(self) -> None:
        """Take the lease, or raise RunLocked with who has it."""
        held = _numbers(self.folder)
        if held:
            _wait_until_stale(self.folder, held[-1])
        self.number = held[-1] + 1 if held else 1
        if not self.folder.create(NAME.format(self.number), self._content()):
            raise _locked(self.folder, _read(self.folder, self.number))
        self._renewed = time.monotonic()
        _held_here.add(self.id)
        self.folder.remove(NAME.format(number) for number in held)
        threading.Thread(target=self._renew_all_the_time, name="lease", daemon=True).start()

    def is_exclusive(self) -> bool:
        """Whether the store refuses to make what is there already; asked of the own lease, which is not harmed."""
        return not self.folder.create(NAME.format(self.number), self._content())

    def check(self) -> None:
        """Raises RunLocked where the lease is lost. One that may have run out while this process slept is renewed."""
        if self.lost is None and time.monotonic() - self._renewed > self.seconds / 2:
            try:
                self._renew()
            except InputError as error:  # that it cannot be read is one more reason not to write
                raise StorageError(f"{error}; samples written before are safe") from error
        if self.lost is not None:
            raise RunLocked(f"{self.folder} {self.lost}: this process stops; the same command goes on when it is free")

    def release(self) -> None:
        """Give it back. Where the store cannot be reached it runs out by itself."""
        self._ended.set()
        _held_here.discard(self.id)
        with self._renewing, contextlib.suppress(HowsureError):
            if self.lost is None:
                self.folder.remove([NAME.format(self.number)])

    def _renew_all_the_time(self) -> None:
        while not self._ended.wait(self.seconds / RENEWALS) and self.lost is None:
            with contextlib.suppress(HowsureError):  # the next change meets the same fault, and says so
                self._renew()

    def _renew(self) -> None:
        with self._renewing:
            if self._ended.is_set():
                return
            mine, later = _read(self.folder, self.number), _read(self.folder, self.number + 1)
            if later or mine.get("id") != self.id:
                self.lost = f"was taken over by {_who(later or mine)}, since this process was not heard of for too long"
                return
            self.folder.put(NAME.format(self.number), self._content())
            self._renewed = time.monotonic()

    def _content(self) -> bytes:
        about = {"id": self.id, "host": socket.gethostname(), "pid": os.getpid(), "machine": this_machine()}
        return json.dumps(about | {"renewed": time.time(), "seconds": self.seconds}).encode()


def holder(folder: StoredFolder) -> str | None:
    """Who writes in a folder now, as far as the clock tells; None where nobody does."""
    held = _numbers(folder)
    about = _read(folder, held[-1]) if held else {}
    return _who(about) if about and _looks_alive(about) else None


def _wait_until_stale(folder: StoredFolder, number: int) -> None:
    """Return when the lease's holder is gone; raise where it is alive."""
    about = _read(folder, number)
    if not about or _is_dead(about):
        return
    if _looks_alive(about):
        raise _locked(folder, about)
    time.sleep(_lasts(about) / 2)  # in which somebody alive renews it, however wrong the clocks are
    if _read(folder, number) != about:
        raise _locked(folder, about)


def _locked(folder: StoredFolder, about: dict[str, Any]) -> RunLocked:
    return RunLocked(
        f"{folder} is being written by {_who(about)}: wait for it, or choose another --out; if it was killed, its hold "
        f"ends after {_lasts(about):.0f} s"
    )


def _looks_alive(about: dict[str, Any]) -> bool:
    """By the clock; a time that is yet to come tells nothing but that one of the clocks is wrong."""
    renewed = about.get("renewed")
    age = time.time() - renewed if isinstance(renewed, int | float) else float("inf")
    return not _is_dead(about) and abs(age) < _lasts(about)


def _is_dead(about: dict[str, Any]) -> bool:
    """Whether its process ran on this very machine, and is gone; or was this one, which has let go of it."""
    if about.get("machine") != this_machine() or os.name != "posix":
        return False
    if about.get("pid") == os.getpid():
        return about.get("id") not in _held_here
    try:
        os.kill(int(about["pid"]), 0)
    except ProcessLookupError:
        return True
    except (OSError, KeyError, ValueError):
        return False
    return False


def this_machine() -> str:
    """This start of this machine, and the space that its process numbers belong to."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip() + os.readlink("/proc/self/ns/pid")
    return f"{socket.gethostname()} {uuid.getnode()}"


def _numbers(folder: StoredFolder) -> list[int]:
    return sorted(int(match[1]) for name in names_below(folder.address) if (match := _NUMBER.fullmatch(name)))


def _read(folder: StoredFolder, number: int) -> dict[str, Any]:
    """What a lease says; nothing where it is no lease, since anybody may have put that file there."""
    try:
        about = msgspec.json.decode(folder.read(NAME.format(number)) or b"", type=_About)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return msgspec.structs.asdict(about)


class _About(msgspec.Struct):
    id: str
    host: str
    pid: Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
    machine: str
    renewed: float
    seconds: float


def _lasts(about: dict[str, Any]) -> float:
    seconds = about.get("seconds")
    return float(seconds) if isinstance(seconds, int | float) and 0 < seconds <= 3600 else DEFAULT_SECONDS


def _who(about: dict[str, Any]) -> str:
    return f"process {about.get('pid')} on {about.get('host')}" if about.get("pid") else "another process"


def _seconds() -> float:
    text = os.environ.get(SECONDS_VARIABLE, "")
    try:
        seconds = float(text or DEFAULT_SECONDS)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= 3600:
        raise InputError(f"{SECONDS_VARIABLE} must be a number of seconds from 1 to 3600, not {text!r}")
    return seconds
