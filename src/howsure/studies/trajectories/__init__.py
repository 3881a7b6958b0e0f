"""Trajectories: turn by turn, how sure were agent and user, and should they have been?

Question   where in a conversation did agent or user become unsure, did that foretell failure, and what would acting on
           it have saved?
Data       τ²-bench results (files, folders, lists), chats as JSON lines, Inspect logs; with log-probabilities, or
           without them and a model that reads the conversations again
Measure    U_i = mean of −ln p over the tokens of turn i, in nats; propagated over the run into one score
Comes out  every turn and run with its scores, coverage of each; scores against failure; alarms on tasks that they were
           not fitted on; interventions replayed
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

from howsure.models.contract import Model
from howsure.runs import Engine, Progress, engine_at_hand, placed
from howsure.studies.texts import as_paths
from howsure.studies.trajectories.intervention import Policy
from howsure.studies.trajectories.judge import USUAL, Judging
from howsure.studies.trajectories.sources import PathLike
from howsure.studies.trajectories.work import Prepared, Result, carry_out, prepare

__all__ = ["Judging", "Policy", "Prepared", "Result", "carry_out", "prepare", "trajectories"]


def trajectories(
    results: PathLike | Sequence[PathLike],
    *,
    score_with: str | Model | None = None,
    distances: bool = False,
    tokens: bool = False,
    verbose: bool = False,
    judging: Judging | None = USUAL,
    out: PathLike | None = None,
    window: int | None = None,
    stride: int | None = None,
    jobs: int | None = None,
    seed: int = 0,
    retry_failed: bool = False,
    progress: Progress | None = None,
    engine: str | Engine | None = None,
    **model_options: Any,
) -> Result:
    """Read logs of agents and users, score every turn, and set the scores against what came of the runs.

    `results` are files, folders and patterns, on this machine or at addresses such as s3://bucket/logs/. With
    `score_with`, a local chat model reads the conversations that have no log-probabilities. `distances` embeds every
    message, for the weights adapted from SAUP, which need it. `judging` says what is asked of the scored runs; None
    ends with their scores. With `out` a run folder is written, and taken up again by the same call. `engine` says who
    reads the files and where the model works (docs/scale.md); without one, files are read by `jobs` processes of this
    machine.
    `model_options` (see `ModelOptions`) are for a model given by name.
    """
    with (
        engine_at_hand(engine) as doer,
        closing(
            prepare(
                as_paths(results),
                score_with=score_with,
                distances=distances,
                tokens=tokens,
                window=window,
                stride=stride,
                jobs=jobs,
                for_a_run=out is not None,
                engine=doer,
                **placed(engine, model_options),
            )
        ) as prepared,
    ):
        return carry_out(
            prepared,
            judging=judging,
            out=out,
            verbose=verbose,
            seed=seed,
            retry_failed=retry_failed,
            progress=progress,
            engine=doer,
        )
