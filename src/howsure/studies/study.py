"""What a study is: what it declares, and what it does with it.

    class Mine(Study[MyOptions, MyItem, MyRecord]):
        '''Question, data, what it asks, measure, what comes out.'''
        name, options, record, summary = "mine", MyOptions, MyRecord, MySummary

        def read(self, options, engine): ...            # checked before a model is loaded
        def ask(self, model, batch, options): ...       # pure: can be done again, elsewhere
        def judge(self, samples, options, items): ...   # pure

`register` it (`howsure.studies.registry`), and it has a command, a Python function, a run folder that can be stopped at
any moment, both engines, Parquet, comparisons, a report and a page in the viewer. `studies/mcq` is the pattern.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Generic, ParamSpec, Self

import numpy as np
from typing_extensions import TypeVar

from howsure.errors import InputError
from howsure.models.contract import Failure, Model, ModelOptions
from howsure.models.images import Picture
from howsure.models.registry import load
from howsure.options import declared, names_of, takes
from howsure.runs.engine import Engine
from howsure.runs.folder import Run, RunWriter
from howsure.runs.reading import Identity, Sample
from howsure.runs.run import Batch, Opened, Pair, Plan, Ready, Result, RunOptions, identity_of, run
from howsure.studies.comparing import Comparison, OutcomeComparison, compare_outcomes
from howsure.studies.summary import Summary

P = ParamSpec("P")
R = TypeVar("R")
Options = TypeVar("Options", bound=RunOptions)
Item = TypeVar("Item", default=Any)
Record = TypeVar("Record", default=Any)

BATCH = 32
"""Items that are asked together where a study says nothing else."""


class Study(ABC, Generic[Options, Item, Record]):
    """Five studies and a sixth that somebody adds: each says what is its own, and nothing else."""

    name: ClassVar[str]
    """As on the command line, such as `mcq` or `trust coherent`."""
    options: ClassVar[type[RunOptions]]
    record: ClassVar[Any]
    """The struct of what a sample's `result` holds; every field is in Parquet, in the viewer and in the docs."""
    evidence: ClassVar[Any] = dict[str, Any]
    """The same for the bulk beside it."""
    summary: ClassVar[type[Summary]] = Summary
    comparison: ClassVar[type[Comparison]] = OutcomeComparison
    """What `compare` gives."""
    returns: ClassVar[Any] = Result
    """What its Python function gives for one model."""
    model_fields: ClassVar[tuple[str, ...]] = ("model", "model_b")
    """The options that name the models."""
    looks_ahead: ClassVar[bool] = False
    """Whether `prefetch` wants to hear of the next batch."""

    # -- what every study says ------------------------------------------------------------------------------------

    @abstractmethod
    def read(self, options: Any, engine: Engine) -> Any:
        """The data, every line of it checked before a model is loaded: `Items`, or a study's own kind of it."""

    @abstractmethod
    def ask(self, model: Any, batch: Any, how: Any) -> Any:
        """One sample for each item of a `Batch`, or what the session makes samples of. A pure function, so that it can
        be done again, here or elsewhere."""

    @abstractmethod
    def judge(self, samples: Sequence[Sample], options: Any, items: Any) -> Any:
        """The summary. A pure function of the samples, whatever order they come in."""

    # -- what many say ---------------------------------------------------------------------------------------------

    def plan(self, items: Any, model: Any, options: Any) -> Plan:
        """What will be asked; refuses in one sentence what the model cannot do. No weights are loaded."""
        batches = in_batches(items.items, BATCH)
        cost = {"items": len(items.items), "model_calls": len(items.items)}
        return Plan(batches, options, len(items.items), cost=lambda: cost)

    def plans(self, items: Any, models: Sequence[Model | None], options: Any) -> list[Plan]:
        """One for each model."""
        return [self.plan(items, model, options) for model in models]

    def about(self, item: Item) -> Any:
        """What a sample says of its item, whatever came of it."""
        return self.record()

    def failed(self, index: int, item: Item, failure: Failure, how: Any) -> Sample:
        """The sample of an item that could not be asked."""
        name: str = item.id  # type: ignore[attr-defined]
        return Sample(name, index, self.about(item), reason=failure.reason, detail=failure.detail)

    def lacks(self, sample: Sample) -> bool:
        """Whether --retry-failed does a sample again."""
        return sample.failed

    def source(self, items: Any, options: Any) -> str:
        """Where the data was read from, as people know it."""
        return str(options.data)

    def load(self, model: Any, how: Any) -> None:
        """Everything that takes long before the first batch, and what only a server that answers can tell."""
        model.load()

    def prefetch(self, model: Any, batch: Batch, how: Any) -> None:
        """Hear which batch comes after the one that is asked now."""

    def session(self, items: Any, plan: Plan, model: Any, writer: RunWriter) -> Session:
        """What is done in order, by the one who writes; a study with files of its own has a session of its own."""
        return Session(items, plan, writer)

    def result(self, summary: Any, samples: list[Sample], run: Run) -> Any:
        """What the Python function gives back."""
        return Result(summary, samples, run)

    def deliver(self, result: Any, options: Any) -> None:
        """Write what was asked for outside of the run folder."""

    def comparison_document(self, comparison: Any) -> Any:
        """What `howsure compare --output-json` writes."""
        return comparison

    def compare(self, a: Run, b: Run) -> Any:
        """What changed from one finished run to another over the same items."""
        return compare_outcomes(self, a, b)

    # -- what few say ----------------------------------------------------------------------------------------------

    def open_models(self, options: Any) -> list[Opened | None]:
        """Models without their weights, by the names that the options give, beside those that are open already."""
        names = [getattr(options, name, None) for name in self.model_fields]
        given = [name for i, name in enumerate(names) if name is not None or i == 0]
        return open_models(given, options)

    def needs_folder(self, options: Any) -> bool:
        """Whether a run goes into a folder though none was named."""
        return True

    def run_in_memory(self, ready: Ready) -> Any:
        """For what takes so little that nothing is lost: a result without a run folder."""
        raise InputError(f"{self.name} needs a run folder: name one as out")

    def identity(self, items: Any, plan: Plan, model: Model | None) -> Identity:
        """What makes a run this run."""
        return identity_of(self.name, plan, model, items.identity())

    def ask_or_fail(self, model: Any, batch: Any, how: Any) -> Any:
        failure: Failure | None = getattr(batch, "failure", None)
        return self.ask(model, batch, how) if failure is None else self.failed_batch(batch, failure, how)

    def failed_batch(self, batch: Any, failure: Failure, how: Any) -> Any:
        """The samples of a batch that cannot be asked, or that ended every worker who tried it."""
        rows = zip(batch.indices, batch.items, strict=True)
        return [self.failed(index, item, failure, how) for index, item in rows]

    def with_files(self, batch: Any) -> Any:
        """A batch with everything in it that another machine cannot see."""
        return batch._replace(items=tuple(_with_content(item) for item in batch.items))

    def worker_fingerprint(self, model: Model | None, how: Any) -> dict[str, Any]:
        """What this process and a worker must agree on."""
        return {} if model is None else model.fingerprint()

    def demo(self, model: Model, data: Path) -> Any:
        """The options with which `howsure demo` runs it, on what comes with the package; None for none."""
        return None

    def threads(self, model: Model | None, how: Any) -> int | None:
        """With how many threads a network on a CPU computes here, which decides about its last digits; None without."""
        return None if model is None else model.threads

    def release(self, items: Any) -> None:
        """Give back what reading opened."""

    # -- its pages ------------------------------------------------------------------------------------------------

    @property
    def card(self) -> str:
        """Its docstring: question, data, what it asks, measure, what comes out; the help of its command."""
        return inspect.getdoc(type(self)) or self.name

    @property
    def help(self) -> str:
        """The card without its table, which a terminal would run together."""
        return "\n\n".join(part for part in self.card.split("\n\n") if not part.startswith("Question "))


class Session:
    """One session of a run, as its writer sees it: what is left to do, what becomes of what came, files beside."""

    def __init__(self, items: Any, plan: Plan, writer: RunWriter) -> None:
        self.items, self.plan, self.writer = items, plan, writer

    @property
    def folder(self) -> Path:
        return self.writer.path

    def todo(self) -> Iterable[Any]:
        """The batches that have a sample missing."""
        done = self.writer.done
        return (batch for batch in self.plan.batches if not done.issuperset(batch.ids))

    def sent(self, batch: Any) -> Any:
        """What of a batch is sent to whoever asks."""
        return batch

    def samples(self, batch: Any, answered: Any) -> Iterable[list[Sample]]:
        """What was answered, as samples: each list is on the disk before the next is made."""
        yield answered

    def picture(self, index: int) -> Picture | None:
        """The picture of an item, of which the folder keeps a small copy."""
        image: Picture | None = self.items.picture(index)
        return image

    def written(self, samples: Sequence[Sample]) -> None:
        """Hear of samples as soon as they are on the disk."""

    def finish(self, summary: Any, samples: Sequence[Sample]) -> None:
        """Write what is made of all samples; the summary itself comes after."""

    def result(self, study: Any, summary: Any, samples: list[Sample], run: Run) -> Any:
        """What the Python function gives back, where it takes what only the session knows."""
        return study.result(summary, samples, run)

    def close(self) -> None:
        """Whatever happened, let go of what is open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()


# -- parts that studies share ---------------------------------------------------------------------------------------


def python_function(options: Callable[P, RunOptions], study: Study[Any]) -> Callable[P, Any]:
    """`howsure.mcq` and its like."""

    def call(chosen: RunOptions) -> Any:
        return run(study, chosen)

    call.__name__, call.__module__, call.__doc__ = study.name.replace(" ", "_"), "howsure", study.card
    call.__annotations__["return"] = study.returns | Pair if "model_b" in names_of(study.options) else study.returns
    return takes(options)(call)


def open_models(names: Sequence[str | Model | None], options: Any) -> list[Opened | None]:
    """Models by name, without their weights, beside those that are open already; options are for the former."""
    asked = options.part(ModelOptions)  # nothing where a study has no options of models
    given = asked | options.worker_device(asked.get("device"))
    if not any(isinstance(name, str) for name in names):
        for_models = [one for one in declared(ModelOptions) if one.name != "announce"]  # which hears of folders too
        chosen = [one.name for one in for_models if asked.get(one.name, one.default) != one.default]
        if chosen and any(name is not None for name in names):
            raise InputError(f"{chosen[0]!r} is for a model that is opened by its name; this one is open")
    opened: list[Opened | None] = []
    for name in names:
        is_name = isinstance(name, str)
        model = load(name, lazy=True, **given) if isinstance(name, str) else name
        opened.append(None if model is None else Opened(model, is_name))
    return opened


def in_batches(items: Sequence[Any], size: int) -> list[Batch]:
    """Neighbours, so many at a time."""
    return [batch_of(items, tuple(range(i, min(i + size, len(items))))) for i in range(0, len(items), size)]


def batch_of(items: Sequence[Any], indices: Sequence[int], failure: Failure | None = None) -> Batch:
    chosen = tuple(items[i] for i in indices)
    return Batch(tuple(item.id for item in chosen), chosen, tuple(indices), failure)


def seed_of(*numbers: int) -> int:
    """A seed that these numbers decide, with room for retries below the 31 bits that every server takes."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0] >> 2)


def _with_content(item: Any) -> Any:
    image = getattr(item, "image", None)
    return item if image is None else item._replace(image=image.with_content())
