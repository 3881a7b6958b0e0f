"""`howsure perplexity`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from howsure.cli import common


@common.command
def perplexity(
    texts: Annotated[
        list[str] | None,
        typer.Argument(help="Files, folders, JSON lines with text, or - for standard input; .gz is unpacked."),
    ] = None,
    model: common.ModelOption = "smollm2",
    model_b: Annotated[
        str | None,
        typer.Option("--model-b", help="A second model: both read, one after the other, and are compared per byte."),
    ] = None,
    window: Annotated[
        int | None,
        typer.Option(help="Tokens that a neural model sees at once. Default: the model's context."),
    ] = None,
    stride: Annotated[
        int | None,
        typer.Option(
            help="New tokens in each window after the first: each token is scored once, after at least window − stride "
            "others. Default: half the window."
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            **common.PLACE,
            help="Run folder; an unfinished run in it is taken up. With --model-b the runs lie in its folders a and b. "
            "Default: runs/perplexity-<time>.",
        ),
    ] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Count texts that cannot be read and go on.")] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Read the passages again that failed in this run folder.")
    ] = False,
    seed: Annotated[
        int, typer.Option(help="Kept in the run's manifest, as for every study; no figure here is drawn by chance.")
    ] = 0,
    base_url: common.BaseUrl = None,
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
    """How many bits a model needs for a text, per token, word and byte, and its perplexity.

    Texts may be longer than the model's context, and than memory. A stopped run goes on where it stopped, with the same
    command. Models are compared per byte, since tokens are their own: --model-b, or later `howsure compare`.

    Per word is P(w1 ... wN)^(-1/N), words only; per token and per byte, an n-gram model's ends of sentences (</s>)
    count too. Intervals are over documents, from five on; figures of fewer are of these texts only.

    Example: howsure perplexity book.txt --model ngram:model.arpa --model-b smollm2
    """
    from howsure.report.console import remarks
    from howsure.report.progress import progress_for
    from howsure.studies.perplexity import carry_out_all, prepare_all

    prepared = prepare_all(
        common.given_or_piped(texts, "there is no text: name files or folders, or pipe one in"),
        [model] if model_b is None else [model, model_b],
        window=window,
        stride=stride,
        skip_bad=skip_bad,
        base_url=base_url,
        **common.device_of(engine, device, gpus_per_worker),
        dtype=dtype,
        compile=compiled,
        token_budget=token_budget,
        trust_remote_code=trust_remote_code,
        announce=common.announcer(quiet),
    )
    with common.engine_for(engine, quiet, address, workers, gpus_per_worker, cpus_per_worker) as doer:
        if dry_run:
            return common.print_plan(common.total_cost([one.cost() for one in prepared]), as_json)
        folder = common.run_folder(out, "perplexity", quiet)
        progress = progress_for(remarks(), quiet)
        found = carry_out_all(
            prepared, out=folder, seed=seed, retry_failed=retry_failed, progress=progress, engine=doer
        )
    return _report(found, as_json)


def _report(found: Any, as_json: bool) -> int:
    from howsure.report.console import output
    from howsure.report.perplexity import print_comparison, print_perplexity
    from howsure.studies.pairs import Pair

    results = found[:2] if isinstance(found, Pair) else [found]
    if as_json:
        common.print_json(found.comparison if isinstance(found, Pair) else found.summary)
    elif isinstance(found, Pair):
        print_comparison(output(), found.comparison)
    else:
        print_perplexity(output(), found.summary, found.run)
    return common.SOME_FAILED if any(result.failed for result in results) else common.DONE
