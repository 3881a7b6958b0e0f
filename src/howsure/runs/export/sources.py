"""The samples of a run, read twice from one open file: once for their places, once for their values.

Between the two a run may grow, or have its failed samples taken out to be redone; what the first pass saw is what the
second one reads, since a file that is replaced lives on for those who hold it open.
"""

from __future__ import annotations

import datetime
import hashlib
from array import array
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec

from howsure.errors import RunDamaged
from howsure.evidence import Outcome
from howsure.runs.export.columns import Kind, arrays
from howsure.runs.files import to_json
from howsure.runs.folder import SAMPLES, Run, open_samples
from howsure.runs.reading import whole_lines
from howsure.runs.records import LeanSample, Sample

AnySample = Sample | LeanSample
INT64 = range(-(2**63), 2**63)


class Source:
    """One run that is exported; a context manager, since it holds a file open."""

    def __init__(self, run: Run, record: Any, evidence: Any | None) -> None:
        """`record` and `evidence` are what its study declares; without evidence, that is skipped."""
        self.run = run
        self.path = run.path / SAMPLES
        self._file = open_samples(run.path)
        self._checker = _checker(record, evidence)
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(
            LeanSample[dict[str, Any]] if evidence is None else Sample[dict[str, Any]]
        )
        self._indices, self._starts, self._sizes = array("q"), array("q"), array("q")

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __len__(self) -> int:
        return len(self._starts)

    def look(self) -> None:
        """The first pass: whether each sample holds what its study declares, and where in the file it lies."""
        seen: set[str] = set()
        start = 0
        for number, line in enumerate(whole_lines(self._file, self.path), 1):
            sample = self._decoded(self._checker, line, number)
            if sample.index not in INT64:
                shown = f"{sample.index:.3g}" if abs(sample.index) < 10**300 else "of hundreds of digits"
                raise RunDamaged(f"{self._at(number)}: index {shown} is not a place in any data; delete that line")
            if sample.id in seen:
                raise RunDamaged(f"{self._at(number)}: sample {sample.id!r} is there twice; delete one of the two")
            seen.add(sample.id)
            for kept, value in ((self._indices, sample.index), (self._starts, start), (self._sizes, len(line))):
                kept.append(value)
            start += len(line)

    def first_that_fails(self, piece: list[AnySample], kind: Kind) -> str:
        """Which of some samples no column can take."""
        for sample in piece:
            try:
                arrays(kind, [values_of(sample)])
            except Exception:  # noqa: BLE001  whatever pyarrow says of it
                return f"sample {sample.id!r} holds what no column can; delete its line to have it redone"
        return "some samples hold together what no column can"

    def _decoded(self, decoder: msgspec.json.Decoder[Any], line: bytes, number: int) -> Any:
        try:
            return decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise RunDamaged(f"{self._at(number)}: {error}; delete that line to have its sample redone") from error

    def _at(self, number: int) -> str:
        return f"{self.path}, line {number}"

    def pieces(self, most_bytes: int, row_bytes: int = 0) -> Iterator[list[AnySample]]:
        """The second pass: the samples in the order of the data, some at a time; each brings `row_bytes` more along."""
        piece: list[AnySample] = []
        size = 0
        for row in sorted(range(len(self)), key=self._indices.__getitem__):
            self._file.seek(self._starts[row])
            line = self._file.read(self._sizes[row])
            piece.append(self._decoded(self._decoder, line, row + 1))  # what the first pass skipped may be no text
            size += self._sizes[row] + row_bytes
            if size >= most_bytes:
                yield piece
                piece, size = [], 0
        if piece:
            yield piece


@cache
def _checker(record: Any, evidence: Any | None) -> msgspec.json.Decoder[Any]:
    parts = [("result", record)] + ([] if evidence is None else [("evidence", evidence)])
    fields: list[Any] = [("id", str), ("index", int), *((name, kind, None) for name, kind in parts)]
    fields += [("outcome", Outcome | None, None), ("reason", str | None, None), ("detail", str | None, None)]
    return msgspec.json.Decoder(msgspec.defstruct("Line", fields))


def values_of(sample: AnySample) -> dict[str, Any]:
    """The parts of a sample that every study fills in its own way."""
    parts = {"result": sample.result}
    return parts | {"evidence": sample.evidence} if isinstance(sample, Sample) else parts


# -- what is the same for all samples of a run ------------------------------------------------------------------------


def about(run: Run) -> dict[str, Any]:
    """The columns that tell one run from another."""
    manifest, identity = run.manifest, run.manifest.identity
    fingerprint = {name: value for name, value in identity.model.items() if name != "name"}
    whole = {"identity": msgspec.to_builtins(identity), "started": manifest.started}
    data = identity.data.get("fingerprint")
    return {
        "run": run.path.absolute().name,
        "run_id": digest(whole)[len("sha256:") :][:16],
        "study": identity.study,
        "model": _text(identity.model.get("name")),
        "model_fingerprint": digest(fingerprint) if fingerprint else None,
        "data": manifest.source or None,
        "data_fingerprint": data if isinstance(data, str) else digest(identity.data) if identity.data else None,
        "options": to_json(identity.options).decode("utf-8"),
        "seed": identity.seed if identity.seed in INT64 else None,
        "started": _moment(manifest.started),
        "status": run.status,
        "items": manifest.items if manifest.items in INT64 else None,
    }


def digest(value: dict[str, Any]) -> str:
    """The same for equal dictionaries, whatever the order of their keys."""
    return f"sha256:{hashlib.sha256(msgspec.json.encode(value, order='sorted')).hexdigest()}"


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else to_json(value).decode("utf-8")


def _moment(text: str) -> datetime.datetime | None:
    """None where a manifest's time is none; without a zone it is UTC, as howsure writes it."""
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)
