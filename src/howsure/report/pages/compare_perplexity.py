"""Two models on the same texts: bits per byte, paired document by document."""

from __future__ import annotations

from typing import Any

import htpy as h
from htpy import Node

from howsure.report.charts import Axis
from howsure.report.charts import Chart
from howsure.report.pages.compare_mcq import thinned
from howsure.report.pages.compare_parts import around_zero, paired_table
from howsure.report.views import Section
from howsure.report.run_data import Material
from howsure.report.charts import Named
from howsure.report.html import SHOWN_ROWS
from howsure.report.pages.perplexity_plots import short_name
from howsure.report.perplexity import rows_of
from howsure.report.text import counted

_BITS = Axis("B − A, bits per byte")


def sections(found: dict[str, Any], a: Material, b: Material) -> list[Section]:
    difference = found["difference"]
    fewer, paired = difference["documents_b_needs_less"], difference["documents"]
    told = [] if fewer is None else [f"B needs fewer bits for {fewer:,} of {counted(paired, 'document')}."]
    if difference["note"]:
        told.append(f"B − A: {difference['note']}.")
    told.append("Compared per byte: what a token is, each model decides for itself.")
    return [
        paired_table(rows_of(found), told, found["notes"]),
        Section("How sure the difference is", "", h.div(class_="plots")[_plots(found)]),
    ]


def _plots(found: dict[str, Any]) -> list[Node]:
    difference, documents = found["difference"], found["documents"]
    whole = Named.of("all texts", difference, value="bits_per_byte")
    known = [one for one in documents if one["difference"] is not None]
    ranked = sorted(known, key=lambda one: -abs(one["difference"]))
    plots = [
        around_zero(
            "All texts",
            "The dot is B − A; left of “no change” B needs fewer bits: it is better.",
            _BITS,
            [whole],
            _signed,
            "documents",
        )
    ]
    if len(known) > 1:
        each = [Named(short_name(one["document"]), one["difference"]) for one in ranked]
        caption = f"The largest differences first.{_left_out(documents, known)}"
        plots.append(around_zero("Document by document", caption, _BITS, each, _signed))
    if len(known) > 2:
        plots.append(_scatter(known))
    return plots


def _left_out(documents: list[dict[str, Any]], known: list[dict[str, Any]]) -> str:
    """The documents that have no difference, counted."""
    count = len(documents) - len(known)
    if not count:
        return ""
    return (
        f" {count:,} of {counted(len(documents), 'document')} are not drawn: A or B gives part of them probability 0."
    )


def _signed(value: float) -> str:
    return f"{value:+.3f} bits"


def _scatter(documents: list[dict[str, Any]]) -> Node:
    shown = [documents[place] for place in thinned(len(documents), SHOWN_ROWS).tolist()]
    some = f" {len(shown):,} of {len(documents):,} are drawn." if len(shown) < len(documents) else ""
    first, second = ([one[f"bits_per_byte_{side}"] for one in shown] for side in "ab")
    high = max([*first, *second]) * 1.05 or 1.0
    chart = Chart("A against B", Axis("bits per byte of A", 0, high), Axis("bits per byte of B", 0, high)).diagonal()
    rows = [(short_name(one["document"]), x, y) for one, x, y in zip(shown, first, second, strict=True)]
    tips = [f"{name}: {x:.3f} in A, {y:.3f} in B" for name, x, y in rows]
    chart.points(first, second, tips=tips)
    return chart.figure(
        f"Each mark is a document; below the dashed line B needs fewer bits for it than A.{some}",
        ["document", "A", "B"],
        rows,
    )
