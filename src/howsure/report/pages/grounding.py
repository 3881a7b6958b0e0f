"""Pages of grounding: where clicks went, how far off, and whether the model knew."""

from __future__ import annotations

import sys
from typing import Any

import htpy as h
import numpy as np

from howsure.report.rows import Column
from howsure.report.views import Card, Picks, Section
from howsure.report.pages.grounding_about import about
from howsure.report.pages.grounding_plots import (
    by_label,
    does_it_know,
    farthest_rows,
    figures,
    how_far,
)
from howsure.report.pages.grounding_screen import screen
from howsure.report.pages.grounding_words import KIND_WORDS, came_of_it, sure
from howsure.report.run_data import Material
from howsure.report.html import card, long_text, words
from howsure.report.pictures import left_out
from howsure.report.sureness import extremes
from howsure.runs import Sample
from howsure.studies.grounding.record import DISTANCES, LABELS

__all__ = ["COLUMNS", "about", "picks", "row", "sections"]

FARTHEST_SHOWN = 6

COLUMNS = (
    Column("instruction", "instruction", "text", help="What was to be clicked, as the model was told."),
    Column(
        "hit",
        "hit",
        "flag",
        help="Inside of a box or polygon, within δ of a point, or a refusal where there is nothing to click.",
    ),
    Column("l2", "distance", "number", "of 1000", 1, "From the middle of the target, in thousandths of the screen."),
    Column("within_delta", "within δ", "flag", help="Whether the distance is at most δ."),
    Column("inside", "inside", "flag", help="Whether the click lies in the target's box or polygon."),
    Column("says", "answer is", "word", help="A point, a refusal, or in a wrong format: nothing could be read in it."),
    Column("why_not", "unreadable because", "word", help="Why no place could be read in the answer."),
    *(
        Column(
            kind,
            kind.replace("_", " "),
            "number",
            "of 1000" if kind in DISTANCES else "",
            3,
            f"{meaning}."[:1].upper() + f"{meaning}."[1:],
        )
        for kind, meaning in KIND_WORDS.items()
    ),
    *(Column(kind, kind, "word") for kind in LABELS),
    Column("size", "screen", "word", "px", help="Width and height of the screen."),
    Column("pred_content", "names", "text", help="What the model says that it clicks, or what it read there."),
)


def row(sample: Sample) -> dict[str, Any]:
    result = sample.result
    names = ("instruction", "hit", "l2", "within_delta", "inside", "says", "why_not", "pred_content")
    found = {name: result.get(name) for name in names}
    labels, sureness = result.get("labels") or {}, result.get("confidence") or {}
    found |= {kind: ", ".join(labels[kind]) for kind in LABELS if labels.get(kind)}
    found |= {kind: sureness.get(kind) for kind in KIND_WORDS}
    size, digest = result.get("image_size"), result.get("image_sha256")
    return found | {
        "size": f"{size[0]} × {size[1]}" if size else None,
        "_digest": sys.intern(digest) if isinstance(digest, str) else None,
        "_nothing": result["target"]["kind"] == "refusal",
    }


def main_kind(material: Material) -> str | None:
    """The first kind of confidence that any answer of the run has."""
    return next((kind for kind in KIND_WORDS if np.isfinite(material.table.numbers(kind)).any()), None)


# -- plots ------------------------------------------------------------------------------------------------------------


def sections(material: Material) -> list[Section]:
    summary = material.summary
    found = [how_far(material)]
    if summary:
        found += [figures(summary), *by_label(summary), *does_it_know(summary)]
    if main_kind(material) is not None:
        found.append(_farthest(material))
    return found


def _farthest(material: Material) -> Section:
    cards = [_card(material, place, None) for place in farthest_rows(material.table, FARTHEST_SHOWN)]
    lead = f"The misses with the largest distances. {_marks_words()} {left_out(material, '_digest')}"
    body = h.div(class_="gallery")[[card(one, material.links) for one in cards]]
    return Section("Farthest off", lead.strip(), body if cards else h.p(class_="quiet")["No click missed its target."])


def _marks_words() -> str:
    return (
        "Blue is where the click belongs, the orange ring where it went; how far off is measured from the middle of "
        "the target, in thousandths of the screen."
    )


# -- samples worth a look ---------------------------------------------------------------------------------------------


def picks(material: Material, most: int) -> Picks | None:
    kind = main_kind(material)
    if kind is None:
        return _by_distance(material, most)
    surer = material.table.numbers(kind) * (-1.0 if kind in DISTANCES else 1.0)
    sides = extremes(surer, material.table.numbers("hit"), most)
    wrong, right = ([_card(material, place, kind) for place in side] for side in sides)
    return Picks(
        wrong,
        right,
        f"Misses, the surest first. How sure it was, by {kind.replace('_', ' ')}: {KIND_WORDS[kind]}. {_marks_words()}",
        "Hits, the least sure first: these would be lost by asking again whenever the model is unsure.",
    )


def _by_distance(material: Material, most: int) -> Picks:
    """For a model that told no confidence: what distance alone can say."""
    table = material.table
    off, hit = table.numbers("l2"), table.numbers("hit")
    near = np.flatnonzero(np.isfinite(off) & (hit == 1))
    barely = near[np.argsort(-off[near], kind="stable")][:most].tolist()
    wrong, right = ([_card(material, place, None) for place in side] for side in (farthest_rows(table, most), barely))
    return Picks(
        wrong,
        right,
        f"Misses, the farthest off first. {_marks_words()} {left_out(material, '_digest')}".strip(),
        "Hits, the farthest from the middle of their target first: a little more, and they would be misses.",
        ("Farthest off", "Barely hit"),
        "No answer has a distance.",
        "The model gave no confidence, so that nobody can say how sure it was: these are chosen by distance alone.",
    )


def _card(material: Material, place: int, kind: str | None) -> Card:
    sample = material.sample(place)
    known = None if kind is None else sample.result["confidence"][kind]
    before = "" if known is None or kind is None else f"{sure(known, kind)}, "
    body = [long_text(sample.result["instruction"]), screen(sample, material)]
    return Card(
        material.table.keys[place], words(sample.id), f"{before}{came_of_it(sample)}", bool(sample.result["hit"]), body
    )
