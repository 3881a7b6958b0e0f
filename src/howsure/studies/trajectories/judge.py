"""Should they have been sure? Scores, alarms and interventions set against what came of the runs.

Runs are judged in groups of one domain, one agent and one source of scores, since a score of one model means nothing
beside that of another. A group without rewards, or with one outcome only, is counted and not judged. Whatever was
fitted is judged on tasks that it was not fitted on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from howsure.errors import InputError
from howsure.measures import rank_failures, too_few
from howsure.measures.ranking import LEAST_OF_A_CLASS
from howsure.studies.pairs import check_choice
from howsure.studies.sureness import ends
from howsure.studies.trajectories.breakdown import DETECTORS, TURN_COUNT, Detection, Watched, detect
from howsure.studies.trajectories.catches import against
from howsure.studies.trajectories.intervention import MOST_COST, Policy, check_names, replay
from howsure.studies.trajectories.learned import CrossValidated, cross_validate
from howsure.studies.trajectories.learned import Run as LearnedRun
from howsure.studies.trajectories.scores import (
    DISTANCE,
    LEARNED,
    WHOSE,
    Finals,
    FinalScores,
    as_column,
    situation,
    turns_of,
    uncertainties,
)
from howsure.studies.trajectories.turns import Trajectory

Key = tuple[str, str, str]
"""Domain, agent, and who the scores are of."""


class Judging(msgspec.Struct, frozen=True):
    """What is asked of the runs once they are scored."""

    watch: str = "agent"
    false_alarm_rate: float = 0.1
    policies: tuple[Policy, ...] = ()
    intervene_on: str = "cusum"
    notice_turns: int = 1
    failure_cost: float | None = None
    folds: int = 5

    def check(self) -> None:
        """Refuse before the work what would fail after it."""
        check_choice("--watch", self.watch, tuple(WHOSE))
        check_choice("--detector", self.intervene_on, tuple(DETECTORS))
        if not 0.0 < self.false_alarm_rate < 1.0:
            raise InputError(f"--false-alarms must lie between 0 and 1, not {self.false_alarm_rate}")
        if self.notice_turns < 0:
            raise InputError(f"--notice must be 0 or more turns, not {self.notice_turns}")
        if self.failure_cost is not None and not 0 <= self.failure_cost <= MOST_COST:
            raise InputError(f"--failure-cost must be 0 or more and at most {MOST_COST:g}, not {self.failure_cost}")
        if self.folds < 2:
            raise InputError(f"folds must be 2 or more, not {self.folds}")
        check_names(self.policies)


USUAL = Judging()


def judge(
    trajectories: Sequence[Trajectory], scores: FinalScores, judging: Judging, *, seed: int
) -> list[dict[str, Any]]:
    """Every group of comparable runs, largest first."""
    found = grouped([key_of(trajectory) for trajectory in trajectories])
    groups = [(key, {place: trajectories[place] for place in places}) for key, places in found]
    return [_judged(key, runs, scores, judging, seed) for key, runs in groups]


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


def _judged(
    key: Key, runs: Mapping[int, Trajectory], scores: FinalScores, judging: Judging, seed: int
) -> dict[str, Any]:
    """One group; `runs` by their place among all that were read."""
    rewarded = [run for run in runs.values() if run.failed is not None]
    head = _head(key, list(runs.values()), rewarded)
    reason = _why_not(head)
    if reason is not None:
        return head | {"reason": reason, "scores": [], "breakdown": None, "interventions": None}
    watched = [watch(run, judging.watch) for run in rewarded]
    detections = {name: _detect(watched, name, judging, seed) for name in DETECTORS}
    detectors = {name: _detector_row(found, detections[TURN_COUNT]) for name, found in detections.items()}
    places = [place for place, run in runs.items() if run.failed is not None]
    return head | {
        "reason": None,
        "scores": score_table(rewarded, [scores[place] for place in places], judging, seed),
        "breakdown": {
            "watched": judging.watch,
            "false_alarm_rate": judging.false_alarm_rate,
            "marks_before_watch": _marks_before_watch(rewarded, judging.watch),
            "detectors": detectors,
            "alarms": {name: _alarms(found, places, rewarded, judging.watch) for name, found in detections.items()},
        },
        "interventions": _interventions(detections, detectors, judging) if judging.policies else None,
    }


def _head(key: Key, runs: Sequence[Trajectory], rewarded: Sequence[Trajectory]) -> dict[str, Any]:
    domain, agent, scored_by = key
    return {
        "name": ", ".join(part for part in (domain, agent) if part),
        "scored_by": scored_by or None,
        "runs": len(runs),
        "judged": len(rewarded),
        "failures": sum(bool(run.failed) for run in rewarded),
        "tasks": len({task_of(run) for run in rewarded}),
        "reward_missing": dict(sorted(Counter(run.reward_missing or "" for run in runs if run.failed is None).items())),
    }


def _why_not(head: dict[str, Any]) -> str | None:
    if head["scored_by"] is None:
        return "no turn has a score"
    if not head["judged"]:
        return "no run has a reward"
    if head["failures"] in (0, head["judged"]):
        ended = "failed" if head["failures"] else "succeeded"
        runs = f"all {head['judged']} runs" if head["judged"] > 1 else "the only run"
        return f"{runs} {ended}, so that nothing can be told apart"
    return None


# -- scores against failure ----------------------------------------------------------------------------------------


def score_table(
    runs: Sequence[Trajectory], finals: Sequence[Finals], judging: Judging, seed: int
) -> list[dict[str, Any]]:
    """Each score of agent, user and both against failure, and the number of turns as what they have to beat."""
    lengths = [float(len(run.turns)) if run.turns else None for run in runs]
    rows = [_score_row("run", TURN_COUNT, lengths, runs)]
    for whose in WHOSE:
        found = [scores[whose] for scores in finals]
        for name in dict.fromkeys(name for scores in found for name in scores):
            values = [scores[name].value if name in scores else None for scores in found]
            rows.append(_score_row(whose, name, values, runs))
        if any(DISTANCE in scores for scores in found):
            learned = _learned(runs, whose, judging, seed)
            row = _score_row(whose, LEARNED, learned.scores, runs)
            reasons = Counter(reason for reason in learned.reasons if reason is not None)
            rows.append(row | {"missing": dict(sorted(reasons.items()))} | _why_none(row, reasons))
    return rows


def _why_none(row: dict[str, Any], reasons: Counter[str]) -> dict[str, str]:
    """Where nothing was learned, the reason that kept most runs from a score."""
    return {"reason": reasons.most_common(1)[0][0]} if not row["runs"] and reasons else {}


def _learned(runs: Sequence[Trajectory], whose: str, judging: Judging, seed: int) -> CrossValidated:
    """Weights learned on other tasks, for each run."""
    pieces = [
        LearnedRun(uncertainties(turns), situation(turns), bool(run.failed), task_of(run))
        for run in runs
        for turns in [turns_of(run, whose)]
    ]
    return cross_validate(pieces, folds=judging.folds, seed=seed)


def _score_row(whose: str, name: str, values: Sequence[float | None], runs: Sequence[Trajectory]) -> dict[str, Any]:
    """One score; `reason` says why it was not judged, `note` why its AUROC has no interval."""
    column = as_column(values)
    known = ~np.isnan(column)
    failed = np.array([bool(run.failed) for run in runs])[known]
    row: dict[str, Any] = {"whose": whose, "score": name, "runs": int(known.sum()), "failures": int(failed.sum())}
    if not 0 < failed.sum() < len(failed):
        return row | {"auroc": None, "auprc": None, "auarc": None, "reason": _one_outcome(len(failed)), "note": None}
    tasks = np.array([task_of(run) for run in runs])[known]
    ranked = rank_failures(column[known], failed, clusters=tasks)
    areas = {
        name: {"value": area.value, **ends(area.interval)}
        for name, area in (("auroc", ranked.auroc), ("auprc", ranked.auprc), ("auarc", ranked.auarc))
    }
    note = _why_no_interval(tasks, failed) if ranked.auroc.interval is None else None
    return row | areas | {"reason": None, "note": note}


def _one_outcome(runs: int) -> str:
    return "no run has this score" if not runs else "the runs that have this score all ended alike"


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
    return detect(watched, detector=detector, false_alarm_rate=judging.false_alarm_rate, folds=judging.folds, seed=seed)


def _detector_row(detection: Detection, baseline: Detection) -> dict[str, Any]:
    """What a detector was worth, and beside the number of turns; `note` where it does not clearly beat that."""
    found = detection.summary()
    if detection.detector == TURN_COUNT:
        return found | {"against_turn_count": None}
    beside = against(detection, baseline)
    return found | {"against_turn_count": beside | {"note": _why_not_better(detection.detector, beside)}}


def _why_not_better(detector: str, beside: dict[str, Any]) -> str | None:
    name, turns = detector.replace("_", " "), "an alarm at a fixed number of turns"
    if beside["clearly_better"] or not beside["of"]:
        return None
    if beside["low"] is None:
        return f"nobody can say whether {name} beats {turns}: too few tasks"
    if beside["high"] < 0.0:
        return f"{turns} clearly beats {name}"
    return f"{name} does not clearly beat {turns if beside['low'] <= 0.0 else 'chance'}"


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


def _alarms(detection: Detection, places: Sequence[int], runs: Sequence[Trajectory], whose: str) -> list[list[int]]:
    """Every alarm: the place of its run among all that were read, and the turn at which it rang."""
    found = zip(places, runs, detection.verdicts, strict=True)
    return [[place, turns_of(run, whose)[v.alarm].number] for place, run, v in found if v.alarm is not None]


def _marks_before_watch(runs: Sequence[Trajectory], whose: str) -> dict[str, int]:
    """Marks that no watched turn comes before or at, and that no alarm can be compared with, by kind."""
    first = [min((turn.number for turn in turns_of(run, whose)), default=len(run.turns) + 1) for run in runs]
    early = [mark.kind for run, number in zip(runs, first, strict=True) for mark in run.marks if mark.turn < number]
    return dict(sorted(Counter(early).items()))


def _interventions(
    detections: Mapping[str, Detection], detectors: Mapping[str, dict[str, Any]], judging: Judging
) -> dict[str, Any]:
    """`note` says where the alarms that are acted on are no better than the number of turns."""
    chosen = judging.intervene_on
    found = replay(
        detections[chosen], judging.policies, notice_turns=judging.notice_turns, failure_cost=judging.failure_cost
    )
    beside = detectors[chosen]["against_turn_count"]
    return {"detector": chosen, "note": None if beside is None else beside["note"], **found}
