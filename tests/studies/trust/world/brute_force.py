"""The shortest way by trying everything in copies of the real environment: slow, and nothing of ours to be wrong in."""

from __future__ import annotations

import copy
from typing import Any

from howsure.studies.trust.world import World, words

SHARED = ("observation_space", "action_space", "mission_space", "np_random", "_np_random", "spec", "metadata", "plan")


def clone(world: World) -> World:
    """The same world, to act in without touching the first."""
    env = world._env
    other = copy.copy(env)
    memo: dict[int, Any] = {id(env): other}
    other.__dict__.update(
        {name: value if name in SHARED else copy.deepcopy(value, memo) for name, value in env.__dict__.items()}
    )
    twin = copy.copy(world)
    twin._env, twin._grid = other, words.Grid(other, world._ring)
    twin._known = {}
    return twin


def number_objects(world: World) -> None:
    """A number for every object, kept by its copies."""
    for number, found in enumerate([*world._env.grid.grid, world._env.carrying]):
        while found is not None and not hasattr(found, "number"):
            found.number = number
            found = found.contains
            number += 10_000


def key(world: World) -> tuple[Any, ...]:
    """All that can matter to what happens next."""
    env = world._env
    cells = tuple(
        None if one is None else (one.number, getattr(one, "is_open", None), getattr(one, "is_locked", None))
        for one in env.grid.grid
    )
    carried = None if env.carrying is None else env.carrying.number
    return (*map(int, env.agent_pos), int(env.agent_dir), carried, cells, memory(getattr(env, "instrs", None)))


def memory(clause: Any) -> Any:
    """What BabyAI's verifier remembers."""
    if clause is None:
        return None
    found: list[Any] = []
    for name, value in sorted(vars(clause).items()):
        if name == "preCarrying":
            found.append(None if value is None else value.number)
        elif name in ("a_done", "b_done"):
            found.append(value == "success")
        elif name in ("instr_a", "instr_b"):
            found.append(memory(value))
        elif name.startswith("desc"):
            found.append(tuple(sorted((int(x), int(y)) for x, y in value.obj_poss)))
    return tuple(found)


def brute_force(world: World, most: int) -> tuple[frozenset[str], int] | None:
    """First actions of all shortest ways and their length; None where more than `most` states would be looked at."""
    number_objects(world)
    layer: dict[Any, tuple[World, frozenset[str]]] = {key(world): (clone(world), frozenset())}
    seen = set(layer)
    steps = looked = 0
    while layer:
        steps += 1
        following: dict[Any, tuple[World, frozenset[str]]] = {}
        reached: frozenset[str] = frozenset()
        for state, first in layer.values():
            looked += 1
            if looked > most:
                return None
            for action in world.actions:
                twin = clone(state)
                twin._env.step_count = 0  # no limit of steps
                effect = twin.act(action)
                begun = first or frozenset([action])
                if effect.reached:
                    reached |= begun
                elif not effect.over and (now := key(twin)) not in seen:
                    following[now] = (twin, following[now][1] | begun if now in following else begun)
        if reached:
            return reached, steps
        seen |= set(following)
        layer = following
    return frozenset(), -1
