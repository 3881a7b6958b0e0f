"""`howsure demo`: every study once, on real weights and the data that comes with the package."""

from __future__ import annotations

import time
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated, Any

import typer

from howsure.cli import common


@common.command
def demo(
    out: Annotated[Path | None, typer.Option(help="Where the run folders go. Default: runs/demo-<time>.")] = None,
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
    from howsure.studies.mcq import carry_out, prepare

    opened = load(model, lazy=True, announce=common.announcer(quiet))
    with as_file(files("howsure.data") / "demo_mcq.jsonl") as data:
        prepared = prepare(data, opened)
        if dry_run:
            calls, tokens = len(prepared.plan.batches), prepared.plan.tokens
            return common.print_plan({"studies": 1, "model_calls": calls, "tokens": tokens}, as_json)
        folder = out or common.new_run_folder("demo")
        progress = progress_for(remarks(), quiet)
        began = time.monotonic()
        result = carry_out(
            prepared,
            "howsure.data/demo_mcq.jsonl",
            out=folder / "mcq",
            seed=0,
            retry_failed=False,
            progress=progress,
        )
    rows: list[tuple[dict[str, Any], float]] = [(result.summary, time.monotonic() - began)]
    if as_json:
        common.print_json({"folder": str(folder), "studies": [summary for summary, _ in rows]})
    else:
        print_demo(output(), rows, folder)
    return common.SOME_FAILED if any(sample.failed for sample in result.samples) else common.DONE
