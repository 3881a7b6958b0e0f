"""Who is blamed when a worker dies, with workers that lose every answer that they have not given yet."""

from __future__ import annotations

import pickle
from collections import Counter
from types import SimpleNamespace
from typing import Any

from howsure._version import __version__
from howsure.runs import Job
from howsure.runs.ray_pool import Hired, Pool, Room

DEADLY = 3


class Echo(Job[int, str]):
    def __call__(self, piece: int) -> str:
        return f"piece {piece}"

    def failed_piece(self, piece: int, why: str) -> str:
        return f"piece {piece}: {why}"


class Died(Exception):
    pass


class Reference:
    def __init__(self, worker: FakeWorker, value: Any) -> None:
        self.worker, self.value = worker, value


class FakeWorker:
    """Does all that it has at once, and dies at one of the pieces without having answered for those before."""

    def __init__(self, done: Counter[int]) -> None:
        self.done = done
        self.waiting: list[int] = []
        self.dead = False
        self.ready = SimpleNamespace(remote=lambda *_: Reference(self, Hired(__version__, {}, "here")))
        self.work = SimpleNamespace(remote=self._take)

    def _take(self, piece: int) -> Reference:
        self.waiting.append(piece)
        return Reference(self, f"piece {piece}")

    def answer(self, reference: Reference) -> Any:
        self.done.update(self.waiting)
        self.dead = self.dead or DEADLY in self.waiting
        self.waiting.clear()
        if self.dead:
            raise Died
        return reference.value


class FakeRay:
    exceptions = SimpleNamespace(RayError=Died, RayTaskError=ZeroDivisionError)
    cloudpickle = pickle

    def __init__(self) -> None:
        self.done: Counter[int] = Counter()

    def remote(self, _: Any) -> Any:
        started = SimpleNamespace(remote=lambda *_: FakeWorker(self.done))
        return SimpleNamespace(options=lambda **_: started)

    def put(self, value: Any) -> Any:
        return value

    def wait(self, waiting: list[Reference], num_returns: int, timeout: float) -> tuple[list[Reference], list[Any]]:
        return waiting[:num_returns], waiting[num_returns:]

    def get(self, reference: Reference) -> Any:
        return reference.worker.answer(reference)

    def kill(self, worker: FakeWorker) -> None:
        worker.dead = True


def test_a_piece_beside_one_that_ends_workers_is_not_blamed_for_it() -> None:
    for workers in (1, 2, 3):
        ray = FakeRay()
        pool = Pool(ray, Echo(), Room(1.0, 0.0), workers, lambda _: None)
        answers = list(pool.run(range(12)))
        pool.close()
        assert [one for i, one in enumerate(answers) if i != DEADLY] == [f"piece {i}" for i in range(12) if i != DEADLY]
        assert answers[DEADLY].startswith(f"piece {DEADLY}: 3 workers ended")
        assert ray.done[DEADLY] <= 4
