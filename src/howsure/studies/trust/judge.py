"""The summary of a run: trust with its doubt, the actions against the shortest path, and how the answers could be read.

A pure function of the samples and of the options that the run was made with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from howsure.measures import LEAST_UNITS
from howsure.runs import Sample
from howsure.studies.trust.artefacts import MOST_FRAMES
from howsure.studies.trust.estimates import StepSummary, summarise
from howsure.studies.trust.ratio import TrustFigure, estimate
from howsure.studies.trust.record import ConditionRecord, TrustRecord
from howsure.studies.trust.steps import CONDITIONS, ENTROPIES, Step, Steps, Three
from howsure.studies.trust.verbalized import LABELS
from howsure.types import Fields

if TYPE_CHECKING:
    from howsure.studies.trust.study import TrustOptions

LITTLE_MASS = 0.1
Records = Sequence[TrustRecord]


class Reached(Fields):
    """Episodes in which the task was done."""

    count: int
    of: int


class Actions(Fields, kw_only=True):
    """What was done, and how much of it the world refused."""

    taken: dict[str, int]
    without_effect: int
    none: int


class AnswerCounts(Fields, kw_only=True):
    """How many answers of a condition gave an action and an entropy, and why the others did not."""

    asked: int
    with_action: int
    with_entropy: int
    action_missing: dict[str, int]
    entropy_missing: dict[str, int]
    retries: int


class TrustSummary(StepSummary, kw_only=True, omit_defaults=True):
    """What a run says of trust."""

    evidence: str
    view: str
    episodes_reached: Reached
    actions: Actions
    answers: dict[str, AnswerCounts]
    """By condition."""
    answer_forms: dict[str, int]
    trust_of_actions: TrustFigure | None = None
    """By log-probabilities alone: T of the entropies over the actions, onto which the alternatives are mapped."""


def judge(samples: Sequence[Sample[TrustRecord]], options: TrustOptions) -> TrustSummary:
    records = [sample.result for sample in samples]
    figures = summarise(
        [to_step(record) for record in records],
        seed=options.seed,
        notes=list(_notes(records, options)),
        qualifier=_qualifier(records, options.evidence),
    )
    reached = {record.episode: False for record in records} | {r.episode: True for r in records if r.reached}
    by_actions = None
    if options.evidence == "logprobs":
        by_actions = estimate(Steps.of([_step(record, "action_entropy_bits") for record in records]))
    return TrustSummary(
        **msgspec.structs.asdict(figures),
        evidence=options.evidence or "",
        view=options.view or "",
        episodes_reached=Reached(sum(reached.values()), len(reached)),
        actions=Actions(
            taken=_counted(record.action for record in records),
            without_effect=sum(record.moved is False for record in records),
            none=sum(record.action is None for record in records),
        ),
        answers={c.value: _answers([record.conditions[c.value] for record in records]) for c in CONDITIONS},
        answer_forms=_counted(record.answer_form for record in records),
        trust_of_actions=by_actions,
    )


def to_step(record: TrustRecord) -> Step:
    """A record as the row that every figure of trust is made of."""
    answers = zip(ENTROPIES, record.conditions.answers(), strict=True)
    return msgspec.structs.replace(
        _step(record, "entropy_bits"),
        reasons={name: answer.entropy_missing for name, answer in answers if answer.entropy_bits is None},
        exact_bits=_three(record, "exact_bits"),
        low_bits=_three(record, "low_bits"),
        high_bits=_three(record, "high_bits"),
        unlisted=_three(record, "unlisted"),
        action_probability=record.action_probability,
        confidence=record.action_confidence,
        on_shortest_path=record.on_shortest_path,
    )


def _step(record: TrustRecord, entropy: str) -> Step:
    """One of the entropies of the three answers, and what tells which steps and prompts are different."""
    return Step(
        str(record.episode),
        record.step,
        *_three(record, entropy),
        grounded=record.knowledge_count > 0,
        instructed=record.instruction is not None,
        first_episode=record.first_episode,
        chain=record.chain,
    )


def _three(record: TrustRecord, name: str) -> Three:
    bare, known, told = (getattr(answer, name) for answer in record.conditions.answers())
    return bare, known, told


def _answers(answers: Sequence[ConditionRecord]) -> AnswerCounts:
    return AnswerCounts(
        asked=len(answers),
        with_action=sum(one.action is not None for one in answers),
        with_entropy=sum(one.entropy_bits is not None for one in answers),
        action_missing=_counted(one.action_missing for one in answers),
        entropy_missing=_counted(one.entropy_missing for one in answers),
        retries=sum(one.retries for one in answers if one.retries is not None),
    )


def _counted(words: Iterable[str | None]) -> dict[str, int]:
    return dict(sorted(Counter(word for word in words if word is not None).items()))


# -- notes --------------------------------------------------------------------------------------------------------


def _notes(records: Records, options: TrustOptions) -> Iterator[str]:
    """What a reader of the figures must know about how they came about."""
    yield from _about_prompts(records, options)
    yield from _about_knowledge(records, options)
    yield from _about_answers(records, options.evidence)
    if options.frames and len(records) >= MOST_FRAMES:
        yield f"the replay holds the first {MOST_FRAMES} frames; all others are in the folder frames"


def _about_prompts(records: Records, options: TrustOptions) -> Iterator[str]:
    total = len(records)
    ungrounded = sum(record.knowledge_count == 0 for record in records)
    if ungrounded:
        what = "no step has any" if ungrounded == total else f"{ungrounded} of {total} steps have no"
        yield f"{what} grounding, so X and X|S are the same prompt there: --grounding FILE gives some"
    untold = sum(record.instruction is None for record in records)
    if untold:
        yield f"{untold} of {total} steps have no instruction: --instruction gives one"
    again = sum(record.first_asked != record.step for record in records)
    if again:
        way_out = ": --act sample leaves such places sooner" if options.act == "best" else ""
        yield (
            f"{again} of {total} steps asked word for word what an earlier step of the episode had asked, which "
            f"tells nothing new{way_out}"
        )
    latest = {record.episode: record.first_episode for record in records}
    complete = [bits for record in records if None not in (bits := _three(record, "entropy_bits"))]
    if options.act == "sample" and len(latest) > 1 and 2 * len(set(complete)) <= len(complete):
        yield (
            f"the {len(complete)} complete steps hold {len(set(complete))} different measurements: episodes that begin "
            "in one place ask the same there"
        )
    copies = sum(first != episode for episode, first in latest.items())
    if copies:
        yield (
            f"{copies} of {len(latest)} episodes asked word for word what an earlier one had asked, and tell nothing "
            "new: --act sample makes them different"
        )
    if options.carry and len(latest) > 1:
        yield (
            "with --carry each episode begins with what was known at the end of the one before, so that all of them "
            "count as one"
        )
    elif 0 < len(latest) < LEAST_UNITS:
        yield f"T and intervals take at least {LEAST_UNITS} different episodes: --episodes 10 --act sample gives some"


def _about_knowledge(records: Records, options: TrustOptions) -> Iterator[str]:
    if options.own_grounding and options.evidence == "scored":
        yield "scored answers write nothing, so there was nothing of the model's own grounding to keep"
    refused = sum(one.refused is not None for record in records for one in record.learned)
    if refused:
        what = "1 new sentence of knowledge repeats" if refused == 1 else f"{refused} new sentences of knowledge repeat"
        yield f"{what} the instruction or the model's notes, and {'was' if refused == 1 else 'were'} not kept"
    left_out = len({(record.episode, one) for record in records for one in record.left_out})
    if left_out:
        what = "1 sentence of the grounding holds" if left_out == 1 else f"{left_out} sentences of the grounding hold"
        yield f"{what} an instruction, and {'was' if left_out == 1 else 'were'} left out in that episode"


def _about_answers(records: Records, evidence: str | None) -> Iterator[str]:
    tied = sum(record.conditions.x_given_ls.tied is True for record in records)
    if tied:
        what = "1 action is" if tied == 1 else f"{tied} actions are"
        yield f"{what} the first of several that were given the same probability"
    beyond = sum(1 for one in records if one.best_actions and set(one.best_actions).isdisjoint(LABELS))
    if evidence == "verbalized" and beyond:
        yield (
            f"at {beyond} of {len(records)} steps the shortest way goes on with an action that is no direction, which "
            "these answers cannot name: --evidence logprobs can"
        )
    if (mass := _little_mass(records, evidence)) is not None:
        yield (
            f"left to itself the model would hardly answer with an action (all together have {_percent(mass)} of its "
            "probability): the entropies are those among the actions alone"
        )
    if (other := _much_else(records, evidence)) is not None:
        yield (
            f"{other:.0%} of the probability lies on what is no allowed action, which the entropies count too: "
            "entropy_action and trust_T_action in steps.csv take it as one outcome"
        )


def _qualifier(records: Records, evidence: str | None) -> str | None:
    """What every entropy of this run is of, where that is little of what the model would say."""
    if (mass := _little_mass(records, evidence)) is not None:
        return f"among actions, which have {_percent(mass)} of the probability"
    if (other := _much_else(records, evidence)) is not None:
        return f"{other:.0%} of the probability is on no allowed action"
    return None


def _little_mass(records: Records, evidence: str | None) -> float | None:
    """The probability of all actions together, where it is little."""
    mass = mean(one.allowed_mass for one in _conditions(records))
    return mass if evidence == "scored" and mass is not None and mass < LITTLE_MASS else None


def _much_else(records: Records, evidence: str | None) -> float | None:
    """The probability of what is no allowed action, where it is most of it."""
    other = mean(one.other for one in _conditions(records))
    return other if evidence == "logprobs" and other is not None and other > 0.5 else None


def _conditions(records: Records) -> Iterator[ConditionRecord]:
    return (answer for record in records for answer in record.conditions.answers())


def mean(values: Iterable[float | None]) -> float | None:
    """Of those that are known."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _percent(share: float) -> str:
    return f"{share:.2%}" if share >= 1e-4 else "less than 0.01%"
