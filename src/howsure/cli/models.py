"""`howsure models`."""

from __future__ import annotations

from howsure.cli import common


@common.command
def models(as_json: common.AsJson = False, quiet: common.Quiet = False, dry_run: common.DryRun = False) -> int:
    """List the kinds of model: what each can do, whether it is installed, how to install it.

    Example: howsure models
    """
    from howsure.models.registry import BACK_ENDS

    if dry_run:
        return common.print_plan({"model_calls": 0, "tokens": 0}, as_json)
    rows = []
    for back_end in BACK_ENDS.values():
        missing = back_end.missing_package()
        rows.append(
            {
                "name": back_end.form,
                "what": back_end.what,
                "can": sorted(c.value for c in back_end.capabilities),
                "installed": missing is None,
                "install": None if back_end.extra is None else f'pip install "howsure[{back_end.extra}]"',
            }
        )
    if as_json:
        common.print_json(rows)
    elif quiet:
        for row in rows:
            common.print_line(row["name"])
    else:
        _print(rows)
    return common.DONE


def _print(rows: list[dict[str, object]]) -> None:
    from rich.text import Text

    from howsure.report.console import output
    from howsure.report.tables import plain_table

    table = plain_table("model", "what it is", "can", "installed")
    for row in rows:
        can = ", ".join(row["can"]) if isinstance(row["can"], list) else ""
        installed = "yes" if row["installed"] else f"no: {row['install']}"
        table.add_row(Text(str(row["name"])), Text(str(row["what"])), can, Text(installed))
    output().print(table)
