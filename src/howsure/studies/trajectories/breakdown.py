"""When does a run begin to go wrong? Alarms on the uncertainty of its turns, each raised on tasks not fitted on.

Question: would an alarm have rung in the runs that failed, how early, and how often in runs that did not?
Data: the watched turns of each run, whether it failed, and where something is known to have gone wrong.
Measure: three statistics (`measures.detectors`), with a threshold from the successful runs of other tasks that promises
a rate of false alarms. What comes out: an alarm or none for each run, and a summary.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from howsure.errors import InputError
from howsure.measures import (
    Baseline,
    cusum,
    first_alarm,
    fit_baseline,
    fit_threshold,
    highest,
    level_change,
    running_rms,
)
from howsure.studies.trajectories.catches import summarise
from howsure.studies.trajectories.folds import task_folds

Array = NDArray[np.float64]

NO_KNOWN_TURN = "no known turn"


class Watched(NamedTuple):
    """One run as a detector sees it.

    `uncertainty`: U_i of the watched turns in nats, NaN where missing. `turns_after`: how many turns of the whole
    conversation come after each of them. `marks`: places in the watched series at which something is known to have gone
    wrong, by kind.
    """

    uncertainty: Array
    turns_after: NDArray[np.int64]
    failed: bool
    task: str
    marks: dict[str, tuple[int, ...]]


def _standardised_rms(uncertainty: Array, baseline: Baseline) -> Array:
    """The running root mean square itself, in the units of the baseline, so that folds can be compared."""
    return np.asarray((running_rms(uncertainty) - baseline.mean_nats) / baseline.sd_nats)


DETECTORS: dict[str, Callable[[Array, Baseline], Array]] = {
    "threshold": _standardised_rms,
    "cusum": cusum,
    "level_change": level_change,
}


class Fold(NamedTuple):
    """What was fitted on the other tasks; `reason` says why no alarm could be raised in this fold."""

    held_out: tuple[int, ...]
    successes: int
    baseline: Baseline | None
    threshold: float | None
    reason: str | None


class Verdict(NamedTuple):
    """One run: where the alarm rang, or None; `reason` is set where it could not be tried.

    `statistic` is that of the turns so far, in standard deviations of the fold's baseline; NaN where there is none.
    """

    alarm: int | None
    statistic: Array
    threshold: float | None
    reason: str | None

    @property
    def tried(self) -> bool:
        return self.reason is None


@dataclass(frozen=True, eq=False)
class Detection:
    """All runs with their verdicts; `reason` is set where not one could be reached."""

    detector: str
    false_alarm_rate: float
    seed: int
    runs: tuple[Watched, ...]
    verdicts: tuple[Verdict, ...]
    folds: tuple[Fold, ...]
    reason: str | None

    def summary(self) -> dict[str, Any]:
        """How many failures were caught and how early, how many alarms were false, and how they lie to marks."""
        return {
            "detector": self.detector,
            "false_alarm_rate": self.false_alarm_rate,
            "reason": self.reason,
            "not_tried": dict(sorted(Counter(v.reason for v in self.verdicts if v.reason is not None).items())),
            "folds": [_fold_row(fold) for fold in self.folds],
            **summarise(self.runs, self.verdicts, seed=self.seed),
        }


def detect(
    watched: Sequence[Watched], *, detector: str, false_alarm_rate: float, folds: int = 5, seed: int
) -> Detection:
    """Raise alarms on every run, by a baseline and a threshold from the successful runs of other tasks.

    The seed is that of the summary's intervals; the alarms themselves are not a matter of chance.
    """
    if detector not in DETECTORS:
        raise InputError(f"detector {detector!r} must be one of {', '.join(DETECTORS)}")
    for place, run in enumerate(watched):
        _check(run, place)
    reason = _why_nothing(watched)
    silent = Verdict(None, np.array([]), None, reason)
    verdicts = [silent._replace(statistic=np.full(len(run.uncertainty), np.nan)) for run in watched]
    fitted = []
    for training, held_out in task_folds([run.task for run in watched], folds) if reason is None else []:
        fold = _fit([watched[i] for i in training], held_out, DETECTORS[detector], false_alarm_rate)
        fitted.append(fold)
        for i in held_out:
            verdicts[i] = _judge(watched[i], fold, DETECTORS[detector])
    return Detection(detector, false_alarm_rate, seed, tuple(watched), tuple(verdicts), tuple(fitted), reason)


def _fit(
    training: Sequence[Watched],
    held_out: NDArray[np.intp],
    statistic: Callable[[Array, Baseline], Array],
    rate: float,
) -> Fold:
    """Baseline and threshold from the successful runs that have a known turn."""
    places = tuple(int(i) for i in held_out)
    good = [run.uncertainty for run in training if not run.failed and _is_known(run)]
    try:
        baseline = fit_baseline(np.concatenate(good) if good else [])
    except InputError as error:
        return Fold(places, len(good), None, None, str(error))
    maxima = [highest(statistic(u, baseline)) for u in good]
    threshold = fit_threshold(maxima, rate)
    if math.isfinite(threshold):
        return Fold(places, len(good), baseline, threshold, None)
    return Fold(places, len(good), baseline, None, _why_no_threshold(maxima, threshold, rate))


def _judge(run: Watched, fold: Fold, statistic: Callable[[Array, Baseline], Array]) -> Verdict:
    nothing = np.full(len(run.uncertainty), np.nan)
    if not _is_known(run):
        return Verdict(None, nothing, fold.threshold, NO_KNOWN_TURN)
    series = nothing if fold.baseline is None else statistic(run.uncertainty, fold.baseline)
    if fold.threshold is None:
        return Verdict(None, series, None, "no threshold")
    return Verdict(first_alarm(series, fold.threshold), series, fold.threshold, None)


def _is_known(run: Watched) -> bool:
    return bool((~np.isnan(run.uncertainty)).any())


def _check(run: Watched, place: int) -> None:
    length = len(run.uncertainty)
    if len(run.turns_after) != length:
        raise InputError(f"run {place} has {length} watched turns, but turns_after for {len(run.turns_after)}")
    outside = [at for places in run.marks.values() for at in places if not 0 <= at < length]
    if outside:
        raise InputError(f"run {place} has {length} watched turns, and no place {outside[0]} for a mark")


# -- why not ----------------------------------------------------------------------------------------------------------


def _why_nothing(watched: Sequence[Watched]) -> str | None:
    if not watched:
        return "there is no run whose end is known"
    if len({run.task for run in watched}) < 2:
        return "there is only one task, so that nothing can be fitted on others"
    if all(run.failed for run in watched):
        return f"all {len(watched)} runs failed, so that there is nothing to tell a false alarm by"
    return None


def _why_no_threshold(maxima: Sequence[float], threshold: float, rate: float) -> str:
    runs = f"{len(maxima)} successful run{'' if len(maxima) == 1 else 's'} of other tasks"
    if threshold == -math.inf:
        return f"of {runs}, too many are too short for the statistic: any value of it would be an alarm"
    least = math.ceil(1 / rate - 1 - 1e-9)
    if len(maxima) < least:
        return f"{runs} cannot promise a false alarm rate of {rate:g}: that takes {least}"
    return f"of {runs}, more than a share of {rate:g} have a turn of probability zero: no threshold lies above that"


def _fold_row(fold: Fold) -> dict[str, Any]:
    baseline = fold.baseline
    return {
        "held_out_runs": len(fold.held_out),
        "successful_training_runs": fold.successes,
        "baseline_mean_nats": None if baseline is None else baseline.mean_nats,
        "baseline_sd_nats": None if baseline is None else baseline.sd_nats,
        "baseline_infinite_turns": None if baseline is None else baseline.infinite_turns,
        "threshold": fold.threshold,
        "reason": fold.reason,
    }
