"""`howsure grounding`, and its commands `convert` and `overlay`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from howsure.cli import common
from howsure.cli.groups import RunsByDefault

USERS_PART = re.compile(r"[0-9,][0-9,\s–-]*")


class TakesSeveralUsers(RunsByDefault):
    """`--users 1 3 7` is `--users 1,3,7`, as is `--users=1 3 7`: numbers that follow belong to it."""

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

Data = Annotated[
    str,
    typer.Argument(
        parser=common.place,
        help="user_<id>.pkl files or a folder of them, JSON lines, ScreenSpot (v1, v2, Pro) or OSWorld-G JSON.",
    ),
]
Users = Annotated[list[str] | None, typer.Option(help="Only these users: 1-10, or 1-5,8, or 1 3 7. Default: all.")]
ImageRoot = Annotated[
    str | None,
    typer.Option(**common.PLACE, help="Folder that image paths begin at, and may not leave. Default: that of DATA."),
]
Boxes = Annotated[
    str | None, typer.Option(help="How boxes are written: xywh or xyxy. Default: told apart by the numbers.")
]
BoxUnits = Annotated[
    str | None,
    typer.Option(help="pixels, fractions (0 to 1) or thousandths (0 to 1000). Default: told apart by the numbers."),
]
Parser = Annotated[
    str,
    typer.Option(
        help="strict: what cannot be read for certain is a miss. compat: the first pair of numbers, by the patterns "
        "of older scripts."
    ),
]
MaxSamples = Annotated[int | None, typer.Option(help="Score at most this many samples.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Go on without bad samples; accuracy counts them as misses.")]


@app.callback()
def top() -> None:
    """GUI clicks: where does the model click, how far off, and does it know?

    Example: howsure grounding screens/ --model ocr
    """


@app.command()
@common.command
def run(
    data: Data,
    model: common.ModelOption = "ocr",
    users: Users = None,
    delta: Annotated[
        float, typer.Option(help="A click this near counts as accurate, in thousandths of width and height.")
    ] = 140.0,
    parser: Parser = "strict",
    frame: Annotated[
        str | None,
        typer.Option(
            help="What the model's numbers mean: relative-1000, relative-999, fraction, percent, pixels, "
            "resized-pixels, relative-1000-yx. Default: by the model's kind, or what the data's prompts ask for."
        ),
    ] = None,
    prompt: Annotated[
        str | None,
        typer.Option(
            help="Own template over {instruction}, perhaps {frame}; \\n is a new line. Default: that of the data, "
            "else one that asks for a description and then the point."
        ),
    ] = None,
    max_new_tokens: Annotated[int, typer.Option(help="Longest answer.")] = 512,
    max_pixels: Annotated[
        int | None,
        typer.Option(
            help="The most that a Qwen-VL model on this machine sees of a screen; 0: what the checkpoint says. "
            "Default: 1003520."
        ),
    ] = None,
    samples: Annotated[
        int, typer.Option(help="So many more answers are drawn for each screen; how far they spread is a confidence.")
    ] = 0,
    temperature: Annotated[float, typer.Option(help="Of the answers that are drawn.")] = 1.0,
    logprobs: Annotated[
        bool, typer.Option("--logprobs/--no-logprobs", help="Ask for the probabilities of the coordinates' tokens.")
    ] = True,
    batch_size: Annotated[
        int | None, typer.Option(help="Screens asked together. Default: 32, on a CPU 4, for ocr 8.")
    ] = None,
    image_root: ImageRoot = None,
    boxes: Boxes = None,
    box_units: BoxUnits = None,
    max_samples: MaxSamples = None,
    skip_bad: SkipBad = False,
    out: Annotated[
        str | None,
        typer.Option(
            **common.PLACE, help="Run folder; an unfinished run in it is taken up. Default: runs/grounding-<time>."
        ),
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Do again what failed in this run folder, drawn answers too.")
    ] = False,
    seed: common.Seed = 0,
    base_url: common.BaseUrl = None,
    device: common.Device = None,
    dtype: common.Dtype = None,
    token_budget: common.TokenBudget = None,
    trust_remote_code: common.TrustRemoteCode = False,
    engine: common.EngineName = "local",
    address: common.Address = None,
    workers: common.Workers = None,
    gpus_per_worker: common.GpusPerWorker = None,
    cpus_per_worker: common.CpusPerWorker = None,
    as_json: common.AsJson = False,
    quiet: common.Quiet = False,
    dry_run: common.DryRun = False,
) -> int:
    """Where does a model click, how far off is that, and does it know?

    Every screen goes to the model with its instruction; the answer's point is set
    against the target. Distances are in thousandths of width and height. An answer
    that cannot be read is a miss without coordinates, and counted. Confidence: the
    probabilities of the coordinates' tokens, the spread of drawn answers
    (--samples), or ocr's match. Other forms of data: `howsure grounding convert`;
    pictures of clicks: `howsure grounding overlay`.

    Example: howsure grounding run dataset_pkl --users 1-10 --model hf:Qwen/Qwen3-VL-8B-Instruct
    """
    from howsure.report.console import remarks
    from howsure.report.progress import progress_for
    from howsure.studies.grounding import carry_out, prepare

    prepared = prepare(
        data,
        model,
        users=users,
        delta=delta,
        parser=parser,
        frame=frame,
        prompt=None if prompt is None else prompt.replace("\\n", "\n"),
        max_new_tokens=max_new_tokens,
        max_pixels=max_pixels,
        samples=samples,
        temperature=temperature,
        logprobs=logprobs,
        batch_size=batch_size,
        image_root=image_root,
        boxes=boxes,
        box_units=box_units,
        max_samples=max_samples,
        skip_bad=skip_bad,
        base_url=base_url,
        **common.device_of(engine, device, gpus_per_worker),
        dtype=dtype,
        token_budget=token_budget,
        trust_remote_code=trust_remote_code,
        announce=common.announcer(quiet),
    )
    try:
        with common.engine_for(engine, quiet, address, workers, gpus_per_worker, cpus_per_worker) as doer:
            if dry_run:
                return common.print_plan(prepared.cost(), as_json)
            folder = common.run_folder(out, "grounding", quiet)
            progress = progress_for(remarks(), quiet)
            found = carry_out(
                prepared, data, out=folder, seed=seed, retry_failed=retry_failed, progress=progress, engine=doer
            )
    finally:
        prepared.close()
    return _report(found, as_json)


def _report(found: Any, as_json: bool) -> int:
    from howsure.report.console import output
    from howsure.report.grounding import print_grounding

    if as_json:
        common.print_json(found.summary)
    else:
        print_grounding(output(), found.summary, found.samples, found.run)
    return common.SOME_FAILED if found.failed else common.DONE


@app.command()
@common.command
def convert(
    data: Data,
    to: Annotated[Path, typer.Option(**common.LOCAL, help="The JSON lines file to be written.")],
    users: Users = None,
    parser: Parser = "strict",
    image_root: ImageRoot = None,
    boxes: Boxes = None,
    box_units: BoxUnits = None,
    max_samples: MaxSamples = None,
    skip_bad: SkipBad = False,
    as_json: common.AsJson = False,
    quiet: common.Quiet = False,
    dry_run: common.DryRun = False,
) -> int:
    """Any form of data as JSON lines: a sample a line, places in thousandths of the screen.

    Pickles need not be trusted: nothing in them is ever run.

    Example: howsure grounding convert dataset_pkl --to clicks.jsonl
    """
    from howsure.studies.grounding.reading.convert import check_new
    from howsure.studies.grounding.reading.convert import convert as convert_data
    from howsure.studies.grounding.reading.data import read_items
    from howsure.studies.grounding.reading.users import parse_users

    how: dict[str, Any] = {
        "users": parse_users(users),
        "image_root": image_root,
        "boxes": boxes,
        "box_units": box_units,
        "parser": parser,
        "skip_bad": skip_bad,
        "max_samples": max_samples,
    }
    if dry_run:
        check_new(to)
        return common.print_plan({"items": len(read_items(data, **how).items), "model_calls": 0}, as_json)
    found = convert_data(data, to, **how)
    if as_json:
        common.print_json(found._asdict())
    elif not quiet:
        left_out = f", {found.skipped} bad ones left out" if found.skipped else ""
        written = f"{found.written} samples written to {to}{left_out}"
        common.print_line(f"{written}; their image paths begin at {found.image_root}")
    return common.DONE


@app.command()
@common.command
def overlay(
    run_folder: Annotated[str, typer.Argument(parser=common.place, metavar="RUN", help="The run folder.")],
    ids: Annotated[list[str] | None, typer.Argument(help="Samples to draw, by their ids.")] = None,
    worst: Annotated[int, typer.Option(help="The so many farthest off.")] = 0,
    surely_wrong: Annotated[int, typer.Option(help="The so many that are wrong and most confident.")] = 0,
    every: Annotated[bool, typer.Option("--all", help="Every sample.")] = False,
    image_root: Annotated[
        Path | None, typer.Option(**common.LOCAL, help="Where the screens lie now, if they have moved since the run.")
    ] = None,
    to: Annotated[
        Path | None, typer.Option(**common.LOCAL, help="Folder for the pictures. Default: overlays in the run folder.")
    ] = (None),
    as_json: common.AsJson = False,
    quiet: common.Quiet = False,
    dry_run: common.DryRun = False,
) -> int:
    """Screens of a run with target, click and distance drawn on them, as PNG files.

    Example: howsure grounding overlay runs/first --worst 5 --surely-wrong 5
    """
    from howsure.runs import Run
    from howsure.storage.writing import put_back
    from howsure.studies.grounding.output.overlay import chosen_samples, write_overlays

    opened = Run(run_folder)
    which: dict[str, Any] = {"ids": ids, "worst": worst, "surely_wrong": surely_wrong, "every": every}
    if not (ids or worst or surely_wrong or every):
        which |= {"worst": 5, "surely_wrong": 5}
    if dry_run:
        return common.print_plan({"items": len(chosen_samples(opened, **which)), "model_calls": 0}, as_json)
    written = write_overlays(opened, to or opened.path / "overlays", image_root=image_root, **which)
    for path in written:
        put_back(path)
    if as_json:
        common.print_json([str(path) for path in written])
    elif not quiet:
        for path in written:
            common.print_line(path)
    return common.DONE
