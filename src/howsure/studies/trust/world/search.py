"""All first actions that lie on a shortest way: the world in numbers, and one search over its states.

For the search the world is numbers in tuples instead of objects, so that a state is quick to copy and compare. A cell
is a number, row by row. What never changes stands in `base`; things that can be picked up or opened, and doors, are
numbered, and a state says where each thing is and how each door stands.

The search is breadth-first in its result: states are taken in the order of the steps that a way through them has at
least (steps so far plus a lower bound of the rest; with a bound of 0 this is plain breadth-first search), and every
state keeps, as bits, all the first actions by which it can be reached in so few steps. States from which no way can be
as short as the best one are never looked at.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from howsure.studies.trust.world.words import DIRECTIONS, DONE, DROP, PICK_UP, TOGGLE

BARE, WALKABLE, SOLID, DEADLY = range(4)
"""What a cell is by itself: nothing in it; can be entered but nothing dropped on it; a wall; lava."""
DOOR, THING = 10, 1000
"""Added to a door's or a thing's number where one stands in a cell."""
OPEN, CLOSED, LOCKED = range(3)
CARRIED, GONE = -1, -2

MOVE_COUNT = 4
PICK, PUT, USE, FINISH = 4, 5, 6, 7
ACTION_NAMES = (*DIRECTIONS, PICK_UP, DROP, TOGGLE, DONE)
"""By number; the first four are also directions."""


class Thing(NamedTuple):
    """Something that can be picked up or opened."""

    kind: str
    colour: str
    name: str
    can_pickup: bool
    can_overlap: bool
    contains: int
    """The thing that a box holds, or -1."""


class Core(NamedTuple):
    """A state of the world, without how far a task has come."""

    cell: int
    facing: int
    carried: int
    places: tuple[int, ...]
    doors: tuple[int, ...]


class Board:
    """What never changes while an episode lasts, and what an action does to the rest."""

    def __init__(self, env: Any) -> None:
        self.width, self.height = int(env.width), int(env.height)
        self.steps = (1, self.width, -1, -self.width)
        self.base: list[int] = []
        self.things: list[Thing] = []
        self.door_cells: list[int] = []
        self.door_colours: list[str] = []
        self.number_of: dict[int, int] = {}
        """Number of a thing, or of a door, by the id of MiniGrid's object."""
        self.unknown: str | None = None
        self._kept: list[Any] = []
        for cell, obj in enumerate(env.grid.grid):
            self.base.append(self._base_of(obj, cell))
        if env.carrying is not None:
            self._add_thing(env.carrying)
        self.start = self.now(env)
        self.holder = {thing.contains: i for i, thing in enumerate(self.things) if thing.contains >= 0}
        self._grids: dict[tuple[tuple[int, ...], tuple[int, ...]], list[int]] = {}

    # -- reading MiniGrid's grid ------------------------------------------------------------------------------------

    def now(self, env: Any) -> Core:
        """The state that the environment is in; its objects must be those that were there when this was made."""
        places, doors = [GONE] * len(self.things), [OPEN] * len(self.door_cells)
        for cell, obj in enumerate(env.grid.grid):
            number = None if obj is None else self.number_of.get(id(obj))
            if number is None:
                continue
            if obj.type == "door":
                doors[number] = OPEN if obj.is_open else LOCKED if obj.is_locked else CLOSED
            else:
                places[number] = cell
        carried = -1 if env.carrying is None else self.number_of[id(env.carrying)]
        if carried >= 0:
            places[carried] = CARRIED
        x, y = env.agent_pos
        return Core(int(y) * self.width + int(x), int(env.agent_dir), carried, tuple(places), tuple(doors))

    def _base_of(self, obj: Any, cell: int) -> int:
        if obj is None:
            return BARE
        if obj.type == "door":
            self.number_of[id(obj)] = len(self.door_cells)
            self.door_cells.append(cell)
            self.door_colours.append(obj.color)
            self._kept.append(obj)
            return WALKABLE
        if obj.type == "lava":
            return DEADLY
        if obj.can_pickup() or obj.type == "box":
            self._add_thing(obj)
            return BARE
        if not type(obj).__module__.startswith(("minigrid.core", "howsure.")):
            self.unknown = obj.type
        return WALKABLE if obj.can_overlap() else SOLID

    def _add_thing(self, obj: Any) -> int:
        held = getattr(obj, "contains", None)
        inside = -1 if held is None else self._add_thing(held)
        if not type(obj).__module__.startswith(("minigrid.core", "howsure.")):
            self.unknown = obj.type
        self.number_of[id(obj)] = len(self.things)
        self._kept.append(obj)  # ids stay unique while the objects live
        name = getattr(obj, "name", obj.type)
        self.things.append(Thing(obj.type, obj.color, name, obj.can_pickup(), obj.can_overlap(), inside))
        return len(self.things) - 1

    # -- what stands where --------------------------------------------------------------------------------------------

    def grid(self, places: tuple[int, ...], doors: tuple[int, ...]) -> list[int]:
        """Every cell with what stands in it now."""
        known = self._grids.get((places, doors))
        if known is None:
            known = self.base.copy()
            for number, cell in enumerate(self.door_cells):
                known[cell] = DOOR + number
            for number, cell in enumerate(places):
                if cell >= 0:
                    known[cell] = THING + number
            self._grids[places, doors] = known
        return known

    def where(self, thing: int, places: tuple[int, ...]) -> int:
        """The cell of a thing, or of the box that holds it; CARRIED or GONE where it has none."""
        place = places[thing]
        while place == GONE and thing in self.holder:
            thing = self.holder[thing]
            place = places[thing]
        return place

    # -- what an action does ------------------------------------------------------------------------------------------

    def enters(self, grid: list[int], doors: tuple[int, ...], cell: int) -> bool:
        what = grid[cell]
        if what >= THING:
            return self.things[what - THING].can_overlap
        if what >= DOOR:
            return doors[what - DOOR] == OPEN
        return what != SOLID

    def pick(self, core: Core) -> Core:
        front = core.cell + self.steps[core.facing]
        what = self.grid(core.places, core.doors)[front]
        if what < THING or core.carried >= 0 or not self.things[what - THING].can_pickup:
            return core
        return core._replace(carried=what - THING, places=_with(core.places, what - THING, CARRIED))

    def put(self, core: Core) -> Core:
        front = core.cell + self.steps[core.facing]
        if core.carried < 0 or self.grid(core.places, core.doors)[front] != BARE:
            return core
        return core._replace(carried=-1, places=_with(core.places, core.carried, front))

    def use(self, core: Core) -> Core:
        front = core.cell + self.steps[core.facing]
        what = self.grid(core.places, core.doors)[front]
        if what >= THING and self.things[what - THING].kind == "box":
            places = _with(core.places, what - THING, GONE)
            inside = self.things[what - THING].contains
            return core._replace(places=places if inside < 0 else _with(places, inside, front))
        if DOOR <= what < THING:
            return self._use_door(core, what - DOOR)
        return core

    def _use_door(self, core: Core, door: int) -> Core:
        stands = core.doors[door]
        if stands != LOCKED:
            return core._replace(doors=_with(core.doors, door, OPEN if stands == CLOSED else CLOSED))
        key = self.things[core.carried] if core.carried >= 0 else None
        if key is None or key.kind != "key" or key.colour != self.door_colours[door]:
            return core
        return core._replace(doors=_with(core.doors, door, OPEN))


def _with(values: tuple[int, ...], at: int, value: int) -> tuple[int, ...]:
    return (*values[:at], value, *values[at + 1 :])


# -- the search ---------------------------------------------------------------------------------------------------

FAR = 10**6
Seeds = tuple[tuple[int, int], ...]
"""Cells where a way may end, each with the steps that are still to be taken there."""
GOING, REACHED, FAILED = range(3)
MOST_STATES = 30_000
"""States looked into before a search gives up: a second or two. Counted, not timed, so that runs can be repeated."""

Progress = tuple[Any, ...]
Node = tuple[Core, Progress]


class Best(NamedTuple):
    """The actions that begin a shortest way, and its length; None with a reason where that cannot be told."""

    actions: frozenset[str] | None
    distance: int | None
    reason: str | None


class Task(Protocol):
    """When an episode's task is done, as the environment judges it."""

    idle_counts: bool
    """Whether an action that changes nothing in the world may still matter."""
    bump_kills: bool
    """Whether walking against something ends the episode."""

    def begin(self) -> Progress: ...

    def after(self, progress: Progress, action: int, before: Core, now: Core) -> tuple[Progress, int]:
        """How far the task has come after an action, and whether it is done or lost."""
        ...

    def least(self, core: Core, progress: Progress) -> int:
        """A lower bound of the steps that are left; FAR where there is no way."""
        ...


def shortest(board: Board, core: Core, task: Task, actions: tuple[str, ...], most_states: int = MOST_STATES) -> Best:
    """Every one of these actions that begins a shortest way from a state to the task's end."""
    return _Search(board, task, actions, most_states).run((core, task.begin()))


class _Search:
    def __init__(self, board: Board, task: Task, actions: tuple[str, ...], most_states: int) -> None:
        self.board, self.task, self.most_states = board, task, most_states
        self.acts = [i for i in range(MOVE_COUNT, len(ACTION_NAMES)) if ACTION_NAMES[i] in actions]
        self.seen: dict[Node, tuple[int, int]] = {}
        """For each state the fewest steps to it, and the first actions of all ways so short."""
        self.expanded: set[Node] = set()
        self.waiting: dict[int, dict[int, list[Node]]] = {}
        self.best = FAR
        self.first_actions = 0

    def run(self, start: Node) -> Best:
        if self.task.least(*start) >= FAR:
            return Best(None, None, "unreachable")
        self._expand(start, 0, 0, 0)
        looked_into = 0
        while self.waiting and (total := min(self.waiting)) <= self.best:
            by_steps = self.waiting[total]
            steps = min(by_steps)
            for node in by_steps.pop(steps):
                known = self.seen[node]
                if known[0] == steps and node not in self.expanded:
                    looked_into += 1
                    self.expanded.add(node)
                    self._expand(node, steps, known[1], total)
            if not by_steps:
                del self.waiting[total]
            if looked_into > self.most_states:
                return Best(None, None, "search_too_large")
        if self.best >= FAR:
            return Best(None, None, "unreachable")
        names = frozenset(name for i, name in enumerate(ACTION_NAMES) if self.first_actions >> i & 1)
        return Best(names, self.best, None)

    def _expand(self, node: Node, steps: int, mask: int, total: int) -> None:
        core, progress = node
        board, idle_counts = self.board, self.task.idle_counts
        grid = board.grid(core.places, core.doors)
        for direction in range(MOVE_COUNT):
            cell = core.cell + board.steps[direction]
            enters = board.enters(grid, core.doors, cell)
            if (enters and grid[cell] == DEADLY) or (not enters and self.task.bump_kills):
                continue
            now = Core(cell if enters else core.cell, direction, core.carried, core.places, core.doors)
            if enters or idle_counts or direction != core.facing:
                self._reach(node, now, progress, direction, steps, mask, total)
        for action in self.acts:
            now = core
            if action == PICK:
                now = board.pick(core)
            elif action == PUT:
                now = board.put(core)
            elif action == USE:
                now = board.use(core)
            if now is not core or idle_counts or action == FINISH:
                self._reach(node, now, progress, action, steps, mask, total)

    def _reach(self, node: Node, now: Core, progress: Progress, action: int, steps: int, mask: int, total: int) -> None:
        progress, status = self.task.after(progress, action, node[0], now)
        if status == FAILED:
            return
        mask, steps = mask or 1 << action, steps + 1
        if status == REACHED:
            if steps < self.best:
                self.best, self.first_actions = steps, mask
            elif steps == self.best:
                self.first_actions |= mask
            return
        reached = (now, progress)
        known = self.seen.get(reached)
        if known is not None and (known[0] < steps or (known[0] == steps and known[1] | mask == known[1])):
            return
        if known is not None and known[0] == steps:
            mask |= known[1]
            if reached not in self.expanded:
                self.seen[reached] = (steps, mask)
                return
        total = max(total, steps + self.task.least(now, progress))
        if total > self.best or total >= FAR:
            return
        self.expanded.discard(reached)
        self.seen[reached] = (steps, mask)
        self.waiting.setdefault(total, {}).setdefault(steps, []).append(reached)


# -- lower bounds: how many steps at least, whatever may be picked up or opened on the way ----------------------------


# Walls and lava stay, things are no hindrance, a closed door costs one step more. Without a key in hand a locked door
# can be passed only by way of a key. Each bound is the exact distance in a world with more freedom, so that it never
# falls by more than one in one step.


class Distances:
    def __init__(self, board: Board) -> None:
        self.board = board
        self._free = [code not in (SOLID, DEADLY) for code in board.base]
        self._neighbours = [self._around(cell) for cell in range(len(board.base))]
        self._fields: dict[tuple[Seeds, tuple[int, ...], bool], list[int]] = {}
        self._keyed: dict[tuple[Seeds, tuple[int, ...], tuple[int, ...]], list[int]] = {}
        self._near: dict[tuple[int, ...], Seeds] = {}
        self._keys = [i for i, thing in enumerate(board.things) if thing.kind == "key"]

    def _around(self, cell: int) -> list[int]:
        x, y = cell % self.board.width, cell // self.board.width
        return [
            cell + step
            for step, inside in zip(
                self.board.steps, (x < self.board.width - 1, y < self.board.height - 1, x > 0, y > 0), strict=True
            )
            if inside and self._free[cell + step]
        ]

    def near(self, cells: tuple[int, ...], cost: int = 0) -> Seeds:
        """The cells beside these."""
        known = self._near.get(cells)
        if known is None:
            known = tuple((cell, 0) for cell in sorted({n for cell in cells for n in self._neighbours[cell]}))
            self._near[cells] = known
        return known if not cost else tuple((cell, cost) for cell, _ in known)

    def later(self, seeds: Seeds, core: Core) -> list[int]:
        """Steps at least from every cell at a later time, when any door may have been opened already."""
        return self._field(seeds, (OPEN,) * len(core.doors), False)

    def field(self, seeds: Seeds, core: Core) -> list[int]:
        """Steps at least from every cell, as doors and keys are in this state."""
        doors = core.doors
        if LOCKED not in doors or core.carried in self._keys:
            return self._field(seeds, doors, False)
        places = tuple(self.board.where(key, core.places) for key in self._keys)
        if CARRIED in places:  # in a box that is carried
            return self._field(seeds, doors, False)
        known = self._keyed.get((seeds, doors, places))
        if known is None:
            known = self._through_keys(seeds, core, places)
            self._keyed[seeds, doors, places] = known
        return known

    def _through_keys(self, seeds: Seeds, core: Core, places: tuple[int, ...]) -> list[int]:
        # A door that is only closed may be opened on the way to the key, and counts once; a locked one may not.
        unlocked = self._field(seeds, tuple(LOCKED if s == LOCKED else OPEN for s in core.doors), False)
        more = list(seeds)
        for key, place in zip(self._keys, places, strict=True):
            if place >= 0:
                hidden = core.places[key] < 0
                more += [(cell, 1 + hidden + unlocked[cell]) for cell in self._neighbours[place]]
        return self._field(tuple(more), core.doors, True)

    def _field(self, seeds: Seeds, doors: tuple[int, ...], locked_stops: bool) -> list[int]:
        known = self._fields.get((seeds, doors, locked_stops))
        if known is None:
            known = self._compute(seeds, doors, locked_stops)
            self._fields[seeds, doors, locked_stops] = known
        return known

    def _compute(self, seeds: Seeds, doors: tuple[int, ...], locked_stops: bool) -> list[int]:
        toll = {cell: stands != OPEN for cell, stands in zip(self.board.door_cells, doors, strict=True)}
        shut = {c for c, s in zip(self.board.door_cells, doors, strict=True) if locked_stops and s == LOCKED}
        field = [FAR] * len(self._free)
        layers: dict[int, list[int]] = {}
        for cell, cost in seeds:
            if cost < field[cell] and self._free[cell]:
                field[cell] = cost
                layers.setdefault(cost, []).append(cell)
        while layers:
            reached = min(layers)
            for cell in layers.pop(reached):
                if field[cell] != reached or cell in shut:
                    continue
                cost = reached + 1 + toll.get(cell, False)
                for other in self._neighbours[cell]:
                    if cost < field[other]:
                        field[other] = cost
                        layers.setdefault(cost, []).append(other)
        return field
