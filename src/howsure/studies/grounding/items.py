"""What a click study is about: a screen, an instruction, and where the click belongs.

All places are in the 0–1000 frame: x in thousandths of the image's width, y in thousandths of its height, from the top
left. One frame for screens of every size, in which distances are measured and δ is given.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec

from howsure.models.images import Picture

FRAME = 1000.0
"""The far end of the frame that everything is measured in."""

LABELS = ("user", "platform", "type", "application", "group")
"""By what results are split, where the data says it; an item may have several of one kind."""

Place = tuple[float, float]

TargetKind = Literal["point", "box", "polygon", "refusal"]


class Target(msgspec.Struct, frozen=True):
    """Where the click belongs: x and y of a point, left, top, right and bottom of a box, the corners of a polygon.

    A refusal has no coordinates: what the instruction speaks of is not on the screen, and the right answer says so.
    """

    kind: TargetKind
    coords: tuple[float, ...] = ()

    @property
    def is_region(self) -> bool:
        return self.kind in ("box", "polygon")

    @property
    def centre(self) -> Place | None:
        """The point that distances are measured to: that of a point, the middle of a box, the middle of the smallest
        box around a polygon. None for a refusal."""
        if not self.coords:
            return None
        xs, ys = self.coords[0::2], self.coords[1::2]
        return (min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2


class Item(NamedTuple):
    """A sample that passed every check, under an id that stays the same.

    `prompt` is the whole text that the data wants the model to be asked with, None where there is only an instruction.
    `content` is what the right element is called, where the data says it.
    """

    id: str
    image: Picture
    instruction: str
    target: Target
    content: str | None = None
    prompt: str | None = None
    labels: dict[str, tuple[str, ...]] = {}  # noqa: RUF012 - never written to


class Items(NamedTuple):
    """All samples of the data, and what was decided about how it is to be read."""

    items: list[Item]
    skipped: int
    fingerprint: str
    form: str
    """One of the forms that `data` knows: chat_pickle, chat_jsonl, flat_jsonl, screenspot, osworld_g."""
    decided: dict[str, Any]
    """How boxes were taken, and by which rule; written into the run."""
