"""Two checkpoints over the same questions, one after the other, and the comparison of their runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from howsure.errors import InputError
from howsure.runs import Progress
from howsure.runs.files import to_json, write_atomic
from howsure.runs.folder import MANIFEST
from howsure.studies.mcq.comparison import compare
from howsure.studies.mcq.work import Prepared, Result, carry_out_and_give_back

COMPARISON = "comparison.json"


class Pair(NamedTuple):
    """Two finished studies and what changed from the first to the second."""

    a: Result
    b: Result
    comparison: dict[str, Any]


def carry_out_pair(
    prepared: list[Prepared],
    source: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str],
    seed: int = 0,
    retry_failed: bool = False,
    progress: Progress | None = None,
) -> Pair:
    """Run both into `<out>/a` and `<out>/b`; the list is emptied, so that one model is in memory at a time."""
    folder = Path(out)
    check_pair_folder(folder)
    shared: dict[str, Any] = {"seed": seed, "retry_failed": retry_failed, "progress": progress}
    first = carry_out_and_give_back(prepared, source, out=folder / "a", what="mcq a", **shared)
    second = carry_out_and_give_back(prepared, source, out=folder / "b", what="mcq b", **shared)
    comparison = compare(first.run, second.run, seed=seed)
    write_atomic(folder / COMPARISON, to_json(comparison, indent=2) + b"\n")
    return Pair(first, second, comparison)


def check_pair_folder(folder: Path) -> None:
    if (folder / MANIFEST).exists():
        raise InputError(f"{folder} is the run folder of one model: with --model-b choose another --out")
