"""Plans and packed rows."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from howsure.models.contract import plan_batches
from howsure.models.hf.packing import pack
from howsure.models.text import Encoded


def item(context: int, *suffixes: int) -> Encoded:
    ids = iter(range(1, 1000))
    take = lambda n: tuple(next(ids) for _ in range(n))  # noqa: E731
    return Encoded(take(context), tuple(take(n) for n in suffixes), tuple(None for _ in suffixes), 0)


@given(st.lists(st.integers(1, 60), max_size=40), st.integers(1, 200))
def test_every_item_once_within_budget_and_replanned_alike(sizes: list[int], budget: int) -> None:
    batches = plan_batches(sizes, range(len(sizes)), budget)
    assert sorted(i for batch in batches for i in batch.indices) == list(range(len(sizes)))
    for batch in batches:
        longest = max(sizes[i] for i in batch.indices)
        assert len(batch.indices) == 1 or longest * len(batch.indices) <= budget
        assert batch.tokens == sum(sizes[i] for i in batch.indices)
        again = plan_batches([sizes[i] for i in batch.indices], range(len(batch.indices)), budget)
        assert [b.indices for b in again] == [tuple(range(len(batch.indices)))]


def test_a_row_by_hand() -> None:
    batch = pack([item(3, 2, 1, 3)], pad_id=0)
    assert batch.ids.tolist() == [[1, 2, 3, 4, 7, 8]]
    assert batch.positions.tolist() == [[0, 1, 2, 3, 3, 4]]
    assert batch.segments.tolist() == [[0, 0, 0, 1, 3, 3]]
    row = batch.rows[0]
    assert row.reads.tolist() == [2, 3, 2, 2, 4, 5]
    assert row.targets.tolist() == [4, 5, 6, 7, 8, 9]


def test_what_a_place_may_see() -> None:
    visible = pack([item(2, 3, 2), item(1, 2)], pad_id=0).visible()
    assert np.flatnonzero(visible[0, 3]).tolist() == [0, 1, 2, 3]
    assert np.flatnonzero(visible[0, 4]).tolist() == [0, 1, 4], "a suffix sees the context and itself, not its sister"
    assert np.flatnonzero(visible[1, 3]).tolist() == [3], "padding sees only itself"
    assert not visible[1, :2, 2:].any(), "nothing sees padding or the future"


@given(
    st.lists(st.tuples(st.integers(1, 5), st.lists(st.integers(0, 5), min_size=1, max_size=4)), min_size=1, max_size=4)
)
def test_the_number_of_tokens_is_the_minimum(shapes: list[tuple[int, list[int]]]) -> None:
    items = [item(context, *suffixes) for context, suffixes in shapes]
    for packed, (context, suffixes) in zip(pack(items, 0).rows, shapes, strict=True):
        assert packed.tokens == context + sum(max(c - 1, 0) for c in suffixes)
        assert len(packed.targets) == sum(suffixes)
