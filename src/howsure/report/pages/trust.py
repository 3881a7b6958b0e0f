"""Pages of trust: what grounding and instruction each decided, the replay, and whether the robot should be so sure."""

from __future__ import annotations

from typing import Any

import htpy as h
import numpy as np
from htpy import Node
from numpy.typing import NDArray

from howsure.report.rows import Column, Table
from howsure.report.views import Card, Picks, Section
from howsure.report.run_data import Material
from howsure.report.html import facts, words
from howsure.report.sureness import extremes, histogram_by_outcome, reliability, risk_coverage
from howsure.report.tokens import percent
from howsure.report.pages.trust_frames import Frames
from howsure.report.pages.trust_overall import overall
from howsure.report.pages.trust_plots import by_step
from howsure.report.pages.trust_replay import best, done, replay, seen, step_name
from howsure.report.pages.trust_spread import CONDITIONS, acting_spread, entropies, missing_words, share_of_gain
from howsure.report.pages.trust_step import about as about
from howsure.report.text import counted
from howsure.report.trust_log import share_in_words, sureness_in_words
from howsure.runs import Sample

COLUMNS = (
    Column("episode", "episode", "number", digits=0),
    Column("step", "step", "number", digits=0),
    Column("action", "action", "word", help="What was done, by the model that was told everything."),
    Column("effect", "effect", "word", help="What came of it."),
    Column("moved", "had an effect", "flag", help="Whether the world was another after it."),
    Column("action_probability", "probability", "number", help="How likely the model found the action that was taken."),
    Column(
        "action_confidence",
        "confidence",
        "number",
        help="How likely the model found it that this is right: equally good actions are taken together.",
    ),
    Column("correct", "on a shortest path", "flag", help="Whether the action lies on a shortest path to the goal."),
    Column("best", "best actions", "word", help="All actions that lie on a shortest path."),
    Column("h_x", "H(X)", "number", "bits", help="Entropy of the action, told neither knowledge nor instruction."),
    Column("h_x_given_s", "H(X|S)", "number", "bits", help="Entropy of the action, told what is known of the place."),
    Column("h_x_given_ls", "H(X|L,S)", "number", "bits", help="Entropy of the action, told the instruction too."),
    Column(
        "trust",
        "T",
        "number",
        help="(H(X) − H(X|S)) / (H(X) − H(X|L,S)) where told everything it was surer; has no bounds in a single step.",
    ),
    Column("repeated", "asked before", "flag", help="Whether an earlier step was asked word for word the same."),
    Column("missing", "what is missing", "word", help="Which of the entropies are not there, and why."),
)


def row(sample: Sample) -> dict[str, Any]:
    result = sample.result
    names = ("episode", "step", "action", "effect", "moved", "action_probability", "action_confidence")
    bits = entropies(result)
    chosen = result.get("best_actions")
    return {name: result.get(name) for name in names} | {
        "correct": result.get("on_shortest_path"),
        "best": None if chosen is None else ", ".join(chosen),
        **{given.column: bits[name] for name, given in CONDITIONS.items()},
        "trust": share_of_gain(result),
        "repeated": _repeated(result),
        "missing": missing_words(result),
        "_asked": result.get("asked"),
    }


def _repeated(result: dict[str, Any]) -> bool | None:
    first_step, first_episode = result.get("first_asked"), result.get("first_episode")
    if first_step is None or first_episode is None:
        return None
    return bool(first_step != result["step"] or first_episode != result["episode"])


# -- plots ------------------------------------------------------------------------------------------------------------


def sections(material: Material) -> list[Section]:
    return [overall(material), *by_step(material), replay(material), _should_it_be_sure(material)]


def _should_it_be_sure(material: Material) -> Section:
    title, anchor = "Should it be so sure?", "sureness"
    table, found = material.table, (material.summary or {}).get("sureness")
    right = table.numbers("correct")
    if not np.isfinite(right).any():
        lead = "No action could be set against a shortest path to the goal, so nothing is known about right and wrong."
        return Section(title, lead, None, anchor)
    plots: list[Node] = [
        histogram_by_outcome(
            "How sure was it of what it did?",
            "Actions by the probability that the model gave them, those on a shortest path below those that are not. "
            "Were its probabilities a guide, the first would lie further to the right.",
            "probability of the action taken",
            table.numbers("action_probability"),
            right,
            ("on a shortest path", "off it"),
            span=(0.0, 1.0),
        )
    ]
    if found and found["calibration"]:
        plots.append(reliability(found["calibration"], "actions"))
    if found and found["selective"]:
        plots.append(risk_coverage(found["selective"], "actions"))
    figures = facts(sureness_in_words(found)) if found else None
    return Section(title, _judged(right, found), h.div(class_="plots")[plots, figures], anchor)


def _judged(right: NDArray[np.float64], found: dict[str, Any] | None) -> str:
    judged = right[np.isfinite(right)]
    share = f"{int(judged.sum()):,} of {len(judged):,}" if found is None else share_in_words(found["agreement"])
    rest = len(right) - len(judged)
    left = f" {counted(rest, 'step')} could not be judged." if rest else ""
    return (
        f"An action is right here where it lies on a shortest path to the goal: {share}.{left} Its probability is that "
        "of the model that was told everything. Where several actions are equally good each is right, so that its "
        "confidence is their sum; how well it tells right from wrong is judged by the action's own probability."
    )


# -- samples worth a look ---------------------------------------------------------------------------------------------


def picks(material: Material, most: int) -> Picks | None:
    table = material.table
    right = table.numbers("correct")
    # Any of several best actions is right, so that a right one is as sure as all of them together.
    believed = np.where(right == 1, table.numbers("action_confidence"), table.numbers("action_probability"))
    surely, doubtfully = extremes(np.where(_different(table), believed, np.nan), right, most)
    frames = Frames(material, "look")
    cards = [[_card(material, place, frames) for place in side] for side in (surely, doubtfully)]
    return Picks(
        cards[0],
        cards[1],
        surely_words="Steps off every shortest path to the goal, the surest first. Of those that were asked the same, "
        "the first is shown.",
        doubtfully_words="Steps on a shortest path, by how likely the model found the best actions together, the least "
        "sure first: stopping to ask when unsure loses these.",
        nothing="No action has both a probability and a shortest path to compare it with.",
    )


def _different(table: Table) -> NDArray[np.bool_]:
    """The first of the steps that asked the same and went the same way: a robot at a wall would fill all places."""
    asked, action = table.values("_asked"), table.values("action")
    found, known = np.zeros(len(table), dtype=bool), set()
    for place in table.in_order().tolist():
        key = (asked[place], action[place])
        found[place] = asked[place] is None or key not in known
        known.add(key)
    return found


def _card(material: Material, place: int, frames: Frames) -> Card:
    sample = material.sample(place)
    result = sample.result
    right = bool(result["on_shortest_path"])
    verdict = (
        f"{percent(result['action_confidence'])} on the best actions"
        if right
        else f"{percent(result['action_probability'])} sure, off the shortest path"
    )
    told = facts(
        {
            "instruction": words(result.get("instruction") or "none is given"),
            "action": done(result),
            "best": best(result),
        }
    )
    body = h.div(class_="beside small")[frames.show(sample.id, seen(result)), h.div[told, acting_spread(result)]]
    return Card(material.table.keys[place], step_name(result), verdict, right, body)
