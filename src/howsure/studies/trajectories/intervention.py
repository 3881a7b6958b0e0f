"""What would it have cost to step in at the alarms, and how many failures would it have avoided?

Logged runs are replayed: at its alarm a run gets one intervention of the policy, which costs the same whether the run
would have failed or not. A failing run with enough turns left is then avoided with the policy's chance of rescue, which
is an assumption that the user makes and no log can show. Everything is an expectation over that chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from howsure.errors import InputError
from howsure.measures import bootstrap_mean
from howsure.studies.trajectories.breakdown import Detection, Verdict, Watched

Array = NDArray[np.float64]

CURVE_POINTS = 200
MOST_COST = 1e100
"""Of one intervention or one failure: what is added up must stay a number."""


class Policy(msgspec.Struct, frozen=True):
    """One way to step in (ask the user to confirm, hand over to a person, try again with a stronger model).

    `cost` is that of one intervention, in any unit that the user likes; `rescue` is the chance that a run which would
    have failed does not, if the policy comes in time.
    """

    name: str
    cost: float
    rescue: float

    def __post_init__(self) -> None:
        if not 0 <= self.cost <= MOST_COST:
            raise InputError(f"policy {self.name!r}: the cost {self.cost!r} must lie between 0 and {MOST_COST:g}")
        if not 0.0 <= self.rescue <= 1.0:
            raise InputError(f"policy {self.name!r}: the chance of rescue {self.rescue!r} must lie between 0 and 1")


def parse_policy(text: str) -> Policy:
    """A policy as it is written on the command line: name, cost, and chance of rescue.

    >>> parse_policy("confirm:1:0.3")
    Policy(name='confirm', cost=1.0, rescue=0.3)
    """
    name, *numbers = text.split(":")
    try:
        cost, rescue = (float(number) for number in numbers)
    except ValueError:
        raise InputError(f"policy {text!r} is not name:cost:chance of rescue, such as confirm:1:0.3") from None
    if not name.strip():
        raise InputError(f"policy {text!r} has no name: write it as in confirm:1:0.3")
    return Policy(name.strip(), cost, rescue)


class _Plan(NamedTuple):
    """For each run the chance that it is interfered with, and that this meets a failure in time."""

    when: str
    interventions: Array
    in_time: Array


def replay(
    detection: Detection,
    policies: Sequence[Policy],
    *,
    notice_turns: int = 1,
    failure_cost: float | None = None,
    resamples: int = 2000,
    seed: int,
) -> dict[str, Any]:
    """Each policy at the alarms beside never, always and at random, and along all thresholds.

    `always` steps in at the first watched turn of every run. `random` steps in as often as the alarms do, at random
    turns of random runs. A failure counts as met in time if at least `notice_turns` turns were still to come.
    """
    _check(policies, notice_turns, failure_cost)
    tried = [(run, verdict) for run, verdict in zip(detection.runs, detection.verdicts, strict=True) if verdict.tried]
    plans = _plans(tried, notice_turns) if tried else []
    points = _sweep(detection, notice_turns)
    return {
        "notice_turns": notice_turns,
        "failure_cost": failure_cost,
        "runs": len(tried),
        "failures": sum(run.failed for run, _ in tried),
        "reason": _why_nothing(detection, tried),
        "policies": [msgspec.structs.asdict(policy) for policy in policies],
        "table": [_row(plan, policy, tried, failure_cost, resamples, seed) for policy in policies for plan in plans],
        "curves": {policy.name: [_point(point, policy, failure_cost) for point in points] for policy in policies},
    }


def check_names(policies: Sequence[Policy]) -> None:
    names = [policy.name for policy in policies]
    if len(set(names)) < len(names):
        raise InputError(f"policies must have names of their own, got {', '.join(names)}")


def _check(policies: Sequence[Policy], notice_turns: int, failure_cost: float | None) -> None:
    check_names(policies)
    if notice_turns < 0:
        raise InputError(f"notice_turns {notice_turns!r} must be 0 or more")
    if failure_cost is not None and not 0 <= failure_cost <= MOST_COST:
        raise InputError(f"failure_cost {failure_cost!r} must lie between 0 and {MOST_COST:g}")


def _why_nothing(detection: Detection, tried: Sequence[Any]) -> str | None:
    if tried:
        return None
    return detection.reason or next((fold.reason for fold in detection.folds if fold.reason), "no run could be tried")


# -- at the alarms ----------------------------------------------------------------------------------------------------


def _plans(tried: Sequence[tuple[Watched, Verdict]], notice_turns: int) -> list[_Plan]:
    runs, nothing, everything = [run for run, _ in tried], np.zeros(len(tried)), np.ones(len(tried))
    alarmed = np.array([float(verdict.alarm is not None) for _, verdict in tried])
    met = np.array([_in_time(run, verdict.alarm, notice_turns) for run, verdict in tried])
    often = float(alarmed.mean())
    return [
        _Plan("alarm", alarmed, met),
        _Plan("never", nothing, nothing),
        _Plan("always", everything, np.array([_in_time(run, 0, notice_turns) for run in runs])),
        _Plan("random", often * everything, often * _by_chance(runs, notice_turns)),
    ]


def _in_time(run: Watched, at: int | None, notice_turns: int) -> float:
    return float(run.failed and at is not None and bool(run.turns_after[at] >= notice_turns))


def _by_chance(runs: Sequence[Watched], notice_turns: int) -> Array:
    """The chance that a random watched turn of a run meets a failure in time."""
    return np.array([float(run.failed and (run.turns_after >= notice_turns).mean()) for run in runs])


def _row(
    plan: _Plan,
    policy: Policy,
    tried: Sequence[tuple[Watched, Verdict]],
    failure_cost: float | None,
    resamples: int,
    seed: int,
) -> dict[str, Any]:
    avoided = policy.rescue * plan.in_time
    low, high = _interval(avoided, [run.task for run, _ in tried], resamples, seed)
    failures = sum(run.failed for run, _ in tried)
    money = _money(float(plan.interventions.sum()), float(avoided.sum()), policy, failure_cost)
    left = failures - float(avoided.sum())
    return {"policy": policy.name, "when": plan.when, **money, "low": low, "high": high, "failures_left": left}


def _money(interventions: float, avoided: float, policy: Policy, failure_cost: float | None) -> dict[str, Any]:
    spent = policy.cost * interventions
    return {
        "interventions": interventions,
        "spent": spent,
        "failures_avoided": avoided,
        "cost_per_avoided_failure": spent / avoided if avoided > 0 else None,
        "net_saving": None if failure_cost is None else failure_cost * avoided - spent,
    }


def _interval(avoided: Array, tasks: Sequence[str], resamples: int, seed: int) -> tuple[float | None, float | None]:
    """Of the failures avoided, were as many tasks drawn again: the mean over tasks times their number."""
    _, task = np.unique(np.asarray(tasks), return_inverse=True)
    sums = np.bincount(task, weights=avoided)
    found = bootstrap_mean(sums, resamples=resamples, seed=seed)
    return (None, None) if found is None else (found.low * len(sums), found.high * len(sums))


# -- along all thresholds ---------------------------------------------------------------------------------------------


class _Point(NamedTuple):
    threshold: float | None
    interventions: int
    in_time: float
    in_time_at_random: float


def _sweep(detection: Detection, notice_turns: int) -> list[_Point]:
    """One threshold for all runs, from above the largest value to below the smallest.

    This needs a statistic but no threshold of its fold, so runs of folds without one take part.
    """
    pairs = list(zip(detection.runs, detection.verdicts, strict=True))
    shown = [(run, verdict) for run, verdict in pairs if not np.isnan(verdict.statistic).all()]
    if not shown:
        return []
    peaks = [np.fmax.accumulate(np.where(np.isnan(v.statistic), -np.inf, v.statistic)) for _, v in shown]
    thresholds = _thinned(np.unique([peak[-1] for peak in peaks]))
    places = np.array([np.searchsorted(peak, thresholds, side="right") for peak in peaks])
    rang = np.array([place < len(peak) for place, peak in zip(places, peaks, strict=True)])
    met = np.array([_met(run, place, notice_turns) for (run, _), place in zip(shown, places, strict=True)])
    chance = float(_by_chance([run for run, _ in shown], notice_turns).mean())
    return [
        _Point(threshold if math.isfinite(threshold) else None, int(count), float(good), chance * int(count))
        for threshold, count, good in zip(thresholds.tolist(), rang.sum(axis=0), met.sum(axis=0), strict=True)
    ]


def _met(run: Watched, places: NDArray[np.intp], notice_turns: int) -> NDArray[np.bool_]:
    """Whether the failure of this run is met in time, for an alarm at each of these places (past the end: no alarm)."""
    good = np.append((run.turns_after >= notice_turns) & run.failed, False)
    return np.asarray(good[places])


def _thinned(values: Array) -> Array:
    """Largest first, and −inf at the end: with that, every run that has a statistic is interfered with."""
    falling = np.append(values[::-1], -np.inf)
    kept = np.unique(np.linspace(0, len(falling) - 1, min(CURVE_POINTS, len(falling))).round().astype(int))
    return np.asarray(falling[kept])


def _point(point: _Point, policy: Policy, failure_cost: float | None) -> dict[str, Any]:
    money = _money(point.interventions, policy.rescue * point.in_time, policy, failure_cost)
    return {
        "threshold": point.threshold,
        **money,
        "random_failures_avoided": policy.rescue * point.in_time_at_random,
    }
