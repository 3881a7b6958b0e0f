"""What every command shares: its options, its errors and its way of printing."""

from __future__ import annotations

import contextlib
import datetime
import functools
import itertools
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TextIO

import typer

from howsure.errors import HowsureError, InputError
from howsure.report.text import printable, printable_json

P = ParamSpec("P")

_made: list[Path] = []
"""Folders that this command made without being told where."""

DONE, SOME_FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
DEBUG_VARIABLE = "HOWSURE_DEBUG"

ModelOption = Annotated[
    str,
    typer.Option("--model", "-m", help="Model name; `howsure models` lists the kinds.", show_default=True),
]
BaseUrl = Annotated[
    str | None, typer.Option(help="Address of an OpenAI-compatible server, such as http://127.0.0.1:8080/v1.")
]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, mps. Default: a GPU where there is one.")]
TokenBudget = Annotated[int | None, typer.Option(help="Tokens run at once. Default: 2048 on a CPU, 16384 on a GPU.")]
Dtype = Annotated[
    str | None, typer.Option(help="float32, bfloat16, float16. Default: float32 on a CPU, the checkpoint's on a GPU.")
]
Compile = Annotated[
    bool, typer.Option("--compile", help="For long runs on a GPU: some 20 s of compiling, then about a third faster.")
]
TrustRemoteCode = Annotated[
    bool, typer.Option("--trust-remote-code", help="Let a checkpoint run Python code of its own.")
]
Seed = Annotated[int, typer.Option(help="Seed of everything that is drawn by chance.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print data instead of tables.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no remarks, only the result.")]
EngineName = Annotated[
    str, typer.Option("--engine", help="Who does the work: local, this process; ray, workers of Ray.")
]
Address = Annotated[
    str | None,
    typer.Option(
        "--address", help="With --engine ray: a cluster, such as 10.0.0.5:6379 or auto. Default: Ray on this machine."
    ),
]
Workers = Annotated[
    int | None, typer.Option(help="With --engine ray: how many, each with its own model. Default: all that have room.")
]
GpusPerWorker = Annotated[float | None, typer.Option(help="With --engine ray: 1, or a part such as 0.5. Default: 0.")]
CpusPerWorker = Annotated[
    float | None,
    typer.Option(help="With --engine ray: cores for each worker. Default: 1; for a network on CPUs as many as here."),
]
PLACE: dict[str, Any] = {"parser": lambda value: place(value), "metavar": "<path>"}
"""Of an option that takes a path of this machine or an address, such as s3://bucket/runs/first."""
LOCAL: dict[str, Any] = {"parser": lambda value: local_file(value), "metavar": "<path>"}
"""Of one that takes a path of this machine only."""
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say what it would take (items, model calls, tokens) and stop.")
]


def command(function: Callable[P, int | None]) -> Callable[P, None]:
    """A command: howsure's own errors become one sentence, and its return value the exit code."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            code = function(*args, **kwargs)
        except KeyboardInterrupt:
            say("stopped; what was finished is kept, and the same command with the same --out goes on from there")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            # The reader of our output has left (`howsure … | head`); there is nobody to tell.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(DONE) from None
        except HowsureError as error:
            if os.environ.get(DEBUG_VARIABLE):
                print_traceback()
            say(f"error: {error}")
            raise typer.Exit(error.exit_code) from None
        finally:
            _drop_empty_folders()
        raise typer.Exit(code or DONE)

    return run


def say(line: str) -> None:
    """A remark to the person at the terminal, apart from the output."""
    print_line(f"howsure: {line}", file=sys.stderr)


def print_line(value: object, file: TextIO | None = None) -> None:
    """One line, whatever stands in it: names of files hold line breaks and the codes that steer a terminal."""
    print_text(printable(str(value), one_line=True) + "\n", file)


def print_text(text: str, file: TextIO | None = None) -> None:
    """Lines as they are. Every command prints by these two, or on the consoles of `howsure.report.console`."""
    print(printable(text), end="", file=file, flush=file is sys.stderr)


def print_traceback() -> None:
    """Where the exception at hand came from; what it says is one line."""
    from howsure.storage import without_secrets

    error = sys.exception() if hasattr(sys, "exception") else sys.exc_info()[1]
    if error is None:
        return
    for part in traceback.TracebackException.from_exception(error).format():
        spoken = not part.startswith(("  ", "\n", "Traceback (most recent call last)"))
        print_text(printable(without_secrets(part).rstrip("\n"), one_line=spoken) + "\n", sys.stderr)


def announcer(quiet: bool) -> Callable[[str], None]:
    """How a model tells that it is fetching something: not at all where quiet was asked for."""
    return (lambda _: None) if quiet else say


def engine_for(
    engine: str,
    quiet: bool,
    address: str | None,
    workers: int | None,
    gpus_per_worker: float | None,
    cpus_per_worker: float | None,
) -> Any:
    """The engine of a command, for the time of a `with`."""
    from howsure.runs import engine_at_hand

    return engine_at_hand(
        engine,
        address=address,
        workers=workers,
        gpus_per_worker=gpus_per_worker,
        cpus_per_worker=cpus_per_worker,
        announce=announcer(quiet),
    )


def device_of(engine: str, device: str | None, gpus_per_worker: float | None) -> dict[str, Any]:
    """Where a model of this command will be, which need not be this machine."""
    from howsure.runs import placed

    return placed(engine, {"device": device}, gpus_per_worker)


def print_json(value: Any) -> None:
    from howsure.runs.files import to_json

    print(printable_json(to_json(value, indent=2).decode("utf-8")))


def print_plan(value: dict[str, Any], as_json: bool) -> int:
    """The answer of --dry-run."""
    if as_json:
        print_json(value)
    else:
        print_line("would take: " + ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in value.items()))
    return DONE


def given_or_piped(values: Sequence[str] | None, otherwise: str) -> list[str]:
    """The arguments; none at all means what is piped in, or an error where a person sits at the keyboard."""
    if values:
        return list(values)
    if sys.stdin.isatty():
        raise InputError(otherwise)
    return ["-"]


def total_cost(costs: list[dict[str, int]]) -> dict[str, int]:
    """What all models take together; the items are the same."""
    total = dict(costs[0])
    for cost in costs[1:]:
        total |= {name: total.get(name, 0) + count for name, count in cost.items() if name != "items"}
    return total


def place(value: str) -> str:
    """A path without what does not matter in it, or an address as it is."""
    from howsure.storage import checked, is_address

    try:
        given = checked(value)
    except InputError as error:
        raise typer.BadParameter(str(error)) from error  # in the words of click, which would repeat the value
    return str(given) if is_address(given) else str(Path(given))


def local_file(value: str) -> Path:
    """A path of this machine; an address is refused, which would else become folders of odd names."""
    from howsure.storage import is_address, shown

    path = place(value)
    if is_address(path):
        raise typer.BadParameter(f"{shown(path)} is an address, and this is a file or folder here: name a path")
    return Path(path)


def local_runs(value: str) -> Path:
    """A folder of this machine, for what looks into it again and again."""
    from howsure.storage import is_address, shown

    path = place(value)
    if is_address(path):
        raise typer.BadParameter(
            f"{shown(path)} is an address, and only runs on this machine can be viewed: copy them here first (aws s3 "
            f"sync, gsutil rsync), or write a page with `howsure report {shown(path)}`"
        )
    return Path(path)


def run_folder(out: str | None, study: str, quiet: bool) -> str:
    """The folder that the user named, or a new one, with a word about how to go on in it."""
    if out is not None:
        return out
    folder = str(new_run_folder(study))
    if not quiet:
        say(f"writing {folder}; if it is stopped, the same command with --out {folder} goes on")
    return folder


def new_run_folder(study: str) -> Path:
    """Where a run goes when the user named no folder: one of its own, though two may begin in the same second, and a
    time of day comes again when clocks are set back."""
    from howsure.runs.files import storage_errors

    name = f"{study}-{datetime.datetime.now():%Y%m%d-%H%M%S}"
    for number in itertools.count(1):
        folder = Path("runs") / (name if number == 1 else f"{name}-{number}")
        with storage_errors(folder), contextlib.suppress(FileExistsError):
            folder.mkdir(parents=True)
            break
    _made.append(folder)
    return folder


def _drop_empty_folders() -> None:
    """Those that were made for a run that was refused before it began."""
    for folder in _made:
        with contextlib.suppress(OSError):  # one that holds something stays
            folder.rmdir()
    _made.clear()
