"""When does a run begin to go wrong? Alarms on the uncertainty of its turns, each raised on tasks not fitted on.

Question: would an alarm have rung in the runs that failed, how early, and how often in runs that did not?
Data: the watched turns of each run, whether it failed, and where something is known to have gone wrong.
Measure: statistics of the turns so far (`measures.detectors`), with a threshold from the successful runs of other tasks
that aims at a rate of false alarms; and the number of turns itself, which the others have to beat. What comes out: an
alarm or none for each run, and a summary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

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
from howsure.measures.detectors import turn_count
from howsure.studies.trajectories.alarm_stats import DetectorStats, detector_stats
from howsure.studies.trajectories.learned import task_folds

Array = NDArray[np.float64]

NO_KNOWN_TURN = "no known turn"


class Watched(NamedTuple):
    """One run as a detector sees it.

    `uncertainty`: U_i of the watched turns in nats, NaN where missing. `turns_after`: how many turns of the whole
    conversation come after each of them. `marks`: places in the watched series at which something is known to have gone
    wrong, by kind. `lot`: what decides between runs with the same number of turns, drawn by `detect`.
    """

    uncertainty: Array
    turns_after: NDArray[np.int64]
    failed: bool
    task: str
    marks: dict[str, tuple[int, ...]]
    lot: float = 0.0


class Detector(NamedTuple):
    """A statistic of the turns so far, in units of the baseline where it is one of uncertainty, and when it rings."""

    statistic: Callable[[Watched, Baseline], Array]
    rings_when: str


def _turn_count(run: Watched, baseline: Baseline) -> Array:
    """Of the turns that are watched: the others too can ring only there, and have as many chances to."""
    return turn_count(run.uncertainty, lot=run.lot)


def _standardised_rms(run: Watched, baseline: Baseline) -> Array:
    """The running root mean square itself, in the units of the baseline, so that folds can be compared."""
    return np.asarray((running_rms(run.uncertainty) - baseline.mean_nats) / baseline.sd_nats)


TURN_COUNT = "turn_count"
"""The simplest score and the simplest alarm: long runs fail more often. What does not beat it knows nothing."""

DETECTORS = {
    TURN_COUNT: Detector(_turn_count, "turn k is reached, whatever was said: the baseline to beat"),
    "threshold": Detector(_standardised_rms, "the root mean square of the turns so far is too high"),
    "cusum": Detector(
        lambda run, baseline: cusum(run.uncertainty, baseline), "small excesses over the usual level have added up"
    ),
    "level_change": Detector(
        lambda run, baseline: level_change(run.uncertainty, baseline), "the last three turns lie above all before them"
    ),
}


class Fold(NamedTuple):
    """What was fitted on the other tasks; `reason` says why no alarm could be raised in this fold.

    `maxima` are the largest values that the successful runs among them reached, of which the threshold is one.
    """

    held_out: tuple[int, ...]
    successes: int
    maxima: tuple[float, ...]
    baseline: Baseline | None
    threshold: float | None
    reason: str | None


class Verdict(NamedTuple):
    """One run: where the alarm rang, or None; `reason` is set where it could not be tried.

    `statistic` is that of the turns so far; NaN where there is none.
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
    runs: tuple[Watched, ...]
    verdicts: tuple[Verdict, ...]
    folds: tuple[Fold, ...]
    reason: str | None

    def summary(self) -> DetectorStats:
        """How many failures were caught and how early, how many alarms were false, and how they lie to marks."""
        return detector_stats(self)


def detect(
    watched: Sequence[Watched], *, detector: str, false_alarm_rate: float, folds: int = 5, seed: int
) -> Detection:
    """Raise alarms on every run, by a baseline and a threshold from the successful runs of other tasks.

    The seed is that of the lots by which `turn_count` tells runs of one length apart; all else is no matter of chance.
    """
    if detector not in DETECTORS:
        raise InputError(f"detector {detector!r} must be one of {', '.join(DETECTORS)}")
    for place, run in enumerate(watched):
        _check(run, place)
    lots = np.random.default_rng(seed).random(len(watched)).tolist()
    watched = [run._replace(lot=lot) for run, lot in zip(watched, lots, strict=True)]
    statistic = DETECTORS[detector].statistic
    reason = _why_nothing(watched)
    silent = Verdict(None, np.array([]), None, reason)
    verdicts = [silent._replace(statistic=np.full(len(run.uncertainty), np.nan)) for run in watched]
    fitted = []
    for training, held_out in task_folds([run.task for run in watched], folds) if reason is None else []:
        fold = _fit([watched[i] for i in training], held_out, statistic, false_alarm_rate)
        fitted.append(fold)
        for i in held_out:
            verdicts[i] = _judge(watched[i], fold, statistic)
    return Detection(detector, false_alarm_rate, tuple(watched), tuple(verdicts), tuple(fitted), reason)


def _fit(
    training: Sequence[Watched],
    held_out: NDArray[np.intp],
    statistic: Callable[[Watched, Baseline], Array],
    rate: float,
) -> Fold:
    """Baseline and threshold from the successful runs that have a known turn."""
    places = tuple(int(i) for i in held_out)
    good = [run for run in training if not run.failed and _is_known(run)]
    try:
        baseline = fit_baseline(np.concatenate([run.uncertainty for run in good]) if good else [])
    except InputError as error:
        return Fold(places, len(good), (), None, None, str(error))
    maxima = tuple(highest(statistic(run, baseline)) for run in good)
    threshold = fit_threshold(maxima, rate)
    if math.isfinite(threshold):
        return Fold(places, len(good), maxima, baseline, threshold, None)
    return Fold(places, len(good), maxima, baseline, None, _why_no_threshold(maxima, threshold, rate))


def _judge(run: Watched, fold: Fold, statistic: Callable[[Watched, Baseline], Array]) -> Verdict:
    nothing = np.full(len(run.uncertainty), np.nan)
    if not _is_known(run):
        return Verdict(None, nothing, fold.threshold, NO_KNOWN_TURN)
    series = nothing if fold.baseline is None else statistic(run, fold.baseline)
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
        return f"{runs} set no threshold for a false alarm rate of {rate:g}: that takes {least}"
    return f"of {runs}, more than a share of {rate:g} have a turn of probability zero: no threshold lies above that"
