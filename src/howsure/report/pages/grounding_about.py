"""The page of one click: the screen, what was asked, the answer token by token, and how sure it was."""

from __future__ import annotations

from typing import Any

import htpy as h
from htpy import Node

from howsure.evidence import TokenLogprobs
from howsure.report.views import Section
from howsure.report.pages.grounding_screen import delta_of, screen
from howsure.report.pages.grounding_words import KIND_WORDS, came_of_it, in_words, marks, named, shown, thousandths
from howsure.report.run_data import Material
from howsure.report.html import badge, facts, long_text, table, words
from howsure.report.views import as_written
from howsure.report.tokens import legend, readable_shades_of, shaded
from howsure.runs import Sample
from howsure.studies.grounding.frames import FRAMES, document_prompt, fill
from howsure.studies.grounding.record import DISTANCES

SHOWN_DRAWN = 50
_OWN_PROMPTS = ("chat_pickle", "chat_jsonl", "flat_jsonl")
"""Forms of data that may come with prompts of their own, which a run does not keep."""


def about(sample: Sample, material: Material) -> list[Section]:
    found = [_screen(sample, material), _asked(sample, material)]
    if sample.failed:
        found.append(Section("No answer", f"Missing because: {named(sample.reason)}.", long_text(sample.detail or "")))
    else:
        found += [_answer(sample, material), _sureness(sample.result)]
        if sample.result.get("samples"):
            found.append(_drawn(sample))
    return [*found, as_written(sample)]


def _screen(sample: Sample, material: Material) -> Section:
    delta, result = delta_of(material), sample.result
    kind = "none" if sample.failed else "good" if result["hit"] else "bad"
    body: list[Node] = [
        long_text(result["instruction"], fold=False),
        h.p[badge(came_of_it(sample), kind), " ", in_words(sample, delta)],
        screen(sample, material, large=True),
        h.p(class_="quiet")[marks(sample, delta)],
        facts(
            {
                "belongs at": _place(result.get("gt_coord")),
                "is called": result.get("gt_content"),
                "clicked at": _place(result.get("pred_coord")),
                "file": words(result.get("image_path"), 400),
            }
        ),
    ]
    return Section("What was to be clicked", "", body)


def _place(place: list[float] | None) -> str | None:
    """Without commas in the thousands, which would be taken for those between."""
    return None if place is None else f"({', '.join(thousandths(one).replace(',', '') for one in place)})"


# -- what was asked ---------------------------------------------------------------------------------------------------


def _asked(sample: Sample, material: Material) -> Section:
    lead, prompt = _prompt(sample.result["instruction"], material.run.manifest.identity.options)
    whole = None if prompt is None else h.details[h.summary["The whole prompt"], long_text(prompt, fold=False)]
    return Section("How it was asked", lead, whole)


def _prompt(instruction: str, options: dict[str, Any]) -> tuple[str, str | None]:
    """How the instruction was put to the model, and the prompt where the run's options tell it."""
    template, frame = options.get("prompt"), FRAMES.get(str(options.get("frame")))
    if template is None or frame is None:
        return "The model clicks by itself: there is no prompt around it.", None
    refuse = options.get("may_refuse") is True
    if template != "default":
        return "Asked with the template of this run.", fill(str(template), instruction, frame, refuse)
    if options.get("data_form") in _OWN_PROMPTS:
        lead = "Asked with the prompt that came with the data, which a run does not keep; without one, with that below."
    else:
        lead = "Asked with the usual prompt."
    return lead, document_prompt(instruction, frame, may_refuse=refuse)


# -- what came back ---------------------------------------------------------------------------------------------------


def _answer(sample: Sample, material: Material) -> Section:
    result, found = sample.result, sample.evidence.get("answer")
    raw = result.get("pred_raw")
    if found is not None:
        lead = (
            "The redder, the more surprising; point at a token, or walk along with the arrow keys, for "
            "its probability and for what else was likely in its place."
        )
        said: Node = [legend(), shaded(readable_shades_of(TokenLogprobs.from_dict(found)), "the answer")]
    elif raw is not None:
        lead, said = "As it was written; the probabilities of its tokens are not known.", long_text(raw, fold=False)
    else:
        lead, said = "The model clicks and writes nothing.", None
    return Section("The answer", lead, [said, _how_read(result, material.run.manifest.identity.options)])


def _how_read(result: dict[str, Any], options: dict[str, Any]) -> Node:
    frame = FRAMES.get(str(options.get("frame")))
    says = {"point": "a click", "refusal": "there is nothing to click", "wrong_format": "nothing that can be read"}
    return facts(
        {
            "says": says.get(result["says"], named(result["says"])),
            "unreadable because": named(result["why_not"]) if result.get("why_not") else None,
            "read as": named(result["form"]) if result.get("form") else None,
            "numbers are": None
            if frame is None
            else f"{frame.means} ({frame.name}, {words(options.get('frame_because'))})",
            "names": result.get("pred_content"),
            "ended by": named(result["finish_reason"]) if result.get("finish_reason") else None,
        }
    )


def _sureness(result: dict[str, Any]) -> Section:
    known, missing = result.get("confidence") or {}, result.get("confidence_missing") or {}
    if not known:
        return Section("How sure it was", "", h.p(class_="quiet")["The model gave no confidence of any kind."])
    rows = [
        (kind.replace("_", " "), _value(kind, known[kind], missing), meaning)
        for kind, meaning in KIND_WORDS.items()
        if kind in known
    ]
    return Section("How sure it was", "", table(["by", "", "which is"], rows, numeric=(1,)))


def _value(kind: str, value: float | None, missing: dict[str, Any]) -> str:
    if value is None:
        return f"missing: {named(missing.get(kind))}"
    return f"{shown(value, kind)} of 1000" if kind in DISTANCES else shown(value, kind)


def _drawn(sample: Sample) -> Section:
    counts, texts = sample.result["samples"], sample.evidence.get("samples") or []
    parts = {"in a wrong format": counts["wrong_format"], "refusals": counts["refusals"], "failed": counts["failed"]}
    rest = "".join(f", {count:,} {what}" for what, count in parts.items() if count)
    lead = f"{counts['asked']:,} more answers were drawn: {len(counts['points']):,} clicks{rest}."
    shown = [
        h.li[long_text(one["text"]) if one.get("text") is not None else f"failed: {words(one.get('failure'), 400)}"]
        for one in texts[:SHOWN_DRAWN]
    ]
    more = len(texts) - len(shown)
    body = [h.ol[shown], h.p(class_="quiet")[f"and {more:,} more"] if more > 0 else None]
    return Section("Asked again", lead, h.details[h.summary["The answers"], body] if shown else None)
