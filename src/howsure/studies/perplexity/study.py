"""Perplexity: texts are read as a stream of passages, which become samples in their order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from howsure.errors import EvidenceError, InputError, UnusableText
from howsure.measures import nats_to_bits
from howsure.measures.checks import check_logprobs
from howsure.models.contract import MODEL, Capability, Failure, Model, ModelOptions, Passage, Rolling, Stretch
from howsure.options import Opt
from howsure.runs import Engine, NoProgress, Run, RunWriter, Sample
from howsure.runs.run import Batch, PairOptions, PathLike, Plan, Ready
from howsure.studies.perplexity.judge import (
    DocumentSums,
    PerplexityComparison,
    PerplexitySummary,
    compare,
    document_rows,
    judge,
    write_table,
)
from howsure.studies.perplexity.record import (
    Excerpts,
    PerplexityRecord,
    Sums,
    Trail,
    block_sums,
    excerpts_of,
    together,
    tokens_kept,
)
from howsure.studies.study import Session, Study
from howsure.studies.texts import Document, Texts, as_paths
from howsure.types import html_of

TOKENS_AT_ONCE = 32_768
"""What is run between two samples on the disk, roughly: the most that a crash can cost."""


@dataclass(frozen=True)
class PerplexityOptions(PairOptions, ModelOptions):
    """Which texts, and how they are read by whom."""

    texts: Annotated[
        PathLike | Sequence[PathLike] | None,
        Opt(
            "Files, folders, JSON lines with text, or - for standard input; .gz is unpacked. Default: what is piped "
            "in.",
            argument=True,
            identity="no",
        ),
    ] = None
    model: Annotated[str | Model, MODEL] = "smollm2"
    _: KW_ONLY
    window: Annotated[
        int | None,
        Opt("Tokens that a neural model sees at once. Default: the model's context.", identity="always"),
    ] = None
    stride: Annotated[
        int | None,
        Opt(
            "New tokens in each window after the first: each token is scored once, after at least window − stride "
            "others. Default: half the window.",
            identity="always",
        ),
    ] = None
    skip_bad: Annotated[bool, Opt("Skip texts that cannot be read, and count them.", identity="always")] = False


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
    """The text of the document on its way, where some of it is to be kept; whoever reads must let go of it."""

    @property
    def id(self) -> str:
        return unit_id(self.document_index, self.part)


class Result(NamedTuple):
    """A finished study: the summary, one row for each document, and the run folder."""

    summary: PerplexitySummary
    documents: list[DocumentSums]
    run: Run

    @property
    def failed(self) -> bool:
        return any(row.reason is not None for row in self.documents)

    def _repr_html_(self) -> str:
        return html_of(self)


class PerplexityStudy(Study[PerplexityOptions, Unit, PerplexityRecord]):
    """How many bits a model needs for a text, per token, word and byte, and its perplexity.

    Texts may be longer than the model's context, and than memory. The same command resumes a stopped run. Models
    are compared per byte, since their tokens differ: --model-b, or later `howsure compare`.

    Per word is P(w1 ... wN)^(-1/N), words only; per token and per byte, an n-gram model's ends of sentences (</s>)
    count too. Intervals are over documents, from five on; figures of fewer are of these texts only.

    Question   how surprising is a text to a model, over all of it and document by document?
    Data       files, folders, JSON lines with `text`, standard input; any length
    Units      documents
    Asks       `read`: the probability of every token given those before it, in overlapping windows where it must be
    Measure    cross-entropy −(1/n) log₂ m(w₁ … w_n) in bits per token, word and byte; perplexity = 2 to that power
    Comes out  figures for each document, and for all of them with intervals over documents; two models per byte

    Example: howsure perplexity book.txt --model ngram:model.arpa --model-b smollm2
    """

    returns = Result
    name, options, record, evidence, summary = (
        "perplexity", PerplexityOptions, PerplexityRecord, Excerpts, PerplexitySummary,
    )  # fmt: skip
    comparison = PerplexityComparison

    def read(self, options: PerplexityOptions, engine: Engine) -> Texts:
        return Texts(as_paths(options.texts), skip_bad=options.skip_bad)

    def plans(
        self, items: Texts, models: Sequence[Model | None], options: PerplexityOptions
    ) -> list[Plan[PerplexityOptions]]:
        """Of two models, window and stride are for those that take them."""
        opened = [model for model in models if model is not None]
        any_takes_windows = any(model.takes_windows for model in opened)
        without = options.with_(window=None, stride=None)
        return [
            self.plan(items, model, options if model.takes_windows or not any_takes_windows else without)
            for model in opened
        ]

    def plan(self, items: Texts, model: Model, options: PerplexityOptions) -> Plan[PerplexityOptions]:
        model.require(Capability.SCORE, self.name)
        rolling = model.rolling(Rolling(options.window, options.stride))

        def cost() -> dict[str, int]:
            """This tokenises all texts, and holds none of them."""
            total = {"items": len(items.documents), "model_calls": 0, "tokens": 0, "tokens_scored": 0}
            for batch in batches(units(items, model, rolling)):
                passages = passages_of(batch)
                total["model_calls"] += model.calls_to_read(passages)
                total["tokens"] += sum(passage.tokens_run for passage in passages)
                total["tokens_scored"] += sum(passage.tokens for passage in passages)
            return total

        return Plan(
            batches(units(items, model, rolling, trails=True)),
            options.with_(window=rolling.window, stride=rolling.stride),
            len(items.documents),
            cost=cost,
            counted_by=(kilobytes(items.byte_count), ReadSoFar()),
        )

    def source(self, items: Texts, options: PerplexityOptions) -> str:
        return ", ".join(source.name for source in items.sources[:3]) + (", …" if len(items.sources) > 3 else "")

    def ask(self, model: Model, batch: list[Passage], how: Any) -> list[Stretch | Failure]:
        """What the model made of the passages; what they are a part of stays with whoever writes the run."""
        return model.read(batch) if batch else []

    def failed_batch(self, batch: list[Passage], failure: Failure, how: Any) -> list[Stretch | Failure]:
        return [failure for _ in batch]

    def with_files(self, batch: list[Passage]) -> list[Passage]:
        return batch

    def session(
        self, items: Texts, plan: Plan[PerplexityOptions], model: Model, writer: RunWriter
    ) -> PerplexitySession:
        return PerplexitySession(items, plan, model, writer)

    def judge(
        self, samples: Sequence[Sample[PerplexityRecord]], options: PerplexityOptions, items: Texts
    ) -> PerplexitySummary:
        return judge(document_rows(samples), skipped=items.skipped)

    def compare(self, a: Run, b: Run) -> PerplexityComparison:
        return compare(a, b)

    def demo(self, model: Model, data: Path) -> PerplexityOptions:
        return PerplexityOptions(data / "demo_text.txt", model)


PERPLEXITY = PerplexityStudy()


# -- passages ---------------------------------------------------------------------------------------------------------


def unit_id(document_index: int, part: int) -> str:
    return f"{document_index}#{part}"


def units(texts: Texts, model: Model, rolling: Rolling, *, trails: bool = False) -> Iterator[Unit]:
    """Every passage of every document, in order: a pure function of texts, model and options."""
    for index, (document, chunks) in enumerate(texts.stream()):
        trail = Trail() if trails else None
        passages = model.passages(chunks if trail is None else trail.along(chunks), rolling)
        for part, (passage, following) in enumerate(pairwise(_ended(passages))):
            assert passage is not None
            yield Unit(document, index, part, following is None, passage, trail)


def _ended(passages: Iterable[Passage]) -> Iterator[Passage | Failure | None]:
    """Passages, a failure where the model cannot go on, or where there is none; and None after the last."""
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


def batches(all_units: Iterable[Unit]) -> Iterator[Batch]:
    """Neighbours that are run together, so that short documents share a forward pass."""
    batch: list[Unit] = []
    tokens = 0
    for unit in all_units:
        batch.append(unit)
        tokens += unit.passage.tokens_run if isinstance(unit.passage, Passage) else 0
        if tokens >= TOKENS_AT_ONCE:
            yield _batch(batch)
            batch, tokens = [], 0
    if batch:
        yield _batch(batch)


def _batch(some: Sequence[Unit]) -> Batch:
    return Batch(tuple(unit.id for unit in some), tuple(some), tuple(unit.document_index for unit in some))


def passages_of(batch: Batch) -> list[Passage]:
    return [unit.passage for unit in batch.items if isinstance(unit.passage, Passage)]


# -- what was read, as samples ----------------------------------------------------------------------------------------

Ends = dict[str, int]
"""For each passage that was read, by its name, at which byte of its document it ends: where the next one begins."""


class PerplexitySession(Session):
    def __init__(self, texts: Texts, plan: Plan[PerplexityOptions], model: Model, writer: RunWriter) -> None:
        super().__init__(texts, plan, writer)
        self.model_name = model.name
        self.ends: Ends = {}
        for sample in sorted(writer.samples, key=lambda sample: (sample.index, sample.result.part)):
            begin = begin_of(sample.index, sample.result.part, self.ends)
            if begin is not None and not sample.failed:
                self.ends[sample.id] = begin + sum(sample.result.sums.bytes)

    def todo(self) -> Iterator[Batch]:
        """The text of what is done is let go, since nobody will read it."""
        if all_read(self.writer.samples, self.plan.total):
            return
        for batch in self.plan.batches:
            if not self.writer.done.issuperset(batch.ids):
                yield batch
                continue
            for unit in batch.items:
                unit.trail.drop(self.ends.get(unit.id))

    def sent(self, batch: Batch) -> list[Passage]:
        return passages_of(batch)

    def samples(self, batch: Batch, answered: Sequence[Stretch | Failure]) -> Iterator[list[Sample[PerplexityRecord]]]:
        yield samples_of(batch, answered, self.ends, self.model_name)

    def picture(self, index: int) -> None:
        """Texts have none."""

    def finish(self, summary: PerplexitySummary, samples: Sequence[Sample[PerplexityRecord]]) -> None:
        self.documents = document_rows(samples)
        write_table(self.folder, self.documents)

    def result(
        self, study: Any, summary: PerplexitySummary, samples: list[Sample[PerplexityRecord]], run: Run
    ) -> Result:
        return Result(summary, self.documents, run)


def all_read(samples: Sequence[Sample[PerplexityRecord]], document_count: int) -> bool:
    """Whether every document is there from its first passage to its last, so that no model is needed."""
    counts = Counter(sample.index for sample in samples)
    whole = {sample.index: sample.result.part + 1 for sample in samples if sample.result.last}
    return len(whole) == document_count and all(counts[index] == parts for index, parts in whole.items())


def begin_of(document_index: int, part: int, ends: Ends) -> int | None:
    """The bytes of a document before a passage; None where one of those before it is not known."""
    return ends.get(unit_id(document_index, part - 1)) if part else 0


def samples_of(
    batch: Batch, read: Sequence[Stretch | Failure], ends: Ends, model_name: str
) -> list[Sample[PerplexityRecord]]:
    """What was read of a batch; those before it have to come first. Where each passage ends is noted in `ends`."""
    stretches = iter(read)
    return [
        sample_of(unit, next(stretches) if isinstance(unit.passage, Passage) else unit.passage, ends, model_name)
        for unit in batch.items
    ]


def sample_of(unit: Unit, stretch: Stretch | Failure, ends: Ends, model_name: str) -> Sample[PerplexityRecord]:
    record = PerplexityRecord(document=unit.document.id, part=unit.part, last=unit.last)
    begin = begin_of(unit.document_index, unit.part, ends)
    if begin is None and not isinstance(stretch, Failure):
        stretch = Failure("earlier_part_failed", "a passage before this one failed, so its place is not known")
    if not isinstance(stretch, Failure):
        try:
            stretch = stretch._replace(logprobs=check_logprobs(stretch.logprobs))
        except EvidenceError as error:
            stretch = Failure("bad_logprobs", f"{model_name} gave {error}")
    if begin is None or isinstance(stretch, Failure):
        if unit.trail is not None:
            unit.trail.drop(None)
        assert isinstance(stretch, Failure)
        return Sample(unit.id, unit.document_index, record, reason=stretch.reason, detail=stretch.detail)
    record.blocks = block_sums(stretch, begin, unit.document.byte_count)
    ends[unit.id] = begin + sum(record.blocks.bytes)
    evidence = None
    if unit.trail is not None:
        most = tokens_kept(unit.document_index)
        evidence = excerpts_of(stretch, record.blocks.bytes, begin, unit.trail, most)
        unit.trail.drop(ends[unit.id])
    return Sample(unit.id, unit.document_index, record, evidence or {})


class ReadSoFar:
    """How far reading is, in kilobytes, and the bits per byte until there: infinite from an impossible token on."""

    unit = " kB"

    def __init__(self) -> None:
        self._bytes = self._impossible = self._failed = 0
        self._nats = 0.0

    def add(self, samples: Sequence[Sample[PerplexityRecord]]) -> None:
        for sample in samples:
            if sample.failed:
                self._failed += 1
                continue
            sums = sample.result.sums
            self._bytes += sum(sums.bytes)
            self._nats += sum(sums.nats)
            self._impossible += sum(sums.impossible)

    @property
    def done(self) -> int:
        return kilobytes(self._bytes)

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


def kilobytes(byte_count: int) -> int:
    """Begun ones count."""
    return -(-byte_count // 1000)


# -- without a run folder ---------------------------------------------------------------------------------------------


def read_through(ready: Ready) -> Sums:
    """All texts read at once, and nothing written; the first that cannot be read is an error."""
    (plan,), (opened,) = ready.plans, ready.opened
    assert opened is not None
    model, texts, options = opened.model, ready.items, plan.options
    model.load()
    ends: Ends = {}
    samples: list[Sample[PerplexityRecord]] = []
    progress = options.progress or NoProgress()
    progress.start("reading", kilobytes(texts.byte_count), (), ReadSoFar())
    try:
        for batch in batches(units(texts, model, Rolling(options.window, options.stride))):
            read = samples_of(batch, model.read(passages_of(batch)), ends, model.name)
            if failed := next((sample for sample in read if sample.failed), None):
                raise InputError(f"{failed.result.document} cannot be read by {model.name}: {failed.detail}")
            samples += read
            progress.advance(read)
    finally:
        progress.stop()
    return together([row.blocks for row in document_rows(samples) if row.blocks is not None])
