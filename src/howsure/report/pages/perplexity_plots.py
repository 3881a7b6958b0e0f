"""Plots of perplexity: documents beside each other, and the figure settling along a text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import htpy as h
import numpy as np
from htpy import Element

from howsure.report.charts import Axis
from howsure.report.charts import Chart
from howsure.report.rows import Table
from howsure.report.views import Section
from howsure.report.charts import Named, dots
from howsure.report.html import number, table, words
from howsure.report.pages.perplexity_blocks import Along, longest
from howsure.report.perplexity import unit_rows
from howsure.report.text import counted
from howsure.studies.perplexity.record import joined

MOST_DOCUMENTS = 4
"""Drawn block by block."""
SHORT_NAME = 28
_BITS = "bits per byte"


def by_document(summary: dict[str, Any]) -> Section | None:
    """Documents, the hardest first; nothing for a single one, which the figures above are of."""
    listed = summary["documents"]
    if len(listed) < 2:
        return None
    ranked = sorted(listed, key=_hardness, reverse=True)
    rows = [_named(entry) for entry in ranked]
    corpus = summary["corpus"]
    whole = None if corpus is None else corpus["bits_per_byte"]
    figure = dots(
        "Bits per byte by document",
        "The dot is what a byte of the document took on average; dashed: all documents together.",
        Axis(_BITS, 0),
        rows,
        level=None if whole is None else (whole, "all"),
    )
    left_out = summary["documents_left_out"]
    of_those = f" of the first {len(listed):,} documents; {left_out:,} more are in documents.csv" if left_out else ""
    lead = f"The hardest first{of_those}. Fewer bits: the model expected more of it."
    return Section("Which texts surprise the model", lead, figure)


def _hardness(entry: dict[str, Any]) -> float:
    if entry["reason"] is not None:
        return -math.inf
    return math.inf if entry["bits_per_byte"] is None else float(entry["bits_per_byte"])


def _named(entry: dict[str, Any]) -> Named:
    name = short_name(entry["document"])
    if entry["reason"] is not None:
        return Named(name, None, note=str(entry["reason"]).replace("_", " "))
    if entry["bits_per_byte"] is None:
        return Named(name, None, note=f"{entry['impossible']:,} impossible")
    return Named(name, entry["bits_per_byte"], note=f"{entry['bytes']:,} bytes")


def short_name(document: str) -> str:
    """The end of a path, which tells files apart better than its beginning; safe to show, whatever it is called."""
    return words(document if len(document) <= SHORT_NAME else f"…{document[1 - SHORT_NAME :]}")


# -- along a document -------------------------------------------------------------------------------------------------


def convergence(rows: Table) -> Section | None:
    """Does the figure settle as the text goes on? For the longest documents, as far as they were read."""
    found = [one for one in longest(rows, MOST_DOCUMENTS) if np.count_nonzero(one.sums["bytes"]) > 1]
    if not found:
        return None
    documents = len({index for index in rows.values("_index") if index is not None})
    which = f"The {counted(len(found), 'document')} with the most text. " if documents > len(found) else ""
    return Section(
        "Does the figure settle?",
        f"{which}The longer a text, the less its average depends on where it ends: where the language keeps its "
        "habits, the line tends to one value, what the model needs for a byte of it in the long run. A line that still "
        "climbs or falls at its end says that more text would give another figure.",
        h.div(class_="plots")[[_settling(one) for one in found]],
    )


def _settling(one: Along) -> Element:
    final = one.running_bits[-1]
    there = np.flatnonzero(one.sums["bytes"] > 0)  # a token longer than a block leaves some of them empty
    ends = one.ends_byte[there]
    starts = ends - one.sums["bytes"][there]
    each, running = ([values[place] for place in there] for values in (one.each_bits, one.running_bits))
    size, unit = _unit_of(float(ends[-1]))
    chart = Chart(short_name(one.name), Axis(f"{unit} read", 0), Axis(_BITS, 0))
    left, right = (starts / size).tolist(), (ends / size).tolist()
    chart.bars(left, right, each, "each block", 5, tips=_tips(starts, ends, each), pale=True)
    chart.line(right, running, "everything up to there")
    if final is not None:
        chart.level(final)
    return chart.figure(
        f"Bars: the bits per byte of each block. Line: the average of everything up to there{_final(one, final)}."
        f"{_gaps(one)}",
        ["from byte", "to byte", "block", "everything up to there"],
        list(zip(starts.astype(int).tolist(), ends.astype(int).tolist(), each, running, strict=True)),
    )


def _final(one: Along, final: float | None) -> str:
    if final is None:
        return ""
    return f", which {'ends' if one.whole else 'has come'} at {final:.3f} (dashed)"


def _unit_of(byte_count: float) -> tuple[float, str]:
    """Bytes, or thousands or millions of them, so that the axis has short numbers."""
    if byte_count < 2e4:
        return 1.0, "bytes"
    return (1e3, "kB") if byte_count < 2e7 else (1e6, "MB")


def _gaps(one: Along) -> str:
    if not one.sums["impossible"].sum():
        return ""
    return " A block with a token of probability 0 takes infinitely many bits, and so does every average over it."


def _tips(starts: Any, ends: Any, bits: Sequence[float | None]) -> list[str]:
    places = zip(starts.astype(int).tolist(), ends.astype(int).tolist(), bits, strict=True)
    return [f"bytes {start:,} to {end:,}: {number(value, 2)} bits per byte" for start, end, value in places]


def by_block(blocks: dict[str, Any], begin: int | None) -> Section:
    """The blocks of one passage."""
    sums = joined([{**blocks, "first": 0}])
    one = Along("", True, sums)
    ends = one.ends_byte + (begin or 0)
    starts = ends - sums["bytes"]
    what = "passage" if begin is None else "document"
    chart = Chart("Bits per byte along the passage", Axis(f"byte of the {what}", float(starts[0])), Axis(_BITS, 0))
    chart.bars(starts.tolist(), ends.tolist(), one.each_bits, "", 0, tips=_tips(starts, ends, one.each_bits))
    counts = [sums[name].astype(int).tolist() for name in ("tokens", "words", "impossible")]
    return Section(
        "Block by block",
        "A document is cut into at most 64 blocks of equal bytes; a passage holds some of them.",
        chart.figure(
            f"Higher is more surprising.{_gaps(one)}",
            ["from byte", "to byte", "bits per byte", "tokens", "words", "impossible tokens"],
            list(zip(starts.astype(int).tolist(), ends.astype(int).tolist(), one.each_bits, *counts, strict=True)),
        ),
    )


# -- in numbers -------------------------------------------------------------------------------------------------------


def by_unit(summary: dict[str, Any]) -> Section | None:
    """Per token, word and byte."""
    corpus = summary["corpus"]
    if corpus is None:
        return None
    intervals = summary["intervals_bits"]
    lead = (
        "Bits are what one of them takes on average; perplexity is 2 to that power: as hard as choosing among so many "
        "equally likely ones each time. What a token is, each model decides for itself, so compare models per byte."
    )
    if ends := corpus.get("sentence_ends"):
        lead += f" The {counted(ends, 'sentence end')} (</s>) count per token and per byte, not per word."
    if missing := summary.get("intervals_missing"):
        lead += f" These figures are {missing}."
    rows = [
        (name, count, number(bits, 4), number(perplexity, 4), *((interval or "—",) if intervals else ()))
        for name, count, bits, perplexity, interval in unit_rows(corpus, intervals)
    ]
    headers = ["all texts", "count", "bits", "perplexity", *(["bits, 95 % interval"] if intervals else [])]
    return Section("Per token, per word, per byte", lead, table(headers, rows, numeric=range(1, len(headers))))
