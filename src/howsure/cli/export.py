"""`howsure export`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from howsure.cli import common
from howsure.cli.commands import View, command
from howsure.options import Opt
from howsure.studies.options import ExportOptions

if TYPE_CHECKING:
    from howsure.runs.export import Exported


@dataclass(frozen=True, kw_only=True)
class ExportView(View):
    parquet: Annotated[bool, Opt("As Parquet, the only form so far.", flags=("--parquet",))] = True


@command(ExportOptions, ExportView)
def export(options: ExportOptions, view: ExportView) -> int:
    """Write the samples of runs as Parquet tables, typed and compressed, for DuckDB, Polars, pandas and the like.

    One row per sample; what tells runs apart (run, study, model, data, start,
    status) stands in every row, so that files can be read together: `FROM
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
