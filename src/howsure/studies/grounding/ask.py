"""Asking: one click for each screen and instruction, judged against where it belongs, as one sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from howsure.errors import UnusableImage
from howsure.evidence import Outcome
from howsure.measures import click_distances, in_box, in_polygon
from howsure.models.contract import Answer, Capability, Click, ClickRequest, Failure, Message, Model
from howsure.runs import Sample
from howsure.runs.run import Batch
from howsure.storage import absolute
from howsure.studies.grounding.answers import compat, parse
from howsure.studies.grounding.answers.parse import Reading
from howsure.studies.grounding.confidence import (
    COORDINATE_KINDS,
    NOT_ALIGNED,
    Sureness,
    coordinate_confidence,
    sampled_confidence,
)
from howsure.studies.grounding.frames import FRAMES, Frame, document_prompt, fill, qwen25_seen_size
from howsure.studies.grounding.record import (
    FRAME,
    Confidence,
    ConfidenceMissing,
    GroundingRecord,
    Item,
    Place,
    Sampled,
    Target,
)
from howsure.studies.study import seed_of

ALTERNATIVES = 5
"""Tokens that might have been written instead, kept for each that was."""


class Asking(NamedTuple):
    """How screens are shown and answers taken.

    frame        the frame that the model writes in
    template     the user's own prompt; None is the document's, or what comes with the data
    may_refuse   whether the prompt allows the answer that there is nothing to click
    samples      how many more answers are drawn, at `temperature`
    logprobs     whether the probabilities of the answer's tokens are asked for
    """

    frame: Frame = FRAMES["relative-1000"]
    parser: str = "strict"
    delta: float = 140.0
    template: str | None = None
    may_refuse: bool = False
    max_new_tokens: int = 512
    samples: int = 0
    temperature: float = 1.0
    logprobs: bool = True
    server_max_pixels: int | None = None

    def prompt(self, item: Item) -> str:
        if self.template is not None:
            return fill(self.template, item.instruction, self.frame, self.may_refuse)
        if item.prompt is not None:
            return item.prompt
        return document_prompt(item.instruction, self.frame, may_refuse=self.may_refuse)

    def conversation(self, item: Item) -> tuple[Message, ...]:
        """One user message, the image in it before the text, whatever role the data gave it."""
        return (Message("user", self.prompt(item), (item.image,)),)


def ask(model: Model, batch: Batch, how: Asking) -> list[Sample[GroundingRecord]]:
    """One sample for each item of a batch: a pure function of the batch, so that it can be done again."""
    if Capability.CLICK in model.capabilities:
        clicks = model.click([ClickRequest(item.instruction, item.image) for item in batch.items])
        answers = [clicked(item, click) for item, click in zip(batch.items, clicks, strict=True)]
    else:
        answers = _written(model, batch, how)
    rows = zip(batch.indices, batch.items, answers, strict=True)
    return [to_sample(index, item, answer, how.delta) for index, item, answer in rows]


def about(item: Item) -> GroundingRecord:
    """What a sample says of its item, answered or not."""
    return GroundingRecord(
        instruction=item.instruction,
        labels=item.labels,
        image_path=absolute(item.image.path),
        image_sha256=item.image.sha256,
        image_size=(item.image.width, item.image.height),
        target=item.target,
        gt_coord=item.target.centre,
        gt_content=item.content,
    )


Answered = tuple[GroundingRecord, dict[str, Any]] | Failure
"""What a model did about one item, before it is set against the target, with its evidence; or why it did nothing."""


def clicked(item: Item, click: Click | Failure) -> Answered:
    """Of a model that clicks."""
    if isinstance(click, Failure):
        return click
    record = about(item)
    record.pred_content, record.form, record.says = click.matched, click.how, "point"
    record.pred_coord = click.x_px / item.image.width * FRAME, click.y_px / item.image.height * FRAME
    record.confidence, record.confidence_missing = Confidence(match=click.confidence), ConfidenceMissing()
    return record, {}


# -- a model that writes --------------------------------------------------------------------------------------------


def _written(model: Model, batch: Batch, how: Asking) -> list[Answered]:
    """The likeliest answer to each, then the drawn ones.

    A server would give the same answer to the same seed, so every round has a seed of its own.
    """
    seed = 0 if batch.seed is None else batch.seed
    top = ALTERNATIVES if how.logprobs else None
    conversations = [how.conversation(item) for item in batch.items]
    answers = model.generate(conversations, max_tokens=how.max_new_tokens, top_logprobs=top, seed=seed_of(seed))
    answered = [i for i, answer in enumerate(answers) if answer.text is not None]
    drawn: list[list[Answer]] = [[] for _ in answers]
    for number in range(how.samples if answered else 0):
        more = model.generate(
            [conversations[i] for i in answered],
            max_tokens=how.max_new_tokens,
            temperature=how.temperature,
            top_logprobs=None,
            seed=seed_of(seed, 1 + number),
        )
        for i, answer in zip(answered, more, strict=True):
            drawn[i].append(answer)
    rows = zip(batch.items, answers, drawn, strict=True)
    return [_read(model, item, answer, others, how) for item, answer, others in rows]


def _read(model: Model, item: Item, answer: Answer, drawn: Sequence[Answer], how: Asking) -> Answered:
    if answer.text is None:
        return Failure("no_answer", answer.failure or "the model gave no answer")
    reading = read(answer, how.parser)
    try:
        place = _place(model, item, reading, how)
    except UnusableImage as error:  # nobody knows what a server made of it
        return Failure("unusable_image", str(error))
    record = about(item)
    record.pred_raw, record.pred_content, record.finish_reason = answer.text, reading.content, answer.finish_reason
    record.form, record.why_not, record.says, record.pred_coord = reading.form, reading.why_not, reading.says, place
    evidence: dict[str, Any] = {} if answer.logprobs is None else {"answer": answer.logprobs.to_dict()}
    sureness = Sureness({}, {})
    if how.logprobs and answer.not_aligned:
        sureness = Sureness.none(COORDINATE_KINDS, NOT_ALIGNED)
    elif how.logprobs:
        sureness = coordinate_confidence(answer.text, answer.logprobs, reading.spans)
    if how.samples:
        record.samples = _sampled(model, item, drawn, how)
        again = sampled_confidence(reading.says, place, record.samples, delta=how.delta)
        sureness = Sureness(sureness.confidence | again.confidence, sureness.missing | again.missing)
        evidence["samples"] = [{"text": one.text, "failure": one.failure} for one in drawn]
    record.confidence = Confidence(**sureness.confidence)
    record.confidence_missing = ConfidenceMissing(**sureness.missing)
    return record, evidence


def read(answer: Answer, parser: str) -> Reading:
    """What an answer says. Strictly, a number at the end of one that the token limit ended might have gone on."""
    text = answer.text or ""
    if parser == "compat":
        return compat.read_answer(text)
    return parse.read_answer(text, cut_short=answer.finish_reason == "length")


def _sampled(model: Model, item: Item, drawn: Sequence[Answer], how: Asking) -> Sampled:
    readings = [read(one, how.parser) for one in drawn if one.text is not None]
    says = [reading.says for reading in readings]
    return Sampled(
        asked=len(drawn),
        points=tuple(place for one in readings if (place := _place(model, item, one, how)) is not None),
        wrong_format=says.count("wrong_format"),
        refusals=says.count("refusal"),
        failed=len(drawn) - len(readings),
    )


def _place(model: Model, item: Item, reading: Reading, how: Asking) -> Place | None:
    """The point in the 0–1000 frame, from the frame that it was written in."""
    size = (item.image.width, item.image.height)
    seen = model.seen_size(item.image) if how.frame.needs_seen_size else None
    if how.frame.needs_seen_size and seen is None and model.remote:
        seen = qwen25_seen_size(size, how.server_max_pixels)
    return how.frame.place_of(reading, image_size=size, seen_size=seen)


# -- against the target ---------------------------------------------------------------------------------------------


def to_sample(index: int, item: Item, answered: Answered, delta: float) -> Sample[GroundingRecord]:
    """What the model did, judged; or why it did nothing."""
    if isinstance(answered, Failure):
        return Sample(item.id, index, about(item), reason=answered.reason, detail=answered.detail)
    (record, evidence), target = answered, item.target
    place, centre = record.pred_coord, target.centre
    if centre is None:
        record.hit = record.says == "refusal"
    else:
        record.l2 = None if place is None else float(click_distances([place], [centre])[0])
        record.within_delta = record.l2 is not None and record.l2 <= delta
        record.inside = (place is not None and holds(target, place)) if target.is_region else None
        record.hit = record.within_delta if record.inside is None else record.inside
    return Sample(item.id, index, record, evidence, Outcome(correct=record.hit, distance=record.l2))


def holds(target: Target, place: Place) -> bool:
    """Whether a place lies in a box or polygon, its border included."""
    if target.kind == "box":
        return bool(in_box([place], [target.coords])[0])
    return bool(in_polygon(place, target.places))
