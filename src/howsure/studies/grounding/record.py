"""What a click study is about (a screen, an instruction, and where the click belongs), and what a sample of it holds.

All places are in the 0–1000 frame: x in thousandths of the image's width, y in thousandths of its height, from the top
left. One frame for screens of every size, in which distances are measured and δ is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from howsure.evidence.types import TokenRecord
from howsure.models.images import Picture
from howsure.runs import Sample
from howsure.runs.run import Items
from howsure.types import Fields

FRAME = 1000.0
"""The far end of the frame that everything is measured in."""

Place = tuple[float, float]

TargetKind = Literal["point", "box", "polygon", "refusal"]


class Target(Fields):
    """Where the click belongs: x and y of a point, left, top, right and bottom of a box, the corners of a polygon.

    A refusal has no coordinates: what the instruction speaks of is not on the screen, and the right answer says so.
    """

    kind: TargetKind
    coords: tuple[float, ...] = ()
    """In the 0–1000 frame, as all places are."""

    @property
    def is_region(self) -> bool:
        return self.kind in ("box", "polygon")

    @property
    def places(self) -> list[Place]:
        return list(zip(self.coords[0::2], self.coords[1::2], strict=True))

    @property
    def centre(self) -> Place | None:
        """The point that distances are measured to: that of a point, the middle of a box, the middle of the smallest
        box around a polygon. None for a refusal."""
        if not self.coords:
            return None
        xs, ys = self.coords[0::2], self.coords[1::2]
        return (min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2


class Labels(Fields, omit_defaults=True):
    """By what results are split, where the data says it; an item may have several of one kind."""

    user: tuple[str, ...] = ()
    platform: tuple[str, ...] = ()
    type: tuple[str, ...] = ()
    application: tuple[str, ...] = ()
    group: tuple[str, ...] = ()


LABELS = Labels.__struct_fields__


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
    labels: Labels = Labels()


@dataclass(frozen=True)
class Screens(Items[Item]):
    """All samples of the data, and what was decided about how it is to be read."""

    form: str = ""
    """One of the forms that `reading` knows: chat_pickle, chat_jsonl, flat_jsonl, screenspot, osworld_g."""
    decided: dict[str, Any] = field(default_factory=dict)
    """How boxes were taken, and by which rule; written into the run."""
    image_root: str = ""
    """The folder that all images lie in."""


# -- samples --------------------------------------------------------------------------------------------------------


class Confidence(Fields):
    """How sure the model was, by each kind that was asked for; None where that is missing."""

    coordinate_mean: float | UnsetType | None = UNSET
    """Mean probability of the tokens of the click's coordinates."""
    coordinate_min: float | UnsetType | None = UNSET
    coordinate_joint: float | UnsetType | None = UNSET
    match: float | UnsetType | None = UNSET
    """How well the text that ocr clicks on matches the instruction."""
    agreement: float | UnsetType | None = UNSET
    """Share of the drawn answers that do as the given one did."""
    spread: float | UnsetType | None = UNSET
    """How far apart the drawn clicks lie: a distance, the less, the surer."""

    @property
    def known(self) -> dict[str, float | None]:
        """The kinds that were asked for."""
        return {kind: self[kind] for kind in KINDS if self[kind] is not UNSET}


class ConfidenceMissing(Fields, omit_defaults=True):
    """Why there is no confidence of a kind that was asked for, in a countable word."""

    coordinate_mean: str | None = None
    coordinate_min: str | None = None
    coordinate_joint: str | None = None
    match: str | None = None
    agreement: str | None = None
    spread: str | None = None


KINDS = Confidence.__struct_fields__
DISTANCES = ("spread",)
"""Kinds that are no probability: ranked with their sign turned."""


class Sampled(Fields):
    """What drawn answers said: where they clicked, in the 0–1000 frame, and how many did not click, by what they did.

    `failed` are calls that brought no answer. Together with the others they make up `asked`.
    """

    asked: int
    points: tuple[Place, ...] = ()
    wrong_format: int = 0
    refusals: int = 0
    failed: int = 0

    @property
    def answered(self) -> int:
        return self.asked - self.failed


class GroundingRecord(Fields, kw_only=True):
    """A screen with its instruction, and what the model did. What a call that failed has not is None."""

    instruction: str
    labels: Labels = msgspec.field(default_factory=Labels)
    image_path: str
    image_sha256: str
    image_size: tuple[int, int]
    target: Target
    gt_coord: Place | None
    """The target's centre, which distances are measured to."""
    gt_content: str | None = None
    pred_raw: str | None = None
    """The answer as it was written; None of a model that clicks without words."""
    pred_content: str | None = None
    """What the answer calls the element."""
    form: str | None = None
    """How the point was written, such as block/pair."""
    why_not: str | None = None
    """Why an answer is in wrong format."""
    finish_reason: str | None = None
    samples: Sampled | None = None
    """The answers that were drawn beside the likeliest one."""
    pred_coord: Place | None = None
    says: Literal["point", "refusal", "wrong_format"] | None = None
    confidence: Confidence | None = None
    confidence_missing: ConfidenceMissing | None = None
    l2: float | None = None
    """Distance of click and target, in thousandths of the screen."""
    within_delta: bool | None = None
    inside: bool | None = None
    """Whether the click lies in the box or polygon."""
    hit: bool | None = None
    """Inside a region, within δ of a point, or a refusal where there is nothing to click."""


class DrawnAnswer(Fields):
    text: str | None
    failure: str | None


class GroundingEvidence(Fields):
    answer: TokenRecord | None = None
    """The tokens of the answer with their log-probabilities."""
    samples: list[DrawnAnswer] | None = None


Samples = Sequence[Sample[GroundingRecord]]


def confidence_of(record: GroundingRecord, kind: str) -> float | None:
    value = UNSET if record.confidence is None else getattr(record.confidence, kind)
    return None if value is UNSET else value


def kinds_of(samples: Samples) -> list[str]:
    """The kinds of confidence that any sample has or misses."""
    given = [sample.result.confidence for sample in samples if sample.result.confidence is not None]
    asked = {kind for one in given for kind in one.known}
    return [kind for kind in KINDS if kind in asked]
