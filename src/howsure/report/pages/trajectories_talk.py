"""The page of one run: the conversation with its uncertainty, message by message."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import htpy as h
import msgspec
import numpy as np
from htpy import Element, Node

from howsure.measures import nats_to_bits
from howsure.report.charts import Axis
from howsure.report.charts import Chart
from howsure.report.rows import key_of
from howsure.report.views import Section
from howsure.report.run_data import Material
from howsure.report.html import badge, facts, flag, long_text, notice, number, words
from howsure.report.views import as_written
from howsure.report.tokens import Shade, legend, shaded
from howsure.report.pages.trajectories_groups import Group, alarms_of, group_of
from howsure.report.pages.trajectories_turns import NO_SCORES, quantiles
from howsure.report.text import counted
from howsure.runs import Sample
from howsure.studies.trajectories.document import coverage, left_out, simulation_summary
from howsure.studies.trajectories.scores import propagate, turns_of
from howsure.studies.trajectories.turns import IMPOSSIBLE, Said, TokenRow, Trajectory, Turn

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


class Told(NamedTuple):
    """One message with all that is known of it; `cut` is how many characters it had where some are left out."""

    role: str
    text: str
    turn: Turn | None
    cut: int | None = None


class Scene(NamedTuple):
    """What stands beside the messages: running scores, alarms and marks by turn, and what shades mean here."""

    running: Mapping[int, float]
    alarms: Mapping[int, Sequence[str]]
    marks: Mapping[int, Sequence[str]]
    shades: Mapping[str, Sequence[float]]


def about(sample: Sample, material: Material) -> list[Section]:
    one = msgspec.convert(sample.result, Trajectory)
    found = [Section("How it ended", "", _figures(one))]
    if sample.failed:
        found.append(
            Section("Not analysed", "", notice(f"{words(sample.reason)}: {sample.detail or 'no more is known'}"))
        )
    if not one.turns:
        return [*found, as_written(sample)]
    scene = _scene(sample, one, material)
    told = _told(sample, one)
    found.append(_over_the_run(one, scene))
    found.append(_conversation(told, scene, whole="said" in sample.evidence))
    return [*found, as_written(sample)]


def _figures(one: Trajectory) -> Element:
    found = simulation_summary(one)
    return facts(
        {
            "task": one.task_id,
            "domain": one.domain,
            "agent": one.agent,
            "trial": one.trial,
            "reward": f"missing: {words((one.reward_missing or 'not in the log').replace('_', ' '))}"
            if one.reward is None
            else f"{one.reward:g}, {flag(not one.failed, ('solved', 'failed'))}",
            "ended by": one.termination,
            "turns": coverage([one]).text if one.turns else "none",
            "agent, mean U": _mean(found, "agent"),
            "user, mean U": _mean(found, "user"),
            "largest U": "infinite"
            if found["infinite_turns"]["overall"]
            else number(found["max_uncertainty_overall"], 3, "nats"),
            "scored by": _scored_by(one),
            "messages that are no turns": ", ".join(
                f"{count:,} {words(role, 40)}" for role, count in one.skipped.items()
            )
            or None,
            "file": one.source,
            "simulation": one.id,
        }
    )


def _mean(found: Mapping[str, Any], whose: str) -> str:
    shown, without = number(found[f"mean_uncertainty_{whose}"], 3, "nats"), left_out(found["infinite_turns"][whose])
    return f"{shown} ({without})" if without else shown


def _scored_by(one: Trajectory) -> str:
    names = sorted({turn.scored_by for turn in one.turns if turn.scored_by})
    shown = ["the log" if name == "log" else f"proxy: {name}'s surprise" for name in names]
    return ", ".join(shown) or "nobody"


# -- what stands beside the messages ----------------------------------------------------------------------------------


def _scene(sample: Sample, one: Trajectory, material: Material) -> Scene:
    row = material.table.row_of(key_of(sample.id))
    group = None if row is None else group_of(material, row)
    alarms: dict[int, list[str]] = {}
    if group is not None:
        for detector, found in alarms_of(group, material).items():
            for alarm in found:
                if alarm.row == row:
                    alarms.setdefault(alarm.turn, []).append(detector.replace("_", " "))
    marks: dict[int, list[str]] = {}
    for mark in one.marks:
        severity = f" ({mark.severity})" if mark.severity else ""
        marks.setdefault(mark.turn, []).append(mark.kind.replace("_", " ") + severity)
    return Scene(_running(one), alarms, marks, _shades(group, material))


def _running(one: Trajectory) -> dict[int, float]:
    """The root mean square of its speaker's turns so far, after each turn."""
    return {
        turn.number: value
        for whose in ("agent", "user")
        for turn, value in zip(turns_of(one, whose), propagate(one, whose)["rms"].running.tolist(), strict=True)
    }


def _shades(group: Group | None, material: Material) -> dict[str, list[float]]:
    """For agent and user, the ends of the shades in nats: quantiles of U over the turns of this group."""
    if group is None:
        return {}
    chosen = group.rows[np.unique(np.linspace(0, len(group.rows) - 1, COMPARED_RUNS).astype(int))].tolist()
    found = {}
    for actor in ("agent", "user"):
        scores = material.table.values(f"_{actor}")
        known = np.array([u for row in chosen for u in scores[row] if not math.isnan(u)])
        if len(known) >= LEAST_COMPARED:
            found[actor] = quantiles(known, SHARES).tolist()
    return found


def _told(sample: Sample, one: Trajectory) -> list[Told]:
    """The messages in order; those of a run that kept none by the beginnings of its turns."""
    said = sample.evidence.get("said")
    if said is None:
        return [Told(turn.role, turn.content, turn) for turn in one.turns]
    turns = {turn.number: turn for turn in one.turns}
    messages = zip(msgspec.convert(said, list[Said]), said, strict=True)
    return [Told(each.role, each.text, turns.get(each.turn or 0), raw.get("characters")) for each, raw in messages]


# -- the plot ---------------------------------------------------------------------------------------------------------


def _over_the_run(one: Trajectory, scene: Scene) -> Section:
    title = "Uncertainty turn by turn"
    if all(turn.uncertainty_nats is None for turn in one.turns):
        return Section(title, "", h.p(class_="quiet")[NO_SCORES])
    chart = Chart(
        "How unsure was each turn?", Axis("turn of the conversation", 1, whole=True), Axis("U, nats", 0), width=820
    )
    turns = one.turns[:DRAWN_TURNS]
    for series, actor in enumerate(("agent", "user")):
        known = [turn for turn in turns if turn.actor == actor and _is_finite(turn.uncertainty_nats)]
        if known:
            places = [turn.number for turn in known]
            tips = [f"turn {turn.number}, {actor}: U {number(turn.uncertainty_nats)} nats" for turn in known]
            chart.points(
                places, [turn.uncertainty_nats for turn in known], f"{actor}: U of the turn", series, tips=tips
            )
            chart.line(places, [_finite(scene.running.get(n)) for n in places], f"{actor}: so far (RMS)", series)
    for place, (turn, detectors) in enumerate(sorted(scene.alarms.items())[:DRAWN_ALARMS]):
        chart.upright(turn, f"alarm: {words(', '.join(detectors), 40)}", row=place)
    figure = chart.figure(
        f"A mark is a turn; the line is the root mean square of the speaker's turns so far.{_words(one, scene)}",
        ["turn", "speaker", "U, nats", "so far (RMS), nats", "alarms", "marks"],
        [_row(turn, scene) for turn in turns],
    )
    return Section(title, "U is the mean of −ln p over the tokens of a turn: 0 is certain.", figure)


def _row(turn: Turn, scene: Scene) -> tuple[Any, ...]:
    u = turn.uncertainty_nats
    return (
        turn.number,
        turn.actor,
        ("∞" if u is not None and math.isinf(u) else u),
        ("∞" if scene.running.get(turn.number) == math.inf else _finite(scene.running.get(turn.number))),
        ", ".join(scene.alarms.get(turn.number, ())),
        ", ".join(scene.marks.get(turn.number, ())),
    )


def _words(one: Trajectory, scene: Scene) -> str:
    infinite = [turn.number for turn in one.turns if turn.uncertainty_nats == math.inf]
    parts = []
    if scene.alarms:
        parts.append(" Upright: where an alarm rang.")
    if infinite:
        more = "…" if len(infinite) > 10 else ""
        turns = f"turn{'' if len(infinite) == 1 else 's'} {', '.join(map(str, infinite[:10]))}{more}"
        parts.append(
            f" U is infinite at {turns}, where a token has probability 0; from there on the line of that speaker would "
            "be infinite too."
        )
    if len(one.turns) > DRAWN_TURNS:
        parts.append(f" The first {DRAWN_TURNS} of {len(one.turns):,} turns are drawn.")
    return "".join(parts)


# -- the conversation -------------------------------------------------------------------------------------------------


def _conversation(told: Sequence[Told], scene: Scene, *, whole: bool) -> Section:
    with_tokens = any(each.turn is not None and each.turn.tokens for each in told)
    lead = "Everything that was said, in order. " if whole else ""
    lead += "So far: the root mean square of U over the speaker's turns up to this one."
    room = _Room(MOST_CHARACTERS, MOST_TOKENS)
    shown = [_message(each, scene, room) for each in told[:MOST_MESSAGES]]
    left_out = len(told) - len(shown)
    body: list[Node] = [
        None if whole else notice("This run kept the beginnings of messages only, and nothing of what tools said."),
        _shade_legend(scene),
        legend() if with_tokens else None,
        h.ol(class_="talk")[shown[:OPEN_MESSAGES]],
        [_folded(told, shown, start, scene) for start in range(OPEN_MESSAGES, len(shown), OPEN_MESSAGES)],
        h.p(class_="quiet")[f"and {counted(left_out, 'more message')}, in samples.jsonl"] if left_out > 0 else None,
    ]
    return Section("The conversation", lead, body, "talk")


def _folded(told: Sequence[Told], shown: Sequence[Node], start: int, scene: Scene) -> Element:
    end = min(start + OPEN_MESSAGES, len(shown))
    numbers = {each.turn.number for each in told[start:end] if each.turn is not None}
    rang = sorted(numbers & set(scene.alarms))
    alarm = f", with an alarm at turn {', '.join(map(str, rang))}" if rang else ""
    return h.details(class_="folded")[
        h.summary[f"messages {start + 1:,} to {end:,} of {len(told):,}{alarm}"],
        h.ol({"start": str(start + 1)}, class_="talk")[shown[start:end]],
    ]


class _Room:
    """How much text and how many tokens a page has still room for."""

    def __init__(self, characters: int, tokens: int) -> None:
        self.characters, self.tokens = characters, tokens


def _message(each: Told, scene: Scene, room: _Room) -> Element:
    turn = each.turn
    kind = turn.actor if turn is not None else "tool" if each.role in ("tool", "function") else "heard"
    alarms = scene.alarms.get(turn.number, ()) if turn is not None else ()
    marks = scene.marks.get(turn.number, ()) if turn is not None else ()
    name = f"{kind}, turn {turn.number}" if turn is not None else words(each.role, 40)
    return h.li(class_=f"message {kind}{' alarmed' if alarms else ''}")[
        h.header[
            h.strong[name],
            None if turn is None else _score(turn, scene),
            [[badge(f"alarm: {words(one, 40)}", "bad"), " "] for one in alarms],
            [[badge(words(one, 60), "doubt"), " "] for one in marks],
        ],
        _text(each, room),
        None if turn is None else _why_missing(turn),
        None if turn is None or not turn.tokens else _tokens(turn, room),
    ]


def _score(turn: Turn, scene: Scene) -> Node:
    u = turn.uncertainty_nats
    if u is None:
        return h.span(class_="quiet")["no U"]
    shown = "infinite" if math.isinf(u) else number(u, 3, "nats")
    so_far = scene.running.get(turn.number)
    running = "infinite" if so_far is not None and math.isinf(so_far) else number(so_far, 3)
    step = _step(u, scene.shades.get(turn.actor))
    return [
        h.span(class_=f"shade u{step}")[f"U {shown}"],
        h.span(class_="quiet")[f"so far {running}"],
    ]


def _step(u: float, ends: Sequence[float] | None) -> str:
    """The number of the shade, `x` where there is nothing to compare with."""
    if math.isinf(u):
        return str(len(SHARES))
    return "x" if ends is None else str(sum(u > end for end in ends))


def _shade_legend(scene: Scene) -> Node:
    """What a shade means, in words and in nats."""
    if not scene.shades:
        return None
    names = ("the surer half", "50 to 75 %", "75 to 90 %", "90 to 97 %", "the least sure 3 %")
    ends = "; ".join(
        f"{actor}: {', '.join('∞' if math.isinf(end) else number(end, 2) for end in found)} nats"
        for actor, found in scene.shades.items()
    )
    return h.p(class_="shades")[
        "U beside all turns of the same speaker in comparable runs: ",
        [[h.span(class_=f"shade u{place}")[name], " "] for place, name in enumerate(names)],
        h.span(class_="quiet")[f"The shades begin at: {ends}"],
    ]


def _text(each: Told, room: _Room) -> Node:
    if not each.text.strip():
        return h.p(class_="quiet")["(no words)"]
    if room.characters <= 0:
        more = f"of {len(each.text):,} characters: this page has no room for more" if len(each.text) > 300 else None
        return [h.p(class_="said", dir="auto")[words(each.text, 300)], h.p(class_="quiet")[more] if more else None]
    room.characters -= len(each.text)
    cut = f"This message had {each.cut:,} characters, and was cut in the run folder." if each.cut else None
    return [long_text(each.text), h.p(class_="quiet")[cut] if cut else None]


def _why_missing(turn: Turn) -> Node:
    if turn.reason is None:
        return None
    meaning = REASONS.get(turn.reason, words(turn.reason.replace("_", " "), 60))
    what = "Infinite" if turn.uncertainty_nats is not None else "No U"
    told = turn.detail and turn.reason != IMPOSSIBLE  # whose detail says the same again
    return h.p(class_="quiet")[f"{what}: {meaning}{f': {words(turn.detail, 300)}' if told else ''}."]


def _tokens(turn: Turn, room: _Room) -> Node:
    tokens = turn.tokens or []
    if len(tokens) > room.tokens:
        return h.p(class_="quiet")[f"{counted(len(tokens), 'token')}, which results.json lists: this page has no room."]
    room.tokens -= len(tokens)
    shades = [Shade(row.token, _bits(row)) for row in tokens]
    return h.details(class_="folded")[
        h.summary[f"token by token ({len(tokens):,})"], shaded(shades, f"turn {turn.number}")
    ]


def _bits(row: TokenRow) -> float:
    nats = row.neg_log_likelihood
    return math.inf if nats is None else float(nats_to_bits(nats))


def _is_finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _finite(value: float | None) -> float | None:
    return value if _is_finite(value) else None
