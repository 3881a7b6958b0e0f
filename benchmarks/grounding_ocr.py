"""The model `ocr` on screens: what reading takes, what matching takes, and how often it clicks the right place.

The matcher is set against two simple choosers: the text that is most like the whole instruction, and the text that is
most like its quoted words. All three choose among the same texts, on the boxes of OSWorld-G's sample where it is at
hand and on the screens drawn here (`drawn_screens`). The hits stand in the notes.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.drawn_screens import HELD_OUT, draw
from benchmarks.harness import Case

SHARED = Path(__file__).parents[2] / "shared" / "data" / "osworld_g"

Chooser = Callable[[str, Any], tuple[float, float] | None]


class Data(NamedTuple):
    """Samples, and the pixels of the images that they are about."""

    name: str
    samples: Sequence[dict[str, Any]]
    images: dict[str, Any]


def data() -> Iterator[Data]:
    """The sets that are at hand."""
    if SHARED.is_dir():
        samples = json.loads((SHARED / "osworld_g_refined_sample.json").read_text())
        yield _data("OSWorld-G", [sample for sample in samples if sample["box_type"] == "bbox"], SHARED / "images")
    with tempfile.TemporaryDirectory() as folder:
        samples = draw(Path(folder))
        held = [sample for sample in samples if sample["image_path"].removesuffix(".png") in HELD_OUT]
        yield _data("drawn", [sample for sample in samples if sample not in held], Path(folder) / "images")
        yield _data("drawn, held out", held, Path(folder) / "images")


def _data(name: str, samples: Sequence[dict[str, Any]], images: Path) -> Data:
    from howsure.models.images import inspect_picture

    names = sorted({sample["image_path"] for sample in samples})
    return Data(name, samples, {image: inspect_picture(images / image).load() for image in names})


def hits(sample: dict[str, Any], point: tuple[float, float] | None) -> bool:
    left, top, width, height = sample["box_coordinates"]
    return point is not None and left <= point[0] <= left + width and top <= point[1] <= top + height


def cases() -> list[Case]:
    from howsure.models.ocr.reading import ScreenReader

    reader = ScreenReader()
    reader.load()
    contenders = {
        "the matcher": _matched,
        "the text most like the quoted words": _most_like_quotes,
        "the text most like the instruction": _most_like_all,
    }
    found = []
    for name, samples, images in data():
        screens, seconds = {}, []
        for image, pixels in images.items():
            began = time.perf_counter()
            screens[image] = reader.read(pixels)
            seconds.append(time.perf_counter() - began)
        notes: dict[str, Any] = {
            "samples": len(samples),
            "images": len(screens),
            "median seconds to read an image": round(sorted(seconds)[len(seconds) // 2], 2),
            "slowest": round(max(seconds), 2),
        }
        works = {contender: _work(choose, samples, screens) for contender, choose in contenders.items()}
        for contender, work in works.items():
            notes[f"hits of {contender}"] = sum(map(hits, samples, work()))
        found.append(Case(f"matching instructions, {name}", works, notes))
    return found


def _work(choose: Chooser, samples: Sequence[dict[str, Any]], screens: dict[str, Any]) -> Callable[[], Any]:
    return lambda: [choose(sample["instruction"], screens[sample["image_path"]]) for sample in samples]


def _matched(instruction: str, screen: Any) -> tuple[float, float] | None:
    from howsure.models.ocr.matcher import choose

    choice = choose(instruction, screen)
    return None if choice is None else (choice.x, choice.y)


def _most_like_all(instruction: str, screen: Any) -> tuple[float, float] | None:
    return _most_like([instruction], screen)


def _most_like_quotes(instruction: str, screen: Any) -> tuple[float, float] | None:
    quoted = [a or b for a, b in re.findall(r'"([^"]+)"|(?<!\w)\'([^\']+)\'(?!\w)', instruction)]
    return _most_like(quoted[:1] or [instruction], screen)


def _most_like(phrases: Sequence[str], screen: Any) -> tuple[float, float] | None:
    best, most = None, 0.0
    for text in screen.texts:
        for phrase in phrases:
            likeness = SequenceMatcher(None, phrase.lower(), text.words.lower(), autojunk=False).ratio()
            if likeness > most:
                best, most = text.box, likeness
    return None if best is None else (best.x, best.y)
