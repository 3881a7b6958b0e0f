"""Should it be so sure? Confidence set against right and wrong, over the answers of which both are known."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howsure.errors import MissingExtra
from howsure.measures import (
    Interval,
    auarc_interval,
    auroc,
    auroc_interval,
    brier_score,
    calibration_floor,
    e_aurc,
    expected_calibration_error,
    log_loss,
    overconfidence_interval,
    reliability_bins,
    risk_coverage,
    share_interval,
    smooth_ece,
)
from howsure.measures.calibration import Scheme

BINS = 15
LEVEL = 0.95
"""Of every interval that is printed."""
COVERAGES = (0.5, 0.8, 1.0)
MOST_CURVE_POINTS = 100

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def share(happened: Bools, labels: ArrayLike | None, *, level: float = LEVEL) -> dict[str, Any]:
    """How often, of how many, with an interval; what has one label hangs together, None that nothing does."""
    count, total = int(happened.sum()), len(happened)
    interval = share_interval(happened, clusters=labels, level=level)
    return {"value": count / total if total else None, "count": count, "of": total, **ends(interval)}


def ends(interval: Interval | None) -> dict[str, Any]:
    """An interval as data, under the names that a headline figure has for it."""
    if interval is None:
        return dict.fromkeys(("low", "high", "level", "method", "approximate"))
    return asdict(interval)


def calibration(
    confidence: Floats, correct: Bools, *, seed: int, clusters: ArrayLike | None = None, level: float = LEVEL
) -> dict[str, Any] | None:
    """Of the answers given with confidence c, is a share c right? None for no answers.

    Only for what claims to be a probability of being right. Answers that hang together, such as the steps of an
    episode, have one label in `clusters`. Beside each ECE stands the floor: what it would be were every confidence
    exactly right.
    """
    if not len(confidence):
        return None
    interval = overconfidence_interval(confidence, correct, clusters=clusters, level=level)
    smooth, smooth_missing = _smooth(confidence, correct)
    return {
        "answers": len(confidence),
        "mean_confidence": float(confidence.mean()),
        "overconfidence": float((confidence - correct).mean()),
        **{f"overconfidence_{name}": value for name, value in ends(interval).items()},
        "bins": BINS,
        "ece_equal_width": expected_calibration_error(confidence, correct, BINS, "width"),
        "ece_equal_width_floor": _floor(confidence, correct, "width", clusters, seed),
        "ece_equal_mass": expected_calibration_error(confidence, correct, BINS, "mass"),
        "ece_equal_mass_floor": _floor(confidence, correct, "mass", clusters, seed),
        "smooth_ece": smooth,
        "smooth_ece_missing": smooth_missing,
        "brier": brier_score(confidence, correct),
        "log_loss_nats": log_loss(confidence, correct),
        "reliability_bins": _reliability(confidence, correct),
    }


def _floor(
    confidence: Floats, correct: Bools, scheme: Scheme, clusters: ArrayLike | None, seed: int
) -> dict[str, float] | None:
    found = calibration_floor(confidence, correct, BINS, scheme, clusters=clusters, seed=seed)
    return None if found is None else asdict(found)


def selective(
    confidence: Floats, correct: Bools, *, clusters: ArrayLike | None = None, level: float = LEVEL
) -> dict[str, Any] | None:
    """Does confidence tell right from wrong, and what is gained by leaving out the unsure? None for no answers.

    Only the order of the confidences counts. `auroc` is None where all answers are alike.
    """
    curve = risk_coverage(confidence, correct=correct)
    if curve is None:
        return None
    kept = _thinned(len(confidence))
    area = auroc(confidence, correct)
    of_area = None if area is None else auroc_interval(confidence, correct, clusters=clusters, level=level)
    return {
        "answers": len(confidence),
        "auroc": area,
        **{f"auroc_{name}": value for name, value in ends(of_area).items()},
        "aurc": float(curve.risk.mean()),
        **{f"aurc_{name}": value for name, value in ends(_aurc(confidence, correct, clusters, level)).items()},
        "e_aurc": e_aurc(confidence, correct=correct),
        "accuracy_at_coverage": [_accuracy_at(coverage, curve.risk) for coverage in COVERAGES],
        "risk_coverage": {"coverage": curve.coverage[kept].tolist(), "risk": curve.risk[kept].tolist()},
    }


def _aurc(confidence: Floats, correct: Bools, clusters: ArrayLike | None, level: float) -> Interval | None:
    kept = auarc_interval(confidence, correct, clusters=clusters, level=level)
    return None if kept is None else replace(kept, low=1.0 - kept.high, high=1.0 - kept.low)


def _smooth(confidence: Floats, correct: Bools) -> tuple[float | None, str | None]:
    try:
        return smooth_ece(confidence, correct), None
    except MissingExtra as missing:
        return None, str(missing)


def _reliability(confidence: Floats, correct: Bools) -> list[dict[str, Any]]:
    found = reliability_bins(confidence, correct, BINS)
    if found is None:
        return []
    rows = zip(found.index, found.mean_confidence, found.accuracy, found.count, strict=True)
    return [
        {
            "low": int(index) / BINS,
            "high": (int(index) + 1) / BINS,
            "mean_confidence": float(mean),
            "accuracy": float(share),
            "count": int(count),
        }
        for index, mean, share, count in rows
    ]


def _accuracy_at(coverage: float, risk: Floats) -> dict[str, Any]:
    kept = math.ceil(coverage * len(risk))
    return {"coverage": coverage, "kept": kept, "accuracy": 1.0 - float(risk[kept - 1])}


def _thinned(points: int) -> NDArray[np.intp]:
    """Places along a curve, its two ends among them, for drawing."""
    return np.unique(np.linspace(0, points - 1, min(points, MOST_CURVE_POINTS)).round().astype(np.intp))
