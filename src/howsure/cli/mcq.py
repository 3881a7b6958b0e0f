"""`howsure mcq`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from howsure.cli import common


@common.command
def mcq(
    data: Annotated[Path, typer.Argument(help="JSON lines: question, choices, answer_index.")],
    model: common.ModelOption = "smollm2",
    out: Annotated[
        Path | None,
        typer.Option(help="Run folder; an unfinished run in it is taken up. Default: runs/mcq-<time>."),
    ] = None,
    prompt: Annotated[
        str,
        typer.Option(help="Template over {question}; \\n is a new line. Each choice follows after one space."),
    ] = "{question}\\nAnswer:",
    max_samples: Annotated[int | None, typer.Option(help="Only the first so many questions.")] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Count bad lines and go on without them.")] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Do the samples again that failed in this run folder.")
    ] = False,
    seed: common.Seed = 0,
    base_url: common.BaseUrl = None,
    device: common.Device = None,
    token_budget: common.TokenBudget = None,
    trust_remote_code: common.TrustRemoteCode = False,
    as_json: common.AsJson = False,
    quiet: common.Quiet = False,
    dry_run: common.DryRun = False,
) -> int:
    """Multiple choice: is the right answer the likeliest, and by how much?

    Every choice is scored as a continuation of its question, the question being run once. A stopped run goes on where
    it stopped, with the same command.

    Example: howsure mcq questions.jsonl --model smollm2 --out runs/first
    """
    from howsure.report.console import output, remarks
    from howsure.report.progress import progress_for
    from howsure.report.tables import print_summary
    from howsure.studies.mcq import carry_out, prepare

    prepared = prepare(
        data,
        model,
        prompt=prompt.replace("\\n", "\n"),
        max_samples=max_samples,
        skip_bad=skip_bad,
        base_url=base_url,
        device=device,
        token_budget=token_budget,
        trust_remote_code=trust_remote_code,
        announce=common.announcer(quiet),
    )
    if dry_run:
        plan = prepared.plan
        sizes = {
            "items": len(prepared.questions.items),
            "model_calls": len(plan.batches),
            "tokens": plan.tokens,
        }
        refused = {"items_that_will_fail": len(plan.refused)} if plan.refused else {}
        return common.print_plan(sizes | refused, as_json)
    folder = out or common.new_run_folder("mcq")
    if out is None and not quiet:
        common.say(f"writing {folder}; if it is stopped, the same command with --out {folder} goes on")
    result = carry_out(
        prepared,
        data,
        out=folder,
        seed=seed,
        retry_failed=retry_failed,
        progress=progress_for(remarks(), quiet),
    )
    if as_json:
        common.print_json(result.summary)
    else:
        print_summary(output(), result.summary, result.samples, result.run)
    return common.SOME_FAILED if any(sample.failed for sample in result.samples) else common.DONE
