"""`export`: runs as Parquet files, one row a sample, for DuckDB, Polars and whatever else reads tables."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from howsure.errors import InputError
from howsure.options import takes
from howsure.runs import Run, find_runs
from howsure.runs.export import Exported, Holds, is_export, write_parquet
from howsure.runs.folder import opened
from howsure.runs.reading import MANIFEST
from howsure.storage import (
    StoredFolder,
    address_of,
    below,
    checked,
    is_address,
    is_there,
    new_folder_for,
    open_regular,
    open_stored,
    put_back,
    shown_path,
)
from howsure.storage.addresses import split
from howsure.studies import registry
from howsure.studies.options import ExportOptions, RunLike

NAME = "samples.parquet"
SUFFIX = ".parquet"


class Target(NamedTuple):
    """A file to be written, and the runs that it is to hold."""

    runs: tuple[Run | Path, ...]
    path: Path

    def write(self, *, evidence: bool = True) -> Exported:
        runs = [run if isinstance(run, Run) else Run(run) for run in self.runs]
        studies = {run.manifest.identity.study for run in runs}
        exported = write_parquet(runs, self.path, declared_by(studies), evidence=evidence)
        put_back(self.path)
        return exported


def declared_by(studies: Iterable[str]) -> dict[str, Holds]:
    """What the samples of these studies hold; nothing is known of a study that is not registered."""
    known = [registry.study_named(name) for name in sorted(studies) if registry.is_known(name)]
    return {study.name: Holds(study.record, study.evidence) for study in known}


@takes(ExportOptions)
def export(options: ExportOptions) -> list[Exported]:
    """Write runs as Parquet, finished or not; folders that hold runs stand for all of them. Addresses will do for all.

    Without `out` every run gets a `samples.parquet` in its own folder. An `out` that ends in .parquet is one file with
    the samples of all runs, any other is a folder with one file a run. `evidence=False` leaves out tokens,
    probabilities and answers, which are the bulk of it. A file is there whole or as it was before.
    """
    return [target.write(evidence=options.evidence) for target in targets(options.runs, options.out)]


def targets(runs: RunLike | Sequence[RunLike], out: str | os.PathLike[str] | None = None) -> list[Target]:
    """The files that an export would write."""
    chosen = _chosen([runs] if isinstance(runs, (Run, str, os.PathLike)) else runs)
    if out is None:
        return [Target((run,), _folder(run) / NAME) for run in chosen]
    path = _place(out)
    if path.suffix != SUFFIX:
        if path.is_file():
            raise InputError(f"{path} is a file whose name does not end in {SUFFIX}: name another file, or a folder")
        named = zip(chosen, _names(chosen), strict=True)
        return [Target((run,), _own(path / f"{name}{SUFFIX}")) for run, name in named]
    if path.is_dir():
        raise InputError(f"{path} is a folder: name a file within it, such as {path / NAME}")
    return [Target(tuple(chosen), _own(path))]


def _own(path: Path) -> Path:
    """A path that may be written: nothing is there, or a file that an export wrote, never somebody's data."""
    address = address_of(path)
    if is_there(address or path):
        with open_stored(address) if address else open_regular(path) as file:
            if not is_export(file):
                raise InputError(f"{path} is there, and `howsure export` did not write it: name another --out")
    return path


def _place(out: str | os.PathLike[str]) -> Path:
    """Where files are written: what is to lie at an address is written here first, and put there whole."""
    given = checked(out)
    if not is_address(given):
        return Path(given)
    address = StoredFolder(str(given)).address
    folder, name = split(address)
    if not name.endswith(SUFFIX) and is_there(address):
        raise InputError(f"{address} is a file whose name does not end in {SUFFIX}: name another file, or a folder")
    path: Path = new_folder_for(folder) / name
    return path


def _chosen(runs: Sequence[RunLike]) -> list[Run | Path]:
    """Run folders as they are named, and those within a folder that is none; each once."""
    chosen: dict[Path, Run | Path] = {}
    for run in runs:
        if isinstance(run, Run):
            chosen.setdefault(run.path.resolve(), run)
            continue
        within = (
            [opened(run, whole=False)] if is_there(below(checked(run), MANIFEST)) else sorted(find_runs(run), key=str)
        )
        if not within:
            raise InputError(f"{shown_path(os.fspath(run))} is not a run folder and holds none")
        for one in within:
            chosen.setdefault(one.resolve(), one)
    if not chosen:
        raise InputError("there is no run to export: name a run folder, or a folder that holds some")
    return list(chosen.values())


def _folder(run: Run | Path) -> Path:
    return run.path if isinstance(run, Run) else run


def _names(runs: Sequence[Run | Path]) -> list[str]:
    """A name for each run's file: its folder's, with as many of the folders above as tell all of them apart."""
    parts = [Path(shown_path(os.fspath(_folder(run).resolve()))).parts[1:] for run in runs]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["-".join(one[-length:]) for one in parts]
        if len({name.lower() for name in names}) == len(names):
            return names
    return [f"{number}-{one[-1]}" for number, one in enumerate(parts, 1)]
