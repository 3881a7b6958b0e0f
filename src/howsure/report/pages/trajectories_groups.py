"""The runs of a study of trajectories by group, as they are judged: one domain, one agent, one source of scores.

A score of one model means nothing beside that of another, so that no plot ever pools two groups.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from howsure.report.run_data import Material
from howsure.report.html import words
from howsure.report.text import counted
from howsure.studies.trajectories.breakdown import DETECTORS, TURN_COUNT
from howsure.studies.trajectories.judge import Key, grouped

Places = NDArray[np.intp]
NAME_CHARACTERS = 80
AGENT, USER = "a", "u"
"""Who spoke, in the hidden column `_who`: one letter a turn."""
ACTORS = {AGENT: "agent", USER: "user"}

FIRST_CHOICE = "cusum"


class Alarm(NamedTuple):
    """Where an alarm rang: the run's row in the table, and the number of the turn."""

    row: int
    turn: int


class Group(NamedTuple):
    """Runs that can be compared. `found` is what the summary says of them, None before there is one."""

    key: Key
    rows: Places
    found: dict[str, Any] | None

    @property
    def name(self) -> str:
        domain, agent, scored_by = self.key
        scored = f", proxy: {scored_by}'s surprise" if scored_by not in ("", "log") else ""
        return words(f"{', '.join(part for part in (domain, agent) if part) or 'all runs'}{scored}", NAME_CHARACTERS)

    @property
    def breakdown(self) -> dict[str, Any] | None:
        return self.found["breakdown"] if self.found else None


def groups_of(material: Material) -> list[Group]:
    """Every group, largest first; rows that could not be read belong to none."""
    keys = material.table.values("_key")
    known = [row for row in material.table.in_order().tolist() if keys[row] is not None]
    summary = {_named(one): one for one in material.summary["groups"]} if material.summary else {}
    return [
        Group(key, np.array([known[place] for place in places], dtype=np.intp), summary.get(_shown(key)))
        for key, places in grouped([keys[row] for row in known])
    ]


def group_of(material: Material, row: int) -> Group | None:
    """The group that holds a row."""
    return next((group for group in groups_of(material) if row in group.rows), None)


def _named(found: dict[str, Any]) -> tuple[str, str]:
    return found["name"], found["scored_by"] or ""


def _shown(key: Key) -> tuple[str, str]:
    """A key as the summary names the group."""
    return ", ".join(part for part in key[:2] if part), key[2]


def counts(group: Group, material: Material) -> str:
    """`20 runs, 10 failed`."""
    solved = material.table.numbers("solved")[group.rows]
    unknown = int(np.isnan(solved).sum())
    failed = f"{int((solved == 0).sum()):,} failed" if unknown < len(solved) else "no reward known"
    more = f", {unknown:,} without a reward" if 0 < unknown < len(solved) else ""
    return f"{counted(len(solved), 'run')}, {failed}{more}"


def alarms_of(group: Group, material: Material) -> dict[str, list[Alarm]]:
    """Every alarm by detector; nothing for a run that is not finished, or that was made before they were written."""
    listed = (group.breakdown or {}).get("alarms") or {}
    rows = dict(zip(material.table.numbers("_index")[group.rows].tolist(), group.rows.tolist(), strict=True))
    return {
        name: [Alarm(rows[place], turn) for place, turn in pairs if place in rows] for name, pairs in listed.items()
    }


def place_of(alarm: Alarm, material: Material) -> tuple[str, int]:
    """Who spoke at an alarm, and which turn of theirs it was, from 1."""
    who = material.table.values("_who")[alarm.row]
    actor = who[alarm.turn - 1]
    return actor, who[: alarm.turn].count(actor)


def rings_when(detector: str) -> str:
    """What makes a detector ring; nothing for one of another version."""
    return DETECTORS[detector].rings_when if detector in DETECTORS else ""


def leading_detector(group: Group, alarms: dict[str, list[Alarm]]) -> str | None:
    """The detector whose alarms are drawn: the one that interventions follow, else the first that rang at all."""
    if group.found and group.found["interventions"]:
        wanted = [str(group.found["interventions"]["detector"])]
    else:
        wanted = [FIRST_CHOICE, *(name for name in alarms if name != TURN_COUNT), TURN_COUNT]
    return next((name for name in wanted if alarms.get(name)), None)
