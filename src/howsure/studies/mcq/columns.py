"""The samples as columns, so that a hundred thousand of them are judged in a moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from howsure.runs import Sample
from howsure.studies.mcq.record import McqRecord

NORMALISATIONS = ("sum", "per_token", "per_byte", "pmi")
"""The scores by which a choice can be the largest; the first decides."""

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Columns:
    """One row a question, in the order of the data; what a question has not is NaN, and its prediction is −1."""

    scored: NDArray[np.bool_]
    correct: NDArray[np.bool_]
    answer: NDArray[np.int64]
    chance: Floats
    margin_nats: Floats
    confidence: Floats
    entropy_nats: Floats
    predictions: NDArray[np.int64]
    """[questions × normalisations]."""
    unit: Codes
    """A number for each question, the same for those that hang together."""
    groups: list[str | None]

    @property
    def total(self) -> int:
        return len(self.groups)

    def right(self, normalisation: int) -> NDArray[np.bool_]:
        return np.asarray(self.predictions[:, normalisation] == self.answer)

    def rows(self, chosen: NDArray[np.intp]) -> Columns:
        """The same for some of the questions."""
        arrays: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)[:-1]}
        parts = {name: column[chosen] for name, column in arrays.items()}
        return Columns(**parts, groups=[self.groups[i] for i in chosen])


def columns(samples: Sequence[Sample[McqRecord]]) -> Columns:
    """Samples, in the order that they are given in."""
    records = [sample.result for sample in samples]
    scored = np.array([not sample.failed for sample in samples], dtype=np.bool_)
    predictions = [
        (r.predicted_index, r.predicted_index_per_token, r.predicted_index_per_byte, r.predicted_index_pmi)
        for r in records
    ]
    indices = [[-1 if index is None else index for index in row] for row in predictions]
    return Columns(
        scored=scored,
        correct=np.array([r.correct is True for r in records], dtype=np.bool_) & scored,
        answer=np.array([r.answer_index for r in records], dtype=np.int64),
        chance=1.0 / np.array([len(r.choices) for r in records], dtype=np.float64),
        margin_nats=np.array([r.margin for r in records], dtype=np.float64),
        confidence=np.array([r.confidence for r in records], dtype=np.float64),
        entropy_nats=np.array([r.entropy_nats for r in records], dtype=np.float64),
        predictions=np.array(indices, dtype=np.int64).reshape(len(records), len(NORMALISATIONS)),
        unit=units(records),
        groups=[r.group for r in records],
    )


def units(*sides: Sequence[McqRecord]) -> Codes:
    """A number for each question, the same for those that share an image or a cluster, or that are the same question,
    directly or through others.

    `sides` are records of the same questions by several runs, whose clusters may be those of different fields.
    """
    count = len(sides[0])
    questions, labels, nodes = [np.arange(count)], [np.arange(count)], count
    for side in sides:
        for values in shared(side).values():
            places: dict[Any, int] = {None: -1}
            codes = np.array([places.setdefault(value, nodes + len(places) - 1) for value in values], dtype=np.int64)
            questions.append(np.flatnonzero(codes >= 0))
            labels.append(codes[codes >= 0])
            nodes += len(places) - 1
    if nodes == count:
        return np.arange(count)
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    edges = np.concatenate(questions), np.concatenate(labels)
    graph = coo_array((np.ones(len(edges[0]), dtype=np.bool_), edges), shape=(nodes, nodes))
    component = connected_components(graph, directed=False)[1][:count]
    return np.unique(component, return_inverse=True)[1].astype(np.int64)


def shared(records: Sequence[McqRecord]) -> dict[str, list[Any]]:
    """What questions may have in common, by name, with a value for each of them; None is common to none."""
    words = [(record.question, *record.choices, record.image_sha256) for record in records]
    often = Counter(words)
    return {
        "an image": [record.image_sha256 for record in records],
        "a cluster": [record.cluster for record in records],
        "all their words": [one if often[one] > 1 else None for one in words],
    }
