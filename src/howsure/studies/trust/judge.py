"""The summary of a run: trust with its doubt, the actions against the shortest path, and how the answers could be read.

A pure function of the samples and of the options that the run was made with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from howsure.runs import Sample
from howsure.studies.trust.estimates import estimate, trust_summary
from howsure.studies.trust.prompts import CONDITIONS
from howsure.studies.trust.steps import ENTROPIES, MOST_UNITS, Step, Steps, units

LEVEL = 0.95
LITTLE_MASS = 0.1


def judge(samples: Sequence[Sample], options: dict[str, Any], *, seed: int) -> dict[str, Any]:
    rows = [to_step(sample) for sample in samples]
    more = _of_actions(samples, seed) if options["evidence"] == "logprobs" else {}
    return trust_summary(
        rows,
        seed=seed,
        level=LEVEL,
        notes=list(_notes(samples, options)),
        evidence=options["evidence"],
        view=options["view"],
        episodes_reached=_reached(samples),
        actions=_actions(samples),
        answers=_answers(samples),
        **more,
    )


def to_step(sample: Sample) -> Step:
    """A sample as the row that every figure of trust is made of."""
    result = sample.result
    found = [result["conditions"][condition.value] for condition in CONDITIONS]
    reasons = {
        name: one["entropy_missing"] for name, one in zip(ENTROPIES, found, strict=True) if one["entropy_bits"] is None
    }
    bare, known, told = (one["entropy_bits"] for one in found)
    return Step(
        str(result["episode"]),
        result["step"],
        bare,
        known,
        told,
        trust_recorded=result["trust"],
        reasons=reasons,
        action_probability=result["action_probability"],
        on_shortest_path=result["on_shortest_path"],
    )


def _of_actions(samples: Sequence[Sample], seed: int) -> dict[str, Any]:
    """The same estimate from the entropies of the actions, where the tokens' alternatives were mapped onto them."""
    rows = []
    for sample in samples:
        bare, known, told = (sample.result["conditions"][c.value].get("action_entropy_bits") for c in CONDITIONS)
        rows.append(Step(str(sample.result["episode"]), None, bare, known, told))
    table = Steps.of(rows)
    complete = table.complete
    drawn = units(table.episode[complete], MOST_UNITS)
    return {"trust_of_actions": estimate(table.bits[complete], drawn, level=LEVEL, resamples=2000, seed=seed)}


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
    ungrounded = sum(sample.result["knowledge_count"] == 0 for sample in samples)
    if ungrounded:
        what = "no step has" if ungrounded == len(samples) else f"{ungrounded} of {len(samples)} steps have no"
        more = " any" if ungrounded == len(samples) else ""
        yield f"{what}{more} grounding, so X and X|S are the same prompt there: --grounding FILE gives some"
    untold = sum(sample.result["instruction"] is None for sample in samples)
    if untold:
        yield f"{untold} of {len(samples)} steps have no instruction: --instruction gives one"
    again = len(samples) - len({(sample.result["episode"], sample.result["asked"]) for sample in samples})
    if again:
        yield (
            f"{again} of {len(samples)} steps asked word for word what an earlier step of the episode had asked, and "
            "add nothing new: the intervals are narrower than they should be (--act sample leaves such places)"
        )
    refused = [one for sample in samples for one in sample.result["learned"] if "refused" in one]
    if refused:
        yield f"{len(refused)} new sentences of knowledge repeat the instruction or the model's notes, and were not kept"
    left_out = {(s.result["episode"], one) for s in samples for one in s.result["left_out"]}
    if left_out:
        yield f"{len(left_out)} sentences of the grounding hold the instruction, and were left out where they do"
    tied = sum(sample.result["conditions"]["X|L,S"].get("step1_tied", False) for sample in samples)
    if tied:
        yield f"{tied} actions are the first of several that were given the same probability"
    if options["evidence"] == "scored":
        masses = [sample.result["conditions"][c.value].get("allowed_mass") for sample in samples for c in CONDITIONS]
        allowed = [mass for mass in masses if mass is not None]
        if allowed and sum(allowed) / len(allowed) < LITTLE_MASS:
            yield (
                f"left to itself the model would hardly answer with an action (all of them together have "
                f"{sum(allowed) / len(allowed):.2%} of its probability): the entropies are those among the actions alone"
            )
    if options["evidence"] == "logprobs":
        shares = [sample.result["conditions"][c.value].get("other") for sample in samples for c in CONDITIONS]
        known = [share for share in shares if share is not None]
        if known and sum(known) / len(known) > 0.5:
            yield "more than half of the probability lies on what is no allowed action: see trust_T_action in steps.csv"
