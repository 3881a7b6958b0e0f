"""The commands of all studies: each is made from what its study declares, when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer

from howsure.cli import common
from howsure.cli.commands import command_of, parameters
from howsure.options import Opt, Options, names_of
from howsure.studies import registry

if TYPE_CHECKING:
    from howsure.studies.study import Study


@dataclass(frozen=True, kw_only=True)
class View(Options):
    """What concerns the terminal alone."""

    as_json: Annotated[bool, Opt("Print data instead of tables.", flags=("--json",))] = False
    quiet: Annotated[bool, Opt("No progress and no remarks, only the result.", flags=("--quiet", "-q"))] = False
    dry_run: Annotated[bool, Opt("Say what it would take (items, model calls, tokens) and stop.")] = False


@dataclass(frozen=True, kw_only=True)
class FlipsView(View):
    flips: Annotated[int, Opt("With --model-b: how many flips of each kind to show.")] = 5


@dataclass(frozen=True, kw_only=True)
class StepsView(View):
    verbose: Annotated[bool, Opt("Every step with its three answers.", flags=("--verbose", "-v"))] = False
    interactive: Annotated[
        bool,
        Opt(
            "Before each step, wait for a line: feedback, which becomes a sentence of knowledge; :i TEXT, a new "
            "instruction; :k, what is known; :q, stop; nothing, go on."
        ),
    ] = False


@dataclass(frozen=True)
class Shown:
    """How a study's result is printed, and what of that can be chosen."""

    printer: str
    """`module:function` of (console, result, view)."""
    view: type[View] = View
    hooks: str | None = None
    """`module:function` of (view), which gives more options: whom a study asks, and whom it tells, meanwhile."""


SHOWN = {
    "mcq": Shown("howsure.report.mcq:print_result", FlipsView),
}
PLAIN = Shown("howsure.report.tables:print_result")


def study_command(name: str) -> Any:
    """The command of one study."""
    study = registry.study_named(name)
    shown = SHOWN.get(name, PLAIN)

    def function(given: dict[str, Any]) -> int:
        return run(study, shown, given)

    made = command_of(function, [*parameters(study.options), *parameters(shown.view)], study.help)
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    single.command(name=name.rpartition(" ")[2], context_settings={"help_option_names": ["-h", "--help"]})(made)
    return typer.main.get_command(single)


def run(study: Study[Any], shown: Shown, given: dict[str, Any]) -> int:
    """One Python call, and one printing."""
    from howsure.report.console import output, remarks
    from howsure.report.progress import progress_for
    from howsure.runs.run import prepared

    view = shown.view(**{name: given.pop(name) for name in names_of(shown.view)})
    hooks = {} if shown.hooks is None else _function(shown.hooks)(view)
    quiet = view.quiet or bool(hooks)
    known = names_of(study.options)
    more = {"announce": common.announcer(view.quiet)} if "announce" in known else {}
    options: Any = study.options(**given | hooks | more | {"progress": progress_for(remarks(), quiet)})
    with prepared(study, options) as ready:
        if view.dry_run:
            return common.print_plan(ready.cost(), view.as_json)
        result = ready.run()
    if view.as_json:
        common.print_json(result.comparison if hasattr(result, "comparison") else result.summary)
    else:
        _function(shown.printer)(output(), result, view)
    return common.SOME_FAILED if result.failed else common.DONE


def print_comparison(study: str, comparison: Any, flips: int) -> None:
    """As the study itself prints a pair of runs."""
    from howsure.report.console import output
    from howsure.runs.run import Pair

    _function(SHOWN.get(study, PLAIN).printer)(output(), Pair(None, None, comparison), FlipsView(flips=flips))


def _function(place: str) -> Callable[..., Any]:
    module, _, name = place.partition(":")
    function: Callable[..., Any] = getattr(import_module(module), name)
    return function
