"""Trajectories out of logs at addresses: the same figures as out of the same files on the disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

import howsure
from howsure.errors import InputError
from howsure.storage.stores import filesystem
from howsure.studies.trajectories.reading import read_sources
from howsure.studies.trajectories.sources import find_sources
from trajectory_logs import message, results, scored, simulation

TALK = [message("user", "Hello", -0.5), message("assistant", "Yes?", -0.25)]


def files() -> dict[str, Any]:
    """Names below a folder, and what they hold."""
    return {
        "a.json": results(*[scored([i + 1.0, 2.0], [0.5], id=f"a{i}", task_id=f"t{i}") for i in range(3)]),
        "deep/b.json": [simulation(TALK, id="b")],
        "deep/settings.json": {"seed": 3},
        "deep/notes.txt": "nothing",
        ".hidden/c.json": [simulation(TALK, id="c")],
        "set/results.json": {"info": {"agent_info": {"llm": "x"}}, "simulation_index": [{"id": "d"}, {"id": "gone"}]},
        "set/simulations/d.json": simulation(TALK, id="d"),
        "run/run.json": {"some": "manifest"},
        "run/samples.jsonl": "",
        "run/results.json": results(scored([1.0], [1.0], id="ours")),
        "talk.jsonl": json.dumps({"id": "e", "messages": TALK}),
    }


def put_all(root: str | Path) -> None:
    for name, content in files().items():
        data = (content if isinstance(content, str) else json.dumps(content)).encode()
        if isinstance(root, Path):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(data)
        else:
            filesystem(root).pipe_file(f"{root}/{name}", data)


def told(found: howsure.studies.trajectories.Result, root: str) -> str:
    return json.dumps([msgspec.to_builtins(found.summary), found.document]).replace(root, "ROOT")


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_folder_at_an_address_is_read_as_one_on_the_disk(
    store: str, tmp_path: Path, jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("howsure.studies.trajectories.reading.BYTES_AT_ONCE", 1)  # so that two processes have work
    put_all(tmp_path / "logs")
    put_all(f"{store}/logs")
    here = howsure.trajectories(tmp_path / "logs", out=tmp_path / "here")
    there = howsure.trajectories(f"{store}/logs", out=tmp_path / "there", jobs=jobs)
    assert sorted(one.id for one in there.trajectories) == ["a0", "a1", "a2", "b", "d", "e"]
    assert [sentence.split(" lists ")[1] for sentence in there.summary["problems"]] == [
        "simulation gone, but simulations/gone.json is not there"
    ]
    assert told(there, f"{store}/logs") == told(here, str(tmp_path / "logs"))
    first, second = (found.run.manifest.identity.data for found in (here, there) if found.run is not None)
    assert first == second


def test_files_and_patterns_at_addresses_each_once(store: str) -> None:
    put_all(f"{store}/logs")
    names = [f"{store}/logs/deep/b.json", f"{store}/logs/deep/*.json", f"{store}/logs/talk.jsonl"]
    sources, problems = find_sources(names)
    assert [source.path for source in sources] == [names[0], f"{store}/logs/deep/settings.json", names[2]]
    assert problems == []
    assert [one.id for found in read_sources(sources) for one in found.loaded.trajectories] == ["b", "e"]


def test_what_is_not_there_is_told_and_the_rest_is_read(store: str, tmp_path: Path) -> None:
    put_all(f"{store}/logs")
    found = howsure.trajectories([f"{store}/nowhere/x.json", f"{store}/logs/talk.jsonl"])
    assert [one.id for one in found.trajectories] == ["e"]
    (sentence,) = found.summary["problems"]
    assert sentence.startswith(f"{store}/nowhere/x.json")
    filesystem(store).pipe_file(f"{store}/none/notes.txt", b"x")
    with pytest.raises(InputError, match=r"none holds no \.eval, \.json, \.jsonl, \.ndjson file"):
        howsure.trajectories(f"{store}/none")


def test_an_address_that_was_made_a_path_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="was an address before it was made a path"):
        howsure.trajectories(Path("s3://bucket/logs"))
