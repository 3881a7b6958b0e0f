"""Training an n-gram model: words numbered as they come, their n-grams counted, the counts smoothed.

Counted is as KenLM has it: a sentence is `<s> words </s>`; `</s>` is counted, `<s>` is context only and never
predicted. An n-gram that begins with `<s>` is counted at its own length.

There are five ways to smooth, and one way to interpolate. Each takes something off the counts; what it took off goes to
the model one word shorter:

    p(w | h) = (c(hw) − removed(hw)) / c(h) + γ(h) · p(w | h without its first word),  γ(h) = Σ removed(h·) / c(h)

down to the uniform distribution over the words, `</s>` and `<unk>`. γ(h) is the back-off of an ARPA file. Where h was
never seen, p(w | h) is that of the shorter context.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from howsure.errors import InputError
from howsure.models.ngram.table import (
    BEGIN_ID,
    SPECIAL,
    Ids,
    Laid,
    Level,
    NgramTable,
    Vocabulary,
    begins_of,
    find_words,
    lay_sentences,
)

Values = NDArray[np.float64]

Discounts = tuple[float, float, float]
"""What is taken off counts of 1, of 2, of 3 and more."""

MODIFIED_FALLBACK: Discounts = (0.5, 1.0, 1.5)
PLAIN_FALLBACK: Discounts = (0.75, 0.75, 0.75)

_RESERVED = frozenset(SPECIAL)


class Smoothing(StrEnum):
    MODIFIED_KNESER_NEY = "modified-kneser-ney"
    KNESER_NEY = "kneser-ney"
    WITTEN_BELL = "witten-bell"
    ADD_K = "add-k"
    MLE = "mle"


class Piece(NamedTuple):
    """Some whole lines of a text, and where they stand, for messages."""

    text: bytes
    source: str = "the training text"
    lines_before: int = 0


class Trained(NamedTuple):
    """A model, and what it was made from; `discounts` are None for ways to smooth that have none."""

    table: NgramTable
    discounts: list[Discounts] | None
    sentences: int
    words: int


def train(
    pieces: Iterable[Piece],
    order: int,
    smoothing: Smoothing = Smoothing.MODIFIED_KNESER_NEY,
    *,
    k: float = 1.0,
    discount_fallback: bool = False,
) -> Trained:
    """A model of texts that hold one sentence a line; each piece ends a sentence.

    Its n-grams are no longer than the longest of the sentences.
    """
    laid, vocabulary = number_words(pieces)
    words = len(laid.words)
    if not words:
        raise InputError("there is no word in the training text")
    if not 1 <= order <= 20:
        raise InputError(f"--order must lie between 1 and 20, not {order}")
    if not 0 < k < float("inf"):
        raise InputError(f"--k must be a positive number, not {k:g}")
    levels = [level for level in count_ngrams(laid, order, len(vocabulary)) if len(level.keys)]
    discounts = None
    if smoothing is Smoothing.ADD_K:
        table = _additive(levels, k, vocabulary)
    elif smoothing in (Smoothing.MODIFIED_KNESER_NEY, Smoothing.KNESER_NEY):
        removals, discounts = _kneser_ney(levels, smoothing is Smoothing.MODIFIED_KNESER_NEY, discount_fallback)
        table = _interpolated(levels, removals, vocabulary)
    else:
        remove = _nothing if smoothing is Smoothing.MLE else _witten_bell
        table = _interpolated(levels, [remove(level) for level in levels], vocabulary)
    return Trained(table, discounts, len(laid.ends), words)


def number_words(pieces: Iterable[Piece]) -> tuple[Laid, Vocabulary]:
    """All sentences laid out, and the words in the order in which they first come."""
    numbers: dict[bytes, int] = {word: i for i, word in enumerate(SPECIAL)}
    parts = []
    for piece in pieces:
        text = piece.text
        words = text.replace(b"\0", b" ").split()
        for word in dict.fromkeys(words):
            numbers.setdefault(word, len(numbers))
        if not _RESERVED.isdisjoint(words):
            _refuse_reserved(piece)
        spans = find_words(text)
        ids = np.fromiter(map(numbers.__getitem__, words), dtype=np.int64, count=len(words))
        parts.append(lay_sentences(ids, spans, len(text)))
    return _joined(parts), Vocabulary(list(numbers))


def _joined(parts: list[Laid]) -> Laid:
    offsets = np.cumsum([0, *(len(part.ids) for part in parts)])
    columns = [
        np.concatenate([part[i] + (offset if i else 0) for part, offset in zip(parts, offsets, strict=False)])
        if parts
        else np.empty(0, dtype=np.int64)
        for i in range(3)
    ]
    return Laid(*columns)


def _refuse_reserved(piece: Piece) -> None:
    for number, line in enumerate(piece.text.split(b"\n"), piece.lines_before + 1):
        reserved = _RESERVED.intersection(line.replace(b"\0", b" ").split())
        if reserved:
            raise InputError(
                f"{piece.source}, line {number:,}: the word {min(reserved).decode()} is reserved for the marks of "
                "sentences; take it out of the text, or write it otherwise"
            )


# -- counting, by sorting numbers ------------------------------------------------------------------------------------


class Counted(NamedTuple):
    """The distinct n-grams of one length: columns, in ascending order of `keys` (see `table.Level`).

    `shorter` is the place, one level below, of the n-gram without its first word.
    """

    keys: Ids
    counts: Ids
    shorter: Ids
    begins: NDArray[np.bool_]
    contexts: Ids

    def continuations(self, below: int) -> Ids:
        """For each of the n-grams one shorter, in how many different words it was preceded by."""
        return np.bincount(self.shorter, minlength=below)


def count_ngrams(laid: Laid, order: int, vocabulary_size: int) -> list[Counted]:
    """Every length from 1 to `order`."""
    ids, begins = laid.ids, begins_of(laid)
    levels = [_single_words(ids, vocabulary_size)]
    places, numbers = np.arange(len(ids)), ids
    depths = places - np.repeat(begins, np.diff(begins, append=len(ids)))  # from the beginning of the sentence
    for length in range(2, order + 1):
        places = places[depths[places] >= length - 1]
        level, numbers = _longer(ids, numbers, places, depths, length, vocabulary_size)
        levels.append(level)
    return levels


def _single_words(ids: Ids, size: int) -> Counted:
    counts = np.bincount(ids, minlength=size)
    counts[BEGIN_ID] = 0
    nowhere = np.zeros(size, dtype=np.int64)
    return Counted(np.arange(size), counts, nowhere, np.arange(size) == BEGIN_ID, nowhere)


def _longer(ids: Ids, numbers: Ids, places: Ids, depths: Ids, length: int, size: int) -> tuple[Counted, Ids]:
    """The n-grams that end at `places`; `numbers` are those one shorter, by where they end.

    Beside them, the number of the n-gram that ends at each place.
    """
    contexts = numbers[places - 1]
    keys = contexts * size + ids[places]
    order = np.argsort(keys)
    ranked = keys[order]
    new = np.diff(ranked, prepend=-1) != 0
    firsts = np.flatnonzero(new)
    one = places[order[firsts]]  # a place where each of them ends
    longer_numbers = np.empty_like(numbers)
    longer_numbers[places[order]] = np.cumsum(new) - 1
    counts = np.diff(firsts, append=len(ranked))
    level = Counted(ranked[firsts], counts, numbers[one], depths[one] == length - 1, ranked[firsts] // size)
    return level, longer_numbers


# -- what each way takes off -----------------------------------------------------------------------------------------


class _Removal(NamedTuple):
    """The counts that a level goes by, and what is taken off them."""

    counts: Values
    removed: Values


def _kneser_ney(levels: Sequence[Counted], modified: bool, fall_back: bool) -> tuple[list[_Removal], list[Discounts]]:
    """Absolute discounts, and for shorter n-grams the number of words before them in place of their count.

    What begins with `<s>` has no word before it, and keeps its count.
    """
    continuations = [
        np.where(level.begins, level.counts, longer.continuations(len(level.keys)))
        for level, longer in pairwise(levels)
    ]
    removals, discounts = [], []
    for length, counts in enumerate([*continuations, levels[-1].counts], 1):
        own = _discounts(counts, length, modified, fall_back)
        taken = np.array([0.0, *own])[np.minimum(counts, 3)]
        discounts.append(own)
        removals.append(_Removal(counts.astype(np.float64), np.minimum(taken, counts)))
    return removals, discounts


def _discounts(counts: Ids, length: int, modified: bool, fall_back: bool) -> Discounts:
    """How much Kneser–Ney smoothing takes off a count, estimated from how many n-grams were seen once, twice, …

    Chen and Goodman (1998), equations 25 and 26, with n_k the n-grams of one length whose count is k:
    Y = n₁ / (n₁ + 2 n₂); modified: D_k = k − (k + 1) Y n_{k+1} / n_k for k = 1, 2 and D₃ for 3 and more; plain: D = Y.
    Where they cannot be estimated, fixed ones if `fall_back`, else an error.
    """
    n = np.bincount(np.minimum(counts, 5), minlength=6).tolist()
    missing = next((k for k in ((1, 2, 3) if modified else (1, 2)) if not n[k]), None)
    why = f"none of its {np.count_nonzero(counts):,} has an adjusted count of {missing}"
    if missing is None:
        y = n[1] / (n[1] + 2 * n[2])
        if not modified:
            return y, y, y
        discounts = [k - (k + 1) * y * n[k + 1] / n[k] for k in (1, 2, 3)]
        wrong = next((k for k, d in enumerate(discounts, 1) if not 0 <= d <= k), None)
        if wrong is None:
            return discounts[0], discounts[1], discounts[2]
        why = f"for a count of {wrong} it comes out as {discounts[wrong - 1]:.4g}"
    if fall_back:
        return MODIFIED_FALLBACK if modified else PLAIN_FALLBACK
    raise InputError(
        f"the discount of {length}-grams cannot be estimated: {why}; the text is small or artificial. "
        "--discount-fallback takes fixed discounts there, --smoothing witten-bell needs none"
    )


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
