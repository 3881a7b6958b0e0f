"""Inspecting images in processes whose time and memory are limited, against decoding them in this process.

Both read every file, decode it whole and hash it, four at a time. The processes are started once and used again, which
the first round pays for and the others show.
"""

from __future__ import annotations

import hashlib
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.harness import Case

IMAGES = 200
SHAPES = {"small JPEGs": (320, 240), "photos": (1280, 960)}


def cases() -> list[Case]:
    return [_case(name, *size) for name, size in SHAPES.items()]


def _case(name: str, width: int, height: int) -> Case:
    import numpy as np
    from PIL import Image, ImageFilter

    from howsure.models import images

    folder = Path(tempfile.mkdtemp(prefix="howsure-images-"))
    rng = np.random.default_rng(0)
    paths = [str(folder / f"{i}.jpg") for i in range(IMAGES)]
    for path in paths:
        noise = Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8))
        noise.filter(ImageFilter.GaussianBlur(2)).save(path, quality=85)
    assert images.inspect_pictures(paths) == _decoded_here(paths), "the contenders see different images"
    contenders = {
        "in processes with limits": lambda: images.inspect_pictures(paths),
        "in this process": lambda: _decoded_here(paths),
        "in new processes with limits": lambda: (images._shown_size.stop(), images.inspect_pictures(paths)),
    }
    notes = {
        "images": IMAGES,
        "pixels": f"{width}×{height}",
        "bytes of all": sum(Path(p).stat().st_size for p in paths),
    }
    return Case(f"inspecting images, {name}", contenders, notes)


def _decoded_here(paths: list[str]) -> dict[str, Any]:
    from howsure.models import images
    from howsure.models.decoding import decode

    def inspect(path: str) -> images.Picture:
        content = Path(path).read_bytes()
        return images.Picture(path, *decode(content, path).size, hashlib.sha256(content).hexdigest())

    with ThreadPoolExecutor(images.READERS) as pool:
        return dict(zip(paths, pool.map(inspect, paths), strict=True))
