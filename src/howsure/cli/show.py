"""`howsure show` and `howsure ask`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from howsure.cli import common
from howsure.errors import InputError
from howsure.storage import checked, is_address, read_bytes, shown

LARGEST_FILE_BYTES = 4 << 20
_LIKE_A_PATH = re.compile(r"\S*(/\S*|\w\.\w{1,5})")
"""One word with a slash, or one that ends like `notes.txt`."""


@common.command
def show(
    text: Annotated[str | None, typer.Argument(help="A text, the path of a file, or - for standard input.")] = None,
    model: common.ModelOption = "smollm2",
    base_url: common.BaseUrl = None,
    device: common.Device = None,
    trust_remote_code: common.TrustRemoteCode = False,
    as_json: common.AsJson = False,
    quiet: common.Quiet = False,
    dry_run: common.DryRun = False,
) -> int:
    """Show a text with every token coloured by how much it surprised the model.

    Example: howsure show "The capital of France is Paris, not Berlin."
    """
    from howsure.models.registry import load
    from howsure.studies.reading import item_for, read_text

    given = read_argument(text)
    opened = load(
        model,
        lazy=True,
        base_url=base_url,
        device=device,
        trust_remote_code=trust_remote_code,
        announce=common.announcer(quiet),
    )
    if dry_run:
        plan = opened.plan_scores([item_for(given)])
        if plan.refused:
            raise InputError(f"the text cannot be read: {plan.refused[0].detail}")
        return common.print_plan({"items": 1, "model_calls": len(plan.batches), "tokens": plan.tokens}, as_json)
    return _print(read_text(given, opened), as_json, quiet)


@common.command
def ask(
    question: Annotated[
        str | None, typer.Argument(help="A question, the path of a file, or - for standard input.")
    ] = None,
    model: common.ModelOption = "smollm2",
    max_tokens: Annotated[int, typer.Option(help="Longest answer, in tokens.", min=1)] = 128,
    temperature: Annotated[float, typer.Option(help="0 takes the likeliest token each time.", min=0.0)] = 0.0,
    seed: common.Seed = 0,
    base_url: common.BaseUrl = None,
    device: common.Device = None,
    trust_remote_code: common.TrustRemoteCode = False,
    as_json: common.AsJson = False,
    quiet: common.Quiet = False,
    dry_run: common.DryRun = False,
) -> int:
    """Let a model answer, and show how sure it was of each token of its answer.

    Example: howsure ask "What is the capital of France?" --model smollm2
    """
    from howsure.models.registry import load
    from howsure.studies.reading import read_answer

    given = read_argument(question)
    opened = load(
        model,
        lazy=True,
        base_url=base_url,
        device=device,
        trust_remote_code=trust_remote_code,
        announce=common.announcer(quiet),
    )
    if dry_run:
        return common.print_plan({"items": 1, "model_calls": 1, "tokens_at_most": max_tokens}, as_json)
    answered = read_answer(given, opened, max_tokens=max_tokens, temperature=temperature, seed=seed)
    return _print(answered, as_json, quiet)


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


def _print(reading: object, as_json: bool, quiet: bool) -> int:
    from howsure.report.console import output
    from howsure.report.surprise import coloured, print_reading
    from howsure.studies.reading import Reading

    assert isinstance(reading, Reading)
    if as_json:
        common.print_json(reading.to_dict())
    elif quiet:
        output().print(coloured(reading), soft_wrap=True)
    else:
        print_reading(output(), reading)
    return common.DONE
