"""`howsure demo`: every study once, on real weights and the data that comes with the package."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from howsure.cli import common
from howsure.cli.commands import View, command
from howsure.models.options import MODEL
from howsure.options import Opt, Options

_ORDER = ("trust", "trajectories", "perplexity", "grounding", "mcq")
_CALLS = ("model_calls", "model_calls_at_most", "conversations_to_read")
_TOKENS = ("tokens", "tokens_at_most", "tokens_run", "new_tokens_at_most")


@dataclass(frozen=True)
class DemoOptions(Options):
    out: Annotated[Path | None, Opt("Where the run folders go. Default: runs/demo-<time>.", path="local")] = None
    model: Annotated[str, MODEL] = "smollm2"


@command(DemoOptions)
def demo(options: DemoOptions, view: View) -> int:
    """Run every study on small data that comes with howsure, and print one table.

    Example: howsure demo
    """
    from howsure.models.registry import load
    from howsure.report.progress import progress_for
    from howsure.report.terminal import output, print_demo, remarks
    from howsure.runs.run import new_run_folder
    from howsure.studies.demo import demo_data, run_theorem

    opened = load(options.model, lazy=True, announce=common.announcer(view.quiet))
    with demo_data() as data:
        jobs = _jobs(opened, data)
        if view.dry_run:
            costs = [job.cost for job in jobs]
            calls, tokens = (sum(_first(cost, names) for cost in costs) for names in (_CALLS, _TOKENS))
            return common.print_plan({"studies": len(jobs) + 1, "model_calls": calls, "tokens": tokens}, view.as_json)
        folder = options.out or new_run_folder("demo")
        rows, failed = [], False
        for job in jobs:
            began = time.monotonic()
            done = job.run(folder / job.study, progress_for(remarks(), view.quiet))
            rows.append((done.summary, time.monotonic() - began))
            failed = failed or done.failed
        began = time.monotonic()
        done, theorem = run_theorem(folder / "theorem")
        _draw(theorem, folder / "theorem" / "theorem.svg")
        rows.append((done.summary, time.monotonic() - began))
    if view.as_json:
        common.print_json({"folder": str(folder), "studies": [summary for summary, _ in rows]})
    else:
        print_demo(output(), rows, folder)
    return common.SOME_FAILED if failed else common.DONE


def _first(cost: dict[str, int], names: tuple[str, ...]) -> int:
    return next((cost[name] for name in names if name in cost), 0)


def _jobs(model: Any, data: Path) -> list[Any]:
    """Every study that can be run with what is installed; the others are told."""
    from howsure.errors import MissingExtra
    from howsure.studies.demo import job_of

    jobs = []
    for name in _ORDER:
        try:
            jobs.append(job_of(name, model, data))
        except MissingExtra as error:
            common.say(f"left out: {error}")
    return [job for job in jobs if job is not None]


def _draw(theorem: Any, path: Path) -> None:
    from howsure.errors import MissingExtra
    from howsure.report.plots import plot_theorem

    try:
        plot_theorem(theorem, path)
    except MissingExtra as error:
        common.say(str(error))
