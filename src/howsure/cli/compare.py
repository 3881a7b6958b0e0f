"""`howsure compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from howsure.cli import common


@common.command
def compare(
    run_a: Annotated[
        str, typer.Argument(parser=common.place, help="Run folder of the first model, such as the older checkpoint.")
    ],
    run_b: Annotated[str, typer.Argument(parser=common.place, help="Run folder of the second model.")],
    flips: Annotated[int, typer.Option(help="mcq and grounding: how many flips of each kind to show.")] = 5,
    output_json: Annotated[
        Path | None, typer.Option(**common.LOCAL, help="Write both runs' results and the comparison into this file.")
    ] = None,
    as_json: common.AsJson = False,
    quiet: common.Quiet = False,
    dry_run: common.DryRun = False,
) -> int:
    """Compare two finished runs over the same data: what changed, and is it more than chance?

    mcq runs over the same questions, perplexity runs over the same texts (per
    byte), or grounding runs over the same screens. Works from the run folders
    alone; no model is loaded.

    Example: howsure compare runs/before runs/after
    """
    from howsure.cli.studies import print_comparison
    from howsure.runs import Run
    from howsure.runs.files import to_json, write_atomic
    from howsure.storage.writing import check_writable
    from howsure.studies.comparing import compare as compare_runs
    from howsure.studies.comparing import study_of
    from howsure.studies.registry import study_named

    a, b = Run(run_a), Run(run_b)
    study = study_named(study_of(a, b))
    if dry_run:
        items = a.manifest.items + b.manifest.items
        return common.print_plan({"items": items, "model_calls": 0, "tokens": 0}, as_json)
    if output_json is not None:
        check_writable("--output-json", output_json)
    comparison = compare_runs(a, b)
    if output_json is not None:
        write_atomic(output_json, to_json(study.comparison_document(comparison), indent=2) + b"\n")
    if as_json:
        common.print_json(comparison)
    else:
        print_comparison(study.name, comparison, 0 if quiet else flips)
    return common.DONE
