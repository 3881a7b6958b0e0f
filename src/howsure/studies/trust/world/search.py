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
    DEADLY,
    FINISH,
    MOVE_COUNT,
    PICK,
    PUT,
    USE,
    Board,
    Core,
)
from howsure.studies.trust.world.distances import FAR

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
