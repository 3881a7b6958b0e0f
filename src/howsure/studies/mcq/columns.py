"""The samples as columns, so that a hundred thousand of them are judged in a moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from howsure.runs import Sample

NORMALISATIONS = ("sum", "per_token", "per_byte", "pmi")
"""The scores by which a choice can be the largest; the first decides."""

IMAGE, CLUSTER = "image_sha256", "cluster"
"""Fields of a sample: questions with one value in one of them hang together."""

_PREDICTIONS = ("predicted_index", *(f"predicted_index_{name}" for name in NORMALISATIONS[1:]))

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


def columns(samples: Sequence[Sample]) -> Columns:
    """Samples, in the order that they are given in."""
    results = [sample.result for sample in samples]
    scored = np.array([not sample.failed for sample in samples], dtype=np.bool_)
    predictions = [[_index(result.get(name)) for name in _PREDICTIONS] for result in results]
    return Columns(
        scored=scored,
        correct=np.array([result.get("correct") is True for result in results], dtype=np.bool_) & scored,
        answer=np.array([result["answer_index"] for result in results], dtype=np.int64),
        chance=1.0 / np.array([len(result["choices"]) for result in results], dtype=np.float64),
        margin_nats=_floats(results, "margin"),
        confidence=_floats(results, "confidence"),
        entropy_nats=_floats(results, "entropy_nats"),
        predictions=np.array(predictions, dtype=np.int64).reshape(len(results), len(_PREDICTIONS)),
        unit=units(results),
        groups=[result.get("group") for result in results],
    )


def units(*sides: Sequence[Mapping[str, Any]]) -> Codes:
    """A number for each question, the same for those that share an image or a cluster, or that are the same question,
    directly or through others.

    `sides` are results of the same questions by several runs, whose clusters may be those of different fields.
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
    found = connected_components(graph, directed=False)[1][:count]
    return np.unique(found, return_inverse=True)[1].astype(np.int64)


def shared(results: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """What questions may have in common, by name, with a value for each of them; None is common to none."""
    words = [(result.get("question"), *result["choices"], result.get(IMAGE)) for result in results]
    often = Counter(words)
    return {
        "an image": [result.get(IMAGE) for result in results],
        "a cluster": [result.get(CLUSTER) for result in results],
        "all their words": [one if often[one] > 1 else None for one in words],
    }


def _index(predicted: int | None) -> int:
    return -1 if predicted is None else predicted


def _floats(results: Sequence[dict[str, Any]], name: str) -> Floats:
    return np.array([result.get(name) for result in results], dtype=np.float64)
