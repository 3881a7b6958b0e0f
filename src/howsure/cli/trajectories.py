"""`howsure trajectories`."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from howsure.cli import common


@common.command
def trajectories(
    results: Annotated[
        list[str],
        typer.Argument(
            help="τ²-bench results (a file, a folder, a pattern in quotes), chats as JSON lines, Inspect .eval logs."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", **common.LOCAL, help="Write every turn and run with its scores to this JSON file."
        ),
    ] = None,
    detailed: Annotated[bool, typer.Option("--detailed", help="Show one simulation turn by turn.")] = False,
    simulation: Annotated[int, typer.Option(help="Which simulation --detailed shows, from 1.")] = 1,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Statistics of each turn, and running values of each score.")
    ] = False,
    tokens: Annotated[bool, typer.Option("--tokens", help="Every turn token by token; makes --output large.")] = False,
    score_with: Annotated[
        str | None,
        typer.Option(
            "--score-with",
            help="A local chat model, such as smollm2, that reads the conversations which hold no log-probabilities.",
        ),
    ] = None,
    distances: Annotated[
        bool,
        typer.Option(
            "--distances",
            help="Embed every message (MiniLM): weights by inquiry drift and inference gap, and learned weights, both "
            "adapted from SAUP.",
        ),
    ] = False,
    judged: Annotated[
        bool, typer.Option("--judge/--no-judge", help="Set scores and alarms against the rewards in the logs.")
    ] = True,
    watch: Annotated[str, typer.Option(help="Whose turns raise alarms: agent, user or overall.")] = "agent",
    false_alarms: Annotated[
        float,
        typer.Option(
            help="Rate of false alarms that thresholds aim at: the share of successful runs with an alarm, on average "
            "over draws of such runs. No guarantee for the runs at hand."
        ),
    ] = 0.1,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="What to do at an alarm, as name:cost:rescue[:spoil], such as confirm:1:0.3 or handover:10:0.9:0.05: "
            "the chances to rescue a failing run and to spoil one that would have succeeded; may be repeated."
        ),
    ] = None,
    detector: Annotated[
        str,
        typer.Option(
            help="The alarms that policies act on: threshold, cusum, level_change, or turn_count, the baseline to beat."
        ),
    ] = "cusum",
    failure_cost: Annotated[
        float | None, typer.Option(help="What a failed run costs, in the unit of the policies' costs.")
    ] = None,
    notice: Annotated[
        int, typer.Option(help="Turns that must be left after an alarm for a rescue to be possible.")
    ] = 1,
    plot: Annotated[
        Path | None,
        typer.Option(**common.LOCAL, help="Draw failures avoided against interventions into this .svg or .png."),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            **common.PLACE,
            help="Run folder; an unfinished run in it is taken up. Default: none, and with --score-with or --distances "
            "runs/trajectories-<time>.",
        ),
    ] = None,
    window: Annotated[
        int | None, typer.Option(help="Tokens that the model of --score-with sees at once. Default: its context.")
    ] = None,
    stride: Annotated[
        int | None, typer.Option(help="New tokens in each window after the first. Default: half the window.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", help="Files read at the same time. Default: one a core, if large.")
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Read conversations again that failed in this run folder.")
    ] = False,
    seed: common.Seed = 0,
    device: common.Device = None,
    dtype: common.Dtype = None,
    compiled: common.Compile = False,
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
    """How sure agent and user were, turn by turn, and whether they should have been.

    Uncertainty of a turn is the mean of −ln p over its tokens, in nats. It is
    propagated over the run, compared with the rewards in the logs, turned
    into alarms on tasks that these were not fitted on, and, with --policy, into
    interventions that are replayed. A turn without log-probabilities has no
    score, and is counted.

    Example: howsure trajectories results.json --output uncertainty.json
    """
    from howsure.report.console import remarks
    from howsure.report.plots import plot_interventions
    from howsure.report.progress import progress_for
    from howsure.studies.trajectories import Judging, carry_out, prepare
    from howsure.studies.trajectories.intervention import parse_policy

    judging = Judging(
        watch=watch,
        false_alarm_rate=false_alarms,
        policies=tuple(parse_policy(text) for text in policy or ()),
        intervene_on=detector,
        notice_turns=notice,
        failure_cost=failure_cost,
    )
    judging.check()
    _check_outputs(output, plot, judging.policies)
    with (
        common.engine_for(engine, quiet, address, workers, gpus_per_worker, cpus_per_worker) as doer,
        closing(
            prepare(
                results,
                score_with=score_with,
                distances=distances,
                tokens=tokens,
                window=window,
                stride=stride,
                jobs=jobs,
                for_a_run=out is not None,
                engine=doer,
                **common.device_of(engine, device, gpus_per_worker),
                dtype=dtype,
                compile=compiled,
                token_budget=token_budget,
                trust_remote_code=trust_remote_code,
                announce=common.announcer(quiet),
            )
        ) as prepared,
    ):
        _check_against(prepared, output, simulation if detailed else None)
        if dry_run:
            return common.print_plan(prepared.cost(), as_json)
        folder = common.run_folder(out, "trajectories", quiet) if out is not None or prepared.takes_long else None
        found = carry_out(
            prepared,
            judging=judging if judged else None,
            out=folder,
            verbose=verbose,
            seed=seed,
            retry_failed=retry_failed,
            progress=progress_for(remarks(), quiet),
            engine=doer,
        )
    if output is not None:
        found.write(output)
    _print(found, as_json, simulation if detailed else None)
    if plot is not None:
        plot_interventions(found.summary["groups"], plot)
    return common.SOME_FAILED if found.failed else common.DONE


def _check_outputs(output: Path | None, plot: Path | None, policies: tuple[Any, ...]) -> None:
    """Whether what is asked for can be written at all, before any work is done for it."""
    from howsure.errors import InputError
    from howsure.report.plots import check_plot

    if output is not None and not output.parent.is_dir():
        raise InputError(f"--output {output}: there is no folder {output.parent}; make it first")
    if output is not None and output.is_dir():
        raise InputError(f"--output {output} is a folder: name a file in it, such as {output / 'uncertainty.json'}")
    if plot is not None:
        check_plot(plot)
        if not policies:
            raise InputError("--plot draws what interventions save: give at least one --policy, such as confirm:1:0.3")


def _check_against(prepared: Any, output: Path | None, simulation: int | None) -> None:
    """Whether what is asked for fits what was read, before any work is done for it."""
    from howsure.errors import InputError

    count = len(prepared.trajectories)
    if simulation is not None and not 1 <= simulation <= count:
        raise InputError(f"--simulation must be 1 to {count}, not {simulation}")
    logs = {path for reading in prepared.readings for path in (reading.source.path, reading.source.about) if path}
    if output is not None and os.path.realpath(output) in map(os.path.realpath, logs):
        raise InputError(f"--output {output} is one of the logs, which it would overwrite: choose another name")


def _print(found: Any, as_json: bool, simulation: int | None) -> None:
    from howsure.report.console import output
    from howsure.report.trajectories import print_detailed, print_trajectories

    if as_json:
        common.print_json(found.summary)
        return
    print_trajectories(output(), found.summary, {"metadata": found.metadata, "results": found.rows}, found.run)
    if simulation is not None:
        print_detailed(output(), found.rows, simulation)
