"""Which items run together, and how they lie in one row.

A packed row is the context followed by every suffix without its last token. Each suffix continues the context's
positions and sees the context and itself only, so one pass over P + Σ(c_i − 1) tokens gives every continuation
exactly the probabilities that it would have alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from howsure.models.contract import Batch
from howsure.models.text_boundary import Encoded

Ints = NDArray[np.int64]


class PackedRow(NamedTuple):
    """One item laid out: `segments` is 0 in the context and 1, 2, … in the suffixes."""

    ids: Ints
    positions: Ints
    segments: Ints
    reads: Ints
    """For each token to be scored, in order of the continuations: the place whose output predicts it."""
    targets: Ints


class PackedBatch(NamedTuple):
    """Rows padded on the right to one length; padding is segment −1."""

    ids: Ints
    positions: Ints
    segments: Ints
    rows: list[PackedRow]

    def visible(self) -> NDArray[np.bool_]:
        """[rows, length, length]: which place may look at which. Padding sees itself, so that no row is empty."""
        query, key = self.segments[:, :, None], self.segments[:, None, :]
        length = self.ids.shape[1]
        causal = np.tril(np.ones((length, length), dtype=np.bool_))
        seen: NDArray[np.bool_] = ((key == 0) | (key == query)) & (query >= 0) & causal
        return seen | np.eye(length, dtype=np.bool_)


def plan_batches(sizes: Sequence[int], order: Sequence[int], budget: int) -> list[Batch]:
    """Longest first, as many as fit the budget with padding counted; a batch has at least one item.

    Planning the items of one batch again gives that one batch, so a batch can be redone by itself.
    """
    ranked = sorted(order, key=lambda i: (-sizes[i], i))
    batches: list[Batch] = []
    current: list[int] = []
    for i in ranked:
        if current and sizes[current[0]] * (len(current) + 1) > budget:
            batches.append(_batch(current, sizes))
            current = []
        current.append(i)
    if current:
        batches.append(_batch(current, sizes))
    return batches


def pack(items: Sequence[Encoded], pad_id: int) -> PackedBatch:
    """Lay the items out as rows of one batch."""
    rows = [_pack_row(item) for item in items]
    shape = (len(rows), max(len(row.ids) for row in rows))
    ids = np.full(shape, pad_id, dtype=np.int64)
    positions, segments = np.zeros(shape, dtype=np.int64), np.full(shape, -1, dtype=np.int64)
    for i, row in enumerate(rows):
        ids[i, : len(row.ids)] = row.ids
        positions[i, : len(row.ids)] = row.positions
        segments[i, : len(row.ids)] = row.segments
    return PackedBatch(ids, positions, segments, rows)


def _pack_row(item: Encoded) -> PackedRow:
    context = len(item.context)
    ids, positions, segments = list(item.context), list(range(context)), [0] * context
    reads: list[int] = []
    targets: list[int] = []
    for number, suffix in enumerate(item.suffixes, 1):
        if not suffix:
            continue
        start = len(ids)
        reads += [context - 1, *range(start, start + len(suffix) - 1)]
        targets += suffix
        ids += suffix[:-1]
        positions += range(context, context + len(suffix) - 1)
        segments += [number] * (len(suffix) - 1)
    columns = (ids, positions, segments, reads, targets)
    return PackedRow(*(np.array(column, dtype=np.int64) for column in columns))


def _batch(indices: list[int], sizes: Sequence[int]) -> Batch:
    return Batch(tuple(indices), sum(sizes[i] for i in indices))
