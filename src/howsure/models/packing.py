"""Which items run together, and how they lie in one row.

A packed row is the context followed by every suffix without its last token. Each suffix continues the context's
positions and sees the context and itself only, so one pass over P + Σ(c_i − 1) tokens gives every continuation
exactly the probabilities that it would have alone. In a batch the contexts are filled up to one length, so that the
suffixes of all rows begin at the same place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from howsure.models.contract import Batch
from howsure.models.text import Encoded

Ints = NDArray[np.int64]


class PackedRow(NamedTuple):
    """One item laid out: `segments` is 0 in the context and 1, 2, … in the suffixes, −1 in padding."""

    ids: Ints
    positions: Ints
    segments: Ints
    reads: Ints
    """For each token to be scored, in order of the continuations: the place whose output predicts it."""
    targets: Ints

    @property
    def tokens(self) -> int:
        return int((self.segments >= 0).sum())


class PackedBatch(NamedTuple):
    """Rows padded to one length; padding is segment −1. `split` is where the suffixes of all rows begin.

    Where every item has one continuation at most there is nothing to keep apart: rows are then simple sequences, each
    suffix right after its context, and `split` is None.
    """

    ids: Ints
    positions: Ints
    segments: Ints
    rows: list[PackedRow]
    split: int | None = None

    def visible(self, *, both_ways: bool = False, start: int = 0) -> NDArray[np.bool_]:
        """[rows, length − start, length]: which place, from `start` on, may look at which.

        Padding sees itself, so that no row is empty. With `both_ways` the tokens of a context see each other, before
        and after; suffixes stay causal.
        """
        query, key = self.segments[:, start:, None], self.segments[:, None, :]
        places = np.arange(self.ids.shape[1])
        order = places[start:, None] >= places[None, :]
        allowed = (key == 0) | (key == query)
        if both_ways:
            order = order | ((query == 0) & (key == 0))
        seen: NDArray[np.bool_] = (allowed & (query >= 0) & order) | (places[start:, None] == places[None, :])
        return seen


def plan_batches(sizes: Sequence[int], order: Sequence[int], budget: int) -> list[Batch]:
    """Longest first, as many as fit the budget with padding counted; a batch has at least one item.

    Planning the items of one batch again gives that one batch, so a batch can be redone by itself.
    """
    return plan_rows([(size, 0) for size in sizes], order, budget)


def plan_rows(shapes: Sequence[tuple[int, int]], order: Sequence[int], budget: int) -> list[Batch]:
    """The same for rows of two parts, context and suffixes, which are padded each by itself."""
    sizes = [context + suffixes for context, suffixes in shapes]
    ranked = sorted(order, key=lambda i: (-sizes[i], i))
    batches: list[Batch] = []
    current: list[int] = []
    context = suffixes = 0
    for i in ranked:
        context, suffixes = max(context, shapes[i][0]), max(suffixes, shapes[i][1])
        if current and (context + suffixes) * (len(current) + 1) > budget:
            batches.append(_batch(current, sizes))
            current, (context, suffixes) = [], shapes[i]
        current.append(i)
    if current:
        batches.append(_batch(current, sizes))
    return batches


def pack(items: Sequence[Encoded], pad_id: int) -> PackedBatch:
    """Lay the items out as rows of one batch."""
    simple = all(sum(map(bool, item.suffixes)) <= 1 for item in items)
    split = None if simple else max(len(item.context) for item in items)
    rows = [_pack_row(item, pad_id, split) for item in items]
    shape = (len(rows), max(len(row.ids) for row in rows))
    ids = np.full(shape, pad_id, dtype=np.int64)
    positions, segments = np.zeros(shape, dtype=np.int64), np.full(shape, -1, dtype=np.int64)
    for i, row in enumerate(rows):
        ids[i, : len(row.ids)] = row.ids
        positions[i, : len(row.ids)] = row.positions
        segments[i, : len(row.ids)] = row.segments
    return PackedBatch(ids, positions, segments, rows, split)


def _pack_row(item: Encoded, pad_id: int, split: int | None) -> PackedRow:
    context = len(item.context)
    gap = 0 if split is None else split - context
    ids, positions = [*item.context, *[pad_id] * gap], [*range(context), *[0] * gap]
    segments = [0] * context + [-1] * gap
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
