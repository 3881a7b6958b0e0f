"""A real cluster of Ray on this machine, of several nodes: a worker is killed, a node is killed, nothing is lost."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from commands import Commands, Ended, Started
from faults.cases import Case, Workshop
from faults.harness import assert_same_run, chance, lines_on_disk, read

pytest.importorskip("ray", reason="the extra `ray` is not installed")
pytestmark = [pytest.mark.only_long, pytest.mark.long, pytest.mark.timeout(280)]
PATIENCE_SECONDS = 120
STORE_BYTES = 80 * 2**20
STUDIES = ("mcq", "trajectories")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head that does no work itself, so that all of it is done on nodes that can be lost."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    from ray.cluster_utils import Cluster

    settings = {"num_cpus": 0, "object_store_memory": STORE_BYTES, "include_dashboard": False}
    found = Cluster(initialize_head=True, head_node_args=settings)
    yield found
    found.shutdown()


def processes_below(pid: int) -> list[int]:
    """The children of a process, and theirs."""
    found, parents = [], {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                parents[int(name)] = int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue  # it has ended meanwhile
    for child in (one for one, parent in parents.items() if parent == pid):
        found += [child, *processes_below(child)]
    return found


def raylet_of(node: Any) -> int:
    (found,) = node.all_processes["raylet"]
    return int(found.process.pid)


def workers_of(node: Any) -> list[int]:
    """The processes of a node that do howsure's work, by the names that Ray gives them."""
    named = []
    for pid in processes_below(raylet_of(node)):
        try:
            name = Path(f"/proc/{pid}/cmdline").read_bytes().strip(b"\0 ")
            if name in (b"ray::Worker", b"ray::Worker.work"):  # and not one that only starts
                named.append(pid)
        except OSError:
            continue
    return named


def wait_for_workers(nodes: list[Any]) -> tuple[Any, int]:
    """A node with a worker that works, and that worker; one may just have been replaced."""
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        for node in nodes:
            if found := workers_of(node):
                return node, found[0]
        time.sleep(0.01)
    raise AssertionError("no worker of Ray is at work")


def kill_a_worker(nodes: list[Any]) -> None:
    _, pid = wait_for_workers(nodes)
    os.kill(pid, signal.SIGKILL)


def kill_a_node(nodes: list[Any]) -> None:
    """Its raylet first, with nobody to say good-bye, and then all that ran there, as when a machine loses its power."""
    node, _ = wait_for_workers(nodes)
    below = processes_below(raylet_of(node))
    for pid in (raylet_of(node), *below):
        with contextlib.suppress(ProcessLookupError):  # it went with the raylet
            os.kill(pid, signal.SIGKILL)
    nodes.remove(node)


def killed_on_the_way(
    started: Started, out: Path, after: int, kill: Callable[[list[Any]], None], nodes: list[Any]
) -> Ended:
    until = time.monotonic() + PATIENCE_SECONDS
    while lines_on_disk(out) < after and time.monotonic() < until:
        time.sleep(0.005)
    kill(nodes)
    assert lines_on_disk(out) < SAMPLES, "the run was over before anything could be killed: make it longer"
    return started.wait()


SAMPLES = 200
WAYS: dict[str, Callable[[list[Any]], None]] = {"node": kill_a_node, "worker": kill_a_worker}


def case_of(workshop: Workshop, name: str) -> Case:
    return workshop.mcq(SAMPLES, batch=1) if name == "mcq" else workshop.many_trajectories(SAMPLES)


@pytest.mark.parametrize("what", WAYS)
@pytest.mark.parametrize("name", STUDIES)
def test_what_dies_has_its_work_done_again_and_each_sample_is_there_once(
    name: str, what: str, cluster: Any, commands: Commands, workshop: Workshop, tmp_path: Path
) -> None:
    case, whole, torn = case_of(workshop, name), tmp_path / "whole" / "run", tmp_path / "torn" / "run"
    commands.finish(*case.arguments, "--out", whole, set=dict(case.smaller))
    nodes = [cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES) for _ in range(2)]
    try:
        arguments = [one for one in case.arguments if one != "--quiet"]
        on_ray = ["--engine", "ray", "--address", cluster.address, "--workers", 2]
        # The one writer takes its time, so that there is a run to be disturbed.
        slowly = {"below": str(torn), "pause_s": 0.003, "set": dict(case.smaller)}
        started = commands.start(*arguments, *on_ray, "--out", torn, **slowly)
        after = chance("ray", name, what).randint(5, 60)
        ended = killed_on_the_way(started, torn, after, WAYS[what], nodes)
    finally:
        for node in nodes:
            cluster.remove_node(node)
    assert ended.code == 0, ended.said
    assert "a worker of Ray ended" in ended.said, ended.said
    assert json.loads(ended.out) == json.loads(read(whole / "summary.json")), "and nothing else is printed"
    assert_same_run(whole, torn)
