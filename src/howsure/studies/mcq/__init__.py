"""Multiple choice: does the model find the right answer the likeliest, and by how much?

Question   how much likelier is one answer than the others, by the model's own probabilities?
Data       JSON lines: `question`, `choices`, `answer_index`; `id` and `group` if you like
Asks       `score`: every choice as a continuation of the question, by teacher forcing; nothing is generated
Measure    the choice with the largest sum of token log-probabilities; margin = best − second, in nats
Comes out  accuracy with its interval, mean margin with its interval, one record a question
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from howsure.models.contract import Capability, Model, ScorePlan
from howsure.models.registry import load
from howsure.runs import Identity, NoProgress, Progress, Run, RunWriter, Sample, work_through
from howsure.studies.mcq.ask import DEFAULT_PROMPT, check_prompt, score_item, to_sample
from howsure.studies.mcq.data import Questions, read_questions
from howsure.studies.mcq.judge import judge


class Prepared(NamedTuple):
    """Everything that is known before a single token is run."""

    questions: Questions
    model: Model
    prompt: str
    plan: ScorePlan
    options: dict[str, Any]


class Result(NamedTuple):
    """A finished study: the summary, the samples in the order of the data, and the run folder."""

    summary: dict[str, Any]
    samples: list[Sample]
    run: Run


def mcq(
    data: str | os.PathLike[str],
    model: str | Model = "smollm2",
    *,
    out: str | os.PathLike[str],
    prompt: str = DEFAULT_PROMPT,
    max_samples: int | None = None,
    skip_bad: bool = False,
    seed: int = 0,
    retry_failed: bool = False,
    progress: Progress | None = None,
    **model_options: Any,
) -> Result:
    """Score every question of a JSONL file and write a run folder; the same call takes up a stopped run."""
    prepared = prepare(data, model, prompt=prompt, max_samples=max_samples, skip_bad=skip_bad, **model_options)
    return carry_out(prepared, data, out=out, seed=seed, retry_failed=retry_failed, progress=progress)


def prepare(
    data: str | os.PathLike[str],
    model: str | Model,
    *,
    prompt: str = DEFAULT_PROMPT,
    max_samples: int | None = None,
    skip_bad: bool = False,
    **model_options: Any,
) -> Prepared:
    """Check the data, open the model without its weights, and plan the batches."""
    check_prompt(prompt)
    questions = read_questions(data, max_samples=max_samples, skip_bad=skip_bad)
    opened = load(model, lazy=True, **model_options) if isinstance(model, str) else model
    opened.require(Capability.SCORE, "mcq")
    plan = opened.plan_scores([score_item(item, prompt) for item in questions.items])
    options = {"prompt": prompt, "max_samples": max_samples, "skip_bad": skip_bad}
    return Prepared(questions, opened, prompt, plan, options)


def carry_out(
    prepared: Prepared,
    source: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str],
    seed: int = 0,
    retry_failed: bool = False,
    progress: Progress | None = None,
) -> Result:
    """Run what the plan holds and is not done yet, then judge all of it."""
    questions, model, prompt, plan, options = prepared
    items = questions.items
    identity = Identity(
        study="mcq",
        options=options,
        model={"name": model.name, **model.fingerprint()},
        data={"fingerprint": questions.fingerprint, "skipped": questions.skipped},
        seed=seed,
    )

    def work(indices: tuple[int, ...]) -> list[Sample]:
        if indices[0] in plan.refused:
            return [to_sample(i, items[i], plan.refused[i]) for i in indices]
        scored = model.try_score([score_item(items[i], prompt) for i in indices])
        return [to_sample(i, items[i], found) for i, found in zip(indices, scored, strict=True)]

    writer = RunWriter(out, identity, len(items), source=os.fspath(source), retry_failed=retry_failed)
    with writer:
        batches = [batch.indices for batch in plan.batches] + [(i,) for i in plan.refused]
        work_through(writer, [item.id for item in items], batches, work, progress or NoProgress(), "mcq")
        summary = judge(writer.samples, skipped=questions.skipped, seed=seed)
        writer.finish(summary)
    return Result(summary, sorted(writer.samples, key=lambda s: s.index), Run(out))
