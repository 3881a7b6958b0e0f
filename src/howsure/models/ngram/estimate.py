"""From counts to a model: five ways to smooth, one way to interpolate.

Each way takes something off the counts; what it took off goes to the model one word shorter:

    p(w | h) = (c(hw) − removed(hw)) / c(h) + γ(h) · p(w | h without its first word),  γ(h) = Σ removed(h·) / c(h)

down to the uniform distribution over the words, `</s>` and `<unk>`. γ(h) is the back-off of an ARPA file. Where h was
never seen, p(w | h) is that of the shorter context.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from howsure.errors import InputError
from howsure.models.ngram.counts import Counted, count_ngrams
from howsure.models.ngram.discounts import (
    MODIFIED_FALLBACK,
    PLAIN_FALLBACK,
    Discounts,
    modified_discounts,
    plain_discounts,
)
from howsure.models.ngram.table import Laid, Level, NgramTable
from howsure.models.ngram.vocabulary import BEGIN_ID, Ids, Vocabulary

Values = NDArray[np.float64]


class Smoothing(StrEnum):
    MODIFIED_KNESER_NEY = "modified-kneser-ney"
    KNESER_NEY = "kneser-ney"
    WITTEN_BELL = "witten-bell"
    ADD_K = "add-k"
    MLE = "mle"


class Estimated(NamedTuple):
    """A model and how it came about; `discounts` are None for ways that have none."""

    table: NgramTable
    discounts: list[Discounts] | None


class _Removal(NamedTuple):
    """The counts that a level goes by, and what is taken off them."""

    counts: Values
    removed: Values


def estimate(
    laid: Laid,
    vocabulary: Vocabulary,
    order: int,
    smoothing: Smoothing,
    *,
    k: float = 1.0,
    discount_fallback: bool = False,
) -> Estimated:
    """Train a model on sentences; it is no longer than the longest of them."""
    if not 1 <= order <= 20:
        raise InputError(f"--order must lie between 1 and 20, not {order}")
    if not 0 < k < float("inf"):
        raise InputError(f"--k must be a positive number, not {k:g}")
    levels = [level for level in count_ngrams(laid, order, len(vocabulary)) if len(level.keys)]
    if smoothing in (Smoothing.MODIFIED_KNESER_NEY, Smoothing.KNESER_NEY):
        removals, discounts = _kneser_ney(levels, smoothing, discount_fallback)
        return Estimated(_interpolated(levels, removals, vocabulary), discounts)
    if smoothing is Smoothing.ADD_K:
        return Estimated(_additive(levels, k, vocabulary), None)
    remove = _nothing if smoothing is Smoothing.MLE else _witten_bell
    return Estimated(_interpolated(levels, [remove(level) for level in levels], vocabulary), None)


# -- what each way takes off -----------------------------------------------------------------------------------------


def _kneser_ney(
    levels: Sequence[Counted], smoothing: Smoothing, fall_back: bool
) -> tuple[list[_Removal], list[Discounts]]:
    """Absolute discounts, and for shorter n-grams the number of words before them in place of their count."""
    modified = smoothing is Smoothing.MODIFIED_KNESER_NEY
    work = modified_discounts if modified else plain_discounts
    fallback = (MODIFIED_FALLBACK if modified else PLAIN_FALLBACK) if fall_back else None
    removals, discounts = [], []
    for length, counts in enumerate(_adjusted(levels), 1):
        own = work(counts, length, fallback)
        taken = np.array([0.0, *own])[np.minimum(counts, 3)]
        discounts.append(own)
        removals.append(_Removal(counts.astype(np.float64), np.minimum(taken, counts)))
    return removals, discounts


def _adjusted(levels: Sequence[Counted]) -> list[Ids]:
    """Counts at the longest length and for what begins with `<s>`, numbers of continuations elsewhere."""
    below = [
        np.where(level.begins, level.counts, longer.continuations(len(level.keys)))
        for level, longer in pairwise(levels)
    ]
    return [*below, levels[-1].counts]


def _witten_bell(level: Counted) -> _Removal:
    """Witten and Bell (1991): as much as if each distinct word after h had been seen once more, as something new."""
    counts = level.counts.astype(np.float64)
    kinds = np.bincount(level.contexts, weights=counts > 0)
    total = np.bincount(level.contexts, weights=counts)
    share = np.divide(kinds, kinds + total, out=np.zeros_like(total), where=total > 0)
    return _Removal(counts, counts * share[level.contexts])


def _nothing(level: Counted) -> _Removal:
    """Maximum likelihood: what was not seen after h has probability zero."""
    counts = level.counts.astype(np.float64)
    return _Removal(counts, np.zeros_like(counts))


# -- putting the levels together -------------------------------------------------------------------------------------


def _interpolated(levels: Sequence[Counted], removals: Sequence[_Removal], vocabulary: Vocabulary) -> NgramTable:
    lower = np.array([1.0 / _predicted(vocabulary)])
    probs: list[Values] = []
    backoffs: list[Values] = []
    for level, (counts, removed) in zip(levels, removals, strict=True):
        total = np.bincount(level.contexts, weights=counts, minlength=len(lower))
        freed = np.bincount(level.contexts, weights=removed, minlength=len(lower))
        gamma = np.divide(freed, total, out=np.ones_like(total), where=total > 0)
        lower = (counts - removed) / total[level.contexts] + gamma[level.contexts] * lower[level.shorter]
        probs.append(lower)
        backoffs.append(gamma)
    return _table(levels, probs, [*backoffs[1:], np.ones(len(levels[-1].keys))], vocabulary)


def _additive(levels: Sequence[Counted], k: float, vocabulary: Vocabulary) -> NgramTable:
    """p(w | h) = (c(hw) + k) / (c(h) + k V), with h the whole context, or what there is of it after `<s>`.

    Words never seen after h share alike, so the shorter models that an ARPA file backs off to are uniform.
    """
    size = _predicted(vocabulary)
    probs: list[Values] = []
    backoffs: list[Values] = []
    contexts = 1
    for length, level in enumerate(levels, 1):
        counts = level.counts.astype(np.float64)
        total = np.bincount(level.contexts, weights=counts, minlength=contexts)
        whole = level.begins if length < len(levels) else np.ones_like(level.begins)
        used = np.bincount(level.contexts, weights=whole, minlength=contexts) > 0
        smoothed = (counts + k) / (total + k * size)[level.contexts]
        probs.append(np.where(whole, smoothed, 1.0 / size))
        backoffs.append(np.where(used, k * size / (total + k * size), 1.0))
        contexts = len(level.keys)
    return _table(levels, probs, [*backoffs[1:], np.ones(contexts)], vocabulary)


def _predicted(vocabulary: Vocabulary) -> int:
    """How many words can come next: all but `<s>`."""
    return len(vocabulary) - 1


def _table(
    levels: Sequence[Counted], probs: list[Values], backoffs: list[Values], vocabulary: Vocabulary
) -> NgramTable:
    probs[0][BEGIN_ID] = 1.0  # it is given, never predicted; log10 p = 0 is what KenLM writes
    with np.errstate(divide="ignore"):
        return NgramTable(
            vocabulary,
            [
                Level(level.keys, np.log10(np.minimum(p, 1.0)), np.log10(b))
                for level, p, b in zip(levels, probs, backoffs, strict=True)
            ],
        )
