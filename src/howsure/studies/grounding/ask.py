"""Asking: one click for each screen and instruction, judged against where it belongs, as one sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from howsure.errors import UnusableImage
from howsure.evidence import Outcome
from howsure.measures import click_distances, in_box, in_polygon
from howsure.models.contract import Answer, Capability, Click, ClickRequest, Failure, Message, Model
from howsure.runs import Sample
from howsure.storage import absolute
from howsure.studies.grounding.answers import compat, parse
from howsure.studies.grounding.answers.readings import Reading
from howsure.studies.grounding.frames import FRAMES, Frame, qwen25_seen_size
from howsure.studies.grounding.items import FRAME, Item, Place, Target
from howsure.studies.grounding.judging.confidence import COORDINATE_KINDS, NOT_ALIGNED, Sureness, coordinate_confidence
from howsure.studies.grounding.judging.spread import Sampled, sampled_confidence
from howsure.studies.grounding.prompts import document_prompt, fill
from howsure.studies.pairs import seed_of

ALTERNATIVES = 5
"""Tokens that might have been written instead, kept for each that was."""

PARSERS = ("strict", "compat")


def read(answer: Answer, parser: str) -> Reading:
    """What an answer says. Strictly, a number at the end of one that the token limit ended might have gone on."""
    text = answer.text or ""
    if parser == "compat":
        return compat.read_answer(text)
    return parse.read_answer(text, cut_short=answer.finish_reason == "length")


class Asking(NamedTuple):
    """How screens are shown and answers taken.

    frame        the frame that the model writes in
    template     the user's own prompt; None is the document's, or what comes with the data
    may_refuse   whether the prompt allows the answer that there is nothing to click
    samples      how many more answers are drawn, at `temperature`
    logprobs     whether the probabilities of the answer's tokens are asked for
    seed         what the draws of this batch begin with
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
    seed: int = 0
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


class Answered(NamedTuple):
    """What was found for one item, before it is set against the target: a place in the 0–1000 frame, or none."""

    says: str
    place: Place | None
    fields: dict[str, Any]
    confidence: dict[str, float | None]
    missing: dict[str, str]
    evidence: dict[str, Any]


def ask(model: Model, indices: Sequence[int], items: Sequence[Item], how: Asking) -> list[Sample]:
    """One sample for each item of a batch: a pure function of the batch, so that it can be done again."""
    if Capability.CLICK in model.capabilities:
        clicks = model.click([ClickRequest(item.instruction, item.image) for item in items])
        found = [clicked(item, one) for item, one in zip(items, clicks, strict=True)]
    else:
        found = _written(model, items, how)
    rows = zip(indices, items, found, strict=True)
    return [to_sample(index, item, one, how.delta) for index, item, one in rows]


# -- a model that clicks --------------------------------------------------------------------------------------------


def clicked(item: Item, click: Click | Failure) -> Answered | Failure:
    if isinstance(click, Failure):
        return click
    place = _scaled((click.x_px, click.y_px), (item.image.width, item.image.height))
    fields = {"pred_raw": None, "pred_content": click.matched, "form": click.how, "why_not": None}
    return Answered("point", place, fields, {"match": click.confidence}, {}, {})


# -- a model that writes --------------------------------------------------------------------------------------------


def _written(model: Model, items: Sequence[Item], how: Asking) -> list[Answered | Failure]:
    """The likeliest answer to each, then the drawn ones."""
    top = ALTERNATIVES if how.logprobs else None
    conversations = [how.conversation(item) for item in items]
    answers = model.generate(conversations, max_tokens=how.max_new_tokens, top_logprobs=top, seed=seed_of(how.seed))
    drawn = _drawn(model, conversations, answers, how)
    return [_read(model, item, answer, more, how) for item, answer, more in zip(items, answers, drawn, strict=True)]


def _drawn(
    model: Model, conversations: Sequence[tuple[Message, ...]], answers: Sequence[Answer], how: Asking
) -> list[list[Answer]]:
    """More answers to what was answered. A server would give the same answer to the same seed, so every round has a
    seed of its own."""
    answered = [i for i, answer in enumerate(answers) if answer.text is not None]
    drawn: list[list[Answer]] = [[] for _ in answers]
    for number in range(how.samples if answered else 0):
        more = model.generate(
            [conversations[i] for i in answered],
            max_tokens=how.max_new_tokens,
            temperature=how.temperature,
            top_logprobs=None,
            seed=seed_of(how.seed, 1 + number),
        )
        for i, answer in zip(answered, more, strict=True):
            drawn[i].append(answer)
    return drawn


def _read(model: Model, item: Item, answer: Answer, drawn: Sequence[Answer], how: Asking) -> Answered | Failure:
    if answer.text is None:
        return Failure("no_answer", answer.failure or "the model gave no answer")
    reading = read(answer, how.parser)
    try:
        place = _place(model, item, reading, how)
    except UnusableImage as error:  # nobody knows what a server made of it
        return Failure("unusable_image", str(error))
    fields: dict[str, Any] = {
        "pred_raw": answer.text,
        "pred_content": reading.content,
        "form": reading.form,
        "why_not": reading.why_not,
        "finish_reason": answer.finish_reason,
    }
    evidence: dict[str, Any] = {} if answer.logprobs is None else {"answer": answer.logprobs.to_dict()}
    confidence, missing = _sureness(answer, reading, how)
    if how.samples:
        sampled = _sampled(model, item, drawn, how)
        found = sampled_confidence(reading.says, place, sampled, delta=how.delta)
        confidence |= found.confidence
        missing |= found.missing
        fields["samples"] = sampled.to_dict()
        evidence["samples"] = [{"text": one.text, "failure": one.failure} for one in drawn]
    return Answered(reading.says, place, fields, confidence, missing, evidence)


def _sureness(answer: Answer, reading: Reading, how: Asking) -> tuple[dict[str, float | None], dict[str, str]]:
    if not how.logprobs:
        return {}, {}
    if answer.not_aligned:
        found = Sureness.none(COORDINATE_KINDS, NOT_ALIGNED)
    else:
        found = coordinate_confidence(answer.text or "", answer.logprobs, reading.spans)
    return dict(found.confidence), dict(found.missing)


def _sampled(model: Model, item: Item, drawn: Sequence[Answer], how: Asking) -> Sampled:
    readings = [read(one, how.parser) for one in drawn if one.text is not None]
    places = [place for reading in readings if (place := _place(model, item, reading, how)) is not None]
    return Sampled(
        asked=len(drawn),
        points=tuple(places),
        wrong_format=sum(reading.says == "wrong_format" for reading in readings),
        refusals=sum(reading.says == "refusal" for reading in readings),
        failed=len(drawn) - len(readings),
    )


def _place(model: Model, item: Item, reading: Reading, how: Asking) -> Place | None:
    """The point in the 0–1000 frame, from the frame that it was written in."""
    size = (item.image.width, item.image.height)
    seen = model.seen_size(item.image) if how.frame.needs_seen_size else None
    if how.frame.needs_seen_size and seen is None and model.remote:
        seen = qwen25_seen_size(size, how.server_max_pixels)
    return how.frame.place_of(reading, image_size=size, seen_size=seen)


def _scaled(place: Place, size: tuple[int, int]) -> Place:
    return place[0] / size[0] * FRAME, place[1] / size[1] * FRAME


# -- against the target ---------------------------------------------------------------------------------------------


def to_sample(index: int, item: Item, found: Answered | Failure, delta: float) -> Sample:
    """What the model did, judged; or why it did nothing."""
    if isinstance(found, Failure):
        return Sample(item.id, index, about(item), reason=found.reason, detail=found.detail)
    result = about(item) | found.fields
    result |= {"pred_coord": None if found.place is None else list(found.place), "says": found.says}
    result |= {"confidence": found.confidence, "confidence_missing": found.missing}
    result |= _judged(item.target, found, delta)
    outcome = Outcome(correct=result["hit"], distance=result["l2"])
    return Sample(item.id, index, result, found.evidence, outcome)


def _judged(target: Target, found: Answered, delta: float) -> dict[str, Any]:
    if target.kind == "refusal":
        return {"l2": None, "within_delta": None, "inside": None, "hit": found.says == "refusal"}
    l2 = None
    if found.place is not None and target.centre is not None:
        l2 = float(click_distances([found.place], [target.centre])[0])
    within = l2 is not None and l2 <= delta
    inside = (found.place is not None and holds(target, found.place)) if target.is_region else None
    return {"l2": l2, "within_delta": within, "inside": inside, "hit": within if inside is None else inside}


def holds(target: Target, place: Place) -> bool:
    """Whether a place lies in a box or polygon, its border included."""
    if target.kind == "box":
        return bool(in_box([place], [target.coords])[0])
    return bool(in_polygon(place, list(zip(target.coords[0::2], target.coords[1::2], strict=True))))


def about(item: Item) -> dict[str, Any]:
    """What a sample says of its item, answered or not."""
    centre = item.target.centre
    return {
        "instruction": item.instruction,
        "labels": {kind: list(values) for kind, values in item.labels.items()},
        "image_path": absolute(item.image.path),
        "image_sha256": item.image.sha256,
        "image_size": [item.image.width, item.image.height],
        "target": {"kind": item.target.kind, "coords": list(item.target.coords)},
        "gt_coord": None if centre is None else list(centre),
        "gt_content": item.content,
    }
