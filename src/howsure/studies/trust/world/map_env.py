"""A map as a MiniGrid environment.

MiniGrid fails where an agent looks over the edge of the grid. A ring of walls is therefore laid around every map,
whether it has walls of its own or not; it is never drawn nor spoken of, and positions are counted without it.
"""

from __future__ import annotations

from typing import Any

from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX
from minigrid.core.grid import Grid
from minigrid.core.mission import MissionSpace
from minigrid.core.world_object import Ball, Box, Door, Floor, Goal, Key, Lava, Wall, WorldObj
from minigrid.minigrid_env import MiniGridEnv

from howsure.studies.trust.world.maps import EMPTY, Kind, MapPlan

RING = 1


class Edge(Wall):  # type: ignore[misc]
    """The ring around a map."""


class Emoji(WorldObj):  # type: ignore[misc]
    """An object of a map, known by its name."""

    def __init__(self, kind: Kind) -> None:
        super().__init__("box", "grey")
        self.type, self.color, self.kind, self.name = "emoji", kind.colour, kind, kind.name

    def can_overlap(self) -> bool:
        return self.kind.can_overlap

    def can_pickup(self) -> bool:
        return self.kind.can_pickup

    def encode(self) -> tuple[int, int, int]:
        return OBJECT_TO_IDX["box"], COLOR_TO_IDX["grey"], 0


class MapEnv(MiniGridEnv):  # type: ignore[misc]
    """Reach the goal's cell, or reach it while carrying what the map's task names. Reward as MiniGrid's own."""

    def __init__(self, plan: MapPlan) -> None:
        self.plan = plan
        self.goal_pos = None if plan.goal is None else (plan.goal[0] + RING, plan.goal[1] + RING)
        super().__init__(
            mission_space=MissionSpace(mission_func=lambda: ""),
            width=plan.width + 2 * RING,
            height=plan.height + 2 * RING,
            max_steps=max(200, 10 * plan.width * plan.height),
            see_through_walls=True,
        )

    def _gen_grid(self, width: int, height: int) -> None:
        self.grid = Grid(width, height)
        self.grid.horz_wall(0, 0, obj_type=Edge)
        self.grid.horz_wall(0, height - 1, obj_type=Edge)
        self.grid.vert_wall(0, 0, obj_type=Edge)
        self.grid.vert_wall(width - 1, 0, obj_type=Edge)
        for y, row in enumerate(self.plan.rows):
            for x, kind in enumerate(row):
                self.grid.set(x + RING, y + RING, _object(kind))
        if self.goal_pos is not None:
            under = self.grid.get(*self.goal_pos)
            if under is None or under.type in ("floor", "goal"):
                self.grid.set(*self.goal_pos, Goal())
        x, y = self.plan.start
        self.agent_pos, self.agent_dir = (x + RING, y + RING), 0
        self.mission = self.plan.instruction or ""

    def gen_obs(self) -> dict[str, Any]:
        """Nobody looks through the agent's own eyes here, so its view is not worked out."""
        return {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observed, _, _, truncated, info = super().step(action)
        at = (int(self.agent_pos[0]), int(self.agent_pos[1]))
        obj = self.grid.get(*at)
        wanted = self.plan.fetch is None or getattr(self.carrying, "name", None) == self.plan.fetch
        reached = at == self.goal_pos and wanted
        dead = obj is not None and obj.type == "lava"
        return observed, self._reward() if reached else 0.0, reached or dead, truncated, info


def _object(kind: Kind) -> WorldObj | None:
    if kind is EMPTY or kind.type == "empty":
        return None
    if kind.type == "emoji":
        return Emoji(kind)
    if kind.type == "lava":
        return Lava()
    made = _MADE[kind.type](kind.colour if kind.colour in COLOR_TO_IDX else "grey")
    made.color = kind.colour  # of which MiniGrid's constructors know six
    if kind.type == "door":
        made.is_open, made.is_locked = kind.door_state == "open", kind.door_state == "locked"
    if kind.type != "wall":
        made.kind = kind
    if kind.can_pickup:
        made.name = kind.name
    return made


_MADE: dict[str, Any] = {
    "wall": Wall,
    "floor": Floor,
    "goal": Goal,
    "door": Door,
    "key": Key,
    "ball": Ball,
    "box": Box,
}
