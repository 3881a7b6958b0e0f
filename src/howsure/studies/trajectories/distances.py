"""How far a conversation has drifted from what it is about, and how far a turn lies from what it answers to.

Both are cosine distances between sentence embeddings (MiniLM): SAUP's inquiry drift D_a and inference gap D_o. What a
turn answers to is the last message before it that somebody else sent, a tool included. A turn that answers to nothing
has no gap, and no weight: never a distance of 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from howsure.measures import inference_gap, inquiry_drift
from howsure.models.embedding import SentenceEmbedder
from howsure.studies.trajectories.turns import SCRIPTED, Said, Trajectory, without_control_words

Vectors = dict[str, NDArray[np.float64]]


def measure_distances(trajectories: Sequence[Trajectory], embedder: SentenceEmbedder) -> None:
    """Set `drift` and `gap` of every turn that has them; equal texts are embedded once."""
    found = sorted({text for one in trajectories for text in _texts(one)})
    texts = [text for text, readable in zip(found, embedder.readable(found), strict=True) if readable]
    if not texts:
        return
    vectors = dict(zip(texts, embedder.embed(texts).astype(np.float64), strict=True))
    unknown = np.full(len(next(iter(vectors.values()))), np.nan)
    for trajectory in trajectories:
        _measure(trajectory, vectors, unknown)


def _measure(trajectory: Trajectory, vectors: Vectors, unknown: NDArray[np.float64]) -> None:
    def rows(texts: Sequence[str | None]) -> NDArray[np.float64]:
        return np.array([unknown if text is None else vectors.get(text, unknown) for text in texts])

    if not trajectory.turns:
        return
    acts = rows([_spoken(text) for text in _turns(trajectory)])
    gaps = inference_gap(acts, rows(_answered(trajectory)))
    opening = _spoken(trajectory.opening or "")
    drifts = np.full(len(acts), np.nan)
    if opening in vectors:
        written = np.array([turn.reason != SCRIPTED for turn in trajectory.turns])
        drifts = inquiry_drift(vectors[opening], acts, written)
    for turn, drift, gap in zip(trajectory.turns, drifts.tolist(), gaps.tolist(), strict=True):
        turn.drift, turn.gap = _known(drift), _known(gap)


def _texts(trajectory: Trajectory) -> list[str]:
    found = [trajectory.opening or "", *_turns(trajectory)]
    spoken = [text for text in map(_spoken, found) if text is not None]
    return spoken + [text for text in _answered(trajectory) if text is not None]


def _turns(trajectory: Trajectory) -> list[str]:
    """Each turn in full; the turns themselves may have been shortened."""
    return [said.text for said in trajectory.said if said.turn is not None]


def _answered(trajectory: Trajectory) -> list[str | None]:
    """For each turn the last message before it that its own writer did not send."""
    found: list[str | None] = []
    last = other = Said("", "")  # the last message, and the last before it that somebody else sent
    for said in trajectory.said:
        if said.role != last.role:
            other = last
        if said.turn is not None:
            found.append(_spoken(other.text))
        last = said
    return found


def _spoken(text: str) -> str | None:
    """A text as it is embedded; None where nothing is left of it."""
    return without_control_words(text) or None


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value
