"""Should it be so sure? Confidence set against right and wrong, over the answers of which both are known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howsure.errors import MissingExtra
from howsure.measures import (
    Interval,
    auroc,
    bootstrap_mean,
    brier_score,
    e_aurc,
    expected_calibration_error,
    log_loss,
    reliability_bins,
    risk_coverage,
    smooth_ece,
    wilson_interval,
)

BINS = 15
COVERAGES = (0.5, 0.8, 1.0)
MOST_CURVE_POINTS = 100

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def share(happened: Bools, labels: NDArray[Any] | None, *, level: float, seed: int) -> dict[str, Any]:
    """How often, of how many, with an interval; `labels` tell what hangs together, None that nothing does.

    Wilson's where nothing does. Otherwise what has one label is drawn together; and where it happened always or never,
    so that every draw would be like every other, which is no certainty, Wilson's of that many labels.
    """
    count, total = int(happened.sum()), len(happened)
    interval = _share_interval(happened, labels, level, seed)
    return {"value": count / total if total else None, "count": count, "of": total, **ends(interval)}


def _share_interval(happened: Bools, labels: NDArray[Any] | None, level: float, seed: int) -> Interval | None:
    if labels is None:
        return wilson_interval(int(happened.sum()), len(happened), level)
    if happened.all() or not happened.any():
        units = len(np.unique(labels))
        return wilson_interval(units if happened.all() else 0, units, level)
    return bootstrap_mean(happened.astype(np.float64), clusters=labels, level=level, seed=seed)


def ends(interval: Interval | None) -> dict[str, Any]:
    """An interval as data, under the names that a headline figure has for it."""
    if interval is None:
        return {"low": None, "high": None, "level": None, "method": None}
    return {"low": interval.low, "high": interval.high, "level": interval.level, "method": interval.method}


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
