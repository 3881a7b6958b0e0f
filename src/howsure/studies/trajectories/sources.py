"""Which files hold trajectories: files, folders, patterns, and addresses of the same in stores beyond this machine.

What a file is, its name says: `.json` as τ²-bench writes it, `.jsonl` chats, `.eval` an Inspect log. A folder is
searched; one with `results.json` and `simulations/` is a single set of results in parts. What leads nowhere becomes a
sentence.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import NamedTuple, cast

from howsure import storage
from howsure.errors import HowsureError, InputError
from howsure.runs.reading import MANIFEST, SAMPLES
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
        for one in _behind(place):
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


def bytes_of(place: Place) -> bytes:
    """The content of a file; a pipe in a folder may never have a writer, and a device no end.

    It is copied and not mapped, though that would be faster: a file that somebody rewrites meanwhile, as a run does
    with its results, would end the process. One that begins with a NUL lost its content, and may be gigabytes of them.
    """
    if isinstance(place, str):
        return storage.read_bytes(place)
    with storage.open_regular(place, shell_pipes=True) as file:
        if cast(BufferedReader, file).peek(1)[:1] == b"\0":
            raise InputError("it begins with a NUL byte, so its content was lost; restore it")
        return file.read()


# -- what a name stands for ----------------------------------------------------------------------------------------


def _behind(path: str) -> Iterator[Source | Problem]:
    if storage.is_address(path):
        yield from _at_address(path)
    elif os.path.exists(path):
        yield from _named(Path(path))
    else:
        matches = sorted(glob.glob(path, recursive=True)) if glob.has_magic(path) else []
        if not matches:
            what = "matches no file" if glob.has_magic(path) else "is not there"
            yield about_file(shown_name(path), "missing_file", f"{what}; check the path")
        for match in matches:
            yield from _named(Path(match))


def _named(path: Path) -> Iterator[Source | Problem]:
    """A folder, or a file; the results.json of a set in parts stands for all of them, as for τ² itself."""
    if os.path.isdir(path):
        closed: list[OSError] = []
        yield from _in_folder(path, os.walk(path, onerror=closed.append), closed)
    elif path.name == RESULTS and storage.is_folder(path.parent / SIMULATIONS):
        yield from _set_in_parts(path.parent)
    else:
        yield Source(path, shown_name(path))


def _at_address(address: str) -> Iterator[Source | Problem]:
    """The one file that is there, or the logs below a folder or matching a pattern."""
    try:
        files = storage.listing(address)
        if files == [address]:
            yield Source(address, shown_name(address))
        else:
            yield from _in_folder(address, storage.walk(address, files))
    except HowsureError as error:
        yield Problem(storage.shown(address), "missing_file", str(error))


# -- in a folder ---------------------------------------------------------------------------------------------------


def _in_folder(
    folder: Place, tree: Iterable[storage.Folder], closed: Sequence[OSError] = ()
) -> Iterator[Source | Problem]:
    """The logs in a folder and the folders in it, without hidden ones and runs of ours; `closed` tells of those that
    cannot be looked into."""
    is_empty = True
    for here, folders, files in tree:
        if RESULTS in files and SIMULATIONS in folders:
            within = list(_set_in_parts(storage.below(here, "")))
            folders.clear()
        elif {MANIFEST, SAMPLES} <= set(files):  # a run of ours, not a log
            folders.clear()
            continue
        else:
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            paths = [storage.below(here, name) for name in sorted(files) if _may_be_log(name)]
            within = [Source(path, shown_name(path), named=False) for path in paths]
        is_empty = is_empty and not within
        yield from within
    for error in closed:
        yield about_file(shown_name(error.filename), "unreadable_file", f"cannot be read: {error.strerror}")
    if is_empty and not closed:
        yield about_file(shown_name(folder), "missing_file", f"holds no {', '.join(sorted(SUFFIXES))} file")


def _may_be_log(name: str) -> bool:
    return Path(name).suffix.lower() in SUFFIXES and not name.startswith(".")


def _set_in_parts(folder: Place) -> Iterator[Source | Problem]:
    """The simulations of a folder, checked against the index in its results.json."""
    about, shown = storage.below(folder, RESULTS), shown_name(folder)
    name, file = shown_name(about), None
    try:
        file, problems = read_about(bytes_of(about), name)
    except OSError as error:
        problems = [about_file(name, "unreadable_file", f"cannot be read: {error.strerror}")]
    except HowsureError as error:
        problems = [about_file(name, "unreadable_file", f"cannot be read: {error}")]
    simulations = storage.below(folder, SIMULATIONS)
    parts = [storage.below(simulations, part) for part in storage.names_below(simulations) if part.endswith(".json")]
    there = {PurePosixPath(part).stem for part in parts}
    indexed = [entry.id for entry in (file.simulation_index or ()) if entry is not None] if file is not None else []
    problems = problems + [
        about_file(name, "missing_part", f"lists simulation {id}, but {SIMULATIONS}/{id}.json is not there")
        for id in indexed
        if id not in there
    ]
    sources = [Source(about, shown)] if file is not None and isinstance(file.simulations, list) else []
    sources += [Source(part, shown, about if file is not None else None) for part in parts]
    if not sources and not problems:
        problems = [about_file(f"{shown}/{SIMULATIONS}", "missing_part", "holds no simulation")]
    yield from problems
    yield from sources
