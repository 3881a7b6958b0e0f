"""Scales: every value within its room, round numbers beside it."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from howsure.report.charts import Axis, Scale, tick_text


def test_the_ends_of_the_data_lie_between_round_ticks() -> None:
    scale = Scale(Axis("nats"), [0.3, 2.9], 0.0, 100.0, 5)
    assert [text for _, text in scale.ticks] == ["0", "1", "2", "3"]
    assert (scale(0.0), scale(3.0), scale(1.5)) == (0.0, 100.0, 50.0)


def test_given_ends_hold_and_percent_is_written() -> None:
    scale = Scale(Axis("right", 0, 1, percent=True), [], 0.0, 10.0, 5)
    assert [text for _, text in scale.ticks] == ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]
    assert scale(0.25) == 2.5


def test_whole_numbers_have_no_ticks_between_them() -> None:
    assert [text for _, text in Scale(Axis("turn", whole=True), [1, 2], 0, 1, 8).ticks] == ["1", "2"]
    assert [text for _, text in Scale(Axis("runs", 0, whole=True), [12], 0, 1, 5).ticks] == ["0", "3", "6", "9", "12"]


def test_a_log_axis_has_powers_of_ten_and_shows_nothing_below_zero() -> None:
    scale = Scale(Axis("x", log=True), [1, 900], 0.0, 3.0, 8)
    assert [text for _, text in scale.ticks] == ["1", "10", "100", "1000"]
    assert scale(10) == pytest.approx(1.0)
    assert not scale.shows(0.0)


def test_what_lies_far_outside_is_drawn_at_the_edge_and_not_beyond_the_page() -> None:
    scale = Scale(Axis("T", -1, 2), [5000.0], 0.0, 100.0, 5)
    assert scale(5000.0) == pytest.approx(102.0)


@pytest.mark.parametrize(("value", "step", "percent", "text"), [
    (0.5, 0.25, False, "0.50"), (0.125, 0.125, True, "12.5 %"), (2.5e5, 5e4, False, "2.5e+05"), (2.0, 1.0, False, "2"),
    (50_010_000.0, 1e4, False, "5.001e+07"), (50_025_000.0, 2.5e4, False, "5.0025e+07"),
    (0.50002, 2e-5, False, "0.50002"),
])  # fmt: skip
def test_ticks_have_as_many_digits_as_their_step(value: float, step: float, percent: bool, text: str) -> None:
    assert tick_text(value, step, percent) == text


@given(st.lists(st.floats(-1e12, 1e12), max_size=20), st.integers(1, 10))
@example([0.0, -2.2e-311], 1)
def test_any_data_gets_ticks_that_hold_it(values: list[float], most: int) -> None:
    scale = Scale(Axis("x"), values, 0.0, 100.0, most)
    assert 1 <= len(scale.ticks) <= most + 2
    assert all(-1e-6 <= scale(value) <= 100.000001 for value in values)


@pytest.mark.parametrize("values", [[1.0, 1.0000000000000002], [0.0, 5e-324], [50_000_000.0, 50_060_000.0]])
def test_no_two_ticks_read_the_same(values: list[float]) -> None:
    texts = [text for _, text in Scale(Axis("x"), values, 0.0, 100.0, 8).ticks]
    assert len(texts) == len(set(texts)) > 1
