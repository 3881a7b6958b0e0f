"""The tokens of a text of any length, without all of it in memory.

The tokens are those of the whole text tokenised at once. Where the tokenizer is of a kind for which `safe_cut` is
exact, the text is cut into parts that are tokenised one by one. Other tokenizers may join anything with anything, so
that their text is collected to its end first and held in memory; so is a stretch that has no place to cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from howsure.models.safe_cut import last_cut
from howsure.models.text_boundary import TextEncoder, utf8
from howsure.models.words import is_space, starts_of_words

Ints = NDArray[np.int64]

PART_CHARS = 2**18
"""A part of a text is cut off as soon as so many characters are there: large enough that a tokenizer is not called
often, small enough that its tokens need a few megabytes."""


class Tokens(NamedTuple):
    """Some tokens of a text, with the bytes of it that each accounts for and the words that begin in each."""

    ids: Ints
    byte_counts: Ints
    word_starts: Ints


def tokens_of(encoder: TextEncoder, chunks: Iterable[str]) -> Iterator[Tokens]:
    """The tokens of a text that comes in pieces of any size, a part of it at a time.

    What the tokenizer puts around a text is left out (`TextEncoder.lead` has what it puts before it). All bytes of the
    text are accounted for once.
    """
    after_space, unread = True, ""
    for part in parts(chunks, encoder.cuts):
        text = unread + part
        pieces = encoder.pieces([text], framed=True)[0]
        unread = "" if pieces.ids else text  # nothing that the vocabulary can spell: it goes with what follows
        if pieces.ids:
            spelled = utf8(text)
            yield Tokens(np.array(pieces.ids, dtype=np.int64), *shares(spelled, pieces.ends, after_space=after_space))
            after_space = bool(is_space(spelled[-1:])[0])


def parts(chunks: Iterable[str], cuts: bool) -> Iterator[str]:
    """The text in parts that can be tokenised one by one; where they end depends on the text, not on its pieces."""
    held: list[str] = []
    size, enough = 0, PART_CHARS
    for piece in _no_larger(chunks, PART_CHARS):
        held.append(piece)
        size += len(piece)
        while cuts and size >= enough:
            text = "".join(held)
            cut = last_cut(text[:enough])
            if cut:
                yield text[:cut]
            held, size = [text[cut:]], len(text) - cut
            enough = PART_CHARS if cut else 2 * enough
    if size:
        yield "".join(held)


def _no_larger(chunks: Iterable[str], limit: int) -> Iterator[str]:
    for chunk in chunks:
        for start in range(0, len(chunk), limit):
            yield chunk[start : start + limit]


def shares(text: bytes, ends: Sequence[int], *, after_space: bool = True) -> tuple[Ints, Ints]:
    """For tokens that end at these places of a text: the bytes that each accounts for, the words that begin in each.

    What lies behind the last token is its own too, so that no byte is lost.
    """
    places = np.minimum(np.maximum.accumulate(np.array(ends, dtype=np.int64)), len(text))
    places[-1] = len(text)
    starts = starts_of_words(text, after_space=after_space)
    holders = np.searchsorted(places, starts, side="right")
    return np.diff(places, prepend=0), np.bincount(holders, minlength=len(places)).astype(np.int64)
