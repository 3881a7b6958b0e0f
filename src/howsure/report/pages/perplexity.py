"""Pages of perplexity: how many bits texts take, whether that figure settles, and what surprised the model."""

from __future__ import annotations

from typing import Any

import htpy as h
import numpy as np
from htpy import Element, Node

from howsure.evidence import TokenLogprobs
from howsure.report.rows import Column, key_of
from howsure.report.views import Card, Picks, Section
from howsure.report.run_data import Material
from howsure.report.html import facts, long_text, number, words
from howsure.report.pages.perplexity_blocks import Stretches, begin_bytes, stretches
from howsure.report.pages.perplexity_plots import by_block, by_document, by_unit, convergence
from howsure.report.views import as_written
from howsure.report.tokens import legend, readable_shades_of, shaded
from howsure.report.text import counted
from howsure.runs import Sample
from howsure.studies.perplexity.judge import figures
from howsure.studies.perplexity.record import joined

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

_COUNTS = ("tokens", "words", "bytes", "impossible")
_FIGURES = ("bits_per_byte", "bits_per_token", "perplexity_per_token", "perplexity_per_word")
_SAME_DOCUMENT = 2
"""Stretches of one document among those worth a look, where there are several documents."""
_NOT_KEPT = "The text of this passage was not kept."


def row(sample: Sample) -> dict[str, Any]:
    result = sample.result
    found: dict[str, Any] = {"document": result["document"], "part": result["part"], "_last": result["last"]}
    if sample.failed:
        return found
    blocks = result["blocks"]
    found |= {name: sum(blocks[name]) for name in _COUNTS}
    found |= {f"_{name}": tuple(blocks[name]) for name in ("nats", "bytes", "impossible")}
    known = figures(joined([{**blocks, "first": 0}]))
    return found | {"_first": blocks["first"]} | {name: known[name] for name in _FIGURES if known[name] is not None}


def sections(material: Material) -> list[Section]:
    summary = material.summary
    found = [by_document(summary)] if summary else []
    found.append(convergence(material.table))
    if summary:
        found.append(by_unit(summary))
    return [one for one in found if one is not None]


# -- stretches worth a look -------------------------------------------------------------------------------------------


def picks(material: Material, most: int) -> Picks | None:
    found = stretches(material.table)
    bits = found.bits_per_byte
    most = min(most, max(len(bits) // 2, 1))
    hardest = np.lexsort((found.begin_byte, -found.impossible / found.bytes, -bits))
    easiest = np.lexsort((found.begin_byte, bits))
    easiest = easiest[np.isfinite(bits[easiest])]
    hard = _chosen(hardest, found, material, most)
    easy = _chosen(easiest[~np.isin(easiest, hard)], found, material, most)  # no stretch is both
    cards = [[_card(material, found, place) for place in side] for side in (hard, easy)]
    return Picks(
        cards[0],
        cards[1],
        surely_words="The stretches that took the most bits: here the model expected something else.",
        doubtfully_words="The stretches that took the fewest bits: what the model knows by heart, or what repeats.",
        titles=("Most surprising", "Least surprising"),
        nothing="No text was read.",
        lead="A text has no right and wrong. These are the stretches that the model was least and best prepared for, "
        "in bits per byte, each with how it begins.",
    )


def _chosen(order: Any, found: Stretches, material: Material, most: int) -> list[int]:
    """The first of an order, not all of them from one document where there are others."""
    index = material.table.numbers("_index")[found.row]
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


def _card(material: Material, found: Stretches, place: int) -> Card:
    at = int(found.row[place])
    sample = material.sample(at)
    impossible = int(found.impossible[place])
    bits = float(found.bits_per_byte[place])
    verdict = f"{counted(impossible, 'token')} of probability 0" if impossible else f"{bits:.2f} bits per byte"
    body: list[Node] = [
        _excerpt(sample, int(found.place[place]), int(found.bytes[place])),
        h.p(class_="quiet")[_where(float(found.begin_byte[place]), int(found.bytes[place]))],
    ]
    return Card(material.table.keys[at], _file_name(sample.result["document"]), verdict, None, body)


def _where(begin: float, count: int) -> str:
    if np.isnan(begin):
        return f"{count:,} bytes, after a passage that is missing"
    return f"bytes {int(begin):,} to {int(begin) + count:,}"


def _excerpt(sample: Sample, place: int, byte_count: int) -> Element:
    kept = sample.evidence.get("excerpts")
    if not kept:
        return h.p(class_="quiet")[_NOT_KEPT]
    more = " …" if len(kept[place].encode("utf-8", "replace")) < byte_count else ""
    return h.p(class_="said", dir="auto")[f"{words(kept[place].strip(), 200)}{more}"]


def _file_name(document: str) -> str:
    """The end of a path, which tells files apart better than its beginning."""
    return document if len(document) <= 60 else f"…{document[-59:]}"


# -- the page of a passage --------------------------------------------------------------------------------------------


def about(sample: Sample, material: Material) -> list[Section]:
    begin = _begin(sample, material)
    found = [Section("The passage", "", _figures(sample, begin))]
    if sample.failed:
        why = f"Missing because: {words(sample.reason)}."
        return [*found, Section("Not read", why, long_text(sample.detail or "")), as_written(sample)]
    return [*found, _tokens(sample), by_block(sample.result["blocks"], begin), as_written(sample)]


def _begin(sample: Sample, material: Material) -> int | None:
    """The byte of the document at which the passage begins; None where a passage before it is missing."""
    place = material.table.row_of(key_of(sample.id))
    begin = np.nan if place is None else begin_bytes(material.table)[place]
    return int(begin) if np.isfinite(begin) else None


def _figures(sample: Sample, begin: int | None) -> Element:
    known = row(sample)
    count = known.get("bytes")
    return facts(
        {
            "document": words(known["document"], 300),
            "part": known["part"],
            "bytes": None if count is None or begin is None else f"{begin:,} to {begin + count:,}",
            **{name: known.get(name) for name in ("tokens", "words")},
            "impossible tokens": known.get("impossible") or None,
            "bits per byte": _shown(known, "bits_per_byte", 4),
            "bits per token": _shown(known, "bits_per_token", 4),
            "perplexity per word": _shown(known, "perplexity_per_word", 1),
            "perplexity per token": _shown(known, "perplexity_per_token", 1),
        }
    )


def _shown(known: dict[str, Any], name: str, digits: int) -> str | None:
    if "bytes" not in known:
        return None
    if name not in known and known["impossible"]:
        return "infinite: something had probability 0"
    return number(known.get(name), digits)


def _tokens(sample: Sample) -> Section:
    title = "How it begins, token by token"
    kept = sample.evidence.get("beginning")
    if not kept:
        return Section(title, "", h.p(class_="quiet")[_NOT_KEPT])
    found = TokenLogprobs.from_dict(kept)
    total = sum(sample.result["blocks"]["tokens"])
    shown = f"The first {len(found):,} of {total:,} tokens. " if len(found) < total else ""
    return Section(
        title,
        f"{shown}The redder, the more surprising; point at a token, or walk along with the arrow keys, for its "
        "probability given everything before it.",
        [legend(), shaded(readable_shades_of(found), words(sample.result["document"], 60))],
    )
