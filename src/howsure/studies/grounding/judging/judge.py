"""Judging: how often the click is right, how far off it is, and whether the model knows.

Distances are in the 0–1000 frame. Items on the same screen hang together, so intervals are over screens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from howsure.measures import too_few
from howsure.runs import Sample
from howsure.studies.grounding.items import LABELS
from howsure.studies.grounding.judging.columns import Columns, columns
from howsure.studies.grounding.judging.figures import COUNT_BAD, WITHOUT_BAD, figures
from howsure.studies.grounding.judging.knows import knows
from howsure.studies.grounding.judging.remarks import remarks
from howsure.studies.summary import Coverage, Figure, summary

UNIT = "of 1000"
"""Of a distance: thousandths of the screen, across and down."""

_SCALARS = (
    *("accuracy", "accuracy_without_bad_samples", "accuracy_of_answered"),
    *("mean_l2", "median_l2"),
    *("point_in_target", "point_in_target_without_bad_samples"),
    *("hit_rate", "hit_rate_without_bad_samples"),
)


def judge(samples: Sequence[Sample], *, delta: float, skipped: int = 0, seed: int = 0) -> dict[str, Any]:
    """The summary: a pure function of the samples, whatever order they come in.

    `accuracy` is the share within δ of all items that have something to click. An answer that cannot be read, a refusal
    and a failed call are misses, and are in neither mean nor median of the distances; so are samples of the data that
    could not be read (`skipped`), and `accuracy_without_bad_samples` leaves these out. What lies within δ is decided
    here, from the distances, so that a run can be judged by another δ. `figures` holds every figure with its interval
    and counts; the main ones stand beside it as plain numbers.
    """
    ordered = sorted(samples, key=lambda sample: sample.index)
    table = columns(ordered, delta=delta)
    found, sureness = figures(table, bad=skipped), knows(ordered, table, seed=seed)
    splits = _splits(ordered, table)
    return summary(
        "grounding",
        Coverage.of(ordered, {"bad_sample": skipped} if skipped else None),
        _headline(found, table, delta, skipped),
        remarks(ordered, table, found, sureness, splits, delta=delta, bad=skipped),
        delta=delta,
        **{name: found[name]["value"] for name in _SCALARS},
        wrong_format_share=found["wrong_format"]["value"],
        total_count=len(table) + skipped,
        bad_sample_count=skipped,
        **_counts(table),
        why_not=_why_not(ordered),
        figures=found,
        splits=splits,
        knows=sureness,
    )


def judge_group(samples: Sequence[Sample], *, delta: float, skipped: int = 0) -> dict[str, Any]:
    """The figures of some of the samples, such as those of one user: `accuracy`, `mean_l2`, `median_l2`, and ours.

    Each is None where there is nothing to compute it from; `low` and `high` are the ends of accuracy's interval. Bad
    samples of the data (`skipped`) have no user and no other label that is known, so that only a whole run has them.
    """
    ordered = sorted(samples, key=lambda sample: sample.index)
    return _group(columns(ordered, delta=delta), skipped)


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


def _why_not(ordered: Sequence[Sample]) -> dict[str, int]:
    """Why answers could not be read, by reason."""
    found = [sample.result.get("why_not") for sample in ordered if sample.result.get("says") == "wrong_format"]
    return dict(sorted(Counter(reason or "not_said" for reason in found).items()))


# -- the figures that matter ----------------------------------------------------------------------------------------


def _headline(found: dict[str, dict[str, Any]], table: Columns, delta: float, bad: int) -> list[Figure]:
    """What the data can be judged by: a region before a distance, and refusals and wrong forms where there are any."""
    within = ("accuracy", f"accuracy within {delta:g}", "share")
    wanted = [("point_in_target", "point in target", "share")] if table.region.any() else []
    if table.placed.any():
        wanted += [within, ("mean_l2", "mean L2", UNIT), ("median_l2", "median L2", UNIT)]
    if not table.placed.all():
        wanted += [("refused_rightly", "refused rightly", "share")]
    if table.unreadable.any():
        wanted += [("wrong_format", "in wrong format", "share")]
    ends = ("low", "high", "level", "method", "approximate")
    return [
        Figure(
            name,
            found[key]["value"],
            unit,
            **{end: found[key][end] for end in ends},
            note=_note(key, found, table, bad),
        )
        for key, name, unit in wanted or [within]
    ]


def _note(name: str, found: dict[str, dict[str, Any]], table: Columns, bad: int) -> str | None:
    """What a figure counts as a miss or leaves out, and why it has no interval."""
    figure, parts = found[name], []
    if figure["value"] is None:
        return None
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
    elsewhere = figure["of"] < len(table) + bad
    if elsewhere and name not in ("mean_l2", "median_l2"):
        parts.append(f"{figure['count']} of {figure['of']}")
    if any(lost.values()):
        parts.append(f"{' and '.join(f'{count} {what}' for what, count in lost.items() if count)} counted as misses")
    if counted_bad:
        parts.append(f"{found[name + WITHOUT_BAD]['value']:.1%} without the bad")
    if name in ("mean_l2", "median_l2") and figure["count"] < figure["of"]:
        parts.append(f"over the {figure['count']} of {figure['of']} with a click")
    if figure["low"] is None:
        screens = len(np.unique(table.image[rows])) + counted_bad
        parts.append(too_few(screens, "screens") or "no interval: all are alike")
    return "; ".join(parts) or None


# -- splits ---------------------------------------------------------------------------------------------------------


def _splits(ordered: Sequence[Sample], table: Columns) -> dict[str, list[dict[str, Any]]]:
    """For each kind of label that the data has, the figures of each value; an item with several counts in each."""
    found = {kind: _members([sample.result.get("labels", {}).get(kind, []) for sample in ordered]) for kind in LABELS}
    return {
        kind: [
            {"value": value, **_group(table.rows(np.array(members[value], dtype=np.intp)))}
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


def _group(table: Columns, bad: int = 0) -> dict[str, Any]:
    found = figures(table, bad=bad)
    accuracy, inside = found["accuracy"], found["point_in_target"]
    ends = ("low", "high", "approximate")
    return {
        "count": len(table),
        "accuracy": accuracy["value"],
        **{end: accuracy[end] for end in ends},
        "mean_l2": found["mean_l2"]["value"],
        "median_l2": found["median_l2"]["value"],
        "point_in_target": inside["value"],
        **{f"point_in_target_{end}": inside[end] for end in ends},
        "hit_rate": found["hit_rate"]["value"],
        **_counts(table),
    }
