"""The commands of all studies: each is made from what its study declares, when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from howsure.cli import common
from howsure.cli.commands import View, command
from howsure.errors import InputError
from howsure.options import Opt, names_of
from howsure.studies import registry

if TYPE_CHECKING:
    from howsure.studies.study import Study


@dataclass(frozen=True, kw_only=True)
class FlipsView(View):
    flips: Annotated[int, Opt("When two runs are compared: how many flips of each kind to show.")] = 5


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


@dataclass(frozen=True, kw_only=True)
class TurnsView(View):
    detailed: Annotated[bool, Opt("Show one simulation turn by turn.")] = False
    simulation: Annotated[int, Opt("Which simulation --detailed shows, from 1.")] = 1
    plot: Annotated[
        Path | None, Opt("Draw failures avoided against interventions into this .svg or .png.", path="local")
    ] = None

    def check(self, options: Any, items: Any = None) -> None:
        if self.plot is not None:
            from howsure.report.plots import check_plot

            check_plot(self.plot)
            if not options.policy:
                raise InputError(
                    "--plot draws what interventions save: give at least one --policy, such as confirm:1:0.3"
                )
        if items is not None and self.detailed and not 1 <= self.simulation <= len(items.items):
            raise InputError(f"--simulation must be 1 to {len(items.items)}, not {self.simulation}")

    def deliver(self, result: Any) -> None:
        if self.detailed and not self.as_json:
            from howsure.report.terminal import output, print_document
            from howsure.report.trajectories import detailed

            chosen = result.trajectories[self.simulation - 1]
            print_document(output(), detailed(chosen, self.simulation, verbose=result.rows.verbose))
        if self.plot is not None:
            from howsure.report.plots import plot_interventions

            plot_interventions(result.summary.groups, self.plot)


@dataclass(frozen=True)
class Shown:
    """What can be chosen of how a study's result is shown."""

    view: type[View] = View
    hooks: str | None = None
    """`module:function` of (view), which gives more options: whom a study asks and tells meanwhile."""


SHOWN = {
    "mcq": Shown(FlipsView),
    "grounding": Shown(FlipsView),
    "trajectories": Shown(TurnsView),
    "trust": Shown(StepsView, "howsure.cli.trust:hooks"),
}


def study_command(name: str) -> Any:
    """The command of one study."""
    study = registry.study_named(name)
    shown = SHOWN.get(name, Shown())

    @command(study.options, shown.view, study.help)
    def made(options: Any, view: View) -> int:
        return run(study, shown, options, view)

    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    single.command(name=name.rpartition(" ")[2], context_settings={"help_option_names": ["-h", "--help"]})(made)
    return typer.main.get_command(single)


def run(study: Study[Any], shown: Shown, options: Any, view: View) -> int:
    """One Python call, and one printing."""
    from howsure.report.progress import progress_for
    from howsure.report.terminal import SHOWN_CARDS, output, print_result, remarks
    from howsure.runs.run import prepared

    hooks = {} if shown.hooks is None else _function(shown.hooks)(view)
    if "announce" in names_of(study.options):
        hooks["announce"] = common.announcer(view.quiet)
    options = options.with_(**{"progress": progress_for(remarks(), view.quiet)} | hooks)
    view.check(options)
    with prepared(study, options) as ready:
        view.check(options, ready.items)
        if view.dry_run:
            return common.print_plan(ready.cost(), view.as_json)
        result = ready.run()
    if view.as_json:
        common.print_json(result.comparison if hasattr(result, "comparison") else result.summary)
    else:
        print_result(output(), study.name, result, cards=getattr(view, "flips", SHOWN_CARDS))
    view.deliver(result)
    return common.SOME_FAILED if result.failed else common.DONE


def _function(place: str) -> Callable[..., Any]:
    module, _, name = place.partition(":")
    function: Callable[..., Any] = getattr(import_module(module), name)
    return function
