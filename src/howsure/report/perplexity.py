"""A perplexity run in the terminal, two of them side by side, and a trained n-gram model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from howsure.report.terminal import (
    SHOWN_FAILURES,
    cut_to_fit,
    keep_whole,
    plain_table,
    print_notes,
    print_summary,
    side_by_side,
)
from howsure.report.text import counted, interval_text, printable, signed_bits
from howsure.runs import Run
from howsure.runs.run import Pair
from howsure.studies.perplexity.judge import TABLE

SHOWN_DOCUMENTS = 20
SHOWN_CHARACTERS = 300


def print_perplexity(console: Console, summary: Any, run: Run) -> None:
    print_summary(console, summary, (), run, sections(summary))


def print_result(console: Console, result: Any, view: Any) -> None:
    if isinstance(result, Pair):
        print_comparison(console, result.comparison)
    else:
        print_perplexity(console, result.summary, result.run)


def sections(summary: dict[str, Any]) -> list[RenderableType]:
    if summary["corpus"] is None:
        return [_failed(summary["documents"])]
    found: list[RenderableType] = [_units(summary["corpus"], summary["intervals_bits"])]
    if summary["corpus"].get("sentence_ends"):
        ends = counted(summary["corpus"]["sentence_ends"], "sentence end")
        found.append(Text(f"the {ends} (</s>) count per token and per byte, not per word", style="dim"))
    found.append(Text("compare models by bits per byte; what a token is, each model decides for itself", style="dim"))
    if len(summary["documents"]) > 1:
        found.append(_documents(summary))
    if any(row["reason"] is not None for row in summary["documents"]):
        found.append(_failed(summary["documents"]))
    return found


def _units(corpus: dict[str, Any], intervals: dict[str, Any] | None) -> Table:
    """Bits and perplexities, with a column of intervals where there are any."""
    headers = ("over all texts", "count", "bits", "perplexity", *(("bits, 95% interval",) if intervals else ()))
    table = plain_table(*headers)
    keep_whole(table, *range(len(headers)))
    for name, count, bits, perplexity, interval in unit_rows(corpus, intervals):
        cells = (name, f"{count:,}", _number(bits), _number(perplexity))
        table.add_row(*cells, *((interval or "—",) if intervals else ()))
    return table


def unit_rows(
    corpus: dict[str, Any], intervals: dict[str, Any] | None
) -> list[tuple[str, int, float | None, float | None, str]]:
    """For each unit its name, how many there are, their bits and perplexity, and the interval of the bits."""
    found = [(f"per {unit}", corpus[f"{unit}s"], f"per_{unit}", unit) for unit in ("token", "word", "byte")]
    if corpus["oov"] is not None:
        known = corpus["tokens"] - corpus["oov"]
        found.append(("per known token", known, "per_token_without_oov", "known_token"))
    return [
        (name, count, corpus[f"bits_{per}"], corpus[f"perplexity_{per}"], _ends((intervals or {}).get(unit)))
        for name, count, per, unit in found
    ]


def _ends(interval: dict[str, Any] | None) -> str:
    return "" if interval is None else interval_text(interval, digits=4)


def _documents(summary: dict[str, Any]) -> Table:
    """The hardest first: those whose bytes take the most bits."""
    rows = [row for row in summary["documents"] if row["reason"] is None]
    rows.sort(key=lambda row: -float("inf") if row["bits_per_byte"] is None else -row["bits_per_byte"])
    listed = f" of the first {len(summary['documents']):,}" if summary["documents_left_out"] else ""
    title = f"document, hardest first{listed}"
    table = plain_table(title, "bytes", "bits per byte", "perplexity per word", "per token")
    keep_whole(table, 1, 2, 3, 4)
    for row in rows[:SHOWN_DOCUMENTS]:
        figures = [_number(row[name]) for name in ("bits_per_byte", "perplexity_per_word", "perplexity_per_token")]
        table.add_row(cut_to_fit(_short(row["document"])), f"{row['bytes']:,}", *figures)
    if len(rows) > SHOWN_DOCUMENTS:
        more = len(rows) - SHOWN_DOCUMENTS + summary["documents_left_out"]
        table.add_row(Text(f"and {more:,} more in {TABLE}", style="dim"))
    return table


def _failed(rows: Sequence[dict[str, Any]]) -> Text:
    failed = [row for row in rows if row["reason"] is not None]
    lines = [f"failed {_short(row['document'])}: {_short(row['detail'] or '')}" for row in failed[:SHOWN_FAILURES]]
    if len(failed) > len(lines):
        lines.append(f"and {len(failed) - len(lines)} more failed, see {TABLE}")
    return Text("\n".join(lines), style="yellow")


def print_comparison(console: Console, comparison: dict[str, Any]) -> None:
    """Both models and their difference, per byte."""
    console.print(side_by_side(comparison, ("model",), rows_of(comparison)))
    if note := comparison["difference"]["note"]:
        console.print(Text(f"B − A: {note}", style="dim"))
    console.print(Text("compared per byte: what a token is, each model decides for itself", style="dim"))
    documents = [row for row in comparison["documents"] if row["difference"] is not None]
    if len(documents) > 1:
        console.print()
        console.print(_largest_differences(documents))
    print_notes(console, comparison["notes"])


def rows_of(comparison: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """What is compared: its name, A, B, and B − A."""
    a, b, difference = comparison["a"], comparison["b"], comparison["difference"]
    shown = signed_bits(difference["bits_per_byte"], difference)
    by_choice = ("perplexity_per_word", "perplexity_per_token")
    tokens_a, tokens_b = (f"{side['tokens']:,}" if side["tokens"] is not None else "—" for side in (a, b))
    return [
        ("bits per byte", _number(a["bits_per_byte"]), _number(b["bits_per_byte"]), shown),
        *((name.replace("_", " "), _number(a[name]), _number(b[name]), "") for name in by_choice),
        ("tokens", tokens_a, tokens_b, ""),
        ("coverage", a["coverage"]["text"], b["coverage"]["text"], f"{difference['documents']} in both"),
    ]


def _largest_differences(documents: Sequence[dict[str, Any]]) -> Table:
    table = plain_table("document, largest difference first", "A", "B", "bits per byte")
    keep_whole(table, 1, 2, 3)
    for row in sorted(documents, key=lambda row: -abs(row["difference"]))[:SHOWN_DOCUMENTS]:
        figures = (_number(row["bits_per_byte_a"]), _number(row["bits_per_byte_b"]), signed_bits(row["difference"]))
        table.add_row(cut_to_fit(_short(row["document"])), *figures)
    if len(documents) > SHOWN_DOCUMENTS:
        table.add_row(Text(f"and {len(documents) - SHOWN_DOCUMENTS:,} more", style="dim"))
    return table


def print_trained(console: Console, trained: dict[str, Any]) -> None:
    table = plain_table("n", "n-grams", "discounts for counts of 1, 2, 3 and more")
    for i, count in enumerate(trained["ngrams"]):
        found = trained["discounts"]
        shown = "—" if found is None else ", ".join(f"{value:.6g}" for value in found[i])
        table.add_row(str(i + 1), f"{count:,}", shown)
    console.print(
        Text(
            f"{trained['smoothing']}, order {trained['order']}: {trained['words']:,} words in "
            f"{trained['sentences']:,} sentences, {trained['seconds']:.1f} s"
        )
    )
    console.print(table)
    console.print(Text(f"use it as --model {printable(trained['model'], one_line=True)}"))


def _short(text: str) -> str:
    """Text from outside in a sentence: safe, on one line, and not endless."""
    shown = printable(text[:SHOWN_CHARACTERS], one_line=True)
    return f"{shown}…" if len(text) > SHOWN_CHARACTERS else shown


def _number(value: float | None) -> str:
    """Four decimals where they say something, digits grouped; a dash for what is missing or infinite."""
    if value is None:
        return "—"
    return f"{value:,.4f}" if value < 100_000 else f"{value:.4g}"
