"""Training on texts: words numbered as they come, then counted and smoothed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from howsure.errors import InputError
from howsure.models.ngram.discounts import Discounts
from howsure.models.ngram.estimate import Smoothing, estimate
from howsure.models.ngram.table import Laid, NgramTable, lay_sentences
from howsure.models.ngram.vocabulary import SPECIAL, Vocabulary, find_words

_RESERVED = frozenset(SPECIAL)


class Piece(NamedTuple):
    """Some whole lines of a text, and where they stand, for messages."""

    text: bytes
    source: str = "the training text"
    lines_before: int = 0


class Trained(NamedTuple):
    """A model, and what it was made from."""

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
    """A model of texts that hold one sentence a line; each piece ends a sentence."""
    laid, vocabulary = number_words(pieces)
    words = len(laid.words)
    if not words:
        raise InputError("there is no word in the training text")
    estimated = estimate(laid, vocabulary, order, smoothing, k=k, discount_fallback=discount_fallback)
    return Trained(estimated.table, estimated.discounts, len(laid.ends), words)


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
