"""A run as a moving picture: the world as the model saw it, and under it the three entropies so far."""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from howsure.runs import Sample
from howsure.runs.files import write_atomic
from howsure.storage import read_regular
from howsure.studies.trust.prompts import CONDITIONS
from howsure.studies.trust.ratio import why_no_share

REPLAY = "replay.gif"
MILLISECONDS_A_STEP = 400
LAST_MILLISECONDS = 2000
MOST_FRAMES, MOST_FRAME_BYTES = 600, 32 << 20
LEAST_WIDTH, PLOT_HEIGHT, MARGIN = 420, 150, 34
COLOURS = {"X": (120, 120, 120), "X|S": (31, 110, 180), "X|L,S": (200, 60, 30)}


class Frame(NamedTuple):
    """A step and the file of the picture that belongs to it."""

    sample: Sample
    picture: Path


def write_replay(path: Path, frames: Sequence[Frame]) -> int:
    """An animated GIF of the steps, at most so many, and how many there were room for."""
    from PIL import Image

    from howsure.models.images import inspect_content

    shown = frames[:MOST_FRAMES]
    if not shown:
        return 0
    samples = [frame.sample for frame in shown]
    highest = max([1.0, *(bits for sample in samples for bits in _bits(sample) if bits is not None)])
    pages = []
    for place, frame in enumerate(shown):
        png = read_regular(frame.picture, MOST_FRAME_BYTES, within=path.parent)
        world = inspect_content(png, str(frame.picture)).load()
        page = Image.new("RGB", (max(world.width, LEAST_WIDTH), world.height + PLOT_HEIGHT), "white")
        page.paste(world, ((page.width - world.width) // 2, 0))
        page.paste(_plot(_of_episode(samples, place), highest, page.width), (0, world.height))
        pages.append(page.quantize(128, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE))
    content = io.BytesIO()
    durations = [MILLISECONDS_A_STEP] * (len(pages) - 1) + [LAST_MILLISECONDS]
    pages[0].save(content, "GIF", save_all=True, append_images=pages[1:], duration=durations, loop=0)
    write_atomic(path, content.getvalue())
    return len(pages)


def _of_episode(samples: Sequence[Sample], place: int) -> list[Sample]:
    """The steps of the same episode up to this one."""
    episode = samples[place].result["episode"]
    return [sample for sample in samples[: place + 1] if sample.result["episode"] == episode]


def _bits(sample: Sample) -> list[float | None]:
    return [sample.result["conditions"][condition.value]["entropy_bits"] for condition in CONDITIONS]


def _plot(samples: Sequence[Sample], highest: float, width: int) -> Any:
    """The entropies over the steps; a missing one leaves a gap."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (width, PLOT_HEIGHT), "white")
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(11)
    last = samples[-1].result
    left, right, top, bottom = MARGIN, width - 10, 38, PLOT_HEIGHT - 18
    for share in (0.0, 0.5, 1.0):
        y = bottom - share * (bottom - top)
        draw.line((left, y, right, y), fill=(225, 225, 225))
        draw.text((left - 4, y), f"{share * highest:.1f}", fill=(90, 90, 90), font=font, anchor="rm")
    steps = max(20, len(samples))
    x = [left + (right - left) * (i + 0.5) / steps for i in range(len(samples))]
    columns = zip(*(_bits(sample) for sample in samples), strict=True)
    place = float(left)
    for condition, column in zip(CONDITIONS, columns, strict=True):
        colour = COLOURS[condition.value]
        points = [None if v is None else (x[i], bottom - v / highest * (bottom - top)) for i, v in enumerate(column)]
        for a, b in pairwise(points):
            if a is not None and b is not None:
                draw.line((*a, *b), fill=colour, width=2)
        for point in points:
            if point is not None:
                draw.ellipse((point[0] - 2, point[1] - 2, point[0] + 2, point[1] + 2), fill=colour)
        shown = "—" if column[-1] is None else f"{column[-1]:.3f}"
        label = f"{condition.entropy_name} {shown}"
        draw.text((place, 21), label, fill=colour, font=font)
        place += draw.textlength(label, font=font) + 18
    trust = "—" if last["trust"] is None or why_no_share(last) else f"{last['trust']:.3f}"
    words = f"episode {last['episode']}, step {last['step']}: {last['action'] or 'no action'}    T {trust}    (bits)"
    draw.text((left, 4), words, fill=(20, 20, 20), font=font)
    return image
