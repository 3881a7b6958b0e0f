"""Clusters and their resamples: the one kernel behind every bootstrap of means and ratios of means."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

CHUNK = 1 << 20
"""Draws held in memory at a time (8 MiB of indexes)."""


def cluster_sums(columns: Array, codes: NDArray[np.int64]) -> Array:
    """[items × measures] summed within each cluster: [clusters × measures]."""
    clusters = int(codes.max()) + 1
    return np.stack([np.bincount(codes, weights=column, minlength=clusters) for column in columns.T], axis=1)


def resampled_sums(sums: Array, resamples: int, seed: int) -> Array:
    """Sums over `resamples` draws, with replacement, of as many rows as there are: [resamples × measures].

    The rows are sorted first, so that the result depends on the seed and not on the order of the input.
    Where many rows are alike (right and wrong answers), how often each kind is drawn is one multinomial.
    """
    rng = np.random.default_rng(seed)
    kinds, counts = np.unique(sums, axis=0, return_counts=True)
    if len(kinds) * 4 <= len(sums):
        return _by_kind(kinds, counts, resamples, rng)
    rows = np.repeat(kinds, counts, axis=0)
    drawn = [rows[index].sum(axis=1) for index in _draws(rng, len(rows), resamples)]
    return np.concatenate(drawn)


def _by_kind(kinds: Array, counts: NDArray[np.intp], resamples: int, rng: np.random.Generator) -> Array:
    total = int(counts.sum())
    sizes = _chunks(resamples, len(kinds))
    return np.concatenate([rng.multinomial(total, counts / total, size=size) @ kinds for size in sizes])


def _draws(rng: np.random.Generator, rows: int, resamples: int) -> Iterator[NDArray[np.int64]]:
    for size in _chunks(resamples, rows):
        yield rng.integers(0, rows, size=(size, rows))


def drawn_times(units: int, resamples: int, seed: int, *, width: int) -> Iterator[NDArray[np.int64]]:
    """[some resamples × units]: how often each unit came up in `units` draws with replacement.

    `width` is the length of the rows that the caller makes of them, which decides how many come at a time.
    """
    rng = np.random.default_rng(seed)
    for size in _chunks(resamples, width):
        drawn = rng.integers(0, units, size=(size, units)) + units * np.arange(size)[:, None]
        yield np.bincount(drawn.ravel(), minlength=size * units).reshape(size, units)


def _chunks(resamples: int, width: int) -> Iterator[int]:
    step = max(1, CHUNK // width)
    for start in range(0, resamples, step):
        yield min(step, resamples - start)


def mean_covariance(columns: Array, codes: NDArray[np.int64]) -> Array:
    """Covariance of the columns' means, from the spread between clusters.

    A mean over n items in C clusters is a ratio of two sums over clusters, of values and of sizes.
    Linearised (Cochran, Sampling Techniques, 3rd ed., section 6.3), with the residual
    e_c = S_c − mean · n_c of each cluster: Cov = C / (C − 1) · Σ_c e_c e_cᵀ / n². With one item in each
    cluster this is the usual s² / n.
    """
    with_size = np.column_stack([columns, np.ones(len(columns))])
    sums = cluster_sums(with_size, codes)
    residuals = sums[:, :-1] - sums[:, -1:] * columns.mean(axis=0)
    clusters = len(sums)
    return np.asarray(residuals.T @ residuals * clusters / (clusters - 1) / len(columns) ** 2, dtype=np.float64)
