"""Step 3: what the turns so far say of the whole run, for the agent, the user, and both together.

Each score has a running value after every turn and a final one. `distance` weighs a turn by D_a + D_o; the learned
weights are made where there are rewards to learn from (`learned.py`), and are judged only on tasks they never saw.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from howsure.measures import PROPAGATIONS, Final, final_value, running_weighted

if TYPE_CHECKING:
    from howsure.studies.trajectories.turns import Trajectory, Turn

Array = NDArray[np.float64]

WHOSE = ("agent", "user", "overall")
DISTANCE, LEARNED = "distance", "learned"
ADAPTED = (
    "the scores distance and learned are adapted from SAUP (Zhao et al., 2024) and do not reproduce it: other sentence "
    "embeddings, other pairs of texts, other training of the weights"
)


def score_name(score: str) -> str:
    """A score as people read it: `turn count`, `learned (adapted from SAUP)`."""
    shown = score.replace("_", " ")
    return f"{shown} (adapted from SAUP)" if score in (DISTANCE, LEARNED) else shown


class Propagated(NamedTuple):
    """One score of one trajectory: its value after each turn (NaN before the first), and what it came to."""

    running: Array
    value: float | None
    turns: int


def turns_of(trajectory: Trajectory, whose: str) -> list[Turn]:
    return [turn for turn in trajectory.turns if whose in ("overall", turn.actor)]


def uncertainties(turns: Sequence[Turn]) -> Array:
    """U_i of some turns, NaN where missing."""
    return as_column([turn.uncertainty_nats for turn in turns])


def situation(turns: Sequence[Turn]) -> Array:
    """(D_a, D_o) of some turns as rows, NaN where missing."""
    return np.column_stack([as_column([turn.drift for turn in turns]), as_column([turn.gap for turn in turns])])


def propagate(trajectory: Trajectory, whose: str) -> dict[str, Propagated]:
    """Every score that needs nothing but the trajectory itself."""
    turns = turns_of(trajectory, whose)
    u = uncertainties(turns)
    scores = {name: _propagated(running(u), u) for name, running in PROPAGATIONS.items()}
    if any(turn.drift is not None or turn.gap is not None for turn in trajectory.turns):
        weights = situation(turns).sum(axis=1)
        scores[DISTANCE] = _propagated(running_weighted(u, weights), u, weights)
    return scores


Finals = dict[str, dict[str, Final]]
"""What the scores of one trajectory came to: by whose they are, and by name."""


def finals_of(trajectory: Trajectory) -> Finals:
    return {
        whose: {name: Final(one.value, one.turns) for name, one in propagate(trajectory, whose).items()}
        for whose in WHOSE
    }


def propagation_row(trajectory: Trajectory, *, verbose: bool = False) -> dict[str, Any]:
    """All scores of a trajectory as data; `verbose` adds the running values."""
    rows = {whose: {name: _row(final) for name, final in scores.items()} for whose, scores in trajectory.finals.items()}
    for whose in WHOSE if verbose else ():
        for name, score in propagate(trajectory, whose).items():
            rows[whose][name]["running"] = [v if _is_number(v) else None for v in score.running.tolist()]
    return rows


def _propagated(running: Array, u: Array, weights: Array | None = None) -> Propagated:
    final = final_value(running, u, weights)
    return Propagated(running, final.value, final.turns)


def _row(final: Final) -> dict[str, Any]:
    """JSON has no infinity, so that an infinite score is said to be one."""
    row = {"value": final.value if _is_number(final.value) else None, "turns": final.turns}
    return row | ({"infinite": True} if final.value == np.inf else {})


def _is_number(value: float | None) -> bool:
    return value is not None and bool(np.isfinite(value))


def as_column(values: Sequence[float | None]) -> Array:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
