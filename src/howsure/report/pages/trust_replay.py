"""The replay: the episodes step by step, what was seen beside what was likely."""

from __future__ import annotations

from typing import Any

import htpy as h
from htpy import Element, Node

from howsure.report.views import Section
from howsure.report.run_data import Material
from howsure.report.html import badge, facts, number, words
from howsure.report.pages.stepper import stepper
from howsure.report.tokens import percent
from howsure.report.pages.trust_frames import Frames, end_of
from howsure.report.pages.trust_spread import ACTING, EVIDENCE, plain, spreads, worked_out
from howsure.report.text import counted
from howsure.runs import Sample

MOST_STEPS = 100
"""In one replay: so many different frames of 500 pixels are some three megabytes."""
TEXT_CHARACTERS = 400


def replay(material: Material) -> Section:
    table = material.table
    order = table.in_order().tolist()
    shown = order[:MOST_STEPS]
    frames = Frames(material, "replay")
    pages: list[Node] = []
    for row, following in zip(shown, [*order[1:], None], strict=False):
        sample = material.sample(row)
        pages.append(_step(sample, frames, material.links.sample(table.keys[row])))
        last = following is None or table.values("episode")[following] != table.values("episode")[row]
        if last and frames.has(end_of(sample.id)):
            pages.append(_end(sample, frames))
    if not pages:
        return Section("Replay", "", h.p(class_="quiet")["No step was taken yet."], "steps")
    return Section("Replay", _lead(material, len(shown), len(order)), stepper(frames.prefix, "Replay", pages), "steps")


def _lead(material: Material, shown: int, steps: int) -> str:
    evidence = material.run.manifest.identity.options.get("evidence")
    return (
        "What the model saw before each step, and how likely each action was in the three conditions. The action is "
        f"taken as in X|L,S, told everything. {EVIDENCE.get(str(evidence), '')} Buttons, the slider, or the arrow keys "
        "go from step to step."
        + (f" The first {shown:,} of {steps:,} steps are here; samples.jsonl has all." if steps > shown else "")
    )


def _step(sample: Sample, frames: Frames, address: str | None) -> Element:
    result = sample.result
    name = step_name(result)
    return h.div[
        h.h3[h.a(href=address)[name] if address else name, " ", verdict(result)],
        h.div(class_="beside")[
            frames.show(sample.id, seen(result)),
            h.div[
                facts(
                    {
                        "instruction": words(result.get("instruction") or "none is given", TEXT_CHARACTERS),
                        "action": done(result),
                        "best": best(result),
                    }
                ),
                spreads(result),
                h.p(class_="quiet")[worked_out(result)],
            ],
        ],
    ]


def _end(sample: Sample, frames: Frames) -> Element:
    result = sample.result
    words_ = f"After step {number(result['step'], 0)}: " + (
        "the goal was reached." if result.get("reached") else "the goal was not reached."
    )
    return h.div[
        h.h3[f"Episode {number(result['episode'], 0)}, the end"],
        h.div(class_="beside")[frames.show(end_of(sample.id), f"The world at the end. {words_}"), h.p[words_]],
    ]


# -- a step in a few words --------------------------------------------------------------------------------------------


def step_name(result: dict[str, Any]) -> str:
    return f"Episode {number(result['episode'], 0)}, step {number(result['step'], 0)}"


def seen(result: dict[str, Any]) -> str:
    """The frame for somebody who cannot see it."""
    return f"The world from above: {where(result)}."


def where(result: dict[str, Any]) -> str:
    place = f"({number(result['agent_x'], 0)}, {number(result['agent_y'], 0)})"
    carrying = f", carrying {words(result['carrying'], 60)}" if result.get("carrying") else ""
    return f"the robot at {place}, facing {words(result['agent_dir'], 20)}{carrying}"


def done(result: dict[str, Any]) -> str:
    """What was done, how sure the model was of it, and what came of it."""
    action = result.get("action")
    if action is None:
        acting = result["conditions"][ACTING]
        return f"none ({plain(acting.get('action_missing') or acting.get('entropy_missing'))}), so nothing happened"
    share = result.get("action_probability")
    sure = "probability not known" if share is None else percent(share)
    return f"{words(action, 30)} ({sure}). {words(result.get('effect') or '', TEXT_CHARACTERS)}"


def best(result: dict[str, Any]) -> str:
    """The actions that lie on a shortest path, or why they are not known."""
    found = result.get("best_actions")
    if found is None:
        return f"not known: {words(str(result.get('path_missing') or 'not said why').replace('_', ' '))}"
    away = result.get("shortest_distance")
    distance = "" if away is None else f"; the goal is {counted(int(away), 'action')} away"
    return f"{words(' or '.join(found) or 'none leads there')}{distance}"


def verdict(result: dict[str, Any]) -> Element:
    on_path = result.get("on_shortest_path")
    if on_path is None:
        return badge("not judged", "none")
    return badge("on a shortest path", "good") if on_path else badge("off every shortest path", "bad")
