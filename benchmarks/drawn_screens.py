"""Screens drawn here, with instructions for what is on them: grounding data that no rule of `ocr` was written on.

Each page of `screens` is HTML. An element that somebody may be asked to click says so in `data-ask` (several
instructions are parted by `|`), and where it stands is asked of the browser.

`python -m benchmarks.drawn_screens FOLDER` leaves images and samples in the form of OSWorld-G, which
`howsure grounding FOLDER` reads.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

PAGES = Path(__file__).parent / "screens"
WIDTH, HEIGHT = 1280, 720
HELD_OUT = ("booking", "chat", "desk", "paint")
"""Pages that were not looked at while the matcher was last changed, on 2026-11-19."""

BOXES = """() => [...document.querySelectorAll("[data-ask]")].flatMap(element => {
    const box = element.getBoundingClientRect();
    const [left, width] = element.dataset.end ? [box.right - 8, 16] : [box.left, box.width];
    return element.dataset.ask.split("|").map(ask => [ask, left, box.top, width, box.height]);
})"""
"""What is asked, and its box; with `data-end` the end of a text."""


def draw(folder: Path) -> list[dict[str, Any]]:
    """Images of all pages in `folder`, and the samples about them."""
    from playwright.sync_api import sync_playwright

    (folder / "images").mkdir(parents=True, exist_ok=True)
    samples: list[dict[str, Any]] = []
    style = (PAGES / "style.css").read_text()
    with sync_playwright() as playwright:
        path = os.environ.get("CHROMIUM") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        for source in sorted(PAGES.glob("*.html")):
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
            page.set_content(f"<!doctype html><meta charset=utf-8><style>{style}</style>{source.read_text()}")
            page.screenshot(path=folder / "images" / f"{source.stem}.png")
            samples += [_sample(source.stem, i, ask, box) for i, (ask, *box) in enumerate(page.evaluate(BOXES))]
        browser.close()
    (folder / "samples.json").write_text(json.dumps(samples, indent=1, ensure_ascii=False))
    return samples


def _sample(page: str, number: int, instruction: str, box: list[float]) -> dict[str, Any]:
    return {
        "id": f"{page}-{number}",
        "image_path": f"{page}.png",
        "image_size": [WIDTH, HEIGHT],
        "instruction": instruction,
        "box_type": "bbox",
        "box_coordinates": box,
        "GUI_types": [],
    }


if __name__ == "__main__":
    print(len(draw(Path(sys.argv[1]))), "samples")
