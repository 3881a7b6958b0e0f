"""Faults that are done to a command from inside its process, at an exact moment.

A *moment* is just before or just after the process changes something on the disk below a folder, or half-way through a
write. A command that works on the same data has the same moments in the same order, so that a test can say: be killed
at the 17th; from the 17th on the disk is full.
"""

from __future__ import annotations

import builtins
import ctypes
import datetime
import errno
import importlib
import io
import itertools
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

Fault = dict[str, Any]


def install(fault: Fault) -> None:
    """Do to this process what the test asks for."""
    for place, value in fault.get("set", {}).items():
        module, _, name = place.rpartition(".")
        setattr(importlib.import_module(module), name, value)
    if "server_patience" in fault:
        from howsure.models.servers.openai import OpenAIServer

        OpenAIServer.__init__.__kwdefaults__.update(fault["server_patience"])
    if "starts_with" in fault:
        wait_for(fault["starts_with"])
    if "largest_file_bytes" in fault:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is printed is no part of this
        resource.setrlimit(resource.RLIMIT_FSIZE, (fault["largest_file_bytes"], resource.RLIM_INFINITY))
    if fault.get("without_privileges"):
        drop_privileges()
    if "clock_seed" in fault:
        rng = random.Random(fault["clock_seed"])
        tell_time(itertools.accumulate(rng.uniform(-86_400, 43_200) for _ in itertools.count()))
    if fault.get("clock_stands_still"):
        tell_time(itertools.repeat(0.0), began_s=1.7e9)
    if "below" in fault:
        Moments(fault).install()


def wait_for(path: str) -> None:
    """Go on at the instant when the file is there, as everybody does who waits for it."""
    until = time.monotonic() + 60
    while not os.path.exists(path) and time.monotonic() < until:
        time.sleep(0.0005)


# -- the disk -----------------------------------------------------------------------------------------------------

WRITES = ("write", "pwrite")
BY_HANDLE = ("fsync", "ftruncate", *WRITES)
BY_NAME = ("replace", "rename", "mkdir", "truncate", "unlink", "chmod")
REFUSED = ("write", "pwrite", "mkdir", "fsync")
"""What a full disk refuses; making a file of no length is refused too, by a disk without free inodes."""


class Moments:
    """Counts moments, and at one of them kills this process; or lets nothing be written from one of them on; or takes
    its time at each."""

    def __init__(self, fault: Fault) -> None:
        self.below = os.path.realpath(fault["below"])
        self.kill_at: int | None = fault.get("kill_at")
        self.full_from: int | None = fault.get("full_from")
        self.count_into: str | None = fault.get("count_into")
        self.pause_s: float = fault.get("pause_s", 0.0)
        self.count = 0

    def install(self) -> None:
        for name in (*BY_HANDLE, *BY_NAME):
            setattr(os, name, self._around(name, getattr(os, name)))
        os.open = self._opening(os.open, lambda flags: bool(flags & (os.O_CREAT | os.O_TRUNC)))  # type: ignore[assignment]
        builtins.open = io.open = self._opening(io.open, lambda mode: isinstance(mode, str) and "r" not in mode)  # type: ignore[assignment]

    def moment(self, what: str, half: Callable[[], Any] | None = None) -> None:
        """One has come; `half` is what is done before the end where this is the middle of a write."""
        self.count += 1
        if self.pause_s:
            time.sleep(self.pause_s)
        if self.count == self.kill_at:
            if half is not None:
                half()
            real_write(2, f"killed at moment {self.count}: {what}\n".encode())
            os.kill(os.getpid(), signal.SIGKILL)
        if self.count_into is not None:
            with real_open(self.count_into, "a") as file:
                file.write(f"{self.count} {what}\n")

    @property
    def full(self) -> bool:
        return self.full_from is not None and self.count >= self.full_from

    def _around(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            path = self._path(args[0])
            if path is None:
                return real(*args, **more)
            self.moment(f"before {name} {path}")
            if name in WRITES and len(args[1]) > 1:
                half = (args[0], bytes(args[1])[: len(args[1]) // 2], *args[2:])
                self.moment(f"in the middle of {name} {path}", lambda: real(*half))
            if self.full and name in REFUSED:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
            found = real(*args, **more)
            self.moment(f"after {name} {path}")
            return found

        return call

    def _opening(self, real: Callable[..., Any], writes: Callable[[Any], bool]) -> Callable[..., Any]:
        def call(file: Any, how: Any = "r", *args: Any, **more: Any) -> Any:
            how = more.pop("mode", more.pop("flags", how))
            path = self._path(file) if writes(how) else None
            if path is None:
                return real(file, how, *args, **more)
            self.moment(f"before open {path}")
            if self.full and not os.path.exists(path):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
            found = real(file, how, *args, **more)
            self.moment(f"after open {path}")
            return found

        return call

    def _path(self, file: Any) -> str | None:
        """The file that is changed, if it lies where moments are counted."""
        try:
            path = os.readlink(f"/proc/self/fd/{file}") if isinstance(file, int) else os.path.realpath(file)
        except (OSError, TypeError, ValueError):
            return None
        return path if path == self.below or path.startswith(self.below + os.sep) else None


real_write, real_open = os.write, io.open


def drop_privileges() -> None:
    """Root without the right to pass over the modes of files, so that these count as they do for everybody."""
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this process
    if libc.capset(header, (ctypes.c_uint32 * 6)()) != 0:
        raise OSError(ctypes.get_errno(), "capset")


# -- the clock ----------------------------------------------------------------------------------------------------


def tell_time(offsets_s: Iterator[float], began_s: float | None = None) -> None:
    """From now on howsure and `time.time` are told a time of day that is wrong by these offsets, one after the other,
    or that always is the same one; the monotonic clock goes on. It is what a machine sees whose clock is set."""
    real_time, RealDatetime = time.time, datetime.datetime

    def now_s() -> float:
        return (real_time() if began_s is None else began_s) + next(offsets_s)

    class Told(RealDatetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:
            return RealDatetime.fromtimestamp(now_s(), tz)

    time.time = now_s
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "howsure" and getattr(module, "datetime", None) is RealDatetime:
            module.datetime = Told  # type: ignore[attr-defined]
    datetime.datetime = Told  # type: ignore[misc]
