"""An n-gram model in arrays: a closed vocabulary, and one level for each length, looked up for a whole text at once.

A word of up to sixteen bytes is its own key, as two 64-bit numbers, so that finding a million words takes a few passes
over arrays and no Python object a word. Both ways to find a word are exact: no two words share a key, since no word
holds a NUL.

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

from howsure.models.text import is_space

Bits = NDArray[np.uint64]
Ids = NDArray[np.int64]
Log10 = NDArray[np.float64]

UNKNOWN, BEGIN, END = b"<unk>", b"<s>", b"</s>"
UNKNOWN_ID, BEGIN_ID, END_ID = 0, 1, 2
SPECIAL = (UNKNOWN, BEGIN, END)

NONE = -1
"""The place of what is not there."""

_KEY_BYTES = 16
"""A longer word is rare and goes through a dictionary."""

_LOW_BYTES: Bits = (np.uint64(1) << (np.uint64(8) * np.arange(8, dtype=np.uint64))) - np.uint64(1)
_MASKS: Bits = np.append(_LOW_BYTES, np.uint64(0xFFFF_FFFF_FFFF_FFFF))
"""Keeps the first so many of eight bytes."""


class Spans(NamedTuple):
    """Where the words of a text lie, in bytes, and where its lines end."""

    starts: Ids
    ends: Ids
    newlines: Ids


class Vocabulary:
    """The words of a model; the first three are `<unk>`, `<s>` and `</s>`."""

    def __init__(self, words: Sequence[bytes]) -> None:
        assert tuple(words[:3]) == SPECIAL
        self.words = list(words)
        joined = b" ".join(self.words)
        lengths = np.fromiter(map(len, self.words), dtype=np.int64, count=len(self.words))
        starts = np.cumsum(np.append(0, lengths + 1))[:-1]
        low, high = _keys(joined, starts, lengths)
        short = np.flatnonzero(lengths <= _KEY_BYTES)
        self._numbers = np.append(short, NONE)
        self._index = HashIndex(_mixed(low[short], high[short]), low[short], high[short])
        self._long = {self.words[i]: i for i in np.flatnonzero(lengths > _KEY_BYTES).tolist()}

    def __len__(self) -> int:
        return len(self.words)

    def find(self, text: bytes, spans: Spans) -> Ids:
        """The number of each word of a text, that of `<unk>` for one that is not known.

        A word of the text that is spelled like one of the three special ones is not known either: it was never one.
        """
        ids = self.look_up(text, spans.starts, spans.ends)
        ids[ids <= END_ID] = UNKNOWN_ID
        return ids

    def look_up(self, text: bytes, starts: Ids, ends: Ids) -> Ids:
        """The number of each word, the special ones included; −1 for one that is not here."""
        lengths = ends - starts
        low, high = _keys(text, starts, lengths)
        places = self._index.find(_mixed(low, high), low, high)
        ids = self._numbers.take(places)
        for i in np.flatnonzero(lengths > _KEY_BYTES).tolist():
            ids[i] = self._long.get(text[starts[i] : ends[i]], NONE)
        return ids


def find_words(text: bytes) -> Spans:
    """The words and line ends of a text."""
    space = is_space(text)
    edges = np.flatnonzero(np.diff(space, prepend=True, append=True))
    newlines = np.flatnonzero(np.frombuffer(text, dtype=np.uint8) == ord("\n"))
    return Spans(edges[0::2], edges[1::2], newlines)


def _keys(text: bytes, starts: Ids, lengths: Ids) -> tuple[Bits, Bits]:
    """The first sixteen bytes of each word as two numbers, with zeros after its end."""
    padded = text + bytes(_KEY_BYTES)
    eights = np.ndarray(shape=(len(text) + 9,), dtype=np.uint64, buffer=padded, strides=(1,))
    low = eights[starts] & _MASKS.take(np.minimum(lengths, 8))
    high = eights[starts + 8] & _MASKS.take(np.clip(lengths - 8, 0, 8))
    return low, high


def _mixed(low: Bits, high: Bits) -> Bits:
    return low ^ (high * np.uint64(0xC2B2_AE3D_27D4_EB4F))


# -- n-grams ---------------------------------------------------------------------------------------------------------


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


# -- finding many keys at once ---------------------------------------------------------------------------------------


class HashIndex:
    """Where each of some distinct keys stands in a list; a key is one 64-bit number or several side by side.

    `hashes` spread the keys; the columns tell them apart. A key and its place lie together, so that one look at the
    memory finds both. Keys are placed in rounds: all that are left try their next slot at the same time, and of several
    that want the same one the last stays.
    """

    def __init__(self, hashes: Bits, *columns: Bits) -> None:
        count = len(hashes)
        bits = max(int(2 * count).bit_length(), 4)
        self._shift = np.uint64(64 - bits)
        self._mask = (1 << bits) - 1
        slots = np.full(1 << bits, NONE, dtype=np.int64)
        left, wanted = np.arange(count), self._slots(hashes)
        while len(left):
            free = slots[wanted] == NONE
            slots[wanted[free]] = left[free]
            lost = slots[wanted] != left
            left, wanted = left[lost], (wanted[lost] + 1) & self._mask
        self._rows = np.zeros((1 << bits, len(columns) + 1), dtype=np.int64)
        self._rows[:, 0] = slots
        filled = np.flatnonzero(slots != NONE)
        for i, column in enumerate(columns, 1):
            self._rows[filled, i] = column.view(np.int64)[slots[filled]]

    def find(self, hashes: Bits, *columns: Bits) -> Ids:
        """The place of each key in the list, −1 for one that is not in it."""
        keys = [column.view(np.int64) for column in columns]
        wanted = self._slots(hashes)
        places, on = self._look(wanted, keys)
        left = on
        while len(left):
            wanted, keys = (wanted.take(on) + 1) & self._mask, [key.take(on) for key in keys]
            places[left], on = self._look(wanted, keys)
            left = left.take(on)
        return places

    def _slots(self, hashes: Bits) -> Ids:
        return ((hashes * np.uint64(0x9E37_79B9_7F4A_7C15)) >> self._shift).view(np.int64)

    def _look(self, slots: Ids, keys: list[Ids]) -> tuple[Ids, Ids]:
        """What stands in the slots, and which of them hold another key, so that one has to look further.

        (`take` fetches rows ten times as fast as an index in brackets does.)
        """
        rows = self._rows.take(slots, axis=0)
        places = rows[:, 0].copy()
        other = rows[:, 1] != keys[0]
        for i, key in enumerate(keys[1:], 2):
            other |= rows[:, i] != key
        other &= places != NONE
        return places, np.flatnonzero(other)
