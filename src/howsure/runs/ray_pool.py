"""The workers of one job on Ray: who has which piece, who died, and what is done again."""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from howsure._version import __version__
from howsure.errors import HowsureError, WorkersLost
from howsure.isolated import isolate
from howsure.runs.engine import Job

PIECES_A_WORKER = 2
"""One that is done and one that waits, so that no worker waits for this process."""

AHEAD = 4
"""How many pieces for each worker may be under way or done out of order: a slow one holds up no more than that."""

MOST_DEATHS = 3
"""So many workers may end over a piece before it is given up, or while starting before all is."""

LOOK_SECONDS = 1.0
START_PATIENCE_SECONDS = 600.0
TELL_AFTER_SECONDS = 15.0


class Room(NamedTuple):
    """What one worker takes of a cluster."""

    cpus: float
    gpus: float

    def fits(self, resources: dict[str, float]) -> int:
        """How many workers have room in all; machines may be smaller than their sum, so fewer may start."""
        ways = [resources.get("CPU", 0.0) / self.cpus] if self.cpus else []
        ways += [resources.get("GPU", 0.0) / self.gpus] if self.gpus else []
        return int(min(ways)) if ways else 1

    def no_room(self, resources: dict[str, float]) -> str:
        takes = f"a worker takes {self.cpus:g} CPUs and {self.gpus:g} GPUs"
        has = f"Ray offers {resources.get('CPU', 0.0):g} CPUs and {resources.get('GPU', 0.0):g} GPUs"
        return f"{takes}, and {has}: ask for less, or add nodes"


class Hired(NamedTuple):
    """What a worker says of itself once it is ready."""

    version: str
    fingerprint: dict[str, Any]
    node: str


class Worker:
    """What runs in a process of Ray's: the job's copy, opened once.

    It comes as bytes, since opening it may fail, which is to be told as what it is and not as the end of a worker.
    """

    _job: Job[Any, Any]

    def __init__(self, folder: str) -> None:
        isolate()
        if os.path.isdir(folder):  # so that relative names mean the same; on another machine there may be none
            os.chdir(folder)

    def ready(self, job: bytes, version: str, threads: int | None) -> Hired | HowsureError:
        import ray

        if threads is not None:  # before any network's library is loaded, which looks at this once
            os.environ["OMP_NUM_THREADS"] = str(threads)

        node = ray.util.get_node_ip_address()
        if version != __version__:
            return Hired(__version__, {}, node)  # it could not make sense of the job
        try:
            self._job = ray.cloudpickle.loads(job)
            self._job.load()
            return Hired(__version__, self._job.fingerprint(), node)
        except HowsureError as error:
            return error

    def work(self, piece: Any) -> Any:
        try:
            answered = self._job(piece)
            return list(answered) if isinstance(answered, Iterator) else answered  # one that comes bit by bit here
        except HowsureError as error:  # as a value: Ray would wrap it in a traceback of its own
            return error


class Pool:
    """Workers of one job."""

    def __init__(self, ray: Any, job: Job[Any, Any], room: Room, count: int, announce: Callable[[str], None]) -> None:
        self.job = job
        self._ray, self._room, self._count, self._announce = ray, room, count, announce
        self._remote = ray.remote(Worker).options(num_cpus=room.cpus, num_gpus=room.gpus, max_restarts=0)
        self._copy = ray.put(ray.cloudpickle.dumps(job))
        self._hired: list[Any] = []
        """All that were ever started: one that nobody ends keeps its room."""
        self._starting: dict[Any, Any] = {}
        """By what will say that it is ready: the worker."""
        self._busy: dict[Any, list[int]] = {}
        """By worker: the numbers of its pieces, in the order in which it does them."""
        self._under_way: dict[Any, tuple[int, Any]] = {}
        """By what will be its result: the number of a piece, and its worker."""
        self._deaths: Counter[int] = Counter()
        """Of the pieces that a dead worker left: how many it was the fault of. Each is done again with no other beside
        it, since a worker may end before it can say that the first was done, and that one would be blamed."""
        self._failed_starts = 0
        self._lost = 0
        self._wanted = job.fingerprint()
        for _ in range(count):
            self._hire()

    # -- workers --------------------------------------------------------------------------------------------------

    def _hire(self) -> None:
        worker = self._remote.remote(os.getcwd())
        self._hired.append(worker)
        self._starting[worker.ready.remote(self._copy, __version__, self.job.threads)] = worker

    def wait_for(self, count: int = 1) -> None:
        """Until a worker is there, or so many, or it is clear that none will come."""
        began, told = time.monotonic(), False
        while len(self._busy) < min(count, len(self._busy) + len(self._starting)) or not self._busy:
            self._look(LOOK_SECONDS)
            waited = time.monotonic() - began
            if waited > START_PATIENCE_SECONDS:
                raise WorkersLost(f"no worker started in {waited / 60:.0f} minutes; what is written is safe")
            if waited > TELL_AFTER_SECONDS and not told and not self._busy:
                told = True
                self._announce(f"waiting for {self._count} workers of Ray to start ({self._offer()})")

    def _offer(self) -> str:
        free = self._ray.available_resources()
        return f"free now: {free.get('CPU', 0.0):g} CPUs, {free.get('GPU', 0.0):g} GPUs"

    def _started(self, reference: Any) -> None:
        worker = self._starting.pop(reference)
        try:
            said = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError:
            raise
        except self._ray.exceptions.RayError as error:
            self._did_not_start(error)
            return
        if isinstance(said, HowsureError):
            raise said
        self._check(said)
        self._failed_starts = 0
        self._busy[worker] = []

    def _did_not_start(self, error: Exception) -> None:
        """Another is tried; after some, those that are there go on alone, and where there is none, all ends."""
        if getattr(error, "actor_init_failed", False):  # a worker begins with next to nothing but its import
            raise WorkersLost(
                f"a Ray node cannot begin to work («{_last(error)}»): install the same howsure on every node, with the "
                "extras that the work needs"
            ) from error
        self._failed_starts += 1
        if self._failed_starts < MOST_DEATHS:
            self._hire()
        elif not self._busy and not self._starting:
            raise WorkersLost(
                f"{self._failed_starts} workers of Ray ended while they started, the last with «{_short(error)}»; "
                "mostly that is for want of memory: fewer --workers, or a smaller model"
            ) from error

    def _check(self, said: Hired) -> None:
        """Digits must not depend on who did a piece."""
        if said.version != __version__:
            raise WorkersLost(
                f"the Ray node {said.node} has howsure {said.version}, this is {__version__}: install the same on both"
            )
        for name, value in self._wanted.items():
            if said.fingerprint.get(name) != value:
                there = said.fingerprint.get(name)
                raise WorkersLost(
                    f"on the Ray node {said.node} the model's {name} is {there!r}, here it is {value!r}: give the same "
                    "--device and --dtype to all, and the same files"
                )

    def _died(self, worker: Any, error: Exception) -> list[int]:
        """The pieces that a dead worker leaves; the one that it was at may have been the cause."""
        left = self._busy.pop(worker, [])
        for reference in [one for one, (_, whose) in self._under_way.items() if whose == worker]:
            del self._under_way[reference]
        self._lost += 1
        self._announce(f"a worker of Ray ended ({_short(error)}); its {len(left)} pieces are done again")
        self._ray.kill(worker)
        self._hired.remove(worker)
        self._hire()
        self._deaths.update({number: int(number == left[0]) for number in left})
        return left

    # -- pieces ---------------------------------------------------------------------------------------------------

    def run(self, pieces: Iterable[Any]) -> Iterator[Any]:
        """What comes of each, in order."""
        coming = enumerate(pieces)
        held: dict[int, Any] = {}
        """Pieces that are not done yet, by number."""
        again: deque[int] = deque()
        done: dict[int, Any] = {}
        following, more = 0, True
        while more or held or done:
            if not self._busy:
                self.wait_for()
            more = more and self._take(coming, held, again, len(done))
            self._hand_out(held, again)
            for number, answered in self._look(LOOK_SECONDS, held, again):
                if held.pop(number, None) is not None:
                    done[number] = answered
            self._give_up(held, again, done)
            while following in done:
                yield done.pop(following)
                following += 1

    def _take(self, coming: Iterator[tuple[int, Any]], held: dict[int, Any], again: deque[int], done: int) -> bool:
        """Some more pieces, as many as may be under way; False after the last. `done` wait for one before them."""
        while True:
            if len(held) >= self._most() or len(held) + done >= AHEAD * self._count:
                return True
            number, piece = next(coming, (None, None))
            if number is None:
                return False
            held[number] = (piece,)
            again.append(number)

    def _most(self) -> int:
        return PIECES_A_WORKER * max(1, len(self._busy))

    def _hand_out(self, held: dict[int, Any], again: deque[int]) -> None:
        while again:
            free = [worker for worker, queue in self._busy.items() if self._takes(queue, again[0])]
            if not free:
                return
            worker = min(free, key=lambda one: len(self._busy[one]))
            number = again.popleft()
            reference = worker.work.remote(self.job.with_files(held[number][0]))
            self._under_way[reference] = number, worker
            self._busy[worker].append(number)

    def _takes(self, queue: list[int], number: int) -> bool:
        alone = any(one in self._deaths for one in (number, *queue))
        return len(queue) < (1 if alone else PIECES_A_WORKER)

    def _give_up(self, held: dict[int, Any], again: deque[int], done: dict[int, Any]) -> None:
        for number in [one for one, deaths in self._deaths.items() if deaths >= MOST_DEATHS and one in held]:
            why = f"{MOST_DEATHS} workers ended, one after the other, while they did this; --retry-failed tries again"
            done[number] = self.job.failed_piece(held.pop(number)[0], why)
            again.remove(number)

    def _look(
        self, seconds: float, held: dict[int, Any] | None = None, again: deque[int] | None = None
    ) -> list[tuple[int, Any]]:
        """What has happened: workers that are ready or dead, and pieces that are done, which come back."""
        waiting = [*self._under_way, *self._starting]
        if not waiting:
            return []
        ready, _ = self._ray.wait(waiting, num_returns=1, timeout=seconds)
        fetched: list[tuple[int, Any]] = []
        for reference in ready:
            if reference in self._starting:
                self._started(reference)
            elif reference in self._under_way:
                fetched += self._fetched(reference, again if again is not None else deque())
        return fetched

    def _fetched(self, reference: Any, again: deque[int]) -> list[tuple[int, Any]]:
        number, worker = self._under_way[reference]
        try:
            answered = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError:
            raise
        except self._ray.exceptions.RayError as error:
            again.extendleft(reversed(self._died(worker, error)))
            return []
        del self._under_way[reference]
        self._busy[worker].remove(number)
        if isinstance(answered, HowsureError):
            raise answered
        return [(number, answered)]

    def close(self) -> None:
        for worker in self._hired:
            self._ray.kill(worker)
        self._hired.clear()
        self._busy.clear()
        self._starting.clear()
        self._under_way.clear()


def _short(error: Exception) -> str:
    """Ray's errors are pages; their first sentence tells."""
    return _lines(error)[0][:160]


def _last(error: Exception) -> str:
    """Those that hold a traceback tell in their last."""
    return _lines(error)[-1][:160]


def _lines(error: Exception) -> list[str]:
    return [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
