"""The samples of a run, read twice from one open file: once for their shapes and places, once for their values.

Between the two a run may grow, or have its failed samples taken out to be redone; what the first pass saw is what the
second one reads, since a file that is replaced lives on for those who hold it open.
"""

from __future__ import annotations

import datetime
import hashlib
from array import array
from collections.abc import Iterator
from typing import Any

import msgspec

from howsure.errors import RunDamaged
from howsure.runs.export.shapes import INT64, Shape
from howsure.runs.files import to_json
from howsure.runs.folder import SAMPLES, Run, open_samples
from howsure.runs.reading import whole_lines
from howsure.runs.records import LeanSample, Sample

AnySample = Sample | LeanSample


class Source:
    """One run that is exported; a context manager, since it holds a file open."""

    def __init__(self, run: Run, *, evidence: bool = True) -> None:
        self.run = run
        self.path = run.path / SAMPLES
        self._file = open_samples(run.path)
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(
            Sample[dict[str, Any]] if evidence else LeanSample[dict[str, Any]]
        )
        self._indices, self._starts, self._sizes = array("q"), array("q"), array("q")

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __len__(self) -> int:
        return len(self._starts)

    def look(self, shape: Shape) -> None:
        """The first pass: what is at which place of the samples, and where each of them lies in the file."""
        seen: set[str] = set()
        start = 0
        for number, line in enumerate(whole_lines(self._file, self.path), 1):
            sample = self._read(line, number)
            if sample.id in seen:
                raise RunDamaged(f"{self._at(number)}: sample {sample.id!r} is there twice; delete one of the two")
            seen.add(sample.id)
            shape.see(values_of(sample))
            for kept, value in ((self._indices, sample.index), (self._starts, start), (self._sizes, len(line))):
                kept.append(value)
            start += len(line)

    def _read(self, line: bytes, number: int) -> AnySample:
        try:
            sample: AnySample = self._decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise RunDamaged(f"{self._at(number)}: {error}; delete that line to have its sample redone") from error
        if sample.index not in INT64:
            shown = f"{sample.index:.3g}" if abs(sample.index) < 10**300 else "of hundreds of digits"
            raise RunDamaged(f"{self._at(number)}: index {shown} is no place in any data; delete that line")
        return sample

    def _at(self, number: int) -> str:
        return f"{self.path}, line {number}"

    def pieces(self, most_bytes: int, row_bytes: int = 0) -> Iterator[list[AnySample]]:
        """The second pass: the samples in the order of the data, some at a time; each brings `row_bytes` more along."""
        piece: list[AnySample] = []
        size = 0
        for row in sorted(range(len(self)), key=self._indices.__getitem__):
            self._file.seek(self._starts[row])
            piece.append(self._decoder.decode(self._file.read(self._sizes[row])))
            size += self._sizes[row] + row_bytes
            if size >= most_bytes:
                yield piece
                piece, size = [], 0
        if piece:
            yield piece


def values_of(sample: AnySample) -> dict[str, Any]:
    """The parts of a sample that every study fills in its own way."""
    found = {"result": sample.result}
    return found | {"evidence": sample.evidence} if isinstance(sample, Sample) else found


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
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=datetime.UTC)
