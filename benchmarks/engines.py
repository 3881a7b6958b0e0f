"""What an engine costs: 1,000 items of 100 ms, each written to a run folder as it comes.

The items only wait, so that nothing but the engine, Ray and the writer take time: what is above the waiting, divided by
those who wait at the same time, is overhead. Beside it stands the same waiting in threads, without engine and folder.
Starting Ray and its workers is measured apart.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.harness import Case
from howsure.runs import Engine, Identity, Job, LocalEngine, RunWriter, Sample
from howsure.runs.ray_engine import RayEngine
from howsure.runs.run import in_order

ITEMS = 1000
SECONDS = 0.1
WORKERS = (2, 8)


class Waiting(Job[tuple[int, ...], list[Sample]]):
    """An item is a while."""

    def __call__(self, piece: tuple[int, ...]) -> list[Sample]:
        time.sleep(SECONDS)
        return [Sample(f"item-{i}", i, {"waited_s": SECONDS}) for i in piece]


def cases() -> list[Case]:
    import ray

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers import nothing from this folder
    started = _seconds(_start)
    rows = {"engine local, one after the other": _ratio(LocalEngine(), 1)}
    rows |= {f"{count} workers of Ray": _ratio(RayEngine(workers=count), count) for count in WORKERS}
    return [
        Case(
            f"{ITEMS} items of {1000 * SECONDS:.0f} ms, {max(WORKERS)} at a time, in threads that only wait",
            {"threads": lambda: _threads(max(WORKERS))},
            {"seconds to start Ray on this machine and its first worker": f"{started:.1f}"}
            | {f"{name}, times the waiting alone": f"{ratio:.3f}" for name, ratio in rows.items()},
        )
    ]


def _start() -> None:
    engine = RayEngine(workers=1)
    try:
        engine.load(Waiting())
    finally:
        engine.close()


def _ratio(engine: Engine, at_once: int) -> float:
    """Seconds through an engine by those of the waiting alone, the workers being there."""
    try:
        return _alone(engine) / (ITEMS * SECONDS / at_once)
    finally:
        engine.close()


def _alone(engine: Engine) -> float:
    """Seconds of one run, its workers being there already."""
    job = Waiting()
    getattr(engine, "load_all", engine.load)(job)
    return _seconds(lambda: _through(engine, job))


def _through(engine: Engine, job: Waiting) -> None:
    with tempfile.TemporaryDirectory() as folder:
        writer = RunWriter(Path(folder, "run"), Identity("engines", {}, {}, {}, 0), ITEMS)
        with writer:
            batches = [(i,) for i in range(ITEMS)]
            for _, samples in in_order(engine, job, batches, sent=lambda batch: batch):
                writer.append(samples)
            assert len(writer.samples) == ITEMS


def _threads(at_once: int) -> None:
    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(lambda _: time.sleep(SECONDS), range(ITEMS)))


def _seconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
