"""Documents in a terminal: results on standard output, remarks on standard error.

Whatever comes from outside is made safe on its way to the screen (`SafeConsole`), by whoever put it into a table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table as RichTable
from rich.text import Text

from howsure.errors import CANNOT, HowsureError
from howsure.report.document import (
    Block,
    Cards,
    Cell,
    Document,
    Facts,
    Head,
    Html,
    Lines,
    Marked,
    Notes,
    Plot,
    Prose,
    Quoted,
    Section,
    Side,
    Table,
    Tokens,
    Value,
)
from howsure.report.text import counted, figure, printable, shortened
from howsure.report.tokens import coloured, coloured_legend
from howsure.runs import Run, Sample
from howsure.runs.run import Pair
from howsure.studies.comparing import Comparison

WIDE = 110
"""From this many columns on, intervals have room for all of their digits."""
SHOWN_FAILURES = 5
SHOWN_NOTES = 20
SHOWN_CARDS = 3
TITLE_CHARACTERS = 24
"""Of a card's title, which is often a digest."""
LEAST_CUT = 9
"""Characters of a column that gives way."""
ID_CHARACTERS, CELL_CHARACTERS = 200, 400
LINE_CHARACTERS = 1_000
"""Of one sentence that may hold names from outside."""
SHOWN_FIGURES = 3
"""Of a run in a list; all of them are in its summary."""
PLAIN_WIDTH = 200
"""Outside a terminal nothing has to fit a screen, and a broken line is harder to read and to grep."""


class SafeConsole(Console):
    """A console that only Rich itself steers: no text is taken for markup, and none reaches the terminal as a control
    character, whoever put it into a table."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False)
        if not self.is_terminal:
            self.width = PLAIN_WIDTH

    def render_str(self, text: str, **how: Any) -> Text:
        return super().render_str(printable(text), **how)  # here already, since this is what tables measure

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            text = printable(segment.text)
            yield segment if segment.control or text == segment.text else Segment(text, segment.style)


def output() -> Console:
    return SafeConsole()


def remarks() -> Console:
    return SafeConsole(stderr=True)


# -- documents --------------------------------------------------------------------------------------------------------


def print_result(console: Console, study: str, result: Any, *, cards: int = SHOWN_CARDS) -> None:
    """What a study gave back: a run, or a pair of them."""
    from howsure.report.run_data import HeldRun  # lists of runs need no study
    from howsure.report.views import document_of

    if isinstance(result, Pair):
        print_comparison(console, result.comparison, cards=cards)
        return
    samples, problems = getattr(result, "samples", []), getattr(result.summary, "problems", [])
    held = HeldRun(study, result, samples) if samples else None
    print_document(console, document_of(study, result.summary, held), cards=cards)
    print_end(console, [] if problems else samples, result.run)  # what failed is among the problems


def print_comparison(console: Console, comparison: Comparison, *, cards: int = SHOWN_CARDS) -> None:
    from howsure.report.comparison import document_of

    print_document(console, document_of(comparison), cards=cards)


def print_document(console: Console, document: Document, *, cards: int = SHOWN_CARDS) -> None:
    """Headline figures first, then every section that has something for a terminal, then the notes; of samples worth a
    look, or that flipped, so many of each kind. A first section for terminals alone stands before the headline."""
    parts = [_section(section, console, cards) for section in document.sections]
    if document.figures or document.coverage:
        is_first = document.sections and document.sections[0].on == "terminal"
        parts.insert(1 if is_first else 0, [_figures(document)])
    for place, part in enumerate(part for part in parts if part):
        if place:
            console.print()
        for one in part:
            console.print(one, soft_wrap=isinstance(one, Text) and one.no_wrap is True)
    if document.notes:
        console.print()
        print_notes(console, document.notes)


def _figures(document: Document) -> RenderableType:
    table = plain_table(document.title, "")
    for one in document.figures:
        level = f"  {one.level:.0%} interval" if one.level else ""
        table.add_row(_whole(one.name), f"{Value.at(one)}{level}")
    if document.coverage is not None:
        table.add_row("coverage", _whole(document.coverage.text))
    return table


def _section(section: Section, console: Console, cards: int) -> list[RenderableType]:
    """Its heading and its blocks, tables apart from each other; nothing where a terminal shows none of them."""
    shown = [one for block in section.blocks for one in _rendered(block, console, cards)]
    if section.on == "page" or not shown:
        return []
    parts: list[RenderableType] = [Text(printable(section.title, one_line=True), style="bold")] if section.title else []
    for place, one in enumerate(shown):
        if place and isinstance(one, RichTable) and not isinstance(shown[place - 1], Text):
            parts.append(Text())
        parts.append(one)
    return parts


def _rendered(block: Block, console: Console, cards: int) -> list[RenderableType]:
    width = console.width
    if block.on == "page":
        return []
    match block:
        case Facts():
            return [_facts(block, width >= WIDE)] if block.rows else []
        case Table():
            return _limited(block, width)
        case Plot():
            return _limited(Table([Head(block.title), *block.headers[1:]], block.rows), width)
        case Prose():
            return [Text(shortened(block.text, LINE_CHARACTERS), style=_STYLES[block.kind])]
        case Notes():
            lines = [f"{block.label}: {shortened(line, LINE_CHARACTERS)}" for line in block.lines]
            return [Text(line, no_wrap=True, overflow="ignore") for line in lines]
        case Quoted():
            return [Text(printable(block.text[:LINE_CHARACTERS]))]
        case Lines():
            return [Text(printable(line), no_wrap=True, overflow="ignore") for line in block.lines]
        case Cards():
            return [one for side in block.sides for one in _side(side, width, cards)] if cards else []
        case Tokens():
            legend = [Text(), coloured_legend()] if console.is_terminal else []
            return [coloured(block.shades), *legend, Text()]
        case Html():
            return []


_STYLES = {"plain": "", "quiet": "dim", "warning": "yellow", "good": "green", "bad": "red", "doubt": "yellow"}


def _facts(block: Facts, wide: bool) -> RichTable:
    table = RichTable(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column()
    for name, value in block.rows:
        if value is not None:
            table.add_row(_whole(name), _cell(value, wide))
    return table


def _limited(block: Table, width: int) -> list[RenderableType]:
    """A table as far as a terminal shows it; how many rows there are more, and where."""
    if not block.rows:
        return []
    table = _table(block.headers, block.rows[: block.most], width)
    left_out = len(block.rows) - block.most
    more = f"and {counted(left_out, 'more row')}{f' {block.more}' if block.more else ''}"
    return [table, Text(more, style="dim")] if left_out > 0 else [table]


def _side(side: Side, width: int, most: int) -> list[RenderableType]:
    """Cards as rows: what came of a sample, and what its study says of it."""
    if not side.cards:
        return []
    rows = [(shortened(card.title, TITLE_CHARACTERS), *(card.cells or [card.verdict])) for card in side.cards[:most]]
    table = _table(["sample", *(side.headers or ["verdict"])], rows, width)
    left_out = len(side.cards) - most
    more = [Text(f"and {left_out:,} more: {side.more}", style="dim")] if side.more and left_out > 0 else []
    return [*([Text(side.title)] if side.title else []), table, *more]


def _table(headers: Sequence[str | Head], rows: Sequence[Sequence[Cell]], width: int) -> RichTable:
    """Columns that are to be cut give way to the others, which are broken only where there is no other way."""
    all_heads = [head if isinstance(head, Head) else Head(head) for head in headers]
    shown = [i for i, head in enumerate(all_heads) if width >= WIDE or not head.wide]
    heads = [all_heads[i] for i in shown]
    names = [head.short if head.short and width < WIDE else head.name for head in heads]
    cells = [[_cell(row[i], width >= WIDE) for i in shown] for row in rows]
    kept = [[names[i], *(row[i].plain for row in cells)] for i, head in enumerate(heads) if not head.cut]
    needed = sum(max(map(cell_len, column)) for column in kept) + 2 * len(heads)
    fits = needed + LEAST_CUT * (len(heads) - len(kept)) <= width
    table = plain_table(*names)
    for column, head in zip(table.columns, heads, strict=True):
        column.no_wrap = fits and not head.cut
        column.overflow = "fold"
        column.justify = "right" if head.numeric else "left"
    for row in cells:
        for cell, head in zip(row, heads, strict=True):
            if head.cut:
                cell.no_wrap, cell.overflow = True, "ellipsis"
        table.add_row(*row)
    return table


def _cell(value: Cell, wide: bool) -> Text:
    if isinstance(value, Value):
        return _whole(value.text(narrow=not wide))
    if isinstance(value, Marked):
        return Text(printable(value.text, one_line=True), style=_STYLES.get(value.kind, ""))
    if value is None:
        return Text("—")
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, float):
        return Text(f"{value:.4g}")
    return Text(f"{value:,}") if isinstance(value, int) else Text(shortened(str(value), CELL_CHARACTERS))


def print_end(console: Console, samples: Sequence[Sample], run: Run | None) -> None:
    """Which samples failed, and where all of it lies."""
    for line in _failures(samples):
        console.print(Text(line), style="yellow")
    for line in where_it_lies(run) if run is not None else []:
        console.print(Text(line))


def _failures(samples: Sequence[Sample]) -> list[str]:
    failed = [sample for sample in samples if sample.failed]
    lines = [
        f"failed {shortened(sample.id, ID_CHARACTERS)}: {printable(sample.detail or '', one_line=True)}"
        for sample in failed[:SHOWN_FAILURES]
    ]
    reasons = Counter(sample.reason for sample in failed[SHOWN_FAILURES:])
    rest = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
    return [*lines, f"and {len(failed) - SHOWN_FAILURES} more failed: {rest}"] if rest else lines


def where_it_lies(run: Run) -> list[str]:
    """The page for people, where there is one, and the run folder."""
    page = run.path / "report.html"
    lines = [*([f"report: {page}"] if page.is_file() else []), f"run folder: {run.path}"]
    return [printable(line, one_line=True) for line in lines]


# -- lists ------------------------------------------------------------------------------------------------------------


def plain_table(*headers: str) -> RichTable:
    return RichTable(*headers, box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))


def print_runs(console: Console, runs: Iterable[tuple[Path, Run | str]]) -> None:
    table = plain_table("run", "study", "model", "status", "items", "headline", "started (UTC)")
    table.columns[0].overflow = "fold"
    for path, run in runs:
        if isinstance(run, str):
            table.add_row(_whole(path), "—", "—", "damaged", "—", _whole(run), "—")
            continue
        manifest = run.manifest
        table.add_row(
            _whole(path),
            _short(manifest.identity.study),
            _short(manifest.identity.model.get("name")),
            run.status,
            str(manifest.items),
            Text(_headline(run) or "—"),
            _whole(manifest.started[:16].replace("T", " ")),
        )
    console.print(table)


def _headline(run: Run) -> str:
    """The first figures, one a line; a sentence where summary.json, which may come from anywhere, holds none."""
    try:
        figures = (run.summary or {}).get("headline", [])[:SHOWN_FIGURES]
        return "\n".join(shortened(figure(entry), CELL_CHARACTERS) for entry in figures)
    except HowsureError as error:
        return printable(str(error), one_line=True)
    except CANNOT as error:
        return f"summary.json does not hold what it should: {type(error).__name__}"


def print_demo(console: Console, rows: Sequence[tuple[dict[str, Any], float]], folder: Path) -> None:
    table = plain_table("study", "samples", "coverage", "headline", "seconds")
    for summary, seconds in rows:
        headline = "\n".join(figure(entry) for entry in summary["headline"])
        coverage = summary["coverage"]
        table.add_row(summary["study"], str(coverage["items"]), coverage["text"], Text(headline), f"{seconds:.1f}")
    console.print(table)
    console.print(_whole(f"run folders: {folder}"))
    console.print(_whole(f"to look at them in your browser: howsure view {folder}"))


def print_notes(console: Console, notes: Sequence[str]) -> None:
    for note in notes[:SHOWN_NOTES]:
        console.print(Text(f"note: {shortened(note, LINE_CHARACTERS)}"))
    if len(notes) > SHOWN_NOTES:
        console.print(Text(f"... and {counted(len(notes) - SHOWN_NOTES, 'more note')}; --json lists them"))


def _short(text: object) -> Text:
    """A cell of a list, from strangers."""
    return Text(shortened(str(text), CELL_CHARACTERS))


def _whole(text: object) -> Text:
    """A cell from outside: safe, on one line, and never cut."""
    return Text(printable(str(text), one_line=True))
