"""`howsure entropy`."""

from __future__ import annotations

import os
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

from howsure.cli import common
from howsure.errors import InputError


class SymbolKind(StrEnum):
    """What a text is made of."""

    WORDS = "words"
    CHARACTERS = "characters"
    BYTES = "bytes"


@common.command
def entropy(
    values: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NUMBERS|FILES",
            help="Probabilities (0.5, 1/3), counts with --counts, or files; - is standard input.",
        ),
    ] = None,
    counts: Annotated[bool, typer.Option("--counts", help="The numbers are counts, not probabilities.")] = False,
    against: Annotated[
        str | None, typer.Option(help='Probabilities of a model for the same outcomes, such as "0.9,0.1".')
    ] = None,
    symbols: Annotated[SymbolKind, typer.Option(help="What a text is cut into.")] = SymbolKind.WORDS,
    blocks: Annotated[int, typer.Option(help="Longest blocks of symbols to count.", min=1)] = 5,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="Read the text with this model too: its cross-entropy beside the entropy."),
    ] = None,
    window: Annotated[int | None, typer.Option(help="With --model: tokens that a neural model sees at once.")] = None,
    stride: Annotated[int | None, typer.Option(help="With --model: new tokens in each window.")] = None,
    base_url: common.BaseUrl = None,
    device: common.Device = None,
    plot: Annotated[
        Path | None, typer.Option(**common.LOCAL, help="Draw the block entropies into this .svg or .png file.")
    ] = None,
    as_json: common.AsJson = False,
    quiet: common.Quiet = False,
    dry_run: common.DryRun = False,
) -> int:
    """Entropy in bits: of probabilities, of counts, or of a text, with its block entropies and entropy rate.

    Of a text, words lie between white space, and files named together are counted as one text. No model is needed; with
    --model, its cross-entropy and the distance |H(p, m) − H(p)| stand beside, over the same symbols: per word, ends of
    sentences (</s>) count on neither side.

    Example: howsure entropy 0.5 0.5

    Example: howsure entropy book.txt --symbols characters --blocks 6
    """
    nothing = "there is nothing to measure: give probabilities, counts with --counts, or name a file"
    given = common.given_or_piped(values, nothing)
    numbers = _numbers(given, counts)
    reading = {"window": window, "stride": stride, "base_url": base_url, "device": device}
    if numbers is None:
        _check_files(given, against, model)
    elif plot is not None or model is not None:
        option = "--plot draws the block entropies of" if plot is not None else "--model reads"
        raise InputError(f"{option} a text, and these are numbers: name a file instead")
    if dry_run:
        return _plan(given, model, reading, as_json)
    if numbers is None:
        return _text(given, symbols, blocks, plot, model, reading, as_json, quiet)
    return _of_numbers(numbers, counts, against, as_json, quiet)


def _of_numbers(numbers: list[float], counts: bool, against: str | None, as_json: bool, quiet: bool) -> int:
    from howsure.report.console import output
    from howsure.report.entropy import print_entropy
    from howsure.studies.entropy import entropy_of_counts, entropy_of_distribution

    model = None if against is None else _model(against)
    entropy = entropy_of_counts(numbers, model) if counts else entropy_of_distribution(numbers, model)
    if as_json:
        common.print_json(entropy.to_dict())
    else:
        print_entropy(output(), entropy, quiet)
    return common.DONE


def _plan(names: list[str], model: str | None, reading: dict[str, Any], as_json: bool) -> int:
    plan = {"items": len(names), "model_calls": 0, "tokens": 0}
    if model is not None:
        from howsure.runs.run import prepared
        from howsure.studies.perplexity import PERPLEXITY, PerplexityOptions

        with prepared(PERPLEXITY, PerplexityOptions(names, model, **reading)) as ready:
            plan = ready.cost()
    return common.print_plan(plan, as_json)


def _text(
    names: list[str],
    symbols: SymbolKind,
    blocks: int,
    plot: Path | None,
    model: str | None,
    reading: dict[str, Any],
    as_json: bool,
    quiet: bool,
) -> int:
    from howsure.report.console import output, remarks
    from howsure.report.entropy import print_entropy
    from howsure.report.progress import progress_for
    from howsure.studies.entropy import against_model, entropy_of_text, read_texts

    if plot is not None:
        from howsure.report.plots import check_plot, plot_blocks

        check_plot(plot)
    entropy = entropy_of_text(read_texts(names), symbols.value, blocks)
    if model is not None:
        reading |= {"announce": common.announcer(quiet)}
        entropy = against_model(entropy, names, model, progress_for(remarks(), quiet), **reading)
    if plot is not None:
        plot_blocks(entropy, plot)
    if as_json:
        common.print_json(entropy.to_dict())
    else:
        print_entropy(output(), entropy, quiet)
    if plot is not None and not quiet:
        common.say(f"the plot is in {plot}")
    return common.DONE


# -- what was meant ---------------------------------------------------------------------------------------------------


def _numbers(given: list[str], counts: bool) -> list[float] | None:
    """All as numbers, or None where they are files. A mixture is neither."""
    parsed = [_number(one) for one in given]
    numbers = [number for number in parsed if number is not None]
    if len(numbers) == len(given):
        return numbers
    other = given[parsed.index(None)]
    if counts:
        raise InputError(f"--counts takes numbers, and {other!r} is none")
    if numbers:
        number = next(one for one, value in zip(given, parsed, strict=True) if value is not None)
        raise InputError(
            f"{number!r} is a number and {other!r} is none: give only numbers, or only files (./{number} is a file)"
        )
    return None


def _number(text: str) -> float | None:
    try:
        return float(Fraction(text)) if "/" in text else float(text)
    except (ValueError, ZeroDivisionError, OverflowError):
        return None


def _model(against: str) -> list[float]:
    """`0.9,0.1` or `0.9 0.1`."""
    probabilities = []
    for word in against.replace(",", " ").split():
        number = _number(word)
        if number is None:
            raise InputError(f'--against takes probabilities such as "0.9,0.1", and {word!r} is no number')
        probabilities.append(number)
    return probabilities


def _check_files(given: list[str], against: str | None, model: str | None) -> None:
    """Unknown options arrive here as words, since -0.5 had to be let through."""
    for name in given:
        if name.startswith("-") and name != "-":
            raise InputError(f"there is no option {name!r}; howsure entropy --help lists them (./{name} is a file)")
        if name != "-" and not os.path.isfile(name):
            what = "a folder" if os.path.isdir(name) else "neither a number nor a file"
            raise InputError(f"{name!r} is {what}: give probabilities such as 0.5 0.5, or the path of a text")
    if against is not None:
        raise InputError(
            "--against sets probabilities against numbers, and a text has none written out: name a --model instead"
        )
    if model is not None and "-" in given:
        raise InputError("--model reads a text a second time, and standard input comes only once: name a file instead")
