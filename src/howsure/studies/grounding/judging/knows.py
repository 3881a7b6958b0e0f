"""Does it know? Each kind of confidence that a run has, set against hit and miss."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from howsure.runs import Sample
from howsure.studies.grounding.judging.columns import Columns, Floats, confidences, kinds_of
from howsure.studies.sureness import calibration, selective

DISTANCES = ("spread",)
"""Kinds that are no probability: ranked with their sign turned."""

CALIBRATED = ("agreement",)
"""Kinds that claim to be a probability of being right, and so are calibrated.

`agreement` is the model's own probability, estimated from what it draws, of answering within δ of where it did, and is
set against clicks within δ. The probabilities of coordinate tokens are those of exact digits, while every neighbouring
pixel hits as well; `match` is a score that ocr is built to rank by; `spread` is a distance.
"""


def knows(samples: Sequence[Sample], table: Columns, *, seed: int) -> dict[str, dict[str, Any]]:
    """For each kind of confidence, over the answers that have it: does it tell hits from misses, can it be believed?

    An answer that cannot be read has no coordinates to be sure of, so it is missing here, with its reason, although it
    is a miss. Intervals are over screens.
    """
    return {kind: _one(kind, samples, table, seed) for kind in kinds_of(samples)}


def _one(kind: str, samples: Sequence[Sample], table: Columns, seed: int) -> dict[str, Any]:
    values, missing = confidences(samples, kind)
    known = ~np.isnan(values)
    sure, hit, image = values[known], table.hit[known], table.image[known]
    ranking = selective(-sure if kind in DISTANCES else sure, hit, clusters=image)
    calibrated = calibration(sure, table.near[known], seed=seed, clusters=image) if kind in CALIBRATED else None
    return {
        "answers": len(sure),
        "hits": int(hit.sum()),
        "missing": dict(sorted(Counter(missing).items())),
        "mean": float(sure.mean()) if len(sure) else None,
        "most_common_share": _most_common_share(sure),
        "auroc": _auroc(ranking),
        "selective": ranking,
        "calibration": calibrated,
    }


def _most_common_share(values: Floats) -> float | None:
    """How many of the confidences are the same number: all of them, and no order is left to be judged."""
    if not len(values):
        return None
    return float(np.unique(values, return_counts=True)[1].max()) / len(values)


def _auroc(ranking: dict[str, Any] | None) -> dict[str, Any] | None:
    """None unless there are hits and misses."""
    if ranking is None or ranking["auroc"] is None:
        return None
    ends = ("low", "high", "level", "method", "approximate")
    return {"value": ranking["auroc"], **{name: ranking[f"auroc_{name}"] for name in ends}}
