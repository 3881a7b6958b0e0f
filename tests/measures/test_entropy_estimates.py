"""Entropy of a source from a sample: three estimators from counts, and the entropies of blocks."""

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howsure.errors import EvidenceError, InputError
from howsure.measures import (
    block_entropies,
    entropy_nats,
    grassberger_entropy_nats,
    miller_madow_entropy_nats,
    plugin_entropy_nats,
)
from howsure.measures.entropy import OCCURRENCES_FOR_SUPPORT

few = settings(max_examples=100, deadline=None)
some_counts = st.lists(st.integers(0, 60), min_size=1, max_size=12).filter(any)
sequences = st.lists(st.integers(0, 3), min_size=1, max_size=60)
ESTIMATORS = {
    "plugin": plugin_entropy_nats,
    "miller_madow": miller_madow_entropy_nats,
    "grassberger": grassberger_entropy_nats,
}
EULER = 0.5772156649015329


# -- from counts ------------------------------------------------------------------------------------------------------


def test_plugin_and_miller_madow_by_hand():
    assert plugin_entropy_nats([2, 1, 1]) == pytest.approx(1.5 * math.log(2))
    assert miller_madow_entropy_nats([2, 1, 1]) == pytest.approx(1.5 * math.log(2) + 2 / 8)
    assert plugin_entropy_nats([7]) == 0.0
    assert miller_madow_entropy_nats([7]) == 0.0
    assert isinstance(plugin_entropy_nats([7]), float)


def test_grassberger_by_hand():
    # G(1) = −γ − ln 2 and G(2) = 2 − γ − ln 2, so ln 4 − (2 G(2) + 2 G(1)) / 4 = ln 4 − 1 + γ + ln 2.
    assert grassberger_entropy_nats([2, 1, 1]) == pytest.approx(math.log(4) - 1 + EULER + math.log(2))
    assert grassberger_entropy_nats([2]) == pytest.approx(math.log(2) - 2 + EULER + math.log(2))
    assert grassberger_entropy_nats([2]) < 0, "an estimate, which may fall a little below zero"


def g_by_recurrence(n):
    """Grassberger's own recurrence: G_1 = −γ − ln 2, G_2k = G_1 + 2/1 + 2/3 + … + 2/(2k − 1), G_2k+1 = G_2k."""
    return -EULER - math.log(2) + sum(2 / (2 * j + 1) for j in range(n // 2))


@few
@given(some_counts)
def test_the_three_are_their_definitions_written_out(counts):
    total, seen = sum(counts), sum(n > 0 for n in counts)
    plugin = -sum(n / total * math.log(n / total) for n in counts if n)
    g = math.log(total) - sum(n * g_by_recurrence(n) for n in counts if n) / total
    assert plugin_entropy_nats(counts) == pytest.approx(plugin, abs=1e-12)
    assert miller_madow_entropy_nats(counts) == pytest.approx(plugin + (seen - 1) / (2 * total), abs=1e-12)
    assert grassberger_entropy_nats(counts) == pytest.approx(g, abs=1e-12)


@few
@given(some_counts)
def test_plugin_is_scipys_entropy_of_the_counts(counts):
    from scipy.stats import entropy

    assert plugin_entropy_nats(counts) == pytest.approx(float(entropy(counts)), abs=1e-12)


@few
@given(some_counts, st.integers(0, 5))
def test_order_and_symbols_never_seen_do_not_count(counts, zeros):
    for estimate in ESTIMATORS.values():
        assert estimate([*counts[::-1], *[0] * zeros]) == pytest.approx(estimate(counts), abs=1e-12)


@few
@given(some_counts)
def test_miller_madow_lies_above_the_plugin_and_the_plugin_below_its_ceilings(counts):
    plugin, seen = plugin_entropy_nats(counts), sum(n > 0 for n in counts)
    assert miller_madow_entropy_nats(counts) >= plugin
    assert (miller_madow_entropy_nats(counts) > plugin) == (seen > 1)
    assert plugin <= min(math.log(seen), math.log(sum(counts))) + 1e-12


def test_perplexity_of_equal_counts_is_their_number():
    for symbols in (1, 2, 27, 1000):
        assert math.exp(plugin_entropy_nats(np.full(symbols, 5))) == pytest.approx(symbols)


def test_all_agree_on_a_large_sample():
    p = np.array([0.5, 0.3, 0.15, 0.05])
    counts = np.random.default_rng(0).multinomial(4_000_000, p)
    for estimate in ESTIMATORS.values():
        assert estimate(counts) == pytest.approx(entropy_nats(p), abs=2e-3)


def test_on_a_small_sample_grassberger_is_the_least_biased():
    """100 symbols drawn 60 times: the mean error of each estimator over 400 samples."""
    rng = np.random.default_rng(5)
    p = rng.dirichlet(np.ones(100))
    samples = rng.multinomial(60, p, size=400)
    plugin, miller, grassberger = (
        np.mean([estimate(counts) for counts in samples]) - entropy_nats(p) for estimate in ESTIMATORS.values()
    )
    assert plugin < -0.4, "much too low"
    assert abs(grassberger) < abs(miller) < abs(plugin)
    assert abs(grassberger) < abs(plugin) / 5


@pytest.mark.parametrize("estimate", ESTIMATORS.values())
@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([3, -1], "-1 at position 1 is not a count"),
        ([3, 2, 0.5], "0.5 at position 2 is not a whole number"),
        ([float("nan"), 1], "nan at position 0 is not a count"),
        ([1, float("inf")], "inf at position 1 is not a count"),
        ([1, 1e16], "1e.16 at position 1 is not a count"),
        ([0, 0, 0], "none of the 3 is above zero"),
        ([], "none of the 0 is above zero"),
        ([[1, 2]], "must be one-dimensional"),
    ],
)
def test_what_is_no_count_is_refused_with_its_place(estimate, counts, message):
    with pytest.raises(EvidenceError, match=message):
        estimate(counts)


# -- blocks -----------------------------------------------------------------------------------------------------------


def naive_blocks(symbols, n):
    return Counter(tuple(symbols[i : i + n]) for i in range(len(symbols) - n + 1))


@few
@given(sequences, st.integers(1, 6))
def test_block_entropies_are_those_of_counted_tuples(symbols, longest):
    rows = block_entropies(symbols, longest)
    assert [row.n for row in rows] == list(range(1, min(longest, len(symbols)) + 1))
    for row in rows:
        counts = naive_blocks(symbols, row.n)
        assert (row.blocks, row.distinct) == (sum(counts.values()), len(counts))
        for name, estimate in ESTIMATORS.items():
            assert getattr(row, f"{name}_nats") == pytest.approx(estimate(list(counts.values())), abs=1e-12)
        assert row.per_symbol_nats == pytest.approx(row.plugin_nats / row.n)
        assert row.occurrences == pytest.approx(sum(counts.values()) / len(counts))
        assert row.ceiling_nats == pytest.approx(math.log(len(symbols) - row.n + 1))


@few
@given(sequences, st.integers(2, 6), st.sampled_from(list(ESTIMATORS)))
def test_conditional_entropy_is_that_of_the_same_positions(symbols, longest, estimator):
    for row in block_entropies(symbols, longest, estimator)[1:]:
        whole = naive_blocks(symbols, row.n)
        starts = naive_blocks(symbols[:-1], row.n - 1)
        expected = ESTIMATORS[estimator](list(whole.values())) - ESTIMATORS[estimator](list(starts.values()))
        assert row.conditional_nats == pytest.approx(expected, abs=1e-12)


@few
@given(sequences)
def test_what_always_holds_of_the_plugin(symbols):
    rows = block_entropies(symbols, 5)
    assert rows[0].conditional_nats == rows[0].per_symbol_nats == rows[0].plugin_nats
    for row in rows:
        assert 0 <= row.conditional_nats <= math.log(rows[0].distinct) + 1e-12
        assert row.plugin_nats <= row.ceiling_nats + 1e-12
        assert row.plugin_nats <= row.miller_madow_nats
    for before, after in pairwise(rows):
        edge = after.plugin_nats - before.plugin_nats - after.conditional_nats
        assert abs(edge) <= (1 + math.log(before.blocks)) / before.blocks + 1e-12, "one block of them all"


def test_blocks_by_hand():
    one, two, three = block_entropies([0, 1] * 50, 3)
    assert (one.blocks, one.distinct, two.blocks, two.distinct, three.distinct) == (100, 2, 99, 2, 2)
    assert one.plugin_nats == pytest.approx(math.log(2))
    assert two.plugin_nats == pytest.approx(-50 / 99 * math.log(50 / 99) - 49 / 99 * math.log(49 / 99))
    assert two.conditional_nats == pytest.approx(0.0, abs=1e-12), "the next symbol follows from the one before"
    assert one.supported
    assert three.occurrences == 49.0


def test_support_ends_where_each_block_occurs_too_seldom():
    rows = block_entropies(np.random.default_rng(0).integers(0, 10, size=10_000), 4)
    assert [row.supported for row in rows] == [True, True, False, False]
    assert rows[1].occurrences == pytest.approx(99.99)
    assert rows[1].conditional_nats == pytest.approx(math.log(10), abs=0.01), "independent symbols, still well counted"
    assert rows[3].conditional_nats < math.log(10) - 0.5, (
        "10,000 blocks cannot show 10,000 kinds: too low, and marked as such"
    )
    exactly = np.repeat(np.arange(7), int(OCCURRENCES_FOR_SUPPORT))
    assert block_entropies(exactly, 1)[0].supported
    assert not block_entropies(exactly[1:], 1)[0].supported


def test_sorted_and_tabled_numbers_are_the_same(monkeypatch):
    from howsure.measures import entropy

    symbols = np.random.default_rng(1).integers(0, 6, size=500)
    tabled = block_entropies(symbols, 5)
    monkeypatch.setattr(entropy, "TABLE_LIMIT", 0)
    assert block_entropies(symbols, 5) == tabled


def test_any_whole_numbers_may_stand_for_symbols():
    spread = np.array([-(2**62), 2**62, 0, 2**62], dtype=np.int64)
    assert block_entropies(spread, 3) == block_entropies([0, 2, 1, 2], 3)
    assert block_entropies(np.array([3, 3, 200], dtype=np.uint8), 2) == block_entropies([0, 0, 1], 2)


@pytest.mark.parametrize(
    ("symbols", "longest", "error", "message"),
    [
        ([], 2, EvidenceError, "there are none"),
        ([0.5, 1.0], 2, EvidenceError, "whole numbers that stand for symbols, got float64"),
        ([[0, 1]], 2, EvidenceError, "one-dimensional"),
        ([0, 1], 0, InputError, "longest 0 must be at least 1"),
    ],
)
def test_what_has_no_blocks_is_refused(symbols, longest, error, message):
    with pytest.raises(error, match=message):
        block_entropies(symbols, longest)


def test_an_unknown_estimator_is_refused_by_name():
    with pytest.raises(InputError, match="estimator 'best' must be one of 'plugin', 'miller_madow', 'grassberger'"):
        block_entropies([0, 1], 2, "best")
