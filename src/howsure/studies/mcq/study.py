"""Multiple choice: does the model find the right answer the likeliest, and should it be so sure?"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any

from howsure.errors import MissingCapability
from howsure.evidence import Outcome, TokenLogprobs
from howsure.measures import choice_scores, normalised_choices
from howsure.models.contract import MODEL, Capability, Failure, Message, Model, ModelOptions, ScoreItem
from howsure.options import Opt
from howsure.runs import Engine, Sample
from howsure.runs.run import Batch, PairOptions, PathLike, Plan
from howsure.storage import absolute, check_writable
from howsure.studies.mcq.comparison import McqComparison, compare, comparison_document, deliver
from howsure.studies.mcq.data import Item, Questions, read_questions
from howsure.studies.mcq.judge import McqSummary, judge
from howsure.studies.mcq.record import McqEvidence, McqRecord
from howsure.studies.study import Study, batch_of

DEFAULT_PROMPT = "{question}\nAnswer:"
DEFAULT_CHAT_PROMPT = "{question}"


def _no_question(prompt: str) -> str | None:
    return None if "{question}" in prompt else f"{prompt!r} has no {{question}} in it"


@dataclass(frozen=True)
class McqOptions(PairOptions, ModelOptions):
    """How questions are put, and to whom."""

    data: Annotated[
        PathLike,
        Opt(
            "JSON lines: question, choices, answer_index; image_path, id, group.",
            argument=True,
            path="any",
            identity="no",
        ),
    ]
    model: Annotated[str | Model, MODEL] = "smollm2"
    _: KW_ONLY
    output_json: Annotated[
        PathLike | None,
        Opt("Write all figures and one result per question into this file.", path="local", identity="no"),
    ] = None
    prompt: Annotated[
        str | None,
        Opt(
            "Template over {question}; \\n is a new line. Each choice follows after one space, or directly where the "
            "template ends in white space or --chat is given. Default: {question}\\nAnswer: (with --chat: {question}).",
            check=_no_question,
            escapes=True,
            identity="always",
        ),
    ] = None
    chat: Annotated[
        bool,
        Opt(
            "Ask through the model's chat template; a choice is its answer.",
            flags=("--chat/--no-chat",),
            identity="always",
        ),
    ] = False
    pmi: Annotated[
        bool,
        Opt("Score the choices without their question too, for PMI (minus unconditional score).", identity="always"),
    ] = True
    image_root: Annotated[
        PathLike | None,
        Opt(
            "Folder that image paths are relative to. Default: that of DATA, then the working directory.",
            path="any",
            identity="no",
        ),
    ] = None
    cluster: Annotated[
        str | None,
        Opt(
            "A field of the data, such as passage: questions with the same value in it are one unit in all intervals, "
            "as those about one image always are.",
            metavar="FIELD",
        ),
    ] = None
    max_samples: Annotated[int | None, Opt("Score at most N questions.", least=1, identity="always")] = None
    batch_size: Annotated[
        int | None,
        Opt("At most N questions together. Default: as many as the token budget holds.", least=1, identity="always"),
    ] = None
    skip_bad: Annotated[bool, Opt("Skip bad lines; accuracy counts them as not right.", identity="always")] = False

    @property
    def template(self) -> str:
        return self.prompt or (DEFAULT_CHAT_PROMPT if self.chat else DEFAULT_PROMPT)

    @property
    def lead(self) -> str:
        """What stands before a choice: one space, but nothing where the template ends in white space of its own,
        and nothing where the choice begins the assistant's answer."""
        return "" if self.chat or self.template[-1:].isspace() else " "


class McqStudy(Study[McqOptions, Item, McqRecord]):
    """Multiple choice: is the right answer the likeliest, by how much, and should the model be so sure?

    Every choice is scored as a continuation of its question; the question and its image are run once. The same command
    resumes a stopped run. Two checkpoints: --model-b, or later `howsure compare`.

    Question   how much likelier is one answer than the others, by the model's own probabilities, and is it right?
    Data       JSON lines: `question`, `choices`, `answer_index`; `image_path`, `id` and `group` if you like
    Units      questions, those about one image or of one `cluster` together
    Asks       `score`: every choice as a continuation of the question, by teacher forcing; nothing is generated
    Measure    the choice with the largest sum of token log-probabilities; margin = best − second, in nats
    Comes out  accuracy by four scores, margin, calibration, risk–coverage, all per group; two checkpoints side by side

    Example: howsure mcq questions.jsonl --model smollm2 --out runs/first
    """

    name, options, record, summary = "mcq", McqOptions, McqRecord, McqSummary
    comparison = McqComparison
    evidence, looks_ahead = McqEvidence, True

    def read(self, options: McqOptions, engine: Engine) -> Questions:
        if options.output_json is not None:
            check_writable("--output-json", options.output_json)
        return read_questions(
            options.data,
            max_samples=options.max_samples,
            skip_bad=options.skip_bad,
            image_root=options.image_root,
            cluster=options.cluster,
        )

    def plan(self, items: Questions, model: Model, options: McqOptions) -> Plan[McqOptions]:
        options = options.with_(prompt=options.template)
        _require(model, items, options)
        plan = model.plan_scores([score_item(item, options) for item in items.items])
        most = options.batch_size or len(items.items)
        batches = [
            batch_of(items.items, batch.indices[start : start + most])
            for batch in plan.batches
            for start in range(0, len(batch.indices), most)
        ]
        refused = [batch_of(items.items, (i,), failure) for i, failure in plan.refused.items()]

        def cost() -> dict[str, int]:
            """The choices by themselves are counted too."""
            alone = [model.plan_scores(wanted) for b in batches if (wanted := unconditional_items(b.items, options))]
            taken = {
                "items": len(items.items),
                "model_calls": len(batches) + sum(len(one.batches) for one in alone),
                "tokens": plan.tokens + sum(one.tokens for one in alone),
            }
            more = {"images": items.image_count, "items_that_will_fail": len(refused)}
            return taken | {name: count for name, count in more.items() if count}

        return Plan([*batches, *refused], options, len(items.items), cost=cost)

    def prefetch(self, model: Model, batch: Batch, how: McqOptions) -> None:
        """The model can read the images of the next questions meanwhile."""
        model.prefetch([score_item(item, how) for item in batch.items])

    def ask(self, model: Model, batch: Batch, how: McqOptions) -> list[Sample[McqRecord]]:
        scored = model.try_score([score_item(item, how) for item in batch.items])
        alone = score_alone(model, batch.items, how)
        rows = zip(batch.indices, batch.items, scored, strict=True)
        return [to_sample(index, item, found, _alone_of(item, alone, how)) for index, item, found in rows]

    def about(self, item: Item) -> McqRecord:
        image = item.image
        return McqRecord(
            question=item.question,
            choices=list(item.choices),
            answer_index=item.answer_index,
            group=item.group,
            cluster=item.cluster,
            image_path=None if image is None else absolute(image.path),
            image_sha256=None if image is None else image.sha256,
        )

    def judge(self, samples: Sequence[Sample[McqRecord]], options: McqOptions, items: Questions) -> McqSummary:
        return judge(samples, skipped=items.skipped, seed=options.seed)

    def compare(self, a: Any, b: Any) -> McqComparison:
        return compare(a, b)

    def comparison_document(self, comparison: McqComparison) -> dict[str, Any]:
        return comparison_document(comparison)

    def demo(self, model: Model, data: Path) -> McqOptions:
        return McqOptions(data / "demo_mcq.jsonl", model)

    def deliver(self, result: Any, options: McqOptions) -> None:
        if options.output_json is not None:
            deliver(result, options.output_json)


MCQ = McqStudy()


def _require(model: Model, questions: Questions, options: McqOptions) -> None:
    """Refuse in one sentence, before any work, what the model cannot do."""
    model.require(Capability.SCORE, "mcq")
    if questions.image_count and not model.takes_images:
        count, total = questions.image_count, len(questions.items)
        raise MissingCapability(
            f"{count} of {total} questions have an image, and {model.name!r} reads text only: take an image-text model"
        )
    if options.chat and not model.takes_chat:
        raise MissingCapability(f"--chat needs a chat template, and {model.name!r} has none: leave --chat out")


def score_item(item: Item, options: McqOptions) -> ScoreItem:
    """The question through the template, its image, and each choice as a continuation."""
    text = options.template.replace("{question}", item.question)
    prefix = (Message("user", text),) if options.chat else text
    return ScoreItem(prefix, tuple(f"{options.lead}{choice}" for choice in item.choices), item.image)


# -- choices by themselves, for PMI -----------------------------------------------------------------------------


def unconditional_items(items: Sequence[Item], options: McqOptions) -> list[ScoreItem]:
    """The choices of a batch of questions without any question: one item a question, of what is new in it."""
    if not options.pmi:
        return []
    seen: set[str] = set()
    wanted = []
    for item in items:
        new = tuple(choice for choice in item.choices if choice not in seen)
        seen.update(new)
        if new:
            wanted.append(ScoreItem("", tuple(f"{options.lead}{choice}" for choice in new)))
    return wanted


Unconditional = dict[str, float | Failure]
"""For each continuation its log-likelihood without a question, or why it has none."""


def score_alone(model: Model, items: Sequence[Item], options: McqOptions) -> Unconditional:
    alone: Unconditional = {}
    wanted = unconditional_items(items, options)
    scored = model.try_score(wanted) if wanted else []
    for asked, result in zip(wanted, scored, strict=True):
        for i, text in enumerate(asked.continuations):
            alone[text] = result if isinstance(result, Failure) else 0.0 - result[i].nll_nats
    return alone


def _alone_of(item: Item, alone: Unconditional, options: McqOptions) -> list[float] | Failure | None:
    """The unconditional log-likelihoods of a question's choices; a failure where one of them has none."""
    if not options.pmi:
        return None
    values: list[float] = []
    for choice in item.choices:
        value = alone[f"{options.lead}{choice}"]
        if isinstance(value, Failure):
            return value
        values.append(value)
    return values


# -- samples ----------------------------------------------------------------------------------------------------


def to_sample(
    index: int,
    item: Item,
    scored: Sequence[TokenLogprobs] | Failure,
    alone: Sequence[float] | Failure | None = None,
) -> Sample[McqRecord]:
    """What the model says, judged against the answer; or why it says nothing."""
    if isinstance(scored, Failure):
        return MCQ.failed(index, item, scored, None)
    evidence = {"choices": [choice.to_dict() for choice in scored]}
    record = MCQ.about(item)
    values = [0.0 - choice.nll_nats for choice in scored]
    empty = next((i for i, choice in enumerate(scored) if not len(choice)), None)
    if empty is not None:
        detail = f"choices[{empty}] has no tokens in this model's vocabulary, so that nothing can be said of it"
        return Sample(item.id, index, record, evidence, reason="no_tokens", detail=detail)
    if max(values) == -math.inf:
        detail = "every choice has probability zero"
        return Sample(item.id, index, record, evidence, reason="no_likely_choice", detail=detail)
    scores = choice_scores(values)
    record.token_counts = [len(choice) for choice in scored]
    record.byte_counts = [len(choice.encode()) for choice in item.choices]
    known = None if alone is None or isinstance(alone, Failure) else list(alone)
    others = normalised_choices(values, record.token_counts, record.byte_counts, known)
    record.predicted_index = scores.predicted_index
    record.log_likelihoods = [_finite(value) for value in values]
    record.correct = scores.predicted_index == item.answer_index
    record.margin = _bounded(scores.margin_nats)
    record.tie = scores.tie
    record.confidence = scores.confidence
    record.entropy_nats = scores.entropy_nats
    record.predicted_index_per_token = others.per_token
    record.predicted_index_per_byte = others.per_byte
    record.predicted_index_pmi = others.pmi
    record.unconditional_log_likelihoods = None if known is None else [_finite(value) for value in known]
    record.pmi_missing = _why_no_pmi(alone, others.pmi)
    record.straddled = any(choice.prefix_chars for choice in scored)
    return Sample(item.id, index, record, evidence, Outcome(correct=record.correct))


def _why_no_pmi(alone: Sequence[float] | Failure | None, pmi: int | None) -> str | None:
    if pmi is not None:
        return None
    if alone is None:
        return "not_asked"
    return alone.reason if isinstance(alone, Failure) else "choice_of_probability_zero"


def _finite(log_likelihood: float) -> float:
    """JSON has no infinity; the logarithm of zero is written as the lowest number there is."""
    return max(log_likelihood, -sys.float_info.max)


def _bounded(margin_nats: float | None) -> float | None:
    """Over a choice of probability zero the margin knows no bound; it is None then, and counted."""
    return margin_nats if margin_nats is not None and math.isfinite(margin_nats) else None
