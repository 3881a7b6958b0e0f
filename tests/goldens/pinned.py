"""Runs commands on small data, and holds what they print and write against files kept beside the tests.

What varies from run to run or from machine to machine (folders, ports, times of day, rates, versions) is replaced by a
word in angle brackets first, and colours are left out. Then text has to be the same, sign by sign. In JSON and CSV,
floating-point numbers may differ in their last digits, since processors do; everything else there, the order of keys
too, has to be the same.
"""

from __future__ import annotations

import contextlib
import datetime
import difflib
import io
import json
import math
import os
import re
import shlex
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

WRITE = os.environ.get("HOWSURE_WRITE_GOLDENS") == "1"
HERE = Path(__file__).parent
DIFF_LINES = 60
DATA = (".json", ".jsonl", ".csv", ".rows")
"""Where last digits may differ. `.rows` are the rows of a table, after what all of them have in common."""
TEXT = (".txt", ".md")
LONG = 1000
RELATIVE, ABSOLUTE = 1e-9, 1e-12

_FLOAT = re.compile(r"-?\d+(?:\.\d+(?:[eE][+-]?\d+)?|[eE][+-]?\d+)")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:[+-]\d\d:\d\d|Z)?")
_NAMED_BY_TIME = re.compile(r"\b(runs/[a-z]+)-\d{8}-\d{6}(-\d+)?\b")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class Done(NamedTuple):
    """How a command ended, and what it said."""

    code: int
    stdout: str
    stderr: str


def command(*arguments: Any, stdin: str = "") -> Done:
    """A command in this process, with streams that are no terminal."""
    from howsure.cli.app import app

    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2)]
    given = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
    try:
        with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
            try:
                app(list(map(str, arguments)), prog_name="howsure")
                code = 0
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    finally:
        sys.stdin = given
    out, err = (stream.buffer.getvalue().decode() for stream in streams)  # type: ignore[attr-defined]
    return Done(code, out, err)


class Case:
    """One folder of goldens: what has been pinned so far, and a working folder that paths begin at."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        self.kept = HERE / name
        self.found: dict[str, str] = {}
        self.checked = False

    # -- what is worked on -----------------------------------------------------------------------------------------

    def put(self, name: str, *lines: Any) -> str:
        """A file of lines; those that are no text are written as JSON."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        texts = [one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in lines]
        path.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
        return name

    # -- what is pinned --------------------------------------------------------------------------------------------

    def howsure(self, golden: str, *arguments: Any, stdin: str = "") -> Done:
        """What a command says, and its exit code; with --json its standard output is a file of its own."""
        done = command(*arguments, stdin=stdin)
        self.said(golden, arguments, done)
        return done

    def said(self, golden: str, arguments: tuple[Any, ...], done: Done) -> None:
        given = shlex.join(map(str, arguments))
        out = done.stdout
        if "--json" in arguments and done.code != 2:
            self.pin(f"{golden}.stdout.json", out)
            out = f"as {golden}.stdout.json\n"
        told = f"$ howsure {given}\nexit code {done.code}\n--- stdout\n{out}--- stderr\n{done.stderr}"
        self.pin(f"{golden}.txt", told)

    def run(self, name: str) -> None:
        """A run folder: which files there are, and what those hold that are text."""
        folder = self.folder / name
        names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
        self.pin(f"{name}/files.txt", "".join(f"{one}\n" for one in names))
        for one in names:
            if one.endswith(DATA + TEXT):
                self.file(f"{name}/{one}")
            elif one.endswith(".parquet"):
                self.table(f"{name}/{one}")

    def file(self, name: str) -> None:
        with open(self.folder / name, encoding="utf-8", newline="") as file:
            self.pin(name, file.read())

    def table(self, name: str) -> None:
        """A Parquet file: the names and types of its columns, and its rows."""
        import pyarrow.parquet

        found = pyarrow.parquet.read_table(self.folder / name)
        self.pin(f"{name}.columns.txt", "".join(f"{one.name}: {one.type}\n" for one in found.schema))
        rows = [{column: _spelled(value) for column, value in row.items()} for row in found.to_pylist()]
        always = {column for column in found.column_names if len({row[column] for row in rows}) == 1}
        first = [f"in every row {_object(rows[0], always)}"] if always else []
        others = set(found.column_names) - always
        self.pin(f"{name}.rows", "".join(f"{line}\n" for line in [*first, *(_object(row, others) for row in rows)]))

    def pin(self, golden: str, text: str) -> None:
        """Keep a text; a long one that has been pinned already, only by its name."""
        assert golden not in self.found, f"{golden} is pinned twice"
        text = self._settled(golden, text)
        if len(text) > LONG:
            text = next((f"the same as {name}\n" for name, other in self.found.items() if other == text), text)
        self.found[golden] = text

    def _settled(self, golden: str, text: str) -> str:
        """Without what no two runs or machines have in common."""
        for folder in sorted({str(self.folder), os.path.realpath(self.folder)}, key=len, reverse=True):
            text = text.replace(folder, "<folder>")
        text = _COLOURS.sub("", text)
        text = _TIME.sub(lambda found: "<time>" if _is_now(found[0]) else found[0], text)
        text = _NAMED_BY_TIME.sub(r"\1-<time>", text)
        text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:<port>", text)
        text = re.sub(r"\d[\d,.]*( \w+)?/s\b", r"<rate>\1/s", text)
        text = re.sub(r'"run_id": "[0-9a-f]{16}"', '"run_id": "<by the time of its start>"', text)
        text = re.sub(r'"seconds": [\d.e-]+', '"seconds": "<seconds>"', text)
        text = re.sub(r" sentences, [\d.]+ s\b", " sentences, <seconds> s", text)
        text = re.sub(r'("model": "openai:[^"]*", "model_fingerprint": )"sha256:\w+"', r'\1"<by the port>"', text)
        text = re.sub(r"( columns, |\"columns\": \d+,\s+\"byte_count\": )\d[\d,]*\d", r"\1<bytes>", text)
        if golden.endswith("run.json"):
            text = re.sub(r'"(owner|versions)": \{.*?\n  \}', r'"\1": "<\1>"', text, flags=re.DOTALL)
        return text

    # -- the comparison --------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Every golden is as it was, none is missing, and there is none that nobody makes."""
        self.checked = True
        if WRITE:
            self._write()
            return
        there = {path.relative_to(self.kept).as_posix() for path in self.kept.rglob("*") if path.is_file()}
        faults = [f"{name}: there is no such golden" for name in sorted(self.found.keys() - there)]
        faults += [f"{name}: a golden that nothing makes" for name in sorted(there - self.found.keys())]
        for name in sorted(there & self.found.keys()):
            with open(self.kept / name, encoding="utf-8", newline="") as file:
                kept = file.read()
            if not same(kept, self.found[name], exactly=not name.endswith(DATA)):
                faults.append(difference(f"{self.name}/{name}", kept, self.found[name]))
        assert not faults, "\n".join([*faults, "HOWSURE_WRITE_GOLDENS=1 pytest tests/goldens writes them anew"])

    def _write(self) -> None:
        for path in sorted(self.kept.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        for name, text in self.found.items():
            path = self.kept / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "w", encoding="utf-8", newline="") as file:
                file.write(text)


def same(kept: str, found: str, *, exactly: bool) -> bool:
    """Sign by sign, but for the last digits of floating-point numbers where these may differ."""
    if kept == found or exactly:
        return kept == found
    if _FLOAT.sub("<number>", kept) != _FLOAT.sub("<number>", found):
        return False
    pairs = zip(_FLOAT.findall(kept), _FLOAT.findall(found), strict=True)
    return all(math.isclose(float(a), float(b), rel_tol=RELATIVE, abs_tol=ABSOLUTE) for a, b in pairs)


def difference(name: str, kept: str, found: str) -> str:
    """The first lines of a unified diff; JSON lines are spread out, to show what it is that differs."""
    lines = difflib.unified_diff(list(_spread(kept)), list(_spread(found)), f"{name} (golden)", f"{name} (now)", "", "")
    return "\n".join(line[:400].rstrip("\n") for line in islice(lines, DIFF_LINES)) or f"{name}: ends of lines differ"


def _spread(text: str) -> Iterator[str]:
    for line in text.splitlines():
        before, brace, rest = line.partition("{")
        try:
            spread = json.dumps(json.loads(brace + rest), indent=1, ensure_ascii=False).splitlines()
        except ValueError:
            yield line
        else:
            yield from ([before] if before else []) + spread


def _is_now(text: str) -> bool:
    """Whether this is when the test ran, and not a time in its data; zones are up to a day apart."""
    try:
        then = datetime.datetime.fromisoformat(text).replace(tzinfo=None)
    except ValueError:
        return False
    return abs(then - datetime.datetime.now()) < datetime.timedelta(days=2)


def _spelled(value: Any) -> str:
    """A cell of a table as JSON; bytes and times are no part of it."""
    return json.dumps(value, ensure_ascii=False, default=lambda one: one.hex() if isinstance(one, bytes) else str(one))


def _object(row: dict[str, str], columns: set[str]) -> str:
    return "{" + ", ".join(f"{json.dumps(name)}: {cell}" for name, cell in row.items() if name in columns) + "}"
