"""Alarms while a run is still going: a statistic of the turns so far, and the threshold above which it rings.

Uncertainties are in nats, NaN where missing: such a turn leaves a statistic where it was. Before there are enough
known turns a statistic is NaN, and no alarm rings. A turn of probability zero (+inf) makes it infinite from there on.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from howsure.errors import InputError
from howsure.measures.checks import Array, vector
from howsure.measures.propagation import Turns, check_uncertainty, hold

CUSUM_SLACK = 0.5
WINDOW_TURNS = 3
LEAST_BEFORE_TURNS = 2


class Baseline(NamedTuple):
    """What turns look like when all goes well: mean and standard deviation (n − 1) of the finite ones, in nats."""

    mean_nats: float
    sd_nats: float
    turns: int
    infinite_turns: int


def fit_baseline(uncertainty: Turns) -> Baseline:
    """μ0 and σ0 of the turns of runs that succeeded; missing turns are left out, infinite ones are counted apart.

    Fewer than two turns, or turns that are all alike, set no scale: an error that says so.

    >>> fit_baseline([1.0, 2.0, 3.0, None])
    Baseline(mean_nats=2.0, sd_nats=1.0, turns=3, infinite_turns=0)
    """
    u = check_uncertainty(uncertainty)
    finite = u[np.isfinite(u)]
    if len(finite) < 2:
        raise InputError(f"a baseline needs at least two known turns of successful runs, and there are {len(finite)}")
    mean, sd = float(finite.mean()), float(finite.std(ddof=1))
    if sd <= 1e-12 * max(1.0, mean):
        raise InputError(f"the {len(finite)} known turns of successful runs are all alike, which sets no scale")
    return Baseline(mean, sd, len(finite), int(np.isinf(u).sum()))


def cusum(uncertainty: Turns, baseline: Baseline, *, slack: float = CUSUM_SLACK) -> Array:
    """S_i = max(0, S_{i−1} + (U_i − μ0)/σ0 − slack): how far the turns have drifted up, in standard deviations.

    Page, Continuous inspection schemes, Biometrika 41, 1954. A slack of 0.5 suits shifts of about one σ0.

    >>> cusum([None, 1.0, 4.0, None, 5.0, 0.0], Baseline(1.0, 2.0, 9, 0))
    array([nan, 0. , 1. , 1. , 2.5, 1.5])
    """
    u = check_uncertainty(uncertainty)
    known = ~np.isnan(u)
    drift = np.cumsum((u[known] - baseline.mean_nats) / baseline.sd_nats - slack)
    lowest = np.minimum(0.0, np.minimum.accumulate(drift))
    return hold(drift - lowest, known)


def level_change(uncertainty: Turns, baseline: Baseline, *, window: int = WINDOW_TURNS) -> Array:
    """(mean of the last w known turns − mean of the m known before them) / (σ0 · sqrt(1/w + 1/m)).

    A run is its own yardstick here, and the baseline only sets the unit. NaN until w + 2 turns are known.

    >>> level_change([1.0, 1.0, 1.0, 1.0, 5.0], Baseline(1.0, 2.0, 9, 0), window=2).round(4)
    array([   nan,    nan,    nan, 0.    , 1.0954])
    """
    if window < 1:
        raise InputError(f"window {window!r} must be at least 1 turn")
    u = check_uncertainty(uncertainty)
    known = ~np.isnan(u)
    changes = _changes(u[known], window) / baseline.sd_nats
    return hold(changes, known)


def _changes(values: Array, window: int) -> Array:
    """The difference of means over its standard error for σ = 1, at each value."""
    sums = np.concatenate([[0.0], np.cumsum(np.where(np.isinf(values), 0.0, values))])
    end = np.arange(window + LEAST_BEFORE_TURNS, len(values) + 1)
    before = end - window
    change = (sums[end] - sums[before]) / window - sums[before] / before
    changes = np.full(len(values), np.nan)
    changes[end - 1] = change / np.sqrt(1 / window + 1 / before)
    changes[np.logical_or.accumulate(np.isinf(values)) & ~np.isnan(changes)] = np.inf
    return changes


def turn_count(uncertainty: Turns, *, lot: float = 0.0) -> Array:
    """How many turns there were so far, known or not: an alarm on it says "turn k is reached", whatever was in it.

    Many runs have the same number of turns. `lot`, a number from 0 up to 1 for each run, decides between those, so that
    a threshold can lie among them; without it, a limit of turns that many successful runs reach would silence the
    alarm.

    >>> turn_count([0.5, None, 0.5], lot=0.25)
    array([1.25, 2.25, 3.25])
    """
    if not 0.0 <= lot < 1.0:
        raise InputError(f"lot {lot!r} must be 0 or more and less than 1")
    return np.arange(1.0, len(check_uncertainty(uncertainty)) + 1) + lot


def highest(statistic: ArrayLike) -> float:
    """The largest value of a statistic over a run; −inf where it was never defined, since it can ring no alarm.

    >>> highest([np.nan, 1.0, 0.5]), highest([np.nan])
    (1.0, -inf)
    """
    values = vector(statistic, "statistic")
    return float(np.max(values[~np.isnan(values)], initial=-np.inf))


def fit_threshold(successful_maxima: ArrayLike, false_alarm_rate: float) -> float:
    """The ⌈(n + 1)(1 − α)⌉-th smallest of the largest values that n successful runs reached.

    A further successful run that is exchangeable with these passes it with a chance of at most α, on average over draws
    of these n runs as well (split conformal prediction: Papadopoulos et al., 2002; Vovk et al., 2005). Given the n runs
    at hand the chance may be higher, and with few of them by a lot. +inf where that rank exceeds n: fewer than 1/α − 1
    runs set no threshold for so low a rate.

    >>> fit_threshold([1.0, 2.0, 3.0, 4.0], 0.2), fit_threshold([1.0, 2.0, 3.0], 0.2)
    (4.0, inf)
    """
    if not 0.0 < false_alarm_rate < 1.0:
        raise InputError(
            f"false alarm rate {false_alarm_rate!r} must lie strictly between 0 and 1 (0.1 for one in ten)"
        )
    maxima = vector(successful_maxima, "successful_maxima")
    maxima = np.sort(np.where(np.isnan(maxima), -np.inf, maxima))
    rank = math.ceil((len(maxima) + 1) * (1 - false_alarm_rate) - 1e-9)  # 20 · (1 − 0.05) may be a hair above 19
    return float(maxima[rank - 1]) if rank <= len(maxima) else math.inf


def first_alarm(statistic: ArrayLike, threshold: float) -> int | None:
    """The first turn at which the statistic lies above the threshold; None where it never does.

    >>> first_alarm([np.nan, 1.0, 3.0, 4.0], 2.0)
    2
    """
    above = np.flatnonzero(vector(statistic, "statistic") > threshold)
    return int(above[0]) if len(above) else None
