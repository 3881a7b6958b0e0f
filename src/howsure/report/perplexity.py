"""Perplexity: how many bits texts take, whether that settles, what surprised the model, and two models compared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from howsure.evidence import TokenLogprobs
from howsure.report.charts import Axis, Chart, Named, dots, thinned
from howsure.report.comparison import Row, around_zero, what_changed
from howsure.report.document import (
    Block,
    Card,
    Cell,
    Document,
    Facts,
    Head,
    Html,
    Plot,
    Prose,
    Quoted,
    Section,
    Table,
    Value,
)
from howsure.report.html import number, words
from howsure.report.perplexity_blocks import Stretches, begin_bytes, by_block, longest, settling, stretches
from howsure.report.rows import Column, key_of
from howsure.report.run_data import RunData, StoredRun
from howsure.report.sureness import worth_a_look
from howsure.report.text import counted
from howsure.report.tokens import legend, readable_shades_of, shaded
from howsure.report.views import as_written
from howsure.runs import Sample
from howsure.studies.ngram import TrainedModel
from howsure.studies.perplexity.judge import (
    TABLE,
    DocumentFigures,
    PerplexityComparison,
    PerplexitySummary,
    figures,
)
from howsure.studies.perplexity.record import PerplexityRecord, joined

COLUMNS = (
    Column("document", "document", "text"),
    Column("part", "part", "number", digits=0, help="A long document is read in passages; this counts them from 0."),
    Column("bits_per_byte", "bits per byte", "number", help="The one figure by which any two models can be compared."),
    Column("bits_per_token", "bits per token", "number", help="What a token is, each model decides for itself."),
    Column("perplexity_per_word", "perplexity per word", "number", digits=1,
           help="As hard as choosing among so many equally likely words each time; ends of sentences (</s>) do not "
           "count."),
    Column("perplexity_per_token", "perplexity per token", "number", digits=1,
           help="As hard as choosing among so many equally likely tokens each time, ends of sentences (</s>) among "
           "them."),
    Column("tokens", "tokens", "number", digits=0),
    Column("words", "words", "number", digits=0),
    Column("bytes", "bytes", "number", digits=0),
    Column("impossible", "impossible tokens", "number", digits=0,
           help="Tokens of probability 0. With one of them, bits are infinite and left empty."),
)  # fmt: skip

MOST_CARDS = 5
MOST_DOCUMENTS = 4
"""Drawn block by block."""
MOST_POINTS = 500
SHORT_NAME = 28
_COUNTS = ("tokens", "words", "bytes", "impossible")
_FIGURES = ("bits_per_byte", "bits_per_token", "perplexity_per_token", "perplexity_per_word")
_SAME_DOCUMENT = 2
"""Stretches of one document among those worth a look, where there are several documents."""
_NOT_KEPT = "The text of this passage was not kept."
_PER_BYTE = "Compare models by bits per byte: what a token is, each model decides for itself."


def row(sample: Sample[PerplexityRecord]) -> dict[str, Any]:
    result = sample.result
    known: dict[str, Any] = {"document": result.document, "part": result.part, "_last": result.last}
    if sample.failed:
        return known
    blocks = result.sums
    known |= {name: sum(getattr(blocks, name)) for name in _COUNTS}
    known |= {f"_{name}": tuple(getattr(blocks, name)) for name in ("nats", "bytes", "impossible")}
    known["_first"] = blocks.first
    of_all = figures(joined([{**_columns(blocks), "first": 0}]))
    return known | {name: getattr(of_all, name) for name in _FIGURES if getattr(of_all, name) is not None}


def _columns(blocks: Any) -> dict[str, Any]:
    return {name: getattr(blocks, name) for name in blocks.__struct_fields__}


def short_name(document: str) -> str:
    """The end of a path, which tells files apart better than its beginning; safe to show, whatever it is called."""
    return words(document if len(document) <= SHORT_NAME else f"…{document[1 - SHORT_NAME :]}")


# -- a run ------------------------------------------------------------------------------------------------------------


def document(summary: PerplexitySummary | None, run: RunData | None) -> list[Section]:
    sections = [_by_unit(summary)] if summary else []
    sections += [_by_document(summary)] if summary and len(summary.documents) > 1 else []
    sections += [_worth_a_look(run), *_settling(run)] if run else []
    return [*sections, *(_failures(summary) if summary else [])]


def _by_unit(summary: PerplexitySummary) -> Section:
    """Per token, word and byte."""
    corpus, intervals = summary.corpus, summary.intervals_bits or {}
    title = "Per token, per word, per byte"
    if corpus is None:
        return Section(title, [Prose("No text could be read.", "warning")])
    per = [(f"per {unit}", getattr(corpus, f"{unit}s"), f"per_{unit}", unit) for unit in ("token", "word", "byte")]
    if corpus.oov is not None and corpus.tokens is not None:
        per.append(("per known token", corpus.tokens - corpus.oov, "per_token_without_oov", "known_token"))
    rows: list[tuple[Cell, ...]] = [
        (
            name,
            count,
            _bits(getattr(corpus, f"bits_{suffix}"), intervals.get(unit)),
            _four(corpus, f"perplexity_{suffix}"),
        )
        for name, count, suffix, unit in per
    ]
    told = [summary.intervals_missing] if summary.intervals_missing else []
    if corpus.sentence_ends:
        told.append(
            f"the {counted(corpus.sentence_ends, 'sentence end')} (</s>) count per token and byte, not per word"
        )
    heads: list[str | Head] = [
        "all texts",
        Head("count", numeric=True),
        "bits (95 % interval)" if intervals else "bits",
        Head("perplexity", numeric=True),
    ]
    return Section(
        title,
        [
            Table(heads, rows),
            *(Prose(f"{one[:1].upper()}{one[1:]}.", "quiet") for one in told),
            Prose(_PER_BYTE, "quiet"),
        ],
        "Bits are what one of them takes on average; perplexity is 2 to that power: as hard as choosing among so many "
        "equally likely ones each time.",
    )


def _bits(bits: float | None, bounds: Any) -> Value:
    """With the interval where there is one."""
    return (
        Value(bits, decimals=4)
        if bounds is None
        else Value(bits, "", bounds.low, bounds.high, bounds.approximate, decimals=4)
    )


def _four(entry: Any, name: str) -> str:
    return _number(getattr(entry, name))


def _number(value: float | None) -> str:
    """Four decimals where they say something, digits grouped; a dash for what is missing or infinite."""
    if value is None:
        return "—"
    return f"{value:,.4f}" if value < 100_000 else f"{value:.4g}"


def _by_document(summary: PerplexitySummary) -> Section:
    """The hardest first: those whose bytes take the most bits."""
    ranked = sorted(summary.documents, key=_hardness, reverse=True)
    whole = None if summary.corpus is None else summary.corpus.bits_per_byte
    drawn = dots(
        "Bits per byte by document",
        "The dot is what a byte of the document took on average; dashed: all documents together.",
        Axis("bits per byte", 0),
        [Named(short_name(one.document), Value(one.bits_per_byte), _of_document(one)) for one in ranked],
        level=None if whole is None else (whole, "all"),
    )
    rows = [
        (
            one.document,
            one.bytes,
            *(_four(one, name) for name in ("bits_per_byte", "perplexity_per_word", "perplexity_per_token")),
        )
        for one in ranked
        if one.reason is None
    ]
    numeric = (Head(name, numeric=True) for name in ("bytes", "bits per byte", "perplexity per word", "per token"))
    left_out = summary.documents_left_out
    of_those = f" of the first {len(ranked):,} documents; {left_out:,} more are in {TABLE}" if left_out else ""
    return Section(
        "Which texts surprise the model",
        [drawn, Table([Head("document", cut=True), *numeric], rows, more=f"in {TABLE}")],
        f"The hardest first{of_those}. Fewer bits: the model expected more of it.",
    )


def _hardness(one: DocumentFigures) -> float:
    if one.reason is not None:
        return -math.inf
    return math.inf if one.bits_per_byte is None else one.bits_per_byte


def _of_document(one: DocumentFigures) -> str:
    if one.reason is not None:
        return one.reason.replace("_", " ")
    return f"{one.impossible:,} impossible" if one.bits_per_byte is None else f"{one.bytes:,} bytes"


def _settling(run: RunData) -> list[Section]:
    """Does the figure settle as the text goes on? For the longest documents, as far as they were read."""
    known = [one for one in longest(run.table, MOST_DOCUMENTS) if np.count_nonzero(one.sums["bytes"]) > 1]
    if not known:
        return []
    documents = len({index for index in run.table.values("_index") if index is not None})
    which = f"The {counted(len(known), 'document')} with the most text. " if documents > len(known) else ""
    return [
        Section(
            "Does the figure settle?",
            [settling(one, short_name(one.name)) for one in known],
            f"{which}The longer a text, the less its average depends on where it ends: where the language keeps its "
            "habits, the line tends to one value, what the model needs for a byte of it in the long run. A line that "
            "still climbs or falls at its end says that more text would give another figure.",
        )
    ]


def _failures(summary: PerplexitySummary) -> list[Section]:
    failed = [one for one in summary.documents if one.reason is not None]
    rows = [(one.document, (one.reason or "").replace("_", " "), one.detail or "") for one in failed]
    table = Table(["document", "reason", "in particular"], rows, most=5, more=f"in {TABLE}")
    return [Section("Texts that could not be read", [table])] if failed else []


# -- stretches worth a look -------------------------------------------------------------------------------------------


def _worth_a_look(run: RunData) -> Section:
    known = stretches(run.table)
    bits = known.bits_per_byte
    most = min(MOST_CARDS, max(len(bits) // 2, 1))
    hardest = np.lexsort((known.begin_byte, -known.impossible / known.bytes, -bits))
    easiest = np.lexsort((known.begin_byte, bits))
    easiest = easiest[np.isfinite(bits[easiest])]
    hard = _chosen(hardest, known, run, most)
    easy = _chosen(easiest[~np.isin(easiest, hard)], known, run, most)  # no stretch is both
    return worth_a_look(
        [_card(run, known, place) for place in hard],
        [_card(run, known, place) for place in easy],
        "No text was read.",
        headers=["bits", "where"],
        titles=("Most surprising", "Least surprising"),
        leads=(
            "The stretches that took the most bits: here the model expected something else.",
            "The stretches that took the fewest bits: what the model knows by heart, or what repeats.",
        ),
        lead="A text has no right and wrong. These are the stretches that the model was least and best prepared for, "
        "in bits per byte, each with how it begins.",
    )


def _chosen(order: Any, known: Stretches, run: RunData, most: int) -> list[int]:
    """The first of an order, not all of them from one document where there are others."""
    index = run.table.numbers("_index")[known.row]
    several = len(np.unique(index)) > 1
    taken: dict[float, int] = {}
    chosen: list[int] = []
    for place in order.tolist():
        if len(chosen) == most:
            break
        seen = taken.get(index[place], 0)
        if not several or seen < _SAME_DOCUMENT:
            chosen.append(place)
            taken[index[place]] = seen + 1
    return chosen


def _card(run: RunData, known: Stretches, place: int) -> Card:
    at, count = int(known.row[place]), int(known.bytes[place])
    impossible, bits = int(known.impossible[place]), float(known.bits_per_byte[place])
    name = str(run.table.values("document")[at])
    verdict = f"{counted(impossible, 'token')} of probability 0" if impossible else f"{bits:.2f} bits per byte"
    where = _where(float(known.begin_byte[place]), count)

    def body() -> list[Block]:
        return [_excerpt(run.sample(at), int(known.place[place]), count), Prose(where, "quiet")]

    link = run.links.sample(run.table.keys[at])
    title = name if len(name) <= 60 else f"…{name[-59:]}"
    return Card(title, verdict, None, body, [verdict, where], {"": link} if link else {})


def _where(begin: float, count: int) -> str:
    if np.isnan(begin):
        return f"{count:,} bytes, after a passage that is missing"
    return f"bytes {int(begin):,} to {int(begin) + count:,}"


def _excerpt(sample: Sample[PerplexityRecord], place: int, byte_count: int) -> Block:
    kept = sample.evidence.get("excerpts")
    if not kept:
        return Prose(_NOT_KEPT, "quiet")
    more = " …" if len(kept[place].encode("utf-8", "replace")) < byte_count else ""
    return Quoted(f"{words(kept[place].strip(), 200)}{more}")


# -- a passage --------------------------------------------------------------------------------------------------------


def about(sample: Sample[PerplexityRecord], run: StoredRun) -> list[Section]:
    begin = _begin(sample, run)
    sections = [Section("The passage", [_facts(sample, begin)])]
    if sample.reason is not None:
        why = f"Missing because: {sample.reason.replace('_', ' ')}."
        return [*sections, Section("Not read", [Quoted(sample.detail or "")], why), as_written(sample)]
    blocks = Section(
        "Block by block",
        [by_block(joined([{**_columns(sample.result.sums), "first": 0}]), begin)],
        "A document is cut into at most 64 blocks of equal bytes; a passage holds some of them.",
    )
    return [*sections, _tokens(sample), blocks, as_written(sample)]


def _begin(sample: Sample[PerplexityRecord], run: StoredRun) -> int | None:
    """The byte of the document at which the passage begins; None where a passage before it is missing."""
    place = run.table.row_of(key_of(sample.id))
    begin = np.nan if place is None else begin_bytes(run.table)[place]
    return int(begin) if np.isfinite(begin) else None


def _facts(sample: Sample[PerplexityRecord], begin: int | None) -> Facts:
    known = row(sample)
    count = known.get("bytes")
    shown: list[tuple[str, Cell]] = [
        ("document", words(known["document"], 300)),
        ("part", known["part"]),
        ("bytes", None if count is None or begin is None else f"{begin:,} to {begin + count:,}"),
        ("tokens", known.get("tokens")),
        ("words", known.get("words")),
        ("impossible tokens", known.get("impossible") or None),
    ]
    if count is not None:
        infinite = "infinite: something had probability 0" if known["impossible"] else "—"
        digits = {name: 1 if name.startswith("perplexity") else 4 for name in _FIGURES}
        shown += [
            (name.replace("_", " "), number(known[name], digits[name]) if name in known else infinite)
            for name in _FIGURES
        ]
    return Facts(shown)


def _tokens(sample: Sample[PerplexityRecord]) -> Section:
    title, kept = "How it begins, token by token", sample.evidence.get("beginning")
    if not kept:
        return Section(title, [Prose(_NOT_KEPT, "quiet")])
    tokens, total = TokenLogprobs.from_dict(kept), sum(sample.result.sums.tokens)
    shown = f"The first {len(tokens):,} of {total:,} tokens. " if len(tokens) < total else ""
    return Section(
        title,
        [Html([legend(), shaded(readable_shades_of(tokens), words(sample.result.document, 60))])],
        f"{shown}The redder, the more surprising; point at a token, or walk along with the arrow keys, for its "
        "probability given everything before it.",
    )


# -- an n-gram model --------------------------------------------------------------------------------------------------


def trained(model: TrainedModel) -> Document:
    """A model that was just trained."""
    rows: list[tuple[Cell, ...]] = []
    for i, count in enumerate(model.ngrams):
        discounts = "—" if model.discounts is None else ", ".join(f"{value:.6g}" for value in model.discounts[i])
        rows.append((f"{i + 1}", count, discounts))
    told = (
        f"{model.smoothing}, order {model.order}: {model.words:,} words in {model.sentences:,} sentences, "
        f"{model.seconds:.1f} s"
    )
    table = Table(["n", "n-grams", "discounts for counts of 1, 2, 3 and more"], rows)
    return Document("ngram", sections=[Section("", [Prose(told), table, Prose(f"use it as --model {model.model}")])])


# -- two models -------------------------------------------------------------------------------------------------------


def compared(found: PerplexityComparison, a: StoredRun | None, b: StoredRun | None) -> list[Section]:
    difference = found.difference
    fewer, paired = difference.documents_b_needs_less, difference.documents
    told = [] if fewer is None else [f"B needs fewer bits for {fewer:,} of {counted(paired, 'document')}."]
    told += [f"B − A: {difference.note}."] if difference.note else []
    return [what_changed(_rows(found), [*told, _PER_BYTE]), *_differences(found)]


def _rows(found: PerplexityComparison) -> list[Row]:
    a, b = found.a, found.b
    change = Value.at(found.difference, "bits_per_byte", "bits", is_difference=True, note=None)
    return [
        ("bits per byte", _four(a, "bits_per_byte"), _four(b, "bits_per_byte"), change),
        *(
            (name.replace("_", " "), _four(a, name), _four(b, name), "")
            for name in ("perplexity_per_word", "perplexity_per_token")
        ),
        ("tokens", a.tokens, b.tokens, ""),
        ("coverage", a.coverage.text, b.coverage.text, f"{found.difference.documents:,} in both"),
    ]


def _differences(found: PerplexityComparison) -> list[Section]:
    whole = Value.at(found.difference, "bits_per_byte", "bits", is_difference=True)
    axis = Axis("B − A, bits per byte")
    caption = "The dot is B − A; left of “no change” B needs fewer bits: it is better."
    plots = [around_zero("All texts", caption, axis, [("all texts", whole)], "documents")]
    known = sorted(
        (one for one in found.documents if one.difference is not None), key=lambda one: -abs(one.difference or 0)
    )
    tables = []
    if len(known) > 1:
        left_out = len(found.documents) - len(known)
        of_all = f"{left_out:,} of {counted(len(found.documents), 'document')}"
        more = f" {of_all} are not drawn: A or B gives part of them probability 0." if left_out else ""
        each = [(short_name(one.document), Value(one.difference, "bits", is_difference=True)) for one in known]
        plots.append(around_zero("Document by document", f"The largest differences first.{more}", axis, each))
        rows = [
            (
                one.document,
                _number(one.bits_per_byte_a),
                _number(one.bits_per_byte_b),
                Value(one.difference, "bits", is_difference=True),
            )
            for one in known
        ]
        tables.append(Table([Head("document, largest difference first", cut=True), "A", "B", "bits per byte"], rows))
    if len(known) > 2:
        plots.append(_scatter(known))
    return [Section("How sure the difference is", [*(one for one in plots if one is not None), *tables])]


def _scatter(documents: Sequence[Any]) -> Plot:
    shown = [documents[place] for place in thinned(len(documents), MOST_POINTS)]
    some = f" {len(shown):,} of {len(documents):,} are drawn." if len(shown) < len(documents) else ""
    rows = [(short_name(one.document), one.bits_per_byte_a, one.bits_per_byte_b) for one in shown]
    first, second = [one[1] for one in rows], [one[2] for one in rows]
    high = max([*first, *second]) * 1.05 or 1.0
    chart = Chart("A against B", Axis("bits per byte of A", 0, high), Axis("bits per byte of B", 0, high)).diagonal()
    chart.points(first, second, tips=[f"{name}: {x:.3f} in A, {y:.3f} in B" for name, x, y in rows])
    caption = f"Each mark is a document; below the dashed line B needs fewer bits for it than A.{some}"
    return chart.figure(caption, ["document", "A", "B"], rows)
