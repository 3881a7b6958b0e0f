"""The summary of a study of trajectories: how sure they were, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from howsure.measures import mean_interval, too_few
from howsure.studies.summary import Figure, Summary
from howsure.studies.trajectories.document import coverage, finite, infinite, left_out, scores_of
from howsure.studies.trajectories.judge import Group, Judging, judge, task_of
from howsure.studies.trajectories.scores import ADAPTED
from howsure.studies.trajectories.turns import IMPOSSIBLE, Problem, Trajectory
from howsure.types import Fields

MEANINGS = {"agent": "agent reasoning uncertainty", "user": "user confusion"}
SHOWN_PROBLEMS = 1000
"""Sentences that a summary holds; the rest are counted."""


class Statistics(Fields, kw_only=True):
    """Mean and population standard deviation of the finite U_i, least and most of all; None where there is none.

    The most is None where it is infinite, which `infinite_turns` tells.
    """

    turns: int
    infinite_turns: int
    mean: float | None
    std: float | None
    min: float | None
    max: float | None


class TrajectoriesSummary(Summary, kw_only=True):
    """How sure agent and user were, and every group judged, if that is wanted."""

    simulations: int
    statistics: dict[str, Statistics]
    """Of agent and user."""
    messages: dict[str, int]
    """Turns of either, and what is no turn, by its role."""
    groups: list[Group]
    problems: list[str]
    problem_counts: dict[str, int]


def summarise(
    trajectories: Sequence[Trajectory],
    problems: Sequence[Problem],
    notes: Sequence[str],
    judging: Judging,
    *,
    seed: int,
) -> TrajectoriesSummary:
    """Means of agent and user with intervals clustered by task, and every group judged, if that is wanted."""
    counts: Counter[str] = Counter()
    for problem in problems:
        counts[problem.reason] += problem.count  # a sentence may stand for many
    return TrajectoriesSummary(
        study="trajectories",
        coverage=coverage(trajectories),
        headline=[_mean(trajectories, actor, name) for actor, name in MEANINGS.items()],
        notes=[*_notes(trajectories, problems), *notes],
        simulations=len(trajectories),
        statistics={actor: _statistics(trajectories, actor) for actor in MEANINGS},
        messages=_messages(trajectories),
        groups=judge(trajectories, judging, seed=seed) if judging.judge else [],
        problems=[problem.sentence for problem in problems[:SHOWN_PROBLEMS]],
        problem_counts=dict(sorted(counts.items())),
    )


def _statistics(trajectories: Sequence[Trajectory], actor: Any) -> Statistics:
    values = [value for one in trajectories for value in scores_of(one.turns, actor)]
    column = np.array(values, dtype=np.float64)
    known = column[np.isfinite(column)]
    return Statistics(
        turns=len(values),
        infinite_turns=infinite(values),
        mean=float(known.mean()) if len(known) else None,
        std=float(known.std()) if len(known) else None,
        min=finite(min(values, default=None)),
        max=finite(max(values, default=None)),
    )


def _mean(trajectories: Sequence[Trajectory], actor: Any, name: str) -> Figure:
    """Over the finite turns of an actor; tasks are the independent units."""
    pairs = [(value, task_of(one)) for one in trajectories for value in scores_of(one.turns, actor)]
    known = [(value, task) for value, task in pairs if np.isfinite(value)]
    values, tasks = [value for value, _ in known], [task for _, task in known]
    notes = [_proxies(trajectories, actor), left_out(infinite([value for value, _ in pairs]))]
    interval = mean_interval(values, clusters=tasks, least=0.0)
    if values and interval is None:
        notes.append(too_few(len(set(tasks)), "tasks") or "no interval: all are alike")
    if values and not any(values):
        notes.append("providers write 0 where they have no log-probabilities")
    return Figure.of(
        f"{name}, mean U",
        float(np.mean(values)) if values else None,
        "nats",
        interval,
        "; ".join(note for note in notes if note) or None,
        "surprisal of a token in these turns: 0 is certain, 0.7 a coin toss each time",
    )


def _proxies(trajectories: Sequence[Trajectory], actor: Any) -> str | None:
    """Whose surprise it is, where another model than the writer read the conversations."""
    readers = Counter(
        turn.scored_by for one in trajectories for turn in one.turns if turn.actor == actor and turn.scored_by
    )
    logged = readers.pop("log", 0)
    if not readers:
        return None
    words = f"proxy: {' and '.join(sorted(readers))}'s surprise"
    return f"{words} in {readers.total():,} of {logged + readers.total():,} turns" if logged else words


def _messages(trajectories: Sequence[Trajectory]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for one in trajectories:
        counts.update(f"{turn.actor}_turns" for turn in one.turns)
        counts.update({f"{role}_messages": count for role, count in one.skipped.items()})
    return {"total": sum(counts.values()), **dict(sorted(counts.items()))}


def _notes(trajectories: Sequence[Trajectory], problems: Sequence[Problem]) -> list[str]:
    notes = [*_about_scores(trajectories), *_about_turns(trajectories), *_about_copies(trajectories)]
    if len(problems) > SHOWN_PROBLEMS:
        notes.append(f"{len(problems) - SHOWN_PROBLEMS:,} more sentences about problems are not listed")
    return notes


def _about_scores(trajectories: Sequence[Trajectory]) -> Iterator[str]:
    """Whose scores they are, if there are any."""
    sources = {turn.scored_by for one in trajectories for turn in one.turns if turn.scored_by}
    if not sources:
        yield (
            "these logs hold no log-probabilities: docs/trajectories.md tells how τ² keeps them, and --score-with "
            "smollm2 lets a local model read the conversations"
        )
    if readers := sorted(sources - {"log"}):
        yield (
            f"proxy scores: {' and '.join(readers)} read the conversations again, and U is its surprise, not the "
            "writers' own doubt"
        )
    if any(turn.drift is not None or turn.gap is not None for one in trajectories for turn in one.turns):
        yield ADAPTED
    long = sum(one.read_again is not None and (one.read_again.windows or 1) > 1 for one in trajectories)
    if long:
        are, were = ("is", "was") if long == 1 else ("are", "were")
        yield (
            f"{long} of {len(trajectories)} conversations {are} longer than the model's window, and {were} read in "
            "windows that overlap"
        )


def _about_turns(trajectories: Sequence[Trajectory]) -> Iterator[str]:
    impossible = sum(turn.reason == IMPOSSIBLE for one in trajectories for turn in one.turns)
    if impossible:
        what = "turn holds" if impossible == 1 else "turns hold"
        yield (
            f"{impossible:,} {what} a token of probability zero (−9999 or −inf in the log): it is scored, and U is "
            "infinite. Means are over the other turns; scores against failure and alarms take it as the highest"
        )
    certain = _suspiciously_certain(trajectories)
    if certain:
        what = "turn has" if certain == 1 else "turns have"
        yield (
            f"{certain:,} {what} probability 1 at every token: some providers write 0 where they have no "
            "log-probabilities, so check before you trust these"
        )


def _about_copies(trajectories: Sequence[Trajectory]) -> Iterator[str]:
    """One run in two files, as when results were copied and gone on with, would count twice."""
    known = Counter(
        (one.id, task_of(one), one.trial, *(turn.content for turn in one.turns)) for one in trajectories if one.turns
    )
    copies = sum(count - 1 for count in known.values())
    if copies:
        what = "run is a copy" if copies == 1 else "runs are copies"
        yield f"{copies:,} {what} of another (same id, task and words) and counted beside it: leave one of them out"


def _suspiciously_certain(trajectories: Sequence[Trajectory]) -> int:
    """Turns without the least doubt, if they are most of those that are scored; a few of them are nothing unusual."""
    scored = [turn.statistics for one in trajectories for turn in one.turns if turn.statistics is not None]
    certain = sum(each.total_entropy == 0.0 for each in scored)
    return certain if certain > len(scored) / 2 else 0
