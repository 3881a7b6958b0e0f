"""Commands made from declared options: one Python call, and one printing of what came of it.

@command(ShowOptions)
def show(options: ShowOptions, view: View) -> int:
    '''Its help.'''

Some commands are studies, which are imported when they are asked for, not when they are listed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from howsure.cli import common
from howsure.options import Declared, Opt, Options, declared, names_of
from howsure.studies import registry

Chosen = TypeVar("Chosen", bound=Options)


@dataclass(frozen=True, kw_only=True)
class View(Options):
    """What concerns the terminal alone."""

    as_json: Annotated[bool, Opt("Print data instead of tables.", flags=("--json",))] = False
    quiet: Annotated[bool, Opt("Print only the result: no progress, no remarks.", flags=("--quiet", "-q"))] = False
    dry_run: Annotated[bool, Opt("Print what it would take (items, model calls, tokens) and stop.")] = False

    def check(self, options: Any, items: Any = None) -> None:
        """Refuse what cannot be shown: before anything is read, and again when the data is known."""

    def deliver(self, result: Any) -> None:
        """Draw or write what was asked for beside the printing."""


def command(
    options: type[Chosen], view: type[View] = View, help: str | None = None
) -> Callable[[Callable[[Chosen, Any], int]], Callable[..., None]]:
    """A command with the options of a class, and those of its view; its help is the function's docstring."""

    def made(function: Callable[[Chosen, Any], int]) -> Callable[..., None]:
        def run(**given: Any) -> int:
            seen = view(**{name: given.pop(name) for name in names_of(view)})
            return function(options(**given), seen)

        made = common.command(run)
        shown = [one for kind in (options, view) for one in declared(kind) if one.about is not None]
        made.__signature__ = inspect.Signature([_parameter(one) for one in shown])  # type: ignore[attr-defined]
        made.__annotations__ = {}
        made.__name__, made.__doc__ = function.__name__, help or function.__doc__
        return made

    return made


def _parameter(option: Declared) -> inspect.Parameter:
    about = option.about
    assert about is not None
    more: dict[str, Any] = {"help": about.help}
    kind: Any = option.type
    if about.path is not None:
        more |= common.PLACE if about.path == "any" else common.LOCAL
        if about.argument:
            del more["metavar"]
        if kind != list[str]:
            kind = str if about.path == "any" else Path
    elif about.escapes:
        more["parser"] = _unescaped
    if about.metavar is not None:
        more["metavar"] = about.metavar
    if option.takes_none:
        kind = kind | None
    default, info = option.default, typer.Option(*(about.flags or (option.switch,)), **more)
    if about.argument:
        info = typer.Argument(**more)
        default = None if option.takes_none and default is inspect.Parameter.empty else default
    return inspect.Parameter(
        option.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, info]
    )


def _unescaped(text: str) -> str:
    return text.replace("\\n", "\n")


class Lazy(TyperCommand):
    """A study's command: its name and its line; what it takes is found out when somebody asks."""

    def __init__(self, name: str, study: str) -> None:
        self._study = study
        self._made: Any = None
        super().__init__(name, help=registry.line_of(study))

    @property
    def made(self) -> Any:
        if self._made is None:
            from howsure.cli.studies import study_command

            self._made = study_command(self._study)
        return self._made

    @property
    def params(self) -> Any:
        return self.made.params

    @params.setter
    def params(self, _: Any) -> None:
        """Those of the command itself count."""

    def make_context(self, *given: Any, **more: Any) -> Any:
        return self.made.make_context(*given, **more)


class StudyGroup(TyperGroup):
    """Commands that were given to it, and studies."""

    studies: ClassVar[dict[str, str]] = {}
    """By its name in this group: the study."""
    first: ClassVar[tuple[str, ...]] = ()
    """Commands that are listed before the studies."""

    @property  # type: ignore[override]
    def commands(self) -> dict[str, Any]:
        own, names = self._own, self._studies()
        first = {name: own[name] for name in self.first}
        return first | {name: Lazy(name, names[name]) for name in names if name not in own} | own

    @commands.setter
    def commands(self, own: Any) -> None:
        self._own = dict(own)

    def _studies(self) -> dict[str, str]:
        return self.studies


class Root(StudyGroup):
    """`howsure`: every study that has no group of its own, those that were added too."""

    first = ("show", "ask")

    def _studies(self) -> dict[str, str]:
        return {name: name for name in registry.names() if " " not in name}


class RunsByDefault(StudyGroup):
    """`howsure trust MAP …` is `howsure trust run MAP …`: what is none of the commands is what to run on."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands:
            args = ["run", *args]
        return super().parse_args(ctx, args)
