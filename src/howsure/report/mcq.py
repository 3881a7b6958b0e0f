"""Multiple choice: which choices won and by how much, whether the model should be so sure, and two runs compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from howsure.evidence import Distribution, TokenLogprobs
from howsure.report.charts import Axis, Chart, Named, dots, thinned
from howsure.report.comparison import Flips, Row, differences, figure_rows, flips, mcnemar_in_words, what_changed
from howsure.report.document import Block, Card, Cell, Facts, Head, Html, Marked, Plot, Quoted, Section, Table, Value
from howsure.report.html import number, table, words
from howsure.report.pictures import picture_of
from howsure.report.rows import Column, key_of
from howsure.report.run_data import RunData, StoredRun
from howsure.report.sureness import extremes, histogram_by_outcome, sureness, worth_a_look
from howsure.report.text import counted
from howsure.report.tokens import legend, percent, readable_shades_of, shaded
from howsure.report.views import as_written
from howsure.runs import Sample
from howsure.studies.mcq.comparison import Flip, McqComparison, McqDifference, McqSide
from howsure.studies.mcq.judge import Group, McqSummary
from howsure.studies.mcq.record import McqRecord

COLUMNS = (
    Column("correct", "right", "flag", help="Whether the likeliest choice is the right one."),
    Column("confidence", "confidence", "number", help="Probability of the likeliest choice among the choices given."),
    Column("margin", "margin", "number", "nats", help="Log-likelihood of the best choice minus that of the second."),
    Column("entropy_nats", "entropy", "number", "nats", help="Entropy of the choices: 0 is certain."),
    Column("group", "group", "word"),
    Column("cluster", "cluster", "word", help="By --cluster: questions with the same one are one unit."),
    Column("question", "question", "text"),
    Column("chosen", "chose", "text", help="The choice that the model finds likeliest."),
    Column("answer", "right answer", "text"),
)

MOST_CARDS = 5
SHOWN_FAILURES = 10
CARD_CHOICES = 8
"""On the card of a question; its page has all."""
_SCORES = {
    "sum": "sum of log-probabilities, decides",
    "per_token": "mean per token",
    "per_byte": "mean per byte",
    "pmi": "PMI (minus unconditional score)",
}


def row(sample: Sample[McqRecord]) -> dict[str, Any]:
    result = sample.result
    names = ("correct", "confidence", "margin", "entropy_nats", "group", "cluster", "question")
    return {name: getattr(result, name) for name in names} | {
        "chosen": _choice(result, result.predicted_index),
        "answer": _choice(result, result.answer_index),
    }


def _choice(result: McqRecord, place: int | None) -> str | None:
    return None if place is None else result.choices[place]


# -- a run ------------------------------------------------------------------------------------------------------------


def document(summary: McqSummary | None, run: RunData | None) -> list[Section]:
    found = [_worth_a_look(run)] if run else []
    found.append(_sureness(summary, run))
    if summary:
        found += [_by_score(summary)] if any(summary.normalisations.values()) else []
        found += [_by_group(summary)] if summary.groups else []
    return [*found, *(_failures(run) if run else [])]


def _worth_a_look(run: RunData) -> Section:
    wrong, right = extremes(run.table.numbers("confidence"), run.table.numbers("correct"), MOST_CARDS)
    cards = [[_card(run, place) for place in side] for side in (wrong, right)]
    return worth_a_look(
        cards[0], cards[1], "No question could be scored.", headers=["verdict", Head("question", cut=True)]
    )


def _card(run: RunData, place: int) -> Card:
    table, key = run.table, run.table.keys[place]
    right = bool(table.values("correct")[place])
    tied = table.values("margin")[place] == 0
    verdict = f"{percent(table.values('confidence')[place])} sure, {'right' if right else 'wrong'}"
    verdict += " by a tie" if tied else ""

    def body() -> list[Block]:
        result = run.sample(place).result
        return [Html(picture_of(result, run)), Quoted(result.question), choices(result, CARD_CHOICES)]

    link = run.links.sample(key)
    return Card(
        table.values("id")[place],
        verdict,
        right,
        body,
        [verdict, table.values("question")[place]],
        {"": link} if link else {},
    )


def _sureness(summary: McqSummary | None, run: RunData | None) -> Section:
    blocks: list[Block] = []
    if run and np.isfinite(run.table.numbers("margin")).any():
        blocks.append(_margins(run))
    if summary:
        entropy = Value(summary.mean_entropy_nats, "nats")
        more = [("mean entropy of the choices", entropy)] if entropy.value is not None else []
        blocks += sureness(summary.calibration, summary.selective, "questions", more=more)
    lead = "Confidence is the probability of the chosen answer among the choices of its question."
    return Section("Should it be so sure?", blocks, lead)


def _margins(run: RunData) -> Plot:
    return histogram_by_outcome(
        "By how much does the best choice win?",
        "The margin is the log-likelihood of the best choice minus the second's, in nats: 0 is a tie, 2.3 is ten times "
        "likelier. Where wrong answers have wide margins, the model is sure of them.",
        "margin, nats",
        run.table.numbers("margin"),
        run.table.numbers("correct"),
        low=0,
        what="questions",
    )


def _by_score(summary: McqSummary) -> Section:
    rows: list[tuple[Cell, ...]] = []
    for name, meaning in _SCORES.items():
        entry = summary.normalisations.get(name)
        if entry is None:
            rows.append((meaning, "not asked for" if "not_asked" in summary.pmi_missing else "not known", None))
        else:
            accuracy = Value.at(entry, "accuracy", "share")
            rows.append((meaning, accuracy, f"{entry.correct_count:,} of {entry.total_count:,}"))
    rows.append(("a blind guess", Value(summary.accuracy_by_chance, "share"), ""))
    return Section(
        "Would another score choose better?",
        [Table(["the best choice by", "accuracy", "right"], rows)],
        "Long choices have lower likelihoods. The same answers, ranked in other ways; intervals are of 95 %.",
    )


def _by_group(summary: McqSummary) -> Section:
    named = [
        Named(_name(one), Value.at(one, "accuracy", "share"), f"{one.correct_count} of {one.total_count}")
        for one in summary.groups
    ]
    chance = summary.accuracy_by_chance
    drawn = dots(
        "Accuracy by group",
        "The dot is the share answered rightly; upright: a blind guess at all questions.",
        Axis("right", 0, 1, percent=True),
        named,
        level=None if chance is None else (chance, "chance"),
    )
    heads: list[str | Head] = [Head("group", cut=True), "questions", "accuracy", "margin", "overconfident by"]
    rows = [
        (
            _name(one),
            f"{one.total_count:,}" + (f", {one.scored_count:,} scored" if one.scored_count < one.total_count else ""),
            Value.at(one, "accuracy", "share"),
            Value(one.avg_margin, "nats"),
            Value.at(one, "overconfidence", "share", is_difference=True),
        )
        for one in summary.groups
    ]
    return Section(
        "Where it is good", [drawn, Table(heads, rows, more="in summary.json")], "Groups are those of the data."
    )


def _name(group: Group) -> str:
    return "(no group)" if group.group is None else group.group


def _failures(run: RunData) -> list[Section]:
    """The questions without an answer, and why; some of them where they are many."""
    places = [place for place, reason in enumerate(run.table.values("reason")) if reason is not None]
    if not places:
        return []
    listed = [run.sample(place) for place in places[:SHOWN_FAILURES]]
    more = f" The first {SHOWN_FAILURES} of {len(places):,}." if len(places) > SHOWN_FAILURES else ""
    rows = [(one.id, (one.reason or "").replace("_", " "), one.detail or "") for one in listed]
    lead = f"These count as not right in the accuracy, and are in no other figure.{more}"
    return [Section("What has no answer", [Table(["question", "reason", "in particular"], rows)], lead, on="page")]


# -- a question -------------------------------------------------------------------------------------------------------


def about(sample: Sample[McqRecord], run: StoredRun) -> list[Section]:
    result, options = sample.result, run.run.manifest.identity.options
    template = options.get("prompt")
    prompt = template.replace("{question}", result.question) if isinstance(template, str) else result.question
    asked = (
        "As the model saw it, in a user's message." if options.get("chat") else "As the model saw it, as plain text."
    )
    found = [Section("The question", [Html(picture_of(result, run)), Quoted(prompt, fold=False)], asked)]
    if sample.reason is not None:
        why = f"Missing because: {sample.reason.replace('_', ' ')}."
        found.append(Section("No answer", [Quoted(sample.detail or "")], why))
    blocks: list[Block] = [choices(result, characters=1_000), _figures(result)]
    found.append(Section("The choices", blocks, "Probability among the choices given."))
    if sample.evidence.get("choices"):
        found.append(_tokens(result, sample.evidence["choices"]))
    return [*found, as_written(sample)]


def choices(result: McqRecord, most: int | None = None, characters: int = 160) -> Html:
    """The choices with their probabilities; the right one and the chosen one are said in words.

    Of more than `most` the likeliest are shown, the right one in any case.
    """
    shares = _shares(result)
    places = _shown(result, shares, most)
    rows = [
        (
            words(result.choices[place], characters),
            None if shares is None else percent(shares[place]),
            _mark(result, place),
        )
        for place in places
    ]
    left_out = len(result.choices) - len(places)
    more = f"and {left_out:,} more choices" if left_out else ""
    return Html([table(["choice", "probability", ""], rows, numeric=(1,)), more])


def _shown(result: McqRecord, shares: list[float] | None, most: int | None) -> list[int]:
    places = list(range(len(result.choices)))
    if most is None or len(places) <= most:
        return places
    ranked = places if shares is None else sorted(places, key=lambda place: -shares[place])
    needed = {place for place in (result.answer_index, result.predicted_index) if place is not None}
    others = [place for place in ranked if place not in needed]
    return sorted(needed | set(others[: most - len(needed)]))


def _mark(result: McqRecord, place: int) -> Marked | str:
    right, chosen = place == result.answer_index, place == result.predicted_index
    said = ", ".join(name for name, holds in (("right answer", right), ("chosen", chosen)) if holds)
    return Marked(said, "good" if right else "bad") if said else ""


def _shares(result: McqRecord) -> list[float] | None:
    known = result.log_likelihoods
    if known is None:
        return None
    labels = [str(place) for place in range(len(known))]
    shares: list[float] = Distribution.from_log_likelihoods(labels, np.minimum(known, 0.0)).probabilities.tolist()
    return shares


def _figures(result: McqRecord) -> Facts:
    return Facts(
        [
            ("confidence", percent(result.confidence)),
            ("margin", number(result.margin, 3, "nats")),
            ("entropy", number(result.entropy_nats, 3, "nats")),
            ("tie", result.tie),
            ("group", result.group),
            ("mean per token chooses", _choice(result, result.predicted_index_per_token)),
            ("mean per byte chooses", _choice(result, result.predicted_index_per_byte)),
            ("PMI chooses", _choice(result, result.predicted_index_pmi)),
        ]
    )


def _tokens(result: McqRecord, evidence: Sequence[dict[str, Any]]) -> Section:
    likelihoods: Sequence[float | None] = result.log_likelihoods or [None] * len(result.choices)
    rows = [
        (shaded(readable_shades_of(TokenLogprobs.from_dict(tokens)), words(choice, 60)), likelihood)
        for choice, tokens, likelihood in zip(result.choices, evidence, likelihoods, strict=True)
    ]
    return Section(
        "Token by token",
        [Html(legend()), Table(["choice", Head("log-likelihood, nats", numeric=True)], rows)],
        "Every choice was read after the question. The redder, the more surprising; point at a token, or walk along "
        "with the arrow keys, for its probability.",
    )


# -- two runs ---------------------------------------------------------------------------------------------------------


def compared(found: McqComparison, a: StoredRun | None, b: StoredRun | None) -> list[Section]:
    difference = found.difference
    turned = difference.flips
    return [
        what_changed(_rows(found), [_mcnemar(difference)]),
        differences(
            [
                ("Accuracy", "right more often", "share", difference.paired_accuracy),
                ("Mean margin", "surer of what it chooses", "nats", difference.paired_margin),
            ]
        ),
        flips(
            [
                Flips("right in A, wrong in B", "What B has lost.", False, turned.right_to_wrong),
                Flips("wrong in A, right in B", "What B has won.", True, turned.wrong_to_right),
            ],
            [Head("moved"), Head("question", cut=True), Head("A chose", cut=True), Head("B chose", cut=True)],
            lambda flip: (_moved(flip), flip.question, flip.choice_a, flip.choice_b),
            lambda flip: _flip(flip, a),
            a,
            b,
        ),
        *(_confidence(a, b) if a and b else []),
    ]


def _rows(found: McqComparison) -> list[Row]:
    a, b, difference = found.a, found.b, found.difference
    accuracy, margin = difference.paired_accuracy, difference.paired_margin
    return [
        *figure_rows("accuracy", "share", a.accuracy, b.accuracy, accuracy),
        *figure_rows("mean margin", "nats", a.avg_margin, b.avg_margin, margin),
        ("right", _right(a), _right(b), f"{difference.correct_count:+d}"),
        ("coverage", a.coverage.text, b.coverage.text, f"{difference.paired_count:,} in both"),
    ]


def _right(side: McqSide) -> str:
    return f"{side.correct_count:,} of {side.total_count:,}"


def _mcnemar(difference: McqDifference) -> str:
    """McNemar's exact test, and what it means; questions that hang together are not as many questions."""
    test, hang_together = difference.mcnemar, difference.paired_unit_count < difference.paired_count
    return mcnemar_in_words(test, difference.paired_accuracy, "question", hang_together=hang_together)


def _flip(flip: Flip, a: StoredRun | None) -> list[Block]:
    place = a.table.row_of(key_of(flip.id)) if a else None
    picture = [] if a is None or place is None else [Html(picture_of(a.sample(place).result, a))]
    lead = Facts([("A chose", flip.choice_a), ("B chose", flip.choice_b), ("right answer's lead", _lead(flip))])
    return [*picture, Quoted(flip.question), lead]


def _moved(flip: Flip) -> str:
    return "without bound" if flip.moved_nats is None else f"{flip.moved_nats:+.2f} nats"


def _lead(flip: Flip) -> str:
    """How far the right answer lies before the best other one; below 0 where that one is chosen."""
    before, after, moved = flip.signed_margin_a_nats, flip.signed_margin_b_nats, flip.moved_nats
    if before is None or after is None or moved is None:
        return "moved without bound: something had probability 0"
    return f"{before:+.2f} nats in A, {after:+.2f} in B: moved by {moved:+.2f}"


_KINDS = ("right in both", "right in A alone", "right in B alone", "wrong in both")


def _confidence(a: StoredRun, b: StoredRun) -> list[Section]:
    pairs = [(place, b.table.row_of(a.table.keys[place])) for place in a.table.in_order().tolist()]
    places = np.array([(one, other) for one, other in pairs if other is not None], dtype=np.intp).reshape(-1, 2)
    columns = [
        run.table.numbers(name)[side]
        for name in ("confidence", "correct")
        for run, side in zip((a, b), places.T, strict=True)
    ]
    known = np.isfinite(np.stack(columns)).all(axis=0)
    if not known.any():
        return []
    first, second, right_a, right_b = (column[known] for column in columns)
    kind = (2 * (1 - right_a) + (1 - right_b)).astype(int)
    names = [str(a.table.values("id")[place]) for place in places[known, 0].tolist()]
    plot = _scatter(first, second, kind, names, int((~known).sum()))
    return [Section("Sure of the same things?", [plot])]


def _scatter(first: Any, second: Any, kind: Any, names: list[str], not_scored: int) -> Plot:
    chart = Chart(
        "Confidence of A against that of B",
        Axis("confidence of A", 0, 1, percent=True),
        Axis("confidence of B", 0, 1, percent=True),
        height=360,
    ).diagonal()
    drawn = np.zeros(len(first), dtype=bool)
    drawn[thinned(len(first))] = True
    for place, label in enumerate(_KINDS):
        places = np.flatnonzero(drawn & (kind == place))
        tips = [f"{names[i]}: {first[i]:.0%} in A, {second[i]:.0%} in B, {label}" for i in places.tolist()]
        chart.points(first[places].tolist(), second[places].tolist(), label, place, tips=tips)
    some = f" {drawn.sum():,} of {len(first):,} questions are drawn." if not drawn.all() else ""
    some += f" {counted(not_scored, 'question')} not scored by both: left out." if not_scored else ""
    return chart.figure(
        "Each mark is a question. Above the dashed line B is surer than A; marks far from it are questions on which "
        f"the two see things differently.{some}",
        ["questions", "how many", "mean confidence of A", "mean confidence of B"],
        [_mean_row(label, first[kind == place], second[kind == place]) for place, label in enumerate(_KINDS)],
    )


def _mean_row(label: str, first: Any, second: Any) -> tuple[Cell, ...]:
    means = (float(first.mean()), float(second.mean())) if len(first) else (None, None)
    return label, len(first), *means
