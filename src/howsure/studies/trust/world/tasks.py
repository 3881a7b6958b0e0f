"""What each environment asks for, as its own code judges it; none where that is not known.

The class that decides, in MiniGrid, is the one whose `step` is run. A class that is not in the table below, or an
object that is not MiniGrid's or ours, means that the task is not known: nothing is guessed from the mission's words.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from howsure.studies.trust.world.instructions import instructed
from howsure.studies.trust.world.search import (
    CARRIED,
    FAILED,
    FAR,
    FINISH,
    GOING,
    GONE,
    OPEN,
    PICK,
    PUT,
    REACHED,
    USE,
    Board,
    Core,
    Distances,
    Progress,
    Seeds,
    Task,
)


class _Plain(ABC):
    """A task that has no memory."""

    idle_counts = False
    bump_kills = False

    def __init__(self, board: Board) -> None:
        self.board, self.distances = board, Distances(board)

    def begin(self) -> Progress:
        return ()

    def after(self, progress: Progress, action: int, before: Core, now: Core) -> tuple[Progress, int]:
        return progress, self.judge(action, before, now)

    @abstractmethod
    def judge(self, action: int, before: Core, now: Core) -> int:
        """How the task stands after one action."""

    def near(self, core: Core, cells: tuple[int, ...]) -> int:
        return self.distances.field(self.distances.near(cells), core)[core.cell]

    @staticmethod
    def hands_full(core: Core, things: tuple[int, ...]) -> int:
        """One step more where something else has to be dropped before one of these can be picked up."""
        return int(core.carried >= 0 and core.carried not in things)

    def near_things(self, core: Core, things: tuple[int, ...]) -> int:
        """Steps at least to stand beside one of these things; 0 where one is carried."""
        places = {self.board.where(thing, core.places) for thing in things}
        if CARRIED in places:
            return 0
        cells = tuple(sorted(place for place in places if place >= 0))
        return self.near(core, cells) if cells else FAR


class Reach(_Plain):
    """Stand on one of these cells; some others may be deadly."""

    def __init__(self, board: Board, cells: list[int], deadly: tuple[int, ...] = (), bump_kills: bool = False) -> None:
        super().__init__(board)
        self.cells, self.deadly, self.bump_kills = frozenset(cells), deadly, bump_kills
        self._seeds: Seeds = tuple((cell, 0) for cell in sorted(cells))

    def judge(self, action: int, before: Core, now: Core) -> int:
        return REACHED if now.cell in self.cells else FAILED if now.cell in self.deadly else GOING

    def least(self, core: Core, progress: Progress) -> int:
        return max(1, self.distances.field(self._seeds, core)[core.cell])


class Bring(_Plain):
    """Stand on a cell while carrying one of these things."""

    def __init__(self, board: Board, things: tuple[int, ...], cell: int) -> None:
        super().__init__(board)
        self.things, self.cell = things, cell
        self._home: Seeds = ((cell, 0),)
        self._by_places: dict[tuple[int, ...], Seeds] = {}

    def judge(self, action: int, before: Core, now: Core) -> int:
        return REACHED if now.cell == self.cell and now.carried in self.things else GOING

    def least(self, core: Core, progress: Progress) -> int:
        if core.carried in self.things:
            return max(1, self.distances.field(self._home, core)[core.cell])
        places = tuple(self.board.where(thing, core.places) for thing in self.things)
        if CARRIED in places:  # in a box that is carried
            return 1
        seeds = self._by_places.get(places)
        if seeds is None:
            home = self.distances.later(self._home, core)
            beside = self.distances.near(tuple(sorted(place for place in places if place >= 0)))
            seeds = self._by_places[places] = tuple((cell, 1 + home[cell]) for cell, _ in beside)
        return self.hands_full(core, self.things) + max(1, self.distances.field(seeds, core)[core.cell])


class Take(_Plain):
    """Pick up one of these things; where `only` is set, to pick up anything else loses."""

    def __init__(self, board: Board, things: tuple[int, ...], only: bool = False) -> None:
        super().__init__(board)
        self.things, self.only = things, only

    def judge(self, action: int, before: Core, now: Core) -> int:
        if (action == PICK or self.only) and now.carried in self.things:
            return REACHED
        return FAILED if self.only and now.carried >= 0 else GOING

    def least(self, core: Core, progress: Progress) -> int:
        return self.near_things(core, self.things) + 1 + self.hands_full(core, self.things)


class OpenDoor(_Plain):
    """Toggle anything while this door is open, which for a closed door means to open it."""

    def __init__(self, board: Board, door: int) -> None:
        super().__init__(board)
        self.door, self.idle_counts = door, board.start.doors[door] == OPEN

    def judge(self, action: int, before: Core, now: Core) -> int:
        return REACHED if action == USE and now.doors[self.door] == OPEN else GOING

    def least(self, core: Core, progress: Progress) -> int:
        if core.doors[self.door] == OPEN:
            return 1
        return self.near(core, (self.board.door_cells[self.door],)) + 1


class SayDone(_Plain):
    """Say done beside a cell; to say it elsewhere, or to toggle anything, loses."""

    def __init__(self, board: Board, cell: int) -> None:
        super().__init__(board)
        self.cell = cell
        x, y = cell % board.width, cell // board.width
        self.beside = {(x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)}

    def judge(self, action: int, before: Core, now: Core) -> int:
        if action != FINISH:
            return FAILED if action == USE else GOING
        there = (now.cell % self.board.width, now.cell // self.board.width)
        return REACHED if there in self.beside else FAILED

    def least(self, core: Core, progress: Progress) -> int:
        return self.near(core, (self.cell,)) + 1


class PutNear(_Plain):
    """Drop one of these things beside a cell, diagonally too; to pick up another, or to drop elsewhere, loses."""

    def __init__(self, board: Board, things: tuple[int, ...], cell: int) -> None:
        super().__init__(board)
        self.things, self.cell = things, cell
        self.x, self.y = cell % board.width, cell // board.width

    def judge(self, action: int, before: Core, now: Core) -> int:
        if action == PICK and now.carried >= 0 and now.carried not in self.things:
            return FAILED
        if action != PUT or before.carried < 0:
            return GOING
        place = now.places[before.carried]
        if place < 0:
            return FAILED
        x, y = place % self.board.width, place // self.board.width
        return REACHED if abs(x - self.x) <= 1 and abs(y - self.y) <= 1 else FAILED

    def least(self, core: Core, progress: Progress) -> int:
        field = self.distances.later(((self.cell, 0),), core)
        if core.carried >= 0:
            return max(1, field[core.cell] - 2)
        cells = tuple(sorted({core.places[thing] for thing in self.things} - {CARRIED, GONE}))
        seeds = tuple((cell, 1 + max(1, field[cell] - 2)) for cell, _ in self.distances.near(cells))
        return max(1, self.distances.field(seeds, core)[core.cell]) if seeds else FAR


class RedThenBlue(_Plain):
    """Open the red door, then the blue one."""

    def __init__(self, board: Board, red: int, blue: int) -> None:
        super().__init__(board)
        self.red, self.blue = red, blue

    def judge(self, action: int, before: Core, now: Core) -> int:
        if now.doors[self.blue] == OPEN:
            return REACHED if before.doors[self.red] == OPEN else FAILED
        return GOING

    def least(self, core: Core, progress: Progress) -> int:
        red, blue = (self.board.door_cells[door] for door in (self.red, self.blue))
        if core.doors[self.red] == OPEN:
            return self.near(core, (blue,)) + 1
        to_blue = self.distances.later(self.distances.near((blue,), 1), core)
        seeds = tuple((cell, 1 + to_blue[cell]) for cell, _ in self.distances.near((red,)))
        return max(1, self.distances.field(seeds, core)[core.cell])


# -- which environment asks for what -------------------------------------------------------------------------------


def task_of(env: Any, board: Board) -> Task | None:
    """The task of this environment as it stands now; None where it is not known."""
    if board.unknown is not None:
        return None
    decides = next(one for one in type(env).__mro__ if "step" in vars(one))
    if decides.__module__.startswith("howsure."):
        return _of_map(env, board)
    known = _KNOWN.get(decides.__name__) if decides.__module__.startswith("minigrid.") else None
    return None if known is None else known(env, board)


def _of_map(env: Any, board: Board) -> Task | None:
    if env.goal_pos is None:
        return None
    goal = _cell(board, env.goal_pos)
    if env.plan.fetch is None:
        return Reach(board, [goal])
    return Bring(board, tuple(i for i, t in enumerate(board.things) if t.name == env.plan.fetch and t.can_pickup), goal)


def _goal(env: Any, board: Board, bump_kills: bool = False) -> Task | None:
    cells = [cell for cell, obj in enumerate(env.grid.grid) if obj is not None and obj.type == "goal"]
    return Reach(board, cells, bump_kills=bump_kills) if cells else None


def _like(board: Board, kind: str, colour: str) -> tuple[int, ...]:
    return tuple(i for i, thing in enumerate(board.things) if (thing.kind, thing.colour) == (kind, colour))


def _take_it(env: Any, board: Board) -> Task | None:
    thing = board.number_of.get(id(env.obj))
    return None if thing is None else Take(board, (thing,))


def _cell(board: Board, place: Any) -> int:
    return int(place[1]) * board.width + int(place[0])


_KNOWN: dict[str, Callable[[Any, Board], Task | None]] = {
    "MiniGridEnv": _goal,
    "DynamicObstaclesEnv": lambda env, board: _goal(env, board, bump_kills=True),
    "MemoryEnv": lambda env, board: Reach(board, [_cell(board, env.success_pos)], (_cell(board, env.failure_pos),)),
    "FetchEnv": lambda env, board: Take(board, _like(board, env.targetType, env.targetColor), only=True),
    "UnlockEnv": lambda env, board: OpenDoor(board, board.number_of[id(env.door)]),
    "UnlockPickupEnv": _take_it,
    "BlockedUnlockPickupEnv": _take_it,
    "KeyCorridorEnv": _take_it,
    "ObstructedMazeEnv": _take_it,
    "GoToDoorEnv": lambda env, board: SayDone(board, _cell(board, env.target_pos)),
    "GoToObjectEnv": lambda env, board: SayDone(board, _cell(board, env.target_pos)),
    "PutNearEnv": lambda env, board: PutNear(
        board, _like(board, env.move_type, env.moveColor), _cell(board, env.target_pos)
    ),
    "RedBlueDoorEnv": lambda env, board: RedThenBlue(
        board, board.number_of[id(env.red_door)], board.number_of[id(env.blue_door)]
    ),
    "RoomGridLevel": instructed,
}
