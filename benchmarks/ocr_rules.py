"""`python -m benchmarks.ocr_rules [WORD …]`: what each rule of `ocr` is good for.

Each rule (all, or those whose names hold a word) is switched off by itself, on the screens that the rules were written
on and on others: how many hits it brings, how many it costs, and how well confidence ranks hits without it (AUROC).
Images are read once, in some minutes; a rule then takes seconds. A rule that brings nothing, or something on the first
set only, does not belong there.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import Any
from unittest import mock

from benchmarks.grounding_ocr import Data, data, hits
from howsure.measures import auroc
from howsure.models.ocr import Meaning, cells, instruction, matcher, names, reading, screen

NEVER = re.compile(r"(?!)")
Patch = tuple[Any, str, Any]
Clicks = list[tuple[bool, float]]


def _without_marker(marker: str) -> Patch:
    kept = [rf"(?P<{name}>\b(?:{p})\b)" for name, p in instruction.MARKERS.items() if name != marker]
    return instruction, "MARKER", re.compile("|".join(kept), re.I)


def _without_word(owner: Any, attribute: str, word: str) -> Patch:
    return owner, attribute, {key: value for key, value in getattr(owner, attribute).items() if key != word}


RULES: dict[str, Patch] = {
    "wrong letters are forgiven": (names, "FORGIVEN", 0.0),
    "a name inside a word fits less": (names, "_border", lambda text, at: True),
    "signs that were read as texts": (names, "as_sign", lambda text: None),
    "one row may hold several things": (screen, "WIDE_GAP", 99.0),
    "drawn marks": (reading, "find_marks", lambda pixels, texts, line_height: []),
    "marks: long lines are cut out": (reading, "LONG_LINES", 99.0),
    "marks: rims of fields": (reading, "_is_frame", lambda box, area, line_height: False),
    "marks: plus": (reading, "_is_plus", lambda grid: False),
    "marks: cross": (reading, "_is_cross", lambda grid: False),
    "cells of a sheet": (matcher, "cell_name", lambda asked: None),
    "cells: by their names": (cells, "_CELL", NEVER),
    "cells: by column and row": (cells, "_COLUMN", NEVER),
    "drawn signs": (matcher._Matcher, "signs", lambda self: []),
    "maximise and minimise": (matcher._Matcher, "_before", lambda self, box: None),
    "marks beside an anchor": (matcher._Matcher, "beside_anchor", lambda self: []),
    "what has no text stands beside its label": (instruction, "_beside_its_label", lambda wish: wish),
    "a label is not the thing": (matcher, "LABEL_FIT", 1.0),
    "texts that mean the same": (matcher._Matcher, "meant", lambda self, likeness: []),
    "a guess by the place": (matcher._Matcher, "guessed", lambda self: []),
    "rough places": (matcher, "PLACE_WEIGHT", 0.0),
    "anchors around the target": (matcher, "NEAR_WEIGHT", 0.0),
    "anchors beside the target": (matcher, "SIDE_WEIGHT", 0.0),
    "several places of an anchor": (matcher, "MOST_PIECES", 1),
    "rivals take certainty away": (matcher, "SHARPNESS", 1e-3),
    "several clauses": (instruction, "CLAUSE_END", re.compile(r"\n")),
    "what is typed is not clicked": (instruction, "INTO", NEVER),
    "increasing and decreasing": (instruction, "STEPS", {}),
    "one end of a text": (instruction, "EDGE", NEVER),
    "names with capitals": (instruction, "NAMED_RUN", NEVER),
    "words that say nothing": (instruction, "PLAIN", frozenset()),
    "names without quotes count less": (instruction, "UNSURE", 0.999),
    **{f"kind: {kind}": _without_word(instruction, "KINDS", kind) for kind in instruction.KINDS},
    **{f"sign: {sign}": _without_word(instruction, "SIGNS", sign) for sign in instruction.SIGNS},
    **{f"phrase: {marker}": _without_marker(marker) for marker in instruction.MARKERS},
}


def main(words: Sequence[str]) -> None:
    reader, meaning, seen = reading.ScreenReader(), Meaning(), dict[bytes, Any]()
    engine = reader.engine

    def remembered(pixels: Any, **options: Any) -> Any:
        key = pixels.tobytes()
        if key not in seen:
            seen[key] = engine(pixels, **options)
        return seen[key]

    reader.__dict__["engine"] = remembered
    likeness = lru_cache(maxsize=None)(meaning.likeness)
    sets = list(data())
    as_read = [_read(one, reader) for one in sets]
    full = [_clicks(one, screens, likeness) for one, screens in zip(sets, as_read, strict=True)]
    print("| rule | " + " | ".join(f"{one.name} | AUROC" for one in sets) + " |")
    print("|---" * (1 + 2 * len(sets)) + "|")
    print("| all | " + " | ".join(f"{_right(clicks)} of {len(clicks)} | {_ranks(clicks)}" for clicks in full) + " |")
    for rule, patch in RULES.items():
        if words and not any(word in rule for word in words):
            continue
        parts = []
        with mock.patch.object(*patch):
            for i, one in enumerate(sets):
                screens = _read(one, reader) if patch[0] in (reading, screen) else as_read[i]
                clicks = _clicks(one, screens, likeness)
                parts.append(f"{_brings(full[i], clicks)} | {_ranks(clicks)}")
        print(f"| {rule} | {' | '.join(parts)} |", flush=True)


def _read(one: Data, reader: reading.ScreenReader) -> dict[str, screen.Screen]:
    return {name: reader.read(image) for name, image in one.images.items()}


def _clicks(one: Data, screens: dict[str, screen.Screen], likeness: Any) -> Clicks:
    clicks = []
    for sample in one.samples:
        choice = matcher.choose(
            sample["instruction"], screens[sample["image_path"]], lambda phrase, texts: likeness(phrase, tuple(texts))
        )
        clicks.append((False, 0.0) if choice is None else (hits(sample, (choice.x, choice.y)), choice.confidence))
    return clicks


def _right(clicks: Clicks) -> int:
    return sum(hit for hit, _ in clicks)


def _brings(full: Clicks, without: Clicks) -> str:
    won = sum(a and not b for (a, _), (b, _) in zip(full, without, strict=True))
    lost = sum(b and not a for (a, _), (b, _) in zip(full, without, strict=True))
    return f"+{won} −{lost}"


def _ranks(clicks: Clicks) -> str:
    return f"{auroc([confidence for _, confidence in clicks], [hit for hit, _ in clicks]):.2f}"


if __name__ == "__main__":
    main(sys.argv[1:])
