"""Runs below the folder that is served, and nothing outside it: listed, opened, kept in memory, read on as they grow.

A hundred thousand samples take about a second to read. Nobody waits for that: what is there after a moment is shown,
and a thread reads the rest. Large comparisons are made in a process of their own."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from howsure.errors import CANNOT, HowsureError, InputError
from howsure.isolated import python
from howsure.report.rows import ROOM_FOR_TEXT, Column, Place, Table
from howsure.report.run_data import StoredRun, picture_within
from howsure.report.text import counted, figure, printable
from howsure.report.viewer.query import Finder, State
from howsure.runs import Run, find_runs
from howsure.runs.reading import MANIFEST, SAMPLES, SUMMARY, count_lines, open_file

HERE = "."
_SYSTEMS_OWN = ("\\", ":") if os.name == "nt" else ()
"""What would lead to another place by another spelling, on Windows."""

Mark = tuple[int, int, int] | None
"""By what a file is seen to have changed; None where there is none."""


class NotServed(HowsureError):
    """Something that is not there, or that is not for the viewer to show."""


def run_within(root: Path, name: str) -> Path:
    """The run folder with this name below `root`, which must be resolved. Symbolic links are not followed."""
    parts = [] if name == HERE else name.split("/")
    if any(_is_odd(part) for part in parts):
        raise NotServed("The address names no run folder below the one that is served.")
    folder = root.joinpath(*parts)
    try:
        if folder.resolve(strict=True) != folder or not (folder / MANIFEST).exists():
            raise NotServed("There is no run folder of this name; it may have been moved or deleted.")
    except (OSError, RuntimeError, ValueError) as error:
        if isinstance(error, HowsureError):
            raise
        raise NotServed("There is no run folder of this name; it may have been moved or deleted.") from error
    return folder


def name_within(root: Path, folder: Path) -> str:
    return folder.relative_to(root).as_posix()


def served_root(folder: Path) -> Path:
    """The folder to serve, by the one name that all checks go by."""
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder: name one that holds run folders, or make some with `howsure demo`")
    return folder.resolve()


def mark_of(path: Path) -> Mark:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _is_odd(part: str) -> bool:
    """Hidden folders are none of ours, and neither is anything that climbs."""
    return not part or part.startswith(".") or "\0" in part or any(sign in part for sign in _SYSTEMS_OWN)


FIRST_SECONDS = 0.15
"""For how long a request reads before it shows what there is."""
PATIENCE_SECONDS = 60.0
"""For how long a request waits that needs all rows."""
PAUSE_SECONDS = 0.0003
MOST_BYTES = 200_000_000
ROW_BYTES = 400
"""Of a row besides its texts, about."""

Signature = tuple[Mark, ...]


class RunLinks:
    """Where the pages of a run lead to."""

    number = 0

    def __init__(self, name: str, folder: Path) -> None:
        self._state, self._folder = State(name), folder

    def sample(self, key: str) -> str | None:
        return self._state.to("/sample", key=key)

    def picture(self, name: str) -> str | None:
        return self._state.to("/picture", name=name) if picture_within(self._folder, name) else None


class Opened:
    """A run that is looked at. Whoever reads `data` or `finder` holds `lock`."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.lock = threading.RLock()
        self._signature = _signature(folder)
        self.data = StoredRun(folder, RunLinks(name, folder), at_once=False)
        self.finder = Finder(self.data.table)
        self.problem: str | None = None
        self._all_here = threading.Event()
        self._reader: threading.Thread | None = None
        self.drawn: dict[str, str] = {}
        """Parts of pages that take a while, by what they are of; gone when anything changes."""

    @property
    def complete(self) -> bool:
        """Whether every sample that the files hold is here."""
        return self._all_here.is_set()

    @property
    def version(self) -> str:
        """Another text whenever there is anything new to see."""
        data = self.data
        marks = (data.status, len(data.table), data.damaged_lines, self._signature, self.complete)
        return f"{hash(marks) & 0xFFFFFFFFFFFF:012x}"

    @property
    def bytes(self) -> int:
        table = self.data.table
        return ROOM_FOR_TEXT - table.room_for_text + ROW_BYTES * len(table)

    def catch_up(self) -> None:
        """Look at the files, and read on for a moment; a thread reads what is left."""
        with self.lock:
            if self._reader is not None:
                return
            now = _signature(self.data.folder)
            if now != self._signature or self.data.run.manifest.status == "running":
                self._look_again(now)
            until = time.monotonic() + FIRST_SECONDS
            while not self.complete:
                self._read_some()
                if time.monotonic() > until:
                    break
            if not self.complete:
                self._reader = threading.Thread(target=self._read_the_rest, name=f"reading {self.name}", daemon=True)
                self._reader.start()

    def wait(self) -> None:
        """Until all is here; not to be called by one who holds the lock."""
        self._all_here.wait(PATIENCE_SECONDS)

    def _look_again(self, now: Signature) -> None:
        before = self.data.status
        self.data.look_again()
        if now != self._signature:
            self._all_here.clear()
        if now != self._signature or self.data.status != before:
            self.drawn.clear()
        self._signature, self.problem = now, None

    def _read_some(self) -> None:
        try:
            done = self.data.read_some()
        except HowsureError as error:
            self.problem, done = str(error), True
        if self.finder.table is not self.data.table:
            self.finder = Finder(self.data.table)
        if done:
            self._all_here.set()

    def _read_the_rest(self) -> None:
        try:
            while not self.complete:
                with self.lock:
                    self._read_some()
                time.sleep(PAUSE_SECONDS)  # locks are not fair: without a pause nobody else would ever get in
        finally:
            with self.lock:
                self._reader = None
                if not self.complete:  # a mistake of ours: nobody is to wait for what will not come
                    self.problem = "The samples could not be read to their end; what is here is not all."
                    self._all_here.set()


class Library:
    """The runs below one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = threading.Lock()
        self._opened: OrderedDict[str, Opened] = OrderedDict()

    def open(self, name: str) -> Opened:
        """A run, as far as it could be read in a moment; raises what is to be told to the user."""
        folder = run_within(self.root, name)
        with self._lock:
            found = self._opened.get(name)
            if found is None:
                found = self._opened[name] = Opened(name, folder)
            self._opened.move_to_end(name)
        found.catch_up()
        self._make_room()
        return found

    def whole(self, name: str) -> Opened:
        """A run with all its rows."""
        found = self.open(name)
        found.wait()
        return found

    def _make_room(self) -> None:
        """The least lately used go first; the last one stays in any case."""
        with self._lock:
            while len(self._opened) > 1 and sum(one.bytes for one in self._opened.values()) > MOST_BYTES:
                self._opened.popitem(last=False)


def _signature(folder: Path) -> Signature:
    return tuple(mark_of(folder / name) for name in (MANIFEST, SUMMARY, SAMPLES))


LARGE_BYTES = 40_000_000
"""Of both files of samples together; fewer are compared sooner than a process starts."""


def compare_apart(a: Run, b: Run) -> Any:
    """As `studies.comparing.compare`, in a process of its own where the runs are large: two of 100,000 take seconds and
    hundreds of megabytes, which the viewer neither keeps nor takes from those who ask for something else meanwhile."""
    from howsure.studies.comparing import compare  # the studies take a while to load
    from howsure.studies.registry import study_named

    if _sample_bytes(a) + _sample_bytes(b) < LARGE_BYTES:
        return compare(a, b)
    howsure = python("-m", "howsure", "compare", *(os.path.abspath(run.path) for run in (a, b)), "--json", "--quiet")
    done = subprocess.run(**howsure, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode == 0:
        return msgspec.json.decode(done.stdout, type=study_named(a.manifest.identity.study).comparison)
    raise InputError(_said(done.stderr) or "the comparison was ended before it was done, perhaps for want of memory")


def _sample_bytes(run: Run) -> int:
    mark = mark_of(run.path / SAMPLES)
    return 0 if mark is None else mark[1]


def _said(errors: bytes) -> str:
    """The sentence that ended it, which stands last."""
    return errors.decode("utf-8", "replace").strip().rpartition("\n")[2].removeprefix("howsure: error: ")


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
