"""What a run folder holds, as types: the manifest and the samples."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from howsure.evidence import Outcome

FORMAT = 1

Status = Literal["running", "finished", "interrupted", "failed"]


class Sample(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of samples.jsonl: what was found for one item, or the reason why nothing was.

    `id` is stable over runs and machines, `index` is the item's place in the data. A failed sample has a short
    `reason` to be counted by and a `detail` to be read; a sample that worked has neither.
    """

    id: str
    index: int
    result: dict[str, Any] = {}
    evidence: dict[str, Any] = {}
    outcome: Outcome | None = None
    reason: str | None = None
    detail: str | None = None

    @property
    def failed(self) -> bool:
        return self.reason is not None

    def without_evidence(self) -> Sample:
        """What summaries are made of. Evidence is the bulk of a sample, and stays on the disk."""
        return msgspec.structs.replace(self, evidence={}) if self.evidence else self


class LeanSample(msgspec.Struct):
    """A line of samples.jsonl without its evidence, which is skipped and never built."""

    id: str
    index: int
    result: dict[str, Any] = {}
    outcome: Outcome | None = None
    reason: str | None = None
    detail: str | None = None

    def sample(self) -> Sample:
        return Sample(self.id, self.index, self.result, {}, self.outcome, self.reason, self.detail)


class Identity(msgspec.Struct, frozen=True):
    """What makes a run this run: a change in any of it is another run, never a continuation."""

    study: str
    options: dict[str, Any]
    model: dict[str, Any]
    data: dict[str, Any]
    seed: int

    def differences(self, other: Identity) -> list[str]:
        """Each field that differs, as a short text: here against there."""
        mine, theirs = msgspec.to_builtins(self), msgspec.to_builtins(other)
        return _differences("", mine, theirs)


class Manifest(msgspec.Struct):
    """run.json."""

    identity: Identity
    items: int
    status: Status
    started: str
    ended: str | None = None
    error: str | None = None
    sessions: int = 1
    owner: dict[str, Any] = {}
    versions: dict[str, str] = {}
    source: str = ""
    """Where the data was read from; a note for people, since the fingerprint decides."""
    format: int = FORMAT


def _differences(place: str, mine: Any, theirs: Any) -> list[str]:
    if isinstance(mine, dict) and isinstance(theirs, dict):
        keys = [*mine, *(key for key in theirs if key not in mine)]
        return [
            found
            for key in keys
            for found in _differences(f"{place}.{key}" if place else str(key), mine.get(key), theirs.get(key))
        ]
    return [] if mine == theirs else [f"{place} was {_short(mine)}, now {_short(theirs)}"]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
