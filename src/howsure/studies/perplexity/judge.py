"""The verdict on a perplexity run: figures for each document and for all of them, a pure function of the samples."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from howsure.measures import Interval, bootstrap_ratios, nats_to_bits
from howsure.runs import Sample
from howsure.studies.perplexity.sums import Sums, bits_per, joined, known_only, perplexity_of, together, whole
from howsure.studies.summary import Coverage, Figure, summary

UNITS = {"token": "tokens", "word": "words", "byte": "bytes"}
LEVEL = 0.95
LEAST_DRAWN = 8
"""Fewer blocks than this say too little about their spread."""

ENOUGH_DOCUMENTS = 20
"""From so many on, documents are drawn whole; among fewer, blocks of them."""

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
    found: dict[str, Any] = {name: int(sums[name].sum()) for name in UNITS.values()}
    found |= {"impossible": int(sums["impossible"].sum()), "nll_nats": None, "oov": None}
    if not found["impossible"]:
        found["nll_nats"] = float(sums["nats"].sum())
    for name, unit in UNITS.items():
        bits = bits_per(sums, unit)
        found |= {f"bits_per_{name}": _finite(bits), f"perplexity_per_{name}": _finite(perplexity_of(bits))}
    if (known := known_only(sums)) is not None:
        bits = bits_per(known, "tokens")
        found["oov"] = int(sums["unknown"].sum())
        found |= {
            "bits_per_token_without_oov": _finite(bits),
            "perplexity_per_token_without_oov": _finite(perplexity_of(bits)),
        }
    return found


def intervals(sums: Sums, how: str, seed: int) -> dict[str, Any] | None:
    """Bootstrap intervals of the cross-entropies in bits; None where there is too little to draw from."""
    if len(sums["nats"]) < LEAST_DRAWN or sums["impossible"].sum():
        return None
    found = {}
    drawn = bootstrap_ratios(sums["nats"], [sums[unit] for unit in UNITS.values()], level=LEVEL, seed=seed)
    for name, interval in zip(UNITS, drawn, strict=True):
        if interval is not None:
            low, high = (float(nats_to_bits(end)) for end in (interval.low, interval.high))
            found[name] = {"low": low, "high": high, "level": LEVEL, "method": f"{interval.method} of {how}"}
    return found or None


# -- all of them --------------------------------------------------------------------------------------------------


def judge(rows: Sequence[Row], *, skipped: Mapping[str, int], seed: int) -> dict[str, Any]:
    """The summary of a run."""
    scored = [row for row in rows if row["reason"] is None]
    sums = together([row["blocks"] for row in scored])
    corpus = figures(sums) if scored else None
    drawn, how = drawn_units([row["blocks"] for row in scored])
    found = intervals(drawn, how, seed) if scored else None
    return summary(
        "perplexity",
        coverage(rows, skipped),
        _headline(corpus, found),
        _notes(corpus),
        corpus=corpus,
        intervals_bits=found,
        documents=[_listed(row, seed) for row in rows[:MOST_LISTED]],
        documents_left_out=max(len(rows) - MOST_LISTED, 0),
    )


def drawn_units(documents: Sequence[Sums]) -> tuple[Sums, str]:
    """What the bootstrap draws over several documents: documents where they are many, blocks where they are few."""
    if len(documents) >= ENOUGH_DOCUMENTS:
        return together([whole(sums) for sums in documents]), "documents"
    return together(documents), "blocks of text"


def coverage(rows: Sequence[Row], skipped: Mapping[str, int]) -> Coverage:
    reasons = Counter(row["reason"] for row in rows if row["reason"] is not None)
    reasons.update(skipped)
    scored = sum(row["reason"] is None for row in rows)
    return Coverage(scored + sum(reasons.values()), scored, dict(sorted(reasons.items())))


def _listed(row: Row, seed: int) -> Row:
    if row["reason"] is not None:
        return {"document": row["document"], "reason": row["reason"], "detail": row["detail"]}
    found = intervals(row["blocks"], "blocks of text", seed)
    return {"document": row["document"], "reason": None, **figures(row["blocks"]), "intervals_bits": found}


def _headline(corpus: dict[str, Any] | None, found: dict[str, Any] | None) -> list[Figure]:
    if corpus is None:
        return [Figure("bits per byte", None, "bits")]
    wanted = [_bits_figure(corpus, found), _perplexity_figure(corpus, found, "word")]
    wanted.append(_perplexity_figure(corpus, found, "token"))
    if corpus["oov"] is not None:
        value = corpus["perplexity_per_token_without_oov"]
        wanted.append(Figure("perplexity per token, without OOVs", value, ""))
    return wanted


def _bits_figure(corpus: dict[str, Any], found: dict[str, Any] | None) -> Figure:
    return Figure.of("bits per byte", corpus["bits_per_byte"], "bits", _interval(found, "byte"))


def _perplexity_figure(corpus: dict[str, Any], found: dict[str, Any] | None, unit: str) -> Figure:
    bits = _interval(found, unit)
    ends = None if bits is None else [perplexity_of(end) for end in (bits.low, bits.high)]
    interval = None
    if bits is not None and ends is not None and None not in ends and np.isfinite(ends).all():  # type: ignore[arg-type]
        interval = Interval(ends[0], ends[1], bits.level, bits.method)  # type: ignore[arg-type]
    return Figure.of(f"perplexity per {unit}", corpus[f"perplexity_per_{unit}"], "", interval)


def _interval(found: dict[str, Any] | None, unit: str) -> Interval | None:
    return None if found is None or unit not in found else Interval(**found[unit])


def _notes(corpus: dict[str, Any] | None) -> list[str]:
    if corpus is None:
        return []
    found = []
    if corpus["impossible"]:
        found.append(
            f"{corpus['impossible']:,} of {corpus['tokens']:,} tokens have probability zero under this model, so its "
            "perplexity is infinite and left empty; a smoothed model gives everything some probability"
        )
    if corpus["oov"]:
        found.append(
            f"{corpus['oov']:,} of {corpus['tokens']:,} tokens are words that the model does not know. It prices "
            "them all as <unk>, however they are spelled, so that its bits per word and per byte are too few"
        )
    return found


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
