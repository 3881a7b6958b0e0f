"""What would it have cost to step in at the alarms, how many failures would it have avoided, and what would it spoil?

Logged runs are replayed: at its alarm a run gets one intervention of the policy, which costs the same whether the run
would have failed or not. A failing run with enough turns left is then rescued with one chance, and a run that would
have succeeded is spoiled with another. Both are assumptions that the user makes and no log can show. Everything is an
expectation over them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from howsure.errors import InputError
from howsure.measures import Interval, mean_interval, share_interval
from howsure.studies.sureness import Share, ends, share
from howsure.studies.trajectories.breakdown import Detection, Verdict, Watched
from howsure.types import Fields

Array = NDArray[np.float64]

CURVE_POINTS = 200
MOST_COST = 1e100
"""Of one intervention or one failure: what is added up must stay a number."""

FORM = "name:cost:rescue[:spoil]"


class Policy(msgspec.Struct, frozen=True):
    """One way to step in (ask the user to confirm, hand over to a person, try again with a stronger model).

    `cost` is that of one intervention, in any unit that the user likes; `rescue` is the chance that a run which would
    have failed does not, if the policy comes in time; `spoil` the chance that a run which would have succeeded fails
    because of it, whenever it comes.
    """

    name: str
    cost: float
    rescue: float
    spoil: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.cost <= MOST_COST:
            raise InputError(f"policy {self.name!r}: the cost {self.cost!r} must lie between 0 and {MOST_COST:g}")
        for what, chance in (("rescue a run", self.rescue), ("spoil one", self.spoil)):
            if not 0.0 <= chance <= 1.0:
                raise InputError(f"policy {self.name!r}: the chance to {what}, {chance!r}, must lie between 0 and 1")

    def break_even(self, failure_cost: float | None = None) -> float | None:
        """The share of failures, among the runs acted on in time, above which acting pays: d / (r + d).

        That is where f r = (1 − f) d. With the cost F of a failure, acting has to win its own cost c as well:
        f r − (1 − f) d > c / F, so that it is (c / F + d) / (r + d), and above 1 never. None where the policy changes
        nothing, or where failures cost nothing.
        """
        if self.rescue + self.spoil == 0.0 or failure_cost == 0.0:
            return None
        price = 0.0 if failure_cost is None else self.cost / failure_cost
        return (price + self.spoil) / (self.rescue + self.spoil)


def parse_policy(text: str) -> Policy:
    """A policy as it is written on the command line: name, cost, chance to rescue, and chance to spoil (default 0).

    >>> parse_policy("confirm:1:0.3:0.05")
    Policy(name='confirm', cost=1.0, rescue=0.3, spoil=0.05)
    """
    name, *numbers = text.split(":")
    try:
        cost, rescue, spoil = (float(number) for number in ([*numbers, "0"] if len(numbers) == 2 else numbers))
    except ValueError:
        raise InputError(f"policy {text!r} is not {FORM}, such as confirm:1:0.3 or confirm:1:0.3:0.05") from None
    if not name.strip():
        raise InputError(f"policy {text!r} has no name: write it as in confirm:1:0.3")
    return Policy(name.strip(), cost, rescue, spoil)


class PolicyTerms(Fields, kw_only=True):
    """A policy, and the share of failures among the runs acted on above which it pays."""

    name: str
    cost: float
    rescue: float
    spoil: float
    break_even: float | None
    break_even_with_costs: float | None


class ActedOn(Share):
    """How many of the runs with an alarm failed: what a policy's break-even is to be compared with."""

    in_time: int = 0
    """How many of these left enough turns to be rescued."""


class InterventionRow(Fields, kw_only=True):
    """One policy at one time to act (`alarm`, `never`, `always`, `random`): expectations, with intervals where there
    are any."""

    policy: str
    when: str
    interventions: float
    spent: float
    failures_avoided: float
    successes_spoiled: float
    net_avoided: float
    cost_per_avoided_failure: float | None
    net_saving: float | None
    avoided_low: float | None
    avoided_high: float | None
    avoided_level: float | None
    avoided_method: str | None
    avoided_approximate: bool | None
    spoiled_low: float | None
    spoiled_high: float | None
    spoiled_level: float | None
    spoiled_method: str | None
    spoiled_approximate: bool | None
    net_low: float | None
    net_high: float | None
    net_level: float | None
    net_method: str | None
    net_approximate: bool | None
    saving_low: float | None
    saving_high: float | None
    saving_level: float | None
    saving_method: str | None
    saving_approximate: bool | None
    failures_left: float


class CurvePoint(Fields, kw_only=True):
    """A policy at one threshold for all runs; None is one that lies above or below every value."""

    threshold: float | None
    interventions: int
    spent: float
    failures_avoided: float
    successes_spoiled: float
    net_avoided: float
    cost_per_avoided_failure: float | None
    net_saving: float | None
    random_failures_avoided: float
    random_net_avoided: float


class Interventions(Fields, kw_only=True):
    """What policies would have done at the alarms of a detector; `reason` says why nothing could be replayed."""

    detector: str
    note: str | None
    """Where these alarms are no better than the number of turns."""
    notice_turns: int
    failure_cost: float | None
    runs: int
    failures: int
    reason: str | None
    alarmed: ActedOn
    policies: list[PolicyTerms]
    table: list[InterventionRow]
    curves: dict[str, list[CurvePoint]]


class _Plan(NamedTuple):
    """For each run the chance that one steps in, that this meets a failure in time, and that it meets a success."""

    when: str
    interventions: Array
    in_time: Array
    successes: Array


def replay(
    detection: Detection,
    policies: Sequence[Policy],
    *,
    notice_turns: int = 1,
    failure_cost: float | None = None,
) -> Interventions:
    """Each policy at the alarms beside never, always and at random, and along all thresholds.

    `always` steps in at the first watched turn of every run. `random` steps in as often as the alarms do, at random
    turns of random runs. A failure counts as met in time if at least `notice_turns` turns were still to come.
    """
    _check(policies, notice_turns, failure_cost)
    tried = [(run, verdict) for run, verdict in zip(detection.runs, detection.verdicts, strict=True) if verdict.tried]
    plans = _plans(tried, notice_turns) if tried else []
    points = _sweep(detection, notice_turns)
    return Interventions(
        detector=detection.detector,
        note=None,
        notice_turns=notice_turns,
        failure_cost=failure_cost,
        runs=len(tried),
        failures=sum(run.failed for run, _ in tried),
        reason=_why_nothing(detection, tried),
        alarmed=_alarmed(tried, notice_turns),
        policies=[
            PolicyTerms(
                **msgspec.structs.asdict(policy),
                break_even=policy.break_even(),
                break_even_with_costs=None if failure_cost is None else policy.break_even(failure_cost),
            )
            for policy in policies
        ],
        table=[_row(plan, policy, tried, failure_cost) for policy in policies for plan in plans],
        curves={policy.name: [_point(point, policy, failure_cost) for point in points] for policy in policies},
    )


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


def _alarmed(tried: Sequence[tuple[Watched, Verdict]], notice_turns: int) -> ActedOn:
    acted = [(run, verdict) for run, verdict in tried if verdict.alarm is not None]
    failed = np.array([run.failed for run, _ in acted], dtype=bool)
    in_time = sum(_in_time(run, verdict.alarm, notice_turns) for run, verdict in acted)
    return ActedOn(**share(failed, [run.task for run, _ in acted]), in_time=int(in_time))


def _plans(tried: Sequence[tuple[Watched, Verdict]], notice_turns: int) -> list[_Plan]:
    runs, nothing, everything = [run for run, _ in tried], np.zeros(len(tried)), np.ones(len(tried))
    succeeded = np.array([float(not run.failed) for run in runs])
    alarmed = np.array([float(verdict.alarm is not None) for _, verdict in tried])
    met = np.array([_in_time(run, verdict.alarm, notice_turns) for run, verdict in tried])
    often = float(alarmed.mean())
    return [
        _Plan("alarm", alarmed, met, alarmed * succeeded),
        _Plan("never", nothing, nothing, nothing),
        _Plan("always", everything, np.array([_in_time(run, 0, notice_turns) for run in runs]), succeeded),
        _Plan("random", often * everything, often * _by_chance(runs, notice_turns), often * succeeded),
    ]


def _in_time(run: Watched, at: int | None, notice_turns: int) -> float:
    return float(run.failed and at is not None and bool(run.turns_after[at] >= notice_turns))


def _by_chance(runs: Sequence[Watched], notice_turns: int) -> Array:
    """The chance that a random watched turn of a run meets a failure in time."""
    return np.array([float(run.failed and (run.turns_after >= notice_turns).mean()) for run in runs])


def _row(
    plan: _Plan, policy: Policy, tried: Sequence[tuple[Watched, Verdict]], failure_cost: float | None
) -> InterventionRow:
    """Never has no interval, since nothing of it is left to chance, and random none
    because it is an expectation already, there to be compared with."""
    of_avoided = of_spoiled = of_net = of_saving = None
    if plan.when in ("alarm", "always"):
        tasks = [run.task for run, _ in tried]
        met, hit = share_interval(plan.in_time, clusters=tasks), share_interval(plan.successes, clusters=tasks)
        of_avoided, of_spoiled = _times(met, policy.rescue * len(tried)), _times(hit, policy.spoil * len(tried))
        of_net = _net(plan, policy, of_avoided, of_spoiled)
        if failure_cost is not None:
            of_run = failure_cost * (policy.rescue * plan.in_time - policy.spoil * plan.successes)
            of_saving = _times(mean_interval(of_run - policy.cost * plan.interventions, clusters=tasks), len(tried))
    expected = _expected(
        float(plan.interventions.sum()), float(plan.in_time.sum()), float(plan.successes.sum()), policy, failure_cost
    )
    if plan.when in ("alarm", "always") and (of_net is None or of_net.low <= 0.0):
        expected["cost_per_avoided_failure"] = None  # what it would be divided by may be nothing
    intervals = {"avoided": of_avoided, "spoiled": of_spoiled, "net": of_net, "saving": of_saving}
    return InterventionRow(
        policy=policy.name,
        when=plan.when,
        **expected,
        **{f"{what}_{name}": end for what, one in intervals.items() for name, end in ends(one).items()},
        failures_left=sum(run.failed for run, _ in tried) - expected["net_avoided"],
    )


def _times(of_share: Interval | None, factor: float) -> Interval | None:
    """Of a number of runs, had as many been drawn again; a chance of 0 that was given leaves nothing in doubt."""
    return None if of_share is None or factor == 0.0 else of_share.scaled(factor)


def _net(plan: _Plan, policy: Policy, avoided: Interval | None, spoiled: Interval | None) -> Interval | None:
    """Of the difference, put together from its parts (MOVER: Zou and Donner, Statistics in Medicine 27, 2008).

    A run is met in time or spoiled, not both, so that the two shares go against each other.
    """
    if avoided is None or spoiled is None:
        return avoided if spoiled is None else spoiled.scaled(-1.0)
    met, hit = float(plan.in_time.mean()), float(plan.successes.mean())
    rest = (1 - met) * (1 - hit)
    correlation = -math.sqrt(met * hit / rest) if rest > 0.0 else 0.0
    more, less = policy.rescue * float(plan.in_time.sum()), policy.spoil * float(plan.successes.sum())

    def distance(first: float, second: float) -> float:
        return math.sqrt(first**2 + second**2 - 2 * correlation * first * second)

    return Interval(
        more - less - distance(more - avoided.low, spoiled.high - less),
        more - less + distance(avoided.high - more, less - spoiled.low),
        avoided.level,
        "MOVER",
        avoided.approximate or spoiled.approximate,
    )


def _expected(
    interventions: float, in_time: float, successes: float, policy: Policy, failure_cost: float | None
) -> dict[str, Any]:
    spent, avoided, spoiled = policy.cost * interventions, policy.rescue * in_time, policy.spoil * successes
    net = avoided - spoiled
    return {
        "interventions": interventions,
        "spent": spent,
        "failures_avoided": avoided,
        "successes_spoiled": spoiled,
        "net_avoided": net,
        "cost_per_avoided_failure": spent / net if net > 0 else None,
        "net_saving": None if failure_cost is None else failure_cost * net - spent,
    }


# -- along all thresholds ---------------------------------------------------------------------------------------------


class _Point(NamedTuple):
    threshold: float | None
    interventions: int
    in_time: float
    successes: float
    in_time_at_random: float
    successes_at_random: float


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
    alarmed = np.array([place < len(peak) for place, peak in zip(places, peaks, strict=True)])
    met = np.array([_met(run, place, notice_turns) for (run, _), place in zip(shown, places, strict=True)])
    succeeded = np.array([not run.failed for run, _ in shown])
    columns = (alarmed.sum(axis=0), met.sum(axis=0), alarmed[succeeded].sum(axis=0))
    chance = float(_by_chance([run for run, _ in shown], notice_turns).mean())
    return [
        _Point(
            threshold if math.isfinite(threshold) else None,
            int(count),
            float(good),
            float(bad),
            chance * int(count),
            float(succeeded.mean()) * int(count),
        )
        for threshold, count, good, bad in zip(thresholds.tolist(), *columns, strict=True)
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


def _point(point: _Point, policy: Policy, failure_cost: float | None) -> CurvePoint:
    avoided, spoiled = policy.rescue * point.in_time_at_random, policy.spoil * point.successes_at_random
    return CurvePoint(
        threshold=point.threshold,
        **_expected(point.interventions, point.in_time, point.successes, policy, failure_cost),
        random_failures_avoided=avoided,
        random_net_avoided=avoided - spoiled,
    )
