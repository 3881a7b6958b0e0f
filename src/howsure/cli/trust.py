"""`howsure trust`: the group of its two studies, the commands `analyse` and `maps`, and the talk between steps."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar

import typer

from howsure.cli import common
from howsure.cli.commands import RunsByDefault, View, command
from howsure.options import Opt, Options


class TrustGroup(RunsByDefault):
    studies: ClassVar[dict[str, str]] = {"run": "trust", "coherent": "trust coherent"}


app = typer.Typer(
    name="trust",
    help="What grounding and language each do to a model's action entropy, step by step in a grid world.",
    cls=TrustGroup,
    no_args_is_help=True,
)


@app.callback()
def top() -> None:
    """What grounding and language each do to a model's action entropy, step by step in a grid world.

    Example: howsure trust home --model smollm2
    """


@dataclass(frozen=True)
class AnalyseOptions(Options):
    logs: Annotated[Sequence[str], Opt("steps.csv files, written here or elsewhere.", argument=True, path="any")]
    _: KW_ONLY
    seed: Annotated[int, Opt("Random seed.", least=0)] = 0


@app.command()
@command(AnalyseOptions)
def analyse(options: AnalyseOptions, view: View) -> int:
    """Trust from existing logs: CSV files with the three entropies of each step.

    Required columns: entropy_H_X, entropy_H_X_given_S and entropy_H_X_given_LS,
    in bits; `step`, `episode` and `trust_T` are used if present. Incomplete rows
    are counted, and never filled in.

    Example: howsure trust analyse runs/first/steps.csv
    """
    from howsure.report.terminal import output, print_document
    from howsure.report.views import document_of
    from howsure.studies.trust.logs import analyse as analyse_logs

    if view.dry_run:
        return common.print_plan({"items": len(options.logs), "model_calls": 0}, view.as_json)
    analysis = analyse_logs(options.logs, seed=options.seed)
    if view.as_json:
        common.print_json(analysis.summary)
    else:
        print_document(output(), document_of("trust", analysis.summary, None))
    return common.SOME_FAILED if analysis.failed else common.DONE


@dataclass(frozen=True)
class MapsOptions(Options):
    name: Annotated[str | None, Opt("A map to print as JSON, to start your own from.", argument=True)] = None


@app.command()
@command(MapsOptions)
def maps(options: MapsOptions, view: View) -> int:
    """List the maps that come with howsure, or print one.

    Example: howsure trust maps home > mine.json
    """
    from howsure.report.document import Document, Head, Prose, Section, Table
    from howsure.report.terminal import output, print_document
    from howsure.studies.trust.world.worlds import map_text, shipped_maps

    if view.dry_run:
        return common.print_plan({"items": len(shipped_maps()), "model_calls": 0}, view.as_json)
    if options.name is not None:
        common.print_text(map_text(options.name))
    elif view.as_json:
        common.print_json(shipped_maps())
    else:
        rows = [(one["name"], f"{one['width']}×{one['height']}", one["instruction"]) for one in shipped_maps()]
        table = Table(["map", "size", Head("instruction", cut=True)], rows)
        more = Prose("howsure trust maps NAME prints one whole; howsure trust NAME runs in it")
        print_document(output(), Document("", sections=[Section("", [table, more])]))
    return common.DONE


# -- what goes on between the steps of a run --------------------------------------------------------------------------


def hooks(view: Any) -> dict[str, Any]:
    """Whom a run asks before a step, and whom it tells after it; a progress bar would stand in the way of both."""
    from howsure.report.terminal import output, print_document, remarks
    from howsure.report.trust_steps import step_document
    from howsure.runs import NoProgress

    console = remarks() if view.as_json else output()

    def tell(sample: Any) -> None:
        print_document(console, step_document(sample))
        console.print()

    chosen: dict[str, Any] = {}
    if view.interactive:
        chosen["listen"] = Conversation(view.quiet)
    if view.verbose:
        chosen["on_step"] = tell
    return chosen | {"progress": NoProgress()} if chosen else {}


class Conversation:
    """What a person at the keyboard says between two steps; the end of the input means: go on alone."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._ended = False

    def __call__(self, episode: Any) -> Any:
        from howsure.studies.trust import UserInput

        instruction = None
        if not self._ended:
            self._say(episode.told_last())
        while not self._ended:
            said = self._hear(f"episode {episode.number}, before step {episode.steps + 1}> ")
            if said is None:
                break
            if said in (":q", ":quit"):
                raise KeyboardInterrupt
            if said == ":k":
                for sentence in episode.knowledge or ["nothing is known yet"]:
                    common.say(sentence)
            elif said.startswith(":i ") and said[3:].strip():
                instruction = said[3:].strip()
                common.say(f"the instruction is now: {instruction}")
            elif said.startswith(":"):
                common.say(f"{said} is unknown: :i TEXT gives an instruction, :k shows what is known, :q stops")
            else:
                return UserInput(said or None, instruction)
        return UserInput(None, instruction)

    def _hear(self, invitation: str) -> str | None:
        """A line; None at the end of the input."""
        if not self._quiet:
            common.print_text(invitation, sys.stderr)
        line = sys.stdin.readline()
        self._ended = not line
        if self._ended and not self._quiet:
            common.print_text("\n", sys.stderr)
        return line.strip() if line else None

    def _say(self, words: str) -> None:
        if not self._quiet:
            common.say(words)
