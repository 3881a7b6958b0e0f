"""Judging: how often the click is right, how far off it is, and whether the model knows.

Distances are in the 0–1000 frame. Items on the same screen hang together, so intervals are over screens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from howsure.measures import too_few
from howsure.measures.intervals import LEAST_UNITS
from howsure.measures.ranking import LEAST_OF_A_CLASS
from howsure.studies.grounding.figures import (
    COUNT_BAD,
    WITHOUT_BAD,
    Columns,
    Figures,
    columns,
    confidences,
    figures,
    mean_of,
)
from howsure.studies.grounding.record import DISTANCES, LABELS, Samples, kinds_of
from howsure.studies.summary import Coverage, Figure, Summary
from howsure.studies.sureness import BOUNDS, Calibration, Selective, Share, calibration, selective
from howsure.types import Fields

UNIT = "of 1000"
"""Of a distance: thousandths of the screen, across and down."""

CALIBRATED = ("agreement",)
"""Kinds of confidence that claim to be a probability of being right, and so are calibrated.

`agreement` is the model's own probability, estimated from what it draws, of answering within δ of where it did, and is
set against clicks within δ. The probabilities of coordinate tokens are those of exact digits, while every neighbouring
pixel hits as well; `match` is a score that ocr is built to rank by; `spread` is a distance.
"""

WIDE_NET = 0.2
"""How far accuracy within δ may lie above point in target before δ says little about hitting it."""

NEARLY_ALL = 0.95
"""A share of equal confidences above which their order says next to nothing."""


class GroupFigures(Fields, kw_only=True):
    """The figures of some of the samples, such as those of one user. `low` and `high` are the ends of accuracy's
    interval."""

    value: str | UnsetType | None = UNSET
    """In a split: the label; None for samples without one."""
    count: int
    accuracy: float | None
    low: float | None
    high: float | None
    approximate: bool | None
    mean_l2: float | None
    median_l2: float | None
    point_in_target: float | None
    point_in_target_low: float | None
    point_in_target_high: float | None
    point_in_target_approximate: bool | None
    hit_rate: float | None
    image_count: int
    answered_count: int
    failed_count: int
    clicked_count: int
    refused_count: int
    wrong_format_count: int
    placed_count: int
    region_count: int
    nothing_to_click_count: int
    distance_count: int
    off_screen_count: int
    cut_off_count: int


Splits = dict[str, list[GroupFigures]]
"""For each kind of label that the data has, the figures of each value."""


class Area(Fields, kw_only=True):
    """AUROC of hits against misses; None unless there are both."""

    value: float | None
    low: float | None
    high: float | None
    level: float | None
    method: str | None
    approximate: bool | None


class Knows(Fields, kw_only=True):
    """Does one kind of confidence tell hits from misses, can it be believed? Over the answers that have it."""

    answers: int
    hits: int
    missing: dict[str, int]
    mean: float | None
    most_common_share: float | None
    """How many of the confidences are the same number: all of them, and no order is left to be judged."""
    auroc: Area | None
    selective: Selective | None
    calibration: Calibration | None


class GroundingSummary(Summary, kw_only=True):
    """What the clicks say together. The main figures stand as plain numbers beside `figures`, which has all of them
    with their intervals."""

    delta: float
    accuracy: float | None
    accuracy_without_bad_samples: float | None
    accuracy_of_answered: float | None
    mean_l2: float | None
    median_l2: float | None
    point_in_target: float | None
    point_in_target_without_bad_samples: float | None
    hit_rate: float | None
    hit_rate_without_bad_samples: float | None
    wrong_format_share: float | None
    total_count: int
    bad_sample_count: int
    image_count: int
    answered_count: int
    failed_count: int
    clicked_count: int
    refused_count: int
    wrong_format_count: int
    placed_count: int
    region_count: int
    nothing_to_click_count: int
    distance_count: int
    off_screen_count: int
    cut_off_count: int
    why_not: dict[str, int]
    """Why answers could not be read, by reason."""
    figures: Figures
    splits: Splits
    knows: dict[str, Knows]


def judge(samples: Samples, *, delta: float, skipped: int = 0, seed: int = 0) -> GroundingSummary:
    """The summary: a pure function of the samples, whatever order they come in.

    `accuracy` is the share within δ of all items that have something to click. An answer that cannot be read, a refusal
    and a failed call are misses, and are in neither mean nor median of the distances; so are samples of the data that
    could not be read (`skipped`), and `accuracy_without_bad_samples` leaves these out. What lies within δ is decided
    here, from the distances, so that a run can be judged by another δ.
    """
    ordered = sorted(samples, key=lambda sample: sample.index)
    table = columns(ordered, delta=delta)
    known, sureness, splits = figures(table, bad=skipped), knows(ordered, table, seed=seed), _splits(ordered, table)
    unreadable = [sample.result.why_not for sample in ordered if sample.result.says == "wrong_format"]
    return GroundingSummary(
        study="grounding",
        coverage=Coverage.of(ordered, {"bad_sample": skipped} if skipped else None),
        headline=_headline(known, table, delta, skipped),
        notes=[
            *_about_misses(table, known),
            *_about_bad_samples(known, skipped),
            *_about_delta(table, delta),
            *_about_places(table),
            *_about_screens(table, splits),
            *_about_samples(ordered),
            *_about_confidence(table, sureness),
        ],
        delta=delta,
        accuracy=known.accuracy.value,
        accuracy_without_bad_samples=known.accuracy_without_bad_samples.value,
        accuracy_of_answered=known.accuracy_of_answered.value,
        mean_l2=known.mean_l2.value,
        median_l2=known.median_l2.value,
        point_in_target=known.point_in_target.value,
        point_in_target_without_bad_samples=known.point_in_target_without_bad_samples.value,
        hit_rate=known.hit_rate.value,
        hit_rate_without_bad_samples=known.hit_rate_without_bad_samples.value,
        wrong_format_share=known.wrong_format.value,
        total_count=len(table) + skipped,
        bad_sample_count=skipped,
        **_counts(table),
        why_not=dict(sorted(Counter(reason or "not_said" for reason in unreadable).items())),
        figures=known,
        splits=splits,
        knows=sureness,
    )


def judge_group(samples: Samples, *, delta: float, skipped: int = 0) -> GroupFigures:
    """The figures of some of the samples. Bad samples of the data (`skipped`) have no user and no other label that is
    known, so that only a whole run has them."""
    ordered = sorted(samples, key=lambda sample: sample.index)
    return _group(columns(ordered, delta=delta), bad=skipped)


def _counts(table: Columns) -> dict[str, int]:
    return {
        "image_count": table.images,
        "answered_count": int(table.answered.sum()),
        "failed_count": int((~table.answered).sum()),
        "clicked_count": int(table.clicked.sum()),
        "refused_count": int(table.refused.sum()),
        "wrong_format_count": int(table.unreadable.sum()),
        "placed_count": int(table.placed.sum()),
        "region_count": int(table.region.sum()),
        "nothing_to_click_count": int((~table.placed).sum()),
        "distance_count": int(table.measured.sum()),
        "off_screen_count": int(table.off_screen.sum()),
        "cut_off_count": int(table.cut_off.sum()),
    }


# -- the figures that matter ----------------------------------------------------------------------------------------


_MEANINGS = {
    "accuracy": "clicks at most so many thousandths of the screen from the target's middle",
    "point_in_target": "clicks inside of what was to be clicked",
    "mean_l2": "from the target's middle, in thousandths of the screen",
    "median_l2": "half of the clicks are nearer than this",
    "refused_rightly": "screens with nothing to click on which it did not click",
    "wrong_format": "answers in which no place could be read; these are misses without a distance",
}


def _headline(known: Figures, table: Columns, delta: float, bad: int) -> list[Figure]:
    """What the data can be judged by: a region before a distance, and refusals and wrong forms where there are any."""
    within = ("accuracy", f"accuracy within {delta:g}", "share")
    wanted = [("point_in_target", "point in target", "share")] if table.region.any() else []
    if table.placed.any():
        wanted += [within, ("mean_l2", "mean L2", UNIT), ("median_l2", "median L2", UNIT)]
    if not table.placed.all():
        wanted += [("refused_rightly", "refused rightly", "share")]
    if table.unreadable.any():
        wanted += [("wrong_format", "in wrong format", "share")]
    return [
        Figure(
            name,
            known[key].value,
            unit,
            **known[key].bounds,
            note=_note(key, known, table, bad),
            meaning=_MEANINGS[key],
        )
        for key, name, unit in wanted or [within]
    ]


def _note(name: str, known: Figures, table: Columns, bad: int) -> str | None:
    """What a figure counts as a miss or leaves out, and why it has no interval."""
    figure: Share = known[name]
    if figure.value is None:
        return None
    parts = []
    rows = {
        "accuracy": table.placed,
        "point_in_target": table.region,
        "mean_l2": table.measured,
        "median_l2": table.measured,
        "refused_rightly": ~table.placed,
        "wrong_format": table.answered,
    }[name]
    counted_bad = bad if name in COUNT_BAD else 0
    lost = {"failed": int((rows & ~table.answered).sum()), "bad": counted_bad}
    elsewhere = figure.of < len(table) + bad
    if elsewhere and name not in ("mean_l2", "median_l2"):
        parts.append(f"{figure.count} of {figure.of}")
    if any(lost.values()):
        parts.append(f"{' and '.join(f'{count} {what}' for what, count in lost.items() if count)} counted as misses")
    if counted_bad:
        parts.append(f"{known[name + WITHOUT_BAD].value:.1%} without the bad")
    if name in ("mean_l2", "median_l2") and figure.count < figure.of:
        parts.append(f"over the {figure.count} of {figure.of} with a click")
    if figure.low is None:
        screens = len(np.unique(table.image[rows])) + counted_bad
        parts.append(too_few(screens, "screens") or "no interval: all are alike")
    return "; ".join(parts) or None


# -- splits ---------------------------------------------------------------------------------------------------------


def _splits(ordered: Samples, table: Columns) -> Splits:
    return {
        kind: [_group(table.rows(rows), value) for value, rows in groups.items()]
        for kind, groups in rows_by_label(ordered).items()
    }


def rows_by_label(samples: Samples) -> dict[str, dict[str | None, NDArray[np.intp]]]:
    """For each kind of label that the data has, the rows of each value, users by their number and others in the order
    of the data. An item with several counts in each, one with none under None."""
    rows: dict[str, dict[str | None, NDArray[np.intp]]] = {}
    for kind in LABELS:
        members: dict[str | None, list[int]] = {}
        for row, sample in enumerate(samples):
            for value in dict.fromkeys(sample.result.labels[kind]) or [None]:
                members.setdefault(value, []).append(row)
        if not set(members) <= {None}:
            order = sorted(members, key=_by_number) if kind == "user" else members
            rows[kind] = {value: np.array(members[value], dtype=np.intp) for value in order}
    return rows


def _by_number(value: str | None) -> tuple[bool, bool, int, str]:
    """2 before 10, other names behind the numbers, and what has none last."""
    text = value or ""
    number = text.isascii() and text.isdigit() and len(text) <= 18
    return value is None, not number, int(text) if number else 0, text


def _group(table: Columns, value: str | UnsetType | None = UNSET, *, bad: int = 0) -> GroupFigures:
    known = figures(table, bad=bad)
    accuracy, inside = known.accuracy, known.point_in_target
    return GroupFigures(
        value=value,
        count=len(table),
        accuracy=accuracy.value,
        low=accuracy.low,
        high=accuracy.high,
        approximate=accuracy.approximate,
        mean_l2=known.mean_l2.value,
        median_l2=known.median_l2.value,
        point_in_target=inside.value,
        point_in_target_low=inside.low,
        point_in_target_high=inside.high,
        point_in_target_approximate=inside.approximate,
        hit_rate=known.hit_rate.value,
        **_counts(table),
    )


# -- does it know? --------------------------------------------------------------------------------------------------


def knows(samples: Samples, table: Columns, *, seed: int) -> dict[str, Knows]:
    """For each kind of confidence, over the answers that have it: does it tell hits from misses, can it be believed?

    An answer that cannot be read has no coordinates to be sure of, so it is missing here, with its reason, although it
    is a miss. Intervals are over screens.
    """
    return {kind: _knows(kind, samples, table, seed) for kind in kinds_of(samples)}


def _knows(kind: str, samples: Samples, table: Columns, seed: int) -> Knows:
    values, missing = confidences(samples, kind)
    known = ~np.isnan(values)
    sure, hit, image = values[known], table.hit[known], table.image[known]
    count = len(sure)
    ranking = selective(-sure if kind in DISTANCES else sure, hit, clusters=image)
    area = None
    if ranking is not None and ranking.auroc is not None:
        area = Area(value=ranking.auroc, **{name: ranking[f"auroc_{name}"] for name in BOUNDS})
    return Knows(
        answers=count,
        hits=int(hit.sum()),
        missing=dict(sorted(Counter(missing).items())),
        mean=mean_of(sure),
        most_common_share=float(np.unique(sure, return_counts=True)[1].max()) / count if count else None,
        auroc=area,
        selective=ranking,
        calibration=calibration(sure, table.near[known], seed=seed, clusters=image) if kind in CALIBRATED else None,
    )


# -- what a reader must know ----------------------------------------------------------------------------------------


def _about_misses(table: Columns, known: Figures) -> Iterator[str]:
    placed = table.placed
    without = {
        "in a wrong format": int((table.unreadable & placed).sum()),
        "refused": int((table.refused & placed).sum()),
        "failed": int((~table.answered & placed).sum()),
    }
    if any(without.values()):
        parts = ", ".join(f"{count} {what}" for what, count in without.items() if count)
        yield (
            f"accuracy counts what has no click as a miss ({parts} of {int(placed.sum())}); mean and median L2 leave "
            f"these {sum(without.values())} out"
        )
    of_answered = known.accuracy_of_answered.value
    if without["failed"] and of_answered is not None:
        yield f"of the {known.accuracy_of_answered.of} that were answered, {of_answered:.1%} are within δ"
    if placed.any() and not placed.all():
        yield (
            f"{int((~placed).sum())} of {len(table)} samples have nothing to click: they are no part of accuracy, and "
            "hit_rate counts a refusal there as a hit"
        )


def _about_bad_samples(known: Figures, bad: int) -> Iterator[str]:
    """Which share a sample belongs to that could not be read is not known, so that each counts all of them."""
    if not bad:
        return
    without = {name: known[f"{name}{WITHOUT_BAD}"].value for name in COUNT_BAD}
    parts = [f"{name.replace('_', ' ')} {value:.1%}" for name, value in without.items() if value is not None]
    yield (
        f"{bad} bad samples of the data could not be read, and count as misses; without them: {', '.join(parts)}. No "
        "other figure and no group has them"
    )


def _about_delta(table: Columns, delta: float) -> Iterator[str]:
    region = table.region
    if not region.any():
        return
    near, inside = float(table.within[region].mean()), float(table.inside[region].mean())
    if near - inside > WIDE_NET:
        yield (
            f"δ = {delta:g} is a wide net, {delta / 10:g} % of the screen's width and height on every side: {near:.1%} "
            f"of the samples are within it, and {inside:.1%} inside the target"
        )


def _about_places(table: Columns) -> Iterator[str]:
    off = int(table.off_screen.sum())
    if off:
        yield (
            f"{off} of {int(table.clicked.sum())} clicks lie outside the screen; where many do, the model may write in "
            "another --frame"
        )
    cut = int((table.cut_off & table.unreadable).sum())
    if cut:
        yield f"{cut} of {int(table.unreadable.sum())} answers in a wrong format ended at --max-new-tokens"


def _about_screens(table: Columns, splits: Splits) -> Iterator[str]:
    if table.images < len(table):
        screens = "1 screen" if table.images == 1 else f"{table.images} screens"
        yield f"intervals are over screens: these {len(table)} samples are on {screens}"
    if table.images < LEAST_UNITS:  # the headline says it of all figures
        return
    few = {kind: sum(row.image_count < LEAST_UNITS for row in rows) for kind, rows in splits.items()}
    parts = [f"{count} of {len(splits[kind])} by {kind}" for kind, count in few.items() if count]
    if parts:
        yield f"no interval for groups on fewer than {LEAST_UNITS} screens: {', '.join(parts)}"


def _about_samples(samples: Samples) -> Iterator[str]:
    drawn = [sample.result.samples for sample in samples if sample.result.samples is not None]
    failed, asked = sum(one.failed for one in drawn), sum(one.asked for one in drawn)
    if failed:
        left_out = f"{failed} of {asked} drawn answers failed, and are left out of agreement and spread"
        yield f"{left_out}; --retry-failed asks again"


def _about_confidence(table: Columns, sureness: dict[str, Knows]) -> Iterator[str]:
    alike = [
        kind
        for kind, one in sureness.items()
        if one.answers > 1 and one.most_common_share is not None and one.most_common_share >= NEARLY_ALL
    ]
    if alike:
        yield f"{NEARLY_ALL:.0%} or more of the confidences are one number by {_named(alike)}: their AUROC means little"
    others = {kind: one for kind, one in sureness.items() if one.answers and kind not in alike}
    for what in ("hits", "misses"):
        one_sided = [kind for kind, one in others.items() if one.hits == (one.answers if what == "hits" else 0)]
        if one_sided:
            yield f"whether it knows cannot be told by {_named(one_sided)}: all answers that have it are {what}"
    short = [kind for kind, one in sureness.items() if one.auroc is not None and one.auroc.low is None]
    if short and table.images >= LEAST_UNITS:
        least = f"{LEAST_OF_A_CLASS} screens with hits and {LEAST_OF_A_CLASS} with misses"
        yield f"no interval for the AUROC of {_named(short)}: it takes {least}"
    calibrated = [one.calibration for one in sureness.values() if one.calibration is not None]
    yield from [one.smooth_ece_missing for one in calibrated if one.smooth_ece_missing][:1]


def _named(kinds: Sequence[str]) -> str:
    return ", ".join(kind.replace("_", " ") for kind in kinds)
