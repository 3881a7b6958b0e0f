"""`howsure entropy` and `howsure theorem`."""

from __future__ import annotations

import os
import sys
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

from howsure.cli import common
from howsure.cli.commands import View, command
from howsure.errors import InputError
from howsure.models.options import ModelOptions
from howsure.options import Opt
from howsure.studies.options import TheoremOptions


@dataclass(frozen=True)
class EntropyOptions(ModelOptions):
    values: Annotated[
        list[str] | None,
        Opt(
            "Probabilities (0.5, 1/3), counts with --counts, or files; - is standard input.",
            argument=True,
            metavar="NUMBERS|FILES",
        ),
    ] = None
    _: KW_ONLY
    counts: Annotated[bool, Opt("The numbers are counts, not probabilities.")] = False
    against: Annotated[str | None, Opt('Probabilities of a model for the same outcomes, such as "0.9,0.1".')] = None
    symbols: Annotated[
        str,
        Opt("Symbols of a text: words, characters or bytes.", choices=("words", "characters", "bytes")),
    ] = "words"
    blocks: Annotated[int, Opt("Longest blocks of symbols to count.", least=1)] = 5
    model: Annotated[
        str | None,
        Opt("Read the text with this model too: its cross-entropy beside the entropy.", flags=("--model", "-m")),
    ] = None
    window: Annotated[int | None, Opt("With --model: tokens that a neural model sees at once.")] = None
    stride: Annotated[int | None, Opt("With --model: new tokens in each window.")] = None


@dataclass(frozen=True, kw_only=True)
class EntropyView(View):
    plot: Annotated[Path | None, Opt("Draw the block entropies into this .svg or .png file.", path="local")] = None


@command(EntropyOptions, EntropyView)
def entropy(options: EntropyOptions, view: EntropyView) -> int:
    """Entropy in bits: of probabilities, of counts, or of a text, with its block entropies and entropy rate.

    Words are separated by white space; several files count as one text. --model adds the model's cross-entropy and the
    distance |H(p, m) − H(p)|, over the same symbols: per word, ends of sentences (</s>) count on neither side.

    Example: howsure entropy 0.5 0.5

    Example: howsure entropy book.txt --symbols characters --blocks 6
    """
    from howsure.report.entropy import document
    from howsure.report.terminal import output, print_document

    given = options.values or ["-"]
    if not options.values and sys.stdin.isatty():
        raise InputError("there is nothing to measure: give probabilities, counts with --counts, or name a file")
    numbers = _numbers(given, options.counts)
    if numbers is None:
        _check_files(given, options)
    elif view.plot is not None or options.model is not None:
        option = "--plot draws the block entropies of" if view.plot is not None else "--model reads"
        raise InputError(f"{option} a text, and these are numbers: name a file instead")
    if view.dry_run:
        return common.print_plan(_plan(given, options), view.as_json)
    computed = _of_text(given, options, view) if numbers is None else _of_numbers(numbers, options)
    if view.as_json:
        common.print_json(computed.to_dict())
    else:
        print_document(output(), document(computed, view.quiet))
    if view.plot is not None and not view.quiet:
        common.say(f"the plot is in {view.plot}")
    return common.DONE


def _of_numbers(numbers: list[float], options: EntropyOptions) -> Any:
    from howsure.studies.entropy import entropy_of_counts, entropy_of_distribution

    model = None if options.against is None else _probabilities(options.against)
    return (entropy_of_counts if options.counts else entropy_of_distribution)(numbers, model)


def _of_text(names: list[str], options: EntropyOptions, view: EntropyView) -> Any:
    from howsure.report.progress import progress_for
    from howsure.report.terminal import remarks
    from howsure.studies.entropy import against_model, entropy_of_text, read_texts

    if view.plot is not None:
        from howsure.report.plots import check_plot, plot_blocks

        check_plot(view.plot)
    symbols: Any = options.symbols
    computed = entropy_of_text(read_texts(names), symbols, options.blocks)
    if options.model is not None:
        reading = _reading(options) | {"announce": common.announcer(view.quiet)}
        computed = against_model(computed, names, options.model, progress_for(remarks(), view.quiet), **reading)
    if view.plot is not None:
        plot_blocks(computed, view.plot)
    return computed


def _plan(names: list[str], options: EntropyOptions) -> dict[str, int]:
    if options.model is None:
        return {"items": len(names), "model_calls": 0, "tokens": 0}
    from howsure.runs.run import prepared
    from howsure.studies.perplexity import PERPLEXITY, PerplexityOptions

    with prepared(PERPLEXITY, PerplexityOptions(names, options.model, **_reading(options))) as ready:
        return ready.cost()


def _reading(options: EntropyOptions) -> dict[str, Any]:
    return options.part(ModelOptions) | {"window": options.window, "stride": options.stride}


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


def _probabilities(against: str) -> list[float]:
    """`0.9,0.1` or `0.9 0.1`."""
    probabilities = []
    for word in against.replace(",", " ").split():
        number = _number(word)
        if number is None:
            raise InputError(f'--against takes probabilities such as "0.9,0.1", and {word!r} is no number')
        probabilities.append(number)
    return probabilities


def _check_files(given: list[str], options: EntropyOptions) -> None:
    """Unknown options arrive here as words, since -0.5 had to be let through."""
    for name in given:
        if name.startswith("-") and name != "-":
            raise InputError(f"there is no option {name!r}; howsure entropy --help lists them (./{name} is a file)")
        if name != "-" and not os.path.isfile(name):
            what = "a folder" if os.path.isdir(name) else "neither a number nor a file"
            raise InputError(f"{name!r} is {what}: give probabilities such as 0.5 0.5, or the path of a text")
    if options.against is not None:
        raise InputError(
            "--against sets probabilities against numbers, and a text has none written out: name a --model instead"
        )
    if options.model is not None and "-" in given:
        raise InputError("--model reads a text a second time, and standard input comes only once: name a file instead")


@dataclass(frozen=True, kw_only=True)
class TheoremView(View):
    plot: Annotated[Path | None, Opt("Draw the curves into this .svg or .png file.", path="local")] = None


@command(TheoremOptions, TheoremView)
def theorem(options: TheoremOptions, view: TheoremView) -> int:
    """Why the perplexity of one long text stands for a whole language (Shannon, McMillan, Breiman).

    The true model of a small language and models learned from little text read its texts: bits per word settle as the
    text grows, each at a known limit. No model is loaded.

    Example: howsure theorem --plot theorem.svg
    """
    from howsure.report.entropy import theorem as document
    from howsure.report.terminal import output, print_document
    from howsure.studies import theorem as study

    if view.plot is not None:
        from howsure.report.plots import check_plot, plot_theorem

        check_plot(view.plot)
    if view.dry_run:
        words = options.paths * options.longest
        return common.print_plan({"texts": options.paths, "words": words, "model_calls": 0, "tokens": 0}, view.as_json)
    computed = study.theorem(**vars(options))
    if view.plot is not None:
        plot_theorem(computed, view.plot)
    if view.as_json:
        common.print_json(computed.to_dict())
    else:
        print_document(output(), document(computed, view.quiet))
    if view.plot is not None and not view.quiet:
        common.say(f"the plot is in {view.plot}")
    return common.DONE
