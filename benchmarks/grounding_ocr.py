"""The model `ocr` on real screens: what reading takes, what matching takes, and how often it clicks the right place.

The matcher is set against what it grew out of: the text that is most like the whole instruction, and the text that is
most like its quoted words. All three choose among the same texts. The hits stand in the notes.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from benchmarks.harness import Case

DATA = Path(__file__).parents[2] / "shared" / "data" / "osworld_g"
SAMPLES = DATA / "osworld_g_refined_sample.json"

Chooser = Callable[[str, Any], tuple[float, float] | None]


def cases() -> list[Case]:
    if not SAMPLES.is_file():
        raise SystemExit(
            f"this benchmark reads {SAMPLES.name}, which is not there; put it into ../shared/data/osworld_g"
        )
    samples = [s for s in json.loads(SAMPLES.read_text()) if s["box_type"] == "bbox"]
    screens, seconds = _read({sample["image_path"] for sample in samples})
    contenders = {
        "the matcher": _matched,
        "the text most like the quoted words": _most_like_quotes,
        "the text most like the instruction": _most_like_all,
    }
    notes: dict[str, Any] = {
        "samples": len(samples),
        "images": len(screens),
        "median seconds to read an image": round(sorted(seconds)[len(seconds) // 2], 2),
        "slowest": round(max(seconds), 2),
    }
    for name, choose in contenders.items():
        points = _work(choose, samples, screens)()
        notes[f"hits of {name}"] = sum(_hits(sample, point) for sample, point in zip(samples, points, strict=True))
    return [Case("matching instructions", {n: _work(c, samples, screens) for n, c in contenders.items()}, notes)]


def _read(names: set[str]) -> tuple[dict[str, Any], list[float]]:
    from howsure.models.images import inspect_picture
    from howsure.models.ocr.reading import ScreenReader

    reader, screens, seconds = ScreenReader(), {}, []
    reader.load()
    for name in sorted(names):
        image = inspect_picture(DATA / "images" / name).load()
        began = time.perf_counter()
        screens[name] = reader.read(image)
        seconds.append(time.perf_counter() - began)
    return screens, seconds


def _work(choose: Chooser, samples: Sequence[dict[str, Any]], screens: dict[str, Any]) -> Callable[[], Any]:
    return lambda: [choose(sample["instruction"], screens[sample["image_path"]]) for sample in samples]


def _hits(sample: dict[str, Any], point: tuple[float, float] | None) -> bool:
    left, top, width, height = sample["box_coordinates"]
    return point is not None and left <= point[0] <= left + width and top <= point[1] <= top + height


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
