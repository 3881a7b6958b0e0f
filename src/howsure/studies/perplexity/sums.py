"""What is kept of a text that was read: sums over blocks of it, never one number a token.

A document is divided into at most 64 blocks of equal bytes, at least 256 each, along which pages draw how the surprise
changes. Where they lie depends on the text alone, whatever the tokens of a model are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from howsure.measures import nats_to_bits
from howsure.models.contract import Stretch

MOST_BLOCKS = 64
LEAST_BLOCK_BYTES = 256

COUNTS = ("tokens", "words", "bytes", "impossible")
KINDS = ("unknown", "ends")
"""Kinds of tokens that are counted apart as well: outside of the vocabulary, and ends of sentences (`</s>`). A model
that can spell every text has no such columns."""
NATS = ("nats", *(f"{kind}_nats" for kind in KINDS))
"""`nats` sums −ln p over the tokens whose probability is above zero; the others are counted as `impossible`."""
COLUMNS = (*NATS, *COUNTS, *(name for kind in KINDS for name in (kind, f"{kind}_impossible")))

Sums = dict[str, NDArray[np.float64]]
"""Columns, an entry for each block."""

Totals = dict[str, float]
"""The same of all blocks together."""


def block_size(byte_count: int) -> int:
    """The bytes of a block: the smallest power of two that makes no more than 64 of them.

    >>> block_size(10), block_size(204_176)
    (256, 4096)
    """
    least = math.ceil(byte_count / MOST_BLOCKS)
    return max(LEAST_BLOCK_BYTES, 1 << max(least - 1, 0).bit_length())


def block_sums(stretch: Stretch, first_byte: int, byte_count: int) -> dict[str, Any]:
    """A passage that begins at some byte of its document, summed by block: plain lists, and the first block's number.

    A token counts where it begins; what has no bytes at the very end counts in the last block.
    """
    size = block_size(byte_count)
    starts = first_byte + np.cumsum(stretch.byte_counts) - stretch.byte_counts
    blocks = np.minimum(starts, byte_count - 1) // size
    first = int(blocks[0]) if len(blocks) else 0
    columns = {name: np.bincount(blocks - first, weights=values) for name, values in _columns(stretch).items()}
    return {"first": first, **{name: _plain(name, sums) for name, sums in columns.items()}}


def _columns(stretch: Stretch) -> dict[str, NDArray[Any]]:
    possible = np.isfinite(stretch.logprobs)
    nats = np.where(possible, 0.0 - stretch.logprobs, 0.0)
    columns: dict[str, Any] = {
        "nats": nats,
        "tokens": np.ones(len(nats)),
        "words": stretch.word_starts,
        "bytes": stretch.byte_counts,
        "impossible": ~possible,
    }
    for kind, marked in zip(KINDS, (stretch.unknown, stretch.sentence_ends), strict=True):
        if marked is not None:
            columns |= {kind: marked, f"{kind}_nats": nats * marked, f"{kind}_impossible": marked & ~possible}
    return columns


def _plain(name: str, sums: NDArray[Any]) -> list[Any]:
    values: list[Any] = sums.tolist() if name in NATS else sums.astype(np.int64).tolist()
    return values


def joined(parts: Iterable[Mapping[str, Any]]) -> Sums:
    """The blocks of a whole document, from its passages."""
    listed = list(parts)
    names = [name for name in COLUMNS if all(name in part for part in listed)]
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


# -- which tokens a figure counts ----------------------------------------------------------------------------------


LEFT_OUT = {"words": "ends", "known_tokens": "unknown"}
"""The kind of tokens that a figure per unit does not count."""


class Counted(NamedTuple):
    """What a figure is made of: nats of the tokens that it counts, how many of those are impossible, and of what it is
    the share: tokens, words or bytes."""

    nats: float
    impossible: int
    units: float

    @property
    def bits_per_unit(self) -> float | None:
        """None where there is nothing to divide by, inf where something was impossible."""
        if not self.units:
            return None
        return math.inf if self.impossible else float(nats_to_bits(self.nats)) / self.units


def totals(sums: Sums) -> Totals:
    """All blocks added up."""
    return {name: float(values.sum()) for name, values in sums.items()}


def counted(total: Totals, unit: str) -> Counted | None:
    """The tokens that a figure per unit counts: this is decided here, for every figure alike.

    tokens        all that the model predicts; of an n-gram model the words and each end of a sentence, `</s>`
    bytes         the same, since the line ends are bytes of the text, and `</s>` is what is paid for them
    words         words only: P(w₁ … w_N)^(−1/N) is over N words, and `</s>` is none of them. A model without such marks
                  reads white space and line ends as part of the text, and they count
    known_tokens  tokens without unknown words; None for a model that knows no such thing
    """
    if unit == "known_tokens" and "unknown" not in total:
        return None
    units = total["tokens"] - total["unknown"] if unit == "known_tokens" else total[unit]
    nats, impossible = total["nats"], total["impossible"]
    if (kind := LEFT_OUT.get(unit)) in total:
        nats, impossible = max(nats - total[f"{kind}_nats"], 0.0), impossible - total[f"{kind}_impossible"]
    return Counted(nats, int(impossible), units)


def perplexity_of(bits: float | None) -> float | None:
    """2 to the power of the cross-entropy; inf where it is beyond floating point."""
    if bits is None:
        return None
    return 2.0**bits if bits < 1024 else math.inf
