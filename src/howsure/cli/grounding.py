"""The commands beside `howsure grounding run`, which is made from the study: `convert` and `overlay`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from howsure.cli import common
from howsure.cli.commands import RunsByDefault, View, command
from howsure.options import Opt, Options
from howsure.studies.grounding.options import ConvertOptions

USERS_PART = re.compile(r"[0-9,][0-9,\s–-]*")


class TakesSeveralUsers(RunsByDefault):
    """`--users 1 3 7` is `--users 1,3,7`, as is `--users=1 3 7`: numbers that follow belong to it."""

    studies: ClassVar = {"run": "grounding"}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, users_joined(args))


def users_joined(args: list[str]) -> list[str]:
    joined: list[str] = []
    for arg in _apart(args):
        goes_on = len(joined) >= 2 and joined[-2] == "--users" and USERS_PART.fullmatch(joined[-1])
        if goes_on and USERS_PART.fullmatch(arg):
            joined[-1] += f",{arg}"
        else:
            joined.append(arg)
    return joined


def _apart(args: list[str]) -> Iterator[str]:
    """`--users=1` as `--users 1`."""
    for arg in args:
        name, equals, value = arg.partition("=")
        yield from (name, value) if name == "--users" and equals else (arg,)


app = typer.Typer(
    name="grounding",
    help="GUI clicks: where does the model click, how far off, and does it know?",
    cls=TakesSeveralUsers,
    no_args_is_help=True,
)


@app.callback()
def top() -> None:
    """GUI clicks: where does the model click, how far off, and does it know?

    Example: howsure grounding screens/ --model ocr
    """


@app.command()
@command(ConvertOptions)
def convert(options: ConvertOptions, view: View) -> int:
    """Write any form of data as JSON lines: one sample per line, places in thousandths of the screen.

    Pickles need not be trusted: nothing in them is ever run.

    Example: howsure grounding convert dataset_pkl --to clicks.jsonl
    """
    from howsure.studies.grounding.reading.data import check_new, read_screens
    from howsure.studies.grounding.reading.data import convert as convert_data

    if view.dry_run:
        check_new(options.to)
        return common.print_plan({"items": len(read_screens(options).items), "model_calls": 0}, view.as_json)
    done = convert_data(options)
    if view.as_json:
        common.print_json(done._asdict())
    elif not view.quiet:
        left_out = f", {done.skipped} bad ones left out" if done.skipped else ""
        written = f"{done.written} samples written to {options.to}{left_out}"
        common.print_line(f"{written}; their image paths begin at {done.image_root}")
    return common.DONE


@dataclass(frozen=True)
class OverlayOptions(Options):
    run: Annotated[str, Opt("The run folder.", argument=True, path="any", metavar="RUN")]
    ids: Annotated[list[str] | None, Opt("Samples to draw, by their ids.", argument=True)] = None
    _: KW_ONLY
    worst: Annotated[int, Opt("The N farthest off.")] = 0
    surely_wrong: Annotated[int, Opt("The N most confident misses.")] = 0
    every: Annotated[bool, Opt("Every sample.", flags=("--all",))] = False
    image_root: Annotated[
        Path | None, Opt("Where the screens are now, if they have moved since the run.", path="local")
    ] = None
    to: Annotated[Path | None, Opt("Folder for the pictures. Default: overlays in the run folder.", path="local")] = (
        None
    )


@app.command()
@command(OverlayOptions)
def overlay(options: OverlayOptions, view: View) -> int:
    """Draw target, click and distance on the screens of a run, as PNG files.

    Example: howsure grounding overlay runs/first --worst 5 --surely-wrong 5
    """
    from howsure.runs import Run
    from howsure.storage import put_back
    from howsure.studies.grounding.overlay import chosen_samples, write_overlays

    opened = Run(options.run)
    names = ("ids", "worst", "surely_wrong", "every")
    which: dict[str, Any] = {name: getattr(options, name) for name in names}
    if not any(which.values()):
        which |= {"worst": 5, "surely_wrong": 5}
    if view.dry_run:
        return common.print_plan({"items": len(chosen_samples(opened, **which)), "model_calls": 0}, view.as_json)
    written = write_overlays(opened, options.to or opened.path / "overlays", image_root=options.image_root, **which)
    for path in written:
        put_back(path)
    if view.as_json:
        common.print_json([str(path) for path in written])
    elif not view.quiet:
        for path in written:
            common.print_line(path)
    return common.DONE
