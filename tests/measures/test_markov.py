"""Markov sources: closed forms against hand, against powers of the matrix, and against long samples."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from howsure.errors import EvidenceError, InputError
from howsure.measures import MarkovModel, MarkovSource, block_entropies, entropy_nats, estimate_markov

few = settings(max_examples=60, deadline=None)
tables = st.integers(1, 6).flatmap(lambda s: hnp.arrays(np.float64, (s, s), elements=st.floats(0.01, 1)))
sources = tables.map(lambda t: MarkovSource(t / t.sum(axis=1, keepdims=True)))
pairs = st.integers(1, 5).flatmap(
    lambda s: st.tuples(*[hnp.arrays(np.float64, (s, s), elements=st.floats(0.01, 1))] * 2)
)

TWO = MarkovSource([[0.5, 0.5], [0.25, 0.75]])
THREE = MarkovSource([[0.0, 0.9, 0.1], [0.3, 0.2, 0.5], [0.8, 0.2, 0.0]])


# -- closed forms -----------------------------------------------------------------------------------------------------


def test_two_states_by_hand():
    # π_0 · 0.5 = π_1 · 0.25, so π = (1/3, 2/3).
    np.testing.assert_allclose(TWO.stationary, [1 / 3, 2 / 3])
    fair, biased = math.log(2), -0.25 * math.log(0.25) - 0.75 * math.log(0.75)
    assert TWO.entropy_rate_nats == pytest.approx(fair / 3 + 2 * biased / 3)


@few
@given(sources)
def test_the_stationary_distribution_is_the_limit_of_the_powers(source):
    settled = np.linalg.matrix_power(source.transitions, 4096)
    np.testing.assert_allclose(np.tile(source.stationary, (len(settled), 1)), settled, atol=1e-9)
    np.testing.assert_allclose(source.stationary @ source.transitions, source.stationary, atol=1e-14)


@few
@given(sources)
def test_the_entropy_rate_is_the_sum_written_out_and_at_most_that_of_single_symbols(source):
    p = source.transitions
    naive = -sum(source.stationary[i] * x * math.log(x) for i, row in enumerate(p) for x in row if x > 0)
    assert source.entropy_rate_nats == pytest.approx(naive, abs=1e-12)
    assert source.entropy_rate_nats <= entropy_nats(source.stationary) + 1e-12


def test_independent_symbols_have_the_entropy_of_one():
    p = [0.5, 0.25, 0.25]
    source = MarkovSource([p, p, p])
    np.testing.assert_allclose(source.stationary, p)
    assert source.entropy_rate_nats == pytest.approx(entropy_nats(p))


def test_a_uniform_source_has_the_perplexity_of_its_states():
    for states in (1, 2, 9):
        source = MarkovSource(np.full((states, states), 1 / states))
        assert math.exp(source.entropy_rate_nats) == pytest.approx(states)


def test_a_chain_that_nearly_falls_apart_keeps_its_digits():
    source = MarkovSource([[1 - 1e-13, 1e-13], [3e-13, 1 - 3e-13]])
    np.testing.assert_allclose(source.stationary, [0.75, 0.25], rtol=1e-12)


# -- what is no source ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("transitions", "message"),
    [
        ([[0.5, 0.5]], r"square table \[states × states\], got shape \(1, 2\)"),
        (np.empty((0, 0)), "square table"),
        ([0.5, 0.5], "square table"),
        ([[0.5, 0.5], [0.5, 0.4]], "sum to 0.9 in distribution 1"),
        ([[0.5, 0.5], [1.5, -0.5]], "-0.5 at position 3"),
        ([[0.5, 0.5], [float("nan"), 1.0]], "nan at position 2"),
        ([[1.0, 0.0], [0.5, 0.5]], "state 1 can never be reached from state 0"),
        (np.eye(3), "state 1 can never be reached from state 0"),
        ([[0.0, 1.0], [1.0, 0.0]], "period of 2"),
        ([[0, 1, 0], [0, 0, 1], [1, 0, 0]], "period of 3"),
        ([[0, 0.5, 0.5], [1, 0, 0], [1, 0, 0]], "period of 2"),
    ],
)
def test_what_is_no_ergodic_source_is_refused_with_the_reason(transitions, message):
    with pytest.raises(EvidenceError, match=message):
        MarkovSource(transitions)


def test_cycles_of_two_and_of_three_have_no_common_period():
    MarkovSource([[0, 1, 0], [0.5, 0, 0.5], [1, 0, 0]])
    ring = np.roll(np.eye(9), 1, axis=1)
    ring[4, 4], ring[4, 5] = 0.5, 0.5
    np.testing.assert_allclose(MarkovSource(ring).stationary, [0.1] * 4 + [0.2] + [0.1] * 4)


@few
@given(hnp.arrays(np.bool_, (4, 4)))
def test_what_is_taken_is_what_some_power_makes_positive(step):
    """Wielandt: a chain of s states is ergodic without period if and only if its power (s − 1)² + 1 has no zero."""
    step = step | np.roll(np.eye(4, dtype=bool), 1, axis=1) & ~step.any(axis=1, keepdims=True)
    transitions = step / step.sum(axis=1, keepdims=True)
    if np.linalg.matrix_power(step.astype(float), 10).all():
        assert MarkovSource(transitions).stationary.min() > 0
    else:
        with pytest.raises(EvidenceError, match="period|reached"):
            MarkovSource(transitions)


# -- samples ----------------------------------------------------------------------------------------------------------


def test_a_sample_has_the_frequencies_of_its_source():
    path = THREE.sample(200_000, seed=7)
    shares = np.bincount(path, minlength=3) / len(path)
    np.testing.assert_allclose(shares, THREE.stationary, atol=5e-3)
    learned = estimate_markov(path, 3, order=1, add_k=0)
    np.testing.assert_allclose(learned.transitions, THREE.transitions, atol=1e-2)
    assert learned.transitions[0, 0] == learned.transitions[2, 2] == 0.0, "what is impossible never happens"


def test_the_first_state_is_drawn_from_the_stationary_distribution():
    first = [int(TWO.sample(1, seed)[0]) for seed in range(3000)]
    assert np.mean(first) == pytest.approx(2 / 3, abs=4 * math.sqrt(2 / 9 / 3000))


def test_a_sample_depends_on_its_seed_alone():
    assert THREE.sample(50, seed=3).tolist() == THREE.sample(50, seed=3).tolist()
    assert THREE.sample(50, seed=3).tolist() != THREE.sample(50, seed=4).tolist()
    assert THREE.sample(50, seed=3)[:20].tolist() == THREE.sample(20, seed=3).tolist()
    spawned = np.random.SeedSequence(1).spawn(2)
    assert THREE.sample(50, spawned[0]).tolist() != THREE.sample(50, spawned[1]).tolist()
    with pytest.raises(InputError, match="n 0 must be at least 1"):
        THREE.sample(0, seed=1)


def test_rounding_never_leads_to_a_state_that_is_impossible(monkeypatch):
    """Ten times 0.1 sum to less than 1; the largest number below 1 must still fall on the tenth state."""
    rows = np.tile([0.1] * 10 + [0.0], (11, 1))
    rows[0] = 1 / 11
    source = MarkovSource(rows)
    assert np.cumsum(source.transitions[1])[-1] < 1, "or this would be no test"

    class Brink:
        def random(self, n):
            return np.full(n, np.nextafter(1.0, 0.0))

    monkeypatch.setattr(np.random, "default_rng", lambda seed: Brink())
    assert source.sample(4, seed=0).tolist() == [10, 9, 9, 9]


# -- likelihoods ------------------------------------------------------------------------------------------------------


def test_log_likelihoods_by_hand():
    found = TWO.log_likelihoods_nats([0, 1, 1, 0])
    np.testing.assert_allclose(found, np.log([1 / 3, 1 / 6, 1 / 8, 1 / 32]))
    np.testing.assert_allclose(TWO.model.log_likelihoods_nats([1]), np.log([2 / 3]))


@few
@given(sources)
def test_the_likelihoods_of_all_texts_of_one_length_sum_to_one(source):
    states = len(source.transitions)
    texts = np.indices((states,) * 3).reshape(3, -1).T
    total = sum(math.exp(source.log_likelihoods_nats(text)[-1]) for text in texts)
    assert total == pytest.approx(1.0)


def test_what_a_model_rules_out_is_minus_infinity_from_there_on():
    found = THREE.log_likelihoods_nats([0, 1, 1, 2, 2, 0])
    assert np.isfinite(found[:4]).all()
    assert np.isneginf(found[4:]).all()


def test_the_mean_surprisal_of_long_samples_nears_the_entropy_rate():
    """Shannon–McMillan–Breiman: 40 paths, whose mean lies within four standard errors of the closed form."""
    n = 5000
    means = np.array([-THREE.log_likelihoods_nats(THREE.sample(n, seed))[-1] / n for seed in range(40)])
    error = means.std(ddof=1) / math.sqrt(len(means))
    assert abs(means.mean() - THREE.entropy_rate_nats) < 4 * error
    assert error < 0.002, "so that the line above is a test"


def test_conditional_entropies_of_a_sample_stop_at_the_entropy_rate():
    rows = block_entropies(THREE.sample(200_000, seed=2), 4)
    assert rows[0].conditional_nats > THREE.entropy_rate_nats + 0.2
    for row in rows[1:]:
        assert row.conditional_nats == pytest.approx(THREE.entropy_rate_nats, abs=5e-3)


# -- models -----------------------------------------------------------------------------------------------------------


def test_estimates_by_hand():
    order_1 = estimate_markov([0, 1, 1, 0, 1], 2, order=1, add_k=1)
    np.testing.assert_allclose(order_1.transitions, [[1 / 4, 3 / 4], [2 / 4, 2 / 4]])
    np.testing.assert_allclose(order_1.initial, [3 / 7, 4 / 7])
    order_0 = estimate_markov([0, 1, 1, 0, 1], 2, order=0, add_k=0)
    np.testing.assert_allclose(order_0.transitions, [[2 / 5, 3 / 5]] * 2)
    np.testing.assert_allclose(order_0.log_likelihoods_nats([0, 1]), np.log([2 / 5, 6 / 25]))


@few
@given(pairs)
def test_no_model_does_better_than_the_source_itself(both):
    source, model = (MarkovSource(t / t.sum(axis=1, keepdims=True)) for t in both)
    p, m = source.transitions, model.transitions
    naive = -sum(source.stationary[i] * p[i, j] * math.log(m[i, j]) for i in range(len(p)) for j in range(len(p)))
    assert source.cross_entropy_rate_nats(model) == pytest.approx(naive)
    assert source.cross_entropy_rate_nats(model) >= source.entropy_rate_nats - 1e-12
    assert source.cross_entropy_rate_nats(source) == pytest.approx(source.entropy_rate_nats)


@few
@given(sources, st.integers(1, 200), st.sampled_from([0, 1]), st.floats(0.01, 5), st.integers(0, 99))
def test_an_estimated_models_limit_is_never_below_the_entropy_rate(source, training, order, add_k, seed):
    states = len(source.transitions)
    model = estimate_markov(source.sample(training, seed), states, order, add_k)
    limit = source.cross_entropy_rate_nats(model)
    assert source.entropy_rate_nats - 1e-12 <= limit < math.inf
    if order == 0:
        assert limit >= entropy_nats(source.stationary) - 1e-12, "no order-0 model is better than the frequencies"


def test_the_mean_surprisal_under_a_model_nears_its_cross_entropy_rate():
    model = estimate_markov(THREE.sample(60, seed=1), 3, order=1, add_k=0.5)
    path = THREE.sample(200_000, seed=9)
    found = -model.log_likelihoods_nats(path)[-1] / len(path)
    assert found == pytest.approx(THREE.cross_entropy_rate_nats(model), abs=0.01)
    assert found > THREE.entropy_rate_nats


def test_a_model_that_rules_out_what_happens_costs_infinitely_much():
    never = MarkovModel([1.0, 0.0], [[1.0, 0.0], [0.5, 0.5]])
    assert TWO.cross_entropy_rate_nats(never) == math.inf
    assert np.isneginf(never.log_likelihoods_nats([0, 1])[1])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([0, 1, 2], 2, 1, 1.0), EvidenceError, "2 at position 2 is not a state from 0 to 1"),
        (([0, -1], 2, 1, 1.0), EvidenceError, "-1 at position 1"),
        (([], 2, 1, 1.0), EvidenceError, "there are none"),
        (([0, 1], 2, 2, 1.0), InputError, "order 2 must be 0"),
        (([0, 1], 2, 1, -0.5), InputError, "add_k -0.5"),
        (([0, 1], 2, 1, math.nan), InputError, "add_k nan"),
        (([0, 1], 2, 1, 0.0), EvidenceError, "state 1 is never left in the sample"),
    ],
)
def test_what_cannot_be_estimated_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        estimate_markov(*arguments)


def test_models_of_another_size_are_refused():
    with pytest.raises(EvidenceError, match="the model has 3 states, the source 2"):
        TWO.cross_entropy_rate_nats(THREE)
    with pytest.raises(EvidenceError, match=r"initial has shape \(3,\), but there are 2 states"):
        MarkovModel([0.5, 0.25, 0.25], TWO.transitions)
    with pytest.raises(EvidenceError, match="5 at position 0 is not a state"):
        TWO.log_likelihoods_nats([5])
