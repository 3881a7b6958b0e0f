"""A little of the text that was read, for people who look at a run later: where each block begins, and the first
tokens of each passage with their probabilities.

Texts go by as a stream, and models cut them as they need. A `Trail` follows the stream and holds what is on its way
through the model, so that no model has to carry the text along.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from howsure.measures.logprobs import ZERO_PROBABILITY_LOGPROB
from howsure.models.contract import Stretch

EXCERPT_CHARACTERS = 160
MOST_TOKENS = 1_000
FEW_TOKENS, MANY_DOCUMENTS = 50, 1_000
"""From so many documents on, fewer tokens of each are kept: runs over short texts would be made of little else."""
MOST_BYTES = 16_384
"""Of the first tokens of a passage; a token can be as long as a text."""
DECIMALS = 4
"""Of a log-probability that is kept to be looked at; the sums are made of all digits."""
_EXCERPT_BYTES = EXCERPT_CHARACTERS * 4


class Trail:
    """The text of a document from some byte on, as far as a model has taken it in."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._begin = 0
        self._wanted = True

    def along(self, chunks: Iterable[str]) -> Iterator[str]:
        """The same pieces of text, seen on their way."""
        for chunk in chunks:
            if self._wanted:
                self._held += chunk.encode("utf-8", "surrogatepass")
            yield chunk

    def between(self, begin: int, end: int) -> bytes | None:
        """The bytes from one place to another; None where they are gone or have not come by."""
        first, last = begin - self._begin, end - self._begin
        return bytes(self._held[first:last]) if 0 <= first <= last <= len(self._held) else None

    def drop(self, before: int | None) -> None:
        """Let go of what lies before a place; None where it is not known, and nobody will ask again."""
        if before is None:
            self._held, self._wanted = bytearray(), False
        elif before > self._begin:
            del self._held[: before - self._begin]
            self._begin = before


def tokens_kept(document_index: int) -> int:
    return MOST_TOKENS if document_index < MANY_DOCUMENTS else FEW_TOKENS


def evidence(stretch: Stretch, blocks: dict[str, Any], begin: int, trail: Trail, most: int) -> dict[str, Any]:
    """What a sample keeps of its passage, which begins at some byte; nothing where the text is not at hand."""
    excerpts = _excerpts(blocks["bytes"], begin, trail)
    beginning = _beginning(stretch, begin, trail, most)
    return {} if excerpts is None or beginning is None else {"excerpts": excerpts, "beginning": beginning}


def _excerpts(byte_counts: Sequence[int], begin: int, trail: Trail) -> list[str] | None:
    found = []
    for count in byte_counts:
        spelled = trail.between(begin, begin + min(count, _EXCERPT_BYTES))
        if spelled is None:
            return None
        found.append(spelled.decode("utf-8", "ignore")[:EXCERPT_CHARACTERS])
        begin += count
    return found


def _beginning(stretch: Stretch, begin: int, trail: Trail, most: int) -> dict[str, Any] | None:
    """The first tokens in the form of `TokenLogprobs`; bytes are written out only where a character spans tokens."""
    ends = np.cumsum(stretch.byte_counts[:most])
    ends = ends[: np.searchsorted(ends, MOST_BYTES, side="right")]
    places = [0, *ends.tolist()]
    text = trail.between(begin, begin + places[-1])
    if text is None:
        return None
    tokens = _pieces(text, places)
    found: dict[str, Any] = {"tokens": tokens, "logprobs": _rounded(stretch.logprobs[: len(tokens)])}
    if not text.isascii() and any("\ufffd" in token for token in tokens):
        found["bytes"] = [text[a:b].hex() for a, b in pairwise(places)]
    return found


def _pieces(text: bytes, places: Sequence[int]) -> list[str]:
    if text.isascii():  # a byte is a character, and one text is decoded far quicker than a thousand
        whole = text.decode("ascii")
        return [whole[a:b] for a, b in pairwise(places)]
    return [text[a:b].decode("utf-8", "replace") for a, b in pairwise(places)]


def _rounded(logprobs: NDArray[np.float64]) -> list[float]:
    """What is impossible has the number that stands for it in all evidence, since JSON has no infinity."""
    values: list[float] = (np.round(np.maximum(logprobs, ZERO_PROBABILITY_LOGPROB), DECIMALS) + 0.0).tolist()
    return values
