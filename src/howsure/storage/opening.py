"""Opening files that somebody else may have put there.

A pipe without a writer is waited for, a device has no end, a sparse file takes no disk and all memory, and a link leads
anywhere. What is opened here is a regular file, below a folder where one is given, and of a size that is asked for.

A few kilobytes of gzip may unpack to more than any memory holds. No honest text or model packs a hundredfold, so that
is where unpacking stops; what is held in memory as a whole takes ten times its bytes there, and stops at a tenfold.
What is small after all is let through, whatever it packs to.
"""

from __future__ import annotations

import errno
import gzip
import io
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO

from howsure.errors import InputError
from howsure.storage.copies import shown_path

OPENED_BY_THE_SHELL = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
"""Pipes that the user's own command line opened, such as `<(zcat log.gz)`."""

MOST_AT_ONCE = 1 << 20
_NONBLOCK, _NOFOLLOW, _BINARY = (getattr(os, name, 0) for name in ("O_NONBLOCK", "O_NOFOLLOW", "O_BINARY"))

MOST_FOLD = 100
"""Gzip itself reaches 1,032; texts and n-gram models are packed to a third or a tenth."""
HELD_FOLD = MOST_FOLD // 10
HARMLESS_BYTES = 16 * 2**20
BLOCK_BYTES = 1 << 20


def open_regular(
    path: str | os.PathLike[str],
    *,
    within: str | os.PathLike[str] | None = None,
    most_bytes: int | None = None,
    shell_pipes: bool = False,
    remedy: str | None = None,
) -> BinaryIO:
    """The file, opened for reading; never waits.

    within       a folder that the file must lie in, wherever links lead
    most_bytes   a larger file is refused before anything of it is read
    shell_pipes  take a pipe that the shell opened for the command line
    remedy       what to do about one that is refused

    An InputError says what it is where it is no regular file; OSError is raised as it comes (it is not there, it may
    not be read).
    """
    if shell_pipes and os.fspath(path).startswith(OPENED_BY_THE_SHELL):
        return open(path, "rb")
    return os.fdopen(_opened(path, within, most_bytes, remedy), "rb")


def read_regular(
    path: str | os.PathLike[str],
    most_bytes: int,
    *,
    within: str | os.PathLike[str] | None = None,
    shell_pipes: bool = False,
    remedy: str | None = None,
) -> bytes:
    """All of a file, which is no longer than this even if it grows meanwhile."""
    if shell_pipes:
        with open_regular(path, within=within, most_bytes=most_bytes, shell_pipes=True, remedy=remedy) as file:
            content = file.read(most_bytes + 1)
    else:
        content = _read(_opened(path, within, most_bytes, remedy), most_bytes + 1)
    if len(content) > most_bytes:
        raise _too_large(path, most_bytes, remedy)
    return content


def _read(handle: int, count: int) -> bytes:
    """So many bytes of a file, which is closed, or all that it has. A file object takes longer than a small file."""
    try:
        content = os.read(handle, min(count, os.fstat(handle).st_size + 1))
        while 0 < len(content) < count and (more := os.read(handle, min(count - len(content), MOST_AT_ONCE))):
            content += more
        return content
    finally:
        os.close(handle)


def _opened(
    path: str | os.PathLike[str], within: str | os.PathLike[str] | None, most_bytes: int | None, remedy: str | None
) -> int:
    """A handle of the file; see `open_regular`."""
    target, no_links = os.fspath(path), 0
    if within is not None:
        target, no_links = _inside(path, within), _NOFOLLOW
    try:
        handle = os.open(target, os.O_RDONLY | _NONBLOCK | _BINARY | no_links)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket
            raise _not_regular(path, remedy) from error
        raise
    except ValueError as error:  # a NUL in the name
        raise InputError(f"{_name(path)!r} is not a file name ({error})") from error
    try:
        about = os.fstat(handle)
        if stat.S_ISDIR(about.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), _name(path))
        if not stat.S_ISREG(about.st_mode):
            raise _not_regular(path, remedy)
        if most_bytes is not None and about.st_size > most_bytes:
            raise _too_large(path, most_bytes, remedy)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _inside(path: str | os.PathLike[str], folder: str | os.PathLike[str]) -> str:
    """Where the path really leads, which must be below the folder."""
    here = os.fspath(path)
    if os.path.dirname(here) == os.fspath(folder) and not os.path.islink(here):
        return here  # as almost always, and many times quicker
    target, root = os.path.realpath(path), os.path.realpath(folder)
    if not Path(target).is_relative_to(root):
        raise InputError(f"{_name(path)} leads out of {_name(folder)}: put the file itself there")
    return target


def _not_regular(path: str | os.PathLike[str], remedy: str | None) -> InputError:
    remedy = remedy or "write what comes out of it to a file"
    return InputError(f"{_name(path)} is not a file but a pipe or a device; {remedy}")


def _too_large(path: str | os.PathLike[str], most_bytes: int, remedy: str | None) -> InputError:
    remedy = remedy or "split it, or name another"
    most = f"{most_bytes >> 20:,} MiB" if most_bytes >= 1 << 20 else f"{most_bytes:,} bytes"
    return InputError(f"{_name(path)} is larger than {most}, more than such a file ever is; {remedy}")


def _name(path: str | os.PathLike[str]) -> str:
    return shown_path(os.fspath(path))


def check_writable(option: str, path: str | os.PathLike[str]) -> None:
    """Find out before the work whether a file of its result can be written. Nothing is left behind: a folder that is
    missing is made by whoever writes."""
    target = Path(path)
    if target.is_dir():
        raise InputError(f"{option} {target} is a folder: name a file")
    folder = next((one for one in target.absolute().parents if one.exists()), target.parent)
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise InputError(f"{option} {target} cannot be written: {error.strerror}; name another file") from error


# -- packed files and lines -----------------------------------------------------------------------------------------


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
