"""Does a score rank failures above successes? Three areas, with intervals from one bootstrap over tasks.

The measures are those of `selective`. Calling them for thousands of resamples would take minutes, so the resamples
are not drawn out: each is a row of whole weights (how often an item was drawn), and all rows are measured at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howsure.measures._checks import (
    binary_vector,
    check_level,
    check_resamples,
    cluster_codes,
    ranked_vector,
    same_length,
)
from howsure.measures._resampling import drawn_times
from howsure.measures.intervals import Interval, bootstrap_method, percentile_interval
from howsure.measures.selective import auarc, auprc, auroc

Array = NDArray[np.float64]
Counts = NDArray[np.int64]


class Area(NamedTuple):
    """One measure and its interval; None where it does not exist."""

    value: float | None
    interval: Interval | None


class Ranking(NamedTuple):
    """How well a score tells failures from successes; all three are higher where it does so better.

    `auroc`: the chance that a failure scores above a success. `auprc`: average precision in finding failures.
    `auarc`: mean share of successes among the runs kept, as those of the highest scores are left out one by one.
    """

    auroc: Area
    auprc: Area
    auarc: Area
    items: int
    failures: int


class _Blocks(NamedTuple):
    """Items in descending order of score, and where each block of equal scores begins."""

    failed: Counts
    cluster: Counts
    starts: NDArray[np.intp]


def rank_failures(
    scores: ArrayLike,
    failed: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int,
) -> Ranking:
    """AUROC and AUPRC of the score for failures, AUARC with −score as confidence, each with its interval.

    All are None unless there are failures and successes. The intervals are percentile bootstraps over whole clusters
    (tasks), or items without them. Resamples without both are left out and counted in `method`; where they are more
    than (1 − level) / 2 of all, or there are fewer than two clusters, there is no interval.

    >>> found = rank_failures([0.2, 0.9, 0.4, 0.7], [0, 1, 0, 1], seed=0)
    >>> found.auroc.value, found.auprc.value, round(found.auarc.value, 4)
    (1.0, 1.0, 0.7917)
    """
    score, labels = ranked_vector(scores, "scores"), binary_vector(failed, "failed")
    same_length(score, labels, "scores and failed")
    check_level(level)
    codes = cluster_codes(clusters, len(score))
    if len(np.unique(labels)) < 2:
        return Ranking(Area(None, None), Area(None, None), Area(None, None), len(labels), int(labels.sum()))
    values = (auroc(score, labels), auprc(score, labels), auarc(-score, 1 - labels))
    blocks = _blocks(score, labels.astype(np.int64), codes if clusters is not None else None)
    found = _resampled(blocks, check_resamples(resamples), seed)
    intervals = _intervals(found, level, bootstrap_method(clusters, resamples))
    first, second, third = (Area(value, interval) for value, interval in zip(values, intervals, strict=True))
    return Ranking(first, second, third, len(labels), int(labels.sum()))


def _blocks(score: Array, failed: Counts, codes: Counts | None) -> _Blocks:
    """Without clusters the items are numbered after sorting, so that the order of the input never counts."""
    order = np.lexsort((failed, -score))
    ranked = score[order]
    starts = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]]))
    return _Blocks(failed[order], np.arange(len(score)) if codes is None else codes[order], starts)


def _resampled(blocks: _Blocks, resamples: int, seed: int) -> Array | None:
    """[resamples × 3]: the three areas in each resample; None for fewer than two clusters."""
    if blocks.cluster.max() < 1:
        return None
    cluster = blocks.cluster
    drawn = drawn_times(int(cluster.max()) + 1, resamples, seed, width=len(cluster))
    return np.concatenate([_areas(times[:, cluster], blocks) for times in drawn])


def _areas(weights: Counts, blocks: _Blocks) -> Array:
    """AUROC, AUPRC and AUARC of items that occur `weights` times; NaN in rows without both classes."""
    bad = np.add.reduceat(weights * blocks.failed, blocks.starts, axis=1)
    all_items = np.add.reduceat(weights, blocks.starts, axis=1)
    failures, items = bad.sum(axis=1), all_items.sum(axis=1)
    defined = (failures > 0) & (failures < items)
    found = np.full((len(weights), 3), np.nan)
    bad, good = bad[defined], (all_items - bad)[defined]
    found[defined] = np.stack([_auroc(bad, good), _auprc(bad, good), _auarc(bad, good)], axis=1)
    return found


def _auroc(bad: Counts, good: Counts) -> Array:
    """Σ_b good_b · (failures above block b + half of those in it), over all pairs."""
    above = np.cumsum(bad, axis=1) - bad / 2
    return np.asarray((good * above).sum(axis=1) / (bad.sum(axis=1) * good.sum(axis=1)), dtype=np.float64)


def _auprc(bad: Counts, good: Counts) -> Array:
    """Σ_b (failures in block b) · (share of failures down to block b), over all failures."""
    found = np.cumsum(bad, axis=1)
    precision = found / np.maximum(np.cumsum(bad + good, axis=1), 1)  # before the first item drawn, 0 / 0 counts for 0
    return np.asarray((bad * precision).sum(axis=1) / found[:, -1], dtype=np.float64)


def _auarc(bad: Counts, good: Counts) -> Array:
    """The mean over k of the expected share of successes among the k of the lowest scores.

    In a block of s items with a share a of successes, after C items with K successes, the expectations add up to
    Σ_{j=1…s} (K + j a) / (C + j) = s a + (K − C a) (H_{C+s} − H_C), with H the harmonic numbers.
    """
    good, size = good[:, ::-1], (bad + good)[:, ::-1]
    kept, right = np.cumsum(size, axis=1), np.cumsum(good, axis=1)
    harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, kept.max(initial=0) + 1))])
    share = good / np.maximum(size, 1)
    before = kept - size
    sums = good + (right - good - before * share) * (harmonic[kept] - harmonic[before])
    return np.asarray(sums.sum(axis=1) / kept[:, -1], dtype=np.float64)


def _intervals(found: Array | None, level: float, method: str) -> list[Interval | None]:
    if found is None:
        return [None] * 3
    defined = found[~np.isnan(found[:, 0])]
    missing = len(found) - len(defined)
    if missing > len(found) * (1 - level) / 2:
        return [None] * 3
    note = f" ({missing} undefined left out)" if missing else ""
    return [percentile_interval(column, level, method + note) for column in defined.T]
