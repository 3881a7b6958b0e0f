"""Working through a plan of batches on this machine, and writing what comes of it.

The batch is the unit of work. A batch of which some samples are already on disk is run whole again, so that every
digit is what it would have been, and only its missing samples are written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Protocol

from howsure.runs.folder import RunWriter
from howsure.runs.records import Sample


class Progress(Protocol):
    """Where long work tells how far it is."""

    def start(self, what: str, total: int, kept: Sequence[Sample]) -> None: ...

    def advance(self, samples: Sequence[Sample]) -> None: ...

    def stop(self) -> None: ...


class NoProgress:
    """For those who did not ask."""

    def start(self, what: str, total: int, kept: Sequence[Sample]) -> None:
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
) -> None:
    """Run every batch that has a sample missing; `work` gives one sample for each index, in order.

    `ahead` hears of the next batch just before one is run.
    """
    progress.start(what, len(ids), writer.samples)
    todo = [batch for batch in batches if not all(ids[i] in writer.done for i in batch)]
    try:
        for batch, following in zip_longest(todo, todo[1:]):
            if ahead is not None and following is not None:
                ahead(following)
            missing = [sample for sample in work(batch) if sample.id not in writer.done]
            writer.append(missing)
            progress.advance(missing)
    finally:
        progress.stop()
