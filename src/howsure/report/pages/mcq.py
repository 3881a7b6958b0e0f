"""Pages of multiple choice: by how much choices win, and whether the model should be so sure."""

from __future__ import annotations

from typing import Any

import htpy as h
import numpy as np
from htpy import Element, Node

from howsure.evidence import Distribution, TokenLogprobs
from howsure.report.mcq import sureness_rows
from howsure.report.pages.axes import Axis
from howsure.report.pages.columns import Column
from howsure.report.pages.contract import Card, Picks, Section
from howsure.report.pages.material import Material
from howsure.report.pages.named import Named, dots
from howsure.report.pages.parts import facts, flag, long_text, number, table, words
from howsure.report.pages.plain import as_written
from howsure.report.pages.sureness import extremes, histogram_by_outcome, reliability, risk_coverage
from howsure.report.pages.tokens import legend, percent, readable_shades_of, shaded
from howsure.report.text import interval_text
from howsure.runs import Sample

COLUMNS = (
    Column("correct", "right", "flag", help="Whether the likeliest choice is the right one."),
    Column("confidence", "confidence", "number", help="Probability of the likeliest choice among the choices given."),
    Column("margin", "margin", "number", "nats", help="Log-likelihood of the best choice minus that of the second."),
    Column("entropy_nats", "entropy", "number", "nats", help="Entropy of the choices: 0 is certain."),
    Column("group", "group", "word"),
    Column("cluster", "cluster", "word", help="By --cluster: questions with the same one hang together."),
    Column("question", "question", "text"),
    Column("chosen", "chose", "text", help="The choice that the model finds likeliest."),
    Column("answer", "right answer", "text"),
)

SHOWN_FAILURES = 10
CARD_CHOICES = 8
"""On the card of a question; its page has all."""

_SCORES = {
    "sum": "sum of log-probabilities, which decides",
    "per_token": "mean per token",
    "per_byte": "mean per byte",
    "pmi": "PMI (minus unconditional score)",
}


def row(sample: Sample) -> dict[str, Any]:
    result = sample.result
    names = ("correct", "confidence", "margin", "entropy_nats", "group", "cluster", "question")
    return {name: result.get(name) for name in names} | {
        "chosen": _choice(result, "predicted_index"),
        "answer": _choice(result, "answer_index"),
    }


def _choice(result: dict[str, Any], name: str) -> str | None:
    place = result.get(name)
    return None if place is None else result["choices"][place]


# -- plots ------------------------------------------------------------------------------------------------------------


def sections(material: Material) -> list[Section]:
    summary, found = material.summary, []
    plots = [_margins(material)] if np.isfinite(material.table.numbers("margin")).any() else []
    if summary and summary["calibration"]:
        plots += [reliability(summary["calibration"], "questions"), risk_coverage(summary["selective"], "questions")]
    if plots:
        lead = "Confidence is the probability of the chosen answer among the choices of its question."
        found.append(
            Section("How sure it was, and how right", lead, [h.div(class_="plots")[plots], _sureness(summary)])
        )
    if summary and any(summary["normalisations"].values()):
        found.append(_by_score(summary))
    if summary and summary["groups"]:
        found.append(_by_group(summary))
    return found + _failures(material)


def _sureness(summary: dict[str, Any] | None) -> Node:
    """The figures of the plots, each with its interval."""
    if not summary or not summary["calibration"]:
        return None
    return [
        table(["", ""], sureness_rows(summary["calibration"], summary["selective"])),
        h.p(class_="quiet")[
            "ECE: how far confidence lies from the share right, on average over bins. Chance alone puts it above 0, "
            "the more so the fewer questions there are; only what lies above the range of a perfectly calibrated model "
            "tells of a fault. AUROC: the chance that a right answer has more confidence than a wrong one. AURC: the "
            "mean share wrong among the surest, over all ways to draw that line."
        ],
    ]


def _failures(material: Material) -> list[Section]:
    """The questions without an answer, and why; some of them where they are many."""
    rows = [row for row, reason in enumerate(material.table.values("reason")) if reason is not None]
    if not rows:
        return []
    listed = [material.sample(row) for row in rows[:SHOWN_FAILURES]]
    more = f" The first {SHOWN_FAILURES} of {len(rows):,}." if len(rows) > SHOWN_FAILURES else ""
    return [
        Section(
            "What has no answer",
            f"These count as not right in the accuracy, and are in no other figure.{more}",
            table(
                ["question", "reason", "in particular"],
                [(words(s.id), words(s.reason).replace("_", " "), words(s.detail or "", 300)) for s in listed],
            ),
        )
    ]


def _margins(material: Material) -> Element:
    return histogram_by_outcome(
        "By how much does the best choice win?",
        "The margin is the log-likelihood of the best choice minus the second's, in nats: 0 is a tie, 2.3 is ten times "
        "likelier. Where wrong answers have wide margins, the model is sure of them.",
        "margin, nats",
        material.table.numbers("margin"),
        material.table.numbers("correct"),
        low=0,
        what="questions",
    )


def _by_score(summary: dict[str, Any]) -> Section:
    rows = []
    for name, meaning in _SCORES.items():
        entry = summary["normalisations"].get(name)
        if entry is None:
            rows.append((meaning, "not known", "—", "—"))
        else:
            ends = interval_text(entry, 100.0, 1)
            interval = f"{ends} %" if ends else "—"
            rows.append(
                (
                    meaning,
                    f"{entry['correct_count']:,} of {entry['total_count']:,}",
                    percent(entry["accuracy"]),
                    interval,
                )
            )
    rows.append(("a blind guess", "", percent(summary["accuracy_by_chance"]), ""))
    return Section(
        "Would another score choose better?",
        "Long choices have lower likelihoods. The same answers, ranked in other ways; intervals are of 95 %.",
        table(["the best choice by", "right", "accuracy", "interval"], rows, numeric=(1, 2, 3)),
    )


def _by_group(summary: dict[str, Any]) -> Section:
    rows = [
        Named.of(
            "(no group)" if e["group"] is None else e["group"],
            e,
            f"{e['correct_count']} of {e['total_count']}",
            value="accuracy",
        )
        for e in summary["groups"]
    ]
    chance = summary["accuracy_by_chance"]
    figure = dots(
        "Accuracy by group",
        "The dot is the share answered rightly; upright: a blind guess at all questions.",
        Axis("right", 0, 1, percent=True),
        rows,
        level=None if chance is None else (chance, "chance"),
    )
    return Section("Where it is good", "Groups are those of the data.", figure)


# -- samples worth a look ---------------------------------------------------------------------------------------------


def picks(material: Material, most: int) -> Picks | None:
    surely, doubtfully = extremes(material.table.numbers("confidence"), material.table.numbers("correct"), most)
    cards = [[_card(material, row) for row in side] for side in (surely, doubtfully)]
    return Picks(cards[0], cards[1], nothing="No question could be scored.")


def _card(material: Material, row: int) -> Card:
    sample = material.sample(row)
    result = sample.result
    right = bool(result["correct"])
    verdict = f"{percent(result['confidence'])} sure, {'right' if right else 'wrong'}"
    verdict += " by a tie" if result.get("tie") else ""
    body = [_picture(result, material), long_text(result["question"]), choices_list(result, CARD_CHOICES)]
    return Card(material.table.keys[row], sample.id, verdict, right, body)


def choices_list(result: dict[str, Any], most: int | None = None, characters: int = 160) -> Node:
    """The choices with their probabilities; the right one and the chosen one are said in words.

    Of more than `most` the likeliest are shown, the right one in any case.
    """
    shares = _shares(result)
    shown = _shown(result, shares, most)
    rows = [
        (words(result["choices"][place], characters), None if shares is None else percent(shares[place]), marks)
        for place in shown
        for marks in [_marks(result, place)]
    ]
    left_out = len(result["choices"]) - len(shown)
    return [
        table(["choice", "probability", ""], rows, numeric=(1,)),
        h.p(class_="quiet")[f"and {left_out:,} more choices"] if left_out else None,
    ]


def _shown(result: dict[str, Any], shares: list[float] | None, most: int | None) -> list[int]:
    places = list(range(len(result["choices"])))
    if most is None or len(places) <= most:
        return places
    ranked = places if shares is None else sorted(places, key=lambda place: -shares[place])
    needed = {place for place in (result["answer_index"], result.get("predicted_index")) if place is not None}
    others = [place for place in ranked if place not in needed]
    return sorted(needed | set(others[: most - len(needed)]))


def _marks(result: dict[str, Any], place: int) -> Element:
    right, chosen = place == result["answer_index"], place == result.get("predicted_index")
    return h.span(class_="whole")[
        h.strong(class_="good")["right answer"] if right else None,
        ", " if right and chosen else None,
        h.strong(class_="good" if right else "bad")["chosen"] if chosen else None,
    ]


def _shares(result: dict[str, Any]) -> list[float] | None:
    known = result.get("log_likelihoods")
    if known is None:
        return None
    found = Distribution.from_log_likelihoods([str(i) for i in range(len(known))], np.minimum(known, 0.0))
    shares: list[float] = found.probabilities.tolist()
    return shares


def _picture(result: dict[str, Any], material: Material) -> Node:
    """The question's image, where the run kept a copy of it."""
    from howsure.report.pages.pictures import picture_of

    return picture_of(result, material)


# -- the page of a sample ---------------------------------------------------------------------------------------------


def about(sample: Sample, material: Material) -> list[Section]:
    result = sample.result
    options = material.run.manifest.identity.options
    template = options.get("prompt")
    prompt = template.replace("{question}", result["question"]) if isinstance(template, str) else result["question"]
    found = [Section("The question", _how_asked(options), [_picture(result, material), long_text(prompt, fold=False)])]
    if sample.failed:
        found.append(Section("No answer", f"Missing because: {words(sample.reason)}.", long_text(sample.detail or "")))
    found.append(
        Section(
            "The choices",
            "Probability among the choices given.",
            [choices_list(result, characters=1_000), _figures(result)],
        )
    )
    if sample.evidence.get("choices"):
        found.append(_tokens(result, sample.evidence["choices"]))
    return [*found, as_written(sample)]


def _how_asked(options: dict[str, Any]) -> str:
    return "As the model saw it, in a user's message." if options.get("chat") else "As the model saw it, as plain text."


def _figures(result: dict[str, Any]) -> Element:
    others = {
        f"{name} chooses": _choice(result, f"predicted_index_{key}")
        for key, name in (("per_token", "mean per token"), ("per_byte", "mean per byte"), ("pmi", "PMI"))
    }
    return facts(
        {
            "confidence": percent(result.get("confidence")),
            "margin": number(result.get("margin"), 3, "nats"),
            "entropy": number(result.get("entropy_nats"), 3, "nats"),
            "tie": flag(result.get("tie")),
            "group": result.get("group"),
            **others,
        }
    )


def _tokens(result: dict[str, Any], evidence: list[dict[str, Any]]) -> Section:
    rows = []
    for place, (choice, found) in enumerate(zip(result["choices"], evidence, strict=True)):
        likelihood = result["log_likelihoods"][place] if "log_likelihoods" in result else None
        rows.append((shaded(readable_shades_of(TokenLogprobs.from_dict(found)), words(choice, 60)), likelihood))
    return Section(
        "Token by token",
        "Every choice was read after the question. The redder, the more surprising; point at a token, or walk along "
        "with the arrow keys, for its probability.",
        [legend(), table(["choice", "log-likelihood, nats"], rows, numeric=(1,))],
    )
