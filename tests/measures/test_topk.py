"""Entropy from the top-k: the bucket value, and bounds that hold for every distribution and are tight."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from howsure.errors import EvidenceError, InputError
from howsure.measures import entropy_nats, topk_entropies, topk_entropy

few = settings(max_examples=150, deadline=None)
logits = hnp.arrays(np.float64, st.integers(1, 30), elements=st.floats(-150, 0))


def softmax(x):
    w = np.exp(x - x.max())
    return w / w.sum()


def log(p):
    with np.errstate(divide="ignore"):
        return np.minimum(np.log(p), 0.0)


def naive_low(known, cap, r):
    """Written out: fill unseen tokens up to the cap, one after the other."""
    parts = list(known)
    while r > cap:
        parts.append(cap)
        r -= cap
    parts.append(r)
    return -sum(x * math.log(x) for x in parts if x > 0)


def test_by_hand():
    h = topk_entropy(np.log([0.4, 0.2]), vocab_size=10)
    assert h.remainder == pytest.approx(0.4)
    assert h.entropy_nats == pytest.approx(-0.8 * math.log(0.4) - 0.2 * math.log(0.2))
    assert h.low_nats == pytest.approx(-0.4 * math.log(0.4) - 0.6 * math.log(0.2))
    assert h.high_nats == pytest.approx(-0.4 * math.log(0.4) - 0.2 * math.log(0.2) + 0.4 * math.log(8 / 0.4))


def test_without_the_vocabulary_the_upper_bound_is_unknown():
    assert topk_entropy(np.log([0.4, 0.2])).high_nats is None
    assert topk_entropies(np.log([0.4, 0.2]), [0, 2]).high_nats is None


@few
@given(logits, st.integers(1, 30))
def test_bounds_hold_for_any_distribution_and_any_k(x, k):
    p = np.sort(softmax(x))[::-1]
    top = p[:k]
    h = topk_entropy(log(top), vocab_size=len(p))
    true = entropy_nats(p)
    assert h.entropy_nats <= h.low_nats + 1e-9
    assert h.low_nats <= true + 1e-9
    assert true <= h.high_nats + 1e-9
    assert h.remainder == pytest.approx(p[k:].sum(), abs=1e-12)


@few
@given(logits.filter(lambda x: len(x) > 2), st.integers(1, 28), st.integers(0, 30))
def test_bounds_hold_with_a_chosen_token_outside_the_top_k(x, k, which):
    p = np.sort(softmax(x))[::-1]
    k = min(k, len(p) - 1)
    chosen = p[k + which % (len(p) - k)]
    h = topk_entropy(log(p[:k]), chosen_logprob=float(log(chosen)), vocab_size=len(p))
    true = entropy_nats(p)
    assert h.entropy_nats - 1e-9 <= h.low_nats <= true + 1e-9
    assert true <= h.high_nats + 1e-9
    assert h.remainder == pytest.approx(max(0, 1 - p[:k].sum() - chosen), abs=1e-12)


def test_the_chosen_token_does_not_lower_the_cap():
    # unseen tokens may hold up to 0.2 (the smallest of the top-k), not just the chosen token's 0.01
    h = topk_entropy(np.log([0.5, 0.2]), chosen_logprob=math.log(0.01))
    assert h.low_nats == pytest.approx(naive_low([0.5, 0.2, 0.01], 0.2, 0.29))


@few
@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=5), st.floats(0.01, 0.95))
def test_low_is_the_entropy_of_a_real_distribution(weights, share):
    """Tight from below: filling tokens up to the cap is a distribution with this very top-k."""
    top = np.array(weights) / sum(weights) * share
    h = topk_entropy(np.log(top))
    cap = top.min()
    whole = int((1 - share) // cap)
    extremal = np.concatenate([top, np.full(whole, cap), [max(0.0, 1 - top.sum() - whole * cap)]])
    assert np.all(extremal[len(top) :] <= cap * (1 + 1e-9))
    assert h.low_nats == pytest.approx(entropy_nats(extremal), abs=1e-9)
    assert h.low_nats == pytest.approx(naive_low(top, cap, 1 - top.sum()), abs=1e-9)


@few
@given(st.lists(st.floats(0.1, 1), min_size=1, max_size=5), st.floats(0.3, 0.95), st.integers(0, 500))
def test_high_is_the_entropy_of_a_real_distribution(weights, share, extra):
    """Tight from above: the remainder spread evenly over the rest of the vocabulary."""
    top = np.array(weights) / sum(weights) * share
    unseen = math.ceil((1 - share) / top.min()) + extra
    spread = np.concatenate([top, np.full(unseen, (1 - top.sum()) / unseen)])
    h = topk_entropy(np.log(top), vocab_size=len(spread))
    assert h.high_nats == pytest.approx(entropy_nats(spread), abs=1e-9)


def test_bucket_is_the_entropy_of_the_top_k_and_one_bucket():
    p = np.array([0.3, 0.3, 0.15])
    assert topk_entropy(np.log(p)).entropy_nats == pytest.approx(entropy_nats([*p, 0.25]))


def test_division_that_comes_out_even_is_robust():
    h = topk_entropy(np.log([0.1]))  # 0.9 / 0.1 is 9 only up to rounding
    assert h.low_nats == pytest.approx(math.log(10), abs=1e-12)


def test_all_mass_on_one_token():
    h = topk_entropy([0.0, -math.inf, -9999.0], vocab_size=50_000)
    assert h == (0.0, 0.0, 0.0, 0.0)


def test_a_gap_of_120_nats_stays_finite():
    h = topk_entropy([0.0, -120.0], vocab_size=100)
    assert 0 < h.entropy_nats < 1e-48
    assert h.low_nats == h.high_nats == h.entropy_nats


def test_a_tiny_cap_does_not_blow_up():
    h = topk_entropy([math.log(0.9), -700.0])
    assert h.low_nats == pytest.approx(-0.9 * math.log(0.9) + 0.1 * 700, rel=1e-9)


def test_a_cut_top_k_sets_no_cap():
    h = topk_entropy([math.log(0.6), -math.inf])
    assert h.low_nats == h.entropy_nats == pytest.approx(entropy_nats([0.6, 0.4]))


def test_rounding_above_one_is_divided_out():
    h = topk_entropy(np.log([0.5, 0.5]) + 5e-4, vocab_size=2)
    assert h.remainder == 0.0
    assert h.entropy_nats == h.low_nats == h.high_nats == pytest.approx(math.log(2), abs=1e-12)
    unbounded = topk_entropy(np.log([0.5, 0.5]) + 5e-4)
    assert unbounded.entropy_nats == unbounded.low_nats == pytest.approx(math.log(2), abs=1e-12)


def test_a_whole_vocabulary_has_no_remainder():
    h = topk_entropy(np.log([0.5, 0.5]) - 1e-7, vocab_size=2)
    assert h.remainder == 0.0
    assert h.low_nats == h.high_nats == h.entropy_nats == pytest.approx(math.log(2), abs=1e-9)
    with pytest.raises(EvidenceError, match=r"position 0: the whole vocabulary of 2 tokens sums to 0\.9"):
        topk_entropy(np.log([0.5, 0.4]), vocab_size=2)


def test_only_the_chosen_token_is_known():
    h = topk_entropy([], chosen_logprob=math.log(0.25), vocab_size=4)
    assert h.entropy_nats == h.low_nats == pytest.approx(entropy_nats([0.25, 0.75]))
    assert h.high_nats == pytest.approx(math.log(4))


def test_no_evidence_is_missing():
    assert topk_entropy([]) is None
    columns = topk_entropies(np.log([0.5, 0.5]), [0, 0, 2, 2], vocab_size=9)
    for column in columns:
        assert np.isnan(column).tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"logprobs": np.log([0.5, 0.9, 0.9]), "starts": [0, 1, 3]},
            EvidenceError,
            "position 1.*not log-prob",
        ),
        ({"logprobs": [-1.0, float("nan")], "starts": [0, 2]}, EvidenceError, "NaN at token 1"),
        ({"logprobs": [0.5], "starts": [0, 1]}, EvidenceError, "0.5 at token 0"),
        ({"logprobs": [-1.0], "starts": [0, 2]}, EvidenceError, "starts must be integers from 0 to 1"),
        ({"logprobs": [-1.0], "starts": [0, 1], "chosen_logprobs": [-2.0, -2.0]}, EvidenceError, "shape"),
        ({"logprobs": [-1.0, -2.0], "starts": [0, 2], "vocab_size": 1}, InputError, "smaller than the 2"),
        (
            {"logprobs": np.log([0.5, 0.1]), "starts": [0, 2], "vocab_size": 3},
            EvidenceError,
            "does not fit into 1",
        ),
    ],
)
def test_impossible_evidence_is_refused_with_its_place(arguments, error, message):
    with pytest.raises(error, match=message):
        topk_entropies(**arguments)


def test_nan_as_chosen_token_is_an_error_for_one_position():
    with pytest.raises(EvidenceError, match="chosen token: NaN"):
        topk_entropy([-1.0], chosen_logprob=math.nan)


@few
@given(st.lists(st.tuples(st.lists(st.floats(-20, -3), max_size=6), st.floats(-30, -4) | st.none()), max_size=8))
def test_many_positions_equal_one_at_a_time(positions):
    flat = [x for row, _ in positions for x in row]
    starts = np.cumsum([0] + [len(row) for row, _ in positions])
    chosen = np.array([np.nan if c is None else c for _, c in positions])
    columns = topk_entropies(flat, starts, chosen_logprobs=chosen, vocab_size=10**10)
    for i, (row, c) in enumerate(positions):
        one = topk_entropy(row, chosen_logprob=c, vocab_size=10**10)
        many = [float(column[i]) for column in columns]
        if one is None:
            assert np.isnan(many).all()
        else:
            np.testing.assert_allclose(many, one, rtol=1e-12)


@few
@given(st.lists(st.floats(-20, -2.5), min_size=1, max_size=10), st.randoms())
def test_the_order_of_the_alternatives_does_not_matter(row, random):
    shuffled = random.sample(row, len(row))
    np.testing.assert_allclose(
        topk_entropy(row, vocab_size=10**12), topk_entropy(shuffled, vocab_size=10**12), rtol=1e-12
    )
