"""The whole grid as a PNG picture, the agent in it.

MiniGrid's own tiles for MiniGrid's objects, and a tile with a name on it for a map's emoji: no font of the machine is
used, so that a picture is the same everywhere. Only tiles that changed are painted again.
"""

from __future__ import annotations

import struct
import zlib
from functools import lru_cache
from typing import Any

import numpy as np
from minigrid.core.constants import COLORS
from PIL import Image, ImageDraw, ImageFont

from howsure.studies.trust.world.words import DIRECTIONS, Grid

LONGEST_SIDE = 512
DRAWN_SIZE = 40
"""MiniGrid draws a tile pixel by pixel in Python; one that is larger is scaled up from this size."""
LINE = (100, 100, 100)
BOLD_AGENT = (255, 0, 0)
READABLE_FONT, SMALLEST_FONT = 11, 8
Key = tuple[Any, ...]


class Painter:
    """Keeps the picture of one world, and paints what changed."""

    def __init__(self, width: int, height: int) -> None:
        self.tile = max(4, LONGEST_SIDE // max(width, height))
        self.size = (width * self.tile, height * self.tile)
        # PNG's own rows: a byte that names the filter (0, none), then the pixels.
        self._rows = np.zeros((self.size[1], 1 + 3 * self.size[0]), dtype=np.uint8)
        self._painted: list[Key | None] = [None] * (width * height)
        self._width = width

    def paint(self, grid: Grid, goal: tuple[int, int] | None) -> bytes:
        """The grid as it stands now."""
        agent_x, agent_y, facing = grid.agent()
        here = agent_y * self._width + agent_x
        marked = -1 if goal is None else goal[1] * self._width + goal[0]
        looks: dict[int, Key | None] = {}
        for cell, obj in enumerate(grid.cells()):
            look = looks.get(id(obj))
            if look is None and obj is not None:
                look = looks[id(obj)] = _look(obj)
            key: Key = (look, cell == marked)
            if cell == here:
                key += (facing, _look(grid.env.carrying))
            if key != self._painted[cell]:
                self._painted[cell] = key
                self._put(cell, _tile(key, self.tile))
        return _png(self._rows, self.size)

    def _put(self, cell: int, image: Image.Image) -> None:
        y, x = divmod(cell, self._width)
        down, right = y * self.tile, 1 + 3 * x * self.tile
        tile = np.asarray(image).reshape(self.tile, 3 * self.tile)
        self._rows[down : down + self.tile, right : right + 3 * self.tile] = tile


def _png(rows: Any, size: tuple[int, int]) -> bytes:
    """A PNG file of these rows; written here since Pillow's search for the best filter takes most of a step's time."""
    header = struct.pack(">IIBBBBB", *size, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 1)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in parts
    )


def _look(obj: Any) -> Key | None:
    """All that decides how a thing looks."""
    if obj is None:
        return None
    kind = getattr(obj, "kind", None)
    if obj.type == "emoji":
        return "emoji", obj.kind.name, obj.kind.rgb
    if not type(obj).__module__.startswith("minigrid.core"):
        return "foreign", obj.encode(), obj
    state = (obj.is_open, obj.is_locked) if obj.type == "door" else None
    return obj.type, obj.color, None if kind is None else kind.rgb, state, type(obj)


@lru_cache(maxsize=4096)
def _tile(key: Key, size: int) -> Image.Image:
    look, marked = key[:2]
    image = _thing(look, size).copy()
    if marked and (look is None or look[0] != "goal"):
        _frame(image, (0, 255, 0))
    if len(key) > 2:
        _agent(image, key[2])
        if key[3] is not None:
            small = max(4, size * 2 // 5)
            inset = _thing(key[3], small).copy()
            _frame(inset, (255, 255, 255))
            image.paste(inset, (size - small, size - small))
    return image


@lru_cache(maxsize=4096)
def _thing(look: Key | None, size: int) -> Image.Image:
    if look is not None and look[0] == "emoji":
        return _named(look[1], look[2], size)
    return _minigrid(look, size)


def _minigrid(look: Key | None, size: int) -> Image.Image:
    drawn = min(size, DRAWN_SIZE)
    made = None if look is None else _example(look)
    pixels = np.zeros((drawn * 3, drawn * 3, 3), dtype=np.uint8)
    pixels[: max(1, drawn * 3 * 31 // 1000), :] = LINE
    pixels[:, : max(1, drawn * 3 * 31 // 1000)] = LINE
    if made is not None:
        made.render(pixels)
    image = Image.fromarray(pixels)
    return image.resize((size, size), Image.Resampling.LANCZOS if size > drawn else Image.Resampling.BOX)


def _example(look: Key) -> Any:
    """An object that looks so; a colour that MiniGrid lacks is lent to it for the drawing."""
    if look[0] == "foreign":
        return look[2]
    kind, name, rgb, state, cls = look
    made = cls.__new__(cls)
    made.type, made.color = kind, name
    if state is not None:
        made.is_open, made.is_locked = state
    if name not in COLORS:
        COLORS[name] = np.array(rgb)
    return made


def _frame(image: Image.Image, colour: tuple[int, int, int]) -> None:
    ImageDraw.Draw(image).rectangle(
        (0, 0, image.width - 1, image.height - 1), outline=colour, width=max(1, image.width // 12)
    )


def _agent(image: Image.Image, facing: str) -> None:
    """MiniGrid's red triangle, drawn four times as large and scaled down for smooth edges."""
    large = image.width * 4
    mask = Image.new("L", (large, large))
    corners = [(0.12, 0.19), (0.87, 0.50), (0.12, 0.81)]
    ImageDraw.Draw(mask).polygon([_turned(corner, facing, large) for corner in corners], fill=255)
    mask = mask.resize(image.size, Image.Resampling.BOX)
    image.paste(Image.new("RGB", image.size, BOLD_AGENT), mask=mask)


def _turned(corner: tuple[float, float], facing: str, large: int) -> tuple[int, int]:
    x, y = corner[0] - 0.5, corner[1] - 0.5
    for _ in range(DIRECTIONS.index(facing)):
        x, y = -y, x
    return round((x + 0.5) * large), round((y + 0.5) * large)


# -- a tile with a name ----------------------------------------------------------------------------------------------


def _named(name: str, rgb: tuple[int, int, int], size: int) -> Image.Image:
    image = _minigrid(None, size).copy()
    draw = ImageDraw.Draw(image)
    edge = max(1, size // 18)
    draw.rounded_rectangle((edge, edge, size - 1 - edge, size - 1 - edge), radius=size // 6, fill=rgb)
    bright = 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2] > 140
    lines, font = _fitted(name, size - 2 * edge - 2)
    if font is not None:
        draw.multiline_text(
            (size / 2, size / 2), "\n".join(lines), font=font, anchor="mm", align="center", spacing=1,
            fill=(0, 0, 0) if bright else (255, 255, 255),
        )  # fmt: skip
    return image


def _fitted(name: str, room: int) -> tuple[list[str], Any]:
    """The name in lines, as large as it fits; words are broken before letters grow tiny, and cut off at last."""
    largest = min(22, max(SMALLEST_FONT, room // 2))
    tries = [(size, False) for size in range(largest, READABLE_FONT - 1, -1)]
    tries += [(size, True) for size in range(READABLE_FONT, SMALLEST_FONT - 1, -1)]
    for size, hyphens in tries:
        font = ImageFont.load_default(size)
        lines = _broken(name, font, room, hyphens)
        if lines is not None and len(lines) * (size + 2) <= room:
            return lines, font
    font = ImageFont.load_default(SMALLEST_FONT)
    short = name
    while short and font.getlength(short) > room:
        short = short[:-1]
    return ([short], font) if len(short) > 2 or short == name else ([], None)


def _broken(name: str, font: Any, room: int, hyphens: bool) -> list[str] | None:
    """The words in lines that fit; None where they do not."""
    lines: list[str] = []
    for word in name.split():
        half = -(-len(word) // 2)
        if lines and font.getlength(f"{lines[-1]} {word}") <= room:
            lines[-1] += f" {word}"
        elif font.getlength(word) <= room:
            lines.append(word)
        elif hyphens and len(word) > 5 and font.getlength(f"{word[:half]}-") <= room:
            lines += [f"{word[:half]}-", word[half:]]
        else:
            return None
    return lines
