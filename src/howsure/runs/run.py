"""The one loop: read, open, plan, resume, spread over an engine, write, judge, compare, show.

    with prepared(study, options) as ready:
        ready.cost()      # what it would take; no weights are loaded
        ready.run()       # the same call resumes a stopped run

A study says what is read, planned, asked and judged (`howsure.studies.study`), and knows no engine. The batch is the
unit of work: one of which some samples are on disk already is asked whole again, so that every digit is what it would
have been, and only its missing samples are written.
"""

from __future__ import annotations

import contextlib
import datetime
import gc
import importlib
import inspect
import itertools
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, Generic, NamedTuple, Self

from typing_extensions import TypeVar

from howsure.errors import CANNOT, EvidenceError, HowsureError, InputError, RunDamaged
from howsure.models.contract import Failure, Model
from howsure.models.images import Picture
from howsure.options import HERE, Opt, declared
from howsure.runs.engine import Engine, EngineOptions, Job, LocalEngine, NoProgress, Progress, Tally, opened_engine
from howsure.runs.files import storage_errors, to_json, write_atomic
from howsure.runs.folder import Run, RunWriter, write_report
from howsure.runs.pictures import PictureKeeper
from howsure.runs.reading import MANIFEST, SAMPLES, Identity, Sample
from howsure.storage import below, checked, is_there, shown_path, writable_folder
from howsure.types import html_of

if TYPE_CHECKING:
    from howsure.studies.study import Session, Study

COMPARISON = "comparison.json"
PathLike = str | os.PathLike[str]

ItemT = TypeVar("ItemT", default=Any)
OptionsT = TypeVar("OptionsT", bound="RunOptions", default=Any)
SummaryT = TypeVar("SummaryT", default=Any)


@dataclass(frozen=True, kw_only=True)
class RunOptions(EngineOptions):
    """What every run takes."""

    out: Annotated[
        PathLike | None,
        Opt("Run folder; an unfinished run there is resumed. Default: runs/<study>-<time>.", path="any", identity="no"),
    ] = None
    seed: Annotated[int, Opt("Random seed.", least=0, identity="no")] = 0
    progress: Annotated[Progress | None, HERE] = None

    def for_workers(self) -> Self:
        """Without what is for this process alone: open models and engines, and whom to tell."""
        here = {one.name: one.default for one in declared(type(self)) if one.here is not None}
        models = {
            one.name: value.name for one in declared(type(self)) if isinstance(value := getattr(self, one.name), Model)
        }
        return self.with_(**here, **models, engine="local")


@dataclass(frozen=True, kw_only=True)
class RetryOptions(RunOptions):
    """Of studies whose samples can be done again one by one."""

    retry_failed: Annotated[bool, Opt("Retry the failed samples of this run folder.", identity="no")] = False


@dataclass(frozen=True, kw_only=True)
class PairOptions(RetryOptions):
    """Of studies that compare two models."""

    model_b: Annotated[
        str | Model | None,
        Opt(
            "A second model: both run, one after the other, into folders a and b of the run folder, and are compared.",
            identity="no",
        ),
    ] = None


# -- what goes through the loop -------------------------------------------------------------------------------------


class Batch(NamedTuple):
    """Items that are asked together: the unit of work, for resuming and for spreading over machines alike."""

    ids: tuple[str, ...]
    """The names of the samples that it becomes."""
    items: tuple[Any, ...]
    indices: tuple[int, ...]
    """The items' places in the data."""
    failure: Failure | None = None
    """Why none of them can be asked, where that is known beforehand."""
    seed: int | None = None
    """For answers that are drawn."""


@dataclass(frozen=True)
class Items(Generic[ItemT]):
    """What was read: every item checked, under an `id` that stays the same wherever it stands in the data."""

    items: Sequence[ItemT]
    fingerprint: str
    skipped: int = 0
    """Bad lines that were left out, as the user asked; they count against every share."""

    def identity(self) -> dict[str, Any]:
        """What run.json says of the data."""
        return {"fingerprint": self.fingerprint, "skipped": self.skipped}

    def picture(self, index: int) -> Picture | None:
        """The picture that an item is about, of which the run folder keeps a small copy."""
        if not 0 <= index < len(self.items):  # a line that somebody changed
            return None
        image: Picture | None = getattr(self.items[index], "image", None)
        return image


@dataclass(frozen=True)
class Plan(Generic[OptionsT]):
    """What will be asked, and what makes the run this run."""

    batches: Iterable[Batch]
    """A list, or a stream where nobody knows beforehand how many there are."""
    options: OptionsT
    """As they were given, with what was left open settled."""
    total: int
    """Samples, or what else the run counts by."""
    how: Any = None
    """What a worker needs beside the model and the batch; the options where it is None."""
    cost: Callable[[], dict[str, int]] = dict
    more_identity: dict[str, Any] = field(default_factory=dict)
    """What belongs to the run's options though nobody chose it."""
    local: bool = False
    """Whether this process does it, whatever the engine, for there is hardly anything to do."""
    counted_by: tuple[int, Tally] | None = None
    """How progress is counted, where it is not by samples: the total, and what counts."""


class Result(NamedTuple):
    """A finished study: the summary, the samples in the order of the data, and the run folder.

    The samples are without their evidence, the log-probability of every token: `run.records()` has it.
    """

    summary: Any
    samples: list[Sample]
    run: Run

    @property
    def failed(self) -> bool:
        return any(sample.failed for sample in self.samples)

    def _repr_html_(self) -> str:
        return html_of(self)


class Pair(NamedTuple):
    """Two finished studies and what changed from the first to the second."""

    a: Any
    b: Any
    comparison: Any

    @property
    def failed(self) -> bool:
        return bool(self.a.failed or self.b.failed)

    def _repr_html_(self) -> str:
        return html_of(self)


class Opened(NamedTuple):
    """A model without its weights, and whether it was opened here, and so is given back when its work is done."""

    model: Model
    owned: bool


# -- the loop -------------------------------------------------------------------------------------------------------


def run(study: Study[Any], options: RunOptions) -> Any:
    """Carry a study out: a `Result`, or a `Pair` where two models were named."""
    with prepared(study, options) as ready:
        return ready.run()


@contextmanager
def prepared(study: Study[Any], options: RunOptions) -> Iterator[Ready]:
    """Data and options checked, models opened without their weights, batches planned; nothing is written yet."""
    with contextlib.ExitStack() as stack:
        engine = stack.enter_context(opened_engine(options, getattr(options, "announce", None)))
        items = study.read(options, engine)
        stack.callback(study.release, items)
        opened = study.open_models(options)
        stack.callback(_give_back, opened)
        plans = study.plans(items, [None if one is None else one.model for one in opened], options)
        yield Ready(study, options, engine, items, opened, plans)


def _give_back(opened: list[Opened | None]) -> None:
    for one in opened:
        if one is not None and one.owned:
            one.model.close()


class Ready:
    """A study that is ready to run."""

    def __init__(
        self,
        study: Study[Any],
        options: Any,
        engine: Engine,
        items: Any,
        opened: list[Opened | None],
        plans: list[Plan],
    ) -> None:
        self.study, self.options, self.engine, self.items = study, options, engine, items
        self.opened, self.plans = opened, plans

    def cost(self) -> dict[str, int]:
        """What all models take together; the items are the same for each."""
        costs = [plan.cost() for plan in self.plans]
        total = dict(costs[0])
        for cost in costs[1:]:
            total |= {name: total.get(name, 0) + count for name, count in cost.items() if name != "items"}
        return total

    def run(self) -> Any:
        """Ask what is not asked yet, judge all of it; two models are compared."""
        if self.options.out is None and not self.study.needs_folder(self.options):
            result = self.study.run_in_memory(self)
        else:
            with _folder(self.options, self.study.name) as folder:
                one = len(self.plans) == 1
                result = self._run_next(folder, self.study.name) if one else self._run_pair(folder)
        self.study.deliver(result, self.options)
        return result

    def _run_pair(self, folder: PathLike) -> Pair:
        if is_there(below(folder, MANIFEST)):
            raise InputError(
                f"{shown_path(os.fspath(folder))} is the run folder of one model: with --model-b choose another --out"
            )
        name = self.study.name
        a, b = (self._run_next(below(folder, side), f"{name} {side}") for side in ("a", "b"))
        comparison = self.study.compare(a.run, b.run)
        with writable_folder(folder) as here:
            write_atomic(here / COMPARISON, to_json(comparison, indent=2) + b"\n")
            write_report(here, a.run.path, b.run.path)
        return Pair(a, b, comparison)

    def _run_next(self, folder: PathLike, label: str) -> Any:
        """The next model, which is let go afterwards, so that its weights are gone before those of another come."""
        plan, opened = self.plans.pop(0), self.opened[0]
        try:
            return self._carry_out(plan, None if opened is None else opened.model, folder, label)
        finally:
            del self.opened[0]
            if opened is not None and opened.owned:
                opened.model.close()
                del opened, plan  # which holds the model too, to say what it would take
                gc.collect()  # a network is full of cycles, and the next one needs its room now

    def _carry_out(self, plan: Plan, model: Model | None, folder: PathLike, label: str) -> Any:
        study, items, options = self.study, self.items, plan.options
        writer = RunWriter(
            folder,
            study.identity(items, plan, model),
            plan.total,
            source=study.source(items, options),
            record=study.record,
            retry_failed=getattr(options, "retry_failed", False),
            lacks=study.lacks,
        )
        with writer, study.session(items, plan, model, writer) as session:
            progress = options.progress or NoProgress()
            with PictureKeeper(writer.path) as pictures:
                engine = LocalEngine() if plan.local else self.engine
                job = StudyJob(study, model, plan.options.for_workers() if plan.how is None else plan.how)
                _work(engine, job, session, writer, progress, plan, label, pictures)
            samples = sorted(writer.samples, key=lambda sample: sample.index)
            with _as_damage(writer):
                summary = study.judge(samples, options, items)
            session.finish(summary, samples)
            writer.finish(summary)
        return session.result(study, summary, samples, Run(folder))


@contextmanager
def _as_damage(writer: RunWriter) -> Iterator[None]:
    """Samples that were on the disk before may be somebody else's; what they do to a study is told by their file."""
    try:
        yield
    except (*CANNOT, OverflowError) as error:
        if not writer.resumed or (isinstance(error, HowsureError) and not isinstance(error, EvidenceError)):
            raise
        why = f"{type(error).__name__}: {error}"[:200]
        raise RunDamaged(
            f"{writer.path / SAMPLES} holds samples that make no sense together ({why}): restore it, or take "
            "another --out"
        ) from error


def _work(
    engine: Engine,
    job: StudyJob,
    session: Session,
    writer: RunWriter,
    progress: Progress,
    plan: Plan,
    label: str,
    pictures: PictureKeeper,
) -> None:
    """Every batch that has a sample missing, and what comes of it onto the disk, in order."""
    picture = session.picture
    pictures.keep(picture(sample.index) for sample in writer.samples)
    waiting = iter(session.todo())
    first = list(islice(waiting, 1))
    if first:
        engine.load(job)  # before the clock of the progress starts
    total, tally = plan.counted_by or (plan.total, None)
    progress.start(label, total, writer.samples, tally)
    try:
        for batch, answered in in_order(engine, job, chain(_taken(first), waiting), session.sent):
            for samples in session.samples(batch, answered):
                missing = [sample for sample in samples if sample.id not in writer.done]
                writer.append(missing)
                session.written(missing)
                pictures.keep(picture(sample.index) for sample in missing)
                progress.advance([sample.without_evidence() for sample in missing])
    finally:
        progress.stop()


def _taken(held: list[Any]) -> Iterator[Any]:
    """What is in a list, which is not held any longer than needed."""
    while held:
        yield held.pop()


def in_order(
    engine: Engine, job: Job[Any, Any], batches: Iterable[Any], sent: Callable[[Any], Any]
) -> Iterator[tuple[Any, Any]]:
    """Each batch with what came of it; the batch itself never leaves this process, only what is `sent` of it."""
    under_way: deque[Any] = deque()

    def pieces() -> Iterator[Any]:
        for batch in batches:
            under_way.append(batch)
            yield sent(batch)

    for answered in engine.run(job, pieces()):
        yield under_way.popleft(), answered


class StudyJob(Job[Any, Any]):
    """Asks the batches of a study, wherever it is. The model opens itself there by its name."""

    def __init__(self, study: Study[Any], model: Model | None, how: Any) -> None:
        self.study, self.model, self.how = study, model, how
        self.looks_ahead = study.looks_ahead

    def __reduce__(self) -> Any:
        """What the study is made of comes first, since the rest is made of that."""
        return _job, (Source(type(self.study).__module__), self.study, self.model, self.how)

    def load(self) -> None:
        self.study.load(self.model, self.how)

    def prefetch(self, piece: Any) -> None:
        self.study.prefetch(self.model, piece, self.how)

    def __call__(self, piece: Any) -> Any:
        return self.study.ask_or_fail(self.model, piece, self.how)

    def with_files(self, piece: Any) -> Any:
        return self.study.with_files(piece)

    def failed_piece(self, piece: Any, why: str) -> Any:
        return self.study.failed_batch(piece, Failure("worker_lost", why), self.how)

    def fingerprint(self) -> dict[str, Any]:
        return self.study.worker_fingerprint(self.model, self.how)

    @property
    def threads(self) -> int | None:
        return self.study.threads(self.model, self.how)


def _job(_: Any, study: Study[Any], model: Model | None, how: Any) -> StudyJob:
    return StudyJob(study, model, how)


class Source:
    """The module of a study as it goes to a worker, which has howsure but not the file of somebody's own study."""

    def __init__(self, module: str) -> None:
        self.module = module

    def __reduce__(self) -> Any:
        if self.module.startswith("howsure."):
            return Source, (self.module,)
        return imported, (self.module, inspect.getsource(sys.modules[self.module]))


def imported(name: str, source: str) -> Source:
    """Have a module: the installed one, or one made of the source that was sent along."""
    try:
        importlib.import_module(name)
    except ImportError:
        for end, letter in enumerate(name):
            if letter == ".":  # without its packages nothing in it can be named
                sys.modules.setdefault(name[:end], ModuleType(name[:end]))
        module = ModuleType(name)
        sys.modules[name] = module
        exec(compile(source, f"<{name}>", "exec"), vars(module))
    return Source(name)


# -- folders --------------------------------------------------------------------------------------------------------


@contextmanager
def _folder(options: RunOptions, study: str) -> Iterator[PathLike]:
    """The folder that the user named, or a new one, which is taken away where the run is refused before it began."""
    if options.out is not None:
        yield checked(options.out)
        return
    folder = new_run_folder(study)
    announce = getattr(options, "announce", None)
    if announce is not None:
        announce(f"writing {folder}; if it is stopped, the same command with --out {folder} resumes it")
    try:
        yield folder
    finally:
        with contextlib.suppress(OSError):  # one that holds something stays
            folder.rmdir()


def new_run_folder(study: str) -> Path:
    """Where a run goes when the user named no folder: one of its own, though two may begin in the same second, and a
    time of day comes again when clocks are set back."""
    name = f"{study.replace(' ', '-')}-{datetime.datetime.now():%Y%m%d-%H%M%S}"
    for number in itertools.count(1):
        folder = Path("runs") / (name if number == 1 else f"{name}-{number}")
        with storage_errors(folder), contextlib.suppress(FileExistsError):
            folder.mkdir(parents=True)
            break
    return folder


def identity_of(
    study: str, plan: Plan, model: Model | None, data: dict[str, Any], options: dict[str, Any] | None = None
) -> Identity:
    about = {"name": "log"} if model is None else {"name": model.name, **model.fingerprint()}
    chosen = plan.options.for_identity() if options is None else options
    return Identity(study, chosen | plan.more_identity, about, data, plan.options.seed)
