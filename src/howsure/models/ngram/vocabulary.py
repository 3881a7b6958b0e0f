"""Words and their numbers: a closed vocabulary, looked up for a whole text at once.

A word of up to sixteen bytes is its own key, as two 64-bit numbers, so that finding a million words takes a few passes
over arrays and no Python object a word. Longer ones are rare and go through a dictionary. Both are exact: no two words
share a key, since no word holds a NUL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from howsure.models.ngram.hashing import HashIndex
from howsure.models.words import is_space

UNKNOWN, BEGIN, END = b"<unk>", b"<s>", b"</s>"
UNKNOWN_ID, BEGIN_ID, END_ID = 0, 1, 2
SPECIAL = (UNKNOWN, BEGIN, END)

Bits = NDArray[np.uint64]
Ids = NDArray[np.int64]
_KEY_BYTES = 16
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
        self._numbers = np.append(short, -1)
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
            ids[i] = self._long.get(text[starts[i] : ends[i]], -1)
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
