"""`howsure ngram train`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from howsure.cli import common

app = typer.Typer(
    name="ngram",
    help="n-gram models: train one, and use it as ngram:<file.arpa> wherever a model is asked for.",
    no_args_is_help=True,
)


@app.callback()
def top() -> None:
    """n-gram models: train one, and use it as ngram:<file.arpa> wherever a model is asked for.

    Example: howsure ngram train book.txt --order 3 --out book.arpa
    """


@app.command()
@common.command
def train(
    out: Annotated[Path, typer.Option(**common.LOCAL, help="The ARPA file to write; with .gz at its end, packed.")],
    texts: Annotated[
        list[str] | None,
        typer.Argument(help="Files, folders, JSON lines with text, or - for standard input; one sentence a line."),
    ] = None,
    order: Annotated[int, typer.Option(help="Longest n-gram, in words.")] = 3,
    smoothing: Annotated[
        str, typer.Option(help="modified-kneser-ney, kneser-ney, witten-bell, add-k or mle.")
    ] = "modified-kneser-ney",
    k: Annotated[float, typer.Option("--k", help="What add-k adds to every count.")] = 1.0,
    discount_fallback: Annotated[
        bool,
        typer.Option(
            "--discount-fallback",
            help="Where Kneser-Ney discounts cannot be estimated, take 0.5, 1, 1.5 (plain: 0.75) instead of an error.",
        ),
    ] = False,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Count texts that cannot be read and go on.")] = False,
    as_json: common.AsJson = False,
    quiet: common.Quiet = False,
    dry_run: common.DryRun = False,
) -> int:
    """Train an n-gram model and write it as an ARPA file, which KenLM and SRILM can read too.

    Words stand between white space, sentences on lines; </s> is predicted, <s> is context only, unknown words are
    <unk>. Nothing is lower-cased and no sign is taken off: prepare the text as you want it counted.

    Example: howsure ngram train book.txt --order 3 --out book.arpa
    """
    from howsure.report.console import output
    from howsure.report.perplexity import print_trained
    from howsure.storage.unpacking import HELD_FOLD
    from howsure.studies.ngram import train_ngram
    from howsure.studies.texts import Texts

    given = common.given_or_piped(texts, "there is no text: name files or folders, or pipe one in")
    if dry_run:
        read = Texts(given, skip_bad=skip_bad, most_fold=HELD_FOLD)
        return common.print_plan({"items": len(read.documents), "bytes": read.byte_count, "model_calls": 0}, as_json)
    trained: dict[str, Any] = train_ngram(
        given, out, order=order, smoothing=smoothing, k=k, discount_fallback=discount_fallback, skip_bad=skip_bad
    )
    if as_json:
        common.print_json(trained)
    elif not quiet:
        print_trained(output(), trained)
    return common.DONE
