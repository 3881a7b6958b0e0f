"""Grounding: where the clicks went and how far off, for whom, and whether the model knew; the page of a click."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import htpy as h
import numpy as np

from howsure.evidence import TokenLogprobs
from howsure.report.charts import Axis, Named, dots
from howsure.report.document import (
    Block,
    Card,
    Cards,
    Cell,
    Facts,
    Head,
    Html,
    Lines,
    Plot,
    Prose,
    Quoted,
    Section,
    Side,
    Table,
    Tokens,
    Value,
)
from howsure.report.grounding_comparison import compared
from howsure.report.grounding_screen import screen
from howsure.report.html import badge, blocks, long_text, words
from howsure.report.pictures import left_out
from howsure.report.rows import Column
from howsure.report.run_data import RunData, StoredRun
from howsure.report.sureness import (
    Floats,
    calibration_rows,
    extremes,
    histogram_by_outcome,
    reliability,
    risk_coverage,
    worth_a_look,
)
from howsure.report.text import counted
from howsure.report.tokens import percent, readable_shades_of
from howsure.report.views import as_written
from howsure.runs import Sample
from howsure.studies.grounding.exports import OUT, RESULTS_TEXT, safe_name
from howsure.studies.grounding.figures import WITHOUT_BAD
from howsure.studies.grounding.frames import FRAMES, document_prompt, fill
from howsure.studies.grounding.judge import CALIBRATED, UNIT, GroundingSummary, GroupFigures, Knows
from howsure.studies.grounding.overlay import delta_of
from howsure.studies.grounding.record import DISTANCES, LABELS, GroundingRecord, confidence_of
from howsure.studies.grounding.words import (
    KIND_WORDS,
    drawn_in_words,
    in_words,
    legend,
    named,
    outcome_in_words,
    place_in_words,
    thousandths,
)

__all__ = ["COLUMNS", "about", "compared", "document", "row"]

COLUMNS = (
    Column("instruction", "instruction", "text", help="What was to be clicked, as the model was told."),
    Column(
        "hit",
        "hit",
        "flag",
        help="Inside of a box or polygon, within δ of a point, or a refusal where there is nothing to click.",
    ),
    Column("l2", "distance", "number", UNIT, 1, "From the middle of the target, in thousandths of the screen."),
    Column("within_delta", "within δ", "flag", help="Whether the distance is at most δ."),
    Column("inside", "inside", "flag", help="Whether the click lies in the target's box or polygon."),
    Column("says", "answer is", "word", help="A point, a refusal, or in a wrong format: nothing could be read in it."),
    Column("why_not", "unreadable because", "word", help="Why no place could be read in the answer."),
    *(
        Column(kind, named(kind), "number", UNIT if kind in DISTANCES else "", help=f"{meaning.capitalize()}.")
        for kind, meaning in KIND_WORDS.items()
    ),
    *(Column(kind, kind, "word") for kind in LABELS),
    Column("size", "screen", "word", "px", help="Width and height of the screen."),
    Column("pred_content", "names", "text", help="What the model says that it clicks, or what it read there."),
)

MOST_CARDS = 6
SHOWN_USERS, SHOWN_GROUPS, SHOWN_REASONS, SHOWN_DRAWN = 30, 12, 10, 50
BARS = 28
ACROSS = 1415.0
"""From corner to corner: no click on the screen is farther off."""
_MARKS = (
    "Blue is where the click belongs, the ring where it went, green for a hit and orange for a miss; how far off is "
    "measured from the middle of the target, in thousandths of the screen."
)
_FIGURES = {
    "point_in_target": "click inside of the target",
    "point_in_target_without_bad_samples": "the same, without bad samples of the data",
    "point_in_box": "of these, targets that are boxes",
    "point_in_polygon": "of these, targets that are polygons",
    "accuracy": "click within δ",
    "accuracy_without_bad_samples": "the same, without bad samples of the data",
    "accuracy_of_answered": "the same, of those that were answered",
    "refused_rightly": "refused, where there is nothing to click",
    "refused_wrongly": "refused, where there is something to click",
    "wrong_format": "in a wrong format",
    "hit_rate": "hits, a right refusal among them",
    "hit_rate_without_bad_samples": "the same, without bad samples of the data",
    "mean_l2": "mean distance",
    "median_l2": "median distance",
}
_OWN_PROMPTS = ("chat_pickle", "chat_jsonl", "flat_jsonl")
"""Forms of data that may come with prompts of their own, which a run does not keep."""


def row(sample: Sample[GroundingRecord]) -> dict[str, Any]:
    result = sample.result
    names = ("instruction", "hit", "l2", "within_delta", "inside", "says", "why_not", "pred_content")
    width, height = result.image_size
    return {
        **{name: getattr(result, name) for name in names},
        **{kind: ", ".join(result.labels[kind]) or None for kind in LABELS},
        **{kind: confidence_of(result, kind) for kind in KIND_WORDS},
        "size": f"{width} × {height}",
        "_digest": sys.intern(result.image_sha256),
        "_nothing": result.target.kind == "refusal",
    }


# -- a run ------------------------------------------------------------------------------------------------------------


def document(summary: GroundingSummary | None, run: RunData | None) -> list[Section]:
    sections: list[Section] = []
    delta = summary.delta if summary else delta_of(run.run) if isinstance(run, StoredRun) else None
    kind = _main_kind(run)
    if run:
        sections += [_worth_a_look(run, kind, delta), _how_far(run, delta)]
    if summary:
        sections += [*_figures(summary), *_by_label(summary), *_does_it_know(summary)]
    if run and kind is not None:
        cards = [_card(run, place, None, delta) for place in _farthest(run)[:MOST_CARDS]]
        shown = Cards([Side("", "", cards, _heads(None))], "No click missed its target.")
        sections.append(Section("Farthest off", [shown], "The misses with the largest distances."))
    return [*sections, _files(summary, run)] if run else sections


def _main_kind(run: RunData | None) -> str | None:
    """The first kind of confidence that any answer of the run has."""
    return next((kind for kind in KIND_WORDS if run and np.isfinite(run.table.numbers(kind)).any()), None)


def _worth_a_look(run: RunData, kind: str | None, delta: float | None) -> Section:
    """By confidence; for a model that gave none, by distance alone."""
    off, hit = run.table.numbers("l2"), run.table.numbers("hit")
    titles, nothing = ("Confident but wrong", "Right but unsure"), "No answer with a confidence is a hit or a miss."
    if kind is not None:
        places = extremes(run.table.numbers(kind) * (-1.0 if kind in DISTANCES else 1.0), hit, MOST_CARDS)
        leads = (
            f"Misses, the surest first. How sure it was, by {named(kind)}: {KIND_WORDS[kind]}. {_MARKS}",
            "Hits, the least sure first: these would be lost by asking again whenever the model is unsure.",
        )
        lead = "Where confidence and truth part ways: the surest of what is wrong, the least sure of what is right."
    else:
        near = np.flatnonzero(np.isfinite(off) & (hit == 1))
        places = (_farthest(run)[:MOST_CARDS], near[np.argsort(-off[near], kind="stable")][:MOST_CARDS].tolist())
        titles, nothing = ("Farthest off", "Barely hit"), "No answer has a distance."
        leads = (
            f"Misses, the farthest off first. {_MARKS}",
            "Hits, the farthest from the middle of their target first: a little more, and they would be misses.",
        )
        lead = "The model gave no confidence: these are chosen by distance alone."
    wrong, right = ([_card(run, place, kind, delta) for place in side] for side in places)
    return worth_a_look(wrong, right, nothing, headers=_heads(kind), titles=titles, leads=leads, lead=lead)


def _farthest(run: RunData) -> list[int]:
    """The misses that have a distance, the farthest first."""
    off = run.table.numbers("l2")
    missed = np.flatnonzero(np.isfinite(off) & (run.table.numbers("hit") == 0))
    places: list[int] = missed[np.argsort(-off[missed], kind="stable")].tolist()
    return places


def _heads(kind: str | None) -> list[str | Head]:
    sure = [] if kind is None else [Head(named(kind), numeric=True)]
    return [*sure, Head("off", numeric=True), Head("instruction", cut=True)]


def _card(run: RunData, place: int, kind: str | None, delta: float | None) -> Card:
    sample: Sample[GroundingRecord] = run.sample(place)
    result = sample.result
    value = None if kind is None else confidence_of(result, kind)
    sure = [] if kind is None or value is None else [_sure(value, kind)]
    verdict = ", ".join([*(f"{named(kind)} {one}" for one in sure), outcome_in_words(sample)])
    link = run.links.sample(run.table.keys[place])
    return Card(
        sample.id,
        verdict,
        bool(result.hit),
        lambda: [Quoted(result.instruction), Html(screen(sample, run, delta))],
        [*sure, thousandths(result.l2), result.instruction],
        {"": link} if link else {},
    )


def _sure(value: float, kind: str) -> str:
    """Only some kinds are probabilities, and not all of these of a hit."""
    if kind in DISTANCES:
        return thousandths(value)
    return f"{value:.3f}" if kind == "match" else percent(value)


# -- distances --------------------------------------------------------------------------------------------------------


def _how_far(run: RunData, delta: float | None) -> Section:
    """How the distances of hits and misses lie, with δ as a line among them, and who has none, and why."""
    table = run.table
    off, hit = table.numbers("l2"), table.numbers("hit")
    known = np.isfinite(off) & np.isfinite(hit)
    reasons = Counter(_why_no_distance(run, place) for place in np.flatnonzero(~known).tolist())
    lead = "Every sample has a distance."
    if reasons:
        parts = ", ".join(f"{count:,} {what}" for what, count in reasons.most_common())
        lead = f"{int(known.sum()):,} of {len(table):,} samples have a distance; the others do not: {parts}."
    off, hit = off[known], hit[known]
    edges = bar_edges(float(off.max(initial=0.0)), delta)
    seen = delta is not None and delta <= edges[-1]
    beyond = int((off > edges[-1]).sum())
    more = f" The last bar also holds {counted(beyond, 'click')} farther off than the screen is long." if beyond else ""
    plot = histogram_by_outcome(
        "Distance of the click from the middle of its target",
        "0 is a click in the very middle, 1000 one that is off by the whole width or height. Where the data has boxes "
        "or outlines, a hit is a click inside of them, near or not; where it has points, one within δ"
        f"{', the dashed line' if seen else ''}.{more}",
        "distance, thousandths of the screen",
        np.minimum(off, edges[-1]),
        hit,
        ("hit", "missed"),
        span=(0.0, float(edges[-1])),
        edges=np.concatenate([edges[:1], np.nextafter(edges[1:], np.inf)]),  # what is off by δ is within δ
        upright=(delta, f"δ = {delta:g}") if delta is not None and seen else None,
    )
    return Section("How far off", [plot], lead)


def _why_no_distance(run: RunData, place: int) -> str:
    if run.table.values("reason")[place] is not None:
        return "failed"
    if run.table.values("_nothing")[place]:
        return "with nothing to click"
    says = run.table.values("says")[place]
    return {"refusal": "refused", "wrong_format": "in a wrong format"}.get(says, "without a place")


def bar_edges(farthest: float, delta: float | None) -> Floats:
    """Bars of one width, none of them on both sides of δ; what lies off the screen is in the last.

    Before a δ that is smaller than a bar there is a narrow one, or there would be thousands.
    """
    end = min(max(farthest, delta or 0.0, 1.0), ACROSS)
    width = end / BARS
    if not delta or delta > end:
        return np.linspace(0.0, end, BARS + 1)
    parts = int(delta / width)
    before = np.linspace(0.0, delta, max(1, parts) + 1)  # ends in δ to the last digit, which decides who is within
    width = delta / parts if parts else width
    after = delta + np.arange(1, int(np.ceil((end - delta) / width - 1e-9)) + 1) * width
    return np.concatenate([before, after])


# -- figures ----------------------------------------------------------------------------------------------------------


def _figures(summary: GroundingSummary) -> list[Section]:
    """All of them on a page; a terminal has the headline. Why answers could not be read is everywhere."""
    rows: list[tuple[Cell, ...]] = []
    for name, meaning in _FIGURES.items():
        one = summary.figures[name]
        if one.of and (summary.bad_sample_count or not name.endswith(WITHOUT_BAD)):
            value = Value.at(one, "value", UNIT if name.endswith("l2") else "share", of=None)
            rows.append((meaning, value, f"{one.count:,} of {one.of:,}"))
    lead = (
        "Shares count whatever has no click as a miss; distances leave it out. Intervals are over screens, since "
        "samples on one screen are not independent; from fewer than 5 screens there are none."
    )
    table = Table(["", "value (95 % interval)", Head("samples", numeric=True)], rows)
    sections = [Section("The figures", [table], lead, on="page")]
    if summary.why_not:
        reasons = sorted(summary.why_not.items(), key=lambda pair: (-pair[1], pair[0]))
        heads = [Head("reason", cut=True), Head("answers", numeric=True)]
        why = Table(heads, [(named(reason), count) for reason, count in reasons], most=SHOWN_REASONS)
        sections.append(Section("Why answers could not be read", [why]))
    return sections


def _by_label(summary: GroundingSummary) -> list[Section]:
    """Who or what is hit how often, for each kind of label that the data has: users in their order, of others the most
    frequent first."""
    plots, tables = [], []
    for kind, groups in summary.splits.items():
        if groups:
            ordered = groups if kind == "user" else sorted(groups, key=lambda one: -one.count)
            regions = any(one.point_in_target is not None for one in groups)
            plots.append(_split_plot(kind, ordered, regions))
            tables.append(_split_table(kind, ordered, regions))
    lead = "Labels are those of the data; a sample with several counts in each. L2 is in thousandths of the screen."
    return [Section("Where it is good", [*plots, *tables], lead)] if tables else []


def _split_plot(kind: str, groups: Sequence[GroupFigures], regions: bool) -> Plot:
    what, name = ("inside of the target", "point_in_target") if regions else ("within δ", "accuracy")
    return dots(
        f"By {kind}",
        f"The dot is the share of clicks {what}; at the right, how many samples there are.",
        Axis(f"clicks {what}", 0, 1, percent=True),
        [Named(_name(one), Value.at(one, name, "share"), counted(one.count, "sample")) for one in groups],
        over="screens",
    )


def _split_table(kind: str, groups: Sequence[GroupFigures], regions: bool) -> Table:
    """How often a click is inside of its target has a column only where there are such targets."""
    heads = [
        Head(kind, cut=True),
        Head("samples", numeric=True),
        *([Head("in target")] if regions else []),
        Head("accuracy"),
        Head("mean L2", numeric=True),
        Head("median L2", numeric=True, wide=True),
        Head("wrong format", numeric=True, short="unread"),
    ]
    rows: list[tuple[Cell, ...]] = [
        (
            _name(one),
            one.count,
            *([Value.at(one, "point_in_target", "share")] if regions else []),
            Value.at(one, "accuracy", "share"),
            thousandths(one.mean_l2),
            thousandths(one.median_l2),
            one.wrong_format_count,
        )
        for one in groups
    ]
    return Table(heads, rows, more="in summary.json", most=SHOWN_USERS if kind == "user" else SHOWN_GROUPS)


def _name(one: GroupFigures) -> str:
    return one.value if isinstance(one.value, str) else "(none)"


def _does_it_know(summary: GroundingSummary) -> list[Section]:
    """A line of figures for each kind of confidence; plots of the first at once, of the others when asked for."""
    knows = {kind: summary.knows[kind] for kind in KIND_WORDS if kind in summary.knows}
    if not knows:
        return []
    rows: list[tuple[Cell, ...]] = []
    without: dict[str, list[str]] = {}
    for kind, one in knows.items():
        ranked = [None if one.selective is None else Value.at(one.selective, name) for name in ("auroc", "aurc")]
        rows.append((named(kind), one.answers, *ranked))
        if one.missing:
            reasons = ", ".join(f"{count:,} {named(why)}" for why, count in one.missing.items())
            without.setdefault(reasons, []).append(named(kind))
    explained = (
        "AUROC is the chance that a hit is surer than a miss: 0.5 tells nothing, 1 all. AURC is the mean share of "
        "misses among the surest, over all ways to draw that line. Only agreement claims to be a probability of being "
        "right, and is calibrated: the others rank."
    )
    shown: list[Block] = [
        Table(["confidence", Head("answers", numeric=True), "AUROC (hit vs miss)", "AURC"], rows),
        *(Prose(f"Without {', '.join(kinds)}: {reasons}.", "quiet") for reasons, kinds in without.items()),
        Prose(explained, "quiet", on="page"),
    ]
    for kind in CALIBRATED:
        if kind in knows and (found := knows[kind].calibration) is not None:
            said = f"{named(kind).capitalize()}, set against clicks within δ, which it counts among the drawn answers:"
            shown += [Prose(said), Facts(calibration_rows(found))]
    plotted = [kind for kind, one in knows.items() if one.answers]
    if not plotted:
        return [Section("Does it know?", shown, "No answer has a confidence.")]
    for kind in plotted[1:]:
        meaning = f"By {named(kind)}: {KIND_WORDS[kind]}"
        shown.append(Html(h.details[h.summary[meaning], blocks(_plots(kind, knows[kind]))]))
    lead = f"Confidence set against hit and miss. Plotted: {named(plotted[0])}, {KIND_WORDS[plotted[0]]}."
    return [Section("Does it know?", [*_plots(plotted[0], knows[plotted[0]]), *shown], lead)]


def _plots(kind: str, one: Knows) -> list[Plot]:
    plots = [] if one.selective is None else [risk_coverage(one.selective, "answers")]
    return [*plots, reliability(one.calibration)] if kind in CALIBRATED and one.calibration is not None else plots


def _files(summary: GroundingSummary | None, run: RunData) -> Section:
    """What the run folder has for other programs and for the eye, and which pictures it has not."""
    users = [one.value for one in summary.splits.get("user", ()) if isinstance(one.value, str)] if summary else []
    folder = f"user_{safe_name(users[0])}/" if users else ""
    lines = [f"{folder}{OUT}, {folder}{RESULTS_TEXT}{f', and so for {len(users):,} users' if users[1:] else ''}"]
    if "point" in run.table.values("says"):
        lines.append(f"to see clicks on their screens: howsure grounding overlay {shlex.quote(str(run.folder))}")
    copies = left_out(run, "_digest")
    return Section("In the run folder", [Lines(lines), *([Prose(copies, "quiet")] if copies else [])])


# -- a click ----------------------------------------------------------------------------------------------------------


def about(sample: Sample[GroundingRecord], run: StoredRun) -> list[Section]:
    options = run.run.manifest.identity.options
    sections = [_screen(sample, run), _asked(sample.result.instruction, options)]
    if sample.failed:
        why = f"Missing because: {words(named(sample.reason))}."
        sections.append(Section("No answer", [Quoted(sample.detail or "")], why))
    else:
        sections += [_answer(sample, options), _sureness(sample.result), *_drawn(sample)]
    return [*sections, as_written(sample)]


def _screen(sample: Sample[GroundingRecord], run: StoredRun) -> Section:
    result, delta = sample.result, delta_of(run.run)
    kind = "none" if sample.failed else "good" if result.hit else "bad"
    marks = "; ".join(legend(result, delta))
    facts: list[tuple[str, Cell]] = [
        ("belongs at", place_in_words(result.gt_coord)),
        ("is called", result.gt_content),
        ("clicked at", place_in_words(result.pred_coord)),
        ("file", result.image_path),
    ]
    shown: list[Block] = [
        Quoted(result.instruction, fold=False),
        Html(h.p[badge(outcome_in_words(sample), kind), " ", words(in_words(sample, delta), 400)]),
        Html(screen(sample, run, delta, large=True)),
        Prose(f"{marks[:1].upper()}{marks[1:]}.", "quiet"),
        Facts(facts),
    ]
    return Section("What was to be clicked", shown)


def _asked(instruction: str, options: dict[str, Any]) -> Section:
    """How the instruction was put to the model, and the prompt where the run's options tell it."""
    section = Section("How it was asked", [])
    template, frame = options.get("prompt"), FRAMES.get(str(options.get("frame")))
    if template is None or frame is None:
        return replace(section, blocks=[Prose("The model clicks by itself: there is no prompt around it.", "quiet")])
    refuse = options.get("may_refuse") is True
    if template != "default":
        lead, prompt = "Asked with the template of this run.", fill(str(template), instruction, frame, refuse)
    else:
        lead, prompt = "Asked with the usual prompt.", document_prompt(instruction, frame, may_refuse=refuse)
        if options.get("data_form") in _OWN_PROMPTS:
            lead = "Asked with the prompt that came with the data, which a run does not keep; without one, with this:"
    whole = h.details[h.summary["The whole prompt"], long_text(prompt, fold=False)]
    return replace(section, blocks=[Html(whole)], lead=lead)


def _answer(sample: Sample[GroundingRecord], options: dict[str, Any]) -> Section:
    result, tokens = sample.result, sample.evidence.get("answer")
    said: list[Block] = []
    lead = "The model clicks and writes nothing."
    if tokens is not None:
        lead = (
            "The redder, the more surprising; point at a token, or walk along with the arrow keys, for its probability "
            "and for what else was likely in its place."
        )
        said.append(Tokens(readable_shades_of(TokenLogprobs.from_dict(tokens)), "the answer"))
    elif result.pred_raw is not None:
        lead = "The raw answer; the probabilities of its tokens are not known."
        said.append(Quoted(result.pred_raw, fold=False))
    says = {"point": "a click", "refusal": "there is nothing to click", "wrong_format": "nothing that can be read"}
    frame = FRAMES.get(str(options.get("frame")))
    facts = [
        ("says", says.get(result.says or "", "not said")),
        ("unreadable because", result.why_not and named(result.why_not)),
        ("read as", result.form and named(result.form)),
        ("numbers are", f"{frame.means} ({frame.name}, {options.get('frame_because')})" if frame else None),
        ("names", result.pred_content),
        ("ended by", result.finish_reason and named(result.finish_reason)),
    ]
    return Section("The answer", [*said, Facts(facts)], lead)


def _sureness(result: GroundingRecord) -> Section:
    known, missing = result.confidence, result.confidence_missing
    if known is None or not known.known:
        return Section("How sure it was", [Prose("The model gave no confidence of any kind.", "quiet")])
    rows = []
    for kind, value in known.known.items():
        shown = f"missing: {named(None if missing is None else missing[kind])}"
        if value is not None:
            shown = f"{_sure(value, kind)} {UNIT if kind in DISTANCES else ''}"
        rows.append((named(kind), shown, KIND_WORDS[kind]))
    return Section("How sure it was", [Table(["by", Head("", numeric=True), "which is"], rows)])


def _drawn(sample: Sample[GroundingRecord]) -> list[Section]:
    counts, texts = sample.result.samples, sample.evidence.get("samples") or []
    if counts is None:
        return []
    answers = [
        h.li[long_text(one["text"]) if one["text"] is not None else f"failed: {words(one['failure'], 400)}"]
        for one in texts[:SHOWN_DRAWN]
    ]
    more = h.p(class_="quiet")[f"and {len(texts) - SHOWN_DRAWN:,} more"] if len(texts) > SHOWN_DRAWN else None
    listed = Html(h.details[h.summary["The answers"], h.ol[answers], more])
    shown = listed if texts else Prose("They were not kept.", "quiet")
    return [Section("Asked again", [shown], f"{drawn_in_words(counts)}.")]
