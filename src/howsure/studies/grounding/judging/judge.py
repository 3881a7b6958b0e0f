"""Judging: how often the click is right, how far off it is, and whether the model knows.

Distances are in the 0–1000 frame. Items on the same screen hang together, so intervals draw whole screens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from howsure.runs import Sample
from howsure.studies.grounding.items import LABELS
from howsure.studies.grounding.judging.columns import Columns, columns
from howsure.studies.grounding.judging.figures import figures, mean_of, median_of, ratio, share
from howsure.studies.grounding.judging.knows import knows
from howsure.studies.grounding.judging.remarks import remarks
from howsure.studies.summary import Coverage, Figure, summary

UNIT = "of 1000"
"""Of a distance: thousandths of the screen, across and down."""

_SCALARS = ("accuracy", "accuracy_of_answered", "mean_l2", "median_l2", "point_in_target", "hit_rate")


def judge(samples: Sequence[Sample], *, delta: float, skipped: int = 0, seed: int = 0) -> dict[str, Any]:
    """The summary: a pure function of the samples, whatever order they come in.

    `accuracy` is the share within δ of all items that have something to click. An answer that cannot be read, a refusal
    and a failed call are misses, and are in neither mean nor median of the distances. What lies within δ is decided
    here, from the distances, so that a run can be judged by another δ. `figures` holds every figure with its interval
    and counts; the main ones stand beside it as plain numbers.
    """
    ordered = sorted(samples, key=lambda sample: sample.index)
    table = columns(ordered, delta=delta)
    found, sureness = figures(table, seed=seed), knows(ordered, table, seed=seed)
    return summary(
        "grounding",
        Coverage.of(ordered, {"bad_sample": skipped} if skipped else None),
        _headline(found, table, delta),
        remarks(ordered, table, found, sureness, delta=delta),
        delta=delta,
        **{name: found[name]["value"] for name in _SCALARS},
        wrong_format_share=found["wrong_format"]["value"],
        **_counts(table),
        why_not=_why_not(ordered),
        figures=found,
        splits=_splits(ordered, table, seed),
        knows=sureness,
    )


def judge_group(samples: Sequence[Sample], *, delta: float, seed: int = 0) -> dict[str, Any]:
    """The figures of some of the samples, such as those of one user: `accuracy`, `mean_l2`, `median_l2`, and ours.

    Each is None where there is nothing to compute it from; `low` and `high` are the ends of accuracy's interval.
    """
    ordered = sorted(samples, key=lambda sample: sample.index)
    return _group(columns(ordered, delta=delta), seed)


def _counts(table: Columns) -> dict[str, int]:
    return {
        "total_count": len(table),
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


def _why_not(ordered: Sequence[Sample]) -> dict[str, int]:
    """Why answers could not be read, by reason."""
    found = [sample.result.get("why_not") for sample in ordered if sample.result.get("says") == "wrong_format"]
    return dict(sorted(Counter(reason or "not_said" for reason in found).items()))


# -- the figures that matter ----------------------------------------------------------------------------------------


def _headline(found: dict[str, dict[str, Any]], table: Columns, delta: float) -> list[Figure]:
    """What the data can be judged by: a region before a distance, and refusals and wrong forms where there are any."""
    within = ("accuracy", f"accuracy within {delta:g}", "share")
    wanted = [("point_in_target", "point in target", "share")] if table.region.any() else []
    if table.placed.any():
        wanted += [within, ("mean_l2", "mean L2", UNIT), ("median_l2", "median L2", UNIT)]
    if not table.placed.all():
        wanted += [("refused_rightly", "refused rightly", "share")]
    if table.unreadable.any():
        wanted += [("wrong_format", "in wrong format", "share")]
    return [_figure(found[key], name, unit) for key, name, unit in wanted or [within]]


def _figure(found: dict[str, Any], name: str, unit: str) -> Figure:
    return Figure(name, found["value"], unit, found["low"], found["high"], found["level"], found["method"])


# -- splits ---------------------------------------------------------------------------------------------------------


def _splits(ordered: Sequence[Sample], table: Columns, seed: int) -> dict[str, list[dict[str, Any]]]:
    """For each kind of label that the data has, the figures of each value; an item with several counts in each."""
    found = {kind: _members([sample.result.get("labels", {}).get(kind, []) for sample in ordered]) for kind in LABELS}
    return {
        kind: [
            {"value": value, **_group(table.rows(np.array(members[value], dtype=np.intp)), seed)}
            for value in sorted(members, key=_ORDER.get(kind, _as_found))
        ]
        for kind, members in found.items()
        if not set(members) <= {None}
    }


def _members(labels: Sequence[Sequence[str]]) -> dict[str | None, list[int]]:
    """The rows of each value in the order that it is first met; those without one under None."""
    members: dict[str | None, list[int]] = {}
    for row, values in enumerate(labels):
        for value in dict.fromkeys(values) or [None]:
            members.setdefault(value, []).append(row)
    return members


def _as_found(value: str | None) -> int:
    """In the order of the data: sorting by a constant changes nothing."""
    return 0


def _by_number(value: str | None) -> tuple[bool, bool, int, str]:
    """2 before 10, other names behind the numbers, and what has none last."""
    text = value or ""
    number = text.isascii() and text.isdigit() and len(text) <= 18
    return value is None, not number, int(text) if number else 0, text


_ORDER: dict[str, Callable[[str | None], Any]] = {"user": _by_number}


def _group(table: Columns, seed: int) -> dict[str, Any]:
    placed, region = table.placed, table.region
    accuracy = share(table.within[placed], table.image[placed], seed=seed)
    inside = share(table.inside[region], table.image[region], seed=seed)
    return {
        "count": len(table),
        "accuracy": accuracy["value"],
        "low": accuracy["low"],
        "high": accuracy["high"],
        "mean_l2": mean_of(table.l2[table.measured]),
        "median_l2": median_of(table.l2[table.measured]),
        "point_in_target": inside["value"],
        "point_in_target_low": inside["low"],
        "point_in_target_high": inside["high"],
        "hit_rate": ratio(int(table.hit.sum()), len(table)),
        **{name: count for name, count in _counts(table).items() if name != "total_count"},
    }
