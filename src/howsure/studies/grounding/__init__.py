"""Grounding: where does the model click, how far off, and does it know?

Question   a screen and an instruction: does the click land where it belongs, and is the model surer where it does?
Data       user_<id>.pkl (read without running anything in them), JSON lines, ScreenSpot, v2 and Pro, OSWorld-G
Asks       `generate` with the screen in the user's message, or `click` for the built-in baseline `ocr`
Measure    L2 in the 0–1000 frame, accuracy at δ, point in box or polygon; an unreadable answer is a miss
Comes out  figures per user, platform, type and application, with intervals clustered by image; whether the
           probabilities of the coordinates, the spread of drawn clicks, or ocr's match tell hits from misses;
           out.json and results.txt per user; overlays
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from howsure.models.contract import Model
from howsure.runs import Engine, Progress, engine_at_hand, placed
from howsure.studies.grounding.work import DELTA, Prepared, Result, carry_out, prepare

__all__ = ["Prepared", "Result", "carry_out", "grounding", "prepare"]

PathLike = str | os.PathLike[str]


def grounding(
    data: PathLike,
    model: str | Model = "ocr",
    *,
    out: PathLike,
    users: str | Sequence[str | int] | None = None,
    delta: float = DELTA,
    parser: str = "strict",
    frame: str | None = None,
    prompt: str | None = None,
    max_new_tokens: int = 512,
    max_pixels: int | None = None,
    samples: int = 0,
    temperature: float = 1.0,
    logprobs: bool = True,
    batch_size: int | None = None,
    image_root: PathLike | None = None,
    boxes: str | None = None,
    box_units: str | None = None,
    max_samples: int | None = None,
    skip_bad: bool = False,
    seed: int = 0,
    retry_failed: bool = False,
    progress: Progress | None = None,
    engine: str | Engine | None = None,
    **model_options: Any,
) -> Result:
    """Let a model click on every screen of the data, judge the clicks, and write a run folder.

    The same call takes up a stopped run. `samples` more answers are drawn for each screen at `temperature`. `engine` is
    who does the work: this process, or `"ray"` or a `RayEngine`. `model_options` (see `ModelOptions`) are for a model
    given by name; one given as an object stays loaded.
    """
    prepared = prepare(
        data,
        model,
        users=users,
        delta=delta,
        parser=parser,
        frame=frame,
        prompt=prompt,
        max_new_tokens=max_new_tokens,
        max_pixels=max_pixels,
        samples=samples,
        temperature=temperature,
        logprobs=logprobs,
        batch_size=batch_size,
        image_root=image_root,
        boxes=boxes,
        box_units=box_units,
        max_samples=max_samples,
        skip_bad=skip_bad,
        **(placed(engine, model_options) if isinstance(model, str) else model_options),
    )
    try:
        with engine_at_hand(engine) as doer:
            return carry_out(
                prepared, data, out=out, seed=seed, retry_failed=retry_failed, progress=progress, engine=doer
            )
    finally:
        prepared.close()
