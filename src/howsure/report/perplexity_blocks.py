"""The blocks of a run's texts, put together from its rows: where each lies, how many bits it took, and their plots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from howsure.measures import nats_to_bits
from howsure.report.charts import Axis, Chart
from howsure.report.document import Plot
from howsure.report.html import number
from howsure.report.rows import Table
from howsure.studies.perplexity.record import Sums, joined

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEAST_BYTES = 128
"""A shorter stretch says more about one word than about a text."""


class Stretches(NamedTuple):
    """Every block of every passage: the row that it is in, its place there, the byte at which it begins (NaN where a
    passage before it is missing)."""

    row: Ints
    place: Ints
    begin_byte: Floats
    bytes: Floats
    nats: Floats
    impossible: Floats

    @property
    def bits_per_byte(self) -> Floats:
        """Infinite where something was impossible."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.impossible > 0, np.inf, nats_to_bits(self.nats) / self.bytes)


class Along(NamedTuple):
    """A document from its beginning, block by block."""

    name: str
    whole: bool
    sums: Sums

    @property
    def ends_byte(self) -> Floats:
        return np.cumsum(self.sums["bytes"])

    @property
    def each_bits(self) -> list[float | None]:
        return _ratios(self.sums["nats"], self.sums["bytes"], self.sums["impossible"])

    @property
    def running_bits(self) -> list[float | None]:
        return _ratios(*(np.cumsum(self.sums[name]) for name in ("nats", "bytes", "impossible")))


def _ratios(nats: Floats, byte_counts: Floats, impossible: Floats) -> list[float | None]:
    rows = zip(nats_to_bits(nats).tolist(), byte_counts.tolist(), impossible.tolist(), strict=True)
    return [None if not count or zeros else bits / count for bits, count, zeros in rows]


def stretches(table: Table) -> Stretches:
    """All blocks but crumbs: what a passage cuts off a block, or the end of a document."""
    blocks = table.values("_nats")
    rows = [row for row, found in enumerate(blocks) if found]
    counts = [len(blocks[row]) for row in rows]
    begins = begin_bytes(table)
    columns = [_flat(table.values(name), rows) for name in ("_bytes", "_nats", "_impossible")]
    places = np.concatenate([np.arange(count) for count in counts]) if counts else np.empty(0, dtype=np.int64)
    within = [np.cumsum(table.values("_bytes")[row]) - table.values("_bytes")[row] for row in rows]
    begin = np.repeat([begins[row] for row in rows], counts) + (np.concatenate(within) if within else 0.0)
    found = Stretches(np.repeat(rows, counts).astype(np.int64), places, begin, *columns)
    long = found.bytes >= np.maximum(LEAST_BYTES, _longest_beside(found, table) / 4)
    wanted = long if long.any() else found.bytes > 0
    return Stretches._make(column[wanted] for column in found)


def _longest_beside(found: Stretches, table: Table) -> Floats:
    """For each stretch the bytes of the longest one of its document."""
    _, document = np.unique(table.numbers("_index")[found.row], return_inverse=True)
    most = np.zeros(len(found.row))
    np.maximum.at(most, document, found.bytes)
    return most[document]


def _flat(values: Sequence[Sequence[float] | None], rows: Sequence[int]) -> Floats:
    return np.array([value for row in rows for value in values[row] or ()], dtype=np.float64)


def begin_bytes(table: Table) -> Floats:
    """The byte of its document at which each row begins; NaN where a passage before it is missing."""
    index, part, length = table.numbers("_index"), table.numbers("part"), table.numbers("bytes")
    begins, end, expected = np.full(len(table), np.nan), 0.0, (np.nan, np.nan)
    for row in np.lexsort((part, index)).tolist():
        if part[row] == 0:
            end, expected = 0.0, (index[row], 0.0)
        if (index[row], part[row]) == expected and np.isfinite(length[row]):
            begins[row] = end
            end, expected = end + length[row], (index[row], part[row] + 1)
    return begins


def longest(table: Table, most: int) -> list[Along]:
    """The documents with the most text, the longest first, each as far as it is there without a gap."""
    index, length = table.numbers("_index"), table.numbers("bytes")
    known = np.flatnonzero(np.isfinite(index) & np.isfinite(length))
    kinds, place = np.unique(index[known], return_inverse=True)
    totals = np.bincount(place, weights=length[known], minlength=len(kinds))
    chosen = kinds[np.argsort(-totals, kind="stable")[:most]]
    found = [along(table, float(number)) for number in chosen]
    return [one for one in found if one is not None]


def along(table: Table, index: float) -> Along | None:
    """One document; None where its first passage is missing."""
    begins, parts = begin_bytes(table), table.numbers("part")
    rows = np.flatnonzero((table.numbers("_index") == index) & np.isfinite(begins))
    rows = rows[np.argsort(parts[rows], kind="stable")]
    if not len(rows):
        return None
    listed = [_part(table, row) for row in rows.tolist()]
    last = int(rows[-1])
    return Along(str(table.values("document")[last]), bool(table.values("_last")[last]), joined(listed))


def _part(table: Table, row: int) -> dict[str, object]:
    names = ("nats", "bytes", "impossible")
    return {"first": table.values("_first")[row], **{name: table.values(f"_{name}")[row] for name in names}}


# -- plots ------------------------------------------------------------------------------------------------------------


def settling(one: Along, title: str) -> Plot:
    """The bits of each block, and of everything up to it."""
    final = one.running_bits[-1]
    there = np.flatnonzero(one.sums["bytes"] > 0)  # a token longer than a block leaves some of them empty
    ends = one.ends_byte[there]
    starts = ends - one.sums["bytes"][there]
    each, running = ([values[place] for place in there] for values in (one.each_bits, one.running_bits))
    size, unit = _unit_of(float(ends[-1]))
    chart = Chart(title, Axis(f"{unit} read", 0), Axis("bits per byte", 0))
    left, right = (starts / size).tolist(), (ends / size).tolist()
    chart.bars(left, right, each, "each block", 5, tips=_tips(starts, ends, each), pale=True)
    chart.line(right, running, "everything up to there")
    reached = ""
    if final is not None:
        chart.level(final)
        reached = f", which {'ends' if one.whole else 'has come'} at {final:.3f} (dashed)"
    return chart.figure(
        f"Bars: the bits per byte of each block. Line: the average of everything up to there{reached}.{_gaps(one)}",
        ["from byte", "to byte", "block", "everything up to there"],
        list(zip(starts.astype(int).tolist(), ends.astype(int).tolist(), each, running, strict=True)),
    )


def by_block(sums: Sums, begin: int | None) -> Plot:
    """The blocks of one passage; `begin` is its first byte in the document, where that is known."""
    one = Along("", True, sums)
    ends = one.ends_byte + (begin or 0)
    starts = ends - sums["bytes"]
    what = "passage" if begin is None else "document"
    chart = Chart(
        "Bits per byte along the passage", Axis(f"byte of the {what}", float(starts[0])), Axis("bits per byte", 0)
    )
    chart.bars(starts.tolist(), ends.tolist(), one.each_bits, "", 0, tips=_tips(starts, ends, one.each_bits))
    counts = [sums[name].astype(int).tolist() for name in ("tokens", "words", "impossible")]
    return chart.figure(
        f"Higher is more surprising.{_gaps(one)}",
        ["from byte", "to byte", "bits per byte", "tokens", "words", "impossible tokens"],
        list(zip(starts.astype(int).tolist(), ends.astype(int).tolist(), one.each_bits, *counts, strict=True)),
    )


def _unit_of(byte_count: float) -> tuple[float, str]:
    """Bytes, or thousands or millions of them, so that the axis has short numbers."""
    if byte_count < 2e4:
        return 1.0, "bytes"
    return (1e3, "kB") if byte_count < 2e7 else (1e6, "MB")


def _gaps(one: Along) -> str:
    if not one.sums["impossible"].sum():
        return ""
    return " A block with a token of probability 0 takes infinitely many bits, and so does every average over it."


def _tips(starts: Floats, ends: Floats, bits: Sequence[float | None]) -> list[str]:
    places = zip(starts.astype(int).tolist(), ends.astype(int).tolist(), bits, strict=True)
    return [f"bytes {start:,} to {end:,}: {number(value, 2)} bits per byte" for start, end, value in places]
