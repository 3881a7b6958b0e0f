"""Step 2 as a document and as tables: every turn with its U_i, every simulation with its means.

The field names are those that analysis scripts of τ² runs already use; what they have no field for stands beside them.
A turn without a score has `ui_score: null` and a `reason`.

A turn that holds a token of probability zero has a score, and it is infinite. It counts as scored, everywhere; JSON,
which has no infinity, says `ui_score: null, infinite: true`. Means and standard deviations are over the other turns,
and say how many they leave out. Whatever only ranks (scores against failure, alarms, maxima) takes it as the highest.
"""

from __future__ import annotations

import io
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import msgspec

from howsure.runs.files import to_json, write_csv
from howsure.studies.summary import Coverage
from howsure.studies.trajectories.scores import propagation_row
from howsure.studies.trajectories.turns import IMPOSSIBLE, Actor, Loaded, Trajectory, Turn

TURNS, RUNS = "turns.csv", "trajectories.csv"
PREVIEW_CHARACTERS = 100
NAMED_SETS = 5


def document(loaded: Sequence[Loaded], trajectories: Sequence[Trajectory], *, verbose: bool = False) -> dict[str, Any]:
    """Everything that was read, as JSON-safe data; `verbose` adds the statistics of each turn."""
    rows = [simulation_row(trajectory, verbose=verbose) for trajectory in trajectories]
    return {"metadata": metadata(loaded, trajectories), "results": rows}


def metadata(loaded: Sequence[Loaded], trajectories: Sequence[Trajectory]) -> dict[str, Any]:
    return {
        "source_file": _source([one for one in loaded if one.trajectories]),
        "total_simulations": len(trajectories),
        "source_files": [one.source for one in loaded if one.trajectories],
        "coverage": coverage(trajectories).text,
        "unit": "nats",
    }


class Rows(Sequence[dict[str, Any]]):
    """The runs as rows of the document, with what their turns come to (step 3).

    Rows take far more memory than the figures that they are made of, so each is made when somebody asks for it.
    """

    def __init__(self, trajectories: Sequence[Trajectory], *, verbose: bool = False) -> None:
        self._trajectories = trajectories
        self.verbose = verbose

    def __len__(self) -> int:
        return len(self._trajectories)

    @overload
    def __getitem__(self, place: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, place: slice) -> list[dict[str, Any]]: ...

    def __getitem__(self, place: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(place, slice):
            return [self._row(at) for at in range(len(self))[place]]
        return self._row(range(len(self))[place])

    def _row(self, place: int) -> dict[str, Any]:
        one = self._trajectories[place]
        row = simulation_row(one, verbose=self.verbose)
        return row | {"propagation": propagation_row(one, verbose=self.verbose)}


def as_json(head: dict[str, Any], rows: Iterable[dict[str, Any]]) -> bytes:
    """A document as `to_json` writes it with an indentation of 2, of which one row at a time is held as data."""
    empty = to_json({"metadata": head, "results": []}, indent=2)
    text = io.BytesIO()
    text.write(empty.removesuffix(b"]\n}"))
    between = b"\n    "
    for row in rows:
        text.write(between + to_json(row, indent=2).replace(b"\n", b"\n    "))
        between = b",\n    "
    text.write(b"]\n}\n" if between == b"\n    " else b"\n  ]\n}\n")
    return text.getvalue()


def _source(loaded: Sequence[Loaded]) -> str:
    """The time stamp of one set of results, in one file or in parts; otherwise the names of the sets, or of the first.

    All are in `source_files`.
    """
    sets = dict.fromkeys(one.trajectories[0].set_name or one.source for one in loaded)
    stamps = {one.timestamp for one in loaded}
    stamp = stamps.pop() if len(sets) == len(stamps) == 1 else None
    names = [Path(name).name for name in sets]
    others = len(names) - NAMED_SETS
    return stamp or ", ".join(names[:NAMED_SETS]) + (f" and {others:,} more" if others > 0 else "")


def simulation_row(trajectory: Trajectory, *, verbose: bool = False) -> dict[str, Any]:
    return {
        "simulation_id": trajectory.id,
        "task_id": trajectory.task_id,
        "trial": trajectory.trial,
        "source": trajectory.source,
        "reward": trajectory.reward,
        "reward_missing": trajectory.reward_missing,
        "termination_reason": trajectory.termination,
        "unsupported": trajectory.unsupported,
        "turn_count": len(trajectory.turns),
        "uncertainty_scores": [turn_row(turn, verbose=verbose) for turn in trajectory.turns],
        "summary": simulation_summary(trajectory),
    }


def turn_row(turn: Turn, *, verbose: bool = False) -> dict[str, Any]:
    row: dict[str, Any] = {
        "turn": turn.number,
        "actor": turn.actor,
        "role": turn.role,
        "ui_score": finite(turn.uncertainty_nats),
        "content_preview": preview(turn),
        "kind": turn.kind,
        "message_index": turn.message_index,
    }
    if turn.uncertainty_nats == math.inf:
        row["infinite"] = True
    optional = {"reason": turn.reason, "detail": turn.detail, "inquiry_drift": turn.drift, "inference_gap": turn.gap}
    row |= {name: value for name, value in optional.items() if value is not None}
    if turn.control:
        row["control_words"] = list(turn.control)
    if turn.scored_by not in (None, "log"):
        row["scored_by"] = turn.scored_by
    if verbose:
        row["statistics"] = None if turn.statistics is None else dict(vars(turn.statistics))
    if turn.tokens is not None:
        row["tokens"] = msgspec.to_builtins(turn.tokens)
    return row


def simulation_summary(trajectory: Trajectory) -> dict[str, Any]:
    turns = trajectory.turns
    counted = coverage([trajectory])
    everyone = scores_of(turns)
    return {
        "mean_uncertainty_overall": mean(everyone),
        "mean_uncertainty_agent": mean(scores_of(turns, "agent")),
        "mean_uncertainty_user": mean(scores_of(turns, "user")),
        "max_uncertainty_overall": finite(max(everyone, default=None)),
        "agent_turn_count": sum(turn.actor == "agent" for turn in turns),
        "user_turn_count": sum(turn.actor == "user" for turn in turns),
        "tool_call_turn_count": sum(turn.kind == "tool_call" for turn in turns),
        "scored_turn_count": counted.scored,
        "infinite_turns": {
            "overall": infinite(everyone),
            "agent": infinite(scores_of(turns, "agent")),
            "user": infinite(scores_of(turns, "user")),
        },
        "missing": counted.missing,
        "skipped_messages": trajectory.skipped,
    }


def coverage(trajectories: Iterable[Trajectory]) -> Coverage:
    """How many turns have a score, infinite ones among them, and why the others have none."""
    turns = [turn for trajectory in trajectories for turn in trajectory.turns]
    missing = missing_turns(turns)
    return Coverage(len(turns), len(turns) - sum(missing.values()), dict(sorted(missing.items())))


def missing_turns(turns: Iterable[Turn]) -> Counter[str]:
    """Why turns have no score, with counts."""
    return Counter(turn.reason for turn in turns if turn.reason is not None and turn.reason != IMPOSSIBLE)


def scores_of(turns: Iterable[Turn], actor: Actor | None = None) -> list[float]:
    """The known U_i, infinite ones among them."""
    wanted = [turn.uncertainty_nats for turn in turns if actor is None or turn.actor == actor]
    return [value for value in wanted if value is not None]


def left_out(turns: int) -> str | None:
    """What a mean says of the infinite turns that it is not over; nothing where there are none."""
    return f"without {turns:,} turn{'' if turns == 1 else 's'} of infinite U" if turns else None


def preview(turn: Turn) -> str:
    """The beginning of a message, or of the calls that are all of it; that of a preview is itself."""
    text = (turn.content if turn.content.strip() else turn.text)[:PREVIEW_CHARACTERS]
    return text if text.strip() else ""


def mean(values: Sequence[float]) -> float | None:
    """Of the finite ones; `infinite` counts the others."""
    known = [value for value in values if math.isfinite(value)]
    return math.fsum(known) / len(known) if known else None


def infinite(values: Sequence[float]) -> int:
    return sum(value == math.inf for value in values)


def finite(value: float | None) -> float | None:
    """JSON has no infinity; what is infinite says so beside it."""
    return value if value is not None and math.isfinite(value) else None


# -- tables for spreadsheets and data frames ------------------------------------------------------------------------


def write_tables(folder: Path, trajectories: Sequence[Trajectory]) -> None:
    """One line per turn, and one per run. What is missing is an empty cell, with the reason beside it; what is infinite
    is `inf`."""
    write_csv(folder / TURNS, _Turns(trajectories))
    write_csv(folder / RUNS, [_run(one) for one in trajectories])


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


def _run(one: Trajectory) -> dict[str, Any]:
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
    scores = {f"{whose}_{name}": s.value for whose, scores in one.finals.items() for name, s in scores.items()}
    return row | scores
