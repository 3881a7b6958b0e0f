"""Who does the work, this process or workers elsewhere, and where it tells how far it is.

A study describes its work as a `Job` and cuts it into pieces. An engine has the pieces done and gives back what came of
them in their order, so that whoever writes the run need not know where they were done, and writes the same bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import repeat
from typing import Annotated, Any, Generic, Protocol, TypeVar

from howsure.errors import InputError, WorkersLost
from howsure.options import Opt, Options
from howsure.runs.reading import Sample

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

    def with_files(self, piece: Piece) -> Piece:
        """The piece with everything in it that another machine cannot see."""
        return piece

    def fingerprint(self) -> dict[str, Any]:
        """What this process and a worker must agree on, so that it does not matter who did a piece."""
        return {}

    @property
    def threads(self) -> int | None:
        """With how many threads a network on a CPU computes here, which decides about its last digits; None without."""
        return None

    def failed_piece(self, piece: Piece, why: str) -> Found:
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


@dataclass(frozen=True, kw_only=True)
class EngineOptions(Options):
    """Where the work is done."""

    engine: Annotated[str | Engine | None, Opt("Execution engine: local or ray.", identity="no")] = "local"
    address: Annotated[
        str | None,
        Opt(
            "With --engine ray: address of a cluster, such as 10.0.0.5:6379 or auto. Default: Ray on this machine.",
            identity="no",
        ),
    ] = None
    workers: Annotated[
        int | None,
        Opt("With --engine ray: number of workers, each with its own model. Default: as many as fit.", identity="no"),
    ] = None
    gpus_per_worker: Annotated[
        float | None, Opt("With --engine ray: GPUs per worker, such as 1 or 0.5. Default: 0.", identity="no")
    ] = None
    cpus_per_worker: Annotated[
        float | None,
        Opt(
            "With --engine ray: cores per worker. Default: 1; for a neural model on CPUs as many as here.",
            identity="no",
        ),
    ] = None

    @property
    def is_local(self) -> bool:
        engine = self.engine
        return (engine if isinstance(engine, str) or engine is None else engine.name) in (None, LocalEngine.name)

    def worker_device(self, device: str | None) -> dict[str, Any]:
        """Where a model of this run will be: its device is not for this machine to look for where workers open it.

        A worker that was given no GPU has none, whatever the machine has.
        """
        if self.is_local:
            return {"device": device}
        gpus = getattr(self.engine, "gpus_per_worker", self.gpus_per_worker)
        return {"device": device or ("cuda" if gpus else "cpu"), "elsewhere": True}


@contextmanager
def opened_engine(options: EngineOptions, announce: Callable[[str], None] | None = None) -> Iterator[Engine]:
    """The engine that was chosen, for the time of a `with`; one that was given open stays open."""
    engine = options.engine
    about = {name: getattr(options, name) for name in ("address", "workers", "gpus_per_worker", "cpus_per_worker")}
    if engine is not None and not isinstance(engine, str):
        yield engine
        return
    opened: Engine = LocalEngine()
    if engine == "ray":
        from howsure.runs.ray_engine import RayEngine

        ray = RayEngine(**about, announce=announce)
        ray.look()
        opened = ray
    elif engine not in (None, "local"):
        raise InputError(f"--engine must be local or ray, not {engine!r}")
    elif given := next((name for name, value in about.items() if value is not None), None):
        raise InputError(f"--{given.replace('_', '-')} is for --engine ray, and this is local: add --engine ray")
    try:
        yield opened
    finally:
        opened.close()


# -- how far it is --------------------------------------------------------------------------------------------------


class Tally(Protocol):
    """What long work counts by, and its figure so far: for most studies samples, and the share that is right."""

    unit: str

    @property
    def done(self) -> int: ...

    @property
    def text(self) -> str: ...

    def add(self, samples: Sequence[Sample]) -> None: ...


class Progress(Protocol):
    """Where long work tells how far it is; without a tally, samples are counted."""

    def start(self, what: str, total: int, kept: Sequence[Sample], tally: Tally | None = None) -> None: ...

    def advance(self, samples: Sequence[Sample]) -> None: ...

    def stop(self) -> None: ...


class NoProgress:
    """For those who did not ask."""

    def start(self, what: str, total: int, kept: Sequence[Sample], tally: Tally | None = None) -> None:
        """Nothing to show."""

    def advance(self, samples: Sequence[Sample]) -> None:
        """Nothing to show."""

    def stop(self) -> None:
        """Nothing to show."""
