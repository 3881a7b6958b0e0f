"""The choices of one question, in log space."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howsure.errors import EvidenceError
from howsure.measures import ChoiceScores, NormalisedChoices, choice_scores, normalised_choices

few = settings(max_examples=100, deadline=None)
likelihoods = st.lists(st.floats(-300, 0), min_size=1, max_size=8)


def test_by_hand():
    got = choice_scores([math.log(0.1), math.log(0.3), math.log(0.1)])
    assert got.predicted_index == 1
    assert got.tie is False
    assert got.margin_nats == pytest.approx(math.log(3))
    assert got.confidence == pytest.approx(0.6)
    assert got.entropy_nats == pytest.approx(-0.6 * math.log(0.6) - 0.4 * math.log(0.2))


def test_a_tie_is_told_and_the_first_is_taken():
    got = choice_scores([-5.0, -2.0, -2.0])
    assert (got.predicted_index, got.tie, got.margin_nats) == (1, True, 0.0)
    assert choice_scores([-2.0, -5.0, -5.0]).tie is False


@pytest.mark.parametrize("gap", [120.0, 2000.0, 20_000.0])
def test_wide_gaps_stay_exact(gap):
    got = choice_scores([-3.0 - gap, -3.0])
    assert (got.predicted_index, got.margin_nats, got.confidence) == (1, gap, 1.0)
    expected = math.exp(-gap) * (1 + gap)
    assert got.entropy_nats == pytest.approx(expected, rel=1e-9)


def test_a_sum_below_minus_9999_is_a_number_like_any_other():
    got = choice_scores([-12_001.0, -12_000.0])
    assert (got.predicted_index, got.margin_nats) == (1, 1.0)
    assert got.confidence == pytest.approx(1 / (1 + math.exp(-1)))


def test_choices_of_likelihood_zero():
    assert choice_scores([-math.inf, -1.0]) == ChoiceScores(1, False, math.inf, 1.0, 0.0)
    nothing = ChoiceScores(None, False, None, None, None)
    assert choice_scores([-math.inf, -math.inf]) == nothing
    assert choice_scores([]) == nothing


def test_one_choice_has_no_margin():
    assert choice_scores([-4.0]) == ChoiceScores(0, False, None, 1.0, 0.0)


@few
@given(likelihoods)
def test_equals_scipy_and_ignores_order(values):
    from scipy.special import softmax
    from scipy.stats import entropy

    got = choice_scores(values)
    p = softmax(values)
    assert got.confidence == pytest.approx(float(p.max()), rel=1e-12)
    assert got.entropy_nats == pytest.approx(float(entropy(p)), abs=1e-9)
    assert values[got.predicted_index] == max(values)
    assert got.tie == (values.count(max(values)) > 1)
    back = choice_scores(values[::-1])
    assert back.margin_nats == got.margin_nats
    assert back.entropy_nats == pytest.approx(got.entropy_nats, abs=1e-12)
    shifted = choice_scores(np.array(values) - 1000.0)
    assert shifted.confidence == pytest.approx(got.confidence, rel=1e-9)


def test_what_is_no_log_likelihood_is_refused_with_its_place():
    with pytest.raises(EvidenceError, match=r"0\.3 at position 1"):
        choice_scores([-1.0, 0.3])
    with pytest.raises(EvidenceError, match="nan at position 0"):
        choice_scores([math.nan, -1.0])


def test_the_other_scores_by_hand():
    """−4 over four tokens is −1 each, −3 over one is −3; −4 over 2 bytes is −2 each, −3 over 6 is −0.5."""
    got = normalised_choices([-4.0, -3.0], [4, 1], [2, 6], [-9.0, -4.0])
    assert got == NormalisedChoices(per_token=0, per_byte=1, pmi=0), "−4 + 9 = 5 is more than −3 + 4 = 1"


def test_the_other_scores_by_their_definition():
    rng = np.random.default_rng(3)
    for _ in range(50):
        likely, alone = -rng.exponential(5, 4), -rng.exponential(5, 4)
        tokens, sizes = rng.integers(1, 9, 4), rng.integers(1, 30, 4)
        got = normalised_choices(likely, tokens, sizes, alone)
        scores = [[likely[i] / tokens[i] for i in range(4)], [likely[i] / sizes[i] for i in range(4)]]
        scores.append([likely[i] - alone[i] for i in range(4)])
        assert [got.per_token, got.per_byte, got.pmi] == [row.index(max(row)) for row in scores]


def test_what_is_not_known_is_none():
    zero = [-math.inf, -math.inf]
    assert normalised_choices([-1.0, -2.0], [1, 1], [1, 1]).pmi is None
    assert normalised_choices([-1.0, -2.0], [1, 1], [1, 1], [-1.0, math.nan]).pmi is None
    assert normalised_choices([-1.0, -2.0], [1, 1], [1, 1], [-1.0, -math.inf]).pmi is None
    assert normalised_choices([-math.inf, -2.0], [1, 1], [1, 1], [-1.0, -1.0]) == NormalisedChoices(1, 1, 1)
    assert normalised_choices(zero, [1, 1], [1, 1], [-1.0, -1.0]) == NormalisedChoices(None, None, None)
    with pytest.raises(EvidenceError, match="token counts"):
        normalised_choices([-1.0, -2.0], [0, 1], [1, 1])
