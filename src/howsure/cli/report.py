"""`howsure report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from howsure.cli import common


@common.command
def report(
    runs: Annotated[list[str], typer.Argument(parser=common.place, help="Run folders, or a folder that holds some.")],
    out: Annotated[
        Path | None,
        typer.Option(
            **common.LOCAL, help="The file to write. Default: report.html in the run folder, or here for several runs."
        ),
    ] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    as_json: common.AsJson = False,
    quiet: common.Quiet = False,
    dry_run: common.DryRun = False,
) -> int:
    """Write a run, or several, as one HTML file that needs nothing else: figures, plots, and the samples to look at.

    Every run writes its own when it ends. Two runs of one study are set against each other first. To walk through
    all samples: `howsure view`.

    Example: howsure report runs/before runs/after --out change.html
    """
    from howsure.report.pages.report import chosen_runs, write_report_of

    folders = chosen_runs(runs)
    if dry_run:
        return common.print_plan({"runs": len(folders), "model_calls": 0, "tokens": 0}, as_json)
    path = write_report_of(folders, out)
    if as_json:
        common.print_json({"report": str(path), "runs": [str(folder) for folder in folders]})
    else:
        common.print_line(path)
    if open_it:
        import webbrowser

        webbrowser.open(path.absolute().as_uri())
    return common.DONE
