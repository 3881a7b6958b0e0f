"""The runs below the folder, as a table: one row each, also for those that cannot be read."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any, NamedTuple

from howsure.errors import CANNOT, HowsureError
from howsure.report.rows import Column, Place, Table
from howsure.report.text import counted, figure, printable
from howsure.report.viewer.places import Mark, NotServed, mark_of, name_within, run_within
from howsure.report.viewer.query import Finder
from howsure.runs import Run, find_runs
from howsure.runs.reading import MANIFEST, SAMPLES, SUMMARY, count_lines, open_file

COLUMNS = (
    Column("run", "run", "text", help="The run folder, below the one that is served."),
    Column("study", "study", "word", help="Which of the studies it is."),
    Column("model", "model", "text", help="The model's name, as it was given."),
    Column(
        "figures",
        "figures",
        "text",
        help="The headline figures with their intervals, and what qualifies them; or why there are none.",
        shown=600,
    ),
    Column(
        "status",
        "status",
        "word",
        help="finished; running; stopped (killed), interrupted (Ctrl-C) or failed: the command that made it, with the "
        "same --out, goes on from there.",
    ),
    Column("started", "started (UTC)", "text", help="When it was begun."),
    Column("items", "items", "number", digits=0, help="How many samples it has when it is finished."),
    Column("data", "data", "text", help="Where the data was read from."),
)
SHOWN_FIGURES = 3


class Listed(NamedTuple):
    names: list[str]
    finder: Finder
    version: str
    running: bool


class Listing:
    """Looks below the folder each time, and reads again only what has changed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = threading.Lock()
        self._known: dict[Path, tuple[tuple[Mark, ...], dict[str, Any]]] = {}
        self._lines: dict[Path, tuple[int, int, int]] = {}

    def look(self) -> Listed:
        with self._lock:
            paths = self._paths()
            rows = [self._row(path) for path in paths]
            self._known = {path: self._known[path] for path in paths if path in self._known}
        names = [name_within(self.root, path) for path in paths]
        table = Table(COLUMNS)
        table.extend([
            (name, Place(0, 0), row | {"run": printable(name, one_line=True), "_index": place})
            for place, (name, row) in enumerate(zip(names, rows, strict=True))
        ])  # fmt: skip
        version = f"{hash(tuple(map(str, rows))) & 0xFFFFFFFFFFFF:012x}"
        return Listed(names, Finder(table), version, any(row.get("status") == "running" for row in rows))

    def _paths(self) -> list[Path]:
        try:
            return find_runs(self.root)
        except (OSError, HowsureError) as error:
            raise NotServed(f"The folder cannot be looked through just now ({error}): try again.") from error

    def _row(self, path: Path) -> dict[str, Any]:
        marks = tuple(mark_of(path / name) for name in (MANIFEST, SUMMARY))
        known = self._known.get(path)
        if known is None or known[0] != marks or known[1].get("status") in ("running", "stopped"):
            known = self._known[path] = marks, self._read(path)
        return known[1]

    def _read(self, path: Path) -> dict[str, Any]:
        try:
            run_within(self.root, name_within(self.root, path))
            run = Run(path)
            return _facts(run) | {"figures": _figures(run) or self._so_far(run)}
        except HowsureError as error:
            return {"status": "damaged", "figures": str(error)}

    def _so_far(self, run: Run) -> str:
        if run.manifest.error:
            return run.manifest.error
        return f"{self._count_lines(run.path):,} of {counted(run.manifest.items, 'sample')} so far"

    def _count_lines(self, folder: Path) -> int:
        """The lines of its samples, of which only those are read that are new."""
        try:
            with open_file(folder, SAMPLES) as file:
                about = os.fstat(file.fileno())
                inode, end, lines = self._lines.get(folder, (0, 0, 0))
                if about.st_ino != inode or about.st_size < end:
                    end = lines = 0
                file.seek(end)
                more, size = count_lines(file)
        except OSError:
            return 0
        self._lines[folder] = about.st_ino, end + size, lines + more
        return lines + more


def _facts(run: Run) -> dict[str, Any]:
    manifest = run.manifest
    name = manifest.identity.model.get("name")
    return {
        "study": manifest.identity.study,
        "model": name if isinstance(name, str) else None,
        "data": manifest.source or None,
        "started": manifest.started[:16].replace("T", " "),
        "status": run.status,
        "items": manifest.items,
    }


def _figures(run: Run) -> str:
    """The first headline figures; a sentence where the summary does not hold them."""
    if run.status != "finished":
        return ""
    try:
        summary = run.summary
        if summary is None:
            return "summary.json is missing: run the same command again to have it written"
        return " · ".join(figure(entry) for entry in summary["headline"][:SHOWN_FIGURES]) or "no figures"
    except HowsureError as error:
        return str(error)
    except CANNOT as error:
        return f"summary.json does not hold what it should: {type(error).__name__}"
