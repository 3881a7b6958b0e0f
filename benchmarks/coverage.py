"""`make coverage`, or `python -m benchmarks.coverage [--seed N] [--repeats N] [NAME …]`: do the intervals cover?

Every kind of interval that a command prints is drawn many times from data whose truth is known, for 2 to 1,000
independent units. The table says how often the 95 % interval held the truth, of the times that one was printed.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtr, ndtri

from howsure.measures import (
    Interval,
    PairedDifference,
    ScoredItems,
    auarc,
    auarc_interval,
    auroc,
    auroc_difference_interval,
    auroc_interval,
    calibration_floor,
    expected_calibration_error,
    mean_interval,
    median_interval,
    overconfidence_interval,
    paired_means,
    paired_rates,
    paired_shares,
    ratio_interval,
    share_interval,
    trust_over_steps,
)
from howsure.measures.intervals import ENOUGH_UNITS, LEAST_UNITS
from howsure.measures.paired_units import Happened, Ratio, difference_of_ratios, difference_of_shares

Array = NDArray[np.float64]
Rng = np.random.Generator

UNITS = (2, 3, 5, 10, 20, 50, 200, 1000)
ITEMS = 8
"""Items in a unit where units hold several: steps of an episode, questions about an image."""

LOWEST, HIGHEST, LOWEST_OF_FEW = 0.93, 0.97, 0.90


@dataclass(frozen=True)
class Case:
    """One figure of one kind of data: `draw(rng, units)` gives its interval, or None where none is printed."""

    figure: str
    data: str
    truth: Callable[[], float]
    draw: Callable[[Rng, int], Interval | None]

    @property
    def name(self) -> str:
        return f"{self.figure}: {self.data}"


@dataclass(frozen=True)
class Cell:
    """How often an interval was printed, held the truth, and was marked as approximate."""

    drawn: int
    printed: int
    held: int
    approximate: int

    @property
    def coverage(self) -> float | None:
        return self.held / self.printed if self.printed >= max(20, self.drawn // 20) else None


# -- data with a known truth -----------------------------------------------------------------------------------------


def labels(units: int, items: int = ITEMS) -> NDArray[np.int64]:
    return np.repeat(np.arange(units), items)


def within(rng: Rng, units: int, share: float) -> Array:
    """Standard normal items of which units have the `share` of the variance in common."""
    own = rng.normal(size=(units, ITEMS)) * math.sqrt(1 - share)
    return np.asarray((own + rng.normal(size=(units, 1)) * math.sqrt(share)).ravel())


def autoregressive(rng: Rng, units: int, phi: float) -> Array:
    """Standard normal steps, each φ of the one before it in its episode."""
    steps = rng.normal(size=(units, ITEMS))
    for place in range(1, ITEMS):
        steps[:, place] = phi * steps[:, place - 1] + math.sqrt(1 - phi**2) * steps[:, place]
    return np.asarray(steps.ravel())


def uneven(rng: Rng, units: int, *, values: int = 1) -> tuple[NDArray[np.int64], list[Array]]:
    """Units of 1 to 40 items, and standard normal items of which units have 30 % of the variance in common."""
    codes = np.repeat(np.arange(units), np.minimum(rng.geometric(0.12, size=units), 40))
    own, share = math.sqrt(0.7), math.sqrt(0.3)
    drawn = (share * rng.normal(size=units)[codes] + own * rng.normal(size=len(codes)) for _ in range(values))
    return codes, list(drawn)


HANGING: dict[str, Callable[[Rng, int], Array]] = {
    "clusters of 8": lambda rng, units: within(rng, units, 0.3),
    "AR(1), φ 0.5": lambda rng, units: autoregressive(rng, units, 0.5),
    "AR(1), φ 0.8": lambda rng, units: autoregressive(rng, units, 0.8),
}
"""Standard normal values that hang together within units, by what makes them."""

SHAPES: dict[str, tuple[Callable[[Array], Array], float, float]] = {
    "normal": (lambda z: z, 0.0, 0.0),
    "exponential": (lambda z: -np.log(ndtr(-z)), 1.0, math.log(2)),
    "log-normal, σ 0.5": (lambda z: np.exp(0.5 * z), math.exp(0.125), 1.0),
    "log-normal, σ 1": (np.exp, math.exp(0.5), 1.0),
    "near 0: Beta(1/2, 5)": (lambda z: betaincinv(0.5, 5.0, ndtr(z)), 0.5 / 5.5, float(betaincinv(0.5, 5.0, 0.5))),
    "uniform": (ndtr, 0.5, 0.5),
    "a tenth far away": (lambda z: np.where(z > ndtri(0.9), 300.0, 12.0) + z, 40.8, 12.0),
}
"""What a standard normal value becomes, with mean and median."""


@cache
def by_simulation(figure: Callable[[Rng], float], draws: int = 40) -> float:
    """A truth that has no closed form: the mean over large samples."""
    return float(np.mean([figure(np.random.default_rng(1000 + seed)) for seed in range(draws)]))


# -- means, medians, shares ------------------------------------------------------------------------------------------


def means() -> Iterable[Case]:
    for shape, (become, mean, _) in SHAPES.items():
        yield Case("mean", shape, lambda mean=mean: mean, lambda r, u, f=become: mean_interval(f(r.normal(size=u))))
    for how, draw in HANGING.items():
        yield Case("mean", how, lambda: 0.0, lambda r, u, d=draw: mean_interval(d(r, u), clusters=labels(u)))
    yield Case("mean", "clusters of 1 to 40", lambda: 0.0, _unequal_clusters)


def _unequal_clusters(rng: Rng, units: int) -> Interval | None:
    codes, (values,) = uneven(rng, units)
    return mean_interval(values, clusters=codes)


def medians() -> Iterable[Case]:
    for shape in ("normal", "exponential", "log-normal, σ 1"):
        become, _, median = SHAPES[shape]
        yield Case("median", shape, lambda m=median: m, lambda r, u, f=become: median_interval(f(r.normal(size=u))))
    for how, draw in HANGING.items():
        yield Case("median", how, lambda: 0.0, lambda r, u, d=draw: median_interval(d(r, u), clusters=labels(u)))


def shares() -> Iterable[Case]:
    for p in (0.5, 0.8, 0.9, 0.98, 0.05):
        yield Case("share", f"p {p}", lambda p=p: p, lambda r, u, p=p: share_interval(r.random(u) < p))
    yield Case("share", "all right", lambda: 1.0, lambda r, u: share_interval(np.ones(u)))
    yield Case("share", "all wrong", lambda: 0.0, lambda r, u: share_interval(np.zeros(u)))
    for how, draw in HANGING.items():
        for p in (0.7, 0.95):
            yield Case("share", f"{how}, p {p}", lambda p=p: p, _share_of(draw, p))
    for p in (0.8, 0.95):
        yield Case("share", f"clusters of 1 to 40, p {p}", lambda p=p: p, lambda r, u, p=p: _uneven_share(r, u, p))


def _share_of(draw: Callable[[Rng, int], Array], p: float) -> Callable[[Rng, int], Interval | None]:
    return lambda rng, units: share_interval(draw(rng, units) < ndtri(p), clusters=labels(units))


def _uneven_share(rng: Rng, units: int, p: float) -> Interval | None:
    codes, (values,) = uneven(rng, units)
    return share_interval(values < ndtri(p), clusters=codes)


# -- trust -----------------------------------------------------------------------------------------------------------

GAIN, PART = 0.6, 0.4
"""True ΔH_L,S in bits, and the true T."""


def trusts() -> Iterable[Case]:
    for how, draw in HANGING.items():
        yield Case("T", how, lambda: PART, _trust_of(draw, GAIN))
        yield Case("ΔH", how, lambda: GAIN, _gain_of(draw))
    skewed = _skewed_steps
    yield Case("T", "skewed, AR(1), φ 0.5", lambda: PART, _trust_of(skewed, GAIN))
    yield Case("ΔH", "skewed, AR(1), φ 0.5", lambda: GAIN, _gain_of(skewed))
    yield Case("T", "small gain, AR(1), φ 0.5", lambda: PART, _trust_of(HANGING["AR(1), φ 0.5"], GAIN / 4))


def _skewed_steps(rng: Rng, units: int) -> Array:
    """Exponential steps, brought to mean 0 and variance 1."""
    return np.asarray(-np.log(ndtr(-autoregressive(rng, units, 0.5))) - 1.0)


def _entropies(draw: Callable[[Rng, int], Array], gain: float, rng: Rng, units: int) -> tuple[Array, Array, Array]:
    """H(X), H(X|S), H(X|L,S) far from zero, with mean gains of T · `gain` and `gain`."""
    first, second = (0.4 * draw(rng, units) for _ in range(2))
    h_x = np.full(units * ITEMS, 30.0)
    return h_x, h_x - PART * gain - first, h_x - gain - 0.5 * first - second


def _trust_of(draw: Callable[[Rng, int], Array], gain: float) -> Callable[[Rng, int], Interval | None]:
    return lambda rng, units: (
        trust_over_steps(*_entropies(draw, gain, rng, units), episodes=labels(units), floor=0.01).interval
    )


def _gain_of(draw: Callable[[Rng, int], Array]) -> Callable[[Rng, int], Interval | None]:
    return lambda rng, units: (
        trust_over_steps(*_entropies(draw, GAIN, rng, units), episodes=labels(units), floor=0.01).denominator_interval
    )


# -- sureness --------------------------------------------------------------------------------------------------------


def aurocs() -> Iterable[Case]:
    for distance, base in ((0.0, 0.5), (1.0, 0.5), (2.0, 0.5), (1.0, 0.2), (2.5, 0.2), (6.0, 0.5)):
        data = "perfectly separated" if distance == 6.0 else f"distance {distance:g}, {base:.0%} positive"
        truth = float(ndtr(distance / math.sqrt(2)))
        yield Case("AUROC", data, lambda t=truth: t, lambda r, u, d=distance, b=base: _auroc_of(r, u, d, b))
    for share in (0.0, 0.3):
        data = f"clusters of 8, {share:.0%} in common"
        yield Case(
            "AUROC", data, lambda s=share: by_simulation(_auroc_truth(s)), lambda r, u, s=share: _clustered(r, u, s)
        )

    yield Case("AUROC", "clusters of 1 to 40", lambda: by_simulation(_uneven_auroc), _in_uneven)


def _uneven_scores(rng: Rng, units: int) -> tuple[Array, NDArray[np.bool_], NDArray[np.int64]]:
    codes, (outcome, score) = uneven(rng, units, values=2)
    positive = outcome > ndtri(0.7)
    return score + 1.2 * positive, positive, codes


def _uneven_auroc(rng: Rng) -> float:
    score, positive, _ = _uneven_scores(rng, 4000)
    return _known(auroc(score, positive))


def _in_uneven(rng: Rng, units: int) -> Interval | None:
    score, positive, codes = _uneven_scores(rng, units)
    return auroc_interval(score, positive, clusters=codes)


def _auroc_of(rng: Rng, units: int, distance: float, base: float) -> Interval | None:
    positive = rng.random(units) < base
    return auroc_interval(rng.normal(size=units) + distance * positive, positive)


def _clustered_scores(rng: Rng, units: int, share: float) -> tuple[Array, NDArray[np.bool_]]:
    positive = within(rng, units, share) > ndtri(0.7)
    return within(rng, units, share) + 1.2 * positive, positive


def _clustered(rng: Rng, units: int, share: float) -> Interval | None:
    return auroc_interval(*_clustered_scores(rng, units, share), clusters=labels(units))


@cache
def _auroc_truth(share: float) -> Callable[[Rng], float]:
    def figure(rng: Rng) -> float:
        return _known(auroc(*_clustered_scores(rng, 4000, share)))

    return figure


CONFIDENCES: dict[str, tuple[Callable[[Rng, int], Array], Callable[[Array], Array]]] = {
    "calibrated": (lambda r, n: r.beta(2, 1, size=n), lambda c: c),
    "calibrated, few wrong": (lambda r, n: r.beta(8, 0.5, size=n), lambda c: c),
    "confidence says nothing": (lambda r, n: r.random(n), lambda c: np.full(len(c), 0.7)),
    "says nothing, few wrong": (lambda r, n: r.random(n), lambda c: np.full(len(c), 0.95)),
}


def aurcs() -> Iterable[Case]:
    for data, (sure, right) in CONFIDENCES.items():
        yield Case("AURC", data, lambda d=data: by_simulation(_aurc_truth(d)), _aurc_of(sure, right))
    yield Case("AURC", "calibrated, clusters of 8", lambda: by_simulation(_clustered_aurc), _aurc_in_clusters)
    yield Case("AURC", "all right", lambda: 1.0, lambda r, u: auarc_interval(r.random(u), np.ones(u)))


@cache
def _aurc_truth(data: str) -> Callable[[Rng], float]:
    sure, right = CONFIDENCES[data]

    def figure(rng: Rng) -> float:
        c = sure(rng, 200_000)
        return _known(auarc(c, rng.random(len(c)) < right(c)))

    return figure


def _aurc_of(
    sure: Callable[[Rng, int], Array], right: Callable[[Array], Array]
) -> Callable[[Rng, int], Interval | None]:
    def draw(rng: Rng, units: int) -> Interval | None:
        c = sure(rng, units)
        return auarc_interval(c, rng.random(units) < right(c))

    return draw


def _clustered_answers(rng: Rng, units: int) -> tuple[Array, NDArray[np.bool_]]:
    c = ndtr(within(rng, units, 0.3) + 0.5)
    return c, within(rng, units, 0.3) < ndtri(np.clip(c, 1e-6, 1 - 1e-6))


def _clustered_aurc(rng: Rng) -> float:
    return _known(auarc(*_clustered_answers(rng, 20_000)))


def _aurc_in_clusters(rng: Rng, units: int) -> Interval | None:
    return auarc_interval(*_clustered_answers(rng, units), clusters=labels(units))


def _known(value: float | None) -> float:
    assert value is not None
    return value


def overconfidences() -> Iterable[Case]:
    for p in (0.95, 0.7, 0.5):
        yield Case(
            "overconfidence",
            f"accuracy {p}",
            lambda p=p: 8 / 9 - p,
            lambda r, u, p=p: _over(r.beta(8, 1, size=u), r, p),
        )
    yield Case(
        "overconfidence",
        "accuracy 0.95, sure",
        lambda: 0.97 - 0.95,
        lambda r, u: _over(0.94 + 0.06 * r.random(u), r, 0.95),
    )
    yield Case("overconfidence", "calibrated", lambda: 0.0, lambda r, u: _over(*_twice(r.beta(2, 1, size=u), r)))
    yield Case("overconfidence", "all right", lambda: 0.9 - 1, lambda r, u: _over(0.8 + 0.2 * r.random(u), r, 1.0))
    yield Case("overconfidence", "all wrong", lambda: 0.9, lambda r, u: _over(0.8 + 0.2 * r.random(u), r, 0.0))
    for how, draw in HANGING.items():
        yield Case("overconfidence", how, lambda: 0.9 - 0.85, _over_in_units(draw))


def _twice(confidence: Array, rng: Rng) -> tuple[Array, Rng, Array]:
    return confidence, rng, confidence


def _over(confidence: Array, rng: Rng, p: float | Array) -> Interval | None:
    return overconfidence_interval(confidence, rng.random(len(confidence)) < p)


def _over_in_units(draw: Callable[[Rng, int], Array]) -> Callable[[Rng, int], Interval | None]:
    def drawn(rng: Rng, units: int) -> Interval | None:
        confidence = 0.8 + 0.2 * ndtr(draw(rng, units))
        return overconfidence_interval(confidence, draw(rng, units) < ndtri(0.85), clusters=labels(units))

    return drawn


def floors() -> Iterable[Case]:
    """An ECE of perfectly calibrated answers lies at or below the floor's upper end 95 times of 100."""
    for data in ("calibrated", "calibrated, few wrong"):
        yield Case("ECE ≤ its floor", data, lambda: 0.0, _floor_of(CONFIDENCES[data][0]))

    yield Case("ECE ≤ its floor", "calibrated, clusters of 8", lambda: 0.0, _clustered_floor)


def _clustered_floor(rng: Rng, units: int) -> Interval | None:
    confidence, right = _clustered_answers(rng, units)
    return _within_floor(rng, confidence, right, labels(units))


def _floor_of(sure: Callable[[Rng, int], Array]) -> Callable[[Rng, int], Interval | None]:
    def draw(rng: Rng, units: int) -> Interval | None:
        c = sure(rng, units)
        return _within_floor(rng, c, rng.random(units) < c)

    return draw


def _within_floor(
    rng: Rng, confidence: Array, right: NDArray[np.bool_], clusters: NDArray[np.int64] | None = None
) -> Interval | None:
    """An interval that holds 0 where the error is within the floor."""
    error = _known(expected_calibration_error(confidence, right))
    seed = int(rng.integers(1 << 31))
    floor = calibration_floor(confidence, right, clusters=clusters, draws=400, seed=seed)
    return None if floor is None else Interval(error - floor.high, math.inf, 0.95, "floor")


# -- comparisons, perplexity -----------------------------------------------------------------------------------------


def differences() -> Iterable[Case]:
    for won, lost in ((0.1, 0.1), (0.3, 0.1), (0.05, 0.0), (0.02, 0.02)):
        data = f"shares, {won:.0%} won, {lost:.0%} lost"
        yield Case(
            "paired difference",
            data,
            lambda w=won, x=lost: w - x,
            lambda r, u, w=won, x=lost: _flips(r.random(u), w, x, None),
        )
    yield Case("paired difference", "shares, no flips", lambda: 0.0, lambda r, u: _flips(r.random(u), 0.0, 0.0, None))
    for how, draw in HANGING.items():
        yield Case("paired difference", f"shares, {how}", lambda: 0.1, _flips_in_units(draw))
        yield Case("paired difference", f"means, {how}", lambda: 0.0, _differences_in_units(draw))
    yield Case(
        "paired difference",
        "means, exponential",
        lambda: 1.0,
        lambda r, u: _paired(np.zeros(u), r.exponential(size=u), None),
    )
    for gain in (0.0, 0.15):
        data = f"rates, 1 to 8 trials a task, {gain:.0%} gained"
        yield Case("paired difference", data, lambda g=gain: g, lambda r, u, g=gain: _rates(r, u, g))
    for distances in ((1.0, 1.0), (0.5, 1.5)):
        data = f"AUROC, distances {distances[0]:g} and {distances[1]:g}"
        truth = float(np.diff(ndtr(np.array(distances) / math.sqrt(2)))[0])
        yield Case("paired difference", data, lambda t=truth: t, lambda r, u, d=distances: _aurocs_of_pairs(r, u, d))


def _rates(rng: Rng, units: int, gain: float) -> Interval | None:
    """Tasks that are solved with a chance of their own, up to 0.85, tried 1 to 8 times, not as often in both runs."""
    chance, trials = 0.85 * rng.beta(1.5, 1.0, size=units), rng.integers(1, 9, size=(2, units))
    rates = [rng.binomial(of, p) / of for of, p in zip(trials, (chance, chance + gain), strict=True)]
    found = paired_rates(*rates, trials.min(axis=0))
    return None if found is None else found.interval


def _aurocs_of_pairs(rng: Rng, units: int, distances: tuple[float, float]) -> Interval | None:
    """Two runs of each task in A and two in B: tasks have half the variance of failures and of scores in common."""
    tasks, common = np.repeat(np.arange(units), 2), rng.normal(size=(2, units))
    drawn = []
    for distance in distances:
        hard, score = (math.sqrt(0.5) * (one[tasks] + rng.normal(size=2 * units)) for one in common)
        failed = hard > 0.3
        drawn.append(ScoredItems(score + distance * failed, failed, tasks))
    return auroc_difference_interval(*drawn)


def _flips(uniform: Array, won: float, lost: float, units: NDArray[np.int64] | None) -> Interval | None:
    found = paired_shares((uniform >= won) & (uniform < won + lost), uniform < won, clusters=units)
    return None if found is None else found.interval


def _flips_in_units(draw: Callable[[Rng, int], Array]) -> Callable[[Rng, int], Interval | None]:
    return lambda rng, units: _flips(ndtr(draw(rng, units)), 0.2, 0.1, labels(units))


def _differences_in_units(draw: Callable[[Rng, int], Array]) -> Callable[[Rng, int], Interval | None]:
    return lambda rng, units: _paired(draw(rng, units), draw(rng, units), labels(units))


def _paired(a: Array, b: Array, units: NDArray[np.int64] | None) -> Interval | None:
    found = paired_means(a, b, clusters=units)
    return None if found is None else found.interval


def two_runs() -> Iterable[Case]:
    """The same episodes in both, of 2 to 8 steps, of each run its own."""
    for data, p, other in (("p 0.7", 0.7, 0.7), ("p 0.95", 0.95, 0.95), ("p 0.7 and 0.9", 0.7, 0.9)):
        draw = partial(_acts, shares=(p, other))
        yield Case("two runs", f"shares of steps, {data}", lambda more=other - p: more, draw)
    for data, become in (("normal", lambda z: z), ("skewed", lambda z: -np.log(ndtr(-z)) - 1.0)):
        yield Case("two runs", f"means of steps, {data}", lambda: 0.0, partial(_mean_gains, become=become))
        yield Case("two runs", f"T, {data}", lambda: 0.2, partial(_trusts, become=become))


def _episodes(rng: Rng, common: Array) -> tuple[NDArray[np.int64], list[Array]]:
    """Steps of one run: which episode each is of, and standard normal values, AR(1) with φ 0.5, of which 30 % of the
    variance is what an episode has in `common` in both runs."""
    units = common.shape[1]
    there = np.arange(ITEMS) < rng.integers(2, ITEMS + 1, size=(units, 1))
    own = [autoregressive(rng, units, 0.5).reshape(units, ITEMS) for _ in common]
    drawn = [math.sqrt(0.3) * one[:, None] + math.sqrt(0.7) * steps for one, steps in zip(common, own, strict=True)]
    return np.nonzero(there)[0], [steps[there] for steps in drawn]


def _acts(rng: Rng, units: int, shares: tuple[float, float]) -> Interval | None:
    common = rng.normal(size=(1, units))
    sides = []
    for share in shares:
        episodes, (values,) = _episodes(rng, common)
        sides.append(Happened(values < ndtri(share), episodes))
    return _known_interval(difference_of_shares(*sides))


def _mean_gains(rng: Rng, units: int, become: Callable[[Array], Array]) -> Interval | None:
    common = rng.normal(size=(1, units))
    sides = []
    for _ in range(2):
        episodes, (values,) = _episodes(rng, common)
        sides.append(Ratio(become(values), np.ones(len(values)), episodes))
    return _known_interval(difference_of_ratios(*sides))


def _trusts(rng: Rng, units: int, become: Callable[[Array], Array]) -> Interval | None:
    """T is 0.4 in A and 0.6 in B; none is printed where one of them is not identified."""
    common = rng.normal(size=(2, units))
    sides = []
    for part in (0.4, 0.6):
        episodes, drawn = _episodes(rng, common)
        first, second = (0.4 * become(values) for values in drawn)
        by_s, by_both = part * GAIN + first, GAIN + 0.5 * first + second
        h_x = np.full(len(episodes), 30.0)
        if not trust_over_steps(h_x, h_x - by_s, h_x - by_both, episodes=episodes, floor=0.01).identified:
            return None
        sides.append(Ratio(by_s, by_both, episodes))
    return _known_interval(difference_of_ratios(*sides))


def _known_interval(found: PairedDifference | None) -> Interval | None:
    return None if found is None else found.interval


def perplexities() -> Iterable[Case]:
    """Nats per byte over documents: its interval is that of bits per byte, and of perplexity after 2 to its power."""
    for data, sigma in (
        ("documents of one size", 0.0),
        ("sizes log-normal, σ 0.5", 0.5),
        ("sizes log-normal, σ 1", 1.0),
    ):
        yield Case("perplexity", data, lambda: 1.0, lambda r, u, s=sigma: _documents(r, u, s))


def _documents(rng: Rng, documents: int, sigma: float) -> Interval | None:
    """Documents differ in how hard they are, and their windows follow one another (AR(1), φ 0.5)."""
    sizes = 1000 * np.exp(sigma * rng.normal(size=documents))
    windows = autoregressive(rng, documents, 0.5).reshape(documents, ITEMS).mean(axis=1)
    hard = 1.0 + 0.2 * rng.normal(size=documents) + 0.1 * windows
    return ratio_interval(sizes * hard, sizes)


GROUPS = (
    means, shares, medians, trusts, aurocs, aurcs, overconfidences, floors, differences, two_runs, perplexities
)  # fmt: skip


def cases(names: Sequence[str] = ()) -> list[Case]:
    """All of them, or those whose name begins with one of `names`."""
    found = [case for group in GROUPS for case in group()]
    return [case for case in found if not names or any(case.name.startswith(name) for name in names)]


# -- is T shown where there is none? ---------------------------------------------------------------------------------

NO_GAIN: dict[str, Callable[[Rng, int], Array]] = {
    **HANGING,
    "skewed, AR(1), φ 0.5": _skewed_steps,
    "rare losses: 1 − Exp an episode": lambda rng, units: np.repeat(1.0 - rng.exponential(size=units), ITEMS),
}


def falsely_identified(data: str, episodes: int, repeats: int, seed: int) -> float:
    """How often T is called identified where the true ΔH_L,S is zero, so that there is no T."""
    rng = np.random.default_rng([seed, episodes, *data.encode()])
    entropies = (_entropies(NO_GAIN[data], 0.0, rng, episodes) for _ in range(repeats))
    return sum(trust_over_steps(*one, episodes=labels(episodes), floor=0.01).identified for one in entropies) / repeats


# -- counting --------------------------------------------------------------------------------------------------------


def simulate(case: Case, units: int, repeats: int, seed: int) -> Cell:
    rng = np.random.default_rng([seed, units, *case.name.encode()])
    truth = case.truth()
    found = [interval for _ in range(repeats) if (interval := case.draw(rng, units)) is not None]
    held = sum(interval.low - 1e-12 <= truth <= interval.high + 1e-12 for interval in found)
    return Cell(repeats, len(found), held, sum(interval.approximate for interval in found))


def verdict(cell: Cell, units: int) -> str:
    """`low` and `wide` where coverage leaves its band; `about` where most were marked as approximate."""
    coverage = cell.coverage
    if coverage is None:
        return ""
    if coverage < (LOWEST if units >= ENOUGH_UNITS else LOWEST_OF_FEW):
        return "low"
    return "wide" if coverage > HIGHEST and units >= ENOUGH_UNITS else ""


def _row(task: tuple[str, int, int]) -> list[Cell]:
    name, repeats, seed = task
    (case,) = (one for one in cases() if one.name == name)
    return [simulate(case, units, repeats if units <= 200 else max(200, repeats // 2), seed) for units in UNITS]


def _shown(cell: Cell, units: int) -> str:
    if cell.coverage is None:
        return "—"
    mark = {"low": "↓", "wide": "↑"}.get(verdict(cell, units), "")
    return f"{'~' if cell.approximate > cell.printed / 2 else ''}{cell.coverage:.3f}{mark}"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage", description=__doc__)
    parser.add_argument("names", nargs="*", help="how the rows begin that are wanted, such as AUROC or 'mean: normal'")
    parser.add_argument("--seed", type=int, default=0, help="random seed of the simulations")
    parser.add_argument("--repeats", type=int, default=2000, help="data sets drawn for each cell; 1,000 units get half")
    asked = parser.parse_args(arguments)
    chosen = cases(asked.names)
    print(f"How often a 95 % interval holds the truth, over {asked.repeats:,} data sets a cell, seed {asked.seed}.\n")
    print(f"| figure: data | {' | '.join(f'{units:,}' for units in UNITS)} |")
    print(f"|---|{'---|' * len(UNITS)}")
    missed: list[str] = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        rows = pool.map(_row, [(case.name, asked.repeats, asked.seed) for case in chosen])
        for case, cells in zip(chosen, rows, strict=True):
            shown = [_shown(cell, units) for cell, units in zip(cells, UNITS, strict=True)]
            print(f"| {case.name} | {' | '.join(shown)} |", flush=True)
            missed += _misses(case, cells)
    print(
        f'\n— no interval is printed (fewer than {LEAST_UNITS} units, or nothing varies). ~ the output says "about".'
        f"\n↓ below {LOWEST:.0%} ({LOWEST_OF_FEW:.0%} with fewer than {ENOUGH_UNITS} units). ↑ above {HIGHEST:.0%}: "
        "wider than it needs to be."
    )
    print("\n".join(["\nRows below:", *missed]) if missed else "\nNo row is below.")
    if not asked.names:
        _print_false(asked.repeats, asked.seed)
    return 0


def _print_false(repeats: int, seed: int) -> None:
    episodes = (1, *UNITS[:-1])
    print("\nHow often T is called identified though the true ΔH_L,S is zero:\n")
    print(f"| episodes | {' | '.join(f'{count:,}' for count in episodes)} |")
    print(f"|---|{'---|' * len(episodes)}")
    for data in NO_GAIN:
        shown = [f"{falsely_identified(data, count, repeats, seed):.3f}" for count in episodes]
        print(f"| {data} | {' | '.join(shown)} |", flush=True)


def _misses(case: Case, cells: Sequence[Cell]) -> list[str]:
    return [
        f"- {case.name}, {units} units: {cell.coverage:.3f}"
        f"{', said to be approximate in ' + format(cell.approximate / cell.printed, '.0%') if cell.approximate else ''}"
        for cell, units in zip(cells, UNITS, strict=True)
        if verdict(cell, units) == "low"
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
