"""Gzip files from strangers: a few kilobytes may unpack to more than any memory holds.

No honest text or model packs a hundredfold, so that is where unpacking stops. What is small after all is let through,
whatever it packs to.
"""

from __future__ import annotations

import gzip
import io
from typing import IO

from howsure.errors import InputError

MOST_FOLD = 100
"""Gzip itself reaches 1,032; texts and n-gram models are packed to a third or a tenth."""
HARMLESS_BYTES = 16 * 2**20
BLOCK_BYTES = 1 << 20


def unpacking(packed: IO[bytes], name: str) -> IO[bytes]:
    """What a gzip file holds, as a file to be read along; one sentence that names it where it swells without end."""
    return io.BufferedReader(_Watched(packed, name), BLOCK_BYTES)


def unpacked(content: bytes, name: str) -> bytes:
    """All that a gzip file holds."""
    return unpacking(io.BytesIO(content), name).read()


class _Watched(io.RawIOBase):
    """Counts what goes in and what comes out."""

    def __init__(self, packed: IO[bytes], name: str) -> None:
        self._packed, self._name, self._out_bytes = packed, name, 0
        self._file = gzip.GzipFile(fileobj=packed)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        block = self._file.read1(len(buffer))
        buffer[: len(block)] = block
        self._out_bytes += len(block)
        if self._out_bytes > max(HARMLESS_BYTES, MOST_FOLD * self._packed.tell()):
            raise InputError(
                f"{self._name} unpacks to more than {MOST_FOLD} times its size, as no honest file does; unpack it "
                "yourself if you trust it"
            )
        return len(block)
