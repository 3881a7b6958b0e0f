"""The `howsure` command."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Annotated, Any

import typer

from howsure._version import __version__
from howsure.cli import common
from howsure.cli.commands import Root
from howsure.cli.compare import compare
from howsure.cli.demo import demo
from howsure.cli.entropy import entropy, theorem
from howsure.cli.grounding import app as grounding
from howsure.cli.models import app as ngram
from howsure.cli.models import ask, models, show
from howsure.cli.runs import export, report, runs
from howsure.cli.trust import app as trust
from howsure.cli.view import view
from howsure.errors import PicturesNotKept, ReportNotWritten
from howsure.report.text import printable

app = typer.Typer(
    name="howsure",
    cls=Root,
    help="How sure is the model, and should it be?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for one in (show, ask, compare, report, export, demo, models, runs, view):
    app.command()(one)
app.add_typer(trust)
app.add_typer(grounding)
app.add_typer(ngram)
# A number such as -0.5 is for `entropy` to refuse in a sentence; it is not an option -0.
app.command(context_settings={"ignore_unknown_options": True})(entropy)
app.command()(theorem)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"howsure {__version__}")
        raise typer.Exit


@app.callback()
def top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks; may stand anywhere.")] = False,
) -> None:
    """How sure is the model, and should it be?

    Example: howsure show "The capital of France is Paris, not Berlin."
    """


def main() -> None:
    """Entry point. --debug may stand anywhere on the line; a polite end (SIGTERM) is taken like Ctrl-C."""
    if "--debug" in sys.argv:
        sys.argv.remove("--debug")
        os.environ[common.DEBUG_VARIABLE] = "1"
    signal.signal(signal.SIGTERM, _interrupt)
    warnings.showwarning = _as_remark(warnings.showwarning)
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_Printable())
    # Importing torch and transformers makes a million objects that stay. Looking through them for garbage, again and
    # again while they come and once more at the end, takes a quarter of the time of a short command.
    gc.set_threshold(200_000, 20, 50)
    sys.stdout = common.watched(sys.stdout)
    try:
        app()
    except (SystemExit, Exception) as error:  # a command always ends in the first
        if (lost := common.lost()) is not None:
            common.say(f"error: the output cannot be written ({lost.strerror}); what is in run folders is safe")
            sys.exit(common.BAD_INPUT)
        if isinstance(error, SystemExit):
            raise
        common.print_traceback()
        sys.exit(common.SOME_FAILED)
    finally:
        gc.freeze()


class _Printable(logging.Formatter):
    """For what packages log, which may quote anybody."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def _as_remark(usual: Callable[..., None]) -> Callable[..., None]:
    """A warning of ours is one sentence to the person at the terminal; others are shown as ever."""

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, (ReportNotWritten, PicturesNotKept)):
            common.say(str(message))
        else:
            usual(printable(str(message)), category, *place, **more)

    return show


def _interrupt(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt
