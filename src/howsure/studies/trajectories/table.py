"""turns.csv and trajectories.csv: one line a turn, one line a run, for spreadsheets and data frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from howsure.runs.files import write_csv
from howsure.studies.trajectories.scores import Finals, FinalScores
from howsure.studies.trajectories.turns import Trajectory

TURNS, RUNS = "turns.csv", "trajectories.csv"


def write_tables(folder: Path, trajectories: Sequence[Trajectory], scores: FinalScores) -> None:
    """What is missing is an empty cell, with the reason beside it; what is infinite is `inf`."""
    write_csv(folder / TURNS, _Turns(trajectories))
    write_csv(folder / RUNS, [_run(one, scores[place]) for place, one in enumerate(trajectories)])


class _Turns:
    """The rows of all turns, made anew whenever somebody goes through them: held, they would take more room than all
    figures together."""

    def __init__(self, trajectories: Sequence[Trajectory]) -> None:
        self._trajectories = trajectories

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (row for one in self._trajectories for row in _turns(one))


def _turns(one: Trajectory) -> Iterable[dict[str, Any]]:
    for turn in one.turns:
        yield {
            "source": one.source,
            "simulation_id": one.id,
            "turn": turn.number,
            "actor": turn.actor,
            "kind": turn.kind,
            "ui_score": turn.uncertainty_nats,
            "reason": turn.reason,
            "scored_by": turn.scored_by,
            "inquiry_drift": turn.drift,
            "inference_gap": turn.gap,
            **({} if turn.statistics is None else vars(turn.statistics)),
        }


def _run(one: Trajectory, finals: Finals) -> dict[str, Any]:
    row = {
        "source": one.source,
        "simulation_id": one.id,
        "task_id": one.task_id,
        "trial": one.trial,
        "domain": one.domain,
        "agent": one.agent,
        "reward": one.reward,
        "failed": one.failed,
        "turns": len(one.turns),
    }
    scores = {f"{whose}_{name}": s.value for whose, found in finals.items() for name, s in found.items()}
    return row | scores
