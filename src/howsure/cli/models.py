"""`howsure models`."""

from __future__ import annotations

from typing import Any

from howsure.cli import common
from howsure.cli.commands import View, command
from howsure.options import Options


@command(Options)
def models(_: Options, view: View) -> int:
    """List the kinds of model: what each can do, whether it is installed, how to install it.

    Example: howsure models
    """
    from howsure.models.registry import BACK_ENDS

    if view.dry_run:
        return common.print_plan({"model_calls": 0, "tokens": 0}, view.as_json)
    rows: list[dict[str, Any]] = [
        {
            "name": back_end.form,
            "what": back_end.what,
            "can": sorted(one.value for one in back_end.capabilities),
            "installed": back_end.missing_package() is None,
            "install": None if back_end.extra is None else f'pip install "howsure[{back_end.extra}]"',
        }
        for back_end in BACK_ENDS.values()
    ]
    if view.as_json:
        common.print_json(rows)
    elif view.quiet:
        for row in rows:
            common.print_line(row["name"])
    else:
        _print(rows)
    return common.DONE


def _print(rows: list[dict[str, Any]]) -> None:
    from rich.text import Text

    from howsure.report.terminal import output, plain_table

    table = plain_table("model", "what it is", "can", "installed")
    for row in rows:
        installed = "yes" if row["installed"] else f"no: {row['install']}"
        table.add_row(Text(row["name"]), Text(row["what"]), ", ".join(row["can"]), Text(installed))
    output().print(table)
