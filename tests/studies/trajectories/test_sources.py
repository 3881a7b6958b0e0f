"""Files, folders and patterns; one bad file never stops the others."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from howsure import storage
from howsure.errors import InputError
from howsure.studies.trajectories.reading import Reader, Reading, SourceFile, read_sources
from howsure.studies.trajectories.sources import find_sources
from trajectory_logs import message, results, scored, simulation

TALK = [message("user", "Hello", -0.5), message("assistant", "Yes?", -0.25)]


def put(path: Path, data: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return path


def read(*paths: Any, **options: Any) -> tuple[list[Reading], list[str]]:
    found, problems = find_sources([str(path) for path in paths])
    readings = list(read_sources(found, **options))
    problems += [problem for reading in readings for problem in reading.loaded.problems]
    return readings, [problem.sentence for problem in problems]


def ids(readings: list[Reading]) -> list[str]:
    return [one.id for reading in readings for one in reading.loaded.trajectories]


def test_files_folders_and_patterns_in_the_order_given_and_each_once(tmp_path: Path) -> None:
    a = put(tmp_path / "x" / "a.json", results(simulation(TALK, id="a")))
    put(tmp_path / "x" / "deep" / "b.json", [simulation(TALK, id="b")])
    put(tmp_path / "x" / ".hidden" / "c.json", [simulation(TALK, id="c")])
    put(tmp_path / "x" / "d.jsonl", json.dumps({"id": "d", "messages": TALK}))
    readings, problems = read(a, tmp_path / "x", f"{tmp_path}/**/*.json")
    assert problems == []
    assert ids(readings) == ["a", "d", "b"]


def test_what_is_not_there_is_told_and_the_rest_is_read(tmp_path: Path) -> None:
    a = put(tmp_path / "a.json", [simulation(TALK, id="a")])
    (tmp_path / "nothing").mkdir()
    readings, problems = read(tmp_path / "b.json", a, f"{tmp_path}/*.eval", tmp_path / "nothing")
    assert ids(readings) == ["a"]
    assert [sentence.rsplit("/", 1)[1] for sentence in problems] == [
        "b.json is not there; check the path",
        "*.eval matches no file; check the path",
        "nothing holds no .eval, .json, .jsonl, .ndjson file",
    ]


def test_good_files_among_bad_ones(tmp_path: Path) -> None:
    put(tmp_path / "a.json", [simulation(TALK, id="a")])
    put(tmp_path / "b.json", "")
    put(tmp_path / "c.json", json.dumps(results(simulation(TALK)))[:200])
    put(tmp_path / "d.json", "[" * 100_000)
    put(tmp_path / "e.json", [simulation(TALK, id="e")])
    readings, problems = read(tmp_path)
    assert ids(readings) == ["a", "e"]
    assert [sentence.split(" is ")[1].split(":")[0].split(" (")[0] for sentence in problems] == [
        "empty",
        "no whole JSON file",
        "nested too deeply to be a results file; check what wrote it",
    ]


def test_a_folder_may_hold_other_json_but_a_named_file_may_not_be_it(tmp_path: Path) -> None:
    put(tmp_path / "a.json", [simulation(TALK, id="a")])
    other = put(tmp_path / "tasks.json", [{"id": "0", "description": {}}])
    put(tmp_path / "config.json", {"seed": 3})
    put(tmp_path / "number.json", "5")
    readings, problems = read(tmp_path)
    assert problems == []
    assert sum(reading.loaded.passed_over is not None for reading in readings) == 3
    _, problems = read(other)
    assert "holds no simulations" in problems[0]


def test_runs_of_our_own_are_no_logs(tmp_path: Path) -> None:
    put(tmp_path / "run" / "run.json", {})
    put(tmp_path / "run" / "samples.jsonl", "")
    put(tmp_path / "run" / "results.json", results(simulation(TALK, id="ours")))
    put(tmp_path / "log.json", [simulation(TALK, id="a")])
    assert ids(read(tmp_path)[0]) == ["a"]


def in_parts(folder: Path, *parts: dict[str, Any], **about: Any) -> Path:
    index = [{"id": part["id"], "task_id": part["task_id"], "trial": 0, "reward": 1.0} for part in parts]
    whole = {key: value for key, value in results().items() if key != "simulations"}
    put(folder / "results.json", whole | {"simulation_index": index, "format_version": 2} | about)
    for part in parts:
        put(folder / "simulations" / f"{part['id']}.json", part)
    return folder


@pytest.mark.parametrize("named", ["", "results.json", ".."])
def test_a_set_in_parts_is_one_set(tmp_path: Path, named: str) -> None:
    parts = [simulation(TALK, id="one", task_id="t1"), simulation(TALK, id="two", task_id="t2")]
    tasks = [{"id": "t1", "ticket": "the first"}]
    folder = in_parts(tmp_path / "set" / "here", *parts, tasks=tasks)
    readings, problems = read(folder / named)
    assert problems == []
    assert ids(readings) == ["one", "two"]
    found = [one for reading in readings for one in reading.loaded.trajectories]
    assert {one.domain for one in found} == {"airline"}
    assert {one.agent for one in found} == {"gpt-x"}
    assert len({one.set_name for one in found}) == 1


def test_a_ticket_opens_a_conversation_without_a_user(tmp_path: Path) -> None:
    alone = simulation([message("assistant", "on it", -0.1)], id="one", task_id="t1")
    folder = in_parts(tmp_path, alone, tasks=[{"id": "t1", "ticket": "the first"}])
    assert read(folder)[0][0].loaded.trajectories[0].opening == "the first"


def test_missing_parts_are_told(tmp_path: Path) -> None:
    folder = in_parts(tmp_path, simulation(TALK, id="one"), simulation(TALK, id="two"))
    (folder / "simulations" / "two.json").unlink()
    readings, problems = read(folder)
    assert ids(readings) == ["one"]
    assert "lists simulation two, but simulations/two.json is not there" in problems[0]


def test_a_bad_part_or_a_bad_results_file_loses_itself_alone(tmp_path: Path) -> None:
    folder = in_parts(tmp_path, simulation(TALK, id="one"), simulation(TALK, id="two"))
    put(folder / "simulations" / "two.json", "{")
    readings, problems = read(folder)
    assert ids(readings) == ["one"]
    assert "two.json is no whole JSON file" in problems[0]
    put(folder / "results.json", "")
    readings, problems = read(folder)
    assert ids(readings) == ["one"]
    assert "results.json is empty" in problems[0]


def test_a_byte_order_mark_is_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps([simulation(TALK, id="a")]).encode())
    assert ids(read(path)[0]) == ["a"]


def test_cores_give_the_same_in_the_same_order(tmp_path: Path) -> None:
    for i in range(5):
        put(tmp_path / f"{i}.json", results(scored([0.1 * i], [0.2], id=f"s{i}")))
    put(tmp_path / "bad.json", "[")
    alone, together = read(tmp_path, jobs=1), read(tmp_path, jobs=2)
    assert ids(alone[0]) == ids(together[0]) == [f"s{i}" for i in range(5)]
    assert alone[1] == together[1]
    assert alone[0] == together[0]


def test_no_cores_are_refused(tmp_path: Path) -> None:
    put(tmp_path / "a.json", [simulation(TALK)])
    with pytest.raises(InputError, match="--jobs must be at least 1, not 0"):
        read(tmp_path, jobs=0)


def test_a_file_that_may_not_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path / "a.json", [simulation(TALK)])

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(storage, "open_regular", refuse)
    _, problems = read(path)
    assert problems == [f"{path} cannot be read: Permission denied"]


def test_a_link_to_a_file_is_that_file(tmp_path: Path) -> None:
    a = put(tmp_path / "a.json", [simulation(TALK, id="a")])
    (tmp_path / "b.json").symlink_to(a)
    (tmp_path / "loop.json").symlink_to("loop.json")
    readings, problems = read(tmp_path)
    assert ids(readings) == ["a"]
    assert [sentence.rsplit("/", 1)[1] for sentence in problems] == [
        "loop.json cannot be read: Too many levels of symbolic links"
    ]


def test_a_pipe_without_a_writer_is_not_waited_for(tmp_path: Path) -> None:
    put(tmp_path / "a.json", [simulation(TALK, id="a")])
    os.mkfifo(tmp_path / "b.json")
    readings, problems = read(tmp_path)
    assert ids(readings) == ["a"]
    assert "b.json is not a file but a pipe" in problems[0]


def test_a_name_that_is_no_text_can_still_be_written(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/n\xff.json"
    with open(name, "wb") as file:
        file.write(json.dumps([simulation(TALK, id="a")]).encode())
    (reading,), _ = read(tmp_path)
    (found,) = reading.loaded.trajectories
    assert found.source.endswith("/n\\xff.json")
    assert found.set_name.encode() == found.source.encode()


def test_a_folder_that_may_not_be_looked_into_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "a.json", [simulation(TALK, id="a")])
    put(tmp_path / "closed" / "b.json", [simulation(TALK, id="b")])
    scan = os.scandir

    def refuse(path: Any) -> Any:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    readings, problems = read(tmp_path)
    assert ids(readings) == ["a"]
    assert [sentence.rsplit("/", 1)[1] for sentence in problems] == ["closed cannot be read: Permission denied"]


def test_a_changed_index_of_a_set_is_read_anew_and_makes_another_run(tmp_path: Path) -> None:
    put(tmp_path / "simulations" / "a.json", simulation(TALK, id="a"))
    digests = []
    for domain in ("airline", "telecom"):
        info = {"environment_info": {"domain_name": domain}}
        put(tmp_path / "results.json", {"info": info, "simulation_index": [{"id": "a"}]})
        (reading,), _ = read(tmp_path, with_digests=True)
        assert reading.loaded.trajectories[0].domain == domain
        digests.append(reading.digest)
    assert digests[0] != digests[1]


@pytest.mark.parametrize("bytes_at_once", [1, 2_500], ids=["one by one", "together"])
def test_a_file_that_ends_every_process_that_reads_it_is_named_and_the_others_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bytes_at_once: int
) -> None:
    monkeypatch.setattr("howsure.studies.trajectories.reading.BYTES_AT_ONCE", bytes_at_once)
    for name in "abcdefgh":
        put(tmp_path / f"{name}.json", [simulation(TALK, id=name)])
    whole, read_one = ids(read(tmp_path, jobs=2)[0]), Reader.read

    def die(reader: Reader, file: SourceFile) -> Reading:
        if multiprocessing.parent_process() is not None and file.source.path == tmp_path / "c.json":
            os.kill(os.getpid(), signal.SIGKILL)
        return read_one(reader, file)

    monkeypatch.setattr(Reader, "read", die)
    readings, problems = read(tmp_path, jobs=2)
    assert ids(readings) == [name for name in whole if name != "c"] == list("abdefgh")
    assert problems == [
        f"{tmp_path / 'c.json'} cannot be read: it ended the process that worked on it, twice, mostly for want of "
        "memory; split it"
    ]


def test_a_file_named_like_a_manifest_makes_no_run_of_a_folder(tmp_path: Path) -> None:
    put(tmp_path / "run.json", {"some": "settings"})
    put(tmp_path / "a.json", [simulation(TALK, id="a")])
    assert ids(read(tmp_path)[0]) == ["a"]


def test_a_file_that_lost_its_content_is_not_read_to_its_end(tmp_path: Path) -> None:
    """After a power loss it has its old length, and holds zeros."""
    (tmp_path / "log.json").touch()
    os.truncate(tmp_path / "log.json", 1 << 40)
    readings, problems = read(tmp_path / "log.json")
    assert ids(readings) == []
    assert "begins with a NUL byte, so its content was lost" in problems[0]
