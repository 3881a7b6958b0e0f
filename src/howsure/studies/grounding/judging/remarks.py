"""What a reader of the figures must know about how they came about; most runs need few of these sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from howsure.measures.intervals import LEAST_UNITS
from howsure.measures.ranking import LEAST_OF_A_CLASS
from howsure.runs import Sample
from howsure.studies.grounding.judging.columns import Columns
from howsure.studies.grounding.judging.figures import COUNT_BAD, WITHOUT_BAD

WIDE_NET = 0.2
"""How far accuracy within δ may lie above point in target before δ says little about hitting it."""

NEARLY_ALL = 0.95
"""A share of equal confidences above which their order says next to nothing."""


def remarks(
    samples: Sequence[Sample],
    table: Columns,
    figures: dict[str, dict[str, Any]],
    knows: dict[str, dict[str, Any]],
    splits: dict[str, list[dict[str, Any]]],
    *,
    delta: float,
    bad: int,
) -> list[str]:
    return [
        *_about_misses(table, figures),
        *_about_bad_samples(figures, bad),
        *_about_delta(table, delta),
        *_about_places(table),
        *_about_screens(table, splits),
        *_about_samples(samples),
        *_about_confidence(table, knows),
    ]


def _about_misses(table: Columns, figures: dict[str, dict[str, Any]]) -> Iterator[str]:
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
    of_answered = figures["accuracy_of_answered"]["value"]
    if without["failed"] and of_answered is not None:
        yield f"of the {figures['accuracy_of_answered']['of']} that were answered, {of_answered:.1%} are within δ"
    if placed.any() and not placed.all():
        yield (
            f"{int((~placed).sum())} of {len(table)} samples have nothing to click: they are no part of accuracy, and "
            "hit_rate counts a refusal there as a hit"
        )


def _about_bad_samples(figures: dict[str, dict[str, Any]], bad: int) -> Iterator[str]:
    """Which share a sample belongs to that could not be read is not known, so that each counts all of them."""
    if not bad:
        return
    without = {name: figures[f"{name}{WITHOUT_BAD}"]["value"] for name in COUNT_BAD}
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


def _about_screens(table: Columns, splits: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    if table.images < len(table):
        screens = "1 screen" if table.images == 1 else f"{table.images} screens"
        yield f"intervals are over screens: these {len(table)} samples are on {screens}"
    if table.images < LEAST_UNITS:  # the headline says it of all figures
        return
    few = {kind: sum(row["image_count"] < LEAST_UNITS for row in rows) for kind, rows in splits.items()}
    parts = [f"{count} of {len(splits[kind])} by {kind}" for kind, count in few.items() if count]
    if parts:
        yield f"no interval for groups on fewer than {LEAST_UNITS} screens: {', '.join(parts)}"


def _about_samples(samples: Sequence[Sample]) -> Iterator[str]:
    drawn = [sample.result["samples"] for sample in samples if "samples" in sample.result]
    failed, asked = (sum(one[name] for one in drawn) for name in ("failed", "asked"))
    if failed:
        left_out = f"{failed} of {asked} drawn answers failed, and are left out of agreement and spread"
        yield f"{left_out}; --retry-failed asks again"


def _about_confidence(table: Columns, knows: dict[str, dict[str, Any]]) -> Iterator[str]:
    alike = [kind for kind, found in knows.items() if found["answers"] > 1 and _hardly_differ(found)]
    if alike:
        yield f"{NEARLY_ALL:.0%} or more of the confidences are one number by {_named(alike)}: their AUROC means little"
    for what in ("hits", "misses"):
        one_sided = [kind for kind, found in knows.items() if kind not in alike and _only(found) == what]
        if one_sided:
            yield f"whether it knows cannot be told by {_named(one_sided)}: all answers that have it are {what}"
    short = [kind for kind, found in knows.items() if found["auroc"] is not None and found["auroc"]["low"] is None]
    if short and table.images >= LEAST_UNITS:
        least = f"{LEAST_OF_A_CLASS} screens with hits and {LEAST_OF_A_CLASS} with misses"
        yield f"no interval for the AUROC of {_named(short)}: it takes {least}"
    for found in knows.values():
        if found["calibration"] is not None and found["calibration"]["smooth_ece_missing"]:
            yield found["calibration"]["smooth_ece_missing"]
            return


def _hardly_differ(found: dict[str, Any]) -> bool:
    return found["most_common_share"] is not None and found["most_common_share"] >= NEARLY_ALL


def _only(found: dict[str, Any]) -> str | None:
    """`hits` or `misses` where there is nothing else to be told apart."""
    if not found["answers"] or 0 < found["hits"] < found["answers"]:
        return None
    return "hits" if found["hits"] else "misses"


def _named(kinds: Sequence[str]) -> str:
    return ", ".join(kind.replace("_", " ") for kind in kinds)
