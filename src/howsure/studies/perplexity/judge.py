"""The verdict on a perplexity run: figures for each document and for all of them, a pure function of the samples."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from howsure.measures import Interval, ratio_interval
from howsure.measures.intervals import LEAST_UNITS
from howsure.runs import Sample
from howsure.studies.perplexity.sums import Counted, Sums, Totals, counted, joined, perplexity_of, together, totals
from howsure.studies.summary import Coverage, Figure, summary
from howsure.studies.sureness import LEVEL, ends

UNITS = {"token": "tokens", "word": "words", "byte": "bytes"}
KNOWN = {"known_token": "known_tokens"}
HEADLINE = (
    ("bits per byte", "bits_per_byte", "byte"),
    ("perplexity per word", "perplexity_per_word", "word"),
    ("perplexity per token", "perplexity_per_token", "token"),
    ("perplexity per token, without OOVs", "perplexity_per_token_without_oov", "known_token"),
)
"""What a figure is called, the field of `corpus` that holds it, and whose interval it has."""

ALL_ALIKE = "no interval: the documents are all alike"
MOST_LISTED = 1000

Row = dict[str, Any]


# -- documents ---------------------------------------------------------------------------------------------------


def document_rows(samples: Sequence[Sample]) -> list[Row]:
    """One row for each document: its sums by block, or the reason why it has none."""
    in_order = sorted(samples, key=lambda sample: (sample.index, sample.result["part"]))
    return [_document(list(parts)) for _, parts in groupby(in_order, key=lambda sample: sample.index)]


def _document(parts: Sequence[Sample]) -> Row:
    name = parts[0].result["document"]
    failed = next((part for part in parts if part.failed), None)
    if failed is None and not parts[-1].result["last"]:
        return {"document": name, "reason": "unfinished", "detail": "its last passage has not been read"}
    if failed is not None:
        return {"document": name, "reason": failed.reason, "detail": failed.detail}
    return {"document": name, "reason": None, "blocks": joined(part.result["blocks"] for part in parts)}


def figures(sums: Sums) -> dict[str, Any]:
    """Counts, cross-entropies and perplexities of some blocks; what is infinite is None, and `impossible` says why."""
    total = totals(sums)
    found: dict[str, Any] = {name: int(total[name]) for name in (*UNITS.values(), "impossible")}
    found["nll_nats"] = None if found["impossible"] else total["nats"]
    for name, kind in (("oov", "unknown"), ("sentence_ends", "ends")):
        found[name] = int(total[kind]) if kind in total else None
    for name, unit in (UNITS | KNOWN).items():
        part = counted(total, unit)
        if part is not None:
            bits, per = part.bits_per_unit, "per_token_without_oov" if name in KNOWN else f"per_{name}"
            found |= {f"bits_{per}": _finite(bits), f"perplexity_{per}": _finite(perplexity_of(bits))}
    return found


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


# -- all of them --------------------------------------------------------------------------------------------------


def judge(rows: Sequence[Row], *, skipped: Mapping[str, int]) -> dict[str, Any]:
    """The summary of a run."""
    documents = [row["blocks"] for row in rows if row["reason"] is None]
    corpus = figures(together(documents)) if documents else None
    each = [totals(document) for document in documents]
    intervals = {name: bits_interval(each, unit) for name, unit in (UNITS | KNOWN).items()}
    return summary(
        "perplexity",
        coverage(rows, skipped),
        _headline(documents, corpus, intervals),
        _notes(corpus),
        corpus=corpus,
        intervals_bits={name: ends(interval) for name, interval in intervals.items() if interval is not None} or None,
        intervals_missing=of_these_only(len(documents)),
        documents=[_listed(row) for row in rows[:MOST_LISTED]],
        documents_left_out=max(len(rows) - MOST_LISTED, 0),
    )


def bits_interval(documents: Sequence[Totals], unit: str) -> Interval | None:
    """Of the bits per token, word or byte, over documents: what stands in one of them hangs together.

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


def coverage(rows: Sequence[Row], skipped: Mapping[str, int]) -> Coverage:
    reasons = Counter(row["reason"] for row in rows if row["reason"] is not None)
    reasons.update(skipped)
    scored = sum(row["reason"] is None for row in rows)
    return Coverage(scored + sum(reasons.values()), scored, dict(sorted(reasons.items())))


def _listed(row: Row) -> Row:
    if row["reason"] is not None:
        return {"document": row["document"], "reason": row["reason"], "detail": row["detail"]}
    return {"document": row["document"], "reason": None, **figures(row["blocks"])}


def _headline(
    documents: Sequence[Sums], corpus: dict[str, Any] | None, intervals: Mapping[str, Interval | None]
) -> list[Figure]:
    if corpus is None:
        return [Figure("bits per byte", None, "bits")]
    total = totals(together(documents))
    found = []
    for name, field, unit in HEADLINE:
        part = counted(total, (UNITS | KNOWN)[unit])
        if part is None:
            continue
        of_bits = field.startswith("bits")
        interval = intervals[unit] if of_bits else _of_perplexity(intervals[unit])
        notes = []
        if corpus[field] is None:
            notes.append(_why_missing(part))
        elif interval is None:
            notes.append(of_these_only(len(documents)) or _why_no_interval(intervals[unit]))
        if corpus[field] is not None and corpus["oov"] and unit in ("byte", "word"):
            notes.append(f"too low: {corpus['oov']:,} unknown word{'s' if corpus['oov'] > 1 else ''}")
        found.append(Figure.of(name, corpus[field], "bits" if of_bits else "", interval, "; ".join(notes) or None))
    return found


def _of_perplexity(bits: Interval | None) -> Interval | None:
    """2 to the power of both ends; None where that is beyond floating point."""
    if bits is None or bits.high >= 1024:
        return None
    return replace(bits, low=2.0**bits.low, high=2.0**bits.high)


def _why_missing(part: Counted) -> str:
    if not part.units:
        return "there are none"
    if part.impossible:
        return f"infinite: {part.impossible:,} token{'s' if part.impossible > 1 else ''} of probability zero"
    return "beyond floating point"


def _why_no_interval(bits: Interval | None) -> str:
    """Of a perplexity over enough documents."""
    return ALL_ALIKE if bits is None else "no interval: its end is beyond floating point"


def _notes(corpus: dict[str, Any] | None) -> list[str]:
    if corpus is None:
        return []
    found = []
    if corpus["impossible"]:
        found.append(
            f"{corpus['impossible']:,} of {corpus['tokens']:,} tokens have probability zero under this model, so its "
            "perplexity is infinite and left empty; a smoothed model gives everything some probability"
        )
    elif corpus["oov"]:
        found.append(
            f"{corpus['oov']:,} of {corpus['tokens']:,} tokens are words that the model does not know. It prices "
            "them all as <unk>, however they are spelled, so that its bits per word and per byte are too few"
        )
    return found
