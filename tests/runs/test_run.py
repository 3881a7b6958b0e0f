"""The one loop: what is asked, in which order it is written, who hears of it, and what becomes of it when it stops."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pytest

from howsure.errors import InputError
from howsure.evidence import Outcome
from howsure.models.contract import Capability, Counters, Failure, Model, ModelOptions
from howsure.options import Opt
from howsure.runs import Engine, Run, Sample
from howsure.runs.run import Batch, Items, Plan, RetryOptions, prepared, run
from howsure.studies.study import Session, Study, batch_of, in_batches
from howsure.studies.summary import Coverage, Figure, Summary
from howsure.types import Fields

pytestmark = pytest.mark.usefixtures("lenient_pages")

# -- a study of numbers, whose model squares them ---------------------------------------------------------------------


class Squarer(Model):
    """Keeps what it hears of, and calls `before` each time that it is asked."""

    capabilities = frozenset({Capability.SCORE})

    def __init__(self, name: str = "squarer", before: Callable[[tuple[int, ...]], None] = lambda _: None) -> None:
        self.name, self.before = name, before
        self.counters = Counters()
        self.events: list[Any] = []

    def fingerprint(self) -> dict[str, Any]:
        return {"squares": True}

    def load(self) -> None:
        self.events.append("load")

    def close(self) -> None:
        self.events.append("close")

    def square(self, numbers: tuple[int, ...]) -> list[int]:
        self.events.append(numbers)
        self.before(numbers)
        return [number * number for number in numbers]

    @property
    def asked(self) -> list[tuple[int, ...]]:
        return [event for event in self.events if isinstance(event, tuple)]


@dataclass(frozen=True)
class NumbersOptions(RetryOptions, ModelOptions):
    data: Annotated[tuple[int, ...], Opt("Numbers.", identity="no")]
    model: Annotated[str | Model, Opt("Model name.", identity="no")] = "squarer"
    _: KW_ONLY
    model_b: Annotated[str | Model | None, Opt("A second one.", identity="no")] = None
    batch_size: Annotated[int, Opt("Numbers together.", least=1, identity="always")] = 2


class Number(NamedTuple):
    id: str
    value: int


class NumbersRecord(Fields, kw_only=True):
    number: int
    square: int | None = None


class NumbersSummary(Summary, kw_only=True):
    total: int


class NumbersStudy(Study[NumbersOptions, Number, NumbersRecord]):
    """Numbers: what are their squares?"""

    name, options, record, summary = "numbers", NumbersOptions, NumbersRecord, NumbersSummary
    looks_ahead = True

    def read(self, options: NumbersOptions, engine: Engine) -> Items[Number]:
        return Items([Number(f"s{value}", value) for value in options.data], f"sha256:{options.data}")

    def plan(self, items: Items[Number], model: Model, options: NumbersOptions) -> Plan:
        usable = [item for item in items.items if item.value >= 0]
        refused = [batch_of(items.items, (i,), Failure("negative", "below zero"))
                   for i, item in enumerate(items.items) if item.value < 0]  # fmt: skip
        batches = [*in_batches(usable, options.batch_size), *refused]
        cost = {"items": len(items.items), "model_calls": len(batches) - len(refused)}
        return Plan(batches, options, len(items.items), cost=lambda: cost)

    def about(self, item: Number) -> NumbersRecord:
        return NumbersRecord(number=item.value)

    def prefetch(self, model: Any, batch: Batch, how: NumbersOptions) -> None:
        model.events.append(f"next {[item.value for item in batch.items]}")

    def ask(self, model: Any, batch: Batch, how: NumbersOptions) -> list[Sample[NumbersRecord]]:
        squares = model.square(tuple(item.value for item in batch.items))
        rows = zip(batch.indices, batch.items, squares, strict=True)
        return [
            Sample(item.id, i, NumbersRecord(number=item.value, square=square), {"digits": str(square)}, Outcome(True))
            for i, item, square in rows
        ]

    def judge(self, samples: Sequence[Sample[NumbersRecord]], options: NumbersOptions, items: Any) -> NumbersSummary:
        total = sum(sample.result.square or 0 for sample in samples)
        figure = Figure("total", float(total), "units")
        return NumbersSummary(study="numbers", coverage=Coverage.of(samples), headline=[figure], notes=[], total=total)


NUMBERS = NumbersStudy()
FIVE = (0, 1, 2, 3, 4)


def squared(out: Path, model: Model, data: tuple[int, ...] = FIVE, study: Any = NUMBERS, **more: Any) -> Any:
    return run(study, NumbersOptions(data, model, out=out, **more))


def torn(whole: Path, out: Path, *kept: int) -> Path:
    """The run folder as it was when only some of the lines were written."""
    out.mkdir()
    lines = (whole / "samples.jsonl").read_bytes().splitlines(keepends=True)
    manifest = json.loads((whole / "run.json").read_text())
    (out / "run.json").write_text(json.dumps(manifest | {"status": "running"}))
    (out / "samples.jsonl").write_bytes(b"".join(lines[i] for i in kept))
    return out


# -- what is asked ----------------------------------------------------------------------------------------------------


def test_a_run_by_hand(tmp_path: Path) -> None:
    model = Squarer()
    result = squared(tmp_path / "run", model)
    assert model.events == [
        "load",
        "next [2, 3]", (0, 1),
        "next [4]", (2, 3),
        (4,),
    ], "the first batch is asked at once, and whoever looks ahead hears of each other one before it"  # fmt: skip
    assert [sample.result.square for sample in result.samples] == [0, 1, 4, 9, 16]
    assert [sample.evidence for sample in result.samples] == [{}] * 5, "evidence is on the disk"
    assert [sample.evidence for sample in result.run.records()] == [{"digits": f"{i * i}"} for i in FIVE]
    assert json.loads((tmp_path / "run/summary.json").read_text())["total"] == result.summary.total == 30
    assert (result.failed, result.run.status, result.run.manifest.items) == (False, "finished", 5)


def test_a_batch_half_on_disk_is_asked_whole_and_written_once(tmp_path: Path) -> None:
    """So that a matrix product over the batch gives the same digits as before."""
    squared(tmp_path / "whole", Squarer(), batch_size=3, data=tuple(range(6)))
    for kept, asked in (((0, 1, 2, 3), [(3, 4, 5)]), ((1,), [(0, 1, 2), (3, 4, 5)]), (range(6), [])):
        model, folder = Squarer(), torn(tmp_path / "whole", tmp_path / f"{kept}", *kept)
        squared(folder, model, batch_size=3, data=tuple(range(6)))
        assert model.asked == asked
        assert ("load" in model.events) == bool(asked), "weights that nobody needs are not loaded"
        assert (folder / "summary.json").read_bytes() == (tmp_path / "whole/summary.json").read_bytes()
        assert sorted((folder / "samples.jsonl").open()) == sorted((tmp_path / "whole/samples.jsonl").open())


def test_what_cannot_be_asked_is_a_sample_with_its_reason(tmp_path: Path) -> None:
    model = Squarer()
    result = squared(tmp_path, model, data=(3, -1))
    assert model.asked == [(3,)]
    failed = result.samples[1]
    assert (failed.id, failed.reason, failed.detail) == ("s-1", "negative", "below zero")
    assert failed.result == NumbersRecord(number=-1), "what is known of it stands there"
    assert result.failed
    assert result.summary.coverage.text == "scored 1 of 2; 1 missing: 1 negative"


def test_failed_samples_are_asked_again_only_on_request(tmp_path: Path) -> None:
    class Moody(NumbersStudy):
        well = False

        def ask(self, model: Any, batch: Batch, how: Any) -> list[Sample]:
            return super().ask(model, batch, how) if self.well else self.failed_batch(batch, Failure("mood", ""), how)

    study = Moody()
    squared(tmp_path, Squarer(), study=study)
    study.well = True
    assert squared(tmp_path, Squarer(), study=study).failed, "kept as they are"
    done = squared(tmp_path, Squarer(), study=study, retry_failed=True)
    assert (done.failed, done.summary.total, len(done.run.records())) == (False, 30, 5)


def test_what_it_takes_is_known_before_anything_is_written(tmp_path: Path) -> None:
    model = Squarer()
    with prepared(NUMBERS, NumbersOptions(FIVE, model, model_b=Squarer("b"), out=tmp_path / "run")) as ready:
        assert ready.cost() == {"items": 5, "model_calls": 6}, "calls of both, over the same items"
    assert model.events == []
    assert not (tmp_path / "run").exists()


# -- in which order, and who hears of it ------------------------------------------------------------------------------


class Heard(Session):
    """Notes what a session hears."""

    def written(self, samples: Sequence[Sample]) -> None:
        on_disk = {sample.id for sample in Run(self.folder).records()}
        assert {sample.id for sample in samples} <= on_disk
        self.writer.heard.append([sample.id for sample in samples])  # type: ignore[attr-defined]

    def finish(self, summary: Any, samples: Sequence[Sample]) -> None:
        assert not (self.folder / "summary.json").exists()
        (self.folder / "squares.txt").write_text(f"{summary.total} of {[sample.index for sample in samples]}")

    def close(self) -> None:
        self.writer.heard.append("closed")  # type: ignore[attr-defined]


class Listening(NumbersStudy):
    def __init__(self) -> None:
        self.heard: list[Any] = []

    def session(self, items: Any, plan: Any, model: Any, writer: Any) -> Session:
        writer.heard = self.heard
        return Heard(items, plan, writer)


def test_a_session_hears_of_every_new_sample_once_it_is_on_the_disk(tmp_path: Path) -> None:
    squared(tmp_path / "whole", Squarer())
    folder, study = torn(tmp_path / "whole", tmp_path / "run", 2), Listening()
    squared(folder, Squarer(), study=study)
    assert study.heard == [["s0", "s1"], ["s3"], ["s4"], "closed"], "s2 was there before"
    assert (folder / "squares.txt").read_text() == "30 of [0, 1, 2, 3, 4]"


def test_whatever_happens_a_session_is_closed_and_what_was_written_stays(tmp_path: Path) -> None:
    def interrupt(numbers: tuple[int, ...]) -> None:
        if 2 in numbers:
            raise KeyboardInterrupt

    study, progress = Listening(), Steps()
    with pytest.raises(KeyboardInterrupt):
        squared(tmp_path, Squarer(before=interrupt), study=study, progress=progress)
    assert study.heard == [["s0", "s1"], "closed"]
    assert progress.steps[-1] == "stop"
    assert Run(tmp_path).status == "interrupted"
    assert not (tmp_path / "squares.txt").exists()
    model = Squarer()
    squared(tmp_path, model)
    assert model.asked == [(2, 3), (4,)]


class Steps:
    """A progress that notes what it is told."""

    def __init__(self) -> None:
        self.steps: list[Any] = []

    def start(self, what: str, total: int, kept: Sequence[Sample], tally: Any = None) -> None:
        self.steps.append((what, total, len(kept), tally))

    def advance(self, samples: Sequence[Sample]) -> None:
        assert all(not sample.evidence for sample in samples)
        self.steps.append([sample.index for sample in samples])

    def stop(self) -> None:
        self.steps.append("stop")


def test_progress_counts_what_was_kept_and_what_is_new(tmp_path: Path) -> None:
    squared(tmp_path / "whole", Squarer())
    progress = Steps()
    squared(torn(tmp_path / "whole", tmp_path / "run", 0, 1, 2), Squarer(), progress=progress)
    assert progress.steps == [("numbers", 5, 3, None), [3], [4], "stop"]


def test_samples_may_come_one_by_one_and_depend_on_those_before(tmp_path: Path) -> None:
    """A session that keeps state: each sample holds the sum so far, and is on the disk before the next is made."""

    class Summing(Session):
        total = 0

        def samples(self, batch: Batch, answered: Iterable[Sample]) -> Iterator[list[Sample]]:
            for sample in answered:
                self.total += sample.result.square
                yield [Sample(sample.id, sample.index, NumbersRecord(number=sample.index, square=self.total))]

    class Lazy(NumbersStudy):
        def ask(self, model: Any, batch: Batch, how: Any) -> Any:
            for item, index in zip(batch.items, batch.indices, strict=True):
                single = Batch((item.id,), (item,), (index,))
                yield from super().ask(model, single, how)

        def session(self, items: Any, plan: Any, model: Any, writer: Any) -> Session:
            return Summing(items, plan, writer)

    def on_disk(numbers: tuple[int, ...]) -> None:
        assert len((tmp_path / "samples.jsonl").read_text().splitlines()) == numbers[0]

    result = squared(tmp_path, Squarer(before=on_disk), study=Lazy(), batch_size=5)
    assert [sample.result.square for sample in result.samples] == [0, 1, 5, 14, 30]


def test_batches_may_be_a_stream_of_unknown_length(tmp_path: Path) -> None:
    made: list[int] = []

    class Stream(NumbersStudy):
        looks_ahead = False

        def plan(self, items: Any, model: Any, options: Any) -> Plan:
            def batches() -> Iterator[Batch]:
                for i, batch in enumerate(in_batches(items.items, 1)):
                    made.append(i)
                    yield batch

            return Plan(batches(), options, len(items.items))

    def few_ahead(numbers: tuple[int, ...]) -> None:
        assert len(made) <= numbers[0] + 1, "what is not asked for yet is not made"

    assert squared(tmp_path, Squarer(before=few_ahead), study=Stream()).summary.total == 30


# -- models and folders -----------------------------------------------------------------------------------------------


def test_a_model_that_was_given_open_stays_open_and_one_by_name_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, opened = Squarer(), Squarer()
    squared(tmp_path / "a", given)
    assert "close" not in given.events
    monkeypatch.setattr("howsure.studies.study.load", lambda name, **options: opened)
    squared(tmp_path / "b", "by-name")  # type: ignore[arg-type]
    assert opened.events[-1] == "close"
    refused = Squarer()
    monkeypatch.setattr("howsure.studies.study.load", lambda name, **options: refused)
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "thesis.tex").touch()
    with pytest.raises(InputError, match=r"thesis\.tex"):
        squared(tmp_path / "c", "by-name")  # type: ignore[arg-type]
    assert refused.events == ["close"], "its weights were never loaded"


def test_two_models_run_one_after_the_other_and_are_compared(tmp_path: Path) -> None:
    first, second = Squarer("a"), Squarer("b")
    pair = squared(tmp_path / "both", first, model_b=second)
    assert first.asked == second.asked == [(0, 1), (2, 3), (4,)]
    assert [side.run.path for side in (pair.a, pair.b)] == [tmp_path / "both/a", tmp_path / "both/b"]
    assert pair.comparison.difference.mean_difference == 0.0
    assert json.loads((tmp_path / "both/comparison.json").read_text())["study"] == "numbers"
    assert (tmp_path / "both/report.html").exists()
    with pytest.raises(InputError, match="is the run folder of one model: with --model-b choose another --out"):
        squared(tmp_path / "both/a", first, model_b=second)


def test_without_a_folder_a_run_gets_one_and_says_so_and_a_refused_one_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    result = run(NUMBERS, NumbersOptions(FIVE, Squarer(), announce=said.append))
    assert result.run.path.parent == Path("runs")
    assert said == [
        f"writing {result.run.path}; if it is stopped, the same command with --out {result.run.path} resumes it"
    ]
    before = set(Path("runs").iterdir())
    with pytest.raises(InputError, match="--engine must be local or ray"):
        run(NUMBERS, NumbersOptions(FIVE, Squarer(), engine="slurm"))
    assert set(Path("runs").iterdir()) == before


def test_what_goes_to_a_worker_is_without_what_stays_here(tmp_path: Path) -> None:
    options = NumbersOptions(FIVE, Squarer(), model_b=Squarer("b"), engine="ray", progress=Steps(), announce=print)
    sent = options.for_workers()
    assert (sent.model, sent.model_b, sent.engine) == ("squarer", "b", "local")
    assert sent.progress is sent.announce is None
    assert sent.for_identity() == options.for_identity() == {"batch_size": 2}
