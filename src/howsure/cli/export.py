"""`howsure export`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from howsure.cli import common

if TYPE_CHECKING:
    from howsure.runs.export import Exported


@common.command
def export(
    runs: Annotated[
        list[str],
        typer.Argument(parser=common.place, help="Run folders, or a folder that holds some; also unfinished runs."),
    ],
    parquet: Annotated[bool, typer.Option("--parquet", help="As Parquet, which is the only form so far.")] = True,
    out: Annotated[
        str | None,
        typer.Option(
            **common.PLACE,
            help="A name that ends in .parquet: one file with the samples of all runs. Any other: a folder, with one "
            "file a run. Default: samples.parquet in each run folder.",
        ),
    ] = None,
    evidence: Annotated[
        bool,
        typer.Option("--evidence/--no-evidence", help="With tokens, probabilities and answers, the bulk of a run."),
    ] = True,
    as_json: common.AsJson = False,
    quiet: common.Quiet = False,
    dry_run: common.DryRun = False,
) -> int:
    """Write the samples of runs as Parquet tables, typed and compressed, for DuckDB, Polars, pandas and the like.

    One row a sample; what tells runs apart (run, study, model, data, start, status) stands in every row, so that files
    can be read together: `FROM 'runs/**/samples.parquet'`. docs/export.md has the columns, and a query that finds the
    runs that got worse.

    Example: howsure export runs/ --parquet
    """
    from howsure.errors import RunError
    from howsure.studies.exporting import targets

    wanted = targets(runs, out)
    if dry_run:
        plan = {"runs": sum(len(one.runs) for one in wanted), "files": len(wanted), "model_calls": 0, "tokens": 0}
        return common.print_plan(plan, as_json)
    written: list[Exported] = []
    for target in wanted:
        try:
            written.append(target.write(evidence=evidence))
        except RunError as error:  # a damaged run, among others that are not
            if len(wanted) == 1:
                raise
            common.say(f"error: {error}")
            continue
        if not as_json:
            _print(written[-1], quiet)
    if as_json:
        common.print_json([_row(one) for one in written])
    return common.DONE if len(written) == len(wanted) else common.SOME_FAILED


def _print(one: Exported, quiet: bool) -> None:
    if quiet:
        common.print_line(one.path)
        return
    common.print_line(f"{one.path}: {one.rows:,} rows, {one.columns:,} columns, {one.byte_count:,} bytes")
    if one.texts:
        place, why = next(iter(one.texts.items()))
        more = f", and {len(one.texts) - 1} more" if len(one.texts) > 1 else ""
        common.say(f"{place} is JSON text ({why}){more}")


def _row(one: Exported) -> dict[str, Any]:
    return one._asdict() | {"path": str(one.path)}
