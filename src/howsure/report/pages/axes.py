"""Where a value lies on a plot, and the round numbers that are written beside it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


class Axis(NamedTuple):
    """An axis: what it counts, and its ends where they are given; otherwise the data decides."""

    label: str
    low: float | None = None
    high: float | None = None
    percent: bool = False
    whole: bool = False
    log: bool = False
    ticks: Sequence[tuple[float, str]] | None = None


class Scale:
    """Values to pixels."""

    def __init__(self, axis: Axis, values: Iterable[float], start_px: float, end_px: float, most_ticks: int) -> None:
        self._axis = axis
        self._start, self._end = start_px, end_px
        low, high = _ends(axis, [value for value in values if math.isfinite(value)])
        self.ticks = list(axis.ticks) if axis.ticks is not None else _ticks(axis, low, high, most_ticks)
        if axis.ticks is None and self.ticks:
            low = low if axis.low is not None else min(low, self.ticks[0][0])
            high = high if axis.high is not None else max(high, self.ticks[-1][0])
        self.low, self.high = low, high

    def __call__(self, value: float) -> float:
        low, high, value = (math.log10(v) if self._axis.log else v for v in (self.low, self.high, value))
        share = (value - low) / (high - low)
        return self._start + min(max(share, -0.02), 1.02) * (self._end - self._start)

    def shows(self, value: float) -> bool:
        return math.isfinite(value) and (value > 0 or not self._axis.log)


def _ends(axis: Axis, values: list[float]) -> tuple[float, float]:
    if axis.log:
        values = [value for value in values if value > 0]
    low = axis.low if axis.low is not None else min(values, default=1.0 if axis.log else 0.0)
    high = axis.high if axis.high is not None else max(values, default=low + 1.0)
    if high - low <= max(abs(low) * 1e-12, 1e-300):  # what differs by rounding alone is one value
        room = abs(low) * 0.1
        high = low * 10 if axis.log else low + (room if room > 1e-300 else 1.0)
    return low, high


def _ticks(axis: Axis, low: float, high: float, most: int) -> list[tuple[float, str]]:
    if axis.log:
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        every = max(1, math.ceil((last - first) / most))
        return [(10.0**power, f"{10.0**power:g}") for power in range(first, last + 1, every)]
    step = _step(high - low, most)
    step = max(1.0, float(math.ceil(step - 1e-9))) if axis.whole else step
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    values = [place * step for place in range(first, last + 1)]
    if axis.low is not None:
        values = [value for value in values if value >= low - step * 1e-6]
    if axis.high is not None:
        values = [value for value in values if value <= high + step * 1e-6]
    return [(value, tick_text(value, step, axis.percent)) for value in values]


def _step(span: float, most: int) -> float:
    """The smallest round step that needs no more than so many."""
    rough = span / max(most, 1)
    size = 10.0 ** math.floor(math.log10(rough))
    return next(size * step for step in _STEPS if size * step >= rough * (1 - 1e-9))


def tick_text(value: float, step: float, percent: bool) -> str:
    if percent:
        return f"{value * 100:.{_decimals(step * 100)}f} %"
    if abs(value) >= 1e5 or (value != 0 and step < 1e-4):
        digits = math.floor(math.log10(abs(value))) - math.floor(math.log10(step)) + 2
        return f"{value:.{max(digits, 3)}g}"
    return f"{value:.{_decimals(step)}f}"


def _decimals(step: float) -> int:
    return next((digits for digits in range(6) if abs(round(step, digits) - step) < step * 1e-6), 6)
