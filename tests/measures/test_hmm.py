"""The hidden Markov model: against every path written out, against hmmlearn if it is there, and on planted states."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howsure.errors import EvidenceError, InputError
from howsure.measures import GaussianHMM, fit_hmm
from howsure.measures.hmm import em_step

few = settings(max_examples=40, deadline=None)
seeds = st.integers(0, 2**32 - 1)

PLANTED = GaussianHMM(
    [0.8, 0.2, 0.0],
    [[0.85, 0.1, 0.05], [0.1, 0.8, 0.1], [0.0, 0.1, 0.9]],
    [[0.2, 0.2], [0.5, 0.3], [0.8, 0.9]],
    [[[0.01, 0.0], [0.0, 0.01]], [[0.01, 0.005], [0.005, 0.01]], [[0.02, 0.0], [0.0, 0.01]]],
)


def random_model(rng, states=3, width=2):
    spread = rng.normal(size=(states, width, width))
    return GaussianHMM(
        rng.dirichlet(np.ones(states)),
        rng.dirichlet(np.ones(states), size=states),
        rng.normal(size=(states, width)),
        spread @ spread.transpose(0, 2, 1) + 0.3 * np.eye(width),
    )


def sample(model, n, rng):
    states, rows = [], []
    for i in range(n):
        chance = model.initial if i == 0 else model.transitions[states[-1]]
        states.append(rng.choice(model.states, p=chance))
        rows.append(rng.multivariate_normal(model.means[states[-1]], model.covariances[states[-1]]))
    return np.array(states), np.array(rows)


def path_density(model, path, rows):
    """p(path, rows) written out."""
    from scipy.stats import multivariate_normal

    density = model.initial[path[0]]
    for before, now in itertools.pairwise(path):
        density *= model.transitions[before, now]
    for state, row in zip(path, rows, strict=True):
        if not np.isnan(row).any():
            density *= multivariate_normal(model.means[state], model.covariances[state]).pdf(row)
    return density


def over_all_paths(model, rows):
    """The likelihood, and P(last state | rows), by enumeration."""
    last = np.zeros(model.states)
    for path in itertools.product(range(model.states), repeat=len(rows)):
        last[path[-1]] += path_density(model, path, rows)
    return last.sum(), last / last.sum()


@pytest.mark.parametrize("seed", range(6))
def test_every_path_written_out(seed):
    rng = np.random.default_rng(seed)
    model = random_model(rng) if seed else PLANTED
    rows = sample(model, 5, rng)[1]
    rows[seed % 5, seed % 2] = np.nan
    filtered = model.filtered(rows)
    for end in range(1, 6):
        likelihood, last = over_all_paths(model, rows[:end])
        assert model.log_likelihood(rows[:end]) == pytest.approx(math.log(likelihood))
        np.testing.assert_allclose(filtered[end - 1], last, atol=1e-12)


def test_smoothed_states_and_steps_written_out():
    """What EM counts: P(state_t | all rows) and Σ_t P(state_{t−1}, state_t | all rows)."""
    from howsure.measures.hmm import _check_sequence, _expected, _forward, _pack

    rng = np.random.default_rng(0)
    model = random_model(rng)
    rows = sample(model, 4, rng)[1]
    rows[1] = np.nan
    packed = _pack([_check_sequence(rows, 2)])
    got = _expected(model, packed, _forward(model, packed))
    smoothed, steps, total = np.zeros((4, 3)), np.zeros((3, 3)), 0.0
    for path in itertools.product(range(3), repeat=4):
        density = path_density(model, path, rows)
        total += density
        smoothed[np.arange(4), path] += density
        for pair in itertools.pairwise(path):
            steps[pair] += density
    np.testing.assert_allclose(got.smoothed, smoothed / total, atol=1e-12)
    np.testing.assert_allclose(got.steps, steps / total, atol=1e-12)


def test_one_state_is_a_normal_distribution():
    rows = np.random.default_rng(0).normal(size=(50, 2)) @ [[1.0, 0.4], [0.0, 0.5]] + [3.0, -1.0]
    model = fit_hmm([rows[:20], rows[20:]], states=1, seed=0)
    np.testing.assert_allclose(model.means[0], rows.mean(axis=0))
    np.testing.assert_allclose(model.covariances[0], np.cov(rows, rowvar=False, bias=True))
    assert (model.filtered(rows) == 1).all()


@few
@given(seeds)
def test_em_never_lowers_the_likelihood(seed):
    rng = np.random.default_rng(seed)
    model = random_model(rng)
    sequences = [rng.normal(size=(length, 2)) * rng.choice([0.1, 1.0, 5.0]) for length in (1, 7, 12)]
    sequences[2][rng.random(12) < 0.3] = np.nan
    now = sum(model.log_likelihood(sequence) for sequence in sequences)
    for _ in range(5):
        model = em_step(model, sequences)
        before, now = now, sum(model.log_likelihood(sequence) for sequence in sequences)
        assert now >= before - 1e-8 * (1 + abs(before))


def test_planted_states_are_found_again():
    rng = np.random.default_rng(1)
    pairs = [sample(PLANTED, length, rng) for length in rng.integers(8, 30, size=150)]
    hidden = np.concatenate([states for states, _ in pairs])
    sequences = [rows for _, rows in pairs]
    for rows in sequences:
        rows[rng.random(len(rows)) < 0.1] = np.nan
    model = fit_hmm(sequences, seed=0)
    np.testing.assert_allclose(model.means, PLANTED.means, atol=0.02)
    np.testing.assert_allclose(model.transitions, PLANTED.transitions, atol=0.05)
    np.testing.assert_allclose(model.covariances, PLANTED.covariances, atol=0.004)
    np.testing.assert_allclose(model.initial, PLANTED.initial, atol=0.1)
    guessed = np.concatenate([model.filtered(rows).argmax(axis=1) for rows in sequences])
    assert (guessed == hidden).mean() > 0.9


def test_it_agrees_with_hmmlearn():
    hmmlearn = pytest.importorskip("hmmlearn.hmm")
    rng = np.random.default_rng(2)
    sequences = [sample(PLANTED, length, rng)[1] for length in (40, 25, 60)]
    ours = GaussianHMM([0.5, 0.3, 0.2], PLANTED.transitions * 0.7 + 0.1, PLANTED.means + 0.05, PLANTED.covariances * 2)
    theirs = hmmlearn.GaussianHMM(3, "full", n_iter=1, init_params="", covars_prior=0, min_covar=0, tol=-np.inf)
    theirs.startprob_, theirs.transmat_ = ours.initial, ours.transitions
    theirs.means_, theirs.covars_ = ours.means, ours.covariances
    stacked, lengths = np.concatenate(sequences), [len(rows) for rows in sequences]
    likelihood = sum(ours.log_likelihood(rows) for rows in sequences)
    assert likelihood == pytest.approx(theirs.score(stacked, lengths))
    for _ in range(3):
        ours = em_step(ours, sequences, floor=1e-9)
        theirs.fit(stacked, lengths)
        np.testing.assert_allclose(ours.initial, theirs.startprob_, atol=1e-9)
        np.testing.assert_allclose(ours.transitions, theirs.transmat_, atol=1e-9)
        np.testing.assert_allclose(ours.means, theirs.means_, atol=1e-9)
        np.testing.assert_allclose(ours.covariances, theirs.covars_, atol=1e-9)


def test_many_sequences_equal_one_at_a_time():
    rng = np.random.default_rng(6)
    sequences = [sample(PLANTED, length, rng)[1] for length in (3, 7, 1, 7, 2)]
    sequences.insert(2, np.empty((0, 2)))
    for many, rows in zip(PLANTED.filtered_all(sequences), sequences, strict=True):
        np.testing.assert_allclose(many, PLANTED.filtered(rows), atol=1e-14)
    assert PLANTED.filtered_all([]) == []


def test_looking_ahead_changes_nothing():
    rows = sample(PLANTED, 12, np.random.default_rng(3))[1]
    np.testing.assert_allclose(PLANTED.filtered(rows)[:5], PLANTED.filtered(rows[:5]))


def test_missing_rows_move_on_without_evidence():
    filtered = PLANTED.filtered(np.full((4, 2), np.nan))
    for turn in range(4):
        expected = PLANTED.initial @ np.linalg.matrix_power(PLANTED.transitions, turn)
        np.testing.assert_allclose(filtered[turn], expected)
    assert PLANTED.log_likelihood(np.full((4, 2), np.nan)) == pytest.approx(0.0, abs=1e-12)
    half = np.array([[0.2, np.nan]])
    np.testing.assert_allclose(PLANTED.filtered(half), PLANTED.initial[None])


def test_rows_far_from_every_state_neither_under_nor_overflow():
    rows = np.array([[1e4, -1e4], [0.2, 0.2], [-1e4, 1e4]])
    filtered = PLANTED.filtered(rows)
    assert np.isfinite(filtered).all()
    np.testing.assert_allclose(filtered.sum(axis=1), 1)
    assert math.isfinite(PLANTED.log_likelihood(rows))


def test_states_are_ordered_and_the_seed_decides():
    rng = np.random.default_rng(4)
    sequences = [sample(PLANTED, 15, rng)[1] for _ in range(20)]
    one, two = fit_hmm(sequences, seed=7), fit_hmm(sequences, seed=7)
    np.testing.assert_array_equal(one.means, two.means)
    assert (np.diff(one.means.sum(axis=1)) >= 0).all()


def test_units_do_not_count():
    rng = np.random.default_rng(5)
    sequences = [sample(PLANTED, 15, rng)[1] for _ in range(20)]
    factor = np.array([1000.0, 0.01])
    plain, scaled = fit_hmm(sequences, seed=0), fit_hmm([rows * factor for rows in sequences], seed=0)
    np.testing.assert_allclose(plain.filtered(sequences[0]), scaled.filtered(sequences[0] * factor), atol=1e-6)


@pytest.mark.parametrize(
    "sequences",
    [
        [np.ones((5, 2))],
        [np.column_stack([np.arange(6.0), np.full(6, 0.3)])],
        [[[0.1, 0.2]], [[0.3, 0.1]], [[0.1, 0.2]]],
        [np.repeat([[0.0, 1.0], [1.0, 0.0]], 10, axis=0)],
        [np.array([[0.0, 1.0], [np.nan, np.nan], [1.0, 1.0], [2.0, 2.0]]), np.empty((0, 2)), np.full((3, 2), np.nan)],
    ],
)
def test_poor_data_gives_a_model_that_can_be_used(sequences):
    model = fit_hmm(sequences, seed=0)
    for sequence in sequences:
        filtered = model.filtered(sequence)
        np.testing.assert_allclose(filtered.sum(axis=1), np.ones(len(filtered)))
        assert math.isfinite(model.log_likelihood(sequence))


def test_no_turns():
    assert PLANTED.filtered([]).shape == (0, 3)
    assert PLANTED.log_likelihood(np.empty((0, 2))) == 0.0


def test_what_cannot_be_used_is_refused():
    with pytest.raises(InputError, match="3 states cannot be learned from 2 known observations"):
        fit_hmm([[[0.0, 0.0], [1.0, 1.0], [np.nan, 1.0]]], seed=0)
    with pytest.raises(InputError, match="0 known observations"):
        fit_hmm([], seed=0)
    with pytest.raises(EvidenceError, match=r"same number of columns, got \[1, 2\]"):
        fit_hmm([np.zeros((4, 2)), np.zeros((4, 1))], seed=0)
    with pytest.raises(EvidenceError, match="inf at turn 1, column 0"):
        PLANTED.filtered([[0.0, 0.0], [np.inf, 0.0]])
    with pytest.raises(EvidenceError, match=r"\[turns × 2\], got shape \(1, 3\)"):
        PLANTED.filtered([[0.0, 0.0, 0.0]])
    with pytest.raises(EvidenceError, match="positive definite"):
        GaussianHMM([1.0], [[1.0]], [[0.0]], [[[-1.0]]])
    with pytest.raises(EvidenceError, match="do not fit means"):
        GaussianHMM([0.5, 0.5], np.eye(2), [[0.0]], [[[1.0]]])
