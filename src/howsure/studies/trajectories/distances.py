"""How far a conversation has drifted from what it is about, and how far a turn lies from what it answers to.

Both are cosine distances between sentence embeddings (MiniLM): SAUP's inquiry drift D_a and inference gap D_o. What a
turn answers to is the last message before it that somebody else sent, a tool included. A turn that answers to nothing
has no gap, and no weight: never a distance of 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from howsure.measures import inference_gap, inquiry_drift
from howsure.models.embedding import SentenceEmbedder
from howsure.studies.trajectories.turns import SCRIPTED, Said, Trajectory, without_control_words


class Compared(NamedTuple):
    """Texts as they are embedded; one is empty where there is nothing to embed."""

    opening: str
    turns: list[str]
    answered: list[str]
    """For each turn the last message before it that its own writer did not send."""


def measure_distances(trajectories: Sequence[Trajectory], embedder: SentenceEmbedder) -> None:
    """Set `drift` and `gap` of every turn that has them; equal texts are embedded once."""
    texts_of = [compared_texts(one) for one in trajectories]
    distinct = sorted({text for one in texts_of for text in (one.opening, *one.turns, *one.answered) if text})
    readable = [text for text, is_readable in zip(distinct, embedder.readable(distinct), strict=True) if is_readable]
    if not readable:
        return
    vectors = dict(zip(readable, embedder.embed(readable).astype(np.float64), strict=True))
    unknown = np.full(len(vectors[readable[0]]), np.nan)
    for trajectory, texts in zip(trajectories, texts_of, strict=True):
        if not trajectory.turns:
            continue
        acts, answered = (
            np.array([vectors.get(text, unknown) for text in row]) for row in (texts.turns, texts.answered)
        )
        gaps, drifts = inference_gap(acts, answered), np.full(len(acts), np.nan)
        if texts.opening in vectors:
            written = np.array([turn.reason != SCRIPTED for turn in trajectory.turns])
            drifts = inquiry_drift(vectors[texts.opening], acts, written)
        for turn, *values in zip(trajectory.turns, drifts.tolist(), gaps.tolist(), strict=True):
            turn.drift, turn.gap = (None if np.isnan(value) else value for value in values)


def compared_texts(trajectory: Trajectory) -> Compared:
    """In full; the turns themselves may have been shortened."""
    turns, answered = [], []
    last = other = Said("", "")  # the last message, and the last before it that somebody else sent
    for said in trajectory.said:
        if said.role != last.role:
            other = last
        if said.turn is not None:
            turns.append(without_control_words(said.text))
            answered.append(without_control_words(other.text))
        last = said
    return Compared(without_control_words(trajectory.opening or ""), turns, answered)
