"""`howsure report`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from howsure.cli import common
from howsure.cli.commands import View, command
from howsure.options import Opt, Options


@dataclass(frozen=True)
class ReportOptions(Options):
    runs: Annotated[list[str], Opt("Run folders, or a folder that holds some.", argument=True, path="any")]
    out: Annotated[
        Path | None,
        Opt(
            "The file to write. Default: report.html in the run folder, or here for several runs.",
            path="local",
        ),
    ] = None
    open_it: Annotated[bool, Opt("Open it in the browser.", flags=("--open",))] = False


@command(ReportOptions)
def report(options: ReportOptions, view: View) -> int:
    """Write a run, or several, as one HTML file that needs nothing else: figures, plots, and the samples to look at.

    Every run writes its own when it ends. Two runs of one study are compared first.
    To walk through all samples: `howsure view`.

    Example: howsure report runs/before runs/after --out change.html
    """
    from howsure.report.run_report import chosen_runs, write_report_of

    folders = chosen_runs(options.runs)
    if view.dry_run:
        return common.print_plan({"runs": len(folders), "model_calls": 0, "tokens": 0}, view.as_json)
    path = write_report_of(folders, options.out)
    if view.as_json:
        common.print_json({"report": str(path), "runs": [str(folder) for folder in folders]})
    else:
        common.print_line(path)
    if options.open_it:
        import webbrowser

        webbrowser.open(path.absolute().as_uri())
    return common.DONE
