"""`howsure compare`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from howsure.cli import common
from howsure.cli.commands import command
from howsure.cli.studies import FlipsView
from howsure.options import Opt, Options


@dataclass(frozen=True)
class CompareOptions(Options):
    run_a: Annotated[
        str, Opt("Run folder of the first model, such as the older checkpoint.", argument=True, path="any")
    ]
    run_b: Annotated[str, Opt("Run folder of the second model.", argument=True, path="any")]
    output_json: Annotated[
        Path | None, Opt("Write both runs' results and the comparison into this file.", path="local")
    ] = None


@command(CompareOptions, FlipsView)
def compare(options: CompareOptions, view: FlipsView) -> int:
    """Compare two finished runs over the same data: what changed, and is it more than chance?

    mcq runs over the same questions, perplexity runs over the same texts (per
    byte), grounding runs over the same screens, trajectories runs over the same
    tasks, or trust runs over the same episodes. Works from the run folders
    alone; no model is loaded.

    Example: howsure compare runs/before runs/after
    """
    from howsure.report.terminal import output, print_comparison
    from howsure.runs import Run
    from howsure.runs.files import write_new
    from howsure.storage import check_writable
    from howsure.studies.comparing import compare as compare_runs
    from howsure.studies.comparing import study_of
    from howsure.studies.registry import study_named

    a, b = Run(options.run_a), Run(options.run_b)
    study = study_named(study_of(a, b))
    if view.dry_run:
        items = a.manifest.items + b.manifest.items
        return common.print_plan({"items": items, "model_calls": 0, "tokens": 0}, view.as_json)
    if options.output_json is not None:
        check_writable("--output-json", options.output_json)
    comparison = compare_runs(a, b)
    if options.output_json is not None:
        write_new(options.output_json, study.comparison_document(comparison))
    if view.as_json:
        common.print_json(comparison)
    else:
        print_comparison(output(), comparison, cards=0 if view.quiet else view.flips)
    return common.DONE
