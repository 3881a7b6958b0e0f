"""`howsure mcq`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from howsure.cli import common


@common.command
def mcq(
    data: Annotated[
        str,
        typer.Argument(help="JSON lines: question, choices, answer_index; image_path, id, group.", parser=common.place),
    ],
    model: common.ModelOption = "smollm2",
    model_b: Annotated[
        str | None,
        typer.Option("--model-b", help="A second model: both run, one after the other, and are compared."),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            **common.PLACE,
            help="Run folder; an unfinished run in it is taken up. With --model-b the runs lie in its folders a and b. "
            "Default: runs/mcq-<time>.",
        ),
    ] = None,
    output_json: Annotated[
        Path | None, typer.Option(**common.LOCAL, help="Write all figures and one result a question into this file.")
    ] = None,
    prompt: Annotated[
        str | None,
        typer.Option(
            help="Template over {question}; \\n is a new line. Each choice follows after one space, or directly where "
            "the template ends in white space or --chat is given. Default: {question}\\nAnswer: (with --chat: "
            "{question})."
        ),
    ] = None,
    chat: Annotated[
        bool, typer.Option("--chat/--no-chat", help="Ask through the model's chat template; a choice is its answer.")
    ] = False,
    pmi: Annotated[
        bool, typer.Option("--pmi/--no-pmi", help="Score the choices without their question too, for PMI.")
    ] = True,
    image_root: Annotated[
        str | None,
        typer.Option(
            **common.PLACE,
            help="Folder that image paths begin at. Default: that of DATA, then the working directory.",
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD",
            help="A field of the data, such as passage: questions with the same value in it hang together and are one "
            "unit in all intervals, as those about one image always are.",
        ),
    ] = None,
    max_samples: Annotated[int | None, typer.Option(help="Score at most this many questions.")] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="At most so many questions together. Default: as many as the token budget holds.")
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Skip bad lines; accuracy counts them as not right.")
    ] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Do the samples again that failed in this run folder.")
    ] = False,
    flips: Annotated[int, typer.Option(help="With --model-b: how many flips of each kind to show.")] = 5,
    seed: common.Seed = 0,
    base_url: common.BaseUrl = None,
    device: common.Device = None,
    dtype: common.Dtype = None,
    compiled: common.Compile = False,
    tokenizer: Annotated[
        str | None, typer.Option(help="Folder or name to take the tokenizer from, where the checkpoint has none.")
    ] = None,
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
    """Multiple choice: is the right answer the likeliest, by how much, and should the model be so sure?

    Every choice is scored as a continuation of its question, the question (and its image) being run once. A stopped
    run goes on where it stopped, with the same command. Two checkpoints: --model-b, or later `howsure compare`.

    Example: howsure mcq questions.jsonl --model smollm2 --out runs/first
    """
    from howsure.report.console import remarks
    from howsure.report.progress import progress_for
    from howsure.studies.mcq import carry_out_all, check_writable, prepare_all

    if output_json is not None and not dry_run:
        check_writable(output_json)
    prepared = prepare_all(
        data,
        [model] if model_b is None else [model, model_b],
        prompt=None if prompt is None else prompt.replace("\\n", "\n"),
        chat=chat,
        pmi=pmi,
        image_root=image_root,
        cluster=cluster,
        max_samples=max_samples,
        batch_size=batch_size,
        skip_bad=skip_bad,
        base_url=base_url,
        **common.device_of(engine, device, gpus_per_worker),
        dtype=dtype,
        compile=compiled,
        tokenizer=tokenizer,
        token_budget=token_budget,
        trust_remote_code=trust_remote_code,
        announce=common.announcer(quiet),
    )
    with common.engine_for(engine, quiet, address, workers, gpus_per_worker, cpus_per_worker) as doer:
        if dry_run:
            return common.print_plan(common.total_cost([one.cost() for one in prepared]), as_json)
        folder = common.run_folder(out, "mcq", quiet)
        found = carry_out_all(
            prepared,
            data,
            out=folder,
            seed=seed,
            retry_failed=retry_failed,
            progress=progress_for(remarks(), quiet),
            engine=doer,
        )
    return _report(found, output_json, as_json, flips)


def _report(found: Any, output_json: Path | None, as_json: bool, flips: int) -> int:
    from howsure.report.compare import print_comparison
    from howsure.report.console import output
    from howsure.report.mcq import print_mcq
    from howsure.studies.mcq import Pair, document_of, write_document

    if output_json is not None:
        write_document(output_json, document_of(found))
    results = found[:2] if isinstance(found, Pair) else [found]
    if as_json:
        common.print_json(found.comparison if isinstance(found, Pair) else found.summary)
    elif isinstance(found, Pair):
        print_comparison(output(), found.comparison, flips)
    else:
        print_mcq(output(), found.summary, found.samples, found.run)
    return common.SOME_FAILED if any(s.failed for result in results for s in result.samples) else common.DONE
