"""`howsure compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from howsure.cli import common


@common.command
def compare(
    run_a: Annotated[Path, typer.Argument(help="Run folder of the first model, such as the older checkpoint.")],
    run_b: Annotated[Path, typer.Argument(help="Run folder of the second model.")],
    flips: Annotated[int, typer.Option(help="How many flips of each kind to show.")] = 5,
    output_json: Annotated[
        Path | None, typer.Option(help="Write both runs' results and the comparison into this file.")
    ] = None,
    seed: common.Seed = 0,
    as_json: common.AsJson = False,
    quiet: common.Quiet = False,
    dry_run: common.DryRun = False,
) -> int:
    """Compare two finished mcq runs over the same questions: what changed, and is it more than chance?

    Works from the run folders alone; no model is loaded.

    Example: howsure compare runs/before runs/after
    """
    from howsure.report.compare import print_comparison
    from howsure.report.console import output
    from howsure.studies.mcq.comparison import compare as compare_runs
    from howsure.studies.mcq.comparison import comparison_document, read_side
    from howsure.studies.mcq.document import check_writable, write_document

    if dry_run:
        items = len(read_side(run_a).samples) + len(read_side(run_b).samples)
        return common.print_plan({"items": items, "model_calls": 0, "tokens": 0}, as_json)
    if output_json is not None:
        check_writable(output_json)
    found = compare_runs(run_a, run_b, seed=seed)
    if output_json is not None:
        write_document(output_json, comparison_document(found))
    if as_json:
        common.print_json(found)
    else:
        print_comparison(output(), found, 0 if quiet else flips)
    return common.DONE
