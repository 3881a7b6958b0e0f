"""What a study gives to have pages: columns, a row for each sample, plots, samples worth a look, a page for a sample.

A study's module in this folder offers the five names of `Pages`. Nothing in a run folder is trusted: a part that
cannot be made of what the files hold becomes a sentence in its place (`guarded`), and the other parts stand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from htpy import Node

from howsure.errors import CANNOT
from howsure.report.pages.columns import ID, REASON, Column
from howsure.runs import Sample
from howsure.studies import registry

if TYPE_CHECKING:
    from howsure.report.pages.material import Material

_STUDIES = ("mcq", "perplexity", "trajectories", "trust", "trust coherent", "grounding")
HOMES = {name: f"howsure.report.pages.{name.replace(' ', '_')}" for name in _STUDIES}
PLAIN = "howsure.report.pages.plain"
STRICT = False
"""Set by tests: a part that cannot be made is then an error, so that a fault of ours does not pass for a bad file."""


class Section(NamedTuple):
    """A part of a page: a heading, a sentence or two about what is seen, and the thing itself."""

    title: str
    lead: str
    body: Node
    anchor: str = ""


class Card(NamedTuple):
    """A sample worth a look: how sure the model was and what came of it in a few words, and what is to be seen."""

    key: str
    title: str
    verdict: str
    right: bool | None
    """None where there is no right and wrong."""
    body: Node


class Picks(NamedTuple):
    """The two kinds of sample that a person should look at first, the most telling at the top of each."""

    surely_wrong: Sequence[Card]
    doubtfully_right: Sequence[Card]
    surely_words: str = "Wrong, the surest first: the higher the confidence, the less it protected."
    doubtfully_words: str = "Right, the least sure first: who asks again where the model is unsure loses these first."
    titles: tuple[str, str] = ("Confident but wrong", "Right but unsure")
    nothing: str = ""
    """Why there are none, where there are none."""
    lead: str = (
        "Where confidence and truth part ways: the surest of what is wrong, and the least sure of what is right."
    )


class Pages(Protocol):
    """The module of a study."""

    COLUMNS: tuple[Column, ...]

    def row(self, sample: Sample) -> dict[str, Any]: ...

    def sections(self, material: Material) -> list[Section]: ...

    def picks(self, material: Material, most: int) -> Picks | None: ...

    def about(self, sample: Sample, material: Material) -> list[Section]: ...


def pages_of(study: str) -> Any:
    """What makes the pages of a study: its module, or what follows from its record alone; the plainest for a study that
    nobody knows here."""
    plain = import_module(PLAIN)
    if study in HOMES:
        return import_module(HOMES[study])
    return plain.RecordPages(registry.study_named(study).record) if registry.is_known(study) else plain


def columns_of(pages: Any) -> tuple[Column, ...]:
    """A study's columns between those that every study has."""
    return (ID, *pages.COLUMNS, REASON)


Made = TypeVar("Made")


def guarded(make: Callable[[], Made], otherwise: Callable[[str], Made]) -> Made:
    """What `make` gives, or what stands in its place where the files do not hold what it needs."""
    try:
        return make()
    except CANNOT as error:
        if STRICT:
            raise
        return otherwise(f"{type(error).__name__}: {error}")
