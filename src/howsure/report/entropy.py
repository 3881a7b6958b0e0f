"""Entropies in the terminal: of numbers, of counts, of a text and its blocks, and the theorem as a table."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from howsure.measures import nats_to_bits
from howsure.measures.entropy import OCCURRENCES_FOR_SUPPORT
from howsure.report.tables import cut_to_fit, keep_whole, plain_table
from howsure.studies.entropy import (
    Against,
    CountsEntropy,
    DistributionEntropy,
    Estimates,
    TextCrossEntropy,
    TextEntropy,
    block_in_bits,
    perplexity_of,
)
from howsure.studies.theorem import BAND, Theorem

_ESTIMATORS = (
    ("plug-in", "plugin_bits", "of the shares seen"),
    ("Miller–Madow", "miller_madow_bits", "plug-in + (K − 1) / 2N"),
    ("Grassberger", "grassberger_bits", "made for few counts"),
)


# -- numbers and counts -----------------------------------------------------------------------------------------------


def print_entropy(
    console: Console, found: DistributionEntropy | CountsEntropy | TextEntropy, quiet: bool = False
) -> None:
    """What was found, whatever it was found from; `quiet` leaves the explanations out."""
    if isinstance(found, DistributionEntropy):
        _print_distribution(console, found)
    elif isinstance(found, CountsEntropy):
        _print_counts(console, found, quiet)
    else:
        _print_text(console, found, quiet)


def _print_distribution(console: Console, found: DistributionEntropy) -> None:
    table = _figures()
    table.add_row("entropy H(p)", _bits(found.entropy_bits))
    table.add_row("perplexity", _number(found.perplexity))
    console.print(table)
    _print_against(console, found.against)


def _print_counts(console: Console, found: CountsEntropy, quiet: bool) -> None:
    table = _figures()
    table.add_row("counted", f"{found.total_count:,}, of {found.distinct_count:,} kinds")
    console.print(table)
    console.print()
    console.print(_estimates(found.estimates, quiet))
    _print_against(console, found.against)
    if found.against is not None and not quiet and not found.against.ruled_out:
        too_high = found.estimates.miller_madow_bits - found.estimates.plugin_bits
        console.print(
            Text(
                "note: p are the shares of these very counts, which makes KL(p ‖ m) too high: by about "
                f"{_bits(too_high)} on average (Miller–Madow)"
            )
        )


def _print_against(console: Console, against: Against | None) -> None:
    if against is None:
        return
    table = _figures()
    table.add_row("cross-entropy H(p, m)", _bits(against.cross_entropy_bits))
    table.add_row("perplexity under m", _number(against.perplexity))
    table.add_row("KL(p ‖ m)", _bits(against.kl_bits))
    table.add_row("|H(p, m) − H(p)|", _bits(against.distance_bits))
    console.print()
    console.print(table)
    if against.ruled_out:
        places = ", ".join(str(place) for place in against.ruled_out)
        console.print(Text(f"note: m gives probability 0 to what does happen, at position {places}"))


def _estimates(estimates: Estimates, quiet: bool) -> Table:
    table = plain_table("entropy of one, by", "", "perplexity", "")
    for name, field, remark in _ESTIMATORS:
        bits = getattr(estimates, field)
        table.add_row(name, _bits(bits), _number(perplexity_of(bits)), "" if quiet else remark)
    return table


# -- texts ----------------------------------------------------------------------------------------------------------


def _print_text(console: Console, found: TextEntropy, quiet: bool) -> None:
    table = _figures()
    table.add_row("text", cut_to_fit(", ".join(found.sources)))
    table.add_row(found.symbols, f"{found.symbol_count:,}, {found.distinct_count:,} of them distinct")
    table.add_row("entropy rate", _rate(found))
    table.add_row("ceiling", f"{_ceiling_bits(found):.3f} bits, log₂ of their number: no plug-in estimate can pass it")
    console.print(table)
    console.print()
    console.print(_estimates(found.estimates, quiet))
    console.print()
    console.print(_blocks(found))
    if not quiet and not all(row.supported for row in found.blocks):
        console.print(Text(f"? fewer than {OCCURRENCES_FOR_SUPPORT:g} of each distinct block: too few to go by"))
    _print_model(console, found.against, found.symbols.removesuffix("s"))


def _rate(found: TextEntropy) -> str:
    row, bits = found.rate_row, found.entropy_rate_bits
    if row is None or bits is None:
        return f"— ({found.entropy_rate_missing})"
    unit = found.symbols.removesuffix("s")
    return f"about {bits:.3f} bits per {unit}, perplexity {perplexity_of(bits):.2f}, by n = {row.n}"


def _ceiling_bits(found: TextEntropy) -> float:
    return nats_to_bits(found.blocks[0].ceiling_nats)


def _blocks(found: TextEntropy) -> Table:
    table = plain_table("n", "blocks", "distinct", "each", "plug-in", "Mil.–M.", "Grassberger", "Hₙ/n", "hₙ")
    for column in table.columns:
        column.justify = "right"
    keep_whole(table, *range(len(table.columns)))
    for row in map(block_in_bits, found.blocks):
        each = f"{row['occurrences']:.1f}" if row["occurrences"] < 1000 else f"{row['occurrences']:,.0f}"
        mark = "" if row["supported"] else "?"
        shown = [f"{row['n']}", f"{row['blocks']:,}", f"{row['distinct']:,}", f"{each}{mark}"]
        names = ("plugin", "miller_madow", "grassberger", "per_symbol", "conditional")
        shown += [f"{row[f'{name}_bits']:.3f}" for name in names]
        table.add_row(*shown, style=None if row["supported"] else "dim")
    return table


def _print_model(console: Console, against: TextCrossEntropy | None, unit: str) -> None:
    if against is None:
        return
    table = _figures()
    table.add_row("model", cut_to_fit(against.model))
    table.add_row("cross-entropy H(p, m)", f"{_bits(against.cross_entropy_bits)} per {unit}")
    table.add_row("perplexity under m", _number(against.perplexity))
    table.add_row("|H(p, m) − H(p)|", _distance(against.above_entropy_bits, f"the entropy of one {unit}"))
    table.add_row("", _distance(against.above_entropy_rate_bits, "the estimate of the entropy rate"))
    if against.counted is not None:
        table.add_row("counted", against.counted)
    console.print()
    console.print(table)
    if against.above_entropy_rate_bits is not None and against.above_entropy_rate_bits < 0:
        console.print(
            Text(
                "note: the model needs fewer bits than the blocks of this text suggest: it sees more of what comes "
                "before. On a long text that is new to it, no model goes below the true entropy rate; one that was "
                "trained on this text, or does not know some of its words, may."
            )
        )


# -- the theorem ----------------------------------------------------------------------------------------------------


def print_theorem(console: Console, found: Theorem, quiet: bool = False) -> None:
    low, high = (f"{share:.0%}" for share in BAND)
    table = plain_table("n", f"true model, {low} to {high}", *(curve.name for curve in found.curves))
    for column in table.columns:
        column.justify = "right"
    true = found.curves[0]
    for place, n in enumerate(found.lengths):
        band = f"{true.low_bits[place]:.3f}–{true.high_bits[place]:.3f}"
        table.add_row(f"{n:,}", band, *(_bits_and_perplexity(curve.path_bits[place]) for curve in found.curves))
    table.add_row("limit", "", *(_bits_and_perplexity(curve.limit_bits) for curve in found.curves), style="bold")
    console.print(table)
    if not quiet:
        console.print()
        console.print(Text("−(1/n) log₂ m(w₁ … wₙ), bits per word of the first n words, and the perplexity."))
        console.print(Text(f"{low} to {high}: on {found.paths} texts; all other columns are one of them."))
        console.print(Text("The limits are in closed form; the true model's is the source's entropy rate."))


def _bits_and_perplexity(bits: float) -> str:
    return f"{bits:.3f} ({perplexity_of(bits):.2f})"


# -- numbers ----------------------------------------------------------------------------------------------------------


def _figures() -> Table:
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column()
    return table


def _number(value: float) -> str:
    """Six digits, and no zeros that say nothing: 2, 1.5, 0.918296."""
    return f"{value + 0.0:.6g}"


def _bits(bits: float) -> str:
    shown = _number(bits)
    return f"{shown} bit" if shown == "1" else f"{shown} bits"


def _distance(bits: float | None, what: str) -> str:
    """How far a cross-entropy lies from something, and on which side."""
    if bits is None:
        return f"— (there is no {what.removeprefix('the ')})"
    return f"{abs(bits):.3f} bits {'above' if bits >= 0 else 'below'} {what}"
