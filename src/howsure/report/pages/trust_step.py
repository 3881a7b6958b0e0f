"""The page of one step: what was seen, asked and answered, and how T came about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import htpy as h
from htpy import Element, Node

from howsure.evidence import TokenLogprobs
from howsure.report.views import Section
from howsure.report.run_data import Material
from howsure.report.html import facts, flag, long_text, notice, number, table, words
from howsure.report.views import as_written
from howsure.report.tokens import legend, percent, shaded, shades_of
from howsure.report.pages.trust_frames import Frames
from howsure.report.pages.trust_replay import best, done, seen, verdict, where
from howsure.report.pages.trust_spread import (
    ACTING,
    CONDITIONS,
    EVIDENCE,
    MEANING,
    changed,
    entropies,
    in_words,
    meaning,
    plain,
    spreads,
    worked_out,
)
from howsure.report.text import counted
from howsure.runs import Sample

_WRITTEN_STEPS = ("step1", "step2", "step3")


def about(sample: Sample, material: Material) -> list[Section]:
    options = material.run.manifest.identity.options
    evidence = str(options.get("evidence"))
    return [
        _what_happened(sample, material),
        _sureness(sample, evidence),
        _known(sample.result),
        _asked(sample, options.get("view")),
        _answered(sample),
        as_written(sample),
    ]


def _what_happened(sample: Sample, material: Material) -> Section:
    result = sample.result
    told = facts(
        {
            "instruction": words(result.get("instruction") or "none is given", 2_000),
            "place": where(result),
            "action": done(result),
            "on a shortest path": verdict(result),
            "best actions": best(result),
            "reward": number(result.get("reward")),
            "goal reached": flag(result.get("reached")),
            "asked before": _asked_before(result),
        }
    )
    body = h.div(class_="beside")[Frames(material, "step").show(sample.id, seen(result)), told]
    lead = f"Step {number(result['step'], 0)} of episode {number(result['episode'], 0)}, before and after acting."
    return Section("What happened", lead, body)


def _asked_before(result: Mapping[str, Any]) -> str | None:
    first, episode = result.get("first_asked"), result.get("first_episode")
    if first is None:
        return None
    if first != result["step"]:
        return f"yes, word for word at step {number(first, 0)}, so this step tells nothing new"
    if episode is not None and episode != result["episode"]:
        return f"yes, episode {number(episode, 0)} went the same way up to here, so this step tells nothing new"
    return "no, this question is new in its episode"


def _sureness(sample: Sample, evidence: str) -> Section:
    result = sample.result
    bits = list(entropies(result).values())
    none, known, told = bits
    said = None
    if none is not None and known is not None and told is not None:
        gained = none - known, none - told
        said = h.p[in_words(*map(changed, gained)), " ", meaning(*gained)]
    failed = notice(f"This step is incomplete: {sample.detail or plain(sample.reason)}") if sample.failed else None
    return Section(
        "How sure it was",
        f"{MEANING} {EVIDENCE.get(evidence, '')}",
        [failed, spreads(result), h.p[worked_out(result)], said],
    )


# -- what was known ---------------------------------------------------------------------------------------------------


def _known(result: Mapping[str, Any]) -> Section:
    count = result.get("knowledge_count")
    lead = (
        "Nothing was known about the place, so X and X|S are the same question."
        if count == 0
        else f"Sentences that were known about the place: {number(count, 0)}; the prompts of X|S and X|L,S have them."
    )
    told = result.get("told") or {}
    rows = [
        (one["sentence"], one["source"], f"not kept: {plain(one['refused'])}" if "refused" in one else "kept")
        for one in result.get("learned") or ()
    ]
    body: list[Node] = [
        facts(
            {
                "a person said": told.get("feedback"),
                "a new instruction": told.get("instruction"),
                "left out, since it holds the instruction": "; ".join(result.get("left_out") or ()) or None,
                "the model noted for itself": result.get("notes"),
            }
        ),
        table(["learned at this step", "from", ""], rows) if rows else None,
    ]
    return Section("What was known", lead, body)


# -- prompts ----------------------------------------------------------------------------------------------------------


def _asked(sample: Sample, view: object) -> Section:
    prompts = sample.evidence.get("prompts") or {}
    picture = " The picture above went with it." if view in ("image", "both") else ""
    parts = [_prompt(name, given.told, prompts) for name, given in CONDITIONS.items() if name in prompts]
    return Section(
        "What it was asked",
        f"The same question three times, but for knowledge and instruction.{picture}",
        parts or h.p(class_="quiet")["The prompts were not kept."],
    )


def _prompt(name: str, told: str, prompts: Mapping[str, Any]) -> Element:
    same = next((other for other in CONDITIONS if other != name and prompts.get(other) == prompts[name]), None)
    again = f", word for word the same as {same}" if same else ""
    return h.details(open=name == ACTING)[
        h.summary[f"{name}: {told}{again}"],
        h.div(class_="mono")[
            [[h.p(class_="quiet")[words(role, 40)], long_text(text, fold=False)] for role, text in prompts[name]]
        ],
    ]


# -- answers ----------------------------------------------------------------------------------------------------------


def _answered(sample: Sample) -> Section:
    answers = sample.evidence.get("answers") or {}
    found = {name: answers[name] for name in CONDITIONS if answers.get(name)}
    title = "What it answered"
    if not found:
        return Section(title, "", h.p(class_="quiet")["There is no answer."])
    if any("log_likelihoods" in one for one in found.values()):
        return Section(
            title,
            "Nothing was written: each action was read as the answer. The log-likelihoods, in nats; a difference of "
            "2.3 is ten times likelier.",
            _likelihoods(found, sample.result),
        )
    has_tokens = any("logprobs" in one for one in found.values())
    lead = (
        "Darker tokens surprised the model more; point at one, or walk along with the arrow keys." if has_tokens else ""
    )
    parts = [_written(name, one, sample.result["conditions"][name]) for name, one in found.items()]
    return Section(title, lead, [legend() if has_tokens else None, parts])


def _likelihoods(found: Mapping[str, Any], result: Mapping[str, Any]) -> Node:
    actions = list(dict.fromkeys(action for one in found.values() for action in one.get("log_likelihoods", {})))
    rows: list[Sequence[Any]] = [
        (action, *(found.get(name, {}).get("log_likelihoods", {}).get(action) for name in CONDITIONS))
        for action in actions
    ]
    mass = [result["conditions"][name].get("allowed_mass") for name in CONDITIONS]
    rows.append(("all together, as probability", *(percent(share) for share in mass)))
    return table(["action", *CONDITIONS], rows, numeric=(1, 2, 3))


def _written(name: str, answer: Mapping[str, Any], condition: Mapping[str, Any]) -> Element:
    """One answer that was generated: its tokens where they are known, and otherwise its text."""
    failure = answer.get("failure")
    return h.section[
        h.h3[f"{name}: {CONDITIONS[name].told}"],
        notice(f"There is no answer: {failure}") if failure else None,
        _text(name, answer),
        facts(_reading(answer, condition)),
        _three_steps(condition),
    ]


def _text(name: str, answer: Mapping[str, Any]) -> Node:
    if "logprobs" in answer:
        return shaded(shades_of(TokenLogprobs.from_dict(answer["logprobs"])), f"The answer in {name}")
    return long_text(answer["text"]) if "text" in answer else None


def _reading(answer: Mapping[str, Any], condition: Mapping[str, Any]) -> dict[str, Any]:
    """What was made of the answer."""
    read = answer.get("action") or {}
    action = condition.get("action")
    tokens = read.get("tokens")
    return {
        "action": words(action) if action is not None else f"none: {plain(condition.get('action_missing'))}",
        "written as": read.get("said"),
        "its tokens": " ".join(f"«{words(token, 40)}»" for token in tokens[:12]) if tokens else None,
        "entropy": number(condition["entropy_bits"], 4, "bits")
        if condition["entropy_bits"] is not None
        else f"missing: {plain(condition.get('entropy_missing'))}",
        "entropy, bounds": _bounds(condition),
        "entropy of the actions": _bits(condition, "action_entropy_bits"),
        "entropy at the token that decides": _bits(condition, "decision_bits"),
        "can be carried out": percent(condition["executability"])
        if condition.get("executability") is not None
        else None,
        "asked again": f"{counted(condition['retries'], 'time')}, for JSON" if condition.get("retries") else None,
        "ended by": answer.get("finish_reason"),
    }


def _bits(condition: Mapping[str, Any], name: str) -> str | None:
    value = condition.get(name)
    return None if value is None else number(value, 4, "bits")


def _bounds(condition: Mapping[str, Any]) -> str | None:
    low, high = condition.get("low_bits"), condition.get("high_bits")
    if low is None:
        return None
    return f"at least {number(low, 4)}, " + (
        "no upper bound known" if high is None else f"at most {number(high, 4)} bits"
    )


def _three_steps(condition: Mapping[str, Any]) -> Node:
    """The probabilities that the model wrote down for its next three steps."""
    if condition.get("retries") is None:  # which answers of this kind alone count
        return None
    spread = [condition.get(f"{step}_probabilities") or {} for step in _WRITTEN_STEPS]
    labels = list(dict.fromkeys(label for one in spread for label in one))
    rows = [
        (
            f"step {place}",
            *(percent(one.get(label)) for label in labels),
            condition.get(f"{step}_bits"),
            condition.get(f"{step}_sum"),
        )
        for place, (step, one) in enumerate(zip(_WRITTEN_STEPS, spread, strict=True), 1)
    ]
    return table(["", *map(words, labels), "entropy, bits", "sum as written"], rows, numeric=range(1, len(labels) + 3))
