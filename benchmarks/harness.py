"""Measuring contenders on the same input in one run.

A machine's speed drifts while it is measured, so contenders take turns, round by round, and what counts is the
ratio of one to another within a round. The raw seconds stand beside it.
"""

from __future__ import annotations

import gc
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from typing import Any


@dataclass(frozen=True)
class Case:
    """One input, the contenders that work on it (the first is ours), and what was counted besides time."""

    name: str
    contenders: dict[str, Callable[[], Any]]
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Measured:
    case: str
    contender: str
    median_s: float
    rounds_s: list[float]
    times_slower: float
    """Median over the rounds of this contender's seconds by ours in the same round."""
    slowest_ratio: float
    fastest_ratio: float


def measure(case: Case, rounds: int = 3) -> list[Measured]:
    """Warm everyone up once, then let them take turns."""
    for work in case.contenders.values():
        work()
    seconds: dict[str, list[float]] = {name: [] for name in case.contenders}
    for _ in range(rounds):
        for name, work in case.contenders.items():
            gc.collect()
            began = time.perf_counter()
            work()
            seconds[name].append(time.perf_counter() - began)
    ours = next(iter(seconds.values()))
    return [_measured(case.name, name, times, ours) for name, times in seconds.items()]


def _measured(case: str, name: str, times: list[float], ours: list[float]) -> Measured:
    ratios = [theirs / mine for theirs, mine in zip(times, ours, strict=True)]
    return Measured(case, name, statistics.median(times), times, statistics.median(ratios), max(ratios), min(ratios))


def environment() -> dict[str, Any]:
    """What the figures were measured on; no name of a machine or a person."""
    packages = ("howsure", "numpy", "torch", "transformers")
    versions = {name: metadata.version(name) for name in packages}
    return {
        "date": time.strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        **versions,
    }


def as_data(measured: Sequence[Measured], cases: Sequence[Case]) -> dict[str, Any]:
    return {
        "environment": environment(),
        "notes": {case.name: case.notes for case in cases},
        "measured": [asdict(one) for one in measured],
    }


def as_markdown(measured: Sequence[Measured], cases: Sequence[Case]) -> str:
    lines = ["| case | contender | median s | times slower than ours (range) |", "|---|---|---|---|"]
    for one in measured:
        ratio = f"{one.times_slower:.2f} ({one.fastest_ratio:.2f} to {one.slowest_ratio:.2f})"
        shown = "1" if one.times_slower == 1 else ratio
        lines.append(f"| {one.case} | {one.contender} | {one.median_s:.3f} | {shown} |")
    for case in cases:
        lines += ["", f"{case.name}: " + ", ".join(f"{name} {value}" for name, value in case.notes.items()) + "."]
    return "\n".join(lines)
