"""Two runs over the same units, each with items of its own."""

import numpy as np
import pytest

from howsure.errors import EvidenceError
from howsure.measures import mean_interval, share_interval
from howsure.measures.paired_units import Happened, Ratio, difference_of_ratios, difference_of_shares


def ones(values):
    return np.ones(len(values))


def test_where_units_have_one_item_it_is_the_mean_of_paired_differences():
    rng = np.random.default_rng(0)
    a, b, unit = rng.normal(size=12), rng.normal(1.0, 2.0, size=12), np.arange(12)
    got = difference_of_ratios(Ratio(a, ones(a), unit), Ratio(b, ones(b), unit))
    plain = mean_interval(b - a)
    assert got.mean_difference == pytest.approx(float((b - a).mean()))
    assert got.items == 12
    assert (got.interval.low, got.interval.high) == pytest.approx((plain.low, plain.high))


def test_ratios_by_hand():
    """Units of two items in A and of one in B: each contributes (b − mean b) / 5 − (its sum − 2 mean a) / 10."""
    a, b = np.array([1.0, 3.0, 2.0, 2.0, 0.0, 2.0, 5.0, 1.0, 3.0, 1.0]), np.array([4.0, 2.0, 3.0, 6.0, 5.0])
    got = difference_of_ratios(Ratio(a, ones(a), np.repeat(range(5), 2)), Ratio(b, ones(b), range(5)))
    parts = (b - 4.0) / 5 - (a.reshape(5, 2).sum(axis=1) - 4.0) / 10
    variance = float((parts**2).sum()) * 5 / 4
    middle = (got.interval.low + got.interval.high) / 2
    assert got.mean_difference == pytest.approx(4.0 - 2.0)
    assert got.interval.approximate, "fewer than ten units"
    half = (got.interval.high - got.interval.low) / 2
    assert half >= 2.776 * np.sqrt(variance) - 1e-9, "Student's t of four degrees, or farther on the skewed side"
    assert abs(middle - got.mean_difference) < half


def test_units_are_found_by_their_labels_whatever_their_order():
    rng = np.random.default_rng(1)
    a, b, unit = rng.normal(size=30), rng.normal(size=30), np.repeat(list("abcdef"), 5)
    got = difference_of_ratios(Ratio(a, ones(a), unit), Ratio(b, ones(b), unit))
    order = rng.permutation(30)
    again = difference_of_ratios(Ratio(a, ones(a), unit), Ratio(b[order], ones(b), unit[order]))
    assert again.interval.low == pytest.approx(got.interval.low)
    assert again.interval.high == pytest.approx(got.interval.high)


def test_pairing_units_sees_what_two_intervals_do_not():
    """Episodes differ by far more than the runs do."""
    rng = np.random.default_rng(2)
    hard = np.repeat(rng.normal(0, 5, size=20), 4)
    unit = np.repeat(range(20), 4)
    a, b = hard + rng.normal(0, 0.1, 80), hard + 0.3 + rng.normal(0, 0.1, 80)
    assert mean_interval(a, clusters=unit).high > mean_interval(b, clusters=unit).low
    assert difference_of_ratios(Ratio(a, ones(a), unit), Ratio(b, ones(b), unit)).interval.low > 0.2


def test_shares_keep_width_where_nothing_differs():
    alike = Happened(np.ones(40), np.repeat(range(10), 4))
    got = difference_of_shares(alike, alike)
    assert got.mean_difference == 0.0
    assert got.interval.low == pytest.approx(-got.interval.high)
    assert got.interval.high > 0.2
    assert got.interval.approximate
    varied = Happened(np.tile([1, 0], 20), np.repeat(range(10), 4))
    same = difference_of_shares(varied, varied).interval
    assert same.low < -0.05
    assert same.high > 0.05


def test_shares_that_have_nothing_in_common_are_as_wide_as_both():
    """MOVER without correlation: the ends are put together like the sides of a right angle."""
    rng = np.random.default_rng(3)
    a, b, unit = rng.random(400) < 0.5, rng.random(400) < 0.6, np.repeat(range(100), 4)
    got = difference_of_shares(Happened(a, unit), Happened(b, unit)).interval
    one, other = (share_interval(each, clusters=unit) for each in (a, b))
    apart = np.hypot(float(b.mean()) - other.low, one.high - float(a.mean()))
    assert got.low == pytest.approx(float(b.mean() - a.mean()) - apart, abs=0.02)
    assert "MOVER" in got.method


@pytest.mark.parametrize("units", [1, 4])
def test_too_few_units_have_no_interval(units):
    values, unit = np.arange(2.0 * units) % 2, np.repeat(range(units), 2)
    assert difference_of_ratios(Ratio(values, ones(values), unit), Ratio(values, ones(values), unit)).interval is None
    assert difference_of_shares(Happened(values, unit), Happened(values, unit)).interval is None


def test_nothing_has_no_difference_and_other_units_are_refused():
    assert difference_of_ratios(Ratio([], [], []), Ratio([], [], [])) is None
    assert difference_of_shares(Happened([], []), Happened([], [])) is None
    assert difference_of_ratios(Ratio([1.0], [0.0], [0]), Ratio([1.0], [1.0], [0])) is None
    with pytest.raises(EvidenceError, match="same units"):
        difference_of_shares(Happened([1], [0]), Happened([1], [1]))
