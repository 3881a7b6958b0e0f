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
from howsure.types import Fields

BINS = 15
LEVEL = 0.95
"""Of every interval that is printed."""
BOUNDS = ("low", "high", "level", "method", "approximate")
COVERAGES = (0.5, 0.8, 1.0)
MOST_CURVE_POINTS = 100

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Share(Fields):
    """How often something happened, of how many."""

    value: float | None
    count: int
    of: int
    low: float | None = None
    high: float | None = None
    level: float | None = None
    method: str | None = None
    approximate: bool | None = None

    @property
    def bounds(self) -> dict[str, Any]:
        """The interval, under the names that every figure has for it."""
        return {name: getattr(self, name) for name in BOUNDS}


class Floor(Fields):
    """What an ECE would be were every confidence exactly right: its mean, and below what it stays 95 times in 100."""

    mean: float
    high: float


class ReliabilityBin(Fields):
    low: float
    high: float
    mean_confidence: float
    accuracy: float
    count: int


class Calibration(Fields, kw_only=True):
    """Of the answers given with confidence c, is a share c right?"""

    answers: int
    mean_confidence: float
    overconfidence: float
    overconfidence_low: float | None
    overconfidence_high: float | None
    overconfidence_level: float | None
    overconfidence_method: str | None
    overconfidence_approximate: bool | None
    bins: int
    ece_equal_width: float | None
    ece_equal_width_floor: Floor | None
    ece_equal_mass: float | None
    ece_equal_mass_floor: Floor | None
    smooth_ece: float | None
    smooth_ece_missing: str | None
    brier: float | None
    log_loss_nats: float | None
    reliability_bins: list[ReliabilityBin]


class AccuracyAtCoverage(Fields):
    coverage: float
    kept: int
    accuracy: float


class RiskCoverage(Fields):
    coverage: list[float]
    risk: list[float]


class Selective(Fields, kw_only=True):
    """Does confidence tell right from wrong, and what is gained by leaving out the unsure?"""

    answers: int
    auroc: float | None
    auroc_low: float | None
    auroc_high: float | None
    auroc_level: float | None
    auroc_method: str | None
    auroc_approximate: bool | None
    aurc: float
    aurc_low: float | None
    aurc_high: float | None
    aurc_level: float | None
    aurc_method: str | None
    aurc_approximate: bool | None
    e_aurc: float | None
    accuracy_at_coverage: list[AccuracyAtCoverage]
    risk_coverage: RiskCoverage


def share(happened: Bools, labels: ArrayLike | None, *, level: float = LEVEL) -> Share:
    """How often, of how many, with an interval; what has one label hangs together, None that nothing does."""
    count, total = int(happened.sum()), len(happened)
    interval = share_interval(happened, clusters=labels, level=level)
    return Share(count / total if total else None, count, total, **ends(interval))


def ends(interval: Interval | None) -> dict[str, Any]:
    """An interval as data, under the names that a headline figure has for it."""
    if interval is None:
        return dict.fromkeys(BOUNDS)
    return asdict(interval)


def calibration(
    confidence: Floats, correct: Bools, *, seed: int, clusters: ArrayLike | None = None, level: float = LEVEL
) -> Calibration | None:
    """Of the answers given with confidence c, is a share c right? None for no answers.

    Only for what claims to be a probability of being right. Answers that hang together, such as the steps of an
    episode, have one label in `clusters`. Beside each ECE stands the floor: what it would be were every confidence
    exactly right.
    """
    if not len(confidence):
        return None
    interval = overconfidence_interval(confidence, correct, clusters=clusters, level=level)
    smooth, smooth_missing = _smooth(confidence, correct)
    return Calibration(
        answers=len(confidence),
        mean_confidence=float(confidence.mean()),
        overconfidence=float((confidence - correct).mean()),
        **{f"overconfidence_{name}": value for name, value in ends(interval).items()},
        bins=BINS,
        ece_equal_width=expected_calibration_error(confidence, correct, BINS, "width"),
        ece_equal_width_floor=_floor(confidence, correct, "width", clusters, seed),
        ece_equal_mass=expected_calibration_error(confidence, correct, BINS, "mass"),
        ece_equal_mass_floor=_floor(confidence, correct, "mass", clusters, seed),
        smooth_ece=smooth,
        smooth_ece_missing=smooth_missing,
        brier=brier_score(confidence, correct),
        log_loss_nats=log_loss(confidence, correct),
        reliability_bins=_reliability(confidence, correct),
    )


def _floor(confidence: Floats, correct: Bools, scheme: Scheme, clusters: ArrayLike | None, seed: int) -> Floor | None:
    floor = calibration_floor(confidence, correct, BINS, scheme, clusters=clusters, seed=seed)
    return None if floor is None else Floor(floor.mean, floor.high)


def selective(
    confidence: Floats, correct: Bools, *, clusters: ArrayLike | None = None, level: float = LEVEL
) -> Selective | None:
    """Does confidence tell right from wrong, and what is gained by leaving out the unsure? None for no answers.

    Only the order of the confidences counts. `auroc` is None where all answers are alike.
    """
    curve = risk_coverage(confidence, correct=correct)
    if curve is None:
        return None
    kept = _thinned(len(confidence))
    area = auroc(confidence, correct)
    of_area = None if area is None else auroc_interval(confidence, correct, clusters=clusters, level=level)
    return Selective(
        answers=len(confidence),
        auroc=area,
        **{f"auroc_{name}": value for name, value in ends(of_area).items()},
        aurc=float(curve.risk.mean()),
        **{f"aurc_{name}": value for name, value in ends(_aurc(confidence, correct, clusters, level)).items()},
        e_aurc=e_aurc(confidence, correct=correct),
        accuracy_at_coverage=[_accuracy_at(coverage, curve.risk) for coverage in COVERAGES],
        risk_coverage=RiskCoverage(curve.coverage[kept].tolist(), curve.risk[kept].tolist()),
    )


def _aurc(confidence: Floats, correct: Bools, clusters: ArrayLike | None, level: float) -> Interval | None:
    kept = auarc_interval(confidence, correct, clusters=clusters, level=level)
    return None if kept is None else replace(kept, low=1.0 - kept.high, high=1.0 - kept.low)


def _smooth(confidence: Floats, correct: Bools) -> tuple[float | None, str | None]:
    try:
        return smooth_ece(confidence, correct), None
    except MissingExtra as missing:
        return None, str(missing)


def _reliability(confidence: Floats, correct: Bools) -> list[ReliabilityBin]:
    bins = reliability_bins(confidence, correct, BINS)
    if bins is None:
        return []
    rows = zip(bins.index, bins.mean_confidence, bins.accuracy, bins.count, strict=True)
    return [
        ReliabilityBin(int(index) / BINS, (int(index) + 1) / BINS, float(mean), float(share), int(count))
        for index, mean, share, count in rows
    ]


def _accuracy_at(coverage: float, risk: Floats) -> AccuracyAtCoverage:
    kept = math.ceil(coverage * len(risk))
    return AccuracyAtCoverage(coverage, kept, 1.0 - float(risk[kept - 1]))


def _thinned(points: int) -> NDArray[np.intp]:
    """Places along a curve, its two ends among them, for drawing."""
    return np.unique(np.linspace(0, points - 1, min(points, MOST_CURVE_POINTS)).round().astype(np.intp))
