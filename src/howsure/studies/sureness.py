"""Should it be so sure? Confidence set against right and wrong, over the answers of which both are known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howsure.errors import MissingExtra
from howsure.measures import (
    auroc,
    bootstrap_mean,
    brier_score,
    e_aurc,
    expected_calibration_error,
    log_loss,
    reliability_bins,
    risk_coverage,
    smooth_ece,
)

BINS = 15
COVERAGES = (0.5, 0.8, 1.0)
MOST_CURVE_POINTS = 100

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def calibration(
    confidence: Floats, correct: Bools, *, level: float, seed: int, clusters: ArrayLike | None = None
) -> dict[str, Any] | None:
    """Of the answers given with confidence c, is a share c right? None for no answers.

    Answers that hang together, such as the steps of an episode, are drawn together where `clusters` labels them.
    """
    if not len(confidence):
        return None
    surplus = confidence - correct
    interval = bootstrap_mean(surplus, clusters=clusters, level=level, seed=seed)
    smooth, smooth_missing = _smooth(confidence, correct)
    return {
        "answers": len(confidence),
        "mean_confidence": float(confidence.mean()),
        "overconfidence": float(surplus.mean()),
        "overconfidence_low": None if interval is None else interval.low,
        "overconfidence_high": None if interval is None else interval.high,
        "bins": BINS,
        "ece_equal_width": expected_calibration_error(confidence, correct, BINS, "width"),
        "ece_equal_mass": expected_calibration_error(confidence, correct, BINS, "mass"),
        "smooth_ece": smooth,
        "smooth_ece_missing": smooth_missing,
        "brier": brier_score(confidence, correct),
        "log_loss_nats": log_loss(confidence, correct),
        "reliability_bins": _reliability(confidence, correct),
    }


def selective(confidence: Floats, correct: Bools) -> dict[str, Any] | None:
    """Does confidence tell right from wrong, and what is gained by leaving out the unsure? None for no answers."""
    curve = risk_coverage(confidence, correct=correct)
    if curve is None:
        return None
    kept = _thinned(len(confidence))
    return {
        "answers": len(confidence),
        "auroc": auroc(confidence, correct),
        "aurc": float(curve.risk.mean()),
        "e_aurc": e_aurc(confidence, correct=correct),
        "accuracy_at_coverage": [_accuracy_at(coverage, curve.risk) for coverage in COVERAGES],
        "risk_coverage": {"coverage": curve.coverage[kept].tolist(), "risk": curve.risk[kept].tolist()},
    }


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
