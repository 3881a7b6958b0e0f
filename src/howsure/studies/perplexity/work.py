"""From texts to a finished run: prepare without weights, then read along."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from howsure.errors import EvidenceError, InputError, UnusableText
from howsure.measures import nats_to_bits
from howsure.measures.logprobs import check_logprobs
from howsure.models.contract import Capability, Failure, Model, Passage, Rolling, Stretch
from howsure.runs import Engine, Identity, LocalEngine, NoProgress, Progress, Run, RunWriter, Sample, work_along
from howsure.studies import pairs
from howsure.studies.model_job import ModelJob
from howsure.studies.pairs import Pair, check_seed, open_models
from howsure.studies.perplexity.comparison import compare
from howsure.studies.perplexity.excerpts import Trail, evidence, tokens_kept
from howsure.studies.perplexity.judge import document_rows, judge
from howsure.studies.perplexity.sums import Sums, block_sums, together
from howsure.studies.perplexity.table import write_table
from howsure.studies.texts import Document, PathLike, Texts
from howsure.types import Shown

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
        """What the run will take; this tokenises all texts, and holds none of them."""
        total = {"items": len(self.texts.documents), "model_calls": 0, "tokens": 0, "tokens_scored": 0}
        for batch in batches(units(self)):
            passages = [unit.passage for unit in batch if isinstance(unit.passage, Passage)]
            total["model_calls"] += self.model.calls_to_read(passages)
            total["tokens"] += sum(passage.tokens_run for passage in passages)
            total["tokens_scored"] += sum(passage.tokens for passage in passages)
        return total


class Result(NamedTuple):
    """A finished study: the summary, one row for each document, and the run folder."""

    summary: dict[str, Any]
    documents: list[dict[str, Any]]
    run: Run

    @property
    def failed(self) -> bool:
        return any(row["reason"] is not None for row in self.documents)

    _repr_html_ = Shown._repr_html_


class Unit(NamedTuple):
    """A passage of a document, which becomes one sample; or why there is none where one should be.

    It is known by its places, which the data's fingerprint vouches for: a file may be moved or renamed meanwhile.
    """

    document: Document
    document_index: int
    part: int
    last: bool
    passage: Passage | Failure
    trail: Trail | None = None
    """The text of the document on its way, where some of it is to be kept."""

    @property
    def id(self) -> str:
        return _place(self.document_index, self.part)


def prepare_all(
    paths: Sequence[PathLike],
    models: Sequence[str | Model],
    *,
    window: int | None = None,
    stride: int | None = None,
    skip_bad: bool = False,
    **model_options: Any,
) -> list[Prepared]:
    """Check the texts, open the models without their weights, and decide how each reads.

    Of two models, window and stride are for those that take them.
    """
    texts = Texts(paths, skip_bad=skip_bad)
    opened = open_models(models, model_options)
    none_takes_windows = not any(model.takes_windows for model, _ in opened)
    prepared = []
    for model, owned in opened:
        model.require(Capability.SCORE, "perplexity")
        asked = model.takes_windows or none_takes_windows
        rolling = model.rolling(Rolling(window, stride) if asked else Rolling())
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
    engine: Engine | None = None,
    what: str = "perplexity",
) -> Result:
    """Read what is not read yet, then judge all of it."""
    check_seed(seed)
    texts = prepared.texts
    source = ", ".join(source.name for source in texts.sources[:3]) + (", …" if len(texts.sources) > 3 else "")
    writer = RunWriter(out, _identity(prepared, seed), len(texts.documents), source=source, retry_failed=retry_failed)
    with writer:
        complete = all_read(writer.samples, len(texts.documents))
        reading, doer = Reading(prepared.model), engine or LocalEngine()
        if not complete:
            doer.load(reading)  # before the clock of the progress starts
        reader = _Reader(prepared.model, writer.samples)
        work_along(
            writer,
            batches(() if complete else reader.forgetting(units(prepared, trails=True), writer.done)),
            reading,
            progress or NoProgress(),
            what,
            -(-texts.byte_count // 1000),
            ReadSoFar(),
            piece=passages_of,
            samples=reader.samples,
            engine=doer,
        )
        rows = document_rows(writer.samples)
        summary = judge(rows, skipped=texts.skipped)
        write_table(writer.path, rows)
        writer.finish(summary)
    return Result(summary, rows, Run(out))


def carry_out_all(prepared: list[Prepared], **how: Any) -> Result | Pair:
    """One model, or two and their difference; options as for `carry_out`. The list is emptied on the way."""
    return pairs.carry_out_all(prepared, "perplexity", carry_out, compare, **how)


def read_through(prepared: Prepared, progress: Progress | None = None) -> Sums:
    """All texts read at once, without a run folder; the first that cannot be read is an error."""
    prepared.model.load()
    shown, reader, samples = progress or NoProgress(), _Reader(prepared.model, ()), []
    shown.start("reading", -(-prepared.texts.byte_count // 1000), (), ReadSoFar())
    try:
        for batch in batches(units(prepared)):
            read = reader.samples(batch, prepared.model.read(passages_of(batch)))
            if failed := next((sample for sample in read if sample.failed), None):
                raise InputError(
                    f"{failed.result['document']} cannot be read by {prepared.model.name}: {failed.detail}"
                )
            samples += read
            shown.advance(read)
    finally:
        shown.stop()
    return together([row["blocks"] for row in document_rows(samples)])


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


def _place(document_index: int, part: int) -> str:
    return f"{document_index}#{part}"


def all_read(samples: Sequence[Sample], document_count: int) -> bool:
    """Whether every document is there from its first passage to its last, so that no model is needed."""
    counts = Counter(sample.index for sample in samples)
    whole = {sample.index: int(sample.result["part"]) + 1 for sample in samples if sample.result["last"]}
    return len(whole) == document_count and all(counts[index] == parts for index, parts in whole.items())


def units(prepared: Prepared, *, trails: bool = False) -> Iterator[Unit]:
    """Every passage of every document, in order: a pure function of texts, model and options.

    With `trails` each has the text of its document on the way, which whoever reads must let go of.
    """
    for index, (document, chunks) in enumerate(prepared.texts.stream()):
        trail = Trail() if trails else None
        passages = prepared.model.passages(chunks if trail is None else trail.along(chunks), prepared.rolling)
        for part, (passage, following) in enumerate(pairwise(_ended(passages))):
            assert passage is not None
            yield Unit(document, index, part, following is None, passage, trail)


def _ended(passages: Iterable[Passage]) -> Iterator[Passage | Failure | None]:
    """Passages, a failure where the model cannot go on, or where it finds none; and None after the last."""
    empty = True
    try:
        for passage in passages:
            empty = False
            yield passage
        if empty:
            yield Failure("no_tokens", "the model's tokenizer makes no token of this text")
    except UnusableText as error:
        yield Failure("unusable_text", str(error))
    yield None


def batches(all_units: Iterable[Unit]) -> Iterator[list[Unit]]:
    """Neighbours that are run together, so that short documents share a forward pass."""
    batch: list[Unit] = []
    tokens = 0
    for unit in all_units:
        batch.append(unit)
        tokens += unit.passage.tokens_run if isinstance(unit.passage, Passage) else 0
        if tokens >= TOKENS_AT_ONCE:
            yield batch
            batch, tokens = [], 0
    if batch:
        yield batch


def passages_of(batch: Sequence[Unit]) -> list[Passage]:
    return [unit.passage for unit in batch if isinstance(unit.passage, Passage)]


class Reading(ModelJob[list[Passage], list[Stretch | Failure]]):
    """Reads passages, wherever it is; what they are a part of stays with whoever writes the run."""

    def __call__(self, piece: list[Passage]) -> list[Stretch | Failure]:
        return self.model.read(piece) if piece else []

    def given_up(self, piece: list[Passage], why: str) -> list[Stretch | Failure]:
        return [Failure("worker_lost", why) for _ in piece]


class _Reader:
    """Turns passages into samples; knows at which byte of its document each one ends."""

    def __init__(self, model: Model, kept: Sequence[Sample]) -> None:
        self._model = model
        self._ends: dict[str, int] = {}
        for sample in sorted(kept, key=lambda sample: (sample.index, sample.result["part"])):
            before = self._before(sample.index, sample.result["part"])
            if before is not None and not sample.failed:
                self._ends[sample.id] = before + sum(sample.result["blocks"]["bytes"])

    def samples(self, some: Sequence[Unit], read: Sequence[Stretch | Failure]) -> list[Sample]:
        """What was read of some units, as samples; those before them have to come first."""
        found = iter(read)
        return [self._sample(unit, next(found) if isinstance(unit.passage, Passage) else unit.passage) for unit in some]

    def forgetting(self, all_units: Iterable[Unit], done: Container[str]) -> Iterator[Unit]:
        """The units as they are; the text of those that are done is let go, since nobody will read them."""
        for unit in all_units:
            yield unit
            if unit.trail is not None and unit.id in done:
                unit.trail.drop(self._ends.get(unit.id))

    def _sample(self, unit: Unit, found: Stretch | Failure) -> Sample:
        result: dict[str, Any] = {"document": unit.document.id, "part": unit.part, "last": unit.last}
        before = self._before(unit.document_index, unit.part)
        stretch = self._checked(found, before)
        if before is None or isinstance(stretch, Failure):
            if unit.trail is not None:
                unit.trail.drop(None)
            assert isinstance(stretch, Failure)
            return Sample(unit.id, unit.document_index, result, reason=stretch.reason, detail=stretch.detail)
        blocks = block_sums(stretch, before, unit.document.byte_count)
        self._ends[unit.id] = before + sum(blocks["bytes"])
        kept = {}
        if unit.trail is not None:
            kept = evidence(stretch, blocks, before, unit.trail, tokens_kept(unit.document_index))
            unit.trail.drop(self._ends[unit.id])
        return Sample(unit.id, unit.document_index, result | {"blocks": blocks}, kept)

    def _checked(self, found: Stretch | Failure, before: int | None) -> Stretch | Failure:
        if isinstance(found, Failure):
            return found
        if before is None:
            return Failure("earlier_part_failed", "a passage before this one failed, so its place is not known")
        try:
            return found._replace(logprobs=check_logprobs(found.logprobs))
        except EvidenceError as error:
            return Failure("bad_logprobs", f"{self._model.name} gave {error}")

    def _before(self, document_index: int, part: int) -> int | None:
        """The bytes of a document before a passage; None where one of them is not known."""
        return self._ends.get(_place(document_index, part - 1)) if part else 0


class ReadSoFar:
    """How far reading is, in kilobytes, and the bits per byte until there: infinite from an impossible token on."""

    unit = " kB"

    def __init__(self) -> None:
        self._bytes = self._nats = self._impossible = self._failed = 0

    def add(self, samples: Sequence[Sample]) -> None:
        for sample in samples:
            if sample.failed:
                self._failed += 1
                continue
            blocks = sample.result["blocks"]
            self._bytes += sum(blocks["bytes"])
            self._nats += sum(blocks["nats"])
            self._impossible += sum(blocks["impossible"])

    @property
    def done(self) -> int:
        return -(-self._bytes // 1000)

    @property
    def text(self) -> str:
        parts = [self._bits] if self._bytes else []
        return ", ".join([*parts, *([f"{self._failed} failed"] if self._failed else [])])

    @property
    def _bits(self) -> str:
        if self._impossible:
            tokens = f"{self._impossible:,} token{'s' if self._impossible > 1 else ''}"
            return f"infinite bits per byte ({tokens} of probability zero)"
        return f"{nats_to_bits(self._nats) / self._bytes:.3f} bits per byte"
