"""Weights of hidden states, learned from runs whose end is known."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howsure.errors import EvidenceError, InputError
from howsure.measures import fit_state_weights, running_weighted, state_features, turn_weights
from howsure.measures.learned_weights import _loss

few = settings(max_examples=60, deadline=None)
seeds = st.integers(0, 2**32 - 1)


def simulated(rng, n, signal):
    """Features of three states; only that of the last tells of failure, as far as `signal` goes."""
    features = rng.gamma(2, size=(n, 3)) / 2
    return features, rng.random(n) < 1 / (1 + np.exp(-signal * (features[:, 2] - 1)))


def test_features_and_weights_by_hand():
    gamma = [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]
    np.testing.assert_allclose(state_features([2.0, 4.0, None], gamma), [(4 + 8) / 2, 8 / 2])
    np.testing.assert_allclose(turn_weights(gamma, [0.5, 1.5]), np.sqrt([0.5, 1.0, 1.5]))


@few
@given(seeds)
def test_the_squared_score_is_the_sum_over_states(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 12))
    u, gamma, v = rng.exponential(size=n), rng.dirichlet(np.ones(3), size=n), rng.exponential(size=3)
    u[rng.random(n) < 0.3] = np.nan
    features = state_features(u, gamma)
    if features is None:
        assert np.isnan(u).all()
        return
    assert running_weighted(u, turn_weights(gamma, v))[-1] ** 2 == pytest.approx(features @ v)
    assert features.sum() == pytest.approx(np.nanmean(u**2))


@few
@given(seeds)
def test_the_gradient_is_that_of_the_loss(seed):
    from scipy.optimize import approx_fprime

    rng = np.random.default_rng(seed)
    s, y = rng.gamma(2, size=(12, 3)), rng.integers(0, 2, 12).astype(float)
    at = np.array([rng.normal(), *rng.random(4)])
    numeric = approx_fprime(at, lambda theta: _loss(theta, s, y, 0.7)[0])
    np.testing.assert_allclose(_loss(at, s, y, 0.7)[1], numeric, rtol=1e-3, atol=1e-3)


def test_the_loss_written_out():
    s, y = np.array([[1.0, 2.0], [0.5, 0.1]]), np.array([1.0, 0.0])
    odds = [math.exp(-1 + 2 * (0.5 * 1 + 1.5 * 2)), math.exp(-1 + 2 * (0.5 * 0.5 + 1.5 * 0.1))]
    likelihood = odds[0] / (1 + odds[0]) * 1 / (1 + odds[1])
    expected = -math.log(likelihood) + 3 / 2 * (0.5 + (2 / 10) ** 2)
    assert _loss(np.array([-1.0, 2.0, 0.5, 1.5]), s, y, 3.0)[0] == pytest.approx(expected)


def test_without_penalty_it_is_plain_logistic_regression():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    features = rng.gamma(2, size=(400, 3))
    failed = rng.random(400) < 1 / (1 + np.exp(4 - features @ [0.3, 0.6, 1.2]))
    got = fit_state_weights(features, failed, penalty=1e-6)
    plain = LogisticRegression(C=1e9, tol=1e-8).fit(features, failed)
    assert (plain.coef_ > 0).all()  # so that its bounds at 0 do not count
    np.testing.assert_allclose(got.slope * got.weights, plain.coef_[0], rtol=1e-2)
    assert got.intercept == pytest.approx(plain.intercept_[0], rel=1e-2)
    assert got.weights.mean() == pytest.approx(1)


def test_the_state_that_tells_of_failure_gets_the_weight():
    got = fit_state_weights(*simulated(np.random.default_rng(1), 300, 2.0))
    assert got.weights.argmax() == 2
    assert got.weights[2] > 2
    assert got.slope > 0


def test_without_a_signal_weights_stay_about_equal_and_ever_more_so_under_a_penalty():
    rng = np.random.default_rng(2)
    noise = [simulated(rng, 200, 0.0) for _ in range(15)]
    usual, strict = (np.array([fit_state_weights(*d, penalty=p).weights for d in noise]) for p in (1.0, 1000.0))
    np.testing.assert_allclose(usual.mean(axis=0), 1, atol=0.35)
    np.testing.assert_allclose(strict, 1, atol=0.05)


def test_a_score_that_falls_before_failure_earns_no_weights():
    rng = np.random.default_rng(3)
    features = rng.gamma(4, size=(300, 1)) / 4 * [1.0, 1.0, 1.0]
    failed = rng.random(300) < 1 / (1 + np.exp(4 * (features[:, 0] - 1)))
    got = fit_state_weights(features, failed)
    np.testing.assert_array_equal(got.weights, [1, 1, 1])
    assert got.slope == 0
    assert got.intercept == pytest.approx(math.log(failed.mean() / (1 - failed.mean())))


def test_runs_that_can_be_told_apart_without_error_end_all_the_same():
    got = fit_state_weights([[1.0, 0.0], [1.1, 0.1], [1.0, 3.0], [0.9, 3.3]], [0, 0, 1, 1])
    assert np.isfinite(got.weights).all()
    assert got.weights[1] > got.weights[0]


@few
@given(seeds)
def test_the_unit_of_uncertainty_does_not_count(seed):
    features, failed = simulated(np.random.default_rng(seed), 60, 1.0)
    if not 0 < failed.sum() < 60:
        return
    one, other = fit_state_weights(features, failed), fit_state_weights(features * 1e4, failed)
    np.testing.assert_allclose(one.weights, other.weights, atol=1e-6)
    assert (one.weights >= 0).all()
    assert one.weights.mean() == pytest.approx(1)


def test_infinite_turns_and_states_that_cannot_be():
    np.testing.assert_array_equal(state_features([math.inf, 1.0], [[1.0, 0.0], [0.0, 1.0]]), [math.inf, 0.5])


def test_nothing_known_and_nothing_uncertain():
    assert state_features([], np.empty((0, 3))) is None
    assert state_features([None], [[0.5, 0.5]]) is None
    assert np.isnan(turn_weights([[np.nan, np.nan]], [1.0, 1.0])).all()
    np.testing.assert_array_equal(fit_state_weights(np.zeros((4, 2)), [0, 1, 0, 1]).weights, [1, 1])


def test_what_cannot_be_used_is_refused():
    with pytest.raises(InputError, match="both failed and successful"):
        fit_state_weights([[1.0], [2.0]], [1, 1])
    with pytest.raises(EvidenceError, match="features: inf at position 1"):
        fit_state_weights([[1.0, np.inf]], [1])
    with pytest.raises(EvidenceError, match="got 2 and 1"):
        fit_state_weights([[1.0], [2.0]], [1])
    with pytest.raises(EvidenceError, match="2 weights, but 3 states"):
        turn_weights([[0.2, 0.3, 0.5]], [1.0, 1.0])
    with pytest.raises(EvidenceError, match="got 1 and 2"):
        state_features([1.0], [[1.0], [1.0]])
    with pytest.raises(EvidenceError, match=r"state probabilities: 1\.5"):
        turn_weights([[1.5]], [1.0])
