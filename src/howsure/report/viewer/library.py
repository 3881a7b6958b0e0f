"""Runs that somebody looks at, kept in memory while there is room, and read on where their files have grown.

A hundred thousand samples take about a second to read. Nobody waits for that: what is there after a moment is shown,
and a thread reads the rest.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from pathlib import Path

from howsure.errors import HowsureError
from howsure.report.pages.columns import ROOM_FOR_TEXT
from howsure.report.pages.material import Material, picture_within
from howsure.report.viewer.address import State
from howsure.report.viewer.places import Mark, mark_of, run_within
from howsure.report.viewer.query import Finder
from howsure.runs.reading import MANIFEST, SAMPLES, SUMMARY

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

    def __init__(self, name: str, folder: Path) -> None:
        self._state, self._folder = State(name), folder

    def sample(self, key: str) -> str | None:
        return self._state.to("/sample", key=key)

    def picture(self, name: str) -> str | None:
        return self._state.to("/picture", name=name) if picture_within(self._folder, name) else None


class Opened:
    """A run that is looked at. Whoever reads `material` or `finder` holds `lock`."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.lock = threading.RLock()
        self._signature = _signature(folder)
        self.material = Material(folder, RunLinks(name, folder), at_once=False)
        self.finder = Finder(self.material.table)
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
        material = self.material
        marks = (material.status, len(material.table), material.damaged_lines, self._signature, self.complete)
        return f"{hash(marks) & 0xFFFFFFFFFFFF:012x}"

    @property
    def bytes(self) -> int:
        table = self.material.table
        return ROOM_FOR_TEXT - table.room_for_text + ROW_BYTES * len(table)

    def catch_up(self) -> None:
        """Look at the files, and read on for a moment; a thread reads what is left."""
        with self.lock:
            if self._reader is not None:
                return
            now = _signature(self.material.folder)
            if now != self._signature or self.material.run.manifest.status == "running":
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
        before = self.material.status
        self.material.look_again()
        if now != self._signature:
            self._all_here.clear()
        if now != self._signature or self.material.status != before:
            self.drawn.clear()
        self._signature, self.problem = now, None

    def _read_some(self) -> None:
        try:
            done = self.material.read_some()
        except HowsureError as error:
            self.problem, done = str(error), True
        if self.finder.table is not self.material.table:
            self.finder = Finder(self.material.table)
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
