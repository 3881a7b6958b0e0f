"""Runs as Parquet: one row a sample, columns with types, for DuckDB, Polars and whatever else reads tables.

The samples of one run or of several become one table, written in bounded memory and in one step. Each run is read
twice from one open file: once for the places of its samples, once for their values. Between the two it may grow, or
have its failed samples taken out to be redone; what the first pass saw is what the second one reads, since a file that
is replaced lives on for those who hold it open.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from howsure.errors import MissingExtra, RunDamaged
from howsure.evidence import Outcome
from howsure.runs.columns import Kind, arrays, fields, kind_of, merged, struct_kind
from howsure.runs.files import replacing, storage_errors, to_json
from howsure.runs.folder import Run, open_samples
from howsure.runs.reading import MANIFEST, SAMPLES, SUMMARY, LeanSample, Sample, whole_lines

PIECE_BYTES = 1 << 20
"""Of samples.jsonl, turned into columns at a time."""
GROUP_BYTES, GROUP_ROWS = 32 << 20, 122_880
"""Of columns, written at a time: a row group."""

RUN_COLUMNS = ("run", "run_id", "study", "model", "model_fingerprint", "data", "data_fingerprint", "options", "seed",
               "started", "status", "items")  # fmt: skip
SAMPLE_COLUMNS = ("id", "index", "reason", "detail", "outcome.correct", "outcome.reward", "outcome.distance")
COMMON_COLUMNS = (*RUN_COLUMNS, *SAMPLE_COLUMNS)
"""What every file has, in these types, of whatever study."""
JSON_TEXT = "howsure.json_text"
"""In the metadata of every file: which columns are JSON text, and why."""

AnySample = Sample | LeanSample
INT64 = range(-(2**63), 2**63)


class Holds(NamedTuple):
    """What a study declares that its samples hold."""

    record: Any = dict[str, Any]
    evidence: Any = dict[str, Any]


class Exported(NamedTuple):
    """A file that was written: `texts` are the places that are JSON text, with the reason of each."""

    path: Path
    runs: int
    rows: int
    columns: int
    byte_count: int
    texts: dict[str, str]


def write_parquet(runs: Sequence[Run], path: Path, studies: Mapping[str, Holds], *, evidence: bool = True) -> Exported:
    """All samples of these runs in one file, which is there whole or as it was before.

    `studies` says what the samples of each hold: a column of it is there even if no sample fills it. Samples of a study
    that is not known are JSON text.
    """
    _need_pyarrow()
    with contextlib.ExitStack() as stack:
        holds = [studies.get(run.manifest.identity.study, Holds()) for run in runs]
        sources = [
            stack.enter_context(Source(run, one.record, one.evidence if evidence else None))
            for run, one in zip(runs, holds, strict=True)
        ]
        for source in sources:
            source.look()
        kind = sample_kind(dict.fromkeys(holds), evidence=evidence)
        schema = schema_of(kind, [source.run for source in sources])
        rows = _write(path, schema, kind, sources)
    size = path.stat().st_size
    return Exported(path, len(runs), rows, len(schema), size, dict(kind.texts))


def sample_kind(holds: Iterable[Holds], *, evidence: bool = True) -> Kind:
    """The columns of samples that hold these."""
    whole: Kind | None = None
    for one in holds:
        parts = {"result": one.record, **({"evidence": one.evidence} if evidence else {})}
        whole = merged(whole, struct_kind({name: kind_of(hint, name) for name, hint in parts.items()}))
    return whole or struct_kind({})


def is_export(file: Any) -> bool:
    """Whether a file was written here, or holds nothing at all: the only ones that may be written over."""
    _need_pyarrow()
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not file.read(1):
        return True
    try:
        return JSON_TEXT.encode() in (pq.read_schema(file).metadata or {})
    except (pa.ArrowException, OSError):
        return False


def _need_pyarrow() -> None:
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise MissingExtra("Parquet", "stats", "pyarrow") from error


def common_fields() -> list[Any]:
    """The columns of every file."""
    import pyarrow as pa

    others = {"seed": pa.int64(), "started": pa.timestamp("us", tz="UTC"), "items": pa.int64(), "index": pa.int64()}
    others |= {"outcome.correct": pa.bool_(), "outcome.reward": pa.float64(), "outcome.distance": pa.float64()}
    return [pa.field(name, others.get(name, pa.string())) for name in COMMON_COLUMNS]


def schema_of(kind: Kind, runs: Sequence[Run] = ()) -> Any:
    """The columns of a file, and in its metadata what the runs themselves say."""
    import pyarrow as pa

    texts = dict(kind.texts)
    own = [_field(name, type_, texts) for name, type_ in fields(kind.type)]
    return pa.schema([*common_fields(), *own], metadata=_metadata(runs, texts))


def _field(name: str, type_: Any, texts: dict[str, str]) -> Any:
    import pyarrow as pa

    return pa.field(name, type_, metadata={"howsure": f"JSON text: {texts[name]}"} if name in texts else None)


def _metadata(runs: Sequence[Run], texts: dict[str, str]) -> dict[str, bytes]:
    """`run.json` and `summary.json` of the only run, or of each with its run_id behind."""
    entries = {JSON_TEXT: to_json(texts)}
    for run in runs:
        end = "" if len(runs) == 1 else f"/{about(run)['run_id']}"
        entries[f"{MANIFEST}{end}"] = to_json(msgspec.to_builtins(run.manifest))
        entries[f"{SUMMARY}{end}"] = to_json(run.summary)
    return entries


# -- writing ----------------------------------------------------------------------------------------------------------


def _write(path: Path, schema: Any, kind: Kind, sources: Sequence[Source]) -> int:
    import pyarrow.parquet as pq

    rows = 0
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for table in _groups(schema, kind, sources):
            writer.write_table(table, row_group_size=GROUP_ROWS)
            rows += table.num_rows
    return rows


def _groups(schema: Any, kind: Kind, sources: Sequence[Source]) -> Iterator[Any]:
    import pyarrow as pa

    held: list[Any] = []
    size = rows = 0
    for source in sources:
        own = about(source.run)
        own_bytes = sum(len(one) for one in own.values() if isinstance(one, str))
        for piece in source.pieces(PIECE_BYTES, own_bytes):
            try:
                held.append(pa.record_batch(_columns(schema, kind, own, piece), schema=schema))
            except (pa.ArrowException, OverflowError, RecursionError) as error:  # integers of over 64 bits, deep lists
                raise RunDamaged(f"{source.path}: {source.first_that_fails(piece, kind)} ({error})") from error
            size, rows = size + held[-1].nbytes, rows + len(piece)
            if size >= GROUP_BYTES or rows >= GROUP_ROWS:
                yield pa.Table.from_batches(held)
                held, size, rows = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)


def _columns(schema: Any, kind: Kind, own: dict[str, Any], piece: Sequence[AnySample]) -> list[Any]:
    import pyarrow as pa

    of_run = [pa.repeat(pa.scalar(own[name], schema.field(name).type), len(piece)) for name in RUN_COLUMNS]
    cells = zip(*map(_cells, piece), strict=True)
    of_samples = [pa.array(values, schema.field(name).type) for name, values in zip(SAMPLE_COLUMNS, cells, strict=True)]
    return [*of_run, *of_samples, *arrays(kind, [values_of(sample) for sample in piece])]


def _cells(sample: AnySample) -> tuple[Any, ...]:
    one = sample.outcome
    happened = (None, None, None) if one is None else (one.correct, one.reward, one.distance)
    return (sample.id, sample.index, sample.reason, sample.detail, *happened)


# -- one run --------------------------------------------------------------------------------------------------------


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
