"""All first actions that lie on a shortest way, by one search.

Breadth-first in its result: states are taken in the order of the steps that a way through them has at least (steps so
far plus a lower bound of the rest; with a bound of 0 this is plain breadth-first search), and every state keeps, as
bits, all the first actions by which it can be reached in so few steps. States from which no way can be as short as
the best one are never looked at.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from howsure.studies.trust.world.board import (
    ACTION_NAMES,
    CARRIED,
    DEADLY,
    FINISH,
    LOCKED,
    MOVE_COUNT,
    OPEN,
    PICK,
    PUT,
    SOLID,
    USE,
    Board,
    Core,
)

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
            self._arrive(steps, mask)
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

    def _arrive(self, steps: int, mask: int) -> None:
        if steps < self.best:
            self.best, self.first_actions = steps, mask
        elif steps == self.best:
            self.first_actions |= mask


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
        if LOCKED not in doors or self._holds_key(core):
            return self._field(seeds, doors, False)
        places = tuple(self.board.where(key, core.places) for key in self._keys)
        if CARRIED in places:  # in a box that is carried
            return self._field(seeds, doors, False)
        known = self._keyed.get((seeds, doors, places))
        if known is None:
            known = self._through_keys(seeds, core, places)
            self._keyed[seeds, doors, places] = known
        return known

    def _holds_key(self, core: Core) -> bool:
        return core.carried >= 0 and self.board.things[core.carried].kind == "key"

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
