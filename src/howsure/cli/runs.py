"""`howsure runs`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from howsure.cli import common
from howsure.cli.commands import View, command
from howsure.options import Opt, Options


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
