"""`howsure trust`, and its commands `analyse`, `coherent` and `maps`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from howsure.cli import common
from howsure.cli.groups import RunsByDefault

app = typer.Typer(
    name="trust",
    help="What grounding and language each do to a model's action entropy, step by step in a grid world.",
    cls=RunsByDefault,
    no_args_is_help=True,
)

World = Annotated[
    str,
    typer.Argument(
        help="A map (a .json file, or one of `howsure trust maps`) or the name of a MiniGrid or BabyAI environment."
    ),
]
Evidence = Annotated[
    str | None,
    typer.Option(
        help="scored: the exact distribution over the actions. logprobs: the action inside a JSON answer. verbalized: "
        "probabilities that the model writes down. Default: scored for models on this machine, logprobs for servers."
    ),
]
View = Annotated[
    str | None,
    typer.Option(help="What the model sees: image, text or both. Default: image if it is known to see, else text."),
]
TopLogprobs = Annotated[int, typer.Option(help="Alternatives asked for at each token, with --evidence logprobs.")]
MaxTokens = Annotated[int | None, typer.Option(help="Longest answer. Default: 256, and 512 for verbalized.")]
Temperature = Annotated[float, typer.Option(help="Of answers that are written; 0 takes the likeliest token.")]


@app.callback()
def top() -> None:
    """What grounding and language each do to a model's action entropy, step by step in a grid world.

    Example: howsure trust home --model smollm2
    """


@app.command()
@common.command
def run(
    world: World,
    model: common.ModelOption = "smollm2",
    evidence: Evidence = None,
    instruction: Annotated[
        str | None, typer.Option(help="The language instruction L. Default: the world's own mission.")
    ] = None,
    grounding: Annotated[
        str | None,
        typer.Option(
            **common.PLACE,
            help="What is known about the place, S: a sentence a line, or a JSON list. Default: what comes with a map "
            "of `howsure trust maps`, else nothing.",
        ),
    ] = None,
    episodes: Annotated[
        int,
        typer.Option(help="How many episodes; each begins with the next seed. T takes at least 5 independent ones."),
    ] = 1,
    max_steps: Annotated[int, typer.Option(help="Longest episode.")] = 20,
    view: View = None,
    interactive: Annotated[
        bool,
        typer.Option(
            "--interactive",
            help="Before each step, wait for a line: feedback, which becomes a sentence of knowledge; :i TEXT, a new "
            "instruction; :k, what is known; :q, stop; nothing, go on.",
        ),
    ] = False,
    own_grounding: Annotated[
        bool,
        typer.Option(
            "--own-grounding", help="What the model itself says about the place (without the instruction) is kept too."
        ),
    ] = False,
    carry: Annotated[
        bool,
        typer.Option(
            "--carry",
            help="An episode begins with what was known at the end of the one before; all of them then count as one.",
        ),
    ] = False,
    summarise: Annotated[
        bool,
        typer.Option("--summarise", help="Let the model word what an episode met with; otherwise plain facts."),
    ] = False,
    act: Annotated[
        str,
        typer.Option(
            help="best: the likeliest action is taken, or the one that was written. sample: one that is drawn from the "
            "distribution, so that episodes on one map differ."
        ),
    ] = "best",
    clock: Annotated[
        str | None,
        typer.Option(
            help="What `timestamp` is: real, the time of day; world, one second a step from 2000-01-01 on, so that "
            "equal runs give equal files. Default: world for scored models on this machine, else real."
        ),
    ] = None,
    frames: Annotated[
        bool, typer.Option("--frames/--no-frames", help="Keep every frame, and make a replay of them.")
    ] = True,
    out: Annotated[
        str | None,
        typer.Option(
            **common.PLACE, help="Run folder; an unfinished run in it is taken up. Default: runs/trust-<time>."
        ),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Every step with its three answers.")] = False,
    top_logprobs: TopLogprobs = 10,
    vocab_size: Annotated[
        int | None,
        typer.Option(
            help="Tokens in the model's vocabulary; entropies from log-probabilities, and T, get closer bounds by it."
        ),
    ] = None,
    max_tokens: MaxTokens = None,
    temperature: Temperature = 0.0,
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
    """How much grounding and language each reduce a model's uncertainty about its next action.

    At every step the model is asked three times at once: with nothing (X), with
    what is known about the place (X|S), and with the instruction as well (X|L,S),
    whose action is taken. T = (H(X) − H(X|S)) / (H(X) − H(X|L,S)), entropies in
    bits: the part of what was gained that grounding gives alone. It is shown for
    5 independent episodes or more, where something was gained. Each action is set
    against the shortest path. Logs that exist already: `howsure trust analyse`;
    one joint distribution: `howsure trust coherent`; the maps that come with
    howsure: `howsure trust maps`.

    Example: howsure trust run home --model smollm2 --episodes 10 --act sample
    """
    from howsure.report.console import output, remarks
    from howsure.report.progress import progress_for
    from howsure.report.trust import print_step, print_trust_run
    from howsure.studies.trust import carry_out, prepare

    prepared = prepare(
        world,
        model,
        evidence=evidence,
        instruction=instruction,
        grounding=grounding,
        episodes=episodes,
        max_steps=max_steps,
        view=view,
        own_grounding=own_grounding,
        carry=carry,
        summarise=summarise,
        act=act,
        clock=clock,
        frames=frames,
        top_logprobs=top_logprobs,
        vocab_size=vocab_size,
        max_tokens=max_tokens,
        temperature=temperature,
        interactive=interactive,
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
            folder = common.run_folder(out, "trust", quiet)
            console = remarks() if as_json else output()
            found = carry_out(
                prepared,
                out=folder,
                seed=seed,
                listen=Conversation(quiet) if interactive else None,
                on_step=(lambda sample: print_step(console, sample)) if verbose else None,
                progress=progress_for(remarks(), quiet or verbose or interactive),
                engine=doer,
            )
    finally:
        prepared.close()
    return _report(found, as_json, print_trust_run)


def _report(found: Any, as_json: bool, show: Callable[..., None]) -> int:
    from howsure.report.console import output

    if as_json:
        common.print_json(found.summary)
    else:
        show(output(), found.summary, found.samples, found.run)
    return common.SOME_FAILED if found.failed else common.DONE


class Conversation:
    """What a person at the keyboard says between two steps; the end of the input means: go on by yourself."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._ended = False

    def __call__(self, episode: Any) -> Any:
        from howsure.studies.trust import Told

        told = Told()
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
                told = told._replace(instruction=said[3:].strip())
                common.say(f"the instruction is now: {told.instruction}")
            elif said.startswith(":"):
                common.say(f"{said} is unknown: :i TEXT gives an instruction, :k shows what is known, :q stops")
            else:
                return told._replace(feedback=said or None)
        return told

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
    found = analyse_logs(logs, seed=seed)
    if as_json:
        common.print_json(found.summary)
    else:
        print_analysis(output(), found.summary)
    return common.SOME_FAILED if found.failed else common.DONE


@app.command()
@common.command
def coherent(
    world: World,
    instructions: Annotated[str, typer.Option(**common.PLACE, help="Instructions l, one a line.")],
    groundings: Annotated[
        str,
        typer.Option(
            **common.PLACE, help="Groundings s: blocks of lines with an empty line between; `-` alone is an empty one."
        ),
    ],
    model: common.ModelOption = "smollm2",
    evidence: Evidence = None,
    states: Annotated[int, typer.Option(help="States of the world to ask in, along a shortest way.")] = 5,
    view: View = None,
    out: Annotated[
        str | None,
        typer.Option(
            **common.PLACE, help="Run folder; an unfinished run in it is taken up. Default: runs/trust-<time>."
        ),
    ] = None,
    top_logprobs: TopLogprobs = 10,
    max_tokens: MaxTokens = None,
    temperature: Temperature = 0.0,
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
    """Trust from one joint distribution: T = I(X;S) / I(X;S,L), which lies in [0, 1].

    The model is asked with every pair of an instruction and a grounding; p(x|s)
    and p(x) are mixtures of its answers. Beside T stands what the wording of the
    prompts alone would give.

    Example: howsure trust coherent home --instructions l.txt --groundings s.txt
    """
    from howsure.report.console import remarks
    from howsure.report.progress import progress_for
    from howsure.report.trust import print_coherent_run
    from howsure.studies.trust import coherent as study
    from howsure.studies.trust import prepare

    asking = study.read_asking(instructions, groundings, states)
    prepared = prepare(
        world,
        model,
        evidence=evidence,
        view=view,
        top_logprobs=top_logprobs,
        max_tokens=max_tokens,
        temperature=temperature,
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
                return common.print_plan(study.cost(prepared, asking, seed), as_json)
            folder = common.run_folder(out, "trust", quiet)
            progress = progress_for(remarks(), quiet)
            found = study.carry_out(prepared, asking, out=folder, seed=seed, progress=progress, engine=doer)
    finally:
        prepared.close()
    return _report(found, as_json, print_coherent_run)


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
    from howsure.studies.trust.shipped import map_text, shipped_maps

    if dry_run:
        return common.print_plan({"items": len(shipped_maps()), "model_calls": 0}, as_json)
    if name is not None:
        common.print_text(map_text(name))
    elif as_json:
        common.print_json(shipped_maps())
    else:
        print_maps(output(), shipped_maps())
    return common.DONE
