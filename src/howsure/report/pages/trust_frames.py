"""Frames of a replay. A robot in front of a wall sees the same again and again, and a report holds that once."""

from __future__ import annotations

import hashlib
import struct

import htpy as h
from htpy import Node

from howsure.report.run_data import LARGEST_PICTURE_BYTES, Material, picture_within
from howsure.report.html import words
from howsure.runs.reading import read_file

_PNG = b"\x89PNG\r\n\x1a\n"


class Frames:
    """The frames of one part of a page; `prefix` keeps their names apart from those of another part."""

    def __init__(self, material: Material, prefix: str) -> None:
        self._material = material
        whose = hashlib.sha256(str(material.folder.absolute()).encode("utf-8", "surrogatepass")).hexdigest()[:8]
        self.prefix = f"{prefix}-{whose}"
        """Of no other run in the same report, so that an address that ends in it is of one replay alone."""
        self._shown: dict[str, str | None] = {}
        """The source of each frame that was asked for, by digest; None for one that there was no room for."""

    def has(self, name: str) -> bool:
        return picture_within(self._material.folder, file_of(name)) is not None

    def show(self, name: str, alt: str) -> Node:
        """A frame by its step's name, or a sentence about why it cannot be seen."""
        if not self.has(name):
            return h.p(class_="quiet")[self._why_none(name)]
        content = read_file(self._material.folder, file_of(name), LARGEST_PICTURE_BYTES)
        digest = hashlib.sha256(content).hexdigest()[:16]
        first = digest not in self._shown
        if first:
            self._shown[digest] = self._material.links.picture(file_of(name))
        source = self._shown[digest]
        if source is None:
            return h.p(class_="quiet")[
                f"There is no room for more pictures in this file; the run folder has it as {words(file_of(name))}."
            ]
        size = _png_size(content)
        if size is None or not source.startswith("data:"):
            return h.img(src=source, alt=words(alt), class_="frame", loading="lazy")
        return self._drawn(f"{self.prefix}-{digest}", source if first else None, size, alt)

    def _drawn(self, name: str, source: str | None, size: tuple[int, int], alt: str) -> Node:
        """The picture itself the first time, and after that a reference to it."""
        width, height = (str(side) for side in size)
        inside = h.use(href=f"#{name}")
        if source is not None:
            inside = h.image(id=name, href=source, width=width, height=height)
        box = {"viewBox": f"0 0 {width} {height}", "aria-label": words(alt)}
        return h.svg(box, class_="picture frame", role="img", width=width, height=height)[inside]

    def _why_none(self, name: str) -> str:
        if self._material.run.manifest.identity.options.get("frames") is False:
            return "No frames were kept in this run (--no-frames)."
        return f"The frame {words(file_of(name))} is not in the run folder."


def file_of(name: str) -> str:
    return f"frames/{name}.png"


def end_of(name: str) -> str:
    """The name of the frame after the last step, from that of any step: e0001-s0007 gives e0001-end."""
    return f"{name.partition('-')[0]}-end"


def _png_size(content: bytes) -> tuple[int, int] | None:
    if not content.startswith(_PNG) or len(content) < 24:
        return None
    width, height = struct.unpack(">II", content[16:24])
    return (width, height) if 0 < width <= 20_000 and 0 < height <= 20_000 else None
