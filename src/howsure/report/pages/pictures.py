"""The picture that a sample is about, from the small copy that its run kept."""

from __future__ import annotations

from typing import Any

import htpy as h
from htpy import Node

from howsure.report.pages.material import Material
from howsure.report.pages.parts import words

FOLDER = "pictures"


def source_of(result: dict[str, Any], material: Material) -> str | None:
    """What to write into `src` or `href` for a sample's image, None where no copy was kept."""
    digest = result.get("image_sha256")
    if not isinstance(digest, str) or len(digest) != 64 or not digest.isalnum():
        return None
    return material.links.picture(f"{FOLDER}/{digest[:24]}.jpg")


def picture_of(result: dict[str, Any], material: Material) -> Node:
    """The picture itself; nothing for a sample without one, and a sentence where its copy is missing."""
    if "image_path" not in result:
        return None
    source = source_of(result, material)
    if source is None:
        return missing(result)
    return h.img(src=source, alt="The image that the question is about", loading="lazy")


def missing(result: dict[str, Any]) -> Node:
    return h.p(class_="quiet")[f"There is no copy of its picture here; it was at {words(result.get('image_path'))}."]
