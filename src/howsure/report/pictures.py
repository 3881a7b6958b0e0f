"""The picture that a sample is about, from the small copy that its run kept."""

from __future__ import annotations

from typing import Any

import htpy as h
from htpy import Element, Node

from howsure.report.html import words
from howsure.report.run_data import Embedded, RunData, picture_within
from howsure.runs.pictures import kept_count, name_of


def source_of(result: Any, run: RunData) -> str | None:
    """What to write into `src` or `href` for a sample's image, None where no copy was kept."""
    digest = result.image_sha256
    name = name_of(digest) if isinstance(digest, str) else None
    return None if name is None else run.links.picture(name)


def drawing_of(result: Any, run: RunData) -> Element | None:
    """A sample's image for a drawing, as large as that; None where it cannot be shown.

    Many samples are about one screen: a report holds it once, and a second drawing of it leads to the first.
    """
    links = run.links
    name = f"screen-{mark_of(run)}-{result.image_sha256}"
    if isinstance(links, Embedded) and name in links.drawn:
        return h.use(href=f"#{name}")
    source = source_of(result, run)
    if source is None:
        return None
    whole = {"preserveAspectRatio": "none", "width": "100%", "height": "100%"}
    if not isinstance(links, Embedded):
        return h.image(whole, href=source)
    links.drawn.add(name)
    return h.image(whole, id=name, href=source)


def mark_of(run: RunData) -> str:
    """What tells the ids of a run from those of another one in the same report."""
    return str(run.links.number)


def picture_of(result: Any, run: RunData) -> Node:
    """The picture itself; nothing for a sample without one, and a sentence where its copy is missing."""
    if result.image_path is None and result.image_sha256 is None:
        return None
    source = source_of(result, run)
    if source is None:
        return missing(result, run)
    return h.img(src=source, alt="The image that the question is about", loading="lazy")


def missing(result: Any, run: RunData) -> Node:
    """Why a picture is not seen: there is no copy, or no more room in the file."""
    digest = result.image_sha256
    name = name_of(digest) if isinstance(digest, str) else None
    if name is not None and picture_within(run.folder, name) is not None:
        return h.p(class_="quiet")[f"There is no room for more pictures in this file; the run folder has it as {name}."]
    return h.p(class_="quiet")[f"There is no copy of its picture here; it was at {words(result.image_path)}."]


def left_out(run: RunData, column: str) -> str:
    """How many of the run's pictures have no copy, in words; nothing where all have. `column` holds their digests."""
    digests = [value for value in run.table.values(column) if isinstance(value, str)]
    kept, there_are = kept_count(run.folder, digests)
    if kept == there_are:
        return ""
    return (
        f"Of the {there_are:,} pictures of this run, {kept:,} have a copy in its folder; the others could not be read "
        "when the copies were made, were more than a run keeps, or could not be written."
    )
