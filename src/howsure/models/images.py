"""Images from outside: checked before any work starts, opened again only when a model looks at them.

An image file is hostile input. It is decoded once, whole, in a process whose time and memory are limited, so that a
torn file is found before a model is loaded, and one that would take minutes is refused. What this process decodes later
has the same bytes (`Picture.read`), and so was found harmless.
"""

from __future__ import annotations

import hashlib
import io
import math
import os
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from threading import Event
from typing import Any, NamedTuple

from howsure.errors import InputError, MissingExtra, UnusableImage
from howsure.limited import Ended, LimitedFunction, Raised
from howsure.models.decoding import (
    MOST_MEMORY_BYTES,
    SECONDS_TO_OPEN,
    SENT_AS_THEY_ARE,
    decode,
    sendable_format,
)
from howsure.storage import local, shown_path

Size = tuple[int, int]
"""Width and height in pixels."""

MOST_BYTES = 128 * 2**20
READERS = 4
MOST_ELONGATED = 200

_shown_size = LimitedFunction(
    "howsure.models.decoding:shown_size", cpu_seconds=SECONDS_TO_OPEN, memory_bytes=MOST_MEMORY_BYTES
)


class Picture(NamedTuple):
    """An image that was found good: where it lies, its size as shown, and what its bytes are.

    One that was made here, and need not lie anywhere, has its bytes in `content`; `path` is then only its name.
    """

    path: str
    width: int
    height: int
    sha256: str
    content: bytes | None = None

    @classmethod
    def made(cls, content: bytes, name: str, size: tuple[int, int]) -> Picture:
        """An image that was made here, of this width and height."""
        return cls(name, *size, hashlib.sha256(content).hexdigest(), content)

    def read(self) -> bytes:
        """The bytes of the file; raises where it is not what it was."""
        content = _content(self.path, fresh=False) if self.content is None else self.content
        if self.content is None and hashlib.sha256(content).hexdigest() != self.sha256:
            raise UnusableImage(f"{shown_path(self.path)} has changed since it was checked")
        return content

    def with_content(self) -> Picture:
        """The same with its bytes in it, for whoever does not see the file; one that is gone is left as it is, and
        whoever opens it says so."""
        if self.content is not None:
            return self
        try:
            return self._replace(path=os.path.abspath(self.path), content=self.read())
        except InputError:
            return self

    def load(self) -> Any:
        """The pixels, as an RGB image of Pillow; raises where the file is not what it was."""
        return decode(self.read(), shown_path(self.path))

    def to_send(self) -> tuple[str, bytes]:
        """Media type and bytes for a chat API: the file as it is where every server would see the same in it.

        Other formats, films, and images that are shown turned are written anew as PNG, upright, their first frame.
        """
        content = self.read()
        kind = sendable_format(content, shown_path(self.path))
        if kind is not None:
            return SENT_AS_THEY_ARE[kind], content
        png = io.BytesIO()
        decode(content, shown_path(self.path)).save(png, "PNG")
        return SENT_AS_THEY_ARE["PNG"], png.getvalue()


def inspect_picture(path: str | os.PathLike[str], stopped: Event | None = None) -> Picture:
    """Read and decode an image file once; one sentence that names it where that cannot be done."""
    place = os.fspath(path)
    return _inspected(_content(place), place, stopped)


def inspect_pictures(paths: list[str]) -> dict[str, Picture | InputError]:
    """Every distinct path once, several at a time."""
    stopped = Event()

    def inspect(path: str) -> Picture | InputError:
        try:
            return inspect_picture(path, stopped)
        except InputError as error:
            return error

    distinct = list(dict.fromkeys(paths))
    with ThreadPoolExecutor(READERS) as pool:
        try:
            return dict(zip(distinct, pool.map(inspect, distinct), strict=True))
        except BaseException:  # Ctrl-C; the readers, which are waited for, are not to wait for a decoder
            stopped.set()
            _shown_size.stop()
            raise


def inspect_content(content: bytes, path: str) -> Picture:
    """The same for the bytes of a file that was read already; they stay within it."""
    return _inspected(content, path)._replace(content=content)


def _inspected(content: bytes, path: str, stopped: Event | None = None) -> Picture:
    name = shown_path(path)
    if find_spec("PIL") is None:
        raise MissingExtra("reading images", "local", "PIL")
    try:
        size = _shown_size(content, name.encode("utf-8", "surrogatepass"), unless=stopped)
    except Raised as error:
        raise InputError(str(error)) from None
    except Ended as error:
        raise InputError(f"image {name} cannot be decoded: it {error}; write it anew, or scale it down") from None
    width, height = map(int, size.split())
    return Picture(path, width, height, hashlib.sha256(content).hexdigest())


def _content(place: str, *, fresh: bool = True) -> bytes:
    path = shown_path(place)
    try:
        with local(place, fresh=fresh, most_bytes=MOST_BYTES).open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"image {path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not content:
        raise InputError(f"image {path} is empty, 0 bytes; copy or write it again")
    if len(content) > MOST_BYTES:
        raise InputError(f"image {path} is larger than {MOST_BYTES >> 20} MiB; scale it down first")
    return content


def area_limited(size: Size, token_side: int, least_pixels: int, most_pixels: int) -> Size:
    """The size that the Qwen-VL kinds bring an image to: its shape kept as far as whole tokens allow, its area limited.

    transformers has the same rule, in a module that needs torchvision, and a server's images are counted where neither
    is installed; a test holds the two against each other.

    >>> area_limited((1920, 1080), 32, 56 * 56, 1280 * 28 * 28)
    (1312, 736)
    """
    width, height = size
    if max(size) > MOST_ELONGATED * min(size):
        raise UnusableImage(f"an image of {width}×{height} pixels is more than {MOST_ELONGATED} times as long as wide")
    wide, high = (round(side / token_side) * token_side for side in size)
    if wide * high > most_pixels:
        shrink = math.sqrt(width * height / most_pixels)
        wide, high = (max(token_side, math.floor(side / shrink / token_side) * token_side) for side in size)
    elif wide * high < least_pixels:
        grow = math.sqrt(least_pixels / (width * height))
        wide, high = (math.ceil(side * grow / token_side) * token_side for side in size)
    return wide, high
