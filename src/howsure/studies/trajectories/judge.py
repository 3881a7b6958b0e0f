"""Should they have been sure? Scores, alarms and interventions set against what came of the runs.

Runs are judged in groups of one domain, one agent and one source of scores, since a score of one model means nothing
beside that of another. A group without rewards, or with one outcome only, is counted and not judged. Whatever was
fitted is judged on tasks that it was not fitted on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from howsure.errors import InputError
from howsure.measures import rank_failures, too_few
from howsure.measures.ranking import LEAST_OF_A_CLASS
from howsure.options import HERE, Opt, Options
from howsure.studies.sureness import ends
from howsure.studies.trajectories.alarm_stats import DetectorStats, against
from howsure.studies.trajectories.breakdown import DETECTORS, TURN_COUNT, Detection, Watched, detect
from howsure.studies.trajectories.intervention import (
    MOST_COST,
    Interventions,
    Policy,
    check_names,
    parse_policy,
    replay,
)
from howsure.studies.trajectories.learned import CrossValidated, cross_validate
from howsure.studies.trajectories.learned import Run as LearnedRun
from howsure.studies.trajectories.scores import (
    DISTANCE,
    LEARNED,
    WHOSE,
    as_column,
    situation,
    turns_of,
    uncertainties,
)
from howsure.studies.trajectories.turns import Trajectory
from howsure.types import Fields

Key = tuple[str, str, str]
"""Domain, agent, and who the scores are of."""

PolicyLike = str | Policy


@dataclass(frozen=True, kw_only=True)
class Judging(Options):
    """What is asked of the runs once they are scored. It changes no sample, and is not in run.json."""

    judge: Annotated[bool, Opt("Set scores and alarms against the rewards in the logs.", identity="no")] = True
    watch: Annotated[str, Opt("Whose turns raise alarms: agent, user or overall.", choices=WHOSE, identity="no")] = (
        "agent"
    )
    false_alarms: Annotated[
        float,
        Opt(
            "Rate of false alarms that thresholds aim at: the share of successful runs with an alarm, on average over "
            "draws of such runs. No guarantee for the runs at hand.",
            check=lambda rate: None if 0.0 < rate < 1.0 else f"must lie between 0 and 1, not {rate}",
            identity="no",
        ),
    ] = 0.1
    policy: Annotated[
        PolicyLike | Sequence[PolicyLike] | None,
        Opt(
            "What to do at an alarm, as name:cost:rescue[:spoil], such as confirm:1:0.3 or handover:10:0.9:0.05: the "
            "chances to rescue a failing run and to spoil one that would have succeeded; may be repeated.",
            identity="no",
        ),
    ] = None
    detector: Annotated[
        str,
        Opt(
            "The alarms that policies act on: threshold, cusum, level_change, or turn_count, the baseline to beat.",
            choices=tuple(DETECTORS),
            identity="no",
        ),
    ] = "cusum"
    failure_cost: Annotated[
        float | None,
        Opt("What a failed run costs, in the unit of the policies' costs.", least=0, most=MOST_COST, identity="no"),
    ] = None
    notice: Annotated[
        int, Opt("Turns that must be left after an alarm for a rescue to be possible.", least=0, identity="no")
    ] = 1
    folds: Annotated[int, HERE] = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_names(self.policies)
        if self.folds < 2:
            raise InputError(f"folds must be 2 or more, not {self.folds}")

    @property
    def policies(self) -> tuple[Policy, ...]:
        given = [self.policy] if isinstance(self.policy, PolicyLike) else self.policy or ()
        return tuple(one if isinstance(one, Policy) else parse_policy(one) for one in given)


class Area(Fields, kw_only=True):
    """An area under a curve, with its interval."""

    value: float | None
    low: float | None
    high: float | None
    level: float | None
    method: str | None
    approximate: bool | None


class ScoreRow(Fields, kw_only=True):
    """One score against failure; `reason` says why it was not judged, `note` why its AUROC has no interval."""

    whose: str
    score: str
    runs: int
    failures: int
    auroc: Area | None
    auprc: Area | None
    auarc: Area | None
    reason: str | None
    note: str | None
    missing: dict[str, int] | msgspec.UnsetType = msgspec.UNSET
    """Of learned weights: why runs have no score."""


class Breakdown(Fields, kw_only=True):
    """When alarms were raised, and what they were worth."""

    watched: str
    false_alarm_rate: float
    marks_before_watch: dict[str, int]
    """Marks that no watched turn comes before or at, and that no alarm can be compared with, by kind."""
    detectors: dict[str, DetectorStats]
    alarms: dict[str, list[list[int]]]
    """Every alarm: the place of its run among all that were read, and the turn at which it was raised."""


class Group(Fields, kw_only=True):
    """Runs of one domain, one agent and one source of scores; `reason` says why they were not judged."""

    name: str
    scored_by: str | None
    runs: int
    judged: int
    failures: int
    tasks: int
    reward_missing: dict[str, int]
    reason: str | None
    scores: list[ScoreRow]
    breakdown: Breakdown | None
    interventions: Interventions | None


def judge(trajectories: Sequence[Trajectory], judging: Judging, *, seed: int) -> list[Group]:
    """Every group of comparable runs, largest first."""
    groups = grouped([key_of(trajectory) for trajectory in trajectories])
    return [_judged(key, {place: trajectories[place] for place in places}, judging, seed) for key, places in groups]


def grouped(keys: Sequence[Key]) -> list[tuple[Key, list[int]]]:
    """Groups with the places of their runs, largest first.

    A run without a single score belongs to those of its domain and agent, if all have one source.
    """
    groups: dict[Key, list[int]] = {}
    for place, key in enumerate(keys):
        groups.setdefault(key, []).append(place)
    for key in [key for key in groups if not key[2]]:
        scored = [other for other in groups if other[:2] == key[:2] and other[2]]
        if len(scored) == 1:
            groups[scored[0]] += groups.pop(key)
    return sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))


def key_of(trajectory: Trajectory) -> Key:
    """The group that a run belongs to."""
    scored_by = sorted({turn.scored_by for turn in trajectory.turns if turn.scored_by})
    return trajectory.domain or trajectory.set_name, trajectory.agent or "", " and ".join(scored_by)


def task_of(trajectory: Trajectory) -> str:
    """Runs of one task belong together: what is known of one says something of the others.

    Where no domain is named, the trials of a task may lie in as many files; without trials a file has its own tasks.
    """
    of = trajectory.domain or (trajectory.set_name if trajectory.trial is None else "")
    return f"{of}/{trajectory.task_id}"


def _judged(key: Key, runs: Mapping[int, Trajectory], judging: Judging, seed: int) -> Group:
    """One group; `runs` by their place among all that were read."""
    domain, agent, scored_by = key
    rewarded = {place: run for place, run in runs.items() if run.failed is not None}
    missing = Counter(run.reward_missing or "" for run in runs.values() if run.failed is None)
    group = Group(
        name=", ".join(part for part in (domain, agent) if part),
        scored_by=scored_by or None,
        runs=len(runs),
        judged=len(rewarded),
        failures=sum(bool(run.failed) for run in rewarded.values()),
        tasks=len({task_of(run) for run in rewarded.values()}),
        reward_missing=dict(sorted(missing.items())),
        reason=None,
        scores=[],
        breakdown=None,
        interventions=None,
    )
    group.reason = _why_not(group)
    if group.reason is None:
        watched = [watch(run, judging.watch) for run in rewarded.values()]
        detections = {name: _detect(watched, name, judging, seed) for name in DETECTORS}
        group.scores = score_table(list(rewarded.values()), judging, seed)
        group.breakdown = _breakdown(detections, rewarded, judging)
        group.interventions = _interventions(detections, group.breakdown, judging) if judging.policies else None
    return group


def _why_not(group: Group) -> str | None:
    if group.scored_by is None:
        return "no turn has a score"
    if not group.judged:
        return "no run has a reward"
    if group.failures in (0, group.judged):
        ended = "failed" if group.failures else "succeeded"
        runs = f"all {group.judged} runs" if group.judged > 1 else "the only run"
        return f"{runs} {ended}, so that nothing can be told apart"
    return None


# -- scores against failure ----------------------------------------------------------------------------------------


def score_table(runs: Sequence[Trajectory], judging: Judging, seed: int) -> list[ScoreRow]:
    """Each score of agent, user and both against failure, and the number of turns as what they have to beat."""
    lengths = [float(len(run.turns)) if run.turns else None for run in runs]
    rows = [_score_row("run", TURN_COUNT, lengths, runs)]
    for whose in WHOSE:
        finals = [run.finals[whose] for run in runs]
        for name in dict.fromkeys(name for scores in finals for name in scores):
            values = [scores[name].value if name in scores else None for scores in finals]
            rows.append(_score_row(whose, name, values, runs))
        if any(DISTANCE in scores for scores in finals):
            learned = _learned(runs, whose, judging, seed)
            row = _score_row(whose, LEARNED, learned.scores, runs)
            reasons = Counter(reason for reason in learned.reasons if reason is not None)
            row.missing = dict(sorted(reasons.items()))
            if not row.runs and reasons:  # nothing was learned: the reason that kept most runs from a score
                row.reason = reasons.most_common(1)[0][0]
            rows.append(row)
    return rows


def _learned(runs: Sequence[Trajectory], whose: str, judging: Judging, seed: int) -> CrossValidated:
    """Weights learned on other tasks, for each run."""
    pieces = [
        LearnedRun(uncertainties(turns), situation(turns), bool(run.failed), task_of(run))
        for run in runs
        for turns in [turns_of(run, whose)]
    ]
    return cross_validate(pieces, folds=judging.folds, seed=seed)


def _score_row(whose: str, name: str, values: Sequence[float | None], runs: Sequence[Trajectory]) -> ScoreRow:
    column = as_column(values)
    known = ~np.isnan(column)
    failed = np.array([bool(run.failed) for run in runs])[known]
    row = ScoreRow(
        whose=whose,
        score=name,
        runs=len(failed),
        failures=int(failed.sum()),
        auroc=None,
        auprc=None,
        auarc=None,
        reason=None,
        note=None,
    )
    if not row.runs:
        row.reason = "no run has this score"
    elif row.failures in (0, row.runs):
        row.reason = "the runs that have this score all ended alike"
    else:
        tasks = np.array([task_of(run) for run in runs])[known]
        ranked = rank_failures(column[known], failed, clusters=tasks)
        row.auroc, row.auprc, row.auarc = (
            Area(value=area.value, **ends(area.interval)) for area in (ranked.auroc, ranked.auprc, ranked.auarc)
        )
        row.note = _why_no_interval(tasks, failed) if ranked.auroc.interval is None else None
    return row


def _why_no_interval(tasks: NDArray[np.str_], failed: NDArray[np.bool_]) -> str | None:
    few = too_few(len(np.unique(tasks)), "tasks")
    if few is not None:
        return few
    counts = ((len(np.unique(tasks[failed])), "failed"), (len(np.unique(tasks[~failed])), "succeeded"))
    count, ended = min(counts)
    shown = f"{count} task{'' if count == 1 else 's'} with a run that {ended}"
    return f"no interval: {shown}, and it takes at least {LEAST_OF_A_CLASS}"


# -- alarms --------------------------------------------------------------------------------------------------------


def _detect(watched: Sequence[Watched], detector: str, judging: Judging, seed: int) -> Detection:
    return detect(watched, detector=detector, false_alarm_rate=judging.false_alarms, folds=judging.folds, seed=seed)


def _breakdown(detections: Mapping[str, Detection], runs: Mapping[int, Trajectory], judging: Judging) -> Breakdown:
    """What each detector was worth, also beside the number of turns."""
    detectors = {name: detection.summary() for name, detection in detections.items()}
    for name, stats in detectors.items():
        if name != TURN_COUNT:
            stats.against_turn_count = against(detections[name], detections[TURN_COUNT])
    return Breakdown(
        watched=judging.watch,
        false_alarm_rate=judging.false_alarms,
        marks_before_watch=_marks_before_watch(list(runs.values()), judging.watch),
        detectors=detectors,
        alarms={name: _alarms(detection, runs, judging.watch) for name, detection in detections.items()},
    )


def watch(run: Trajectory, whose: str) -> Watched:
    """A run as a detector sees it: the turns of those who are watched, and where something went wrong."""
    turns = turns_of(run, whose)
    numbers = np.array([turn.number for turn in turns], dtype=np.int64)
    places = np.searchsorted(numbers, [mark.turn for mark in run.marks], side="right") - 1
    marks: dict[str, set[int]] = {}
    for mark, at in zip(run.marks, places.tolist(), strict=True):
        if at >= 0:
            marks.setdefault(mark.kind, set()).add(at)
    return Watched(
        uncertainty=uncertainties(turns),
        turns_after=len(run.turns) - numbers,
        failed=bool(run.failed),
        task=task_of(run),
        marks={kind: tuple(sorted(places)) for kind, places in marks.items()},
    )


def _alarms(detection: Detection, runs: Mapping[int, Trajectory], whose: str) -> list[list[int]]:
    rows = zip(runs.items(), detection.verdicts, strict=True)
    return [[place, turns_of(run, whose)[v.alarm].number] for (place, run), v in rows if v.alarm is not None]


def _marks_before_watch(runs: Sequence[Trajectory], whose: str) -> dict[str, int]:
    first = [min((turn.number for turn in turns_of(run, whose)), default=len(run.turns) + 1) for run in runs]
    early = [mark.kind for run, number in zip(runs, first, strict=True) for mark in run.marks if mark.turn < number]
    return dict(sorted(Counter(early).items()))


def _interventions(detections: Mapping[str, Detection], breakdown: Breakdown, judging: Judging) -> Interventions:
    replayed = replay(
        detections[judging.detector],
        judging.policies,
        notice_turns=judging.notice,
        failure_cost=judging.failure_cost,
    )
    beside = breakdown.detectors[judging.detector].against_turn_count
    replayed.note = None if beside is None else beside.note
    return replayed
