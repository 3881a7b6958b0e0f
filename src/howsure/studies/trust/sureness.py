"""Should it be sure? The executed actions against the shortest path, and their probability against that."""

from __future__ import annotations

from typing import Any

import numpy as np

from howsure.measures import auroc, rank_failures
from howsure.studies.sureness import calibration, ends, selective, share
from howsure.studies.trust.steps import Steps, Units, units

MOST_RANKED = 20_000
"""Actions up to which the AUROC gets an interval; each of its resamples ranks all of them."""


def sureness(table: Steps, *, seed: int, level: float = 0.95) -> dict[str, Any] | None:
    """How often the action lay on a shortest path, and whether its probability told so; None where no action is judged.

    Agreement is over all actions that are judged, calibration over those whose probability is known too. Intervals draw
    whole episodes where there are two or more, and otherwise the steps that are different.
    """
    sure, right = table.action_probability, table.on_shortest_path
    judged = ~np.isnan(right)
    if not judged.any():
        return None
    known = judged & ~np.isnan(sure)
    return {
        "actions": int(judged.sum()),
        "not_judged": int((~judged).sum()),
        "without_probability": int((judged & np.isnan(sure)).sum()),
        "agreement": share(right[judged] == 1, _drawn(table, judged).labels, level=level, seed=seed),
        **_believed(sure[known], right[known] == 1, _drawn(table, known), level, seed),
    }


def _drawn(table: Steps, rows: Any) -> Units:
    return units(table.original[rows], table.first_asked[rows])


def _believed(sure: Any, right: Any, drawn: Units, level: float, seed: int) -> dict[str, Any]:
    return {
        "calibration": calibration(sure, right, level=level, seed=seed, clusters=drawn.labels),
        "selective": selective(sure, right),
        "auroc": _auroc(sure, right, drawn.labels, level, seed),
    }


def _auroc(sure: Any, right: Any, labels: Any, level: float, seed: int) -> dict[str, Any] | None:
    """That of the selective judgement, with its doubt; None unless there are actions on and off the path."""
    if not 0 < right.sum() < len(right):
        return None
    if len(sure) > MOST_RANKED:
        return {"value": auroc(sure, right), **ends(None)}
    area = rank_failures(-sure, ~right, clusters=labels, level=level, seed=seed).auroc
    return {"value": area.value, **ends(area.interval)}
