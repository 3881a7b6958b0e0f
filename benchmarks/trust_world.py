"""A step in a world of 14 × 14 cells: acting, judging, the text, and the picture as PNG.

The agent acts at random, so that the shortest way is asked for from states that nobody planned. Ours against what
MiniGrid and Pillow do by themselves: the whole grid rendered anew and saved as PNG, without text and shortest way.
"""

from __future__ import annotations

import io
import random
import statistics
import time
from itertools import pairwise
from typing import Any

from benchmarks.harness import Case

STEPS = 300
PARTS = ("acting", "shortest way", "text", "picture")


def cases() -> list[Case]:
    return [_case("a map with things to fetch", "fetch"), _case("rooms of MiniGrid", "MiniGrid-DoorKey-16x16-v0")]


def _case(name: str, source: str) -> Case:
    from howsure.studies.trust.world import open_world

    world = open_world(source)
    _check_pictures(world)
    return Case(
        f"{STEPS} steps, {name}",
        {"howsure": lambda: _steps(world), "MiniGrid's picture alone": lambda: _rendered(world)},
        {"median ms of a step by part": _by_part(world)},
    )


def _steps(world: Any) -> list[list[float]]:
    """Milliseconds of one core for each part of each step."""
    world.reset(0)
    chance, spent = random.Random(0), []
    for _ in range(STEPS):
        marks = [time.process_time()]
        over = world.act(chance.choice(world.actions)).over
        for part in (world.best_actions, world.text, world.picture):
            marks.append(time.process_time())
            part()
        marks.append(time.process_time())
        spent.append([1000 * (b - a) for a, b in pairwise(marks)])
        if over:
            world.reset(0)
    return spent


def _by_part(world: Any) -> str:
    _steps(world)
    spent = _steps(world)
    parts = [f"{name} {statistics.median(step[i] for step in spent):.2f}" for i, name in enumerate(PARTS)]
    totals = sorted(sum(step) for step in spent)
    return "; ".join([*parts, f"together {statistics.median(totals):.2f}, 95 of 100 under {totals[-STEPS // 20]:.2f}"])


def _rendered(world: Any) -> None:
    """The same steps with MiniGrid's own picture, where its objects can draw themselves."""
    world.reset(0)
    chance = random.Random(0)
    for _ in range(STEPS):
        over = world.act(chance.choice(world.actions)).over
        _png(world)
        if over:
            world.reset(0)


def _png(world: Any) -> bytes:
    from PIL import Image

    content = io.BytesIO()
    Image.fromarray(_frame(world)).save(content, "PNG")
    return content.getvalue()


def _frame(world: Any) -> Any:
    from minigrid.core.constants import COLOR_TO_IDX

    env = world._env
    tile = 512 // max(env.width, env.height)
    kept = env.grid.grid
    env.grid.grid = [
        one if getattr(one, "color", None) in COLOR_TO_IDX and one.type != "emoji" else None for one in kept
    ]
    try:
        return env.grid.render(tile, env.agent_pos, env.agent_dir)
    finally:
        env.grid.grid = kept


def _check_pictures(world: Any) -> None:
    """Where MiniGrid can draw everything, both show the same."""
    import numpy as np

    world.reset(0)
    if world._ring:
        return
    ours = np.asarray(world.picture().load()).astype(int)
    theirs = _frame(world).astype(int)
    assert ours.shape == theirs.shape
    assert (abs(ours - theirs) > 100).mean() < 0.005, "the contenders draw different pictures"
