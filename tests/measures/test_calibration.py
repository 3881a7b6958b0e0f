"""Calibration errors, Brier score and log-loss."""

import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howsure.errors import EvidenceError, InputError, MissingExtra
from howsure.measures import (
    brier_score,
    calibration_floor,
    expected_calibration_error,
    log_loss,
    overconfidence_interval,
    reliability_bins,
    share_interval,
    smooth_ece,
)
from howsure.measures.calibration import shared_luck

few = settings(max_examples=100, deadline=None)
answers = st.lists(
    st.tuples(st.floats(0, 1) | st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.booleans()),
    min_size=1,
    max_size=30,
).map(lambda rows: (np.array([c for c, _ in rows]), np.array([y for _, y in rows])))

MEASURES = [
    lambda c, y: expected_calibration_error(c, y),
    lambda c, y: expected_calibration_error(c, y, bins=4, scheme="mass"),
    smooth_ece,
    brier_score,
    log_loss,
]


def test_equal_width_by_hand():
    confidence, correct = [0.1, 0.2, 0.6, 0.9, 1.0], [0, 1, 1, 1, 0]
    bins = reliability_bins(confidence, correct, bins=2)
    assert bins.index.tolist() == [0, 1]
    assert bins.count.tolist() == [2, 3]
    np.testing.assert_allclose(bins.mean_confidence, [0.15, 2.5 / 3])
    np.testing.assert_allclose(bins.accuracy, [0.5, 2 / 3])
    expected = 2 / 5 * 0.35 + 3 / 5 * (2.5 / 3 - 2 / 3)
    assert expected_calibration_error(confidence, correct, bins=2) == pytest.approx(expected)


def test_edges_belong_to_the_bin_below():
    for bins in (5, 10, 100):
        edges = np.arange(1, bins + 1) / bins
        assert reliability_bins(edges, np.ones(bins), bins).index.tolist() == list(range(bins))
    assert reliability_bins([0.0, 1.0], [0, 1], 3).index.tolist() == [0, 2]


def test_equal_mass_without_ties_splits_evenly():
    confidence = np.random.default_rng(0).permutation(np.linspace(0.01, 0.2, 60))
    assert reliability_bins(confidence, np.ones(60), 15, "mass").count.tolist() == [4] * 15


def test_equal_mass_never_splits_ties():
    confidence = np.array([0.1] * 7 + [0.5] * 2 + [0.9] * 7)
    correct = np.arange(16) % 2
    bins = reliability_bins(confidence, correct, 4, "mass")
    assert bins.count.tolist() == [7, 2, 7]
    np.testing.assert_allclose(bins.mean_confidence, [0.1, 0.5, 0.9])
    expected = abs(0.7 - 3) + abs(1.0 - 1) + abs(6.3 - 4)
    assert expected_calibration_error(confidence, correct, 4, "mass") == pytest.approx(expected / 16)


@few
@given(answers, st.integers(1, 20))
def test_equal_width_is_the_naive_definition_and_scikit_learn(rows, bins):
    from sklearn.calibration import calibration_curve

    confidence, correct = rows
    naive = 0.0
    for b in range(bins):
        inside = (confidence > b / bins) & (confidence <= (b + 1) / bins) | ((confidence == 0) & (b == 0))
        if inside.any():
            naive += inside.mean() * abs(correct[inside].mean() - confidence[inside].mean())
    assert expected_calibration_error(confidence, correct, bins) == pytest.approx(naive, abs=1e-12)
    found = reliability_bins(confidence, correct, bins)
    if len(set(correct.tolist())) == 2:
        accuracy, mean = calibration_curve(correct, confidence, n_bins=bins)
        if len(mean) == len(found.count):  # linspace and b / bins may differ in an edge's last digit
            np.testing.assert_allclose(found.accuracy, accuracy)
            np.testing.assert_allclose(found.mean_confidence, mean)


@few
@given(answers, st.integers(1, 20))
def test_equal_mass_is_the_naive_definition(rows, bins):
    confidence, correct = rows
    n = len(confidence)
    members = {}
    for c, y in zip(confidence, correct, strict=True):
        below, equal = int((confidence < c).sum()), int((confidence == c).sum())
        members.setdefault((2 * below + equal) * bins // (2 * n), []).append(c - y)
    naive = sum(abs(sum(gaps)) for gaps in members.values()) / n
    assert expected_calibration_error(confidence, correct, bins, "mass") == pytest.approx(naive, abs=1e-12)


@few
@given(answers)
def test_order_does_not_matter(rows):
    confidence, correct = rows
    order = np.random.default_rng(0).permutation(len(confidence))
    for measure in MEASURES:
        assert measure(confidence[order], correct[order]) == pytest.approx(measure(confidence, correct), abs=1e-9)


@few
@given(answers)
def test_brier_and_log_loss_are_their_definitions(rows):
    confidence, correct = rows
    assert brier_score(confidence, correct) == pytest.approx(np.mean((confidence - correct) ** 2), abs=1e-12)
    clipped = np.clip(confidence, 2.220446049250313e-16, 1 - 2.220446049250313e-16)
    naive = -np.mean(np.where(correct, np.log(clipped), np.log1p(-clipped)))
    assert log_loss(confidence, correct) == pytest.approx(naive, abs=1e-9)


def test_brier_and_log_loss_by_hand():
    assert brier_score([0.9, 0.4], [1, 0]) == pytest.approx((0.01 + 0.16) / 2)
    assert log_loss([0.9, 0.4], [1, 0]) == pytest.approx(-(math.log(0.9) + math.log(0.6)) / 2)


def test_one_class_only_is_fine():
    assert brier_score([0.5, 1.0], [0, 0]) == pytest.approx(0.625)
    assert brier_score([0.5, 1.0], [True, True]) == pytest.approx(0.125)
    assert log_loss([0.5, 0.5], [0, 0]) == pytest.approx(math.log(2))
    assert log_loss([1.0], [0]) == pytest.approx(36.04365, abs=1e-4)
    assert expected_calibration_error([1.0, 1.0], [1, 1]) == 0.0
    assert smooth_ece([1.0], [1]) == pytest.approx(0.0, abs=1e-9)


def test_smooth_ece_is_relplots_and_near_the_truth():
    import relplot

    rng = np.random.default_rng(0)
    confidence = rng.random(3000)
    calibrated = rng.random(3000) < confidence
    overconfident = rng.random(3000) < 0.6 * confidence
    assert smooth_ece(confidence, calibrated) < 0.03
    assert smooth_ece(confidence, overconfident) == pytest.approx(0.2, abs=0.03)  # mean of 0.4 c
    assert smooth_ece(confidence, overconfident) == relplot.smECE(confidence, overconfident.astype(float))


def test_perfect_and_worst():
    assert expected_calibration_error([0.0, 1.0], [0, 1]) == 0.0
    assert expected_calibration_error([1.0, 1.0], [0, 0]) == 1.0
    assert expected_calibration_error([1.0, 0.0], [0, 1], scheme="mass") == 1.0


def test_no_answers_have_no_calibration():
    for measure in [*MEASURES, reliability_bins]:
        assert measure([], []) is None


@pytest.mark.parametrize("measure", MEASURES)
def test_what_cannot_be_used_is_refused(measure):
    with pytest.raises(EvidenceError, match=r"confidence: 1\.2 at position 1 is not between 0 and 1"):
        measure([0.5, 1.2], [1, 0])
    with pytest.raises(EvidenceError, match="confidence: nan at position 0"):
        measure([math.nan], [1])
    with pytest.raises(EvidenceError, match=r"correct: 0\.5 at position 0 is not 0 or 1"):
        measure([0.5], [0.5])
    with pytest.raises(EvidenceError, match="correct: nan at position 1"):
        measure([0.5, 0.5], [1, None])
    with pytest.raises(EvidenceError, match="got 2 and 1"):
        measure([0.5, 0.5], [1])


def test_wrong_options_are_refused():
    with pytest.raises(InputError, match="bins 0"):
        expected_calibration_error([0.5], [1], bins=0)
    with pytest.raises(InputError, match="'width' or 'mass'"):
        expected_calibration_error([0.5], [1], scheme="quantile")


def test_smooth_ece_without_relplot_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "relplot", None)
    with pytest.raises(MissingExtra, match=r'pip install "howsure\[stats\]"'):
        smooth_ece([0.5, 0.7], [0, 1])


# -- the floor of an ECE, and overconfidence ------------------------------------------------------------------------


def test_the_floor_of_one_bin_is_the_mean_distance_of_a_binomial():
    """20 answers at 0.9: E|K/20 − 0.9| for K ~ Binomial(20, 0.9)."""
    from scipy.stats import binom

    k = np.arange(21)
    expected = float(np.sum(binom.pmf(k, 20, 0.9) * np.abs(k / 20 - 0.9)))
    found = calibration_floor([0.9] * 20, draws=4000, seed=1)
    assert found.mean == pytest.approx(expected, abs=0.002)
    assert found.high == pytest.approx(0.1, abs=1e-9)  # 16 or 20 of 20 right: 95 % lie within


@pytest.mark.parametrize("scheme", ["width", "mass"])
def test_the_floor_is_what_calibrated_answers_show(scheme):
    rng = np.random.default_rng(0)
    confidence = rng.beta(2, 1, size=80)
    drawn = [expected_calibration_error(confidence, rng.random(80) < confidence, 15, scheme) for _ in range(500)]
    found = calibration_floor(confidence, scheme=scheme, seed=3)
    assert found.mean == pytest.approx(float(np.mean(drawn)), rel=0.05)
    assert 0.92 <= np.mean(np.array(drawn) <= found.high) <= 0.98
    assert calibration_floor([], seed=0) is None
    assert found == calibration_floor(confidence, scheme=scheme, seed=3)


@pytest.mark.parametrize(("common", "expected"), [(0.0, 0.0), (1.0, 1.0)])
def test_shared_luck_is_none_or_all(common, expected):
    """200 clusters of 6: each answer with luck of its own, or all of a cluster with one."""
    rng = np.random.default_rng(1)
    codes = np.repeat(np.arange(200), 6)
    sure = rng.beta(2, 1, size=1200)
    luck = np.where(rng.random(200)[codes] < common, rng.random(200)[codes], rng.random(1200))
    assert shared_luck(sure, luck < sure, clusters=codes) == pytest.approx(expected, abs=0.06)


def test_the_largest_shared_covariance_is_that_of_one_draw():
    """Two answers of confidences a ≤ b that share their luck have the covariance a − a b, here over all draws."""
    sure, codes = np.array([0.2, 0.5, 0.9, 0.4]), np.array([0, 0, 0, 1])
    draws = (np.arange(1000) + 0.5) / 1000
    products = [(float(u < a) - a) * (float(u < b) - b) for u in draws for a, b in ((0.2, 0.5), (0.2, 0.9), (0.5, 0.9))]
    most = 2 * sum(products) / 1000
    right = np.array([1, 1, 1, 0])
    residual = right - sure
    seen = residual[:3].sum() ** 2 - float(residual[:3] @ residual[:3])
    assert shared_luck(sure, right, clusters=codes) == pytest.approx(min(1.0, seen / most), abs=1e-3)


def test_the_floor_of_answers_that_hang_together_is_higher():
    """Twenty questions three times each say no more than twenty: the plain floor was passed in 81 % of such data."""
    passed = {"alone": 0, "together": 0}
    for seed in range(60):
        rng = np.random.default_rng(seed)
        once = rng.beta(2, 1, size=20)
        sure, right = np.repeat(once, 3), np.repeat(rng.random(20) < once, 3)
        error = expected_calibration_error(sure, right)
        alone = calibration_floor(sure, draws=200, seed=seed)
        together = calibration_floor(sure, right, clusters=np.repeat(np.arange(20), 3), draws=200, seed=seed)
        passed["alone"] += error > alone.high
        passed["together"] += error > together.high
    assert passed["alone"] > 30
    assert passed["together"] <= 9
    assert calibration_floor([0.5] * 8, clusters=[0, 0, 1, 1, 2, 2, 3, 3], seed=0) is None, "four units"


def test_overconfidence_of_the_all_right_is_not_known_to_the_last_digit():
    """Sure by 0.99 and always right, ten times: the mean of the differences would say −0.01 ± 0."""
    share = share_interval(np.ones(10))
    found = overconfidence_interval([0.99] * 10, [1] * 10)
    assert (found.low, found.high) == pytest.approx((-0.01, 0.99 - share.low))


def test_overconfidence_by_hand():
    """MOVER: d ± √(a² + b² − 2 ρ a b) with the ends' distances of both, and ρ of confidence and right."""
    from howsure.measures import mean_interval

    confidence = np.array([0.9, 0.8, 0.95, 0.6, 0.7, 0.85, 0.5, 0.99, 0.75, 0.65])
    correct = np.array([1, 1, 1, 0, 1, 0, 0, 1, 1, 0])
    c, p = confidence.mean(), correct.mean()
    mean, share, rho = mean_interval(confidence), share_interval(correct), np.corrcoef(confidence, correct)[0, 1]
    a, b = c - mean.low, share.high - p
    found = overconfidence_interval(confidence, correct)
    assert found.low == pytest.approx(c - p - math.sqrt(a * a + b * b - 2 * rho * a * b))
    a, b = mean.high - c, p - share.low
    assert found.high == pytest.approx(c - p + math.sqrt(a * a + b * b - 2 * rho * a * b))
    assert overconfidence_interval([0.5] * 4, [1, 0, 1, 0]) is None


@pytest.mark.parametrize("answers", [10, 20])
def test_overconfidence_covers_where_errors_are_few(answers):
    """With accuracy .95 a bootstrap of the differences covered .37 and .66."""
    held = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        found = overconfidence_interval(0.94 + 0.06 * rng.random(answers), rng.random(answers) < 0.95)
        held += found.low <= 0.02 <= found.high
    assert held / 300 >= 0.92
