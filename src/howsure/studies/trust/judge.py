"""The summary of a run: trust with its doubt, the actions against the shortest path, and how the answers could be read.

A pure function of the samples and of the options that the run was made with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from howsure.measures import LEAST_UNITS
from howsure.runs import Sample
from howsure.studies.trust.estimates import trust_summary
from howsure.studies.trust.prompts import CONDITIONS
from howsure.studies.trust.ratio import estimate
from howsure.studies.trust.replay import MOST_FRAMES
from howsure.studies.trust.steps import ENTROPIES, Step, Steps, Three
from howsure.studies.trust.verbalized import LABELS

LITTLE_MASS = 0.1


def judge(samples: Sequence[Sample], options: dict[str, Any], *, seed: int) -> dict[str, Any]:
    more: dict[str, Any] = {}
    if options["evidence"] == "logprobs":
        more = {"trust_of_actions": estimate(Steps.of([_step(sample, "action_entropy_bits") for sample in samples]))}
    return trust_summary(
        [to_step(sample) for sample in samples],
        seed=seed,
        notes=list(_notes(samples, options)),
        qualifier=_qualifier(samples, options["evidence"]),
        evidence=options["evidence"],
        view=options["view"],
        episodes_reached=_reached(samples),
        actions=_actions(samples),
        answers=_answers(samples),
        answer_forms=_counted(sample.result["answer_form"] for sample in samples),
        **more,
    )


def to_step(sample: Sample) -> Step:
    """A sample as the row that every figure of trust is made of."""
    result = sample.result
    found = [result["conditions"][condition.value] for condition in CONDITIONS]
    reasons = {
        name: one["entropy_missing"] for name, one in zip(ENTROPIES, found, strict=True) if one["entropy_bits"] is None
    }
    return msgspec.structs.replace(
        _step(sample, "entropy_bits"),
        reasons=reasons,
        exact_bits=_three(sample, "exact_bits"),
        low_bits=_three(sample, "low_bits"),
        high_bits=_three(sample, "high_bits"),
        unlisted=_three(sample, "unlisted"),
        action_probability=result["action_probability"],
        confidence=result.get("action_confidence"),
        on_shortest_path=result["on_shortest_path"],
    )


def _step(sample: Sample, entropy: str) -> Step:
    """One of the entropies of a sample's three answers, and what tells which steps and prompts are different."""
    result = sample.result
    return Step(
        str(result["episode"]),
        result["step"],
        *_three(sample, entropy),
        grounded=result["knowledge_count"] > 0,
        instructed=result["instruction"] is not None,
        first_episode=result["first_episode"],
        chain=result.get("chain"),
    )


def _three(sample: Sample, name: str) -> Three:
    bare, known, told = (sample.result["conditions"][condition.value].get(name) for condition in CONDITIONS)
    return bare, known, told


def _reached(samples: Sequence[Sample]) -> dict[str, int]:
    episodes: dict[int, bool] = {}
    for sample in samples:
        number = sample.result["episode"]
        episodes[number] = episodes.get(number, False) or bool(sample.result["reached"])
    return {"count": sum(episodes.values()), "of": len(episodes)}


def _actions(samples: Sequence[Sample]) -> dict[str, Any]:
    """What was done, and how much of it the world refused."""
    taken = Counter(sample.result["action"] for sample in samples if sample.result["action"] is not None)
    return {
        "taken": dict(sorted(taken.items())),
        "without_effect": sum(sample.result["moved"] is False for sample in samples),
        "none": sum(sample.result["action"] is None for sample in samples),
    }


def _answers(samples: Sequence[Sample]) -> dict[str, Any]:
    """For each condition, how many answers gave an action and an entropy, and why the others did not."""
    found = {}
    for condition in CONDITIONS:
        of = [sample.result["conditions"][condition.value] for sample in samples]
        found[condition.value] = {
            "asked": len(of),
            "with_action": sum(one["action"] is not None for one in of),
            "with_entropy": sum(one["entropy_bits"] is not None for one in of),
            "action_missing": _counted(one["action_missing"] for one in of),
            "entropy_missing": _counted(one["entropy_missing"] for one in of),
            "retries": sum(one.get("retries", 0) for one in of),
        }
    return found


def _counted(reasons: Iterator[str | None]) -> dict[str, int]:
    return dict(sorted(Counter(reason for reason in reasons if reason is not None).items()))


def _notes(samples: Sequence[Sample], options: dict[str, Any]) -> Iterator[str]:
    """What a reader of the figures must know about how they came about."""
    yield from _about_prompts(samples, options)
    yield from _about_knowledge(samples, options)
    yield from _about_answers(samples, options["evidence"])
    if options["frames"] and len(samples) >= MOST_FRAMES:
        yield f"the replay holds the first {MOST_FRAMES} frames; all others are in the folder frames"


def _about_prompts(samples: Sequence[Sample], options: dict[str, Any]) -> Iterator[str]:
    total = len(samples)
    ungrounded = sum(sample.result["knowledge_count"] == 0 for sample in samples)
    if ungrounded:
        what = "no step has any" if ungrounded == total else f"{ungrounded} of {total} steps have no"
        yield f"{what} grounding, so X and X|S are the same prompt there: --grounding FILE gives some"
    untold = sum(sample.result["instruction"] is None for sample in samples)
    if untold:
        yield f"{untold} of {total} steps have no instruction: --instruction gives one"
    again = sum(sample.result["first_asked"] != sample.result["step"] for sample in samples)
    if again:
        way_out = ": --act sample leaves such places sooner" if options["act"] == "best" else ""
        yield (
            f"{again} of {total} steps asked word for word what an earlier step of the episode had asked, which "
            f"tells nothing new{way_out}"
        )
    latest = {sample.result["episode"]: sample.result["first_episode"] for sample in samples}
    complete = [bits for sample in samples if None not in (bits := to_step(sample).bits)]
    if options["act"] == "sample" and len(latest) > 1 and 2 * len(set(complete)) <= len(complete):
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
    if options["carry"] and len(latest) > 1:
        yield (
            "with --carry each episode begins with what was known at the end of the one before, so that all of them "
            "hang together and count as one"
        )
    elif 0 < len(latest) < LEAST_UNITS:
        yield f"T and intervals take at least {LEAST_UNITS} different episodes: --episodes 10 --act sample gives some"


def _about_knowledge(samples: Sequence[Sample], options: dict[str, Any]) -> Iterator[str]:
    if options["own_grounding"] and options["evidence"] == "scored":
        yield "scored answers write nothing, so there was nothing of the model's own grounding to keep"
    refused = sum("refused" in one for sample in samples for one in sample.result["learned"])
    if refused:
        what = "1 new sentence of knowledge repeats" if refused == 1 else f"{refused} new sentences of knowledge repeat"
        yield f"{what} the instruction or the model's notes, and {'was' if refused == 1 else 'were'} not kept"
    left_out = len({(s.result["episode"], one) for s in samples for one in s.result["left_out"]})
    if left_out:
        what = "1 sentence of the grounding holds" if left_out == 1 else f"{left_out} sentences of the grounding hold"
        yield f"{what} an instruction, and {'was' if left_out == 1 else 'were'} left out in that episode"


def _about_answers(samples: Sequence[Sample], evidence: str) -> Iterator[str]:
    tied = sum(sample.result["conditions"]["X|L,S"].get("tied", False) for sample in samples)
    if tied:
        what = "1 action is" if tied == 1 else f"{tied} actions are"
        yield f"{what} the first of several that were given the same probability"
    beyond = sum(not _can_be_named(sample.result["best_actions"]) for sample in samples)
    if evidence == "verbalized" and beyond:
        yield (
            f"at {beyond} of {len(samples)} steps the shortest way goes on with an action that is no direction, which "
            "these answers cannot name: --evidence logprobs can"
        )
    if (mass := _little_mass(samples, evidence)) is not None:
        yield (
            f"left to itself the model would hardly answer with an action (all together have {_percent(mass)} of its "
            "probability): the entropies are those among the actions alone"
        )
    if (other := _much_else(samples, evidence)) is not None:
        yield (
            f"{other:.0%} of the probability lies on what is no allowed action, which the entropies count too: "
            "entropy_action and trust_T_action in steps.csv take it as one outcome"
        )


def _qualifier(samples: Sequence[Sample], evidence: str) -> str | None:
    """What every entropy of this run is of, where that is little of what the model would say."""
    if (mass := _little_mass(samples, evidence)) is not None:
        return f"among actions, which have {_percent(mass)} of the probability"
    if (other := _much_else(samples, evidence)) is not None:
        return f"{other:.0%} of the probability is on no allowed action"
    return None


def _little_mass(samples: Sequence[Sample], evidence: str) -> float | None:
    """The probability of all actions together, where it is little."""
    mass = _mean(one.get("allowed_mass") for one in _conditions(samples))
    return mass if evidence == "scored" and mass is not None and mass < LITTLE_MASS else None


def _much_else(samples: Sequence[Sample], evidence: str) -> float | None:
    """The probability of what is no allowed action, where it is most of it."""
    other = _mean(one.get("other") for one in _conditions(samples))
    return other if evidence == "logprobs" and other is not None and other > 0.5 else None


def _conditions(samples: Sequence[Sample]) -> Iterator[dict[str, Any]]:
    return (sample.result["conditions"][condition.value] for sample in samples for condition in CONDITIONS)


def _can_be_named(best: list[str] | None) -> bool:
    return not best or any(action in LABELS for action in best)


def _mean(values: Iterator[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _percent(share: float) -> str:
    return f"{share:.2%}" if share >= 1e-4 else "less than 0.01%"
