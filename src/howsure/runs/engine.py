"""Who does the work: this process, or workers elsewhere.

A study describes its work as a `Job` and cuts it into pieces. An engine has the pieces done and gives back what came of
them in their order, so that whoever writes the run need not know where they were done, and writes the same bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from itertools import repeat
from typing import Any, Generic, Protocol, TypeVar

from howsure.errors import InputError, WorkersLost

Piece = TypeVar("Piece")
Found = TypeVar("Found")


class Job(ABC, Generic[Piece, Found]):
    """Work that is done piece by piece: a pure function of the piece, so that it can be done again elsewhere.

    A job that is to leave this process is pickled. A model in it travels as its name and options, and the copy opens it
    anew.
    """

    looks_ahead = False
    """Whether it wants to hear of the next piece, which is made earlier for that."""

    def load(self) -> None:
        """Everything that the first piece needs, weights mostly; loading twice does nothing."""

    def prefetch(self, piece: Piece) -> None:
        """Hear which piece comes after the one that is done now."""

    @abstractmethod
    def __call__(self, piece: Piece) -> Found:
        """What comes of a piece."""

    def packed(self, piece: Piece) -> Piece:
        """The piece with everything in it that another machine cannot see."""
        return piece

    def fingerprint(self) -> dict[str, Any]:
        """What this process and a worker must agree on, so that it does not matter who did a piece."""
        return {}

    @property
    def threads(self) -> int | None:
        """With how many threads a network on a CPU computes here, which decides about its last digits; None without."""
        return None

    def given_up(self, piece: Piece, why: str) -> Found:
        """What is written for a piece that ended every worker who tried it."""
        raise WorkersLost(why)


class Engine(Protocol):
    """Has jobs done."""

    name: str

    def load(self, job: Job[Any, Any]) -> None:
        """What takes long before the first piece; `run` does it too where this was not called."""

    def run(self, job: Job[Piece, Found], pieces: Iterable[Piece]) -> Generator[Found, None, None]:
        """What comes of each piece, in the order of the pieces; only a few are under way at a time."""

    def close(self) -> None:
        """Give back what was started here."""


class LocalEngine:
    """This process, one piece after the other."""

    name = "local"

    def __init__(self) -> None:
        self._ready: Job[Any, Any] | None = None

    def load(self, job: Job[Any, Any]) -> None:
        if self._ready is not job:
            job.load()
            self._ready = job

    def run(self, job: Job[Piece, Found], pieces: Iterable[Piece]) -> Generator[Found, None, None]:
        try:
            for piece, following in _with_next(pieces) if job.looks_ahead else zip(pieces, repeat(None)):
                self.load(job)
                if following is not None:
                    job.prefetch(following)
                yield job(piece)
        finally:
            self._ready = None  # with its weights, which the next model needs the room of

    def close(self) -> None:
        self._ready = None


def _with_next(pieces: Iterable[Piece]) -> Iterator[tuple[Piece, Piece | None]]:
    """Each piece, and the one that comes after it; None after the last."""
    waiting = iter(pieces)
    piece = next(waiting, None)
    while piece is not None:
        following = next(waiting, None)
        yield piece, following
        piece = following


class Here(Job[Piece, Found]):
    """Work as a plain function, which stays in this process."""

    def __init__(self, work: Callable[[Piece], Found], prefetch: Callable[[Piece], None] | None = None) -> None:
        self._work = work
        self._prefetch = prefetch
        self.looks_ahead = prefetch is not None

    def prefetch(self, piece: Piece) -> None:
        if self._prefetch is not None:
            self._prefetch(piece)

    def __call__(self, piece: Piece) -> Found:
        return self._work(piece)


def open_engine(engine: str | Engine | None, **options: Any) -> Engine:
    """An engine by its name (`local`, `ray`), with its options; None is this process, and one that is open stays."""
    if engine is None or engine == "local":
        _no_options(options)
        return LocalEngine()
    if not isinstance(engine, str):
        return engine
    if engine == "ray":
        from howsure.runs.ray_engine import RayEngine

        ray = RayEngine(**options)
        ray.look()
        return ray
    raise InputError(f"--engine must be local or ray, not {engine!r}")


def placed(
    engine: str | Engine | None, options: dict[str, Any], gpus_per_worker: float | None = None
) -> dict[str, Any]:
    """Options of a model that an engine's workers open: their device is not for this machine to look for.

    A worker that was given no GPU has none, whatever the machine has.
    """
    name = engine if isinstance(engine, str) or engine is None else engine.name
    if name in (None, LocalEngine.name):
        return options
    gpus = getattr(engine, "gpus_per_worker", gpus_per_worker)
    return options | {"device": options.get("device") or ("cuda" if gpus else "cpu"), "elsewhere": True}


@contextmanager
def engine_at_hand(engine: str | Engine | None, **options: Any) -> Iterator[Engine]:
    """The same for the time of a `with`; one that was opened here is closed after it."""
    opened = open_engine(engine, **options)
    try:
        yield opened
    finally:
        if opened is not engine:
            opened.close()


def _no_options(options: dict[str, Any]) -> None:
    given = next((name for name, value in options.items() if value is not None and name != "announce"), None)
    if given is not None:
        raise InputError(f"--{given.replace('_', '-')} is for --engine ray, and this is local: add --engine ray")
