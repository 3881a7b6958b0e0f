"""A world to act in: a map, or an environment of MiniGrid or BabyAI, behind one small face."""

from __future__ import annotations

import difflib
import os
import warnings
from collections.abc import Callable
from importlib import metadata
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, NamedTuple

from howsure.errors import InputError, MissingExtra
from howsure.models.images import Picture
from howsure.studies.trust.world import words
from howsure.studies.trust.world.maps import MapPlan, parse_map, read_map
from howsure.studies.trust.world.search import Best, Board, Node, Task, shortest
from howsure.studies.trust.world.tasks import task_of
from howsure.studies.trust.world.words import DIRECTIONS, DONE, DROP, MOVES, PICK_UP, TOGGLE, parse_action

SHIPPED_MAPS = ("empty", "walls", "home", "fetch")
_NUMBERS = {PICK_UP: 3, DROP: 4, TOGGLE: 5, DONE: 6}
"""MiniGrid's numbers of its actions; 2 is a step forward."""
_FORWARD = 2

# What can be done besides walking, by the class that makes an environment. All others may hold anything.
_WALKED_ONLY = {"EmptyEnv", "CrossingEnv", "DistShiftEnv", "LavaGapEnv", "FourRoomsEnv", "DynamicObstaclesEnv",
                "MemoryEnv", "WFCEnv"}  # fmt: skip
_OTHER_ACTIONS = {
    **dict.fromkeys(_WALKED_ONLY, ()),
    "MultiRoomEnv": (TOGGLE,),
    "RedBlueDoorEnv": (TOGGLE,),
    "GoToDoorEnv": (TOGGLE, DONE),
    "GoToObjectEnv": (PICK_UP, DROP, TOGGLE, DONE),
}


class State(NamedTuple):
    """Where the agent is, counted from 0 at the top left as MiniGrid and maps count."""

    x: int
    y: int
    direction: str
    carrying: str | None
    steps: int


class Effect(NamedTuple):
    """What an action did."""

    action: str
    words: str
    changed: bool
    """Whether the action had its effect; a mere turn against a wall is none."""
    reward: float
    reached: bool
    over: bool


class World:
    """One world; `reset` begins an episode, and each `act` is one step of the environment."""

    def __init__(self, env: Any, name: str, actions: tuple[str, ...], fingerprint: dict[str, Any], ring: int) -> None:
        self.name, self.actions = name, actions
        self._env, self._fingerprint, self._ring = env, fingerprint, ring
        self._begun = self._over = False
        self._painter: Any = None
        self.opened_by: tuple[Callable[..., World], tuple[Any, ...]] | None = None
        """How the same world is opened elsewhere; None for one that was not opened by its name or map."""

    def fingerprint(self) -> dict[str, Any]:
        """What makes this world this world."""
        return dict(self._fingerprint)

    def reset(self, seed: int) -> None:
        """Begin an episode; equal seeds and equal actions give equal worlds."""
        _reset(self._env, self.name, seed)
        self._begun, self._over = True, False
        self._legend = words.Legend()
        self._grid = words.Grid(self._env, self._ring)
        self._board = Board(self._env)  # now, while everything that the task may name is still there
        self._task: Task | None = task_of(self._env, self._board)
        self._known: dict[Node, Best] = {}

    @property
    def mission(self) -> str | None:
        """What the environment asks for in words; for a map its instruction."""
        self._check_begun()
        return " ".join(str(self._env.mission).split()) or None

    def state(self) -> State:
        self._check_begun()
        x, y, facing = self._grid.agent()
        carried = self._env.carrying
        return State(x, y, facing, None if carried is None else words.name_of(carried), int(self._env.step_count))

    def _check_begun(self) -> None:
        if not self._begun:
            raise InputError(f"the world {self.name} has not begun; call reset(seed) first")

    def close(self) -> None:
        self._env.close()

    # -- acting -------------------------------------------------------------------------------------------------------

    def act(self, action: str) -> Effect:
        """Do one of the world's actions, under its name or another that means the same."""
        label, direction = self._understood(action)
        if direction is not None:
            self._env.agent_dir = DIRECTIONS.index(direction)
        before, place = self._in_front(), self._place()
        number = _NUMBERS.get(label, _FORWARD if before.inside_grid else _NUMBERS[DONE])
        _, reward, terminated, truncated, _ = self._env.step(self._env.actions(number))
        self._over = bool(terminated or truncated)
        said, changed = self._told(label, before, place)
        reached = bool(terminated) and reward > 0
        return Effect(label, said, changed, float(reward), reached, self._over)

    def _understood(self, action: str) -> tuple[str, str | None]:
        self._check_begun()
        if self._over:
            raise InputError(f"the episode in {self.name} is over; call reset(seed) for the next")
        parsed = parse_action(action)
        if parsed is None or parsed.label not in self.actions:
            raise InputError(f"{action[:60]!r} is no action in {self.name}; there are {', '.join(self.actions)}")
        return parsed.label, parsed.direction

    def _place(self) -> tuple[int, int]:
        x, y = self._env.agent_pos
        return int(x), int(y)

    def _in_front(self) -> words.Before:
        x, y = (int(n) for n in self._env.front_pos)
        inside = 0 <= x < self._env.width and 0 <= y < self._env.height
        front = self._env.grid.get(x, y) if inside else None
        return words.Before(front, words.described(front), inside, self._env.carrying)

    def _told(self, label: str, before: words.Before, place: tuple[int, int]) -> tuple[str, bool]:
        """What happened in a sentence, and whether the action had its effect."""
        env = self._env
        if label in MOVES:
            went = self._place() != place
            return words.moved(before, label, went), went
        if label == PICK_UP:
            got = env.carrying is not before.carried
            return words.picked_up(before, got), got
        if label == DROP:
            did = env.carrying is not before.carried
            return words.dropped(before, did), did
        if label == TOGGLE:
            now = self._in_front()
            changed = now.front is not before.front or now.front_was != before.front_was
            return words.toggled(before, now.front), changed
        return "You said that you are done.", False

    # -- showing ------------------------------------------------------------------------------------------------------

    def picture(self) -> Picture:
        """The whole grid as a PNG, the agent and what it carries included."""
        self._check_begun()
        if self._painter is None:
            from howsure.studies.trust.world.drawing import Painter

            self._painter = Painter(self._grid.width, self._grid.height)
        goal = getattr(getattr(self._env, "plan", None), "goal", None)
        content = self._painter.paint(self._grid, goal)
        return Picture.made(content, f"{self.name}, step {self._env.step_count}", self._painter.size)

    def text(self) -> str:
        """The whole grid in characters, for models without eyes; no word of what is to be done."""
        self._check_begun()
        return words.view(self._grid, self._legend)

    # -- judging ------------------------------------------------------------------------------------------------------

    def best_actions(self) -> Best:
        """All actions that begin a shortest way to the task's end, were there no limit of steps."""
        self._check_begun()
        if self._over:
            return Best(None, None, "episode_over")
        if self._task is None:
            return Best(None, None, "no_known_task")
        node = (self._board.now(self._env), self._task.begin())
        if node not in self._known:
            self._known[node] = shortest(self._board, node[0], self._task, self.actions)
        return self._known[node]


# -- opening ---------------------------------------------------------------------------------------------------------


def open_world(source: str | os.PathLike[str]) -> World:
    """A map's file, the name of a map that comes with howsure, or the id of a MiniGrid or BabyAI environment."""
    if isinstance(source, str) and source in SHIPPED_MAPS:
        with as_file(files("howsure.data") / "maps" / f"{source}.json") as path:
            return _map_world(read_map(path, source))
    if not isinstance(source, str) or source.lower().endswith(".json") or os.sep in source or Path(source).is_file():
        return _map_world(read_map(source))
    return _environment_world(source)


def _map_world(plan: MapPlan) -> World:
    try:
        from howsure.studies.trust.world.map_env import RING, MapEnv
    except ImportError as error:
        raise MissingExtra("a map", "grid", "minigrid") from error
    kinds = {kind for row in plan.rows for kind in row}
    more = [PICK_UP, DROP] if any(kind.can_pickup for kind in kinds) else []
    more += [TOGGLE] if any(kind.type in ("door", "box") for kind in kinds) else []
    mark = {"kind": "map", "name": plan.name, "sha256": plan.sha256, "minigrid": metadata.version("minigrid")}
    world = World(MapEnv(plan), plan.name, (*MOVES, *more), mark, RING)
    world.opened_by = (_map_world, (plan,))
    return world


def _environment_world(name: str) -> World:
    try:
        import gymnasium
        import minigrid  # noqa: F401  (it registers its environments)
        from minigrid.minigrid_env import MiniGridEnv
    except ImportError as error:
        raise MissingExtra(f"the environment {name[:60]}", "grid", "minigrid") from error
    if name not in gymnasium.registry:
        raise InputError(_unknown(name, list(gymnasium.registry)))
    _quieten()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a newer version of an environment exists
        env = gymnasium.make(name, disable_env_checker=True).unwrapped
    if not isinstance(env, MiniGridEnv):
        raise InputError(f"{name} is an environment of another kind; only those made of MiniGrid's grids can be used")
    _reset(env, name, 0)  # what an environment lacks shows itself only here
    mark = {"kind": "environment", "name": name, "minigrid": metadata.version("minigrid")}
    world = World(env, name, (*MOVES, *_other_actions(env)), mark, 0)
    world.opened_by = (_environment_world, (name,))
    return world


def _reset(env: Any, name: str, seed: int) -> None:
    from gymnasium.error import Error

    try:
        env.reset(seed=seed)
    except (Error, RuntimeError, OSError) as error:
        raise InputError(
            f"the world {name} cannot be set up with seed {seed}: {' '.join(str(error).split())}"
        ) from error


def _other_actions(env: Any) -> tuple[str, ...]:
    for one in type(env).__mro__:
        if one.__module__.startswith("minigrid.") and one.__name__ in _OTHER_ACTIONS:
            return _OTHER_ACTIONS[one.__name__]
    return PICK_UP, DROP, TOGGLE


def _quieten() -> None:
    """BabyAI's levels print to standard output whenever they draw a mission anew; their own `print` says nothing."""
    from minigrid.envs.babyai.core import roomgrid_level

    vars(roomgrid_level).setdefault("print", lambda *_: None)


def _unknown(name: str, registered: list[str]) -> str:
    ids = [one for one in registered if one.startswith(("MiniGrid-", "BabyAI-"))]
    close = difflib.get_close_matches(name, [*SHIPPED_MAPS, *ids], n=3, cutoff=0.5)
    like = f"; did you mean {' or '.join(close)}?" if close else ""
    return (
        f"there is no world {name[:80]!r}: give a map's .json file, one of {', '.join(SHIPPED_MAPS)}, or the id of one "
        f"of MiniGrid's {len(ids)} environments{like}"
    )


# -- the maps that come with howsure ----------------------------------------------------------------------------------


def map_text(name: str) -> str:
    """A shipped map as its file holds it."""
    if name not in SHIPPED_MAPS:
        raise InputError(f"there is no map {name!r}; there are {', '.join(SHIPPED_MAPS)}")
    return (files("howsure.data") / "maps" / f"{name}.json").read_text(encoding="utf-8")


def shipped_maps() -> list[dict[str, Any]]:
    """Name, size and instruction of each."""
    plans = [(name, parse_map(map_text(name), name)) for name in SHIPPED_MAPS]
    return [
        {"name": name, "width": plan.width, "height": plan.height, "instruction": plan.instruction}
        for name, plan in plans
    ]
