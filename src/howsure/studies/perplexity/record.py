"""What a sample of perplexity holds of the passage that was read: sums over blocks of it, never one number a token, and
a little of its text for people who look at a run later.

A document is divided into at most 64 blocks of equal bytes, at least 256 each, along which pages draw how the surprise
changes. Where they lie depends on the text alone, whatever the tokens of a model are.

Texts go by as a stream, and models cut them as they need. A `Trail` follows the stream and holds what is on its way
through the model, so that no model has to carry the text along.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from howsure.errors import RunDamaged
from howsure.measures.checks import ZERO_PROBABILITY_LOGPROB
from howsure.models.contract import Stretch
from howsure.types import Fields

MOST_BLOCKS = 64
LEAST_BLOCK_BYTES = 256

EXCERPT_CHARACTERS = 160
MOST_TOKENS = 1_000
FEW_TOKENS, MANY_DOCUMENTS = 50, 1_000
"""From so many documents on, fewer tokens of each are kept: runs over short texts would be made of little else."""
MOST_BYTES = 16_384
"""Of the first tokens of a passage; a token can be as long as a text."""
DECIMALS = 4
"""Of a log-probability that is kept to be looked at; the sums are made of all digits."""


class Blocks(Fields, kw_only=True):
    """A passage summed by block: an entry for each block in which one of its tokens begins.

    `unknown` are tokens outside of the vocabulary, `ends` those that end a sentence (`</s>`); both are counted among
    all others too, and are None of a model that has no such tokens.
    """

    first: Annotated[int, msgspec.Meta(ge=0, lt=MOST_BLOCKS)]
    """The number of the first block."""
    nats: list[float]
    """−ln p over the tokens whose probability is above zero; the others are counted as `impossible`."""
    tokens: list[int]
    words: list[int]
    bytes: list[int]
    impossible: list[int]
    unknown: list[int] | None = None
    """Of n-gram models: words that are not in the vocabulary."""
    unknown_nats: list[float] | None = None
    unknown_impossible: list[int] | None = None
    ends: list[int] | None = None
    """Of n-gram models: ends of sentences."""
    ends_nats: list[float] | None = None
    ends_impossible: list[int] | None = None


class Beginning(Fields, omit_defaults=True):
    """The first tokens of a passage, in the form of `TokenLogprobs`."""

    tokens: list[str]
    logprobs: list[float]
    bytes: list[str] | None = None
    """Only where a character spans tokens."""


class Excerpts(Fields):
    """How each block of a passage begins, and the first tokens of the passage."""

    excerpts: list[str]
    """How each block begins."""
    beginning: Beginning


class PerplexityRecord(Fields, kw_only=True):
    """A passage of a document. What a passage that failed has not is None."""

    document: str
    part: int
    """Which passage of its document."""
    last: bool
    """Whether no passage of the document comes after it."""
    blocks: Blocks | None = None

    @property
    def sums(self) -> Blocks:
        """Those of a passage that was read."""
        if self.blocks is None:
            raise RunDamaged(f"passage {self.part} of {self.document!r} has neither sums nor a reason for having none")
        return self.blocks


# -- sums by block ----------------------------------------------------------------------------------------------------

NATS = ("nats", "unknown_nats", "ends_nats")
COLUMNS = tuple(name for name in Blocks.__struct_fields__ if name != "first")

Sums = dict[str, NDArray[np.float64]]
"""Columns of `Blocks`, those that there are, with an entry for each block."""


def block_size(byte_count: int) -> int:
    """The bytes of a block: the smallest power of two that makes no more than 64 of them.

    >>> block_size(10), block_size(204_176)
    (256, 4096)
    """
    least = math.ceil(byte_count / MOST_BLOCKS)
    return max(LEAST_BLOCK_BYTES, 1 << max(least - 1, 0).bit_length())


def block_sums(stretch: Stretch, first_byte: int, byte_count: int) -> Blocks:
    """A passage that begins at some byte of its document. A token counts where it begins; what has no bytes at the very
    end counts in the last block."""
    starts = first_byte + np.cumsum(stretch.byte_counts) - stretch.byte_counts
    blocks = np.minimum(starts, byte_count - 1) // block_size(byte_count)
    first = int(blocks[0]) if len(blocks) else 0
    possible = np.isfinite(stretch.logprobs)
    nats = np.where(possible, 0.0 - stretch.logprobs, 0.0)
    columns: dict[str, NDArray[Any]] = {
        "nats": nats,
        "tokens": np.ones(len(nats)),
        "words": stretch.word_starts,
        "bytes": stretch.byte_counts,
        "impossible": ~possible,
    }
    for kind, marked in (("unknown", stretch.unknown), ("ends", stretch.sentence_ends)):
        if marked is not None:
            columns |= {kind: marked, f"{kind}_nats": nats * marked, f"{kind}_impossible": marked & ~possible}
    sums = {name: np.bincount(blocks - first, weights=values) for name, values in columns.items()}
    lists = {name: (one if name in NATS else one.astype(np.int64)).tolist() for name, one in sums.items()}
    return Blocks(first=first, **lists)


def joined(parts: Iterable[Blocks | Mapping[str, Any]]) -> Sums:
    """The blocks of a whole document, from its passages."""
    listed = [part if isinstance(part, Mapping) else msgspec.structs.asdict(part) for part in parts]
    names = [name for name in COLUMNS if all(part.get(name) is not None for part in listed)]
    if len(listed) == 1 and not listed[0]["first"]:  # as with most of a hundred thousand short documents
        return {name: np.array(listed[0][name], dtype=np.float64) for name in names}
    count = max(part["first"] + len(part["nats"]) for part in listed)
    sums = {name: np.zeros(count) for name in names}
    for part in listed:
        rows = slice(part["first"], part["first"] + len(part["nats"]))
        for name in names:
            sums[name][rows] += part[name]
    return sums


def together(documents: Sequence[Sums]) -> Sums:
    """The blocks of several documents, one after the other."""
    return {name: np.concatenate([sums[name] for sums in documents]) for name in documents[0]} if documents else {}


# -- the text itself --------------------------------------------------------------------------------------------------


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


def excerpts_of(stretch: Stretch, byte_counts: Sequence[int], begin: int, trail: Trail, most: int) -> Excerpts | None:
    """What a sample keeps of the text of its passage, which begins at some byte, and of at most so many tokens of it;
    None where the text did not come by. `byte_counts` are those of the blocks."""
    excerpts = []
    start = begin
    for count in byte_counts:
        spelled = trail.between(start, start + min(count, EXCERPT_CHARACTERS * 4))
        if spelled is None:
            return None
        excerpts.append(spelled.decode("utf-8", "ignore")[:EXCERPT_CHARACTERS])
        start += count
    ends = np.cumsum(stretch.byte_counts[:most])
    places = [0, *ends[: np.searchsorted(ends, MOST_BYTES, side="right")].tolist()]
    text = trail.between(begin, begin + places[-1])
    if text is None:
        return None
    if text.isascii():  # a byte is a character, and one text is decoded far quicker than a thousand
        whole = text.decode("ascii")
        tokens = [whole[a:b] for a, b in pairwise(places)]
    else:
        tokens = [text[a:b].decode("utf-8", "replace") for a, b in pairwise(places)]
    # What is impossible has the number that stands for it in all evidence, since JSON has no infinity.
    logprobs = np.round(np.maximum(stretch.logprobs[: len(tokens)], ZERO_PROBABILITY_LOGPROB), DECIMALS) + 0.0
    beginning = Beginning(tokens, logprobs.tolist())
    if not text.isascii() and any("\ufffd" in token for token in tokens):
        beginning.bytes = [text[a:b].hex() for a, b in pairwise(places)]
    return Excerpts(excerpts, beginning)
