"""From texts to a finished run: prepare without weights, then read along."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from howsure.measures import nats_to_bits
from howsure.models.contract import Capability, Failure, Model, Passage, Rolling, Stretch
from howsure.runs import Identity, NoProgress, Progress, Run, RunWriter, Sample, work_along
from howsure.studies import pairs
from howsure.studies.pairs import Pair, open_models
from howsure.studies.perplexity.comparison import compare
from howsure.studies.perplexity.judge import document_rows, judge
from howsure.studies.perplexity.sums import block_sums
from howsure.studies.perplexity.table import write_table
from howsure.studies.texts import Document, PathLike, Texts

TOKENS_AT_ONCE = 32_768
"""What is run between two samples on the disk, roughly: the most that a crash can cost."""


class Prepared(NamedTuple):
    """Everything that is known before a single token is run."""

    texts: Texts
    model: Model
    rolling: Rolling
    options: dict[str, Any]
    owned: bool
    """Whether the model was opened here, and so is given back when its work is done."""

    def cost(self) -> dict[str, int]:
        """What the run will take; this tokenises all texts."""
        passages = [unit.passage for unit in units(self) if unit.passage is not None]
        return {
            "items": len(self.texts.documents),
            "model_calls": len(passages),
            "tokens": sum(passage.tokens_run for passage in passages),
            "tokens_scored": sum(passage.tokens for passage in passages),
        }


class Result(NamedTuple):
    """A finished study: the summary, one row for each document, and the run folder."""

    summary: dict[str, Any]
    documents: list[dict[str, Any]]
    run: Run

    @property
    def failed(self) -> bool:
        return any(row["reason"] is not None for row in self.documents)


class Unit(NamedTuple):
    """A passage of a document, which becomes one sample; no passage at all in a text that has no tokens."""

    document: Document
    document_index: int
    part: int
    last: bool
    passage: Passage | None

    @property
    def id(self) -> str:
        return f"{self.document.id}#{self.part}"


def prepare_all(
    paths: Sequence[PathLike],
    models: Sequence[str | Model],
    *,
    window: int | None = None,
    stride: int | None = None,
    skip_bad: bool = False,
    **model_options: Any,
) -> list[Prepared]:
    """Check the texts, open the models without their weights, and decide how each reads."""
    texts = Texts(paths, skip_bad=skip_bad)
    prepared = []
    for model, owned in open_models(models, model_options):
        model.require(Capability.SCORE, "perplexity")
        rolling = model.rolling(Rolling(window, stride))
        options = {"window": rolling.window, "stride": rolling.stride, "skip_bad": skip_bad}
        prepared.append(Prepared(texts, model, rolling, options, owned))
    return prepared


def carry_out(
    prepared: Prepared,
    *,
    out: PathLike,
    seed: int = 0,
    retry_failed: bool = False,
    progress: Progress | None = None,
    what: str = "perplexity",
) -> Result:
    """Read what is not read yet, then judge all of it."""
    texts = prepared.texts
    source = ", ".join(source.name for source in texts.sources[:3]) + (", …" if len(texts.sources) > 3 else "")
    writer = RunWriter(out, _identity(prepared, seed), len(texts.documents), source=source, retry_failed=retry_failed)
    with writer:
        prepared.model.load()  # before the clock of the progress starts
        work_along(
            writer,
            batches(units(prepared)),
            _Reader(prepared.model, writer.samples).read,
            progress or NoProgress(),
            what,
            -(-texts.byte_count // 1000),
            ReadSoFar(),
        )
        names = [document.id for document in texts.documents]
        rows = document_rows(writer.samples, names)
        summary = judge(rows, skipped=texts.skipped, seed=seed)
        write_table(writer.path, rows)
        writer.finish(summary)
    return Result(summary, rows, Run(out))


def carry_out_all(
    prepared: list[Prepared],
    *,
    out: PathLike,
    seed: int = 0,
    retry_failed: bool = False,
    progress: Progress | None = None,
) -> Result | Pair:
    """One model, or two and their difference; the list is emptied on the way."""
    paired = len(prepared) > 1
    shared: dict[str, Any] = {"seed": seed, "retry_failed": retry_failed, "progress": progress}
    return pairs.carry_out_all(
        prepared,
        out,
        lambda one, folder: carry_out(
            one, out=folder, what=f"perplexity {folder.name}" if paired else "perplexity", **shared
        ),
        lambda a, b: compare(a, b, seed=seed),
    )


def _identity(prepared: Prepared, seed: int) -> Identity:
    model, texts = prepared.model, prepared.texts
    return Identity(
        study="perplexity",
        options=prepared.options,
        model={"name": model.name, **model.fingerprint()},
        data={"fingerprint": texts.fingerprint, "documents": len(texts.documents), "skipped": texts.skipped},
        seed=seed,
    )


# -- passages ----------------------------------------------------------------------------------------------------


def units(prepared: Prepared) -> Iterator[Unit]:
    """Every passage of every document, in order: a pure function of texts, model and options."""
    for index, (document, chunks) in enumerate(prepared.texts.stream()):
        passages = prepared.model.passages(chunks, prepared.rolling)
        for part, (passage, following) in enumerate(pairwise(_ended(passages))):
            yield Unit(document, index, part, following is None, passage)


def _ended(passages: Iterable[Passage]) -> Iterator[Passage | None]:
    """Passages, with None after the last; a text without any gives one that is not there."""
    empty = True
    for passage in passages:
        empty = False
        yield passage
    if empty:
        yield None
    yield None


def batches(all_units: Iterable[Unit]) -> Iterator[list[Unit]]:
    """Neighbours that are run together, so that short documents share a forward pass."""
    batch: list[Unit] = []
    tokens = 0
    for unit in all_units:
        batch.append(unit)
        tokens += 0 if unit.passage is None else unit.passage.tokens_run
        if tokens >= TOKENS_AT_ONCE:
            yield batch
            batch, tokens = [], 0
    if batch:
        yield batch


class _Reader:
    """Turns passages into samples; knows how many bytes of a document lie before each."""

    def __init__(self, model: Model, kept: Sequence[Sample]) -> None:
        self._model = model
        self._bytes = {sample.id: int(sum(sample.result["blocks"]["bytes"])) for sample in kept if not sample.failed}

    def read(self, some: Sequence[Unit]) -> list[Sample]:
        there = [unit.passage for unit in some if unit.passage is not None]
        found = iter(self._model.read(there) if there else [])
        return [self._sample(unit, None if unit.passage is None else next(found)) for unit in some]

    def _sample(self, unit: Unit, found: Stretch | Failure | None) -> Sample:
        result: dict[str, Any] = {"document": unit.document.id, "part": unit.part, "last": unit.last}
        if found is None:
            found = Failure("no_tokens", "the model's tokenizer makes no token of this text")
        before = self._before(unit)
        if before is None and isinstance(found, Stretch):
            found = Failure("earlier_part_failed", "a passage before this one failed, so its place is not known")
        if isinstance(found, Failure):
            return Sample(unit.id, unit.document_index, result, reason=found.reason, detail=found.detail)
        assert before is not None
        self._bytes[unit.id] = int(found.byte_counts.sum())
        blocks = block_sums(found, before, unit.document.byte_count)
        return Sample(unit.id, unit.document_index, result | {"blocks": blocks})

    def _before(self, unit: Unit) -> int | None:
        """The bytes of a document before a passage; None where one of them is not known."""
        sizes = [self._bytes.get(unit._replace(part=part).id) for part in range(unit.part)]
        return None if None in sizes else sum(size for size in sizes if size is not None)


class ReadSoFar:
    """How far reading is, in kilobytes, and the bits per byte until there."""

    unit = " kB"

    def __init__(self) -> None:
        self._bytes = self._nats = self._failed = 0

    def add(self, samples: Sequence[Sample]) -> None:
        for sample in samples:
            if sample.failed:
                self._failed += 1
                continue
            self._bytes += sum(sample.result["blocks"]["bytes"])
            self._nats += sum(sample.result["blocks"]["nats"])

    @property
    def done(self) -> int:
        return -(-self._bytes // 1000)

    @property
    def text(self) -> str:
        parts = [f"{nats_to_bits(self._nats) / self._bytes:.3f} bits per byte"] if self._bytes else []
        return ", ".join([*parts, *([f"{self._failed} failed"] if self._failed else [])])
