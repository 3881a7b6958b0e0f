"""A text with every token coloured by its surprisal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.style import Style
from rich.table import Table
from rich.text import Text

from howsure.report.text import printable, quoted
from howsure.studies.reading import Reading

SCALE_BITS = (
    (1.0, None, "under 1 bit"),
    (3.0, "#d9f0d3", "1 to 3"),
    (6.0, "#fee391", "3 to 6"),
    (10.0, "#fdae6b", "6 to 10"),
    (float("inf"), "#f4766b", "over 10 bits"),
)
"""Upper end of each step in bits, its colour (dark text on it reads well), its name."""


def print_reading(console: Console, reading: Reading) -> None:
    """The coloured text, its figures, and its most surprising tokens."""
    console.print(coloured(reading) if console.is_terminal else Text(printable(reading.text)), soft_wrap=True)
    console.print()
    if console.is_terminal:
        console.print(_legend())
        console.print()
    for name, value in _figures(reading):
        console.print(f"{name:<16} {value}", highlight=False)
    console.print()
    console.print(_table(reading))


def coloured(reading: Reading) -> Text:
    text = Text()
    for piece, tokens in reading.characters():
        bits = float(reading.surprisals_bits[tokens].sum())
        text.append(printable(piece), style=_style(bits))
    return text


def _style(bits: float) -> Style:
    colour = next(colour for end, colour, _ in SCALE_BITS if bits < end or end == float("inf"))
    return Style() if colour is None else Style(color="#000000", bgcolor=colour)


def _legend() -> Text:
    text = Text.assemble(("surprisal  ", "dim"))
    for end, _, name in SCALE_BITS:
        text.append(f" {name} ", style=_style(end - 0.5 if end != float("inf") else end))
        text.append(" ")
    return text


def _figures(reading: Reading) -> list[tuple[str, str]]:
    evidence = reading.evidence
    figures = [
        ("model", reading.model),
        ("tokens", f"{len(evidence)}"),
        ("mean surprisal", _number(reading.mean_surprisal_bits, "bits per token")),
    ]
    if reading.mean_entropy_bits is not None:
        figures.append(("mean entropy", _number(reading.mean_entropy_bits, "bits per token expected")))
    elif (least := reading.least_mean_entropy_bits) is not None:
        figures.append(("mean entropy", f"at least {least:.2f} bits per token, by the alternatives given"))
    return [
        *figures,
        ("perplexity", _number(evidence.perplexity_per_token, "per token")),
        ("bits per byte", _number(reading.bits_per_byte, "")),
    ]


def _named(entry: dict[str, Any]) -> str:
    """A token in quotes; a piece of a character by the character, since the piece alone cannot be shown."""
    whole = entry["part_of"]
    return quoted(entry["token"]) if whole is None else f"a piece of {quoted(whole)}"


def _number(value: float | None, unit: str) -> str:
    return "—" if value is None else f"{value:.2f} {unit}".rstrip()


def _table(reading: Reading) -> Table:
    table = Table("most surprising", "surprisal", "expected instead", box=None, pad_edge=False, header_style="bold")
    for entry in reading.most_surprising():
        bits = entry["surprisal_bits"]
        expected = ", ".join(f"{quoted(e['token'])} {e['probability']:.0%}" for e in entry["expected"][:3])
        shown = "probability 0" if bits is None else f"{bits:.1f} bits"
        table.add_row(Text(_named(entry)), shown, Text(expected or "—"))
    return table
