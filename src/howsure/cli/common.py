"""What every command shares: its errors and its way of printing."""

from __future__ import annotations

import functools
import io
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TextIO

import typer

from howsure.errors import HowsureError, InputError
from howsure.report.text import printable, printable_json

P = ParamSpec("P")

DONE, SOME_FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
DEBUG_VARIABLE = "HOWSURE_DEBUG"

PLACE: dict[str, Any] = {"parser": lambda value: place(value), "metavar": "<path>"}
"""Of an option that takes a path of this machine or an address, such as s3://bucket/runs/first."""
LOCAL: dict[str, Any] = {"parser": lambda value: local_file(value), "metavar": "<path>"}
"""Of one that takes a path of this machine only."""


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
        raise typer.Exit(code or DONE)

    return run


def say(line: str) -> None:
    """A remark to the person at the terminal, apart from the output."""
    print_line(f"howsure: {line}", file=sys.stderr)


def print_line(value: object, file: TextIO | None = None) -> None:
    """One line, whatever stands in it: names of files hold line breaks and the codes that steer a terminal."""
    print_text(printable(str(value), one_line=True) + "\n", file)


def print_text(text: str, file: TextIO | None = None) -> None:
    """Lines as they are. Every command prints by these two, or on the consoles of `howsure.report.terminal`."""
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


class Output(io.TextIOWrapper):
    """Standard output as it was, and what became of it."""

    lost: OSError | None = None

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as error:
            self.lost = error
            raise

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            self.lost = error
            raise


def watched(stream: TextIO) -> TextIO:
    """The same stream, watched; one that is none of a real process is left as it is."""
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    return Output(
        stream.buffer,
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def lost() -> OSError | None:
    """Why what was printed is not all written; what is left of it is then dropped, or Python tries again at its end.

    That its reader has left (`howsure … | head`) is no loss: there is nobody to tell.
    """
    out = sys.stdout
    if not isinstance(out, Output):
        return None
    try:
        out.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
    return None if isinstance(out.lost, BrokenPipeError) else out.lost
