"""Working through batches on this machine, and writing what comes of it.

The batch is the unit of work. A batch of which some samples are already on disk is run whole again, so that every
digit is what it would have been, and only its missing samples are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import Protocol, TypeVar

from howsure.runs.folder import RunWriter
from howsure.runs.records import Sample


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


def work_through(
    writer: RunWriter,
    ids: Sequence[str],
    batches: Sequence[tuple[int, ...]],
    work: Callable[[tuple[int, ...]], list[Sample]],
    progress: Progress,
    what: str,
    ahead: Callable[[tuple[int, ...]], None] | None = None,
    after: Callable[[list[Sample]], None] | None = None,
) -> None:
    """Run every batch that has a sample missing; `work` gives one sample for each index, in order.

    `ahead` hears of the next batch just before one is run, `after` of samples as soon as they are on the disk.
    """
    progress.start(what, len(ids), writer.samples)
    todo = [batch for batch in batches if not all(ids[i] in writer.done for i in batch)]
    try:
        for batch, following in zip_longest(todo, todo[1:]):
            if ahead is not None and following is not None:
                ahead(following)
            missing = [sample for sample in work(batch) if sample.id not in writer.done]
            writer.append(missing)
            if after is not None:
                after(missing)
            progress.advance(missing)
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
    work: Callable[[Sequence[Unit]], list[Sample]],
    progress: Progress,
    what: str,
    total: int,
    tally: Tally,
) -> None:
    """The same for batches that are made on the way, so that nobody knows beforehand how many there are."""
    progress.start(what, total, writer.samples, tally)
    try:
        for batch in batches:
            if all(unit.id in writer.done for unit in batch):
                continue
            missing = [sample for sample in work(batch) if sample.id not in writer.done]
            writer.append(missing)
            progress.advance(missing)
    finally:
        progress.stop()
