"""Colours of a map's objects: MiniGrid's six as it draws them, the names of the web, and `#rrggbb`."""

from __future__ import annotations

import difflib
import re

from howsure.errors import InputError, MissingExtra

RGB = tuple[int, int, int]
MINIGRID: dict[str, RGB] = {
    "red": (255, 0, 0),
    "green": (0, 255, 0),
    "blue": (0, 0, 255),
    "purple": (112, 39, 195),
    "yellow": (255, 255, 0),
    "grey": (100, 100, 100),
}


def colour(name: str | None) -> tuple[str, RGB]:
    """A colour's name as we write it and its value; none given means grey."""
    if name is None:
        return "grey", MINIGRID["grey"]
    said = re.sub(r"[\s_-]", "", name.lower()).replace("gray", "grey")
    if re.fullmatch(r"#[0-9a-f]{6}", said):
        return said, (int(said[1:3], 16), int(said[3:5], 16), int(said[5:7], 16))
    known = _known()
    if said in known:
        return said, known[said]
    close = difflib.get_close_matches(said, known, n=3)
    like = f"; did you mean {' or '.join(close)}?" if close else ""
    raise InputError(
        f"no colour is called {name[:40]!r}: use {', '.join(MINIGRID)}, another name of the web's such as orange or "
        f"pink, or #rrggbb{like}"
    )


def _known() -> dict[str, RGB]:
    try:
        from PIL import ImageColor
    except ImportError as error:
        raise MissingExtra("a map", "grid", "PIL") from error
    web = {name.replace("gray", "grey"): ImageColor.getrgb(name)[:3] for name in ImageColor.colormap}
    return {**web, **MINIGRID}
