"""`howsure ngram train`."""

from __future__ import annotations

import typer

from howsure.cli import common
from howsure.cli.commands import View, command
from howsure.studies.options import TrainOptions

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
@command(TrainOptions)
def train(options: TrainOptions, view: View) -> int:
    """Train an n-gram model and write it as an ARPA file, which KenLM and SRILM can read too.

    Words stand between white space, sentences on lines; </s> is predicted, <s> is context only, unknown words are
    <unk>. Nothing is lower-cased and no sign is taken off: prepare the text as you want it counted.

    Example: howsure ngram train book.txt --order 3 --out book.arpa
    """
    from howsure.report.perplexity import trained
    from howsure.report.terminal import output, print_document
    from howsure.studies.ngram import texts_of, train_ngram

    if view.dry_run:
        texts = texts_of(options)
        plan = {"items": len(texts.documents), "bytes": texts.byte_count, "model_calls": 0}
        return common.print_plan(plan, view.as_json)
    model = train_ngram(**vars(options))
    if view.as_json:
        common.print_json(model)
    elif not view.quiet:
        print_document(output(), trained(model))
    return common.DONE
