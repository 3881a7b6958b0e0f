"""`report.html`: a run, or several, in one file that opens anywhere and needs nothing else."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import htpy as h
from htpy import Element, Node
from markupsafe import Markup

from howsure._version import __version__
from howsure.errors import InputError
from howsure.report.pages.contract import Section, guarded
from howsure.report.pages.material import Embedded, Material
from howsure.report.pages.parts import facts, notice, picks, section, tiles, words
from howsure.report.pages.shell import standalone
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
PICKS = 5
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
    materials = [Material(folder, Embedded(Path(folder), share)) for folder in folders]
    title = " and ".join(title_of(one) for one in materials[:2]) + (" and more" if len(materials) > 2 else "")
    room = MOST_BYTES - SHELL_BYTES
    both = _made(compared(*materials)) if len(materials) == 2 else None
    names = ("A: ", "B: ") if both else ("",) * len(materials)
    anchors = [""] if len(materials) == 1 else [f"run-{place}-" for place in range(1, len(materials) + 1)]
    runs: list[Markup] = []
    for place, each in enumerate(zip(materials, names, anchors, strict=True)):
        used = sum(_bytes(made) for made in (both or Markup(), *runs))
        runs.append(fitted(*each, room - used - SHORT_BYTES * (len(materials) - place - 1)))
    return standalone(title, [h.main[both, runs], footer()])


def fitted(material: Material, name: str = "", anchors: str = "", room_bytes: int = MOST_BYTES - SHELL_BYTES) -> Markup:
    """All of a run; without pictures, or in short, where the file would grow too large."""
    made = _made(whole(material, name, anchors))
    if _bytes(made) > room_bytes and '="data:image' in made:  # src of an image, href within a drawing
        made = _made(whole(material.linked(Embedded(material.folder, 0)), name, anchors))
    return made if _bytes(made) <= room_bytes else _made(_in_short(material, name))


def _made(element: Element) -> Markup:
    """Written by htpy, which has escaped what came from outside."""
    return Markup(str(element))


def _bytes(made: Markup) -> int:
    return len(made.encode("utf-8", "replace"))


def _in_short(material: Material, name: str) -> Element:
    """The figures of a run alone."""
    why = (
        f"Samples and plots of this run are left out, since the file would be larger than {MOST_BYTES // 10**6} MB: "
        "the report in its own folder has them, and so has `howsure view`."
    )
    return h.article(class_="run")[header(material, name), overview(material), notice(why)]


def compared(a: Material, b: Material) -> Element:
    """What changed from one run to the other."""
    from howsure.report.pages.compare import comparison

    return h.article(class_="run")[
        h.header[h.h1[f"{title_of(a)} against {words(b.run.manifest.identity.model.get('name'), 80)}"]],
        [section(one) for one in comparison(a, b)],
    ]


def write_pair_report(folder: Path, a: RunFolder, b: RunFolder) -> Path:
    """The report of two runs that were made together, into the folder that holds both."""
    return write_report_of([a, b], folder / NAME)


def whole(material: Material, name: str = "", anchors: str = "") -> Element:
    """Everything that a report says of a run; `name` stands before its title, `anchors` before those of its parts."""
    found = [one._replace(anchor=f"{anchors}{one.anchor}") if one.anchor else one for one in parts(material)]
    return h.article(class_="run")[header(material, name), overview(material), [section(one) for one in found]]


def title_of(material: Material) -> str:
    identity = material.run.manifest.identity
    return f"{identity.study}: {words(identity.model.get('name'), 80)}"


def header(material: Material, name: str = "") -> Element:
    manifest = material.run.manifest
    return h.header[
        h.h1[f"{name}{title_of(material)}"],
        facts(
            {
                "data": words(manifest.source, 300),
                "run": words(material.folder.absolute().name, 300),
                "status": material.status
                if material.status == "finished"
                else f"{material.status}: not all is here yet",
                "started": f"{words(manifest.started[:19].replace('T', ' '))} UTC",
                "error": manifest.error,
            }
        ),
    ]


def overview(material: Material) -> Node:
    """Headline figures and what a reader of them must know."""
    summary = material.summary
    if material.summary_problem:
        return notice(material.summary_problem)
    if summary is None:
        return notice(_not_finished(material))
    return guarded(lambda: _figures(summary), lambda why: notice(f"summary.json does not hold what it should: {why}"))


def _not_finished(material: Material) -> str:
    here, wanted = len(material.table), material.run.manifest.items
    found = f"This run is not finished: {here:,} of {wanted:,} samples are here, and there are no figures yet."
    return found if material.status == "running" else f"{found} {GOES_ON}"


def _figures(summary: dict[str, Any]) -> Node:
    notes = summary["notes"]
    return [
        tiles(summary),
        h.ul(class_="notes")[[h.li[words(note, 2_000)] for note in notes]] if notes else None,
    ]


def parts(material: Material) -> list[Section]:
    """The samples worth a look, then the plots; what cannot be made says so in its place."""
    return [_worth_a_look(material), *_plots(material)]


def _worth_a_look(material: Material) -> Section:
    title = "Worth a look"

    def make() -> Section:
        found = material.pages.picks(material, PICKS)
        if found is None:
            return Section(title, "", h.p(class_="quiet")["This study has no right and wrong."])
        return Section(title, found.lead, picks(found, material.links), "look")

    return guarded(make, lambda why: Section(title, "", notice(f"the samples do not hold what is needed: {why}")))


def _plots(material: Material) -> list[Section]:
    return guarded(
        lambda: material.pages.sections(material),
        lambda why: [Section("Plots", "", notice(f"the files of this run do not hold what is needed: {why}"))],
    )


def footer() -> Element:
    return h.footer[h.p(class_="quiet")[f"Made by howsure {__version__}."]]
