"""The page of a run: its conversation, message by message, with the uncertainty of each turn."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import htpy as h
import msgspec
import numpy as np
from htpy import Element, Node

from howsure.measures import nats_to_bits
from howsure.report.charts import Axis, Chart, Scale, px
from howsure.report.document import Block, Cell, Facts, Html, Plot, Prose, Section, Shade
from howsure.report.html import badge, long_text, number, words
from howsure.report.rows import key_of
from howsure.report.run_data import RunData
from howsure.report.text import counted
from howsure.report.tokens import legend, shaded
from howsure.report.trajectories_groups import NO_SCORES, Group, alarms_of, groups_of, quantiles
from howsure.report.views import as_written
from howsure.runs import Sample
from howsure.studies.trajectories.document import coverage, infinite, left_out, mean, scores_of
from howsure.studies.trajectories.scores import propagate, turns_of
from howsure.studies.trajectories.turns import IMPOSSIBLE, Evidence, Said, TokenRow, Trajectory, Turn

OPEN_MESSAGES = 60
"""Of a conversation; what follows is folded, so many at a time."""
MOST_MESSAGES = 1_500
MOST_CHARACTERS = 600_000
"""Of all messages of a page together; after that they are shown by their beginnings."""
MOST_TOKENS = 30_000
DRAWN_TURNS = 500
"""As many as the table below the plot has rows."""
DRAWN_ALARMS = 12
COMPARED_RUNS = 2_000
LEAST_COMPARED = 20
"""Turns that a shade needs to mean anything."""

SHARES = (0.5, 0.75, 0.9, 0.97)
"""Where one shade ends and the next begins: shares of the turns of the same speaker in the same group."""
SHADES = ("the surer half", "50 to 75 %", "75 to 90 %", "90 to 97 %", "the least sure 3 %")

REASONS = {
    "scripted": "the greeting that is put into every agent's mouth; no model wrote it",
    "given": "it came with the task; no model wrote it",
    "tool_call": "a call of a tool, for which the log holds no log-probabilities",
    "no_logprobs": "the log holds no log-probabilities for it",
    "empty_message": "nothing was said",
    "control_word": "nothing but a word that ends the conversation",
    "impossible_token": "a token of it has probability zero, so that U is infinite",
    "unreadable": "what stands in the log are no log-probabilities",
    "not_read_by_model": "the model could not read this conversation",
}


@dataclass
class Scene:
    """What stands beside the messages, by turn, what shades mean here, and how much room the page still has."""

    running: Mapping[int, float]
    alarms: Mapping[int, Sequence[str]]
    marks: Mapping[int, Sequence[str]]
    shades: Mapping[str, Sequence[float]]
    characters: int = field(default_factory=lambda: MOST_CHARACTERS)
    tokens: int = field(default_factory=lambda: MOST_TOKENS)


class Message(NamedTuple):
    said: Said
    turn: Turn | None


def about(sample: Sample[Trajectory], run: RunData) -> list[Section]:
    one = sample.result
    sections = [Section("How it ended", [_figures(one)])]
    if sample.reason is not None:
        why = f"{sample.reason.replace('_', ' ')}: {sample.detail or 'no more is known'}"
        sections.append(Section("Not analysed", [Prose(why, "warning")]))
    if one.turns:
        scene = _scene(sample, run)
        sections += [_over_the_run(one, scene), _conversation(sample, scene)]
    return [*sections, as_written(sample)]


def _figures(one: Trajectory) -> Facts:
    largest = max(scores_of(one.turns), default=None)
    readers = sorted({turn.scored_by for turn in one.turns if turn.scored_by})
    scored_by = ["the log" if name == "log" else f"proxy: {name}'s surprise" for name in readers]
    heard = ", ".join(f"{count:,} {words(role, 40)}" for role, count in one.skipped.items())
    missing = f"missing: {(one.reward_missing or 'not in the log').replace('_', ' ')}"
    return Facts(
        [
            ("task", one.task_id),
            ("domain", one.domain),
            ("agent", one.agent),
            ("trial", one.trial),
            ("reward", missing if one.reward is None else f"{one.reward:g}, {'failed' if one.failed else 'solved'}"),
            ("ended by", one.termination),
            ("turns", coverage([one]).text if one.turns else "none"),
            ("agent, mean U", mean_in_words(scores_of(one.turns, "agent"))),
            ("user, mean U", mean_in_words(scores_of(one.turns, "user"))),
            ("largest U", u_in_words(largest)),
            ("scored by", ", ".join(scored_by) or "nobody"),
            ("messages that are no turns", heard or None),
            ("file", one.source),
            ("simulation", one.id),
        ]
    )


def mean_in_words(scores: Sequence[float], digits: int = 3, unit: str = "nats") -> str:
    """`0.800 nats (without 1 turn of infinite U)`."""
    without = left_out(infinite(scores))
    return number(mean(scores), digits, unit) + (f" ({without})" if without else "")


def u_in_words(value: float | None, digits: int = 3, unit: str = "nats") -> str:
    return "infinite" if value == math.inf else number(value, digits, unit)


# -- what stands beside the messages ----------------------------------------------------------------------------------


def _scene(sample: Sample[Trajectory], run: RunData) -> Scene:
    one, row = sample.result, run.table.row_of(key_of(sample.id))
    group = next((group for group in groups_of(run.summary, run) if row in group.rows), None)
    running = {
        turn.number: value
        for whose in ("agent", "user")
        for turn, value in zip(turns_of(one, whose), propagate(one, whose)["rms"].running.tolist(), strict=True)
    }
    alarms: dict[int, list[str]] = {}
    for detector, rang in (alarms_of(group) if group else {}).items():
        for alarm in rang:
            if alarm.row == row:
                alarms.setdefault(alarm.turn, []).append(detector.replace("_", " "))
    marks: dict[int, list[str]] = {}
    for mark in one.marks:
        severity = f" ({mark.severity})" if mark.severity else ""
        marks.setdefault(mark.turn, []).append(mark.kind.replace("_", " ") + severity)
    return Scene(running, alarms, marks, _shades(group) if group else {})


def _shades(group: Group) -> dict[str, list[float]]:
    """For agent and user, the ends of the shades in nats: quantiles of U over the turns of this group."""
    chosen = group.rows[np.unique(np.linspace(0, len(group.rows) - 1, COMPARED_RUNS).astype(int))].tolist()
    ends = {}
    for actor in ("agent", "user"):
        scores = [] if group.run is None else group.run.table.values(f"_{actor}")
        known = np.array([u for row in chosen for u in scores[row] if not math.isnan(u)])
        if len(known) >= LEAST_COMPARED:
            ends[actor] = quantiles(known, SHARES).tolist()
    return ends


# -- the plot ---------------------------------------------------------------------------------------------------------


def _over_the_run(one: Trajectory, scene: Scene) -> Section:
    title = "Uncertainty turn by turn"
    if all(turn.uncertainty_nats is None for turn in one.turns):
        return Section(title, [Prose(NO_SCORES, "quiet")])
    lead = "U is the mean of −ln p over the tokens of a turn: 0 is certain."
    return Section(title, [_turns_plot(one, scene)], lead)


def _turns_plot(one: Trajectory, scene: Scene) -> Plot:
    chart = Chart(
        "How unsure was each turn?", Axis("turn of the conversation", 1, whole=True), Axis("U, nats", 0), width=820
    )
    turns = one.turns[:DRAWN_TURNS]
    for series, actor in enumerate(("agent", "user")):
        known = [
            (turn.number, turn.uncertainty_nats)
            for turn in turns
            if turn.actor == actor and turn.uncertainty_nats is not None and math.isfinite(turn.uncertainty_nats)
        ]
        if known:
            places, scores = zip(*known, strict=True)
            tips = [f"turn {place}, {actor}: U {number(u)} nats" for place, u in known]
            chart.points(places, scores, f"{actor}: U of the turn", series, tips=tips)
            so_far = [scene.running[place] for place in places]
            chart.line(places, [u if math.isfinite(u) else None for u in so_far], f"{actor}: so far (RMS)", series)
    for place, (turn, detectors) in enumerate(sorted(scene.alarms.items())[:DRAWN_ALARMS]):
        chart.upright(turn, f"alarm: {words(', '.join(detectors), 40)}", row=place)
    said = ["A mark is a turn; the line is the root mean square of the speaker's turns so far."]
    if scene.alarms:
        said.append("Upright: where an alarm fired.")
    if impossible := [turn.number for turn in one.turns if turn.uncertainty_nats == math.inf]:
        listed = ", ".join(map(str, impossible[:10])) + ("…" if len(impossible) > 10 else "")
        said.append(
            f"U is infinite at turn{'' if len(impossible) == 1 else 's'} {listed}, where a token has probability 0; "
            "from there on the line of that speaker would be infinite too."
        )
    if len(one.turns) > DRAWN_TURNS:
        said.append(f"The first {DRAWN_TURNS} of {len(one.turns):,} turns are drawn.")
    rows: list[tuple[Cell, ...]] = [
        (
            turn.number,
            turn.actor,
            _infinite_or(turn.uncertainty_nats),
            _infinite_or(scene.running.get(turn.number)),
            ", ".join(scene.alarms.get(turn.number, ())),
            ", ".join(scene.marks.get(turn.number, ())),
        )
        for turn in turns
    ]
    return chart.figure(" ".join(said), ["turn", "speaker", "U, nats", "so far (RMS), nats", "alarms", "marks"], rows)


def _infinite_or(value: float | None) -> float | str | None:
    return "∞" if value == math.inf else value


# -- the conversation -------------------------------------------------------------------------------------------------


def _messages(sample: Sample[Trajectory]) -> tuple[list[Message], bool]:
    """In order, and whether these are all; of a run that kept no messages, the beginnings of its turns."""
    turns = {turn.number: turn for turn in sample.result.turns}
    if not sample.evidence:
        return [Message(Said(turn.role, turn.content, turn.number), turn) for turn in turns.values()], False
    said = msgspec.convert(sample.evidence, Evidence).said
    return [Message(each, turns.get(each.turn or 0)) for each in said], True


def _conversation(sample: Sample[Trajectory], scene: Scene) -> Section:
    messages, whole = _messages(sample)
    lead = "Everything that was said, in order. " if whole else ""
    lead += "So far: the root mean square of U over the speaker's turns up to this one."
    shown = [_message(each, scene) for each in messages[:MOST_MESSAGES]]
    left_out = len(messages) - len(shown)
    blocks: list[Block] = []
    if not whole:
        blocks.append(
            Prose("This run kept the beginnings of messages only, and nothing of what tools said.", "warning")
        )
    folds = [_folded(messages, shown, start, scene) for start in range(OPEN_MESSAGES, len(shown), OPEN_MESSAGES)]
    tokens = any(each.turn is not None and each.turn.tokens for each in messages)
    talk = [
        _legend(scene),
        legend() if tokens else None,
        h.ol(class_="talk")[shown[:OPEN_MESSAGES]],
        folds,
    ]
    blocks.append(Html(talk))
    if left_out > 0:
        blocks.append(Prose(f"and {counted(left_out, 'more message')}, in samples.jsonl", "quiet"))
    return Section("The conversation", blocks, lead, "talk")


def _legend(scene: Scene) -> Node:
    """What a shade means, in words and in nats."""
    ends = "; ".join(
        f"{actor}: {', '.join('∞' if math.isinf(end) else number(end, 2) for end in ends)} nats"
        for actor, ends in scene.shades.items()
    )
    if not scene.shades:
        return None
    return h.p(class_="shades")[
        "U beside all turns of the same speaker in comparable runs: ",
        [[h.span(class_=f"shade u{place}")[name], " "] for place, name in enumerate(SHADES)],
        h.span(class_="quiet")[f"The shades begin at: {ends}"],
    ]


def _folded(messages: Sequence[Message], shown: Sequence[Node], start: int, scene: Scene) -> Element:
    end = min(start + OPEN_MESSAGES, len(shown))
    numbers = {each.turn.number for each in messages[start:end] if each.turn is not None}
    rang = sorted(numbers & set(scene.alarms))
    alarm = f", with an alarm at turn {', '.join(map(str, rang))}" if rang else ""
    return h.details(class_="folded")[
        h.summary[f"messages {start + 1:,} to {end:,} of {len(messages):,}{alarm}"],
        h.ol({"start": str(start + 1)}, class_="talk")[shown[start:end]],
    ]


def _message(each: Message, scene: Scene) -> Element:
    said, turn = each
    if turn is None:
        kind = "tool" if said.role in ("tool", "function") else "heard"
        return h.li(class_=f"message {kind}")[h.header[h.strong[words(said.role, 40)]], _text(said, scene)]
    alarms, marks = scene.alarms.get(turn.number, ()), scene.marks.get(turn.number, ())
    return h.li(class_=f"message {turn.actor}{' alarmed' if alarms else ''}")[
        h.header[
            h.strong[f"{turn.actor}, turn {turn.number}"],
            _score(turn, scene),
            [[badge(f"alarm: {words(one, 40)}", "bad"), " "] for one in alarms],
            [[badge(words(one, 60), "doubt"), " "] for one in marks],
        ],
        _text(said, scene),
        _why_missing(turn),
        _tokens(turn, scene),
    ]


def _score(turn: Turn, scene: Scene) -> Node:
    u, ends = turn.uncertainty_nats, scene.shades.get(turn.actor)
    if u is None:
        return h.span(class_="quiet")["no U"]
    shade = len(SHARES) if math.isinf(u) else "x" if ends is None else sum(u > end for end in ends)
    return [
        h.span(class_=f"shade u{shade}")[f"U {u_in_words(u)}"],
        h.span(class_="quiet")[f"so far {u_in_words(scene.running.get(turn.number), unit='')}"],
    ]


def _text(said: Said, scene: Scene) -> Node:
    text = said.text
    if not text.strip():
        return h.p(class_="quiet")["(no words)"]
    if scene.characters <= 0:
        more = f"of {len(text):,} characters: this page has no room for more" if len(text) > 300 else None
        return [h.p(class_="said", dir="auto")[words(text, 300)], h.p(class_="quiet")[more] if more else None]
    scene.characters -= len(text)
    cut = (
        f"This message had {said.characters:,} characters, and was cut in the run folder." if said.characters else None
    )
    return [long_text(text), h.p(class_="quiet")[cut] if cut else None]


def _why_missing(turn: Turn) -> Node:
    if turn.reason is None:
        return None
    meaning = REASONS.get(turn.reason, words(turn.reason.replace("_", " "), 60))
    what = "Infinite" if turn.uncertainty_nats is not None else "No U"
    told = turn.detail and turn.reason != IMPOSSIBLE  # whose detail says the same again
    return h.p(class_="quiet")[f"{what}: {meaning}{f': {words(turn.detail, 300)}' if told else ''}."]


def _tokens(turn: Turn, scene: Scene) -> Node:
    tokens = turn.tokens or []
    if not tokens:
        return None
    if len(tokens) > scene.tokens:
        return h.p(class_="quiet")[f"{counted(len(tokens), 'token')}, which results.json lists: this page has no room."]
    scene.tokens -= len(tokens)
    return h.details(class_="folded")[
        h.summary[f"token by token ({len(tokens):,})"],
        shaded([Shade(row.token, _bits(row)) for row in tokens], f"turn {turn.number}"),
    ]


def _bits(row: TokenRow) -> float:
    nats = row.neg_log_likelihood
    return math.inf if nats is None else float(nats_to_bits(nats))


# -- a run at a glance ------------------------------------------------------------------------------------------------

WIDTH_PX, HEIGHT_PX, EDGE_PX = 300.0, 40.0, 5.0
SPARK_TURNS = 200
READ_TURNS = 40
"""Values that are read out to those who cannot see the line."""


def spark(values: Sequence[float], whose: str, before: str = "") -> Element:
    """U over the turns of one speaker as a small line without axes; it has gaps where a turn has none (NaN)."""
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return h.p(class_="quiet")[f"{before}No turn of the {whose} has a finite U."]
    shown = values[:SPARK_TURNS]
    x = Scale(Axis("", 0, max(len(shown) - 1, 1)), [], EDGE_PX, WIDTH_PX - EDGE_PX, 2)
    y = Scale(Axis("", 0, max(*known, 1e-9)), [], HEIGHT_PX - EDGE_PX, EDGE_PX, 2)
    pieces: list[list[str]] = [[]]
    marks = []
    for place, value in enumerate(shown):
        if math.isfinite(value):
            pieces[-1].append(f"{px(x(place))} {px(y(value))}")
            marks.append(h.circle(class_="point s0", cx=px(x(place)), cy=px(y(value)), r="2.5"))
        else:
            pieces.append([])
    read = ["none" if math.isnan(value) else u_in_words(value, 2, "") for value in values[:READ_TURNS]]
    label = f"U of the {whose} by turn, nats: {', '.join(read)}{', …' if len(values) > READ_TURNS else ''}"
    more = ", infinite once or more" if math.inf in values else ""
    more += f"; the first {SPARK_TURNS} are drawn" if len(values) > SPARK_TURNS else ""
    ends = f"{number(min(known), 2)} to {number(max(known), 2)} nats{more}"
    return h.div(class_="spark")[
        h.svg({"viewBox": f"0 0 {px(WIDTH_PX)} {px(HEIGHT_PX)}", "aria-label": label}, role="img")[
            h.path(class_="axis", d=f"M0 {px(HEIGHT_PX - EDGE_PX)}H{px(WIDTH_PX)}"),
            [h.path(class_="line s0", d=f"M{'L'.join(piece)}") for piece in pieces if len(piece) > 1],
            marks,
        ],
        h.span(class_="quiet")[f"{before}U over the {whose}'s {counted(len(values), 'turn')}: {ends}"],
    ]
