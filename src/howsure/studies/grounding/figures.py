"""The samples as columns, so that ten thousand of them are judged in a moment, and shares and distances of them with
their doubt, where items on the same screen hang together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from howsure.measures import mean_interval, median_interval
from howsure.measures.intervals import ENOUGH_RARE
from howsure.studies import sureness
from howsure.studies.grounding.record import FRAME, Samples, confidence_of
from howsure.studies.sureness import LEVEL, Share
from howsure.types import Fields

NOT_GIVEN = "not_given"

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Columns:
    """One row an item, in the order of the data; an item without a distance has NaN there, and was then no success.

    `within` and `hit` are those of the δ that is judged by. A failed call is in none of `clicked`, `refused` and
    `unreadable`, and these three are the answers.
    """

    image: Codes
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


def columns(samples: Samples, *, delta: float) -> Columns:
    """Samples, in the order that they are given in."""
    results = [sample.result for sample in samples]
    says = [None if sample.failed else sample.result.says for sample in samples]
    l2 = _floats([None if sample.failed else sample.result.l2 for sample in samples])
    names = np.array([result.image_sha256 for result in results], dtype=np.str_)
    return Columns(
        image=np.unique(names, return_inverse=True)[1].astype(np.int64),
        point=_bools([result.target.kind == "point" for result in results]),
        box=_bools([result.target.kind == "box" for result in results]),
        polygon=_bools([result.target.kind == "polygon" for result in results]),
        clicked=_bools([one == "point" for one in says]),
        refused=_bools([one == "refusal" for one in says]),
        unreadable=_bools([one == "wrong_format" for one in says]),
        l2=l2,
        within=l2 <= delta,
        inside=_bools([result.inside is True for result in results]),
        off_screen=_bools([is_outside(result.pred_coord) for result in results]),
        cut_off=_bools([result.finish_reason == "length" for result in results]),
    )


def confidences(samples: Samples, kind: str) -> tuple[Floats, list[str]]:
    """The confidences of one kind, NaN where there is none, and the reasons of those."""
    values: list[float | None] = []
    missing: list[str] = []
    for sample in samples:
        value = None if sample.failed else confidence_of(sample.result, kind)
        values.append(value)
        if value is None:
            reasons = sample.result.confidence_missing
            missing.append(sample.reason or (None if reasons is None else reasons[kind]) or NOT_GIVEN)
    return _floats(values), missing


def is_outside(place: Sequence[float] | None) -> bool:
    """Whether a click misses the screen."""
    return place is not None and not all(0.0 <= value <= FRAME for value in place)


def _bools(values: list[bool]) -> Bools:
    return np.array(values, dtype=np.bool_)


def _floats(values: list[float | None]) -> Floats:
    return np.array(values, dtype=np.float64)


# -- figures --------------------------------------------------------------------------------------------------------


COUNT_BAD = ("accuracy", "point_in_target", "hit_rate")
"""Shares that count bad samples of the data as misses; that of the others stands beside them."""
WITHOUT_BAD = "_without_bad_samples"


class Distance(Share):
    """A mean or median of the distances that are known: `count` of the `of` items with something to click."""


class Figures(Fields, kw_only=True):
    """Every figure with its interval and counts."""

    accuracy: Share
    """Clicks within δ, of all items with something to click."""
    accuracy_of_answered: Share
    point_in_target: Share
    point_in_box: Share
    point_in_polygon: Share
    hit_rate: Share
    wrong_format: Share
    refused_rightly: Share
    refused_wrongly: Share
    accuracy_without_bad_samples: Share
    point_in_target_without_bad_samples: Share
    hit_rate_without_bad_samples: Share
    mean_l2: Distance
    median_l2: Distance


def figures(table: Columns, *, bad: int = 0) -> Figures:
    """Each figure of a study: its value, its interval, and of how many it is.

    Whatever has no click is a miss in all shares; only `accuracy_of_answered` leaves out calls that failed. What was to
    be clicked in the `bad` samples, which could not be read, is not known: each share of `COUNT_BAD` that the data has
    counts all of them as misses.
    """
    placed, region, nothing = table.placed, table.region, ~table.placed
    shares = {
        "accuracy": (table.within, placed),
        "accuracy_of_answered": (table.within, placed & table.answered),
        "point_in_target": (table.inside, region),
        "point_in_box": (table.inside, table.box),
        "point_in_polygon": (table.inside, table.polygon),
        "hit_rate": (table.hit, np.ones(len(table), dtype=np.bool_)),
        "wrong_format": (table.unreadable, table.answered),
        "refused_rightly": (table.refused, nothing),
        "refused_wrongly": (table.refused, placed),
    }
    known = {name: share(happened[of], table.image[of]) for name, (happened, of) in shares.items()}
    for name in COUNT_BAD:
        happened, of = shares[name]
        known[f"{name}{WITHOUT_BAD}"] = known[name]
        known[name] = share(happened[of], table.image[of], bad=bad if of.any() else 0)
    l2, screen, wanted = table.l2[table.measured], table.image[table.measured], int(placed.sum())
    mean = mean_interval(l2, clusters=screen, level=LEVEL, least=0.0)
    far = np.count_nonzero(~table.within[table.measured])
    if mean is not None and far < ENOUGH_RARE:  # the mean rests on the far misses, of which hardly any were seen
        mean = replace(mean, approximate=True)
    median = median_interval(l2, clusters=screen, level=LEVEL)
    return Figures(
        **known,
        mean_l2=Distance(mean_of(l2), len(l2), wanted, **sureness.ends(mean)),
        median_l2=Distance(median_of(l2), len(l2), wanted, **sureness.ends(median)),
    )


def share(happened: Bools, image: Codes, *, bad: int = 0) -> Share:
    """How often, of how many, with an interval over screens; in a bad sample, on a screen of its own, it did not."""
    return sureness.share(with_bad(happened, bad), screens_with_bad(image, bad))


def with_bad(happened: Bools, bad: int) -> Bools:
    return np.concatenate([happened, np.zeros(bad, dtype=np.bool_)])


def screens_with_bad(image: Codes, bad: int) -> Codes:
    after = int(image.max(initial=-1)) + 1
    return np.concatenate([image, np.arange(after, after + bad)])


def mean_of(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None


def median_of(values: Floats) -> float | None:
    return float(np.median(values)) if len(values) else None
