"""Counting the n-grams of a text, by sorting numbers.

As KenLM has it: a sentence is `<s> words </s>`; `</s>` is counted, `<s>` is context only and never predicted. An n-gram
that begins with `<s>` is counted at its own length.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from howsure.models.ngram.table import Laid, begins_of
from howsure.models.ngram.vocabulary import BEGIN_ID, Ids


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
    ids = laid.ids
    levels = [_single_words(ids, vocabulary_size)]
    depths = _depths(laid)
    places, numbers = np.arange(len(ids)), ids
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


def _depths(laid: Laid) -> Ids:
    """How far each place is from the beginning of its sentence."""
    begins = begins_of(laid)
    lengths = np.diff(begins, append=len(laid.ids))
    return np.arange(len(laid.ids)) - np.repeat(begins, lengths)
