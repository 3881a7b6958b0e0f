"""What there is to show, said once: blocks in reading order, which a terminal, a page and a notebook each render.

A study's file in this folder makes them (`mcq.py` is the pattern), and knows nothing of how they will look. `terminal`,
`html` and `notebook` are the renderers. A block that makes sense in one place alone says so by `on`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from htpy import Element, Node

from howsure.report.text import interval_text, signed, value_with_interval
from howsure.studies.summary import Coverage, Figure
from howsure.types import Fields

On = Literal["everywhere", "page", "terminal"]
"""Where a block is rendered; what is on a page is in a notebook too."""


# -- cells ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Value:
    """A number with its unit and its interval, or the reason why there is none."""

    value: float | None
    unit: str = ""
    low: float | None = None
    high: float | None = None
    approximate: bool | None = None
    note: str | None = None
    is_difference: bool = False
    """Shown with its sign."""
    count: int | None = None
    of: int | None = None
    """Of a share: `19 of 60, 31.7 %`."""
    decimals: int | None = None
    """Where its unit does not say how many."""

    @classmethod
    def at(cls, entry: Mapping[str, Any] | Fields, name: str = "value", unit: str = "", **more: Any) -> Value:
        """From a struct that holds a value and, under the same prefix, its interval: `value`, `low`, `high`, or
        `auroc`, `auroc_low`, `auroc_high`."""
        prefix = f"{name}_" if entry.get(f"{name}_low", _ABSENT) is not _ABSENT else ""
        low, high, about = (entry.get(f"{prefix}{end}") for end in ("low", "high", "approximate"))
        known: dict[str, Any] = {"note": entry.get("note")}
        if name == "value":
            known |= {end: entry.get(end) for end in ("count", "of")}
        return cls(entry[name], unit or entry.get("unit") or "", low, high, about, **(known | more))

    def __str__(self) -> str:
        return self.text()

    def text(self, *, narrow: bool = False) -> str:
        """`0.833 (about 0.282 to 1.000)`; narrow, `0.833 (≈.28–1.00)`."""
        if self.value is None:
            return f"— ({self.note})" if self.note else "—"
        if self.is_difference:
            scale, unit, digits = _DIFFERENCES.get(self.unit, (1.0, self.unit, 3))
            digits = 0 if narrow and scale > 1 else digits
            return signed(self.value, unit, scale, digits, self._entry()).replace("about ", "≈" if narrow else "about ")
        shown = self._narrow() if narrow else value_with_interval(self._entry())
        return shown if self.of is None else f"{self.count:,} of {self.of:,}, {shown}"

    def _entry(self) -> dict[str, Any]:
        names = ("value", "unit", "low", "high", "approximate", "note", "decimals")
        return {name: getattr(self, name) for name in names}

    def _narrow(self) -> str:
        alone = value_with_interval({"value": self.value, "unit": self.unit, "decimals": self.decimals})
        if self.low is None or self.high is None:
            return alone
        scale, digits = (100.0, 0) if self.unit == "share" else (1.0, 2)
        ends = interval_text({"low": self.low, "high": self.high}, scale, digits)
        low, _, high = (end.removeprefix("0") if end.startswith("0.") else end for end in ends.partition(" to "))
        return f"{alone} ({'≈' if self.approximate else ''}{low}–{high})"


_ABSENT = object()
_DIFFERENCES = {
    "share": (100.0, "points", 1),
    "bits": (1.0, "bits", 4),
    "of 1000": (1.0, "", 1),
    "turns": (1.0, "turns", 1),
}
"""How a difference is shown: by what it is multiplied, its unit, and so many decimals."""


@dataclass(frozen=True)
class Marked:
    """Words that say good or bad by their colour too."""

    text: str
    kind: Literal["good", "bad", "doubt", "quiet", "strong"] = "quiet"

    def __str__(self) -> str:
        return self.text


Cell: TypeAlias = str | int | float | bool | Value | Marked | Element | None
"""What a table or a list of facts holds. None is a dash; an element of htpy is for pages alone."""


@dataclass(frozen=True)
class Head:
    """A column's heading, where a few words are not all that there is to say of it."""

    name: str
    numeric: bool = False
    """Set to the right."""
    cut: bool = False
    """The column that gives way where a terminal is too narrow; the others are kept whole."""
    short: str = ""
    """What it is called in a narrow terminal."""
    wide: bool = False
    """A column that a narrow terminal leaves out."""


# -- blocks -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Facts:
    """Names and values, one below the other."""

    rows: Sequence[tuple[str, Cell]]
    on: On = "everywhere"


@dataclass(frozen=True)
class Table:
    headers: Sequence[str | Head]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""
    more: str = ""
    """Where the rows are that a terminal has no room for."""
    most: int = 20
    """Rows that a terminal shows; a page has all, up to some hundreds."""
    on: On = "everywhere"


@dataclass(frozen=True)
class Plot:
    """A drawing with its caption, and its numbers as a table."""

    title: str
    caption: Node
    drawing: Element
    headers: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    legend: Node = None
    on: On = "page"
    """Everywhere: a terminal shows the numbers."""


@dataclass(frozen=True)
class Prose:
    """A paragraph, or a line in a terminal."""

    text: str
    kind: Literal["plain", "quiet", "warning"] = "plain"
    on: On = "everywhere"


@dataclass(frozen=True)
class Notes:
    """Sentences that a reader of the figures must know."""

    lines: Sequence[str]
    label: str = "note"
    """What a terminal writes before each."""
    on: On = "everywhere"


@dataclass(frozen=True)
class Quoted:
    """A text from outside, line breaks and all; a long one is folded unless it is what the page is about."""

    text: str
    fold: bool = True
    label: str = ""
    """What opens the fold; the beginning of the text where nothing is said."""
    on: On = "everywhere"


@dataclass(frozen=True)
class Lines:
    """Lines laid out by whoever made them, for a terminal alone."""

    lines: Sequence[str]
    on: On = "terminal"


class Shade(NamedTuple):
    """A token: its text, its surprisal (None where that is not known, infinite at probability 0), and what else was
    likely in its place, with probabilities."""

    text: str
    bits: float | None
    alternatives: Sequence[tuple[str, float]] = ()

    @property
    def probability(self) -> float | None:
        return None if self.bits is None else 2.0 ** -max(self.bits, 0.0)


@dataclass(frozen=True)
class Tokens:
    """A text with every token shaded by its surprisal."""

    shades: Sequence[Shade]
    label: str
    """What text this is."""
    on: On = "everywhere"


@dataclass(frozen=True)
class Html:
    """What only a page can show: a screen, tokens in their shades, a conversation."""

    node: Node
    on: On = "page"


@dataclass(frozen=True)
class Card:
    """A sample worth a look: what came of it in a few words, and what is to be seen of it."""

    title: str
    verdict: str
    right: bool | None
    """None where there is no right and wrong."""
    body: Callable[[], Sequence[Block]]
    """Made when it is shown, since it may take reading the sample."""
    cells: Sequence[Cell] = ()
    """Its row in a terminal, behind title and verdict."""
    links: Mapping[str, str] = field(default_factory=dict)
    """Addresses by their names; one without a name is that of the title."""


@dataclass(frozen=True)
class Side:
    """Cards of one kind, the most telling first."""

    title: str
    lead: str
    cards: Sequence[Card]
    headers: Sequence[str | Head] = ()
    """Of the cells of its cards, in a terminal."""
    more: str = ""
    """What shows all of them, where there are more than are shown."""


@dataclass(frozen=True)
class Cards:
    """Kinds of sample beside each other, such as confident but wrong, and right but unsure; or one kind alone, which
    needs no title."""

    sides: Sequence[Side]
    nothing: str = "There are no such samples in this run."
    on: On = "everywhere"


Block: TypeAlias = Facts | Table | Plot | Prose | Notes | Quoted | Lines | Tokens | Html | Cards


@dataclass(frozen=True)
class Section:
    """A heading, a sentence or two about what is seen (on pages), and the blocks."""

    title: str
    blocks: Sequence[Block]
    lead: str = ""
    anchor: str = ""
    on: On = "everywhere"


@dataclass(frozen=True)
class Document:
    """A run, a result or a comparison: headline figures, what a reader of them must know, and the sections."""

    title: str
    figures: Sequence[Figure] = ()
    coverage: Coverage | None = None
    notes: Sequence[str] = ()
    sections: Sequence[Section] = ()
    about: Sequence[tuple[str, Cell]] = ()
    """Where it comes from: data, run, status."""
