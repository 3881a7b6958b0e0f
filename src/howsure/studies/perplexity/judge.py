"""The verdict on a perplexity run, and on two over the same texts: pure functions of the samples.

Figures are those of each document and of all of them together; intervals are over documents, since what stands in one
of them hangs together. Two models are compared per byte, document by document: tokens are the model's own, and a model
with a closed vocabulary gets unknown words cheaply, but bytes are the same for all.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from howsure.errors import InputError
from howsure.measures import Interval, nats_to_bits, ratio_interval
from howsure.measures.intervals import LEAST_UNITS
from howsure.runs import Run, Sample
from howsure.runs.files import write_csv
from howsure.runs.folder import read_summary
from howsure.studies.comparing import Comparison, Side
from howsure.studies.perplexity.record import PerplexityRecord, Sums, joined, together
from howsure.studies.summary import Coverage, Figure, Summary
from howsure.studies.sureness import LEVEL, ends
from howsure.types import Fields

TABLE = "documents.csv"
MOST_LISTED = 1000
ALL_ALIKE = "no interval: the documents are all alike"

BITS_MEANING = "what a byte of the text costs the model: 8 if it knew nothing, 0 if it knew all"
PERPLEXITY_MEANING = "as hard as choosing each time among so many that are equally likely"


class Figures(Fields, kw_only=True):
    """Counts, cross-entropies and perplexities of some texts.

    A figure is None where it is infinite, as `impossible` then says, where there is nothing to divide by, and where
    nothing was read. `oov` and `sentence_ends` are None of a model that has no such tokens.
    """

    tokens: int | None = None
    words: int | None = None
    bytes: int | None = None
    impossible: int | None = None
    """Tokens of probability zero."""
    nll_nats: float | None = None
    """Of all tokens."""
    oov: int | None = None
    sentence_ends: int | None = None
    bits_per_token: float | None = None
    perplexity_per_token: float | None = None
    bits_per_word: float | None = None
    perplexity_per_word: float | None = None
    bits_per_byte: float | None = None
    perplexity_per_byte: float | None = None
    bits_per_token_without_oov: float | None = None
    perplexity_per_token_without_oov: float | None = None


class DocumentFigures(Figures):
    """The figures of one document, or why it has none."""

    document: str
    reason: str | None
    detail: str | None = None


class Bounds(Fields):
    """An interval of bits per token, word or byte."""

    low: float
    high: float
    level: float
    method: str
    approximate: bool


class PerplexitySummary(Summary, kw_only=True):
    """What all texts say together."""

    corpus: Figures | None
    intervals_bits: dict[str, Bounds] | None
    """By token, word, byte and, of a model with a closed vocabulary, known_token."""
    intervals_missing: str | None
    documents: list[DocumentFigures]
    """The first thousand; documents.csv has all."""
    documents_left_out: int


class DocumentSums(Fields):
    """What was read of one document: its sums by block, or the reason why it has none."""

    document: str
    reason: str | None = None
    detail: str | None = None
    blocks: Sums | None = None


# -- documents --------------------------------------------------------------------------------------------------------


def document_rows(samples: Sequence[Sample[PerplexityRecord]]) -> list[DocumentSums]:
    """One row for each document, whatever order the samples come in."""
    in_order = sorted(samples, key=lambda sample: (sample.index, sample.result.part))
    return [_document(list(parts)) for _, parts in groupby(in_order, key=lambda sample: sample.index)]


def _document(parts: Sequence[Sample[PerplexityRecord]]) -> DocumentSums:
    name = parts[0].result.document
    failed = next((part for part in parts if part.failed), None)
    if failed is not None:
        return DocumentSums(name, failed.reason, failed.detail)
    if not parts[-1].result.last:
        return DocumentSums(name, "unfinished", "its last passage has not been read")
    return DocumentSums(name, blocks=joined(part.result.sums for part in parts))


def figures_of(row: DocumentSums) -> DocumentFigures:
    known = Figures() if row.blocks is None else figures(row.blocks)
    return DocumentFigures(row.document, row.reason, row.detail, **known)


def write_table(folder: Path, rows: Sequence[DocumentSums]) -> None:
    """documents.csv, for spreadsheets and data frames; what is missing or infinite is an empty cell."""
    first = ("document", "reason", "tokens", "words", "bytes", "oov", "sentence_ends", "impossible", "nll_nats")
    bits, perplexities = ([f"{what}_per_{unit}" for unit in UNITS] for what in ("bits", "perplexity"))
    columns = (*first, *bits, *perplexities, "perplexity_per_token_without_oov")
    write_csv(folder / TABLE, [dict(figures_of(row)) for row in rows], columns)


# -- which tokens a figure counts -------------------------------------------------------------------------------------

UNITS = {"token": "tokens", "word": "words", "byte": "bytes"}
COUNTED_BY = UNITS | {"known_token": "known_tokens"}
LEFT_OUT = {"words": "ends", "known_tokens": "unknown"}
"""The kind of tokens that a figure per unit does not count."""

Totals = dict[str, float]
"""Sums of all blocks together."""


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


def figures(sums: Sums) -> Figures:
    total = totals(sums)
    known = Figures(
        tokens=int(total["tokens"]),
        words=int(total["words"]),
        bytes=int(total["bytes"]),
        impossible=int(total["impossible"]),
        nll_nats=None if total["impossible"] else total["nats"],
        oov=int(total["unknown"]) if "unknown" in total else None,
        sentence_ends=int(total["ends"]) if "ends" in total else None,
    )
    for name, unit in COUNTED_BY.items():
        part = counted(total, unit)
        if part is not None:
            bits, per = part.bits_per_unit, "token_without_oov" if name == "known_token" else name
            setattr(known, f"bits_per_{per}", _finite(bits))
            setattr(known, f"perplexity_per_{per}", _finite(perplexity_of(bits)))
    return known


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


# -- all of them ------------------------------------------------------------------------------------------------------


def judge(rows: Sequence[DocumentSums], *, skipped: Mapping[str, int]) -> PerplexitySummary:
    """The summary of a run; `skipped` counts texts that could not be read, by their reasons."""
    documents = [row.blocks for row in rows if row.blocks is not None]
    corpus = figures(together(documents)) if documents else None
    each = [totals(document) for document in documents]
    intervals = {name: bits_interval(each, unit) for name, unit in COUNTED_BY.items()}
    bounds = {name: Bounds(**ends(interval)) for name, interval in intervals.items() if interval is not None}
    reasons = Counter(row.reason for row in rows if row.reason is not None)
    reasons.update(skipped)
    return PerplexitySummary(
        study="perplexity",
        coverage=Coverage(len(documents) + sum(reasons.values()), len(documents), dict(sorted(reasons.items()))),
        headline=[Figure("bits per byte", None, "bits", meaning=BITS_MEANING)]
        if corpus is None
        else _headline(documents, corpus, intervals),
        notes=[] if corpus is None else _notes(corpus),
        corpus=corpus,
        intervals_bits=bounds or None,
        intervals_missing=of_these_only(len(documents)),
        documents=[figures_of(row) for row in rows[:MOST_LISTED]],
        documents_left_out=max(len(rows) - MOST_LISTED, 0),
    )


def bits_interval(documents: Sequence[Totals], unit: str) -> Interval | None:
    """Of the bits per token, word or byte.

    None for fewer than five documents, for documents that are all alike, and where something is impossible.
    """
    parts = [part for total in documents if (part := counted(total, unit)) is not None and part.units]
    if any(part.impossible for part in parts):
        return None
    nats = ratio_interval([part.nats for part in parts], [part.units for part in parts], level=LEVEL, least=0.0)
    return None if nats is None else in_bits(nats)


def in_bits(nats: Interval) -> Interval:
    return nats.scaled(1.0 / math.log(2.0))


def of_these_only(documents: int) -> str | None:
    """What the figures of so few documents are, and how many an interval takes; None where there are enough."""
    if not 0 < documents < LEAST_UNITS:
        return None
    which = "this text" if documents == 1 else f"these {documents} texts"
    return f"of {which} only; an interval takes {LEAST_UNITS} documents"


def _headline(documents: Sequence[Sums], corpus: Figures, intervals: Mapping[str, Interval | None]) -> list[Figure]:
    total = totals(together(documents))
    headline = []
    for name, value, unit in (
        ("bits per byte", corpus.bits_per_byte, "byte"),
        ("perplexity per word", corpus.perplexity_per_word, "word"),
        ("perplexity per token", corpus.perplexity_per_token, "token"),
        ("perplexity per token, without OOVs", corpus.perplexity_per_token_without_oov, "known_token"),
    ):
        part = counted(total, COUNTED_BY[unit])
        if part is None:
            continue
        bits = interval = intervals[unit]
        if unit != "byte" and bits is not None:
            interval = replace(bits, low=2.0**bits.low, high=2.0**bits.high) if bits.high < 1024 else None
        notes = []
        if value is None:
            notes.append(_why_missing(part))
        elif interval is None:
            why = ALL_ALIKE if bits is None else "no interval: its end is beyond floating point"
            notes.append(of_these_only(len(documents)) or why)
        if value is not None and corpus.oov and unit in ("byte", "word"):
            notes.append(f"too low: {corpus.oov:,} unknown word{'s' if corpus.oov > 1 else ''}")
        meaning = BITS_MEANING if unit == "byte" else PERPLEXITY_MEANING
        shown_unit = "bits" if unit == "byte" else ""
        headline.append(Figure.of(name, value, shown_unit, interval, "; ".join(notes) or None, meaning))
    return headline


def _why_missing(part: Counted) -> str:
    if not part.units:
        return "there are none"
    if part.impossible:
        return f"infinite: {part.impossible:,} token{'s' if part.impossible > 1 else ''} of probability zero"
    return "beyond floating point"


def _notes(corpus: Figures) -> list[str]:
    if corpus.impossible:
        return [
            f"{corpus.impossible:,} of {corpus.tokens:,} tokens have probability zero under this model, so its "
            "perplexity is infinite and left empty; a smoothed model gives everything some probability"
        ]
    if corpus.oov:
        return [
            f"{corpus.oov:,} of {corpus.tokens:,} tokens are words that the model does not know. It prices "
            "them all as <unk>, however they are spelled, so that its bits per word and per byte are too few"
        ]
    return []


# -- two models -------------------------------------------------------------------------------------------------------


class PerplexitySide(Fields, kw_only=True):
    """The figures of one model over the documents that both read."""

    run: str
    model: str | None
    coverage: Coverage
    tokens: int | None
    words: int | None
    bytes: int | None
    oov: int | None
    sentence_ends: int | None
    bits_per_byte: float | None
    perplexity_per_word: float | None
    perplexity_per_token: float | None


class PerplexityDifference(Fields, kw_only=True):
    """Bits per byte of B less those of A, and of how many documents B needs fewer.

    The interval is that of Σ (nats of B − nats of A) / Σ bytes over documents; none below five of them.
    """

    bits_per_byte: float | None = None
    low: float | None = None
    high: float | None = None
    level: float | None = None
    method: str | None = None
    approximate: bool | None = None
    note: str | None = None
    documents: int
    documents_b_needs_less: int | None = None


class DocumentDifference(Fields):
    document: str
    bits_per_byte_a: float | None
    bits_per_byte_b: float | None
    difference: float | None


class PerplexityComparison(Comparison, kw_only=True):
    a: PerplexitySide
    b: PerplexitySide
    difference: PerplexityDifference
    documents: list[DocumentDifference]
    notes: list[str]


BothRead = tuple[str, Sums, Sums]
"""A document, and its blocks in A and in B."""


def compare(run_a: Run, run_b: Run) -> PerplexityComparison:
    """Compare two finished runs over the same texts, from their folders."""
    a, b = _read_side(run_a), _read_side(run_b)
    if a.data.get("fingerprint") != b.data.get("fingerprint"):
        raise InputError(f"{a.run.path} and {b.run.path} are over different texts, and cannot be compared")
    rows = list(zip(document_rows(a.samples), document_rows(b.samples), strict=True))
    both = [(x.document, x.blocks, y.blocks) for x, y in rows if x.blocks is not None and y.blocks is not None]
    figures_a = figures(together([blocks for _, blocks, _ in both])) if both else Figures()
    figures_b = figures(together([blocks for *_, blocks in both])) if both else Figures()
    return PerplexityComparison(
        study="perplexity",
        a=_about(a, figures_a),
        b=_about(b, figures_b),
        difference=_difference(both),
        documents=[_of_document(*one) for one in both],
        notes=_comparison_notes(a, b, figures_a, figures_b, len(both), len(rows)),
    )


def _read_side(run: Run) -> Side[PerplexityRecord]:
    summary = read_summary(run.path, Summary)
    if run.status != "finished" or summary is None:
        raise InputError(f"{run.path} is not finished ({run.status}): run the command that made it again, then compare")
    return Side(run, summary, run.records(evidence=False, record=PerplexityRecord))


def _about(side: Side[PerplexityRecord], known: Figures) -> PerplexitySide:
    return PerplexitySide(
        run=str(side.run.path),
        model=side.model,
        coverage=side.summary.coverage,
        **{name: known[name] for name in PerplexitySide.__struct_fields__ if name in known},
    )


def _difference(both: Sequence[BothRead]) -> PerplexityDifference:
    difference = PerplexityDifference(documents=len(both))
    if not both or any(blocks["impossible"].any() for _, *pair in both for blocks in pair):
        return difference
    more = [float(b["nats"].sum() - a["nats"].sum()) for _, a, b in both]
    size = [float(a["bytes"].sum()) for _, a, _ in both]
    interval = ratio_interval(more, size, level=LEVEL)
    return PerplexityDifference(
        bits_per_byte=nats_to_bits(sum(more) / sum(size)),
        **ends(None if interval is None else in_bits(interval)),
        note=None if interval is not None else of_these_only(len(both)) or "no interval: all changed alike",
        documents=len(both),
        documents_b_needs_less=sum(nats < 0 for nats in more),
    )


def _of_document(document: str, a: Sums, b: Sums) -> DocumentDifference:
    first, second = figures(a).bits_per_byte, figures(b).bits_per_byte
    return DocumentDifference(document, first, second, None if first is None or second is None else second - first)


def _comparison_notes(a: Side, b: Side, figures_a: Figures, figures_b: Figures, paired: int, total: int) -> list[str]:
    notes = []
    models = [dict(side.run.manifest.identity.model) | {"name": None} for side in (a, b)]
    if models[0] == models[1]:  # whatever their files are called
        notes.append("both runs are of the same model")
    if paired < total:
        notes.append(f"{total - paired} of {total} documents were not read by both, and are left out")
    for name, known in (("A", figures_a), ("B", figures_b)):
        if known.oov:
            notes.append(f"{name} does not know {known.oov:,} words and does not have to spell them, which flatters it")
        if known.impossible:
            notes.append(
                f"{name} gives {known.impossible:,} tokens probability zero, so that no difference can be given"
            )
    if paired and (figures_a.sentence_ends is None) != (figures_b.sentence_ends is None):
        words, texts = ("A", "B") if figures_b.sentence_ends is None else ("B", "A")
        notes.append(f"perplexity per word is of words only in {words}, and pays for line ends too in {texts}")
    return notes
