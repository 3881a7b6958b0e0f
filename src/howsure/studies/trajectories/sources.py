"""Which files hold trajectories, and reading them: one after the other, or spread over cores.

A file is read as what its name says: `.json` as τ²-bench writes it, `.jsonl` as chats, `.eval` as an Inspect log. A
folder is searched; one with `results.json` and `simulations/` is a single set of results in parts. One bad file never
stops the others: it becomes a sentence.
"""

from __future__ import annotations

import codecs
import glob
import hashlib
import multiprocessing
import os
import stat
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from howsure.errors import HowsureError, InputError
from howsure.runs.folder import MANIFEST, SAMPLES
from howsure.studies.trajectories.chats import read_chats
from howsure.studies.trajectories.messages import about_file
from howsure.studies.trajectories.tau2 import NO_SIMULATIONS, read_about, read_tau2
from howsure.studies.trajectories.turns import Loaded, Problem

PathLike = str | os.PathLike[str]

RESULTS, SIMULATIONS = "results.json", "simulations"
CHATS = frozenset({".jsonl", ".ndjson"})
INSPECT = frozenset({".eval"})
SUFFIXES = frozenset({".json"}) | CHATS | INSPECT

OPENED_BY_THE_SHELL = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
"""Pipes that have a writer, as in `howsure trajectories <(zcat log.json.gz)`."""

SPREAD_FROM_BYTES = 64_000_000
"""Below this, starting more processes takes longer than reading."""


class Source(NamedTuple):
    """One file to be read. `about` is the results.json of a set that this is a part of, and `set_name` names the set.

    `named` is whether the user named it: what was only found in a folder may turn out to be something else.
    """

    path: Path
    set_name: str
    about: Path | None = None
    named: bool = True


class Reading(NamedTuple):
    """What came of one source, and the digest of its bytes if that was wanted."""

    source: Source
    loaded: Loaded
    digest: bytes = b""


def find_sources(paths: Sequence[PathLike]) -> tuple[list[Source], list[Problem]]:
    """The files behind paths, folders, patterns and links, each once, in the order given; and what leads nowhere."""
    sources: dict[str, Source] = {}
    problems: list[Problem] = []
    for path in paths:
        found, missing = _behind(os.fspath(path))
        problems += missing
        for source in found:
            sources.setdefault(os.path.realpath(source.path), source)
    return list(sources.values()), problems


def read_sources(
    sources: Sequence[Source], *, with_tokens: bool = False, with_digests: bool = False, jobs: int | None = None
) -> list[Reading]:
    """Every source read, in order; `jobs` None means all cores where the files are large enough to be worth it."""
    read = partial(read_source, with_tokens=with_tokens, with_digest=with_digests)
    workers = min(_jobs(sources, jobs), len(sources))
    if workers < 2:
        return [read(source) for source in sources]
    method = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
    try:
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context(method)) as pool:
            return list(pool.map(read, sources))
    except BrokenProcessPool:  # the system ended a worker, mostly for want of memory: one file at a time needs less
        return [read(source) for source in sources]


def read_source(source: Source, *, with_tokens: bool = False, with_digest: bool = False) -> Reading:
    """One file; whatever is wrong with it is a sentence in what comes back."""
    found = _read_source(source, with_tokens, with_digest)
    for trajectory in found.loaded.trajectories:
        trajectory.set_name = source.set_name
    return found


def _read_source(source: Source, with_tokens: bool, with_digest: bool) -> Reading:
    name = shown_name(source.path)
    try:
        data = _bytes_of(source.path)
        digest = _digest(source, data) if with_digest else b""
        return Reading(source, _loaded(source, name, data, with_tokens), digest)
    except OSError as error:
        why = f"cannot be read: {error.strerror or error}"
    except HowsureError as error:
        why = f"cannot be read: {error}"
    except MemoryError:
        why = "does not fit into memory; split it into smaller files"
    return Reading(source, Loaded(name, 0, None, [], [about_file(name, "unreadable_file", why)]))


def shown_name(path: PathLike) -> str:
    """A name as it can be written anywhere: on the disk it is made of bytes, which need not be text."""
    return os.fsencode(path).decode("utf-8", errors="backslashreplace")


def _bytes_of(path: Path) -> bytes:
    """The content of a file; a pipe in a folder may never have a writer, and a device no end.

    It is copied and not mapped, though that would be faster: a file that somebody rewrites meanwhile, as a run does
    with its results, would end the process.
    """
    if not stat.S_ISREG(path.stat().st_mode) and not str(path).startswith(OPENED_BY_THE_SHELL):
        raise InputError("it is no file but a pipe or a device; write what comes out of it to a file")
    return path.read_bytes()


def _digest(source: Source, data: bytes) -> bytes:
    """Of all that the trajectories of a file are made of: a part of a set knows its domain and task from elsewhere."""
    found = hashlib.sha256(data)
    if source.about is not None:
        found.update(_about(source.about)[1])
    return found.digest()


def _loaded(source: Source, name: str, data: bytes, with_tokens: bool) -> Loaded:
    if source.path.suffix.lower() in INSPECT:
        from howsure.studies.trajectories.inspect_logs import read_inspect

        return read_inspect(source.path, name, with_tokens=with_tokens)
    if source.path.suffix.lower() in CHATS:
        return read_chats(data, name, with_tokens=with_tokens)
    about = _about(source.about)[0] if source.about is not None else None
    loaded = read_tau2(data.removeprefix(codecs.BOM_UTF8), name, with_tokens=with_tokens, about=about)
    if not source.named and {problem.reason for problem in loaded.problems} == {NO_SIMULATIONS}:
        return Loaded(name, len(data), None, [], [], passed_over="no results of τ²-bench")
    return loaded


def _about(path: Path) -> tuple[Any, bytes]:
    """What results.json says about its simulations, and the digest of its bytes.

    Its problems were told already, by whoever found the folder.
    """
    status = path.stat()
    return _about_version(path.absolute(), status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=4)
def _about_version(path: Path, *_: int) -> tuple[Any, bytes]:
    """The numbers tell a file from what stood there before."""
    data = path.read_bytes()
    return read_about(data, shown_name(path))[0], hashlib.sha256(data).digest()


def _jobs(sources: Sequence[Source], jobs: int | None) -> int:
    if jobs is not None:
        if jobs < 1:
            raise InputError(f"--jobs must be at least 1, not {jobs}")
        return jobs
    size = sum(_size(source.path) for source in sources)
    return len(os.sched_getaffinity(0)) if size >= SPREAD_FROM_BYTES else 1


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


# -- which files ---------------------------------------------------------------------------------------------------


def _behind(path: str) -> tuple[list[Source], list[Problem]]:
    if os.path.isdir(path):
        return _in_folder(Path(path))
    if os.path.exists(path):
        return _named(Path(path))
    matches = sorted(glob.glob(path, recursive=True)) if glob.has_magic(path) else []
    if not matches:
        what = "matches no file" if glob.has_magic(path) else "is not there"
        return [], [about_file(shown_name(path), "missing_file", f"{what}; check the path")]
    found = [_in_folder(Path(match)) if os.path.isdir(match) else _named(Path(match)) for match in matches]
    return [source for sources, _ in found for source in sources], [p for _, problems in found for p in problems]


def _named(path: Path) -> tuple[list[Source], list[Problem]]:
    """A file that somebody named; the results.json of a set in parts stands for all of them, as for τ² itself."""
    if path.name == RESULTS and _is_set(path.parent):
        return _set_in_parts(path.parent)
    return [Source(path, shown_name(path))], []


def _in_folder(folder: Path) -> tuple[list[Source], list[Problem]]:
    if _is_set(folder):
        return _set_in_parts(folder)
    closed: list[OSError] = []
    sources: list[Source] = []
    problems: list[Problem] = []
    for here, folders, files in os.walk(folder, onerror=closed.append):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if _is_set(Path(here)):
            found, wrong = _set_in_parts(Path(here))
            folders.clear()
        elif {MANIFEST, SAMPLES} <= set(files):  # a run of ours, not a log
            folders.clear()
            continue
        else:
            found, wrong = [_found(Path(here, name)) for name in sorted(files) if _may_be_log(name)], []
        sources += found
        problems += wrong
    problems += [_closed(error) for error in closed]
    if not sources and not problems:
        problems = [about_file(shown_name(folder), "missing_file", f"holds no {', '.join(sorted(SUFFIXES))} file")]
    return sources, problems


def _found(path: Path) -> Source:
    return Source(path, shown_name(path), named=False)


def _may_be_log(name: str) -> bool:
    return Path(name).suffix.lower() in SUFFIXES and not name.startswith(".")


def _closed(error: OSError) -> Problem:
    """A folder that cannot be looked into."""
    return about_file(shown_name(error.filename), "unreadable_file", f"cannot be read: {error.strerror}")


def _is_set(folder: Path) -> bool:
    return (folder / RESULTS).is_file() and (folder / SIMULATIONS).is_dir()


def _set_in_parts(folder: Path) -> tuple[list[Source], list[Problem]]:
    """The simulations of a folder, checked against the index in its results.json."""
    about, name = folder / RESULTS, shown_name(folder / RESULTS)
    try:
        file, problems = read_about(about.read_bytes(), name)
    except OSError as error:
        file, problems = None, [about_file(name, "unreadable_file", f"cannot be read: {error.strerror}")]
    parts = sorted((folder / SIMULATIONS).glob("*.json"))
    there = {part.stem for part in parts}
    indexed = [entry.id for entry in (file.simulation_index or ()) if entry is not None] if file is not None else []
    problems = problems + [
        about_file(name, "missing_part", f"lists simulation {id}, but {SIMULATIONS}/{id}.json is not there")
        for id in indexed
        if id not in there
    ]
    whole = [Source(about, shown_name(folder))] if file is not None and isinstance(file.simulations, list) else []
    sources = [Source(part, shown_name(folder), about if file is not None else None) for part in parts]
    if not sources and not whole and not problems:
        problems = [about_file(shown_name(folder / SIMULATIONS), "missing_part", "holds no simulation")]
    return [*whole, *sources], problems
