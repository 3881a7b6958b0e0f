"""Pieces spread over processes of this machine: for work on files, which threads of one Python cannot share.

Only a few pieces are under way at a time, so that what comes back never piles up. When the system ends a process,
mostly for want of memory, nobody knows whose piece was too much for it: each that was under way is then done again,
alone in a process of its own. One that ends that process too is given up, by name, and the others go on.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any, NamedTuple

from howsure.errors import InputError
from howsure.runs.engine import Found, Job, LocalEngine, Piece

PIECES_A_WORKER = 2
"""Under way for each process: one that is worked on, and one so that nobody waits."""

_job: Any = None
"""The job of a worker's process, sent once and not with each piece."""


class ProcessEngine:
    """So many processes of this machine; one is this process itself, and starts nothing."""

    name = "processes"

    def __init__(self, workers: int | None = None) -> None:
        self.workers = usable_cores() if workers is None else workers
        if self.workers < 1:
            raise InputError(f"there must be at least 1 process to work in, not {self.workers}")

    def load(self, job: Job[Any, Any]) -> None:
        """Each process loads for itself, as it starts."""

    def run(self, job: Job[Piece, Found], pieces: Iterable[Piece]) -> Generator[Found, None, None]:
        if self.workers == 1:
            yield from LocalEngine().run(job, pieces)
            return
        waiting = iter(pieces)
        under_way: deque[_Sent] = deque()
        whole = False
        while not whole:
            pool = _pool(job, self.workers)
            try:
                yield from self._in_order(pool, under_way, waiting)
                whole = True
            except BrokenProcessPool:
                pool.shutdown(wait=True, cancel_futures=True)
                yield from _one_by_one(job, under_way)
            finally:
                pool.shutdown(wait=whole, cancel_futures=True)

    def _in_order(self, pool: ProcessPoolExecutor, under_way: deque[_Sent], waiting: Iterator[Any]) -> Iterator[Any]:
        """What comes of all pieces; should a process end, those still under way are left where they are."""
        most = PIECES_A_WORKER * self.workers
        under_way.extend(_send(pool, piece) for piece in islice(waiting, most))
        while under_way:
            answered = under_way[0].future.result()
            under_way.popleft()
            under_way.extend(_send(pool, piece) for piece in islice(waiting, 1))
            yield answered

    def close(self) -> None:
        """Processes end with the pieces that they were started for."""


def usable_cores() -> int:
    """Those that this process may run on, which a container or a queue may have made fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Sent(NamedTuple):
    piece: Any
    future: Future[Any]


def _send(pool: ProcessPoolExecutor, piece: Any) -> _Sent:
    try:
        return _Sent(piece, pool.submit(_work, piece))
    except BrokenProcessPool as error:  # found out here, or when somebody asks for what came of it: all the same
        failed: Future[Any] = Future()
        failed.set_exception(error)
        return _Sent(piece, failed)


def _one_by_one(job: Job[Any, Any], under_way: deque[_Sent]) -> Iterator[Any]:
    """What was finished as it is, the rest each in a process of its own."""
    while under_way:
        piece, future = under_way.popleft()
        lost = future.cancelled() or isinstance(future.exception(), BrokenProcessPool)
        yield alone(job, piece) if lost else future.result()


def alone(job: Job[Piece, Found], piece: Piece) -> Found:
    """What comes of a piece in a process of its own, whose end harms nobody else; if that ends too, it is given up."""
    with _pool(job, 1) as pool:
        try:
            answered: Found = pool.submit(_work, piece).result()
            return answered
        except BrokenProcessPool:
            return job.failed_piece(piece, "it ended the process that worked on it, twice, mostly for want of memory")


def _pool(job: Job[Any, Any], workers: int) -> ProcessPoolExecutor:
    method = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
    context = multiprocessing.get_context(method)
    return ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(job,))


def _begin(job: Job[Any, Any]) -> None:
    global _job
    _job = job
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that gives out the work
    threading.Thread(target=_end_with_parent, daemon=True).start()
    job.load()


def _end_with_parent() -> None:
    """A process whose giver of work was killed would wait for ever, and hold what it has."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(piece: Any) -> Any:
    answered = _job(piece)
    return list(answered) if isinstance(answered, Iterator) else answered
