"""Commands about models themselves: `howsure models`, `show`, `ask`, `ngram train`."""

from __future__ import annotations

import re
import sys
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from howsure.cli import common
from howsure.cli.commands import View, command
from howsure.errors import InputError
from howsure.models.options import MODEL, ModelOptions
from howsure.options import Opt, Options
from howsure.storage import checked, is_address, read_bytes, shown
from howsure.studies.options import TrainOptions

if TYPE_CHECKING:
    from howsure.models.contract import Model
    from howsure.studies.reading import Reading


@command(Options)
def models(_: Options, view: View) -> int:
    """List the kinds of model: what each can do, whether it is installed, how to install it.

    Example: howsure models
    """
    from howsure.models.registry import BACK_ENDS

    if view.dry_run:
        return common.print_plan({"model_calls": 0, "tokens": 0}, view.as_json)
    rows: list[dict[str, Any]] = [
        {
            "name": back_end.form,
            "what": back_end.what,
            "can": sorted(one.value for one in back_end.capabilities),
            "installed": back_end.missing_package() is None,
            "install": None if back_end.extra is None else f'pip install "howsure[{back_end.extra}]"',
        }
        for back_end in BACK_ENDS.values()
    ]
    if view.as_json:
        common.print_json(rows)
    elif view.quiet:
        for row in rows:
            common.print_line(row["name"])
    else:
        from howsure.report.document import Document, Section, Table
        from howsure.report.terminal import output, print_document

        shown = [
            (row["name"], row["what"], ", ".join(row["can"]), "yes" if row["installed"] else f"no: {row['install']}")
            for row in rows
        ]
        table = Table(["model", "what it is", "can", "installed"], shown, most=len(shown))
        print_document(output(), Document("models", sections=[Section("", [table])]))
    return common.DONE


LARGEST_FILE_BYTES = 4 << 20
_LIKE_A_PATH = re.compile(r"\S*(/\S*|\w\.\w{1,5})")
"""One word with a slash, or one that ends like `notes.txt`."""


@dataclass(frozen=True)
class ShowOptions(ModelOptions):
    text: Annotated[str | None, Opt("A text, the path of a file, or - for standard input.", argument=True)] = None
    model: Annotated[str, MODEL] = "smollm2"


@command(ShowOptions)
def show(options: ShowOptions, view: View) -> int:
    """Show a text with every token coloured by how much it surprised the model.

    Example: howsure show "The capital of France is Paris, not Berlin."
    """
    from howsure.studies.reading import item_for, read_text

    given, model = read_argument(options.text), _opened(options, view)
    if view.dry_run:
        plan = model.plan_scores([item_for(given)])
        if plan.refused:
            raise InputError(f"the text cannot be read: {plan.refused[0].detail}")
        cost = {"items": 1, "model_calls": len(plan.batches), "tokens": plan.tokens}
        return common.print_plan(cost, view.as_json)
    return _print_reading(read_text(given, model), view)


@dataclass(frozen=True)
class AskOptions(ModelOptions):
    question: Annotated[str | None, Opt("A question, the path of a file, or - for standard input.", argument=True)] = (
        None
    )
    model: Annotated[str, MODEL] = "smollm2"
    _: KW_ONLY
    max_tokens: Annotated[int, Opt("Longest answer, in tokens.", least=1)] = 128
    temperature: Annotated[float, Opt("0 takes the likeliest token each time.", least=0)] = 0.0
    seed: Annotated[int, Opt("Random seed.", least=0)] = 0


@command(AskOptions)
def ask(options: AskOptions, view: View) -> int:
    """Let a model answer, and show how sure it was of each token of its answer.

    Example: howsure ask "What is the capital of France?" --model smollm2
    """
    from howsure.studies.reading import read_answer

    given, model = read_argument(options.question), _opened(options, view)
    if view.dry_run:
        return common.print_plan({"items": 1, "model_calls": 1, "tokens_at_most": options.max_tokens}, view.as_json)
    answer = read_answer(
        given, model, max_tokens=options.max_tokens, temperature=options.temperature, seed=options.seed
    )
    return _print_reading(answer, view)


def _opened(options: Any, view: View) -> Model:
    """The model that was named, without its weights."""
    from howsure.models.registry import load

    return load(options.model, lazy=True, **options.part(ModelOptions) | {"announce": common.announcer(view.quiet)})


def read_argument(argument: str | None) -> str:
    """What the user meant: the text itself, a file's content, or what is piped in."""
    if argument is None and sys.stdin.isatty():
        raise InputError("there is no text: give one in quotes, name a file, or pipe it in")
    if argument is None or argument == "-":
        return _decode(sys.stdin.buffer.read(LARGEST_FILE_BYTES + 1), "standard input")
    given = str(checked(argument)) if is_address(argument) and not re.search(r"\s", argument) else argument
    if given is not argument and is_address(given):
        return _decode(read_bytes(given, LARGEST_FILE_BYTES), shown(given))
    path = Path(given)
    try:
        is_file = path.is_file()
    except (OSError, ValueError):  # too long for a file name, or holding a NUL: a text
        is_file = False
    if not is_file:
        if _LIKE_A_PATH.fullmatch(argument):
            common.say(f"there is no file {argument}, so these words themselves are read")
        return argument
    try:
        with path.open("rb") as file:
            return _decode(file.read(LARGEST_FILE_BYTES + 1), str(path))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error


def _decode(content: bytes, source: str) -> str:
    if len(content) > LARGEST_FILE_BYTES:
        raise InputError(f"{source} is larger than {LARGEST_FILE_BYTES >> 20} MiB: show a part of it")
    try:
        return content.decode("utf-8").removesuffix("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{source} is not UTF-8 text: byte {error.start} cannot be read; convert it first") from error


def _print_reading(reading: Reading, view: View) -> int:
    from howsure.report import tokens
    from howsure.report.terminal import output, print_document

    if view.as_json:
        common.print_json(reading.to_dict())
    elif view.quiet:
        output().print(tokens.coloured(tokens.readable_shades_of(reading.evidence)), soft_wrap=True)
    else:
        print_document(output(), tokens.reading(reading))
    return common.DONE


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

    Words are separated by white space, sentences by line ends; </s> is predicted, <s> is context only, unknown words
    are <unk>. Case and punctuation stay as they are: prepare the text as you want it counted.

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
