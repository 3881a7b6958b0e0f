"""Coherent trust: by hand, from the definition of mutual information, and in [0, 1] whatever the joint distribution."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from howsure.errors import EvidenceError
from howsure.measures import coherent_null, coherent_trust
from howsure.measures.coherent import _information

many = settings(max_examples=300, deadline=None)


def test_by_hand():
    """Grounding 0 leaves the action to the instruction, grounding 1 decides it: p(x) = (3/4, 1/4).

    H(X) = ln 4 − (3/4) ln 3, H(X|S) = (1/2) ln 2 + 0, H(X|L,S) = 0.
    """
    found = coherent_trust([[[1, 0], [1, 0]], [[0, 1], [1, 0]]])
    h_x = math.log(4) - 0.75 * math.log(3)
    assert found.h_x_nats == pytest.approx(h_x, abs=1e-14)
    assert found.h_x_given_s_nats == pytest.approx(math.log(2) / 2, abs=1e-14)
    assert found.h_x_given_ls_nats == 0.0
    assert found.information_s_nats == pytest.approx(h_x - math.log(2) / 2, abs=1e-14)
    assert found.information_sl_nats == pytest.approx(h_x, abs=1e-14)
    assert found.trust == pytest.approx(1 - math.log(2) / 2 / h_x, abs=1e-14)
    assert found.identified


def test_weights_that_are_no_product_by_hand():
    """Instruction 0 comes with grounding 0 only, 1 with 1 only: S tells all that both tell."""
    p = [[[0.9, 0.1], [0.5, 0.5]], [[0.5, 0.5], [0.1, 0.9]]]
    found = coherent_trust(p, [[3.0, 0.0], [0.0, 3.0]])
    given_s = -(0.9 * math.log(0.9) + 0.1 * math.log(0.1))
    assert found.h_x_nats == pytest.approx(math.log(2), abs=1e-14)
    assert found.h_x_given_s_nats == pytest.approx(given_s, abs=1e-14)
    assert found.trust == 1.0
    assert coherent_trust(p).trust < 1.0


def test_the_instruction_alone_decides():
    """Whatever the grounding, the instruction picks the action: seeing tells nothing by itself."""
    rows = np.eye(3)[:, None, :].repeat(4, axis=1)
    found = coherent_trust(rows)
    assert found.trust == pytest.approx(0.0, abs=1e-15)
    assert found.information_sl_nats == pytest.approx(math.log(3))


def test_nothing_told_is_not_identified():
    for p in (np.full((2, 3, 4), 0.25), np.tile([0.0, 1.0], (3, 2, 1)), [[[1.0]]], [[[0.3, 0.7]]]):
        found = coherent_trust(p)
        assert math.isnan(found.trust)
        assert not found.identified
        assert found.information_sl_nats < 1e-10


def naive(p, weights):
    """I(X; S) and I(X; S,L) as Σ p(x, y) ln p(x, y) / (p(x) p(y)), cell by cell."""
    total = sum(w for row in weights for w in row)
    joint = {
        (told, seen, x): weights[told][seen] / total * p[told][seen][x]
        for told, seen, x in itertools.product(*map(range, np.shape(p)))
    }

    def information(key):
        both, of_x, of_y = {}, {}, {}
        for cell, mass in joint.items():
            x, y = cell[2], key(cell)
            both[x, y] = both.get((x, y), 0.0) + mass
            of_x[x] = of_x.get(x, 0.0) + mass
            of_y[y] = of_y.get(y, 0.0) + mass
        return sum(m * math.log(m / (of_x[x] * of_y[y])) for (x, y), m in both.items() if m > 0)

    return information(lambda cell: cell[1]), information(lambda cell: cell[:2])


@pytest.mark.parametrize("seed", range(8))
def test_the_definition_written_out(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers([1, 1, 2], 6))
    p = rng.dirichlet(np.full(shape[2], 0.4), size=shape[:2])
    weights = rng.random(shape[:2]) * (rng.random(shape[:2]) < 0.8)
    weights[0, 0] += 0.1
    found = coherent_trust(p, weights)
    from_s, from_both = naive(p.tolist(), weights.tolist())
    assert found.information_s_nats == pytest.approx(from_s, abs=1e-12)
    assert found.information_sl_nats == pytest.approx(from_both, abs=1e-12)
    if from_both > 1e-3:
        assert found.trust == pytest.approx(from_s / from_both, abs=1e-9)


@st.composite
def joints(draw):
    """Any joint distribution: zeros, one-hot rows, tiny and huge weights, one instruction, one grounding."""
    shape = draw(st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 5)))
    count = shape[0] * shape[1]
    mass = st.one_of(st.just(0.0), st.floats(1e-300, 1e-280), st.floats(1e-6, 1.0))
    one_hot = st.integers(0, shape[2] - 1).map(lambda i: [float(i == x) for x in range(shape[2])])
    row = st.one_of(st.lists(mass, min_size=shape[2], max_size=shape[2]), one_hot)
    p = np.array(draw(st.lists(row, min_size=count, max_size=count)))
    assume((p.sum(axis=1) > 0).all())
    p = (p / p.sum(axis=1, keepdims=True)).reshape(shape)
    weight = st.one_of(st.just(0.0), st.just(5e-324), st.floats(1e-320, 1e-290), st.floats(0.0, 1.0), st.just(1.7e308))
    weights = np.array(draw(st.lists(weight, min_size=count, max_size=count))).reshape(shape[:2])
    assume(weights.any())
    return p, draw(st.sampled_from([weights, None]))


@many
@given(joints())
def test_in_the_unit_interval_for_any_joint(joint):
    p, weights = joint
    found = coherent_trust(p, weights)
    assert not found.identified or 0.0 <= found.trust <= 1.0
    assert found.h_x_nats >= found.h_x_given_s_nats - 1e-12
    assert found.h_x_given_s_nats >= found.h_x_given_ls_nats - 1e-12
    assert found.h_x_given_ls_nats >= 0.0
    assert found.h_x_nats <= math.log(p.shape[2]) + 1e-12
    if p.shape[0] == 1:
        assert not found.identified or found.trust == 1.0
    if p.shape[1] == 1:
        assert not found.identified or found.trust == 0.0


@many
@given(joints(), st.integers(0, 10**6))
def test_the_order_of_instructions_groundings_and_outcomes_does_not_count(joint, seed):
    p, weights = joint
    rng = np.random.default_rng(seed)
    order = [rng.permutation(n) for n in p.shape]
    moved = None if weights is None else weights[np.ix_(*order[:2])]
    first, second = coherent_trust(p, weights), coherent_trust(p[np.ix_(*order)], moved)
    assert second.information_s_nats == pytest.approx(first.information_s_nats, abs=1e-12)
    assert second.information_sl_nats == pytest.approx(first.information_sl_nats, abs=1e-12)


def test_rows_within_the_tolerance_are_divided_by_their_sum():
    p = np.array([[[0.5, 0.5 + 9e-7]], [[1.0, 0.0]]])
    exact = p / p.sum(axis=2, keepdims=True)
    assert coherent_trust(p) == coherent_trust(exact)


@pytest.mark.parametrize(
    ("p", "weights", "words"),
    [
        ([[[0.5, 0.5], [0.5, 0.6]]], None, r"instruction 0, grounding 1 sum to 1\.1, not to 1 within 1e-06"),
        ([[[0.5, 0.5]], [[1.5, -0.5]]], None, r"-0\.5 at instruction 1, grounding 0, outcome 1 is not a probability"),
        ([[[0.5, math.nan]]], None, r"nan at instruction 0, grounding 0, outcome 1"),
        ([[[0.5, math.inf]]], None, "inf at instruction 0, grounding 0, outcome 1"),
        ([[0.5, 0.5]], None, r"instructions × groundings × outcomes.*\(1, 2\)"),
        (np.zeros((0, 2, 2)), None, "none of them empty"),
        ([[[0.5, 0.5]]], [[1.0, 1.0]], r"\(1, 1\), got \(1, 2\)"),
        ([[[1.0], [1.0]]], [[1.0, -1.0]], "-1 at instruction 0, grounding 1"),
        ([[[1.0], [1.0]]], [[math.nan, 1.0]], "nan at instruction 0, grounding 0"),
        ([[[1.0], [1.0]]], [[0.0, 0.0]], "all of them are 0"),
    ],
)
def test_what_is_no_joint_distribution_is_refused_with_its_place(p, weights, words):
    with pytest.raises(EvidenceError, match=words):
        coherent_trust(p, weights)


def test_only_rounding_is_taken_back():
    assert _information(-1e-10) == 0.0
    assert _information(0.25) == 0.25
    with pytest.raises(EvidenceError, match="not entropies of one joint distribution"):
        _information(-1e-8)


# -- the null -------------------------------------------------------------------------------------------------------


def noise(told, known, states, rng):
    """Answers that neither instruction nor grounding decides: a wording each."""
    return [rng.dirichlet(np.full(4, 3.0), size=(told, known)) for _ in range(states)]


@pytest.mark.parametrize(("told", "known", "expected"), [(2, 2, 0.337), (2, 8, 0.468)])
def test_wording_alone_gives_far_more_than_zero(told, known, expected):
    """About (S − 1) / (L S − 1) of the information, for 2 × 2 a third."""
    rng = np.random.default_rng(1)
    tables = noise(told, known, 300, rng)
    found = coherent_null(tables, arrangements=200, seed=0)
    assert found.mean == pytest.approx((known - 1) / (told * known - 1), abs=0.02)
    assert found.mean == pytest.approx(expected, abs=0.02)


def test_all_orders_of_four_pairs_by_hand():
    """Two answers each of "left" and "right": one way in three puts equals into one column, and S tells all of it."""
    found = coherent_null([[[[1, 0], [0, 1]], [[1, 0], [0, 1]]]], seed=0)
    assert found.arrangements == 24
    assert found.mean == pytest.approx(1 / 3)
    assert found.high == 1.0
    assert found.share_at_least == pytest.approx(1 / 3)


def test_a_grounding_that_decides_is_above_its_null():
    rng = np.random.default_rng(2)
    columns = rng.dirichlet(np.full(4, 0.3), size=(20, 1, 6))
    tables = [0.95 * np.repeat(one, 3, axis=0) + 0.05 * rng.dirichlet(np.ones(4), size=(3, 6)) for one in columns]
    found = coherent_null(tables, arrangements=500, seed=0)
    whole = [coherent_trust(table) for table in tables]
    ratio = sum(one.information_s_nats for one in whole) / sum(one.information_sl_nats for one in whole)
    assert ratio > found.high
    assert found.share_at_least == pytest.approx(1 / 501)
    assert found == coherent_null(tables, arrangements=500, seed=0)


def test_where_nothing_is_told_there_is_no_null():
    assert coherent_null([np.full((2, 2, 4), 0.25)], seed=0) is None
