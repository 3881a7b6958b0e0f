"""Which files hold trajectories: files, folders, patterns, and addresses of the same in stores beyond this machine.

What a file is, its name says: `.json` as τ²-bench writes it, `.jsonl` chats, `.eval` an Inspect log. A folder is
searched; one with `results.json` and `simulations/` is a single set of results in parts. What leads nowhere becomes a
sentence.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from howsure import storage
from howsure.errors import HowsureError
from howsure.runs.folder import MANIFEST, SAMPLES
from howsure.studies.trajectories.messages import about_file
from howsure.studies.trajectories.tau2 import read_about
from howsure.studies.trajectories.turns import Problem

PathLike = str | os.PathLike[str]
Place = Path | str
"""A file of this machine, or the address of one elsewhere."""

RESULTS, SIMULATIONS = "results.json", "simulations"
CHATS = frozenset({".jsonl", ".ndjson"})
INSPECT = frozenset({".eval"})
SUFFIXES = frozenset({".json"}) | CHATS | INSPECT


class Source(NamedTuple):
    """One file to be read. `about` is the results.json of a set that this is a part of, and `set_name` names the set.

    `named` is whether the user named it: what was only found in a folder may turn out to be something else.
    """

    path: Place
    set_name: str
    about: Place | None = None
    named: bool = True

    @property
    def suffix(self) -> str:
        return PurePosixPath(shown_name(self.path)).suffix.lower()


def find_sources(paths: Sequence[PathLike]) -> tuple[list[Source], list[Problem]]:
    """The files behind paths, folders, patterns, links and addresses, each once, in the order given; and what leads
    nowhere."""
    sources: dict[str, Source] = {}
    problems: list[Problem] = []
    for path in paths:
        place = os.fspath(storage.checked(path))
        for one in _at_address(place) if storage.is_address(place) else _behind(place):
            if isinstance(one, Problem):
                problems.append(one)
            else:
                sources.setdefault(one.path if isinstance(one.path, str) else os.path.realpath(one.path), one)
    return list(sources.values()), problems


def shown_name(place: PathLike) -> str:
    """A name as it can be written anywhere: on the disk it is made of bytes, which need not be text, and an address may
    have a key in it."""
    if isinstance(place, str) and storage.is_address(place):
        return storage.shown(place)
    return os.fsencode(place).decode("utf-8", errors="backslashreplace")


def size_of(place: Place) -> int | None:
    """Bytes of a file of this machine; None where that cannot be seen from here, and of a pipe, which has no size."""
    if isinstance(place, str):
        return None
    try:
        status = place.stat()
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


# -- on this machine -----------------------------------------------------------------------------------------------


def _behind(path: str) -> Iterator[Source | Problem]:
    if os.path.exists(path):
        yield from _named(Path(path))
        return
    matches = sorted(glob.glob(path, recursive=True)) if glob.has_magic(path) else []
    if not matches:
        what = "matches no file" if glob.has_magic(path) else "is not there"
        yield about_file(shown_name(path), "missing_file", f"{what}; check the path")
    for match in matches:
        yield from _named(Path(match))


def _named(path: Path) -> Iterator[Source | Problem]:
    """A folder, or a file; the results.json of a set in parts stands for all of them, as for τ² itself."""
    if os.path.isdir(path):
        yield from _in_folder(path)
    elif path.name == RESULTS and _is_set(path.parent):
        yield from _set_in_parts(path.parent)
    else:
        yield Source(path, shown_name(path))


def _in_folder(folder: Path) -> Iterator[Source | Problem]:
    problems: list[Problem] = []
    is_empty = True

    def closed(error: OSError) -> None:
        """A folder that cannot be looked into."""
        what = f"cannot be read: {error.strerror}"
        problems.append(about_file(shown_name(error.filename), "unreadable_file", what))

    for here, folders, files in os.walk(folder, onerror=closed):
        if _is_set(Path(here)):
            within = list(_set_in_parts(Path(here)))
            folders.clear()
        elif {MANIFEST, SAMPLES} <= set(files):  # a run of ours, not a log
            folders.clear()
            continue
        else:
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            paths = [Path(here, name) for name in sorted(files) if _may_be_log(name)]
            within = [Source(path, shown_name(path), named=False) for path in paths]
        is_empty = is_empty and not within
        yield from within
    yield from problems
    if is_empty and not problems:
        yield _no_logs(shown_name(folder))


def _no_logs(name: str) -> Problem:
    return about_file(name, "missing_file", f"holds no {', '.join(sorted(SUFFIXES))} file")


def _may_be_log(name: str) -> bool:
    return Path(name).suffix.lower() in SUFFIXES and not name.startswith(".")


def _is_set(folder: Path) -> bool:
    return (folder / RESULTS).is_file() and (folder / SIMULATIONS).is_dir()


def _set_in_parts(folder: Path) -> Iterator[Source | Problem]:
    about = folder / RESULTS
    try:
        content, why = about.read_bytes(), ""
    except OSError as error:
        content, why = None, f"cannot be read: {error.strerror}"
    return _in_parts(shown_name(folder), about, content, why, sorted((folder / SIMULATIONS).glob("*.json")))


def _in_parts(
    folder: str, about: Place, content: bytes | None, why: str, parts: Sequence[Place]
) -> Iterator[Source | Problem]:
    """The simulations of a folder, checked against the index in its results.json."""
    name = shown_name(about)
    file, problems = None, []
    if content is None:
        problems.append(about_file(name, "unreadable_file", why))
    else:
        file, problems = read_about(content, name)
    there = {PurePosixPath(part).stem for part in parts}
    indexed = [entry.id for entry in (file.simulation_index or ()) if entry is not None] if file is not None else []
    problems = problems + [
        about_file(name, "missing_part", f"lists simulation {id}, but {SIMULATIONS}/{id}.json is not there")
        for id in indexed
        if id not in there
    ]
    sources = [Source(about, folder)] if file is not None and isinstance(file.simulations, list) else []
    sources += [Source(part, folder, about if file is not None else None) for part in parts]
    if not sources and not problems:
        problems = [about_file(f"{folder}/{SIMULATIONS}", "missing_part", "holds no simulation")]
    yield from problems
    yield from sources


# -- at an address -------------------------------------------------------------------------------------------------


def _at_address(address: str) -> Iterator[Source | Problem]:
    """The logs below a folder's address, or matching a pattern, or the one file that is there."""
    try:
        files = storage.listing(address)
    except HowsureError as error:
        yield Problem(storage.shown(address), "missing_file", str(error))
        return
    if files == [address]:
        yield Source(address, shown_name(address))
        return
    folders: dict[str, set[str]] = {}
    for file in files:
        folder, _, name = file.rpartition("/")
        folders.setdefault(folder, set()).add(name)
    sets = {folder for folder in folders if RESULTS in folders[folder] and f"{folder}/{SIMULATIONS}" in folders}
    passed = {folder for folder, names in folders.items() if {MANIFEST, SAMPLES} <= names}  # runs of ours
    passed |= {f"{one}/{SIMULATIONS}" for one in sets}
    is_empty = True
    for folder in sorted(folders, key=lambda one: one.split("/")):  # as a walk through folders meets them
        is_hidden = any(part.startswith(".") for part in folder.removeprefix(address.rstrip("/")).split("/"))
        if is_hidden or any(folder == top or folder.startswith(f"{top}/") for top in passed):
            continue
        if folder in sets:
            within = list(_set_at(folder, sorted(n for n in folders[f"{folder}/{SIMULATIONS}"] if n.endswith(".json"))))
        else:
            names = sorted(name for name in folders[folder] if _may_be_log(name))
            within = [Source(f"{folder}/{one}", shown_name(f"{folder}/{one}"), named=False) for one in names]
        is_empty = is_empty and not within
        yield from within
    if is_empty:
        yield _no_logs(shown_name(address))


def _set_at(folder: str, parts: Sequence[str]) -> Iterator[Source | Problem]:
    about = f"{folder}/{RESULTS}"
    try:
        content, why = storage.read_bytes(about), ""
    except HowsureError as error:
        content, why = None, str(error)
    places: list[Place] = [f"{folder}/{SIMULATIONS}/{part}" for part in parts]
    return _in_parts(shown_name(folder), about, content, why, places)
