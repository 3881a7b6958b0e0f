"""The samples as columns, so that ten thousand of them are judged in a moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from howsure.runs import Sample
from howsure.studies.grounding.items import FRAME
from howsure.studies.grounding.judging.confidence import COORDINATE_KINDS
from howsure.studies.grounding.judging.spread import SAMPLED_KINDS

KINDS = (*COORDINATE_KINDS, "match", *SAMPLED_KINDS)
"""The confidences that a run may have. The last, the spread, is a distance: the less, the surer."""

NOT_GIVEN = "not_given"

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Columns:
    """One row an item, in the order of the data; an item without a distance has NaN there, and was then no success.

    `within` and `hit` are those of the δ that is judged by. A failed call is in none of `clicked`, `refused` and
    `unreadable`, and these three are the answers.
    """

    image: NDArray[np.int64]
    """A number for each screen, the same for all items on it."""
    point: Bools
    box: Bools
    polygon: Bools
    clicked: Bools
    refused: Bools
    unreadable: Bools
    l2: Floats
    within: Bools
    inside: Bools
    off_screen: Bools
    cut_off: Bools

    def __len__(self) -> int:
        return len(self.image)

    @property
    def answered(self) -> Bools:
        return self.clicked | self.refused | self.unreadable

    @property
    def region(self) -> Bools:
        return self.box | self.polygon

    @property
    def placed(self) -> Bools:
        """Items with something to click."""
        return self.point | self.region

    @property
    def measured(self) -> Bools:
        """Items with a distance: something to click, and a click."""
        return ~np.isnan(self.l2)

    @property
    def hit(self) -> Bools:
        """Inside a region, within δ of a point, or a refusal where there is nothing to click."""
        return np.where(self.region, self.inside, np.where(self.point, self.within, self.refused))

    @property
    def near(self) -> Bools:
        """Within δ, whatever is to be clicked, or a refusal where there is nothing: what `agreement` counts."""
        return np.where(self.placed, self.within, self.refused)

    @property
    def images(self) -> int:
        return len(np.unique(self.image))

    def rows(self, chosen: NDArray[np.intp] | Bools) -> Columns:
        """The same for some of the items."""
        return Columns(**{field.name: getattr(self, field.name)[chosen] for field in fields(self)})


def columns(samples: Sequence[Sample], *, delta: float) -> Columns:
    """Samples, in the order that they are given in."""
    results = [sample.result for sample in samples]
    answered = [not sample.failed for sample in samples]
    target = [result["target"]["kind"] for result in results]
    says = [result.get("says") if known else None for result, known in zip(results, answered, strict=True)]
    l2 = _floats([result.get("l2") if known else None for result, known in zip(results, answered, strict=True)])
    return Columns(
        image=_numbered([result["image_sha256"] for result in results]),
        point=_equal(target, "point"),
        box=_equal(target, "box"),
        polygon=_equal(target, "polygon"),
        clicked=_equal(says, "point"),
        refused=_equal(says, "refusal"),
        unreadable=_equal(says, "wrong_format"),
        l2=l2,
        within=l2 <= delta,
        inside=_bools([result.get("inside") is True for result in results]),
        off_screen=_bools([_off_screen(result.get("pred_coord")) for result in results]),
        cut_off=_bools([result.get("finish_reason") == "length" for result in results]),
    )


def confidences(samples: Sequence[Sample], kind: str) -> tuple[Floats, list[str]]:
    """The confidences of one kind, NaN where there is none, and the reasons of those."""
    found: list[float | None] = []
    missing: list[str] = []
    for sample in samples:
        value = None if sample.failed else sample.result.get("confidence", {}).get(kind)
        found.append(value)
        if value is None:
            missing.append(sample.reason or sample.result.get("confidence_missing", {}).get(kind, NOT_GIVEN))
    return _floats(found), missing


def kinds_of(samples: Sequence[Sample]) -> list[str]:
    """The kinds of confidence that any sample has or misses."""
    asked: set[str] = set()
    for sample in samples:
        asked.update(sample.result.get("confidence", {}))
    return [kind for kind in KINDS if kind in asked]


def _numbered(names: list[str]) -> NDArray[np.int64]:
    return np.unique(np.array(names, dtype=np.str_), return_inverse=True)[1].astype(np.int64)


def _equal(values: list[Any], wanted: str) -> Bools:
    return _bools([value == wanted for value in values])


def _bools(values: list[bool]) -> Bools:
    return np.array(values, dtype=np.bool_)


def _floats(values: list[float | None]) -> Floats:
    return np.array(values, dtype=np.float64)


def _off_screen(place: Sequence[float] | None) -> bool:
    return place is not None and not all(0.0 <= value <= FRAME for value in place)
