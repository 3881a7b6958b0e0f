"""An n-gram model in arrays: one level for each length, looked up for a whole text at once.

An n-gram of level n is known by the place of its first n − 1 words in level n − 1 and by its last word, so that one
64-bit key tells it exactly, whatever the order. Keys are kept in ascending order: the continuations of one context lie
side by side.

Probabilities follow the back-off rule of ARPA files, in logarithms to base ten:
log p(w | h) is that of the n-gram hw where the model holds it, else backoff(h) + log p(w | h without its first word).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from howsure.models.ngram.hashing import HashIndex
from howsure.models.ngram.vocabulary import BEGIN_ID, END_ID, Ids, Spans, Vocabulary, find_words

Log10 = NDArray[np.float64]
NONE = -1


@dataclass(frozen=True)
class Level:
    """All n-grams of one length: place of the context · size of the vocabulary + last word, ascending.

    For single words the key is the word. −inf stands for a probability of zero.
    """

    keys: Ids
    log10_probs: Log10
    log10_backoffs: Log10

    @cached_property
    def _index(self) -> HashIndex:
        keys = self.keys.view(np.uint64)
        return HashIndex(keys, keys)

    @cached_property
    def backoffs_or_none(self) -> Log10:
        """Back-offs, and one of 0 at the place −1, for contexts that the model does not hold."""
        return np.append(self.log10_backoffs, 0.0)

    def find(self, keys: Ids) -> Ids:
        """The place of each key, −1 for one that is not there."""
        wanted = keys.view(np.uint64)
        return self._index.find(wanted, wanted)


class Laid(NamedTuple):
    """Sentences one after the other as `<s> words </s>`, in one array.

    `words` and `ends` are the places in it of the text's words and of the `</s>`.
    """

    ids: Ids
    words: Ids
    ends: Ids


@dataclass(frozen=True)
class NgramTable:
    """A whole model."""

    vocabulary: Vocabulary
    levels: Sequence[Level]

    @property
    def order(self) -> int:
        return len(self.levels)

    @property
    def counts(self) -> list[int]:
        """How many n-grams of each length there are."""
        return [len(level.keys) for level in self.levels]

    def log10_probs(self, ids: Ids, begins: Ids) -> Log10:
        """log10 p of each word given those before it, back to the last of the places `begins`, the first being 0.

        What stands at a place of `begins` has no history: `<s>`, or the first word of a context.
        """
        size = len(self.vocabulary)
        log10_probs = self.levels[0].log10_probs.take(ids)
        matched = ids
        for shorter, level in pairwise(self.levels):
            context = np.empty_like(matched)
            context[1:], context[begins] = matched[:-1], NONE
            log10_probs += shorter.backoffs_or_none.take(context)
            known = np.flatnonzero(context != NONE)
            places = level.find(context.take(known) * size + ids.take(known))
            held = np.flatnonzero(places != NONE)
            known, places = known.take(held), places.take(held)
            matched = np.full(len(ids), NONE, dtype=np.int64)
            matched[known] = places
            log10_probs[known] = level.log10_probs.take(places)
        return log10_probs

    def distribution(self, context: Sequence[int]) -> NDArray[np.float64]:
        """p of every word of the vocabulary after a context; it sums to 1, and `<s>` is never predicted."""
        probs = 10.0 ** self.levels[0].log10_probs
        probs[BEGIN_ID] = 0.0
        size = len(self.vocabulary)
        for length in range(1, min(self.order - 1, len(context)) + 1):
            place = self.place(context[-length:])
            if place is None:
                continue
            probs *= 10.0 ** self.levels[length - 1].log10_backoffs[place]
            level = self.levels[length]
            rows = slice(*np.searchsorted(level.keys, [place * size, (place + 1) * size]))
            probs[level.keys[rows] % size] = 10.0 ** level.log10_probs[rows]
        return probs

    def place(self, words: Sequence[int]) -> int | None:
        """Where an n-gram stands in the level of its length; None where the model does not hold it."""
        place = int(words[0])
        for level, word in zip(self.levels[1:], words[1:], strict=False):
            place = int(level.find(np.array([place * len(self.vocabulary) + word]))[0])
            if place == NONE:
                return None
        return place

    def lay(self, text: bytes) -> tuple[Laid, Spans]:
        """A text of one sentence a line, ready to be looked up; a last line without its end counts as one."""
        spans = find_words(text)
        return lay_sentences(self.vocabulary.find(text, spans), spans, len(text)), spans


def lay_sentences(ids: Ids, spans: Spans, length: int) -> Laid:
    """Words as `<s> words </s>` for each line of a text of so many bytes."""
    ends = spans.newlines
    if length and (not len(ends) or ends[-1] != length - 1):
        ends = np.append(ends, length)
    lines = np.arange(len(ends))
    until = np.searchsorted(spans.starts, ends)  # words before the end of each line
    places = np.arange(len(ids)) + 2 * np.repeat(lines, np.diff(until, prepend=0)) + 1
    end_places = until + 2 * lines + 1
    laid = np.full(len(ids) + 2 * len(lines), BEGIN_ID, dtype=np.int64)
    laid[places], laid[end_places] = ids, END_ID
    return Laid(laid, places, end_places)


def begins_of(laid: Laid) -> Ids:
    """The places of `<s>`."""
    return np.concatenate([[0], laid.ends[:-1] + 1]) if len(laid.ends) else laid.ends
