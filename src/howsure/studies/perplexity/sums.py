"""What is kept of a text that was read: sums over blocks of it, never one number a token.

A document is divided into at most 64 blocks of equal bytes, at least 256 each. Where they lie depends on the text
alone, so that two models can be compared block by block whatever their tokens are. Blocks, not tokens, are what the
bootstrap draws: neighbouring tokens depend on each other, far less so neighbouring blocks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from howsure.measures import nats_to_bits
from howsure.models.contract import Stretch

MOST_BLOCKS = 64
LEAST_BLOCK_BYTES = 256

COUNTS = ("tokens", "words", "bytes", "impossible")
UNKNOWN_COUNTS = ("unknown", "unknown_impossible")
NATS = ("nats",)
UNKNOWN_NATS = ("unknown_nats",)
"""`nats` sums −ln p over the tokens whose probability is above zero; the others are counted as `impossible`.
`unknown…` are the same for tokens outside of the vocabulary; a model that can spell every text has none of these."""

Sums = dict[str, NDArray[np.float64]]


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
    if stretch.unknown is None:
        return columns
    return columns | {
        "unknown": stretch.unknown,
        "unknown_nats": nats * stretch.unknown,
        "unknown_impossible": stretch.unknown & ~possible,
    }


def _plain(name: str, sums: NDArray[Any]) -> list[Any]:
    values: list[Any] = sums.tolist() if name in NATS + UNKNOWN_NATS else sums.astype(np.int64).tolist()
    return values


def joined(parts: Iterable[Mapping[str, Any]]) -> Sums:
    """The blocks of a whole document, from its passages."""
    listed = list(parts)
    names = [name for name in (*NATS, *COUNTS, *UNKNOWN_COUNTS, *UNKNOWN_NATS) if name in listed[0]]
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


def whole(sums: Sums) -> Sums:
    """One row: the sum of all blocks."""
    return {name: np.array([values.sum()]) for name, values in sums.items()}


def known_only(sums: Sums) -> Sums | None:
    """The sums without unknown words; None for a model that has no such thing."""
    if "unknown" not in sums:
        return None
    return {
        "nats": sums["nats"] - sums["unknown_nats"],
        "tokens": sums["tokens"] - sums["unknown"],
        "impossible": sums["impossible"] - sums["unknown_impossible"],
    }


def bits_per(sums: Sums, unit: str) -> float | None:
    """Cross-entropy in bits per token, word or byte; None where there is none, inf where something was impossible."""
    count = float(sums[unit].sum())
    if not count:
        return None
    if sums["impossible"].sum():
        return math.inf
    return float(nats_to_bits(float(sums["nats"].sum()))) / count


def perplexity_of(bits: float | None) -> float | None:
    """2 to the power of the cross-entropy; inf where it is beyond floating point."""
    if bits is None:
        return None
    return 2.0**bits if bits < 1024 else math.inf
