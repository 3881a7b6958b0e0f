"""Packed files and lines from strangers: a few kilobytes of gzip may unpack to more than any memory holds.

No honest text or model packs a hundredfold, so that is where unpacking stops; what is held in memory as a whole takes
ten times its bytes there, and stops at a tenfold. What is small after all is let through, whatever it packs to.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Iterator
from typing import IO, Any

from howsure.errors import InputError

MOST_FOLD = 100
"""Gzip itself reaches 1,032; texts and n-gram models are packed to a third or a tenth."""
HELD_FOLD = MOST_FOLD // 10
HARMLESS_BYTES = 16 * 2**20
BLOCK_BYTES = 1 << 20


def unpacking(
    packed: IO[bytes], name: str, most_fold: int = MOST_FOLD, weigh: Callable[[bytes], int] = len
) -> IO[bytes]:
    """What a gzip file holds, as a file to be read along; one sentence that names it where it swells without end.

    `weigh` says how many bytes a block counts for, where some of a file's bytes take more memory than others.
    """
    return io.BufferedReader(_Watched(packed, name, most_fold, weigh), BLOCK_BYTES)


def unpacked(packed: IO[bytes], name: str) -> bytes:
    """All that a gzip file holds."""
    return unpacking(packed, name, HELD_FOLD).read()


def read_lines(file: IO[bytes], name: str, most_bytes: int) -> Iterator[bytes]:
    """The lines of a file, none of which is longer than this."""
    number = 0
    while line := file.readline(most_bytes + 1):
        number += 1
        if len(line) > most_bytes:
            raise InputError(
                f"{name}, line {number:,} is longer than {most_bytes >> 20} MiB: give each entry a line of its own"
            )
        yield line


class _Watched(io.RawIOBase):
    """Counts what goes in and what comes out."""

    def __init__(self, packed: IO[bytes], name: str, most_fold: int, weigh: Callable[[bytes], int]) -> None:
        self._packed, self._name, self._most_fold, self._weigh = _Counted(packed), name, most_fold, weigh
        self._out_bytes = 0
        self._file = gzip.GzipFile(fileobj=self._packed)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        block = self._file.read1(len(buffer))
        buffer[: len(block)] = block
        self._out_bytes += self._weigh(block)
        if self._out_bytes > max(HARMLESS_BYTES, self._most_fold * self._packed.count):
            raise InputError(
                f"{self._name} unpacks to far more than a file of its size holds; unpack it yourself if you trust it"
            )
        return len(block)


class _Counted:
    """A file, which may be a pipe, and how much of it was read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.count = file, 0

    def read(self, size: int = -1) -> bytes:
        block = self._file.read(size)
        self.count += len(block)
        return block

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
