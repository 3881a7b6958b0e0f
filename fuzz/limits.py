"""What one input may cost: a second of CPU time, and a bounded growth of memory.

Time is the process's own, so that a busy machine makes no reader slow. An alarm ends what runs in Python; what runs
in C hears it late, so the time is measured as well. Memory is the kernel's high-water mark, set back before each input
where the kernel allows it.
"""

from __future__ import annotations

import contextlib
import re
import resource
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from howsure.errors import HowsureError

MOST_SECONDS = 1.0
MOST_GROWTH_BYTES = 400 * 2**20
"""Of the high-water mark, by one input of at most 64 KiB. By its own limit an image may have 100 million pixels."""

MOST_ADDRESS_BYTES = 6 * 2**30
"""Of a whole process, for what would take all memory at once."""


STATUS, CLEAR_REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_HIGH_WATER = re.compile(rb"VmHWM:\s+(\d+) kB")


class TooSlow(BaseException):
    """An input that takes too long; no reader's `except Exception` may swallow it."""


class TooLarge(BaseException):
    """An input that takes too much memory."""


def feed(read: Callable[[bytes], None], data: bytes) -> None:
    """One input into one reader: a value or a sentence of howsure's are good, and everything else is raised.

    What is slow is tried again: the first to need a package waits for its import, which is no reader's fault.
    """
    try:
        _feed_once(read, data)
    except TooSlow:
        _feed_once(read, data)


def _feed_once(read: Callable[[bytes], None], data: bytes) -> None:
    before_bytes, before_seconds = _peak_bytes(anew=True), time.process_time()
    with _alarm(MOST_SECONDS), contextlib.suppress(HowsureError):
        read(data)
    took = time.process_time() - before_seconds
    if took > MOST_SECONDS:
        raise TooSlow(f"{took:.1f} s of CPU time for {len(data):,} bytes")
    grown = _peak_bytes() - before_bytes
    if grown > MOST_GROWTH_BYTES:
        raise TooLarge(f"{grown >> 20:,} MiB more memory for {len(data):,} bytes")


def bound_memory() -> None:
    """For a process that only fuzzes: an input that wants all memory meets a MemoryError."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_ADDRESS_BYTES, MOST_ADDRESS_BYTES))


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    def ring(*_: Any) -> None:
        raise TooSlow(f"more than {seconds:g} s of CPU time")

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _peak_bytes(*, anew: bool = False) -> int:
    """The most memory that this process held. Linux tells it of the program that runs now; `getrusage` would count
    what the process was before, which for a child of a large one is the size of its parent."""
    try:
        if anew:
            CLEAR_REFS.write_text("5")
        return int(_HIGH_WATER.search(STATUS.read_bytes())[1]) * 1024  # type: ignore[index]
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
