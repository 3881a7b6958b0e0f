"""Commands made from the options that studies declare: one Python call, and one printing of what came of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from howsure.cli import common
from howsure.options import Declared, Options, declared


def parameters(kind: type[Options]) -> list[inspect.Parameter]:
    """The options of a class as parameters of a command, in the order of the class."""
    return [_parameter(option) for option in declared(kind) if option.about is not None]


def command_of(
    function: Callable[[dict[str, Any]], int], parameters: Sequence[inspect.Parameter], help_text: str
) -> Callable[..., None]:
    """A command with these parameters, which are given to the function as a dictionary."""

    def run(**given: Any) -> int:
        return function(given)

    command = common.command(run)
    command.__signature__ = inspect.Signature(list(parameters))  # type: ignore[attr-defined]
    command.__annotations__ = {}
    command.__doc__ = help_text
    return command


def _parameter(option: Declared) -> inspect.Parameter:
    about = option.about
    assert about is not None
    more: dict[str, Any] = {"help": about.help}
    kind: Any = option.type
    if about.path is not None:
        more |= common.PLACE if about.path == "any" else common.LOCAL
        if about.argument:
            del more["metavar"]
        kind = str if about.path == "any" else Path
    elif about.escapes:
        more["parser"] = _unescaped
    if about.metavar is not None:
        more["metavar"] = about.metavar
    if option.takes_none:
        kind = kind | None
    if about.argument:
        info: Any = typer.Argument(**more)
    else:
        info = typer.Option(*(about.flags or (option.switch,)), **more)
    return inspect.Parameter(
        option.name, inspect.Parameter.KEYWORD_ONLY, default=option.default, annotation=Annotated[kind, info]
    )


def _unescaped(text: str) -> str:
    return text.replace("\\n", "\n")
