"""Logs of agents: τ²-bench, chats, Inspect; and steps of trust as CSV."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from fuzz import seeds
from fuzz.scratch import folder, put
from howsure.runs.files import to_json


def tau2(data: bytes) -> None:
    """One file with everything, with the tokens and without; then as `results.json` of a set in parts."""
    from howsure.studies.trajectories.tau2 import read_about, read_tau2

    read_tau2(data, "results.json")
    read_tau2(data, "results.json", with_tokens=True)
    about, _ = read_about(data, "results.json")
    read_tau2(data, "part.json", about=about)


def tau2_in_parts(data: bytes) -> None:
    """A folder with `results.json` and `simulations/`, found and read as a user's is."""
    from howsure.studies.trajectories.reading import read_source
    from howsure.studies.trajectories.sources import find_sources

    set_folder = folder() / "set"
    put("set/results.json", data)
    put("set/simulations/s1.json", data)
    sources, _ = find_sources([set_folder])
    for source in sources:
        read_source(source, with_digest=True)


def tau2_study(data: bytes) -> None:
    """Scores, figures and the document of all that was read, which must be JSON without NaN."""
    _study(put("results.json", data))


def chats(data: bytes) -> None:
    from howsure.studies.trajectories.chats import read_chats

    read_chats(data, "chats.jsonl")
    read_chats(data, "chats.jsonl", with_tokens=True)


def chats_study(data: bytes) -> None:
    _study(put("chats.jsonl", data))


def inspect_log(data: bytes) -> None:
    from howsure.studies.trajectories.inspect_logs import read_inspect

    read_inspect(put("log.eval", data), "log.eval")


def inspect_sample(data: bytes) -> None:
    """One sample of a good log."""
    with zipfile.ZipFile(io.BytesIO(seeds.inspect_log())) as good, zipfile.ZipFile(folder() / "log.eval", "w") as log:
        for name in good.namelist():
            log.writestr(name, data if name == seeds.INSPECT_SAMPLE else good.read(name))
    _study(folder() / "log.eval")


def trust_csv(data: bytes) -> None:
    from howsure.studies.trust.logs import analyse

    to_json(analyse([put("steps.csv", data)]).summary)


def _study(path: Path) -> None:
    from howsure.studies.trajectories import trajectories

    result = trajectories([path], jobs=1)
    to_json(result.summary)
    to_json(result.document)
