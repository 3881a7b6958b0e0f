"""Pixels of image files from outside, by Pillow: what is absurdly large is refused by its header, and so is every kind
that would need another program.

Imports nothing but Pillow, since processes are started to run it (`models.images`).
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from howsure.errors import InputError, MissingExtra
from howsure.limited import more_time

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
SENT_AS_THEY_ARE = {"PNG": "image/png", "JPEG": "image/jpeg"}
"""Formats that every chat API takes, with their media types. llama.cpp knows no WebP, and some of its versions answer
as if there were no image; Gemini and Ollama know no GIF."""

MOST_PIXELS = 100_000_000
HARMLESS_PIXELS, PIXELS_PER_BYTE = 16_000_000, 1000
"""A few kilobytes may say that they are a hundred million pixels. An empty screen has some hundred for each byte."""

ORIENTATION_TAG, TURNED = 0x0112, range(2, 9)
"""EXIF's tag that says how an image is to be turned before it is shown, and its values other than upright."""


SECONDS_TO_OPEN, SECONDS_A_MEGAPIXEL = 2.0, 0.2
MOST_MEMORY_BYTES = 600 * 2**20
"""What one image may cost in a process of its own (`models.images`). An honest one takes less than a tenth of the time,
and 4 bytes a pixel, as many again where it has to be converted."""


def decode(content: bytes, name: str) -> Any:
    """The pixels as shown, as an RGB image of Pillow."""
    with _opened(content, name) as image:
        from PIL import ImageOps

        ImageOps.exif_transpose(image, in_place=True)
        return _to_rgb(image)


def shown_size(content: bytes, name: bytes) -> bytes:
    """Width and height of an image that was decoded whole; runs in a process of its own (`howsure.limited`)."""
    with warnings.catch_warnings():  # Pillow's, about sizes and tags; sizes are judged here
        warnings.simplefilter("ignore")
        image = decode(content, name.decode("utf-8", "surrogatepass"))
    return "{} {}".format(*image.size).encode()


def sendable_format(content: bytes, name: str) -> str | None:
    """The format where a file can be sent as it is; else None."""
    with _opened(content, name) as image:
        if image.format not in SENT_AS_THEY_ARE or getattr(image, "is_animated", False):
            return None  # frames are counted last: in a GIF that means to read them all
        return None if image.getexif().get(ORIENTATION_TAG) in TURNED else str(image.format)


@contextmanager
def _opened(content: bytes, name: str) -> Iterator[Any]:
    """An image whose header was read and is no absurdity; what goes wrong with it is one sentence that names it."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise MissingExtra("reading images", "local", "PIL") from error
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as image:
            pixels = image.width * image.height
            if pixels > MOST_PIXELS or pixels > max(HARMLESS_PIXELS, PIXELS_PER_BYTE * len(content)):
                raise Image.DecompressionBombError
            more_time(SECONDS_A_MEGAPIXEL * pixels / 10**6)
            yield image
    except MemoryError:
        raise
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
    return image if image.mode == "RGB" else image.convert("RGB")
