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
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from howsure.errors import HowsureError, InputError
from howsure.runs.folder import MANIFEST
from howsure.studies.trajectories.chats import read_chats
from howsure.studies.trajectories.tau2 import NO_SIMULATIONS, read_about, read_tau2
from howsure.studies.trajectories.turns import Loaded, Problem

PathLike = str | os.PathLike[str]

RESULTS, SIMULATIONS = "results.json", "simulations"
CHATS = frozenset({".jsonl", ".ndjson"})
INSPECT = frozenset({".eval"})
SUFFIXES = frozenset({".json"}) | CHATS | INSPECT

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
    """The files behind paths, folders and patterns, each once, in the order given; and what leads nowhere."""
    sources: dict[Path, Source] = {}
    problems: list[Problem] = []
    for path in paths:
        found, missing = _behind(os.fspath(path))
        problems += missing
        for source in found:
            sources.setdefault(source.path.absolute(), source)
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
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context(method)) as pool:
        return list(pool.map(read, sources))


def read_source(source: Source, *, with_tokens: bool = False, with_digest: bool = False) -> Reading:
    """One file; whatever is wrong with it is a sentence in what comes back."""
    found = _read_source(source, with_tokens, with_digest)
    for trajectory in found.loaded.trajectories:
        trajectory.set_name = source.set_name
    return found


def _read_source(source: Source, with_tokens: bool, with_digest: bool) -> Reading:
    name = str(source.path)
    try:
        data = source.path.read_bytes()
        digest = hashlib.sha256(data).digest() if with_digest else b""
        return Reading(source, _loaded(source, name, data, with_tokens), digest)
    except OSError as error:
        problem = Problem(name, "unreadable_file", f"{name} cannot be read: {error.strerror or error}")
    except HowsureError as error:
        problem = Problem(name, "unreadable_file", f"{name} cannot be read: {error}")
    except MemoryError:
        problem = Problem(name, "unreadable_file", f"{name} does not fit into memory; split it into smaller files")
    return Reading(source, Loaded(name, 0, None, [], [problem]))


def _loaded(source: Source, name: str, data: bytes, with_tokens: bool) -> Loaded:
    if source.path.suffix.lower() in INSPECT:
        from howsure.studies.trajectories.inspect_logs import read_inspect

        return read_inspect(source.path, name, with_tokens=with_tokens)
    if source.path.suffix.lower() in CHATS:
        return read_chats(data, name, with_tokens=with_tokens)
    about, problems = _about(source.about) if source.about is not None else (None, [])
    loaded = read_tau2(data.removeprefix(codecs.BOM_UTF8), name, with_tokens=with_tokens, about=about)
    if not source.named and {problem.reason for problem in loaded.problems} == {NO_SIMULATIONS}:
        return Loaded(name, len(data), None, [], [], passed_over="no results of τ²-bench")
    loaded.problems[:0] = problems
    return loaded


@lru_cache(maxsize=4)
def _about(path: Path) -> tuple[Any, list[Problem]]:
    """What results.json says about its simulations; its problems are told once, by whoever found the folder."""
    return read_about(path.read_bytes(), str(path))[0], []


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
        return [], [Problem(path, "missing_file", f"{path} {what}; check the path")]
    found = [_in_folder(Path(match)) if os.path.isdir(match) else _named(Path(match)) for match in matches]
    return [source for sources, _ in found for source in sources], [p for _, problems in found for p in problems]


def _named(path: Path) -> tuple[list[Source], list[Problem]]:
    """A file that somebody named; the results.json of a set in parts stands for all of them, as for τ² itself."""
    if path.name == RESULTS and (path.parent / SIMULATIONS).is_dir():
        return _set_in_parts(path.parent)
    return [Source(path, str(path))], []


def _in_folder(folder: Path) -> tuple[list[Source], list[Problem]]:
    if _is_set(folder):
        return _set_in_parts(folder)
    sources: list[Source] = []
    problems: list[Problem] = []
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if MANIFEST in files:  # a run of ours, not a log
            folders.clear()
            continue
        if _is_set(Path(here)):
            found, wrong = _set_in_parts(Path(here))
            sources, problems = sources + found, problems + wrong
            folders.clear()
            continue
        wanted = sorted(name for name in files if Path(name).suffix.lower() in SUFFIXES and not name.startswith("."))
        sources += [Source(Path(here) / name, str(Path(here) / name), named=False) for name in wanted]
    if not sources and not problems:
        problems = [Problem(str(folder), "missing_file", f"{folder} holds no {', '.join(sorted(SUFFIXES))} file")]
    return sources, problems


def _is_set(folder: Path) -> bool:
    return (folder / RESULTS).is_file() and (folder / SIMULATIONS).is_dir()


def _set_in_parts(folder: Path) -> tuple[list[Source], list[Problem]]:
    """The simulations of a folder, checked against the index in its results.json."""
    about = folder / RESULTS
    try:
        file, problems = read_about(about.read_bytes(), str(about))
    except OSError as error:
        file, problems = None, [Problem(str(about), "unreadable_file", f"{about} cannot be read: {error.strerror}")]
    parts = sorted((folder / SIMULATIONS).glob("*.json"))
    there = {part.stem for part in parts}
    indexed = [entry.id for entry in (file.simulation_index or ()) if entry is not None] if file is not None else []
    problems = problems + [
        Problem(
            str(about), "missing_part", f"{about} lists simulation {name}, but {SIMULATIONS}/{name}.json is not there"
        )
        for name in indexed
        if name not in there
    ]
    whole = [Source(about, str(folder))] if file is not None and isinstance(file.simulations, list) else []
    sources = [Source(part, str(folder), about if file is not None else None) for part in parts]
    if not sources and not whole and not problems:
        problems = [Problem(str(about), "missing_part", f"{folder / SIMULATIONS} holds no simulation")]
    return [*whole, *sources], problems
