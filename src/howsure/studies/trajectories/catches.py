"""What the alarms were worth: failures caught and how early, false alarms, and marks of things gone wrong beside them.

All shares are over the runs that could be tried. A run too short for the statistic was tried, and kept silent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from howsure.measures import Interval, bootstrap_mean, paired_bootstrap, wilson_interval

if TYPE_CHECKING:
    from howsure.studies.trajectories.breakdown import Verdict, Watched

    Tried = tuple[Watched, Verdict]

NEAR_TURNS = 1
"""An alarm this many watched turns from a mark, before or after it, counts as near."""


def summarise(runs: Sequence[Watched], verdicts: Sequence[Verdict], *, seed: int) -> dict[str, Any]:
    """Counts, shares with intervals, and a comparison with each kind of mark; None where there is nothing to count."""
    tried = [(run, verdict) for run, verdict in zip(runs, verdicts, strict=True) if verdict.tried]
    failed = [pair for pair in tried if pair[0].failed]
    succeeded = [pair for pair in tried if not pair[0].failed]
    return {
        "runs": len(runs),
        "failures": sum(run.failed for run in runs),
        "tasks": len({run.task for run in runs}),
        "tried": len(tried),
        "tried_failures": len(failed),
        "too_short": sum(bool(np.isnan(verdict.statistic).all()) for _, verdict in tried),
        "caught": _alarmed(failed, seed),
        "false_alarms": _alarmed(succeeded, seed),
        "turns_before_end": _turns_before_end(failed),
        "marks": {kind: _beside_marks(tried, kind, seed) for kind in sorted({k for run in runs for k in run.marks})},
    }


def _alarmed(tried: Sequence[Tried], seed: int) -> dict[str, Any]:
    """The share of these runs in which an alarm rang."""
    hits = [verdict.alarm is not None for _, verdict in tried]
    share = sum(hits) / len(hits) if hits else None
    interval = _share_interval(hits, [run.task for run, _ in tried], seed)
    return {"count": sum(hits), "of": len(hits), "value": share, **_ends(interval)}


def _share_interval(hits: Sequence[bool], tasks: Sequence[str], seed: int) -> Interval | None:
    """Wilson's where each run is a task of its own, else a bootstrap over tasks.

    No resample of runs that are all alike differs from them, so there Wilson's is taken, with a task as one draw.
    """
    distinct = len(set(tasks))
    if distinct == len(hits):
        return wilson_interval(sum(hits), len(hits))
    if all(hits) or not any(hits):
        found = wilson_interval(distinct if hits[0] else 0, distinct)
        return None if found is None else replace(found, method="Wilson score over tasks")
    return bootstrap_mean(np.asarray(hits, dtype=float), clusters=tasks, seed=seed)


def _turns_before_end(failed: Sequence[Tried]) -> dict[str, Any] | None:
    """How many turns of the conversation were still to come when a failure was caught: median and quartiles."""
    left = [int(run.turns_after[verdict.alarm]) for run, verdict in failed if verdict.alarm is not None]
    if not left:
        return None
    low, middle, high = np.quantile(left, [0.25, 0.5, 0.75])
    return {"median": float(middle), "low": float(low), "high": float(high), "caught": len(left)}


# -- marks ------------------------------------------------------------------------------------------------------------


def _beside_marks(tried: Sequence[Tried], kind: str, seed: int) -> dict[str, Any]:
    """Which came first, the alarm or the first mark, and are alarms nearer to marks than chance would have them?"""
    marked = [(run, verdict) for run, verdict in tried if run.marks.get(kind)]
    both = [(run, verdict) for run, verdict in marked if verdict.alarm is not None]
    early = sum(_alarm(verdict) <= min(run.marks[kind]) for run, verdict in both)
    return {
        "runs_with_mark": len(marked),
        "alarmed": len(both),
        "alarm_at_or_before_first_mark": early,
        "alarm_after_first_mark": len(both) - early,
        "alarmed_without_mark": sum(v.alarm is not None for _, v in tried) - len(both),
        "near": _near(both, kind, seed),
    }


def _near(both: Sequence[Tried], kind: str, seed: int) -> dict[str, Any] | None:
    """Of the alarms in runs with a mark, the share next to one, and what it would be at a random turn of each run."""
    if not both:
        return None
    near = [float(_is_near(run, kind)[_alarm(verdict)]) for run, verdict in both]
    chance = [float(_is_near(run, kind)[_could_ring(run, verdict)].mean()) for run, verdict in both]
    difference = paired_bootstrap(chance, near, clusters=[run.task for run, _ in both], seed=seed)
    return {
        "alarms": len(both),
        "value": float(np.mean(near)),
        "value_at_random": float(np.mean(chance)),
        "difference": None if difference is None else difference.mean_difference,
        **_ends(None if difference is None else difference.interval),
    }


def _is_near(run: Watched, kind: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """For each watched turn, whether it lies within a turn of a mark."""
    around = np.add.outer(np.array(run.marks[kind]), np.arange(-NEAR_TURNS, NEAR_TURNS + 1)).ravel()
    return np.isin(np.arange(len(run.uncertainty)), around)


def _could_ring(run: Watched, verdict: Verdict) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Turns at which an alarm could have rung: the statistic is defined, and the turn itself is known."""
    return np.asarray(~np.isnan(verdict.statistic) & ~np.isnan(run.uncertainty))


def _alarm(verdict: Verdict) -> int:
    assert verdict.alarm is not None  # only called for runs with an alarm
    return verdict.alarm


def _ends(interval: Interval | None) -> dict[str, Any]:
    if interval is None:
        return {"low": None, "high": None, "level": None, "method": None}
    return {"low": interval.low, "high": interval.high, "level": interval.level, "method": interval.method}
