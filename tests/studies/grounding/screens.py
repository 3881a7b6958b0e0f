"""Small data of every form, with real little screens, for the readers to read."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

from PIL import Image

PROMPT = """Given a GUI image, what are the relative (0-1000) pixel point coordinates
for the element corresponding to the following instruction: {}

Think step-by-step, provide referring for the element first
and then the grounded point coordinates.

### Output (Example)
```referring
"left arrow"
```
```grounding
(100, 200)
```
"""


def screen(path: Path, size: tuple[int, int] = (200, 100), colour: str = "navy") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path, "PNG")
    return path


def answer(x: float = 311, y: float = 541, content: str = "파란색 더하기 버튼") -> str:
    return f"```referring\n{content}\n```\n```grounding\n[{x}, {y}]\n```"


def chat(image: Any = "a.png", instruction: str = "더하기를 눌러", said: Any = None, role: str = "system") -> list[Any]:
    """One sample as the document has it."""
    question = [{"type": "image", "image": image}, {"type": "text", "text": PROMPT.format(instruction)}]
    right = [{"type": "text", "text": answer() if said is None else said}]
    return [{"role": role, "content": question}, {"role": "assistant", "content": right}]


def write_pickle(path: Path, samples: Any, protocol: int | None = None) -> Path:
    path.write_bytes(pickle.dumps(samples, protocol))
    return path


def write_lines(path: Path, entries: list[Any]) -> Path:
    path.write_text("".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries), encoding="utf-8")
    return path


def write_array(path: Path, entries: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(entries, ensure_ascii=False, indent=1), encoding="utf-8")
    return path


def spot(bbox: list[float], image: str = "a.png", **more: Any) -> dict[str, Any]:
    """An entry of ScreenSpot."""
    return {"img_filename": image, "bbox": bbox, "instruction": "press", **more}


def flat(coords: list[float] | None = None, kind: str = "point", image: str = "a.png", **more: Any) -> dict[str, Any]:
    target = {"kind": kind, "coords": [500, 500] if coords is None else coords}
    return {"image": image, "instruction": "press", "target": target, **more}
