"""`howsure trust`: the group of its two studies, the commands `analyse` and `maps`, and the talk between steps."""

from __future__ import annotations

import sys
from typing import Annotated, Any, ClassVar

import typer

from howsure.cli import common
from howsure.cli.groups import RunsByDefault


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


@app.command()
@common.command
def analyse(
    logs: Annotated[list[str], typer.Argument(parser=common.place, help="steps.csv files, written here or elsewhere.")],
    seed: common.Seed = 0,
    as_json: common.AsJson = False,
    quiet: common.Quiet = False,
    dry_run: common.DryRun = False,
) -> int:
    """Trust from logs that exist already: CSV files with the three entropies of each step.

    Wanted are the columns entropy_H_X, entropy_H_X_given_S and
    entropy_H_X_given_LS, in bits; `step`, `episode` and `trust_T` are used where
    they are. Rows that are incomplete are counted, and never filled in.

    Example: howsure trust analyse runs/first/steps.csv
    """
    from howsure.report.console import output
    from howsure.report.trust_log import print_analysis
    from howsure.studies.trust.logs import analyse as analyse_logs

    if dry_run:
        return common.print_plan({"items": len(logs), "model_calls": 0}, as_json)
    analysis = analyse_logs(logs, seed=seed)
    if as_json:
        common.print_json(analysis.summary)
    else:
        print_analysis(output(), analysis.summary)
    return common.SOME_FAILED if analysis.failed else common.DONE


@app.command()
@common.command
def maps(
    name: Annotated[
        str | None, typer.Argument(help="A map to be shown whole, as JSON to begin one's own with.")
    ] = None,
    as_json: common.AsJson = False,
    quiet: common.Quiet = False,
    dry_run: common.DryRun = False,
) -> int:
    """The maps that come with howsure, or one of them whole.

    Example: howsure trust maps home > mine.json
    """
    from howsure.report.console import output
    from howsure.report.trust import print_maps
    from howsure.studies.trust.world.worlds import map_text, shipped_maps

    if dry_run:
        return common.print_plan({"items": len(shipped_maps()), "model_calls": 0}, as_json)
    if name is not None:
        common.print_text(map_text(name))
    elif as_json:
        common.print_json(shipped_maps())
    else:
        print_maps(output(), shipped_maps())
    return common.DONE


# -- what goes on between the steps of a run --------------------------------------------------------------------------


def hooks(view: Any) -> dict[str, Any]:
    """Whom a run asks before a step, and whom it tells after it; a progress bar would stand in the way of both."""
    from howsure.report.console import output, remarks
    from howsure.report.trust import print_step
    from howsure.runs import NoProgress

    console = remarks() if view.as_json else output()
    chosen: dict[str, Any] = {}
    if view.interactive:
        chosen["listen"] = Conversation(view.quiet)
    if view.verbose:
        chosen["on_step"] = lambda sample: print_step(console, sample)
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
