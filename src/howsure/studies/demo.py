"""The demo: every study once, on small data that comes with the package. Each study adds its function to `JOBS`."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, NamedTuple

from howsure.models.contract import Model
from howsure.runs import Progress, Sample
from howsure.studies import mcq


class Job(NamedTuple):
    """A study ready to run: what it will take, and how to start it in a run folder."""

    study: str
    model_calls: int
    tokens: int
    run: Callable[[Path, Progress], tuple[dict[str, Any], list[Sample]]]


def mcq_job(model: Model) -> Job:
    with as_file(files("howsure.data") / "demo_mcq.jsonl") as data:
        prepared = mcq.prepare(data, model)

    def run(out: Path, progress: Progress) -> tuple[dict[str, Any], list[Sample]]:
        result = mcq.carry_out(prepared, "howsure.data/demo_mcq.jsonl", out=out, progress=progress)
        return result.summary, result.samples

    cost = prepared.cost()
    return Job("mcq", cost["model_calls"], cost["tokens"], run)


JOBS: tuple[Callable[[Model], Job], ...] = (mcq_job,)
