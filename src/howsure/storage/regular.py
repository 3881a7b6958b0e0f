"""Opening files that somebody else may have put there.

A pipe without a writer is waited for, a device has no end, a sparse file takes no disk and all memory, and a link leads
anywhere. What is opened here is a regular file, below a folder where one is given, and of a size that is asked for.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from howsure.errors import InputError
from howsure.storage.scratch import shown_path

OPENED_BY_THE_SHELL = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
"""Pipes that the user's own command line opened, such as `<(zcat log.gz)`."""

MOST_AT_ONCE = 1 << 20
_NONBLOCK, _NOFOLLOW, _BINARY = (getattr(os, name, 0) for name in ("O_NONBLOCK", "O_NOFOLLOW", "O_BINARY"))


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
