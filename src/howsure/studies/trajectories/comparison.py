"""Two runs over the same tasks: how much more often B solves them, in how many turns, and how sure its agent was.

Tasks are paired by domain and id, whoever the agents are, and are the units of everything: a task counts by the mean of
its trials, so that ten trials tell no more of other tasks than one. A missing reward is missing. Uncertainty is
compared only where one model gave the scores of both runs, since a score of one model means nothing beside that of
another; how well it foretells failure is a matter of ranks within a run, and is compared in any case.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from howsure.measures import (
    ScoredItems,
    auroc_difference_interval,
    mcnemar_exact,
    paired_means,
    paired_rates,
    rank_failures,
    too_few,
)
from howsure.runs import Run, Sample
from howsure.studies.comparing import (
    Comparison,
    McNemar,
    PairedFigure,
    Side,
    paired_figure,
    read_side,
    refuse_other_data,
)
from howsure.studies.summary import Coverage
from howsure.studies.sureness import LEVEL, ends
from howsure.studies.trajectories.document import infinite, mean, scores_of
from howsure.studies.trajectories.judge import Area, key_of
from howsure.studies.trajectories.turns import Actor, Trajectory
from howsure.types import Fields

NAMED_TASKS = 5
"""In a note; all of them are in `unpaired`."""

TrajectoriesRun = Side[Trajectory]
Task = tuple[str, str]
"""Domain and id."""
Trials = list[Sample[Trajectory]]
Floats = NDArray[np.float64]


class TrajectoriesSide(Fields, kw_only=True):
    """The figures of one run, over all of its tasks."""

    run: str
    model: str | None
    """Who read the conversations, where they were read again."""
    agents: list[str]
    scored_by: list[str]
    trajectory_count: int
    task_count: int
    judged_count: int
    """Trajectories that have a reward."""
    solved_count: int
    success_rate: float | None
    mean_turns: float | None
    coverage: Coverage
    notes: list[str]


class AurocDifference(Fields, kw_only=True):
    """How well the agent's mean U tells failures from successes, in A, in B, and how much better in B."""

    a: Area
    b: Area
    difference: float | None
    low: float | None
    high: float | None
    level: float | None
    method: str | None
    approximate: bool | None
    tasks: int
    note: str | None


class DomainDifference(Fields, kw_only=True):
    domain: str
    success_rate: PairedFigure | None


class Flip(Fields, kw_only=True):
    """A task that one run solves more often than the other."""

    id: str
    domain: str
    task_id: str
    opening: str | None
    solved_a: int
    judged_a: int
    solved_b: int
    judged_b: int
    moved: float
    """Its success rate in B minus that in A."""
    turns_a: float | None
    turns_b: float | None
    sample_a: str
    """The trial to look at: one that was solved where the other run fails, one that failed where it succeeds."""
    sample_b: str


class Flips(Fields, kw_only=True):
    """The farthest moved first."""

    lost: list[Flip]
    won: list[Flip]


class Unpaired(Fields, kw_only=True):
    """Tasks that are in no figure of success, by why."""

    only_in_a: list[str]
    only_in_b: list[str]
    not_judged: list[str]
    """In both, but without a reward in one of them."""


class TrajectoriesDifference(Fields, kw_only=True):
    """B − A, over the tasks that both runs have."""

    paired_count: int
    trial_count: int
    """The most trials that a task has in either run."""
    unpaired: Unpaired
    success_rate: PairedFigure | None
    mcnemar: McNemar | None
    """Where every task has one trial in each run."""
    turns: PairedFigure | None
    agent_uncertainty_nats: PairedFigure | None
    user_uncertainty_nats: PairedFigure | None
    auroc: AurocDifference | None
    domains: list[DomainDifference]
    """Where there are several."""
    flips: Flips


class TrajectoriesComparison(Comparison, kw_only=True):
    a: TrajectoriesSide
    b: TrajectoriesSide
    difference: TrajectoriesDifference
    notes: list[str]


class Both(NamedTuple):
    """A task and its trials in both runs."""

    task: Task
    a: Trials
    b: Trials

    @property
    def label(self) -> str:
        return "/".join(part for part in self.task if part)


def compare(run_a: Run, run_b: Run) -> TrajectoriesComparison:
    a, b = (read_side(run, "trajectories", Trajectory, "trajectories") for run in (run_a, run_b))
    first, second = by_task(a.samples), by_task(b.samples)
    both = [Both(task, trials, second[task]) for task, trials in first.items() if task in second]
    if not both:
        refuse_other_data(a, b, "tasks", "no task is in both")
    judged = [one for one in both if _rate(one.a) is not None and _rate(one.b) is not None]
    mean_u = {actor: _uncertainty(both, actor, a, b) for actor in ("agent", "user")}
    auroc = _auroc(judged)
    flipped = sorted(filter(None, map(_flip, judged)), key=lambda flip: -abs(flip.moved))
    domains: dict[str, list[Both]] = {}
    for one in judged:
        domains.setdefault(one.task[0], []).append(one)
    difference = TrajectoriesDifference(
        paired_count=len(both),
        trial_count=max(len(trials) for one in both for trials in (one.a, one.b)),
        unpaired=Unpaired(
            only_in_a=[Both(task, [], []).label for task in first if task not in second],
            only_in_b=[Both(task, [], []).label for task in second if task not in first],
            not_judged=[one.label for one in both if one not in judged],
        ),
        success_rate=_success(judged),
        mcnemar=_mcnemar(judged),
        turns=_means(both, _turns),
        agent_uncertainty_nats=mean_u["agent"][0],
        user_uncertainty_nats=mean_u["user"][0],
        auroc=auroc[0],
        domains=[DomainDifference(domain=name, success_rate=_success(some)) for name, some in sorted(domains.items())]
        if len(domains) > 1
        else [],
        flips=Flips(lost=[one for one in flipped if one.moved < 0], won=[one for one in flipped if one.moved > 0]),
    )
    why = {f"mean U of the {actor}": reason for actor, (_, reason) in mean_u.items()}
    why["AUROC of the agent's mean U"] = auroc[1]
    return TrajectoriesComparison(
        study="trajectories",
        a=_about(a, first),
        b=_about(b, second),
        difference=difference,
        notes=[
            *_notes(a, b, both, difference),
            *(f"{name} is not compared: {one}" for name, one in why.items() if one),
        ],
    )


def by_task(samples: Sequence[Sample[Trajectory]]) -> dict[Task, Trials]:
    """Trials by their task. Where no domain is named, its id is all that there is to pair by."""
    tasks: dict[Task, Trials] = {}
    for sample in samples:
        tasks.setdefault((sample.result.domain or "", sample.result.task_id), []).append(sample)
    return tasks


def _about(side: TrajectoriesRun, tasks: dict[Task, Trials]) -> TrajectoriesSide:
    runs = [sample.result for sample in side.samples]
    rates = [rate for trials in tasks.values() if (rate := _rate(trials)) is not None]
    turns = [count for trials in tasks.values() if (count := _turns(trials)) is not None]
    judged = [one for one in runs if one.failed is not None]
    return TrajectoriesSide(
        run=str(side.run.path),
        model=None if side.model == "log" else side.model,
        agents=sorted({one.agent for one in runs if one.agent}),
        scored_by=sorted({turn.scored_by for one in runs for turn in one.turns if turn.scored_by}),
        trajectory_count=len(runs),
        task_count=len(tasks),
        judged_count=len(judged),
        solved_count=sum(not one.failed for one in judged),
        success_rate=mean(rates),
        mean_turns=mean(turns),
        coverage=side.summary.coverage,
        notes=side.summary.notes,
    )


# -- what a task comes to in one run ----------------------------------------------------------------------------------


def _judged(trials: Trials) -> Trials:
    return [one for one in trials if one.result.failed is not None]


def _rate(trials: Trials) -> float | None:
    """How often it was solved, of the trials that have a reward."""
    return mean([float(not one.result.failed) for one in _judged(trials)])


def _turns(trials: Trials) -> float | None:
    return mean([float(len(one.result.turns)) for one in trials if one.result.turns])


def _mean_u(trials: Trials, actor: Actor) -> float | None:
    """The mean of its trials' means over finite turns."""
    means = [mean(scores_of(one.result.turns, actor)) for one in trials]
    return mean([value for value in means if value is not None])


# -- what changed -----------------------------------------------------------------------------------------------------


def _success(judged: Sequence[Both]) -> PairedFigure | None:
    a, b = (np.array([_rate(side) for side in sides], dtype=np.float64) for sides in _sides(judged))
    trials = [min(len(_judged(one.a)), len(_judged(one.b))) for one in judged]
    return paired_figure(a, b, paired_rates(a, b, trials, level=LEVEL), len(judged), "tasks")


def _sides(tasks: Sequence[Both]) -> tuple[list[Trials], list[Trials]]:
    return [one.a for one in tasks], [one.b for one in tasks]


def _mcnemar(judged: Sequence[Both]) -> McNemar | None:
    if not judged or any(len(_judged(side)) != 1 for one in judged for side in (one.a, one.b)):
        return None
    a, b = ([not side[0].result.failed for side in map(_judged, sides)] for sides in _sides(judged))
    return McNemar(**asdict(mcnemar_exact(a, b)))


def _means(tasks: Sequence[Both], figure: Callable[[Trials], float | None]) -> PairedFigure | None:
    """Over the tasks of which both runs have it."""
    pairs = [(figure(one.a), figure(one.b)) for one in tasks]
    a, b = np.array([pair for pair in pairs if None not in pair], dtype=np.float64).reshape(-1, 2).T
    return paired_figure(a, b, paired_means(a, b, level=LEVEL), len(a), "tasks")


def _uncertainty(
    both: Sequence[Both], actor: Actor, a: TrajectoriesRun, b: TrajectoriesRun
) -> tuple[PairedFigure | None, str | None]:
    """The difference of mean U, or why there is none."""
    why = _not_one_model(both, actor, a, b)
    return (_means(both, lambda trials: _mean_u(trials, actor)), None) if why is None else (None, why)


def _not_one_model(both: Sequence[Both], actor: Actor, a: TrajectoriesRun, b: TrajectoriesRun) -> str | None:
    """Why the scores of both runs are not those of one model; None where they are."""
    sides = [[one.result for trials in side for one in trials] for side in _sides(both)]
    readers = [{t.scored_by for one in runs for t in one.turns if t.actor == actor and t.scored_by} for runs in sides]
    without = [name for name, some in zip("AB", readers, strict=True) if not some]
    if without:
        return f"no turn of the {actor} has a score in {' and '.join(without)}"
    other = "a score of one model means nothing beside that of another"
    if any(some != {"log"} for some in readers):
        names = [" and ".join(sorted(filter(None, some))) for some in readers]
        if readers[0] != readers[1] or len(readers[0]) > 1:
            return f"scored by {names[0]} in A and by {names[1]} in B, and {other}"
        ways = [(side.run.manifest.identity.model, *map(side.options.get, ("window", "stride"))) for side in (a, b)]
        return None if ways[0] == ways[1] else f"{names[0]} is not the same model in both, or read in other windows"
    if actor == "user":
        return f"the scores are the users' own, and the logs do not say which model the user was: {other}"
    agents = [{one.agent or "an unnamed agent" for one in runs} for runs in sides]
    if agents[0] == agents[1] and len(agents[0]) == 1 and agents[0] != {"an unnamed agent"}:
        return None
    names = [" and ".join(sorted(some)) for some in agents]
    return f"the scores are the agents' own, of {names[0]} in A and of {names[1]} in B, and {other}"


def _auroc(judged: Sequence[Both]) -> tuple[AurocDifference | None, str | None]:
    """Of the runs that have a reward and a score, or why there is none."""
    scored = []
    for name, sides in zip("AB", _sides(judged), strict=True):
        rows = [
            (value, float(bool(one.result.failed)), place, key_of(one.result))
            for place, trials in enumerate(sides)
            for one in _judged(trials)
            if (value := one.result.finals["agent"]["mean"].value) is not None
        ]
        if not rows:
            return None, f"no run of {name} has both a reward and a score of its agent"
        if len({key for *_, key in rows}) > 1:
            return None, f"{name} holds several domains, agents or readers, whose scores are not on one scale"
        scored.append(ScoredItems(*zip(*(row[:3] for row in rows), strict=True)))
    areas = [rank_failures(one.score, one.positive, clusters=one.unit, level=LEVEL).auroc for one in scored]
    first, second = areas[0].value, areas[1].value
    alike = [name for name, area in zip("AB", areas, strict=True) if area.value is None]
    if first is None or second is None:
        return None, f"all runs of {' and '.join(alike)} that have a score ended alike"
    interval = auroc_difference_interval(*scored, level=LEVEL)
    why = (
        None if interval else "no interval: it takes at least 5 tasks, and 3 with a failure and with a success in each"
    )
    return AurocDifference(
        a=Area(value=first, **ends(areas[0].interval)),
        b=Area(value=second, **ends(areas[1].interval)),
        difference=second - first,
        **ends(interval),
        tasks=len({place for one in scored for place in np.asarray(one.unit).tolist()}),
        note=why,
    ), None


def _flip(one: Both) -> Flip | None:
    """None for a task that is solved as often in both."""
    before, after = _rate(one.a), _rate(one.b)
    assert before is not None
    assert after is not None
    if math.isclose(before, after):
        return None
    a, b = _judged(one.a), _judged(one.b)
    won = after > before
    return Flip(
        id=one.label,
        domain=one.task[0],
        task_id=one.task[1],
        opening=next((each.result.opening for each in (*a, *b) if each.result.opening), None),
        solved_a=sum(not each.result.failed for each in a),
        judged_a=len(a),
        solved_b=sum(not each.result.failed for each in b),
        judged_b=len(b),
        moved=after - before,
        turns_a=_turns(one.a),
        turns_b=_turns(one.b),
        sample_a=next(each.id for each in a if bool(each.result.failed) == won),
        sample_b=next(each.id for each in b if bool(each.result.failed) != won),
    )


# -- what a reader must know ------------------------------------------------------------------------------------------


def _notes(
    a: TrajectoriesRun, b: TrajectoriesRun, both: Sequence[Both], found: TrajectoriesDifference
) -> Iterator[str]:
    if a.run.path.resolve() == b.run.path.resolve():
        yield "both are the same run"
    unpaired = found.unpaired
    for where, names in (("in A alone", unpaired.only_in_a), ("in B alone", unpaired.only_in_b)):
        if names:
            yield f"{_tasks(names)} {where}, and in no figure of both: {_named(names)}"
    if unpaired.not_judged:
        names = unpaired.not_judged
        yield f"{_tasks(names)} in both, but without a reward in one of them, and in no success rate: {_named(names)}"
    sides = [[one.result for trials in side for one in trials] for side in _sides(both)]
    for name, runs in zip("AB", sides, strict=True):
        agents = sorted({one.agent for one in runs if one.agent})
        if len(agents) > 1:
            yield f"the runs of {name} are of {len(agents)} agents, taken together: {_named(agents)}"
    if found.trial_count > 1:
        yield "tasks have several trials: a task counts by their mean, and tasks are the units of all intervals"
    if not all(one.task[0] for one in both):
        yield "logs without a domain: their tasks are paired by id alone"
    turns = [infinite([u for one in runs for u in scores_of(one.turns)]) for runs in sides]
    if any(turns):
        yield f"turns of infinite U are in no mean: {turns[0]:,} in A, {turns[1]:,} in B"
    few = too_few(found.paired_count - len(unpaired.not_judged), "tasks")
    if few:
        yield few


def _tasks(names: Sequence[Any]) -> str:
    return "1 task is" if len(names) == 1 else f"{len(names):,} tasks are"


def _named(names: Sequence[str]) -> str:
    more = len(names) - NAMED_TASKS
    return ", ".join(names[:NAMED_TASKS]) + (f" and {more:,} more" if more > 0 else "")
