"""Commands about runs that are there: `howsure runs`, `howsure report`, `howsure export`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from howsure.cli import common
from howsure.cli.commands import View, command
from howsure.options import Opt, Options
from howsure.studies.options import ExportOptions

if TYPE_CHECKING:
    from howsure.runs.export import Exported


@dataclass(frozen=True)
class RunsOptions(Options):
    folder: Annotated[str, Opt("Where to look; run folders below it are listed.", argument=True, path="any")] = "runs"


@command(RunsOptions)
def runs(options: RunsOptions, view: View) -> int:
    """List the run folders with their status and headline figures, newest first.

    Example: howsure runs runs/
    """
    from howsure.errors import HowsureError
    from howsure.report.terminal import output, print_runs
    from howsure.runs import Run, find_runs

    paths = find_runs(options.folder)
    if view.dry_run:
        return common.print_plan({"runs": len(paths), "model_calls": 0, "tokens": 0}, view.as_json)
    damaged: list[Path] = []

    def opened() -> Iterator[tuple[Path, Run | str]]:
        """One after the other: a thousand manifests of strangers may be larger than the memory."""
        for path in paths:
            try:
                yield path, Run(path, whole=False)
            except HowsureError as error:
                damaged.append(path)
                yield path, str(error)

    if view.as_json:
        common.print_json([_row(path, run) for path, run in opened()])
    elif view.quiet:
        for path, _ in opened():
            common.print_line(path)
    elif not paths:
        common.say(f"no runs below {options.folder}")
    else:
        print_runs(output(), opened())
    return common.SOME_FAILED if damaged else common.DONE


def _row(path: Path, run: Any) -> dict[str, Any]:
    from howsure.errors import RunDamaged

    try:
        if isinstance(run, str):
            raise RunDamaged(run)
        manifest, summary = run.manifest, run.summary
    except RunDamaged as error:
        return {"path": str(path), "status": "damaged", "error": str(error)}
    return {
        "path": str(path),
        "study": manifest.identity.study,
        "model": manifest.identity.model.get("name"),
        "data": manifest.source,
        "status": run.status,
        "items": manifest.items,
        "started": manifest.started,
        "ended": manifest.ended,
        "coverage": summary and summary.get("coverage"),
        "headline": summary and summary.get("headline"),
    }


@dataclass(frozen=True)
class ReportOptions(Options):
    runs: Annotated[list[str], Opt("Run folders, or a folder of run folders.", argument=True, path="any")]
    out: Annotated[
        Path | None,
        Opt(
            "The file to write. Default: report.html in the run folder; for several runs in the current folder.",
            path="local",
        ),
    ] = None
    open_it: Annotated[bool, Opt("Open it in the browser.", flags=("--open",))] = False


@command(ReportOptions)
def report(options: ReportOptions, view: View) -> int:
    """Write a run, or several, as one self-contained HTML file: figures, plots, and the samples to look at.

    Every run writes its own when it ends. Two runs of one study are compared first.
    All samples: `howsure view`.

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


@dataclass(frozen=True, kw_only=True)
class ExportView(View):
    parquet: Annotated[bool, Opt("As Parquet, the only format so far.", flags=("--parquet",))] = True


@command(ExportOptions, ExportView)
def export(options: ExportOptions, view: ExportView) -> int:
    """Write the samples of runs as Parquet tables, typed and compressed, for DuckDB, Polars, pandas and the like.

    One row per sample. Every row names its run, study, model, data, start and
    status, so that files can be read together: `FROM
    'runs/**/samples.parquet'`. docs/export.md has the columns, and a query that
    finds the runs that got worse.

    Example: howsure export runs/ --parquet
    """
    from howsure.errors import RunError
    from howsure.studies import exporting

    targets = exporting.targets(options.runs, options.out)
    if view.dry_run:
        runs = sum(len(target.runs) for target in targets)
        plan = {"runs": runs, "files": len(targets), "model_calls": 0, "tokens": 0}
        return common.print_plan(plan, view.as_json)
    written: list[Exported] = []
    for target in targets:
        try:
            written.append(target.write(evidence=options.evidence))
        except RunError as error:  # a damaged run, among others that are not
            if len(targets) == 1:
                raise
            common.say(f"error: {error}")
            continue
        if not view.as_json:
            _print(written[-1], view.quiet)
    if view.as_json:
        common.print_json([one._asdict() | {"path": str(one.path)} for one in written])
    return common.DONE if len(written) == len(targets) else common.SOME_FAILED


def _print(one: Exported, quiet: bool) -> None:
    if quiet:
        common.print_line(one.path)
        return
    common.print_line(f"{one.path}: {one.rows:,} rows, {one.columns:,} columns, {one.byte_count:,} bytes")
    if one.texts:
        place, why = next(iter(one.texts.items()))
        more = f", and {len(one.texts) - 1} more" if len(one.texts) > 1 else ""
        common.say(f"{place} is JSON text ({why}){more}")
