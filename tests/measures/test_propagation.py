"""Running trajectory uncertainty: by hand, by definition at every turn, and at the edges."""

import math
import time
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howsure.errors import EvidenceError, InputError
from howsure.measures import PROPAGATIONS, final_value, running_tail, running_weighted

few = settings(max_examples=100, deadline=None)
turn = st.one_of(st.none(), st.floats(0, 50), st.integers(0, 3).map(float))
turns = st.lists(turn, max_size=25)
weighted_turns = st.lists(st.tuples(turn, st.one_of(st.none(), st.floats(0, 4))), max_size=20)

DEFINITIONS = {
    "mean": lambda u, t: sum(u) / len(u),
    "geometric": lambda u, t: math.prod(u) ** (1 / len(u)),
    "rms": lambda u, t: math.sqrt(sum(x * x for x in u) / len(u)),
    "position": lambda u, t: (
        math.sqrt(sum((i * x) ** 2 for i, x in zip(t, u, strict=True)) / len(u)) / (sum(t) / len(t))
    ),
    "tail": lambda u, t: np.mean(sorted(u)[-math.ceil(len(u) / 10) :]),
    "maximum": lambda u, t: max(u),
}


def by_definition(name, values):
    """The formula written out over the turns up to each one."""
    found = []
    for end in range(1, len(values) + 1):
        places = [i + 1 for i in range(end) if values[i] is not None]
        known = [values[i - 1] for i in places]
        found.append(DEFINITIONS[name](known, places) if known else math.nan)
    return found


def test_by_hand():
    u = [3.0, None, 4.0]
    expected = {
        "mean": [3, 3, 3.5],
        "geometric": [3, 3, math.sqrt(12)],
        "rms": [3, 3, math.sqrt(25 / 2)],
        "position": [3, 3, math.sqrt((9 + 144) / 2) / 2],
        "tail": [3, 3, 4],
        "maximum": [3, 3, 4],
    }
    assert PROPAGATIONS.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(PROPAGATIONS[name](u), values)
    np.testing.assert_allclose(running_weighted(u, [1.0, 9.0, 0.5]), [3, 3, math.sqrt((9 + 4) / 2)])


@few
@given(turns)
@pytest.mark.parametrize("name", PROPAGATIONS)
def test_every_turn_is_the_definition_over_the_turns_so_far(name, values):
    np.testing.assert_allclose(PROPAGATIONS[name](values), by_definition(name, values), rtol=1e-9, atol=1e-9)


@few
@given(weighted_turns)
def test_weights_are_the_definition_and_a_missing_weight_is_a_missing_turn(pairs):
    u, w = [u for u, _ in pairs], [w for _, w in pairs]
    got = running_weighted(u, w)
    known = [None if a is None or b is None else a * b for a, b in pairs]
    np.testing.assert_allclose(got, by_definition("rms", known), rtol=1e-9, atol=1e-9)
    assert final_value(got, u, w).turns == sum(x is not None for x in known)


@few
@given(turns)
def test_weights_of_one_and_of_places_are_the_named_ones(values):
    ones, places = np.ones(len(values)), np.arange(1.0, len(values) + 1)
    np.testing.assert_allclose(running_weighted(values, ones), PROPAGATIONS["rms"](values))
    known = [p for p, v in zip(places, values, strict=True) if v is not None]
    if known:
        last = running_weighted(values, places / np.mean(known))[-1]
        assert PROPAGATIONS["position"](values)[-1] == pytest.approx(last)


@few
@given(turns)
def test_they_stand_in_order(values):
    at = {name: kernel(values) for name, kernel in PROPAGATIONS.items()}
    known = ~np.isnan(at["mean"])
    for low, high in [
        ("geometric", "mean"),
        ("mean", "rms"),
        ("rms", "maximum"),
        ("tail", "maximum"),
        ("mean", "tail"),
    ]:
        assert (at[low][known] <= at[high][known] * (1 + 1e-9) + 1e-12).all()


@few
@given(turns, st.floats(0.01, 1))
def test_the_tail_is_the_mean_of_the_worst(values, share):
    known = [v for v in values if v is not None]
    got = running_tail(values, share)
    if known:
        worst = sorted(known)[-math.ceil(share * len(known) - 1e-9) :]
        assert got[-1] == pytest.approx(np.mean(worst))
    np.testing.assert_allclose(running_tail(values, 1.0), PROPAGATIONS["mean"](values), rtol=1e-9, atol=1e-9)


def test_a_share_that_rounding_lifts_above_a_whole_number_takes_no_turn_more():
    values = list(range(100))
    assert 0.07 * 100 > 7
    assert running_tail(values, 0.07)[-1] == np.mean(values[-7:])


@pytest.mark.parametrize("name", PROPAGATIONS)
def test_infinity_stays_infinite_and_warns_of_nothing(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = PROPAGATIONS[name]([None, 2.0, math.inf, None, 0.0, math.inf, 1.0])
        first = PROPAGATIONS[name]([math.inf, 0.0])
    np.testing.assert_array_equal(got, [math.nan, 2.0] + [math.inf] * 5)
    np.testing.assert_array_equal(first, [math.inf, math.inf])


def test_a_weight_of_nothing_leaves_nothing_of_infinity():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = running_weighted([1.0, math.inf, math.inf], [1.0, 0.0, 0.5])
    np.testing.assert_allclose(got, [1.0, math.sqrt(0.5), math.inf])


@pytest.mark.parametrize("name", PROPAGATIONS)
def test_no_turns_one_turn_and_none_known(name):
    kernel = PROPAGATIONS[name]
    assert len(kernel([])) == 0
    assert final_value(kernel([]), []) == (None, 0)
    assert final_value(kernel([2.5]), [2.5]) == (pytest.approx(2.5), 1)
    assert np.isnan(kernel([None, math.nan])).all()
    assert final_value(kernel([None, None]), [None, None]) == (None, 0)
    assert final_value(kernel([None, 0.0]), [None, 0.0]) == (0.0, 1)


def test_a_long_run_is_no_matter():
    values = np.random.default_rng(0).exponential(size=100_000)
    start = time.perf_counter()
    for kernel in PROPAGATIONS.values():
        kernel(values)
    assert time.perf_counter() - start < 2
    tail = running_tail(values)[-1]
    assert tail == pytest.approx(np.sort(values)[-10_000:].mean(), rel=1e-9)


def test_what_cannot_be_used_is_refused():
    with pytest.raises(EvidenceError, match=r"uncertainty: -0\.5 at position 1"):
        PROPAGATIONS["mean"]([1.0, -0.5])
    with pytest.raises(EvidenceError, match="weights: -1 at position 0"):
        running_weighted([1.0], [-1.0])
    with pytest.raises(EvidenceError, match="weights: inf at position 0"):
        running_weighted([1.0], [math.inf])
    with pytest.raises(EvidenceError, match="got 1 and 2"):
        running_weighted([1.0], [1.0, 1.0])
    for share in (0.0, 1.5, math.nan):
        with pytest.raises(InputError, match="share"):
            running_tail([1.0], share)
