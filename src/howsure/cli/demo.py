"""`howsure demo`: every study once, on real weights and the data that comes with the package."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from howsure.cli import common


@common.command
def demo(
    out: Annotated[
        Path | None, typer.Option(**common.LOCAL, help="Where the run folders go. Default: runs/demo-<time>.")
    ] = None,
    model: common.ModelOption = "smollm2",
    as_json: common.AsJson = False,
    quiet: common.Quiet = False,
    dry_run: common.DryRun = False,
) -> int:
    """Run every study on small data that comes with howsure, and print one table.

    Example: howsure demo
    """
    from howsure.models.registry import load
    from howsure.report.console import output, remarks
    from howsure.report.progress import progress_for
    from howsure.report.tables import print_demo
    from howsure.studies.demo import JOBS

    opened = load(model, lazy=True, announce=common.announcer(quiet))
    jobs = _jobs(JOBS, opened)
    if dry_run:
        calls, tokens = sum(job.model_calls for job in jobs), sum(job.tokens for job in jobs)
        return common.print_plan({"studies": len(jobs), "model_calls": calls, "tokens": tokens}, as_json)
    folder = out or common.new_run_folder("demo")
    rows, failed = [], False
    for job in jobs:
        began = time.monotonic()
        done = job.run(folder / job.study, progress_for(remarks(), quiet))
        if done.to_draw is not None:
            _draw(done.to_draw, folder / job.study / "theorem.svg")
        rows.append((done.summary, time.monotonic() - began))
        failed = failed or done.failed
    if as_json:
        common.print_json({"folder": str(folder), "studies": [summary for summary, _ in rows]})
    else:
        print_demo(output(), rows, folder)
    return common.SOME_FAILED if failed else common.DONE


def _jobs(prepares: Any, model: Any) -> list[Any]:
    """Every study that can be run with what is installed; the others are told."""
    from howsure.errors import MissingExtra

    jobs = []
    for prepare in prepares:
        try:
            jobs.append(prepare(model))
        except MissingExtra as error:
            common.say(f"left out: {error}")
    return jobs


def _draw(found: Any, path: Path) -> None:
    from howsure.errors import MissingExtra
    from howsure.report.plots import plot_theorem

    try:
        plot_theorem(found, path)
    except MissingExtra as error:
        common.say(str(error))
