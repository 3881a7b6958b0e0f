"""Where long work tells how far it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

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
