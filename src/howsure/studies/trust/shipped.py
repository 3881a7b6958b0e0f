"""The maps that come with howsure."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from howsure.errors import InputError
from howsure.studies.trust.world import SHIPPED_MAPS


def map_text(name: str) -> str:
    """A shipped map as its file holds it."""
    if name not in SHIPPED_MAPS:
        raise InputError(f"there is no map {name!r}; there are {', '.join(SHIPPED_MAPS)}")
    return (files("howsure.data") / "maps" / f"{name}.json").read_text(encoding="utf-8")


def shipped_maps() -> list[dict[str, Any]]:
    """Name, size and instruction of each."""
    from howsure.studies.trust.world.maps import parse_map

    found = []
    for name in SHIPPED_MAPS:
        one = parse_map(map_text(name), name)
        found.append({"name": name, "width": one.width, "height": one.height, "instruction": one.instruction})
    return found
