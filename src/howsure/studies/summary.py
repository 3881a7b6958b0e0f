"""The part of a summary that every study shares: coverage, and headline figures with their doubt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from howsure.measures import Interval
from howsure.runs.reading import Sample
from howsure.studies.sureness import ends
from howsure.types import Fields


class Figure(Fields):
    """One headline number with its unit and interval; None where there was nothing to compute it from.

    `note` is what qualifies the number or says why there is none, in a few words: it is shown wherever the number is.
    `meaning` is for somebody who sees it for the first time.
    """

    name: str
    value: float | None
    unit: str
    low: float | None = None
    high: float | None = None
    level: float | None = None
    method: str | None = None
    approximate: bool | None = None
    note: str | None = None
    meaning: str | None = None

    @classmethod
    def of(
        cls,
        name: str,
        value: float | None,
        unit: str,
        interval: Interval | None = None,
        note: str | None = None,
        meaning: str | None = None,
    ) -> Figure:
        return cls(name, value, unit, **ends(interval), note=note, meaning=meaning)


class Coverage(Fields):
    """How many items there were, how many have evidence, and why the others have none.

    `text` says it: `scored 412 of 467; 55 missing: 41 tool calls, 14 no logprobs`.
    """

    items: int
    scored: int
    missing: dict[str, int] = msgspec.field(default_factory=dict)
    text: str = ""

    def __post_init__(self) -> None:
        if not self.text:
            self.text = self._sentence()

    @classmethod
    def of(cls, samples: Sequence[Sample], skipped: dict[str, int] | None = None) -> Coverage:
        """Count samples, and lines of the data that never became one."""
        reasons = Counter(sample.reason for sample in samples if sample.reason is not None)
        reasons.update(skipped or {})
        scored = sum(not sample.failed for sample in samples)
        return cls(scored + sum(reasons.values()), scored, dict(sorted(reasons.items())))

    def _sentence(self) -> str:
        head = f"scored {self.scored} of {self.items}"
        if not self.missing:
            return head
        reasons = ", ".join(f"{count} {reason.replace('_', ' ')}" for reason, count in self.missing.items())
        return f"{head}; {sum(self.missing.values())} missing: {reasons}"


class Summary(Fields, kw_only=True):
    """What every summary begins with: lists of runs, the demo and other readers need no more.

    `notes` are sentences that a reader of the headline must know; most runs have none.
    """

    study: str
    coverage: Coverage
    headline: list[Figure]
    notes: list[str]
