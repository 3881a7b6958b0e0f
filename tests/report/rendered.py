"""A document as each renderer gives it, to be read by tests."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from htpy import fragment
from rich.console import Console

from howsure.report import html, terminal
from howsure.report.document import Block, Card, Cards, Document, Section
from howsure.report.run_data import Embedded, RunData, StoredRun


def stored(folder: Path, picture_bytes: int = 0) -> StoredRun:
    return StoredRun(folder, Embedded(folder, picture_bytes))


def page(run: StoredRun) -> str:
    """All sections of a run's page."""
    return as_html(run.view.document(run.summary, run))


def about(run: StoredRun, which: str | int = 0) -> str:
    """The page of a sample, by its key or its row."""
    row = which if isinstance(which, int) else run.table.row_of(which) or 0
    return as_html(run.view.about(run.sample(row), run))


def as_html(sections: Sequence[Section]) -> str:
    return "".join(str(html.section(one) or "") for one in sections)


def cards(run: RunData) -> tuple[list[Card], ...]:
    """The samples worth a look, kind by kind."""
    blocks = [block for section in run.view.document(run.summary, run) for block in section.blocks]
    (found,) = (block for block in blocks if isinstance(block, Cards))
    return tuple(list(side.cards) for side in found.sides)


def drawn(block: Block) -> str:
    """A block as a page has it."""
    return str(fragment[html.block(block)])


def body(card: Card) -> str:
    return str(fragment[html.blocks(card.body())])


def printed(shown: Any, width: int = 120, *, is_terminal: bool = False, cards: int = 3) -> str:
    """A document, a result or a comparison as a terminal of this width shows it; no colours where it is none."""
    stream, colours = io.StringIO(), "truecolor" if is_terminal else None
    console = Console(file=stream, width=width, force_terminal=is_terminal, color_system=colours)
    if isinstance(shown, Document):
        terminal.print_document(console, shown, cards=cards)
    elif hasattr(shown, "difference"):
        terminal.print_comparison(console, shown, cards=cards)
    else:
        terminal.print_result(console, shown.summary.study, shown, cards=cards)
    return stream.getvalue()
