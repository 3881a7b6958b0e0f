"""Images from outside: checked before any work starts, opened again only when a model looks at them.

An image file is hostile input. Its header is read first, and nothing is decoded that is absurdly large or of a kind
that would need another program; then it is decoded once, whole, so that a torn file is found before a model is loaded.
"""

from __future__ import annotations

import hashlib
import io
import os
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

from howsure.errors import InputError, MissingExtra, UnusableImage
from howsure.storage import local, shown_path

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
SENT_AS_THEY_ARE = {"PNG": "image/png", "JPEG": "image/jpeg"}
"""Formats that every chat API takes, with their media types. llama.cpp knows no WebP, and some of its versions answer
as if there were no image; Gemini and Ollama know no GIF."""

MOST_BYTES = 128 * 2**20
MOST_PIXELS = 100_000_000
HARMLESS_PIXELS, PIXELS_PER_BYTE = 16_000_000, 1000
"""A few kilobytes may say that they are a hundred million pixels. An empty screen has some hundred for each byte."""

ORIENTATION_TAG, TURNED, LYING = 0x0112, range(2, 9), range(5, 9)
"""EXIF's tag that says how an image is to be turned before it is shown, its values other than upright, and those that
lay it on its side."""

READERS = 4


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
        return _decode(self.read(), self.path)

    def to_send(self) -> tuple[str, bytes]:
        """Media type and bytes for a chat API: the file as it is where every server would see the same in it.

        Other formats, films, and images that are shown turned are written anew as PNG, upright, their first frame.
        """
        content = self.read()
        kind = _sendable_format(content, self.path)
        if kind is not None:
            return SENT_AS_THEY_ARE[kind], content
        png = io.BytesIO()
        _decode(content, self.path).save(png, "PNG")
        return SENT_AS_THEY_ARE["PNG"], png.getvalue()


def inspect_picture(path: str | os.PathLike[str]) -> Picture:
    """Read and decode an image file once; one sentence that names it where that cannot be done."""
    with _no_warnings():
        return _inspect(path)


def _inspect(path: str | os.PathLike[str]) -> Picture:
    content = _content(os.fspath(path))
    width, height = _checked_size(content, os.fspath(path))
    return Picture(os.fspath(path), width, height, hashlib.sha256(content).hexdigest())


def inspect_pictures(paths: list[str]) -> dict[str, Picture | InputError]:
    """Every distinct path once, several at a time; decoding runs outside Python's lock."""

    def inspect(path: str) -> Picture | InputError:
        try:
            return _inspect(path)
        except InputError as error:
            return error

    distinct = list(dict.fromkeys(paths))
    with _no_warnings(), ThreadPoolExecutor(READERS) as pool:
        return dict(zip(distinct, pool.map(inspect, distinct), strict=True))


@contextmanager
def _no_warnings() -> Iterator[None]:
    """Pillow warns about sizes and tags; sizes are judged here. Python's filters belong to all threads, so this is set
    around the readers, not in each."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


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


def _decode(content: bytes, name: str) -> Any:
    with _opened(content, name) as image:
        from PIL import ImageOps

        ImageOps.exif_transpose(image, in_place=True)
        return _to_rgb(image)


def _checked_size(content: bytes, name: str) -> tuple[int, int]:
    """Width and height as shown, of an image that was decoded whole; no second copy of its pixels is made for that."""
    with _opened(content, name) as image:
        image.load()
        _to_rgb(image.crop((0, 0, 1, 1)))
        width, height = image.size
        return (height, width) if image.getexif().get(ORIENTATION_TAG) in LYING else (width, height)


def _sendable_format(content: bytes, name: str) -> str | None:
    """The format where a file can be sent as it is; else None."""
    with _opened(content, name) as image:
        turned = image.getexif().get(ORIENTATION_TAG) in TURNED
        moves = getattr(image, "is_animated", False)
        return None if turned or moves or image.format not in SENT_AS_THEY_ARE else str(image.format)


@contextmanager
def _opened(content: bytes, place: str) -> Iterator[Any]:
    """An image whose header was read and is no absurdity; what goes wrong with it is one sentence that names it."""
    name = shown_path(place)
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise MissingExtra("reading images", "local", "PIL") from error
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as image:
            pixels = image.width * image.height
            if pixels > MOST_PIXELS or pixels > max(HARMLESS_PIXELS, PIXELS_PER_BYTE * len(content)):
                raise Image.DecompressionBombError
            yield image
    except Image.DecompressionBombError as error:  # ours, or Pillow's own for what is larger still
        most = f"more than {MOST_PIXELS // 10**6} million pixels, or {PIXELS_PER_BYTE:,} for each byte of the file"
        raise InputError(f"image {name} is absurdly large, {most}; scale it down first") from error
    except UnidentifiedImageError as error:
        raise InputError(f"image {name} is none of {', '.join(FORMATS)}, whatever its name says") from error
    except Exception as error:  # Pillow's decoders raise anything at all on broken files
        raise InputError(f"image {name} cannot be decoded: {' '.join(str(error).split())[:160]}") from error


def _to_rgb(image: Any) -> Any:
    """RGB as models want it; 16-bit greys are scaled, since Pillow would clip them to white."""
    if image.mode.startswith("I;16") or image.mode == "I":
        image = image.convert("I").point(lambda value: value * (1 / 256)).convert("L")
    return image.convert("RGB")
