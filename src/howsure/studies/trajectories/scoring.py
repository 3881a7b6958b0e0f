"""Scores and distances for trajectories that are worked on together, here or by a worker elsewhere."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from howsure.errors import RunDamaged
from howsure.models.contract import Failure, Model, Rolling
from howsure.models.embedding import SentenceEmbedder
from howsure.runs import Job, Sample
from howsure.studies.trajectories import proxy
from howsure.studies.trajectories.distances import measure_distances
from howsure.studies.trajectories.shelf import shorten
from howsure.studies.trajectories.turns import Said, Trajectory

SAID_CHARACTERS = 50_000
"""Of one message in a run folder: a tool may answer with a whole file, which nobody reads there."""


class Batch(NamedTuple):
    """Trajectories with all their words, and their places among all that were read."""

    indices: tuple[int, ...]
    trajectories: tuple[Trajectory, ...]


class Scorer(Job[Batch, list[Sample]]):
    """Reads again what has no score, measures distances, and gives a sample for each trajectory.

    Both only where they are wanted. `evidence` says whether the samples hold what was said; nobody looks at it where
    no run folder is written.
    """

    def __init__(
        self,
        model: Model | None,
        rolling: Rolling,
        embedder: SentenceEmbedder | None,
        *,
        with_tokens: bool,
        evidence: bool,
    ) -> None:
        self.model, self.rolling, self.embedder = model, rolling, embedder
        self.with_tokens, self.evidence = with_tokens, evidence

    def load(self) -> None:
        if self.model is not None:
            self.model.load()
        if self.embedder is not None:
            self.embedder.load()

    @property
    def threads(self) -> int | None:
        return next((one.threads for one in (self.model, self.embedder) if one is not None and one.threads), None)

    def fingerprint(self) -> dict[str, Any]:
        return {
            "model": None if self.model is None else self.model.fingerprint(),
            "embedder": None if self.embedder is None else self.embedder.fingerprint(),
        }

    def __call__(self, piece: Batch) -> list[Sample]:
        if self.model is not None:
            unscored = [one for one in piece.trajectories if proxy.needs_proxy(one)]
            proxy.score_with(unscored, self.model, self.rolling, with_tokens=self.with_tokens)
        if self.embedder is not None:
            measure_distances(piece.trajectories, self.embedder)
        return self._samples(piece)

    def given_up(self, piece: Batch, why: str) -> list[Sample]:
        """Conversations that were to be read again are told as such that no model could read.

        For distances there is no such word: a run that lacks some for no reason of its own does not go on.
        """
        if self.embedder is not None:
            return super().given_up(piece, why)
        for one in piece.trajectories:
            if proxy.needs_proxy(one):
                proxy.leave_unread(one, Failure("worker_lost", why))
        return self._samples(piece)

    def _samples(self, piece: Batch) -> list[Sample]:
        pairs = zip(piece.indices, piece.trajectories, strict=True)
        return [_sample(index, one, self.evidence) for index, one in pairs]


def sample_id(index: int) -> str:
    return f"trajectory-{index}"


def trajectory_of(sample: Sample) -> Trajectory:
    """A trajectory as its sample has it: with its figures, and without its words."""
    try:
        return msgspec.convert(sample.result, Trajectory)
    except msgspec.ValidationError as error:
        raise RunDamaged(
            f"sample {sample.id!r} of this run is no trajectory ({error}): delete its line in samples.jsonl to have it "
            "redone"
        ) from error


def _sample(index: int, trajectory: Trajectory, evidence: bool) -> Sample:
    """A trajectory with all that is needed to judge it; what was said in it is evidence, and stays on the disk."""
    said = trajectory.said if evidence else ()
    shorten(trajectory)
    unread = next((turn for turn in trajectory.turns if turn.reason == proxy.UNREAD), None)
    return Sample(
        sample_id(index),
        index,
        msgspec.to_builtins(trajectory),
        {"said": [_message(one) for one in said]} if said else {},
        reason="unsupported" if trajectory.unsupported else proxy.UNREAD if unread else None,
        detail=trajectory.unsupported or (unread.detail if unread else None),
    )


def _message(said: Said) -> dict[str, Any]:
    """One message as evidence; one that was cut says how many characters it had."""
    row: dict[str, Any] = {"role": said.role, "text": said.text[:SAID_CHARACTERS]}
    if said.turn is not None:
        row["turn"] = said.turn
    return row | ({"characters": len(said.text)} if len(said.text) > SAID_CHARACTERS else {})
