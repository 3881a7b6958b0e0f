"""`report.html`: a run, or several, in one file that opens anywhere and needs nothing else."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import htpy as h
from htpy import Element, Node
from markupsafe import Markup

from howsure._version import __version__
from howsure.errors import InputError
from howsure.report.comparison import compared, laid_out
from howsure.report.document import Section
from howsure.report.html import facts, notes, notice, section, standalone, tiles, words
from howsure.report.run_data import Embedded, StoredRun
from howsure.report.views import guarded, sections_of
from howsure.runs import find_runs
from howsure.runs.files import write_atomic
from howsure.runs.folder import opened
from howsure.runs.reading import LOCK, MANIFEST, SAMPLES, SUMMARY
from howsure.storage import as_copy, below, is_there, put_back, shown_path

NAME = "report.html"
MOST_BYTES = 6_000_000
PICTURE_BYTES = 4_500_000
SHELL_BYTES = 200_000
"""More than styles, script and all that stands around the runs."""
SHORT_BYTES = 20_000
"""Kept free for each run that is still to come, which at least its figures need."""
GOES_ON = "The command that made it, with the same --out, goes on from there."
MOST_RUNS = 20

RunFolder = str | os.PathLike[str]


def write_report(folder: RunFolder) -> Path:
    """The report of one run, into its folder."""
    return write_report_of([folder], Path(folder) / NAME)


def write_report_of(folders: Sequence[RunFolder], out: Path | None = None) -> Path:
    """One report of some runs; by default into the folder of the only one, or here."""
    path = out or (as_copy(Path(folders[0])) / NAME if len(folders) == 1 else Path(NAME))
    if path.is_dir():
        raise InputError(f"{path} is a folder: name the file, such as {path / NAME}")
    if path.name in (MANIFEST, SAMPLES, SUMMARY, LOCK) and (path.parent / MANIFEST).is_file():
        raise InputError(f"{path} is a part of the run itself: choose another file, such as {path.with_name(NAME)}")
    if not path.parent.is_dir():
        raise InputError(f"{path}: there is no folder {path.parent}; make it first")
    write_atomic(path, report_of(folders).encode("utf-8", "replace"))
    put_back(path)
    return path


def chosen_runs(paths: Sequence[RunFolder]) -> list[Path]:
    """Run folders as they are named, and those within a folder that is none."""
    found: list[Path] = []
    for path in paths:
        within = [opened(path)] if is_there(below(path, MANIFEST)) else find_runs(path)
        if not within:
            raise InputError(f"{shown_path(os.fspath(path))} is not a run folder and holds none")
        found += within if len(within) == 1 else sorted(within)
    if len(found) > MOST_RUNS:
        raise InputError(
            f"these are {len(found)} runs, and a report holds {MOST_RUNS} at most: `howsure view` has room"
        )
    return found


def report_of(folders: Sequence[RunFolder]) -> str:
    """One page for one run or more, one after the other."""
    share = PICTURE_BYTES // max(len(folders), 1)
    stored = [StoredRun(folder, Embedded(Path(folder), share, i)) for i, folder in enumerate(folders)]
    title = " and ".join(title_of(one) for one in stored[:2]) + (" and more" if len(stored) > 2 else "")
    room = MOST_BYTES - SHELL_BYTES
    both = _made(pair(*stored)) if len(stored) == 2 else None
    names = ("A: ", "B: ") if both else ("",) * len(stored)
    anchors = [""] if len(stored) == 1 else [f"run-{place}-" for place in range(1, len(stored) + 1)]
    articles: list[Markup] = []
    for place, each in enumerate(zip(stored, names, anchors, strict=True)):
        used = sum(_bytes(made) for made in (both or Markup(), *articles))
        articles.append(fitted(*each, room - used - SHORT_BYTES * (len(stored) - place - 1)))
    return standalone(title, [h.main[both, articles], footer()])


def fitted(run: StoredRun, name: str = "", anchors: str = "", room_bytes: int = MOST_BYTES - SHELL_BYTES) -> Markup:
    """All of a run; without pictures, or in short, where the file would grow too large."""
    made = _made(whole(run, name, anchors))
    if _bytes(made) > room_bytes and '="data:image' in made:  # src of an image, href within a drawing
        made = _made(whole(run.linked(Embedded(run.folder, 0, run.links.number)), name, anchors))
    return made if _bytes(made) <= room_bytes else _made(_in_short(run, name))


def _made(element: Element) -> Markup:
    """Written by htpy, which has escaped what came from outside."""
    return Markup(str(element))


def _bytes(made: Markup) -> int:
    return len(made.encode("utf-8", "replace"))


def _in_short(run: StoredRun, name: str) -> Element:
    """The figures of a run alone."""
    why = (
        f"Samples and plots of this run are left out, since the file would be larger than {MOST_BYTES // 10**6} MB: "
        "the report in its own folder has them, and so has `howsure view`."
    )
    return h.article(class_="run")[header(run, name), overview(run), notice(why)]


def pair(a: StoredRun, b: StoredRun) -> Element:
    """What changed from one run to the other."""
    document = laid_out(compared(a, b), a, b)
    return h.article(class_="run")[
        h.header[h.h1[f"{title_of(a)} against {_subject(b)}"]],
        rendered(document.sections),
        notes(document.notes),
    ]


def write_pair_report(folder: Path, a: RunFolder, b: RunFolder) -> Path:
    """The report of two runs that were made together, into the folder that holds both."""
    return write_report_of([a, b], folder / NAME)


def whole(run: StoredRun, name: str = "", anchors: str = "") -> Element:
    """Everything that a report says of a run; `name` stands before its title, `anchors` before those of sections."""
    return h.article(class_="run")[
        header(run, name), overview(run), rendered(sections_of(run.study, run.summary, run), anchors)
    ]


def rendered(sections: Sequence[Section], anchors: str = "") -> list[Node]:
    """Sections one after the other, each on its own feet: one that cannot be shown says so."""

    def made(one: Section) -> Node:
        named = replace(one, anchor=f"{anchors}{one.anchor}" if one.anchor else "")
        written = section(named)
        return None if written is None else _made(written)

    def missing(one: Section, why: str) -> Node:
        return notice(f"{one.title} cannot be shown, since the files do not hold what is needed: {why}")

    return [guarded(lambda one=one: made(one), lambda why, one=one: missing(one, why)) for one in sections]  # type: ignore[misc]


def title_of(run: StoredRun) -> str:
    return f"{run.study}: {_subject(run)}"


def _subject(run: StoredRun) -> str:
    """Its model, or the data where logs were read without one."""
    model = run.run.manifest.identity.model.get("name")
    return words(run.source if model == "log" else model, 80)


def header(run: StoredRun, name: str = "") -> Element:
    manifest = run.run.manifest
    return h.header[
        h.h1[f"{name}{title_of(run)}"],
        facts(
            {
                "data": words(manifest.source, 300),
                "run": words(run.folder.absolute().name, 300),
                "status": run.status if run.status == "finished" else f"{run.status}: not all is here yet",
                "started": f"{words(manifest.started[:19].replace('T', ' '))} UTC",
                "error": manifest.error,
            }.items()
        ),
    ]


def overview(run: StoredRun) -> Node:
    """Headline figures and what a reader of them must know."""
    summary = run.summary
    problem = None if run.summary_problem is None else notice(run.summary_problem)
    if summary is None:
        return problem or notice(_not_finished(run))
    return [problem, tiles(summary.headline, summary.coverage), notes(summary.notes)]


def _not_finished(run: StoredRun) -> str:
    here, wanted = len(run.table), run.run.manifest.items
    found = f"This run is not finished: {here:,} of {wanted:,} samples are here, and there are no figures yet."
    return found if run.status == "running" else f"{found} {GOES_ON}"


def footer() -> Element:
    return h.footer[h.p(class_="quiet")[f"Made by howsure {__version__}."]]
