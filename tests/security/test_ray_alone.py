"""Ray as howsure starts it on this machine: out of reach of others, and of what lies in the working folder."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from howsure.runs import ray_engine
from howsure.runs.ray_engine import RayEngine
from runs import jobs_for_ray as jobs

ray = pytest.importorskip("ray")
psutil = pytest.importorskip("psutil")
pytestmark = [pytest.mark.long]

LOOPBACK = {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
KNOCK = """
import sys, ray
try:
    print(ray._raylet.GcsClient(address=sys.argv[1]).get_all_node_info(timeout=20))
except Exception as error:
    print("refused", type(error).__name__, error)
"""


class Process(NamedTuple):
    command: list[str]
    folder: str
    variables: dict[str, str]
    listens: set[str]


class Started(NamedTuple):
    """Ray under way, called from a working folder of its own."""

    address: str
    home: Path
    working: Path
    temporary: Path
    worker: tuple[list[str], str]
    """Its path for code, and its working folder."""
    processes: list[Process]
    written: set[str]
    """Variables of this process that are no longer what they were."""


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    home, working = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("working")
    ray.cloudpickle.register_pickle_by_value(jobs)
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as temporary:  # a short name
        patch.setenv("HOME", str(home))
        patch.setenv("RAY_TMPDIR", temporary)
        for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
            patch.delenv(name, raising=False)
        patch.chdir(working)
        before, others = dict(os.environ), children()
        engine = RayEngine(workers=1)
        answers = engine.run(jobs.Where(), [0])
        worker = next(answers)
        written = {name for name, value in os.environ.items() if before.get(name) != value}
        address = ray.get_runtime_context().gcs_address
        yield Started(address, home, working, Path(temporary), worker, list(under_way(others)), written)
        answers.close()
        engine.close()
        left_behind = os.listdir(temporary)
    assert left_behind == [], "its files go with it"


def children() -> set[Any]:
    return set(psutil.Process().children(recursive=True))


def under_way(others: set[Any]) -> Iterator[Process]:
    """This process and all that it started, but for those that other tests did."""
    for one in (psutil.Process(), *(children() - others)):
        with suppress(psutil.NoSuchProcess), one.oneshot():
            sockets = [each for each in one.net_connections(kind="inet") if each.status == psutil.CONN_LISTEN]
            yield Process(one.cmdline(), one.cwd(), one.environ(), {each.laddr.ip for each in sockets})


def test_it_listens_on_loopback_only(started: Started) -> None:
    assert sum(bool(process.listens) for process in started.processes) >= 4
    assert set().union(*(process.listens for process in started.processes)) <= LOOPBACK


def test_whoever_has_no_token_is_refused(started: Started) -> None:
    for variables in ({"RAY_AUTH_MODE": "disabled"}, {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64}):
        knocked = subprocess.run(
            [sys.executable, "-c", KNOCK, started.address],
            env=os.environ | variables,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert knocked.stdout.startswith("refused"), knocked.stdout + knocked.stderr
        assert "token" in knocked.stdout


def test_its_token_is_in_the_environment_of_its_processes_alone(started: Started) -> None:
    (token,) = {process.variables.get("RAY_AUTH_TOKEN") for process in started.processes} - {None}
    assert len(token) == 64
    assert not any(token in part for process in started.processes for part in process.command)
    assert not (started.home / ".ray").exists(), "Ray's own token would be readable by everybody"


def test_its_sockets_and_logs_lie_in_a_folder_that_others_cannot_enter(started: Started) -> None:
    (folder,) = started.temporary.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert list(folder.glob("*/session_*/sockets/*"))


def test_nothing_that_it_starts_imports_from_the_working_folder_or_begins_there(started: Started) -> None:
    path, folder = started.worker
    assert not {"", "/", str(started.working)} & set(path)
    assert folder == str(started.working), "relative names mean the same to a worker"
    others = started.processes[1:]
    assert len(others) >= 5
    assert {process.folder for process in others} == {"/", str(started.working)}
    assert [process.folder for process in others].count(str(started.working)) == 1, "the worker"
    assert all(process.variables["PYTHONSAFEPATH"] == "1" for process in others if process.variables)


def test_the_environment_here_is_as_it_was(started: Started) -> None:
    assert started.written <= {"RAY_USAGE_STATS_ENABLED"}


@pytest.mark.parametrize("address", [None, "127.0.0.1:6379"])
def test_ray_is_called_from_the_root_folder(
    address: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has workers import from where it is called, also those of a cluster that runs already."""
    called: list[str] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda **_: called.append(os.getcwd()))
    monkeypatch.setattr(ray_engine, "_knock", lambda address: None)
    with ExitStack() as until_closed:
        ray_engine._connect(ray, address, 1, until_closed)
    assert called == ["/"]
    assert Path.cwd() == tmp_path
