"""Tables for the terminal: a run's summary, a list of runs, the models, the demo."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from howsure.errors import CANNOT, HowsureError
from howsure.report.text import figure, printable, shortened, value_with_interval
from howsure.runs import Run, Sample
from howsure.runs.run import Pair

SHOWN_FAILURES = 5
ID_CHARACTERS, CELL_CHARACTERS = 200, 400
SHOWN_FIGURES = 3
"""Of a run in a list; all of them are in its summary."""


def plain_table(*headers: str) -> Table:
    return Table(*headers, box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))


def cut_to_fit(text: object) -> Text:
    """A cell from outside: safe, on one line, and the first to be cut where a table is too wide."""
    return Text(printable(str(text), one_line=True), no_wrap=True, overflow="ellipsis")


def keep_whole(table: Table, *places: int) -> None:
    """Columns that are not to be broken; the others give way."""
    for place in places:
        table.columns[place].no_wrap = True


def print_summary(
    console: Console,
    summary: dict[str, Any],
    samples: Sequence[Sample],
    run: Run,
    sections: Sequence[RenderableType] = (),
) -> None:
    """Headline figures, coverage, a study's own sections, what failed and where it all lies."""
    table = plain_table(summary["study"], "")
    for entry in summary["headline"]:
        level = f"  {entry['level']:.0%} interval" if entry.get("level") else ""
        table.add_row(entry["name"], f"{value_with_interval(entry)}{level}")
    table.add_row("coverage", summary["coverage"]["text"])
    console.print(table)
    for section in sections:
        console.print()
        console.print(section)
    if sections:
        console.print()
    print_notes(console, summary["notes"])
    for line in _failures(samples):
        console.print(Text(line), style="yellow")
    for line in where_it_lies(run):
        console.print(Text(line))


def print_result(console: Console, result: Any, view: Any) -> None:
    """Of a study that has no printing of its own."""
    if not isinstance(result, Pair):
        print_summary(console, result.summary, result.samples, result.run)
        return
    comparison = result.comparison
    table = plain_table("figure", "A", "B")
    for one, other in zip(comparison.a.headline, comparison.b.headline, strict=False):
        table.add_row(one.name, value_with_interval(one), value_with_interval(other))
    table.add_row("coverage", comparison.a.coverage.text, comparison.b.coverage.text)
    console.print(table)
    difference = comparison.difference
    if difference.mean_difference is not None:
        interval = value_with_interval({"value": difference.mean_difference, "unit": "share", **dict(difference)})
        console.print(Text(f"B − A, over the {difference.paired_count} items with an outcome in both: {interval}"))
    print_notes(console, [*comparison.notes, *([difference.note] if difference.note else [])])


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


def side_by_side(comparison: dict[str, Any], about: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Two runs: what each is (`about` names fields of A and B), then their figures with the difference."""
    table = plain_table("", "A", "B", "B − A (95% interval, paired)")
    keep_whole(table, 0, 3)
    for place in (1, 2):
        table.columns[place].overflow = "fold"
    for name in about:
        table.add_row(name, *(_whole(comparison[side][name]) for side in ("a", "b")), "")
    for row in rows:
        table.add_row(*map(_whole, row))
    return table


def print_notes(console: Console, notes: Sequence[str]) -> None:
    for note in notes:
        console.print(_whole(f"note: {note}"))


def _short(text: object) -> Text:
    """A cell of a list, from strangers."""
    return Text(shortened(str(text), CELL_CHARACTERS))


def _whole(text: object) -> Text:
    """A cell from outside: safe, on one line, and never cut."""
    return Text(printable(str(text), one_line=True))


def where_it_lies(run: Run) -> list[str]:
    """The page for people, where there is one, and the run folder."""
    page = run.path / "report.html"
    lines = [*([f"report: {page}"] if page.is_file() else []), f"run folder: {run.path}"]
    return [printable(line, one_line=True) for line in lines]


def _failures(samples: Sequence[Sample]) -> list[str]:
    failed = [sample for sample in samples if sample.failed]
    lines = [
        f"failed {shortened(sample.id, ID_CHARACTERS)}: {printable(sample.detail or '', one_line=True)}"
        for sample in failed
    ]
    if len(lines) <= SHOWN_FAILURES:
        return lines
    reasons = Counter(sample.reason for sample in failed[SHOWN_FAILURES:])
    rest = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
    return [*lines[:SHOWN_FAILURES], f"and {len(failed) - SHOWN_FAILURES} more failed: {rest}"]
