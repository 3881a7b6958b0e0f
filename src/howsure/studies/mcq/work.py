"""From a file of questions to a finished run: prepare without weights, then carry out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from howsure import wiring
from howsure.errors import InputError, MissingCapability
from howsure.models.contract import Capability, Failure, Model, ScorePlan
from howsure.runs import Engine, Identity, NoProgress, Progress, Run, RunWriter, Sample, work_through
from howsure.studies import pairs
from howsure.studies.mcq.ask import Asking, ask, asking, score_item, to_sample, unconditional_items
from howsure.studies.mcq.comparison import compare
from howsure.studies.mcq.data import Item, Questions, read_questions
from howsure.studies.mcq.judge import judge
from howsure.studies.model_job import ModelJob
from howsure.studies.pairs import Pair, check_seed, open_models
from howsure.studies.pictures import PictureKeeper

Batches = list[tuple[int, ...]]


class Prepared(NamedTuple):
    """Everything that is known before a single token is run."""

    questions: Questions
    model: Model
    how: Asking
    plan: ScorePlan
    batches: Batches
    options: dict[str, Any]
    owned: bool
    """Whether the model was opened here, and so is given back when its work is done."""

    def cost(self) -> dict[str, int]:
        """What the run will take; the choices by themselves are counted too."""
        alone = [unconditional_items([self.questions.items[i] for i in batch], self.how) for batch in self.batches]
        plans = [self.model.plan_scores(wanted) for wanted in alone if wanted]
        found = {
            "items": len(self.questions.items),
            "model_calls": len(self.batches) + sum(len(plan.batches) for plan in plans),
            "tokens": self.plan.tokens + sum(plan.tokens for plan in plans),
        }
        more = {"images": self.questions.image_count, "items_that_will_fail": len(self.plan.refused)}
        return found | {name: count for name, count in more.items() if count}


class Result(NamedTuple):
    """A finished study: the summary, the samples in the order of the data, and the run folder.

    The samples are without their evidence, the log-probability of every token: `run.records()` has it.
    """

    summary: dict[str, Any]
    samples: list[Sample]
    run: Run

    def _repr_html_(self) -> str:
        return str(wiring.ask("html", self))


def prepare(data: str | os.PathLike[str], model: str | Model, **options: Any) -> Prepared:
    """Check the data, open the model without its weights, and plan its batches; options as for `prepare_all`."""
    return prepare_all(data, [model], **options)[0]


def prepare_all(
    data: str | os.PathLike[str],
    models: Sequence[str | Model],
    *,
    prompt: str | None = None,
    chat: bool = False,
    pmi: bool = True,
    max_samples: int | None = None,
    batch_size: int | None = None,
    skip_bad: bool = False,
    image_root: str | os.PathLike[str] | None = None,
    cluster: str | None = None,
    **model_options: Any,
) -> list[Prepared]:
    """The same for several models over data that is read once."""
    how = asking(prompt, chat=chat, pmi=pmi)
    if batch_size is not None and batch_size < 1:
        raise InputError(f"--batch-size must be at least 1, not {batch_size}")
    questions = read_questions(data, max_samples=max_samples, skip_bad=skip_bad, image_root=image_root, cluster=cluster)
    options: dict[str, Any] = {
        "prompt": how.prompt,
        "chat": chat,
        "pmi": pmi,
        "max_samples": max_samples,
        "batch_size": batch_size,
        "skip_bad": skip_bad,
    }
    if cluster is not None:
        options["cluster"] = cluster
    opened = open_models(models, model_options)
    for model, _ in opened:
        _require(model, questions, how)
    return [_planned(questions, model, how, options, owned) for model, owned in opened]


def _require(model: Model, questions: Questions, how: Asking) -> None:
    """Refuse in one sentence, before any work, what the model cannot do."""
    model.require(Capability.SCORE, "mcq")
    if questions.image_count and not model.takes_images:
        count, total = questions.image_count, len(questions.items)
        raise MissingCapability(
            f"{count} of {total} questions have an image, and {model.name!r} reads text only: take an image-text model"
        )
    if how.chat and not model.takes_chat:
        raise MissingCapability(f"--chat needs a chat template, and {model.name!r} has none: leave --chat out")


def _planned(questions: Questions, model: Model, how: Asking, options: dict[str, Any], owned: bool) -> Prepared:
    plan = model.plan_scores([score_item(item, how) for item in questions.items])
    batches = _split([batch.indices for batch in plan.batches], options["batch_size"])
    return Prepared(questions, model, how, plan, batches, options, owned)


def _split(batches: Batches, most: int | None) -> Batches:
    """No more than so many questions together, where that was asked for."""
    if most is None:
        return batches
    return [batch[start : start + most] for batch in batches for start in range(0, len(batch), most)]


def carry_out(
    prepared: Prepared,
    source: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str],
    seed: int = 0,
    retry_failed: bool = False,
    progress: Progress | None = None,
    engine: Engine | None = None,
    what: str = "mcq",
) -> Result:
    """Run what the plan holds and is not done yet, then judge all of it."""
    check_seed(seed)
    questions, plan = prepared.questions, prepared.plan
    ids = [item.id for item in questions.items]
    batches = prepared.batches + [(i,) for i in plan.refused]
    writer = RunWriter(out, _identity(prepared, seed), len(ids), source=os.fspath(source), retry_failed=retry_failed)
    with writer:
        with PictureKeeper(writer.path) as pictures:
            items = questions.items
            pictures.keep(item.image for item in items if item.id in writer.done)
            work_through(
                writer,
                ids,
                batches,
                Asker(prepared.model, prepared.how),
                progress or NoProgress(),
                what,
                piece=lambda batch: Together(batch, tuple(items[i] for i in batch), plan.refused.get(batch[0])),
                engine=engine,
                after=lambda samples: pictures.keep(items[sample.index].image for sample in samples),
            )
        summary = judge(writer.samples, skipped=questions.skipped, seed=seed)
        writer.finish(summary)
    return Result(summary, sorted(writer.samples, key=lambda s: s.index), Run(out))


def carry_out_all(prepared: list[Prepared], source: str | os.PathLike[str], **how: Any) -> Result | Pair:
    """One model, or two and what changed between them; options as for `carry_out`. The list is emptied on the way."""
    return pairs.carry_out_all(prepared, "mcq", carry_out, compare, source=source, **how)


def _identity(prepared: Prepared, seed: int) -> Identity:
    model, questions = prepared.model, prepared.questions
    data: dict[str, Any] = {"fingerprint": questions.fingerprint, "skipped": questions.skipped}
    if questions.clusters is not None:
        data["clusters"] = questions.clusters
    return Identity(
        study="mcq",
        options=prepared.options,
        model={"name": model.name, **model.fingerprint()},
        data=data,
        seed=seed,
    )


class Together(NamedTuple):
    """Questions that are asked together, with their places in the data; or one that is refused, and why."""

    indices: tuple[int, ...]
    items: tuple[Item, ...]
    refused: Failure | None = None


class Asker(ModelJob[Together, list[Sample]]):
    """Asks the questions of a batch, wherever it is."""

    looks_ahead = True

    def __init__(self, model: Model, how: Asking) -> None:
        super().__init__(model)
        self.how = how

    def prefetch(self, piece: Together) -> None:
        """The model can read the images of the next questions meanwhile."""
        self.model.prefetch([score_item(item, self.how) for item in piece.items])

    def __call__(self, piece: Together) -> list[Sample]:
        if piece.refused is not None:
            return self._failed(piece, piece.refused)
        return ask(self.model, piece.indices, piece.items, self.how)

    def packed(self, piece: Together) -> Together:
        return piece._replace(items=tuple(_with_image(item) for item in piece.items))

    def given_up(self, piece: Together, why: str) -> list[Sample]:
        return self._failed(piece, Failure("worker_lost", why))

    @staticmethod
    def _failed(piece: Together, failure: Failure) -> list[Sample]:
        return [to_sample(i, item, failure) for i, item in zip(piece.indices, piece.items, strict=True)]


def _with_image(item: Item) -> Item:
    return item if item.image is None else item._replace(image=item.image.with_content())
