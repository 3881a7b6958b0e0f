"""What the alarms were worth: failures caught and how early, false alarms, and marks of things gone wrong beside them.

All shares are over the runs that could be tried. A run too short for the statistic was tried, and kept silent. Runs of
one task hang together, so that tasks are the independent units of every interval.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from howsure.measures import (
    Interval,
    PairedDifference,
    fit_threshold,
    highest,
    median_interval,
    paired_means,
    paired_shares,
    too_few,
)
from howsure.studies.sureness import Share, ends, share
from howsure.types import Fields

if TYPE_CHECKING:
    from howsure.studies.trajectories.breakdown import Detection, Fold, Verdict, Watched

    Tried = tuple[Watched, Verdict]

NEAR_TURNS = 1
"""An alarm this many watched turns from a mark, before or after it, counts as near."""


class FoldRow(Fields, kw_only=True):
    """What was fitted on the tasks outside of a fold; `reason` says why no alarm could be raised in it."""

    held_out_runs: int
    successful_training_runs: int
    baseline_mean_nats: float | None
    baseline_sd_nats: float | None
    baseline_infinite_turns: int | None
    threshold: float | None
    reason: str | None


class AlarmShare(Share):
    """In how many runs an alarm was raised; `note` says why there is no interval."""

    note: str | None = None


class TurnsBeforeEnd(Fields, kw_only=True):
    """How many turns of the conversation were still to come when a failure was caught.

    `low` and `high` are the interval of the median; the quartiles say how the runs themselves differ.
    """

    median: float
    low: float | None
    high: float | None
    level: float | None
    method: str | None
    approximate: bool | None
    lower_quartile: float
    upper_quartile: float
    caught: int


class NearMarks(Fields, kw_only=True):
    """Of the alarms in runs with a mark, the share next to one, and what it would be at a random turn of each run."""

    alarms: int
    value: float
    value_at_random: float
    difference: float | None
    low: float | None
    high: float | None
    level: float | None
    method: str | None
    approximate: bool | None
    note: str | None


class MarkStats(Fields, kw_only=True):
    """Which came first, the alarm or the first mark, and are alarms nearer to marks than chance would have them?"""

    runs_with_mark: int
    alarmed: int
    alarm_at_or_before_first_mark: int
    alarm_after_first_mark: int
    alarmed_without_mark: int
    near: NearMarks | None


class AgainstTurnCount(Fields, kw_only=True):
    """How many more of the same failures a detector catches than an alarm at a number of turns does."""

    difference: float | None
    of: int
    low: float | None
    high: float | None
    level: float | None
    method: str | None
    approximate: bool | None
    clearly_better: bool
    note: str | None
    """Where it is not clearly better."""


class DetectorStats(Fields, kw_only=True):
    """What a detector was worth; `reason` is set where no run could be tried."""

    detector: str
    false_alarm_rate: float
    reason: str | None
    not_tried: dict[str, int]
    folds: list[FoldRow]
    runs: int
    failures: int
    tasks: int
    tried: int
    tried_failures: int
    too_short: int
    caught: AlarmShare
    false_alarms: AlarmShare
    turns_before_end: TurnsBeforeEnd | None
    marks: dict[str, MarkStats]
    against_turn_count: AgainstTurnCount | None = None


def detector_stats(detection: Detection) -> DetectorStats:
    """Counts, shares with intervals, and a comparison with each kind of mark; None where there is nothing to count."""
    runs, tried = detection.runs, _tried(detection)
    failed, succeeded = _by_outcome(tried)
    reasons = Counter(verdict.reason for verdict in detection.verdicts if verdict.reason is not None)
    return DetectorStats(
        detector=detection.detector,
        false_alarm_rate=detection.false_alarm_rate,
        reason=detection.reason,
        not_tried=dict(sorted(reasons.items())),
        folds=[_fold_row(fold) for fold in detection.folds],
        runs=len(runs),
        failures=sum(run.failed for run in runs),
        tasks=len({run.task for run in runs}),
        tried=len(tried),
        tried_failures=len(failed),
        too_short=sum(bool(np.isnan(verdict.statistic).all()) for _, verdict in tried),
        caught=_alarmed(failed),
        false_alarms=_alarmed(succeeded),
        turns_before_end=_turns_before_end(failed),
        marks={kind: _beside_marks(tried, kind) for kind in sorted({k for run in runs for k in run.marks})},
    )


def _tried(detection: Detection) -> list[Tried]:
    return [pair for pair in zip(detection.runs, detection.verdicts, strict=True) if pair[1].tried]


def _by_outcome(tried: Sequence[Tried]) -> tuple[list[Tried], list[Tried]]:
    """Those that failed, and those that succeeded."""
    return [pair for pair in tried if pair[0].failed], [pair for pair in tried if not pair[0].failed]


def _fold_row(fold: Fold) -> FoldRow:
    baseline = fold.baseline
    return FoldRow(
        held_out_runs=len(fold.held_out),
        successful_training_runs=fold.successes,
        baseline_mean_nats=None if baseline is None else baseline.mean_nats,
        baseline_sd_nats=None if baseline is None else baseline.sd_nats,
        baseline_infinite_turns=None if baseline is None else baseline.infinite_turns,
        threshold=fold.threshold,
        reason=fold.reason,
    )


def _alarmed(tried: Sequence[Tried]) -> AlarmShare:
    """The share of these runs in which an alarm was raised."""
    alarmed = np.array([verdict.alarm is not None for _, verdict in tried], dtype=bool)
    return AlarmShare(**share(alarmed, _tasks(tried)), note=_too_few(_tasks(tried)))


def _too_few(tasks: Sequence[str]) -> str | None:
    """Why there is no interval over these runs, if there are any."""
    return too_few(len(set(tasks)), "tasks") if tasks else None


def _tasks(tried: Sequence[Tried]) -> list[str]:
    return [run.task for run, _ in tried]


def _turns_before_end(failed: Sequence[Tried]) -> TurnsBeforeEnd | None:
    caught = [(run, verdict) for run, verdict in failed if verdict.alarm is not None]
    if not caught:
        return None
    left = [int(run.turns_after[_alarm(verdict)]) for run, verdict in caught]
    lower, median, upper = np.quantile(left, [0.25, 0.5, 0.75]).tolist()
    interval = median_interval(left, clusters=_tasks(caught))
    return TurnsBeforeEnd(median=median, **ends(interval), lower_quartile=lower, upper_quartile=upper, caught=len(left))


# -- beside the number of turns ---------------------------------------------------------------------------------------


def against(detection: Detection, baseline: Detection) -> AgainstTurnCount:
    """How many more of the same failures a detector catches than another one, each at the rate it was fitted for.

    `clearly_better` takes two things: that the interval lies above zero, and that the detector does better than chance
    does, since where failing runs are the shorter ones an alarm at a number of turns does worse.
    """
    places = [
        i
        for i, (ours, theirs) in enumerate(zip(detection.verdicts, baseline.verdicts, strict=True))
        if detection.runs[i].failed and ours.tried and theirs.tried
    ]
    alarmed = [[one.verdicts[i].alarm is not None for i in places] for one in (baseline, detection)]
    caught = paired_shares(*alarmed, clusters=[detection.runs[i].task for i in places])
    interval = None if caught is None else _with_thresholds(caught, detection, baseline, places)
    better = interval is not None and interval.low > 0.0 and _beats_chance(detection)
    return AgainstTurnCount(
        difference=None if caught is None else caught.mean_difference,
        of=len(places),
        **ends(interval),
        clearly_better=better,
        note=None if better or not places else _why_not_better(detection.detector, interval),
    )


def _why_not_better(detector: str, interval: Interval | None) -> str:
    name, turns = detector.replace("_", " "), "an alarm at a fixed number of turns"
    if interval is None:
        return f"nobody can say whether {name} beats {turns}: too few tasks"
    if interval.high < 0.0:
        return f"{turns} clearly beats {name}"
    return f"{name} does not clearly beat {turns if interval.low <= 0.0 else 'chance'}"


def _with_thresholds(
    caught: PairedDifference, detection: Detection, baseline: Detection, places: Sequence[int]
) -> Interval | None:
    """The interval of a difference with what the thresholds may be off, which is the same for all runs of a fold.

    A threshold from a few runs keeps its rate only on average. So each detector's share is looked at again, with the
    threshold at the two ends of the interval of its rate of false alarms, and these distances are put together with
    those of the paired interval (MOVER: Zou and Donner, Construction of confidence limits about effect measures,
    Statistics in Medicine 27, 2008).
    """
    if caught.interval is None:
        return None
    ours, theirs = (_shares_around(one, places) for one in (detection, baseline))
    if ours is None or theirs is None:
        return None
    below = math.hypot(caught.mean_difference - caught.interval.low, ours.at - ours.low, theirs.high - theirs.at)
    above = math.hypot(caught.interval.high - caught.mean_difference, ours.high - ours.at, theirs.at - theirs.low)
    return replace(
        caught.interval,
        low=max(-1.0, caught.mean_difference - below),
        high=min(1.0, caught.mean_difference + above),
        method=f"{caught.interval.method}, with the doubt of the thresholds",
    )


class _Around(NamedTuple):
    """Failures caught by the thresholds as they are, by stricter and by laxer ones."""

    low: float
    at: float
    high: float


def _shares_around(detection: Detection, places: Sequence[int]) -> _Around | None:
    false = _alarmed(_by_outcome(_tried(detection))[1])
    if false.value is None or false.low is None or false.high is None:
        return None
    rate = detection.false_alarm_rate
    rates = (rate + false.low - false.value, rate, rate + false.high - false.value)
    return _Around(*(_caught_at(detection, places, each) for each in rates))


def _caught_at(detection: Detection, places: Sequence[int], rate: float) -> float:
    """The share of these runs with an alarm at another rate of false alarms; at the least, above them all."""
    threshold: dict[int, float] = {}
    for fold in detection.folds:
        fitted = fit_threshold(fold.maxima, min(max(rate, 1e-9), 1 - 1e-9))
        threshold |= dict.fromkeys(fold.held_out, min(fitted, max(fold.maxima, default=math.inf)))
    return sum(highest(detection.verdicts[i].statistic) > threshold[i] for i in places) / len(places)


def _beats_chance(detection: Detection) -> bool:
    """Whether failing runs are alarmed clearly more often than successful ones, the intervals put together likewise."""
    caught, false = map(_alarmed, _by_outcome(_tried(detection)))
    if caught.value is None or caught.low is None or false.value is None or false.high is None:
        return False
    below = math.hypot(caught.value - caught.low, false.high - false.value)
    return caught.value - false.value > below


# -- marks ------------------------------------------------------------------------------------------------------------


def _beside_marks(tried: Sequence[Tried], kind: str) -> MarkStats:
    marked = [(run, verdict) for run, verdict in tried if run.marks.get(kind)]
    both = [(run, verdict) for run, verdict in marked if verdict.alarm is not None]
    early = sum(_alarm(verdict) <= min(run.marks[kind]) for run, verdict in both)
    return MarkStats(
        runs_with_mark=len(marked),
        alarmed=len(both),
        alarm_at_or_before_first_mark=early,
        alarm_after_first_mark=len(both) - early,
        alarmed_without_mark=sum(v.alarm is not None for _, v in tried) - len(both),
        near=_near(both, kind),
    )


def _near(both: Sequence[Tried], kind: str) -> NearMarks | None:
    if not both:
        return None
    near = [float(_is_near(run, kind)[_alarm(verdict)]) for run, verdict in both]
    chance = [float(_is_near(run, kind)[_could_ring(run, verdict)].mean()) for run, verdict in both]
    paired = paired_means(chance, near, clusters=_tasks(both))
    return NearMarks(
        alarms=len(both),
        value=float(np.mean(near)),
        value_at_random=float(np.mean(chance)),
        difference=None if paired is None else paired.mean_difference,
        **ends(None if paired is None else paired.interval),
        note=_too_few(_tasks(both)),
    )


def _is_near(run: Watched, kind: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """For each watched turn, whether it lies within a turn of a mark."""
    around = np.add.outer(np.array(run.marks[kind]), np.arange(-NEAR_TURNS, NEAR_TURNS + 1)).ravel()
    return np.isin(np.arange(len(run.uncertainty)), around)


def _could_ring(run: Watched, verdict: Verdict) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Turns at which an alarm could have rung: the statistic is defined, and the turn is known or moved it."""
    moved = np.append(True, verdict.statistic[1:] != verdict.statistic[:-1])
    return np.asarray(~np.isnan(verdict.statistic) & (moved | ~np.isnan(run.uncertainty)))


def _alarm(verdict: Verdict) -> int:
    assert verdict.alarm is not None  # only called for runs with an alarm
    return verdict.alarm
