"""The world as the search sees it: numbers in tuples instead of objects, so that a state is quick to copy and compare.

A cell is a number, row by row. What never changes stands in `base`; things that can be picked up or opened, and doors,
are numbered, and a state says where each thing is and how each door stands.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from howsure.studies.trust.world.actions import DONE, DROP, MOVES, PICK_UP, TOGGLE

BARE, WALKABLE, SOLID, DEADLY = range(4)
"""What a cell is by itself: nothing in it; can be entered but nothing dropped on it; a wall; lava."""
DOOR, THING = 10, 1000
"""Added to a door's or a thing's number where one stands in a cell."""
OPEN, CLOSED, LOCKED = range(3)
CARRIED, GONE = -1, -2

MOVE_COUNT = 4
PICK, PUT, USE, FINISH = 4, 5, 6, 7
ACTION_NAMES = (*("right", "down", "left", "up"), PICK_UP, DROP, TOGGLE, DONE)
"""By number; the first four are also directions, in MiniGrid's order."""
assert set(ACTION_NAMES[:MOVE_COUNT]) == set(MOVES)


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
        self._read(env)
        self.start = self.now(env)
        self.holder = {thing.contains: i for i, thing in enumerate(self.things) if thing.contains >= 0}
        self._grids: dict[tuple[tuple[int, ...], tuple[int, ...]], list[int]] = {}

    # -- reading MiniGrid's grid ------------------------------------------------------------------------------------

    def _read(self, env: Any) -> None:
        for cell, obj in enumerate(env.grid.grid):
            self.base.append(self._base_of(obj, cell))
        if env.carrying is not None:
            self._add_thing(env.carrying)

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
