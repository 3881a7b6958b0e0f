"""Pages of trajectories: how unsure agent and user were over the turns, and whether that foretold failure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import htpy as h
import msgspec
import numpy as np
from htpy import Node
from numpy.typing import NDArray

from howsure.measures import final_value, running_rms
from howsure.report.rows import Column
from howsure.report.views import Card, Picks, Section
from howsure.report.run_data import Material
from howsure.report.html import number, words
from howsure.report.sureness import extremes
from howsure.report.pages.trajectories_alarms import alarms, interventions
from howsure.report.pages.trajectories_groups import AGENT, USER, Group, counts, groups_of
from howsure.report.pages.trajectories_scores import against_failure
from howsure.report.pages.trajectories_spark import spark
from howsure.report.pages.trajectories_talk import about
from howsure.report.pages.trajectories_turns import over_turns
from howsure.runs import Sample
from howsure.studies.trajectories.document import infinite, left_out, mean, missing_turns
from howsure.studies.trajectories.judge import key_of
from howsure.studies.trajectories.turns import Trajectory

__all__ = ["COLUMNS", "about", "picks", "row", "sections"]

COLUMNS = (
    Column("task", "task", "text"),
    Column("domain", "domain", "word"),
    Column("agent", "agent", "word", help="The model that was the agent."),
    Column("trial", "trial", "number", digits=0, help="Which try at its task this run is."),
    Column("reward", "reward", "number", help="As the log has it; 1 is solved, below that a run has failed."),
    Column("solved", "solved", "flag", help="Whether the reward is 1; empty where there is none."),
    Column("turns", "turns", "number", digits=0, help="Messages of agent and user."),
    Column(
        "agent_mean",
        "agent, mean U",
        "number",
        "nats",
        help="Mean of −ln p per token over the agent's turns; those of infinite U are left out, and counted beside it.",
    ),
    Column("user_mean", "user, mean U", "number", "nats", help="The same over the user's turns."),
    Column(
        "largest", "largest U", "number", "nats", help="The U of the turn that was least sure; empty if it is infinite."
    ),
    Column("scored", "turns scored", "number", digits=0, help="Turns that have a U; the others say why not."),
    Column(
        "infinite", "infinite U", "number", digits=0, help="Turns with a token of probability zero, among those scored."
    ),
    Column("missing", "turns without U", "text", help="Why turns have no U, with counts."),
    Column(
        "scored_by", "scored by", "word", help="log: the writer's own log-probabilities; else the model that read it."
    ),
    Column("termination", "ended by", "word"),
    Column("opening", "opening", "text", help="What the conversation is about, in the words of who brought it."),
)

OPENING_CHARACTERS = 300
SHOWN_GROUPS = 3


def row(sample: Sample) -> dict[str, Any]:
    one = msgspec.convert(sample.result, Trajectory)
    agent = tuple(_score(turn.uncertainty_nats) for turn in one.turns if turn.actor == "agent")
    user = tuple(_score(turn.uncertainty_nats) for turn in one.turns if turn.actor == "user")
    missing = missing_turns(one.turns)
    key = key_of(one)
    return {
        "task": one.task_id,
        "domain": one.domain,
        "agent": one.agent,
        "trial": one.trial,
        "reward": one.reward,
        "solved": None if one.failed is None else not one.failed,
        "turns": len(one.turns),
        "agent_mean": mean([u for u in agent if not math.isnan(u)]),
        "user_mean": mean([u for u in user if not math.isnan(u)]),
        "largest": max((u for u in agent + user if not math.isnan(u)), default=None),
        "scored": len(one.turns) - missing.total(),
        "infinite": infinite(agent + user),
        "missing": ", ".join(f"{count} {name}" for name, count in sorted(missing.items())) or None,
        "scored_by": key[2] or None,
        "termination": one.termination,
        "opening": None if one.opening is None else one.opening[:OPENING_CHARACTERS],
        "_key": key,
        "_reward_missing": one.reward_missing,
        "_agent": agent,
        "_user": user,
        "_who": "".join(AGENT if turn.actor == "agent" else USER for turn in one.turns),
        "_agent_mean": _ranked_mean(agent),
        "_agent_rms": final_value(running_rms(agent), agent).value if agent else None,
        "_user_mean": _ranked_mean(user),
    }


def _score(value: float | None) -> float:
    return math.nan if value is None else value


def _ranked_mean(values: tuple[float, ...]) -> float | None:
    """As a score that ranks runs, which is infinite where a turn is."""
    known = [value for value in values if not math.isnan(value)]
    return math.inf if math.inf in known else mean(known)


# -- plots ------------------------------------------------------------------------------------------------------------


def sections(material: Material) -> list[Section]:
    groups = groups_of(material)
    found = [part for group in groups[:SHOWN_GROUPS] for part in _of_group(group, material, alone=len(groups) == 1)]
    left_out = groups[SHOWN_GROUPS:]
    if left_out:
        names = "; ".join(f"{group.name} ({counts(group, material)})" for group in left_out[:20])
        more = f"; and {len(left_out) - 20:,} more" if len(left_out) > 20 else ""
        found.append(
            Section(
                "Further groups",
                f"The {SHOWN_GROUPS} largest of {len(groups):,} groups are drawn above. Groups are never pooled: a "
                "score of one model means nothing beside that of another.",
                h.p[f"Not drawn: {names}{more}. summary.json has the figures of all."],
            )
        )
    return found


def _of_group(group: Group, material: Material, *, alone: bool) -> list[Section]:
    """The four parts of a group, under its name where there are several."""
    before = "" if alone else f"{group.name}: "
    turns = over_turns(group, material, f"{before}Uncertainty over the turns")
    parts = [
        turns._replace(lead=f"{group.name}: {counts(group, material)}. {turns.lead}".strip()),
        against_failure(group, material, f"{before}Did uncertainty foretell failure?"),
        alarms(group, material, f"{before}When would an alarm have rung?"),
        interventions(group, f"{before}What would stepping in have saved?"),
    ]
    return [part for part in parts if part is not None]


# -- samples worth a look ---------------------------------------------------------------------------------------------


def picks(material: Material, most: int) -> Picks | None:
    confidence = _sureness(material)
    surely, doubtfully = extremes(confidence, material.table.numbers("solved"), most)
    cards = [[_card(material, place) for place in side] for side in (surely, doubtfully)]
    return Picks(
        cards[0],
        cards[1],
        "Failed, the surest agents first: the lower U was, the less it warned.",
        "Solved, the least sure agents first: whoever steps in at doubt stops the first of these for nothing.",
        nothing=_why_none(material, confidence),
    )


def _sureness(material: Material) -> NDArray[np.float64]:
    """How sure the agent of each run was among its group, from 0 to 1, since U of two models cannot be compared.

    It is the share of the group that was less sure, those alike by half: a run alone in its group lies in the middle.
    """
    means = material.table.numbers("_agent_mean")
    found = np.full(len(material.table), np.nan)
    for group in groups_of(material):
        rows = group.rows[~np.isnan(means[group.rows])]
        if len(rows):
            _, places, counts = np.unique(means[rows], return_inverse=True, return_counts=True)
            less_sure = len(rows) - np.cumsum(counts) + counts / 2
            found[rows] = (less_sure / len(rows))[places]
    return found


def _why_none(material: Material, confidence: NDArray[np.float64]) -> str:
    if not len(material.table):
        return "There are no runs yet."
    if np.isnan(confidence).all():
        return (
            "No turn of an agent has a score, so that nobody knows how sure it was. --score-with smollm2 lets a local "
            "model read the conversations."
        )
    reasons = Counter(reason for reason in material.table.values("_reward_missing") if reason)
    listed = ", ".join(f"{count:,} {words(name.replace('_', ' '), 60)}" for name, count in reasons.most_common(5))
    why = f" ({listed})" if listed else ""
    return f"No run with a score of its agent has a reward{why}, so that nobody knows which runs failed."


def _card(material: Material, place: int) -> Card:
    table, sample = material.table, material.sample(place)
    solved = bool(table.values("solved")[place])
    one = msgspec.convert(sample.result, Trajectory)
    shown = _mean_in_words([turn.uncertainty_nats for turn in one.turns if turn.actor == "agent"])
    verdict = f"{shown}, {'solved' if solved else 'failed'}"
    about_it = ", ".join(words(part, 60) for part in (one.domain, one.agent) if part)
    trial = "" if one.trial is None else f"trial {one.trial}, "
    facts = f"{trial}reward {number(one.reward, 2)}, {len(one.turns):,} turns"
    body: list[Node] = [
        h.p(class_="quiet")[f"{about_it}: {facts}" if about_it else facts],
        spark([turn.uncertainty_nats for turn in one.turns if turn.actor == "agent"], "agent"),
        h.p(class_="said", dir="auto")[words(one.opening or _first_words(one), OPENING_CHARACTERS)],
    ]
    return Card(table.keys[place], one.task_id, verdict, solved, body)


def _mean_in_words(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    value, without = mean(known), left_out(infinite(known))
    if value is None:
        return "infinite U"
    return f"mean U {number(value, 2)} nats" + (f" {without}" if without else "")


def _first_words(one: Trajectory) -> str:
    return next((turn.content for turn in one.turns if turn.content.strip()), "(nothing was said)")
