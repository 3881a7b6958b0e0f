"""Does it know? Each kind of confidence that a run has, set against hit and miss."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from howsure.measures import auroc, bootstrap_auroc
from howsure.runs import Sample
from howsure.studies.grounding.judging.columns import Bools, Columns, Floats, confidences, kinds_of
from howsure.studies.grounding.judging.figures import LEVEL, Codes, clusters
from howsure.studies.sureness import calibration, ends, selective

DISTANCES = ("spread",)
"""Kinds that are no probability: ranked with their sign turned, and never calibrated."""


def knows(samples: Sequence[Sample], table: Columns, *, seed: int) -> dict[str, dict[str, Any]]:
    """For each kind of confidence, over the answers that have it: does it tell hits from misses, can it be believed?

    An answer that cannot be read has no coordinates to be sure of, so it is missing here, with its reason, although it
    is a miss.
    """
    return {kind: _one(kind, samples, table, seed) for kind in kinds_of(samples)}


def _one(kind: str, samples: Sequence[Sample], table: Columns, seed: int) -> dict[str, Any]:
    values, missing = confidences(samples, kind)
    known = ~np.isnan(values)
    sure, hit, image = values[known], table.hit[known], table.image[known]
    labels = clusters(image)
    ranked = -sure if kind in DISTANCES else sure
    probability = kind not in DISTANCES
    return {
        "answers": len(sure),
        "hits": int(hit.sum()),
        "missing": dict(sorted(Counter(missing).items())),
        "mean": float(sure.mean()) if len(sure) else None,
        "most_common_share": _most_common_share(sure),
        "auroc": _auroc(ranked, hit, labels, seed),
        "selective": selective(ranked, hit),
        "calibration": calibration(sure, hit, level=LEVEL, seed=seed, clusters=labels) if probability else None,
    }


def _most_common_share(values: Floats) -> float | None:
    """How many of the confidences are the same number: all of them, and no order is left to be judged."""
    if not len(values):
        return None
    return float(np.unique(values, return_counts=True)[1].max()) / len(values)


def _auroc(ranked: Floats, hit: Bools, labels: Codes | None, seed: int) -> dict[str, Any] | None:
    """With an interval over screens; None unless there are hits and misses."""
    value = auroc(ranked, hit)
    if value is None:
        return None
    return {"value": value, **ends(bootstrap_auroc(ranked, hit, clusters=labels, level=LEVEL, seed=seed))}
