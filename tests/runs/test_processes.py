"""Pieces spread over processes: in order, few at a time, and none lost with a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from howsure.errors import InputError, WorkersLost
from howsure.runs.engine import Job
from howsure.runs.processes import PIECES_A_WORKER, ProcessEngine


class Doubling(Job[int, tuple[int, int]]):
    """Twice a number, and the process that it was worked out in; some numbers end their process."""

    def __init__(self, deadly: int | None = None, deaths: Path | None = None, mild: bool = False) -> None:
        self.deadly, self.deaths, self.mild = deadly, deaths, mild
        self.loaded = 0

    def load(self) -> None:
        self.loaded += 1

    def __call__(self, piece: int) -> tuple[int, int]:
        assert self.loaded >= 1
        if piece == self.deadly and not (self.mild and self._has_died()):
            os.kill(os.getpid(), signal.SIGKILL)
        return 2 * piece, os.getpid()

    def _has_died(self) -> bool:
        assert self.deaths is not None
        again = self.deaths.exists()
        self.deaths.touch()
        return again


class Resigned(Doubling):
    def failed_piece(self, piece: int, why: str) -> tuple[int, int]:
        assert "twice" in why
        return -piece, 0


def test_in_order_and_in_as_many_processes_as_asked_for() -> None:
    found = list(ProcessEngine(2).run(Doubling(), range(40)))
    assert [value for value, _ in found] == [2 * i for i in range(40)]
    assert os.getpid() not in {pid for _, pid in found}


def test_one_worker_is_this_process() -> None:
    assert list(ProcessEngine(1).run(Doubling(), [1, 2])) == [(2, os.getpid()), (4, os.getpid())]


def test_pieces_are_taken_only_as_fast_as_results_are() -> None:
    taken = []

    def pieces() -> Iterator[int]:
        for i in range(100):
            taken.append(i)
            yield i

    found = ProcessEngine(2).run(Doubling(), pieces())
    for _ in range(10):
        next(found)
    assert len(taken) <= 10 + 2 * PIECES_A_WORKER
    found.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("deadly", [0, 7, 19])
def test_a_piece_that_ends_its_process_once_is_done_again(tmp_path: Path, deadly: int) -> None:
    job = Doubling(deadly, tmp_path / "died", mild=True)
    assert [value for value, _ in ProcessEngine(2).run(job, range(20))] == [2 * i for i in range(20)]


def test_a_piece_that_always_ends_its_process_is_failed_piece_and_the_others_are_done() -> None:
    found = [value for value, _ in ProcessEngine(2).run(Resigned(5), range(12))]
    assert found == [2 * i if i != 5 else -5 for i in range(12)]
    with pytest.raises(WorkersLost, match="twice, mostly for want of memory"):
        list(ProcessEngine(2).run(Doubling(5), range(12)))


class Failing(Job[int, int]):
    def __call__(self, piece: int) -> int:
        if piece == 3:
            raise InputError("three is not a number here")
        return piece


def test_what_a_job_raises_is_raised_here_in_its_turn() -> None:
    found = ProcessEngine(2).run(Failing(), range(6))
    assert [next(found) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(InputError, match="three"):
        next(found)


def test_there_must_be_a_process() -> None:
    with pytest.raises(InputError, match="at least 1 process"):
        ProcessEngine(0)


ORPHANS = """
import os, sys, time
from howsure.runs.engine import Job
from howsure.runs.processes import ProcessEngine
class Slow(Job):
    def __call__(self, piece):
        return os.getpid()
found = ProcessEngine(2).run(Slow(), range(1000))
print(*{next(found) for _ in range(50)}, flush=True)
time.sleep(60)
"""


def test_processes_end_with_whoever_gives_them_work() -> None:
    with subprocess.Popen([sys.executable, "-c", ORPHANS], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        workers = [int(pid) for pid in parent.stdout.readline().split()]
        parent.kill()
    assert workers
    until = time.monotonic() + 10
    while any(map(_is_alive, workers)) and time.monotonic() < until:
        time.sleep(0.02)
    assert not any(map(_is_alive, workers))


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
