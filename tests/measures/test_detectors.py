"""Alarms: statistics by hand and by definition, and a threshold that keeps its promise."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howsure.errors import EvidenceError, InputError
from howsure.measures import Baseline, cusum, first_alarm, fit_baseline, fit_threshold, highest, level_change
from howsure.measures.detectors import turn_count

few = settings(max_examples=100, deadline=None)
turns = st.lists(st.one_of(st.none(), st.floats(0, 20)), max_size=25)
BASE = Baseline(1.5, 0.7, 40, 0)


def naive_cusum(values, slack):
    found, now = [], math.nan
    for value in values:
        if value is not None:
            now = max(0.0, (0.0 if math.isnan(now) else now) + (value - BASE.mean_nats) / BASE.sd_nats - slack)
        found.append(now)
    return found


def naive_change(values, window):
    found, now = [], math.nan
    for end in range(1, len(values) + 1):
        known = [v for v in values[:end] if v is not None]
        if values[end - 1] is not None and len(known) >= window + 2:
            last, before = known[-window:], known[:-window]
            error = BASE.sd_nats * math.sqrt(1 / window + 1 / len(before))
            now = (sum(last) / window - sum(before) / len(before)) / error
        found.append(now)
    return found


def test_the_baseline_by_hand_and_by_numpy():
    assert fit_baseline([1.0, None, 2.0, 3.0, math.inf]) == Baseline(2.0, 1.0, 3, 1)
    u = np.random.default_rng(0).exponential(size=30)
    assert fit_baseline(u)[:2] == pytest.approx((u.mean(), u.std(ddof=1)))


@pytest.mark.parametrize("values", [[], [1.0], [None, 2.0], [math.inf, math.inf, 1.0]])
def test_too_few_turns_set_no_baseline(values):
    with pytest.raises(InputError, match="at least two known turns"):
        fit_baseline(values)


def test_turns_all_alike_set_no_baseline():
    with pytest.raises(InputError, match="all alike"):
        fit_baseline([0.3] * 7)
    with pytest.raises(InputError, match="all alike"):
        fit_baseline([0.0, 0.0])


@few
@given(turns, st.floats(0, 2))
def test_cusum_is_its_definition(values, slack):
    np.testing.assert_allclose(cusum(values, BASE, slack=slack), naive_cusum(values, slack), rtol=1e-9, atol=1e-9)


@few
@given(turns, st.integers(1, 4))
def test_level_change_is_its_definition(values, window):
    np.testing.assert_allclose(
        level_change(values, BASE, window=window), naive_change(values, window), rtol=1e-9, atol=1e-9
    )


def test_level_change_is_a_two_sample_z():
    from scipy.stats import norm

    rng = np.random.default_rng(1)
    steady = [level_change(rng.normal(9, 1, size=12), Baseline(9.0, 1.0, 9, 0))[-1] for _ in range(4000)]
    assert np.mean(np.array(steady) > norm.ppf(0.95)) == pytest.approx(0.05, abs=0.015)


def test_infinity_rings_from_there_on_and_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        summed = cusum([1.0, math.inf, None, 0.0], BASE)
        late = level_change([1.0, 1.0, 1.0, 1.0, 1.0, math.inf, 1.0, math.inf], BASE)
        early = level_change([math.inf, 1.0, 1.0, 1.0, 1.0], BASE)
    np.testing.assert_array_equal(summed, [0.0, math.inf, math.inf, math.inf])
    np.testing.assert_array_equal(late, [math.nan] * 4 + [0.0] + [math.inf] * 3)
    np.testing.assert_array_equal(early, [math.nan] * 4 + [math.inf])


def test_no_turns_one_turn_and_none_known():
    for statistic in (cusum, level_change):
        assert len(statistic([], BASE)) == 0
        assert np.isnan(statistic([None, None], BASE)).all()
    np.testing.assert_allclose(cusum([2.9], BASE), [1.5])
    assert np.isnan(level_change([2.0] * 4, BASE)).all()
    with pytest.raises(InputError, match="window 0"):
        level_change([1.0], BASE, window=0)


def test_turn_count_counts_known_and_unknown_turns():
    np.testing.assert_array_equal(turn_count([0.5, None, math.inf]), [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(turn_count([9.0, 0.0], lot=0.25), [1.25, 2.25])
    assert len(turn_count([])) == 0
    for lot in (-0.1, 1.0, math.nan):
        with pytest.raises(InputError, match="lot"):
            turn_count([1.0], lot=lot)


@pytest.mark.parametrize("lengths", [[12] * 200, [4] * 150 + [12] * 50, list(range(200))])
def test_with_lots_turn_count_keeps_its_rate_whatever_the_lengths(lengths):
    """Split conformal prediction is exact without ties; lots take the ties away."""
    rng, passed = np.random.default_rng(0), []
    for _ in range(3000):
        runs = rng.choice(lengths, size=40) + rng.random(40)
        passed.append(runs[0] > fit_threshold(runs[1:], 0.1))
    assert np.mean(passed) == pytest.approx(0.1, abs=0.02)


def test_the_threshold_by_hand():
    nine = np.arange(1.0, 10)
    assert fit_threshold(nine, 0.1) == 9.0  # ⌈10 · 0.9⌉
    assert fit_threshold(nine, 0.2) == 8.0
    assert fit_threshold(nine, 0.25) == 8.0  # ⌈7.5⌉
    assert fit_threshold(nine[:8], 0.1) == math.inf  # ⌈8.1⌉ is more than 8
    assert fit_threshold([], 0.5) == math.inf
    assert fit_threshold(np.arange(1.0, 20), 0.05) == 19.0


@few
@given(st.lists(st.floats(-5, 5), min_size=1, max_size=40), st.floats(0.01, 0.99))
def test_the_threshold_is_the_least_that_leaves_at_most_the_rate_above(maxima, rate):
    """Of n + 1 runs, the further one included and taken to lie above, at most α (n + 1) may do so."""
    got, allowed = fit_threshold(maxima, rate), rate * (len(maxima) + 1) + 1e-6
    if got == math.inf:
        assert allowed < 1 + 1e-5
        return
    assert sum(m > got for m in maxima) + 1 <= allowed
    assert sum(m >= got for m in maxima) + 1 > allowed - 1e-5


@pytest.mark.parametrize(("runs", "rate"), [(19, 0.05), (40, 0.1), (99, 0.2)])
def test_further_successful_runs_pass_it_as_seldom_as_promised(runs, rate):
    rng = np.random.default_rng(runs)
    passed = [rng.exponential() > fit_threshold(rng.exponential(size=runs), rate) for _ in range(4000)]
    # without ties the chance is 1 − rank / (n + 1)
    expected = 1 - math.ceil((runs + 1) * (1 - rate) - 1e-9) / (runs + 1)
    assert expected <= rate + 1e-12
    assert np.mean(passed) == pytest.approx(expected, abs=0.02)


def test_runs_without_a_statistic_count_as_silent():
    assert highest([]) == highest([math.nan]) == -math.inf
    assert fit_threshold([math.nan, -math.inf, 2.0, 3.0], 0.25) == 3.0
    assert fit_threshold([math.nan, math.nan, 3.0], 0.5) == -math.inf


def test_the_first_alarm():
    assert first_alarm([], 1.0) is None
    assert first_alarm([math.nan, math.nan], -math.inf) is None
    assert first_alarm([0.0, 1.0, 1.0], 1.0) is None
    assert first_alarm([math.nan, 0.0], -math.inf) == 1
    assert first_alarm([0.0, math.inf], 1e300) == 1
    assert first_alarm([math.inf], math.inf) is None


def test_what_cannot_be_used_is_refused():
    for rate in (0.0, 1.0, math.nan):
        with pytest.raises(InputError, match="false alarm rate"):
            fit_threshold([1.0], rate)
    with pytest.raises(EvidenceError, match="uncertainty: -1 at position 0"):
        cusum([-1.0], BASE)
