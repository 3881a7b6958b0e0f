"""Working through batches, whoever does them, and writing what comes of it.

The batch is the unit of work. A batch of which some samples are already on disk is run whole again, so that every
digit is what it would have been, and only its missing samples are written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from howsure.runs.engine import Engine, Job, LocalEngine
from howsure.runs.progress import Progress, Tally
from howsure.runs.records import Sample
from howsure.runs.writer import RunWriter

Indices = tuple[int, ...]
Piece = TypeVar("Piece")
Found = TypeVar("Found")
Batch = TypeVar("Batch")


def work_through(
    writer: RunWriter,
    ids: Sequence[str],
    batches: Sequence[Indices],
    job: Job[Piece, list[Sample]],
    progress: Progress,
    what: str,
    *,
    piece: Callable[[Indices], Piece],
    engine: Engine | None = None,
    after: Callable[[list[Sample]], None] | None = None,
) -> None:
    """Run every batch that has a sample missing; the job gives one sample for each index, in order.

    `piece` is what a batch is to the job. `after` hears of samples as soon as they are on the disk.
    """
    todo = [batch for batch in batches if not all(ids[i] in writer.done for i in batch)]
    doer = engine or LocalEngine()
    if todo:
        doer.load(job)  # before the clock of the progress starts
    progress.start(what, len(ids), writer.samples)
    try:
        for _, samples in in_order(doer, job, todo, piece):
            _write(writer, samples, progress, after)
    finally:
        progress.stop()


class Named(Protocol):
    """A piece of work that becomes the sample of this name."""

    @property
    def id(self) -> str: ...


Unit = TypeVar("Unit", bound=Named)


def work_along(
    writer: RunWriter,
    batches: Iterable[Sequence[Unit]],
    job: Job[Piece, Found],
    progress: Progress,
    what: str,
    total: int,
    tally: Tally,
    *,
    piece: Callable[[Sequence[Unit]], Piece],
    samples: Callable[[Sequence[Unit], Found], list[Sample]],
    engine: Engine | None = None,
) -> None:
    """The same for batches that are made on the way, so that nobody knows beforehand how many there are.

    What was found becomes samples here, in order, for studies whose samples depend on those before.
    """
    todo = (batch for batch in batches if not all(unit.id in writer.done for unit in batch))
    progress.start(what, total, writer.samples, tally)
    try:
        for batch, found in in_order(engine or LocalEngine(), job, todo, piece):
            _write(writer, samples(batch, found), progress)
    finally:
        progress.stop()


def in_order(
    engine: Engine, job: Job[Piece, Found], batches: Iterable[Batch], piece: Callable[[Batch], Piece]
) -> Iterator[tuple[Batch, Found]]:
    """Each batch with what came of it; the batch itself never leaves this process."""
    under_way: deque[Batch] = deque()

    def pieces() -> Iterator[Piece]:
        for batch in batches:
            under_way.append(batch)
            yield piece(batch)

    found: Any
    for found in engine.run(job, pieces()):
        yield under_way.popleft(), found


def _write(
    writer: RunWriter,
    samples: list[Sample],
    progress: Progress,
    after: Callable[[list[Sample]], None] | None = None,
) -> None:
    missing = [sample for sample in samples if sample.id not in writer.done]
    writer.append(missing)
    if after is not None:
        after(missing)
    progress.advance(missing)
