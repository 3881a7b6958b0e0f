"""BabyAI's instructions, as its own verifier judges them, over the search's numbers.

The verifier has memory, and some of it is odd: where objects lie is looked up again only when something is dropped,
what was carried a step before is remembered by each clause only while that clause is being judged, and "and" forgives
failures. All of this decides when an episode ends, and is kept here as it is there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from howsure.studies.trust.world.search import (
    CARRIED,
    FAILED,
    FAR,
    GOING,
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
)

Snapshot = tuple[tuple[int, ...], ...]
"""For each description the cells of its objects when they were last looked up."""


def instructed(env: Any, board: Board) -> Instructed | None:
    """The task of a BabyAI level; None where its instruction is of a kind that is not known."""
    from minigrid.envs.babyai.core import verifier

    if verifier.use_done_actions:  # set by an environment variable; every clause then waits for "done"
        return None
    descriptions: list[_Description] = []
    clause = _clause(env.instrs, board, env, descriptions)
    return None if clause is None else Instructed(env, board, clause, descriptions)


class _Description:
    """The objects that a phrase means, found once at the beginning.

    Things can be moved. Doors stay, and so do walls, which "a grey object" means as well.
    """

    def __init__(self, desc: Any, board: Board, env: Any) -> None:
        self.desc, self.board = desc, board
        meant = {id(one): one for one in desc.obj_set}
        numbered = [one for one in meant.values() if id(one) in board.number_of]
        self.things = frozenset(board.number_of[id(one)] for one in numbered if one.type != "door")
        self.doors = frozenset(board.number_of[id(one)] for one in numbered if one.type == "door")
        things = {id(one) for one in numbered if one.type != "door"}
        self.fixed = tuple(at for at, one in enumerate(env.grid.grid) if id(one) in meant and id(one) not in things)

    def cells_now(self, core: Core) -> tuple[int, ...]:
        return tuple(sorted({core.places[t] for t in self.things if core.places[t] >= 0} | set(self.fixed)))

    def looked_up(self) -> tuple[int, ...]:
        """As the environment's own verifier remembers them."""
        return tuple(sorted({int(y) * self.board.width + int(x) for x, y in self.desc.obj_poss}))


class Instructed:
    idle_counts = True
    bump_kills = False

    def __init__(self, env: Any, board: Board, clause: Any, descriptions: list[_Description]) -> None:
        self.env, self.board, self.clause, self.descriptions = env, board, clause, descriptions
        self.bounds = _Bounds(board)

    def begin(self) -> Progress:
        return tuple(one.looked_up() for one in self.descriptions), self.clause.begin(self.env.instrs)

    def after(self, progress: Progress, action: int, before: Core, now: Core) -> tuple[Progress, int]:
        snapshot, memory = progress
        if action == PUT:
            snapshot = tuple(one.cells_now(now) for one in self.descriptions)
        memory, status = self.clause.judge(memory, action, now, snapshot)
        return (snapshot, memory), status

    def least(self, core: Core, progress: Progress) -> int:
        snapshot, memory = progress
        left: int = self.clause.least(memory, core, snapshot, self.bounds)
        return max(1, left)


class _Bounds:
    """Lower bounds over the cells that clauses name."""

    def __init__(self, board: Board) -> None:
        self.board, self.distances = board, Distances(board)
        self._seeds: dict[tuple[Any, ...], Seeds] = {}
        self._places: dict[tuple[frozenset[int], tuple[int, ...]], tuple[int, ...] | None] = {}

    def places(self, things: frozenset[int], core: Core) -> tuple[int, ...] | None:
        """The cells of these things; None where one of them is carried."""
        named = (things, core.places)
        if named not in self._places:
            places = {self.board.where(thing, core.places) for thing in things}
            cells = None if CARRIED in places else tuple(sorted(place for place in places if place >= 0))
            self._places[named] = cells
        return self._places[named]

    def near(self, cells: tuple[int, ...] | None, core: Core) -> int:
        if cells is None:
            return 0
        return self.distances.field(self.distances.near(cells), core)[core.cell] if cells else FAR

    def near_then(self, cells: tuple[int, ...], then: tuple[int, ...], core: Core, cost: int, least: int = 0) -> int:
        """Beside one of these cells, `cost` steps there, then beside one of the others in `least` steps or more."""
        named = (cells, then, cost, least)
        seeds = self._seeds.get(named)
        if seeds is None:
            later = self.distances.later(self.distances.near(then), core)
            seeds = tuple((cell, cost + max(least, later[cell])) for cell, _ in self.distances.near(cells))
            self._seeds[named] = seeds
        return self.distances.field(seeds, core)[core.cell] if seeds else FAR


# -- clauses ---------------------------------------------------------------------------------------------------------


def _clause(instr: Any, board: Board, env: Any, descriptions: list[_Description]) -> Any:
    make = _CLAUSES.get(type(instr).__name__)
    if make is None or not type(instr).__module__.startswith("minigrid."):
        return None
    made = make(instr, board, env, descriptions)
    return None if None in getattr(made, "parts", ()) else made


def _described(desc: Any, board: Board, env: Any, descriptions: list[_Description]) -> int:
    descriptions.append(_Description(desc, board, env))
    return len(descriptions) - 1


class Visited(NamedTuple):
    """Cells of which the agent must stand beside one before a clause can be done, and the steps spent there."""

    cells: tuple[int, ...]
    cost: int
    movable: bool
    """Whether what lies there can be carried away on an early visit."""


class _Carrying:
    """A clause about one of some things, which remembers what was carried a step before."""

    def __init__(self, board: Board, strict: bool, meant: _Description) -> None:
        self.board, self.strict, self.meant = board, strict, meant

    def begin(self, instr: Any) -> Progress:
        return (-1 if instr.preCarrying is None else self.board.number_of[id(instr.preCarrying)],)

    def visited(self, core: Core, snapshot: Snapshot, bounds: _Bounds) -> Visited | None:
        cells = bounds.places(self.meant.things, core)
        return None if cells is None else Visited(cells, 1, True)


class _GoTo:
    """Face one of the objects from beside it."""

    def __init__(self, instr: Any, board: Board, env: Any, descriptions: list[_Description]) -> None:
        self.board, self.which = board, _described(instr.desc, board, env, descriptions)
        self.meant = descriptions[self.which]

    def begin(self, instr: Any) -> Progress:
        return ()

    def judge(self, memory: Progress, action: int, now: Core, snapshot: Snapshot) -> tuple[Progress, int]:
        faced = now.cell + self.board.steps[now.facing]
        return memory, REACHED if faced in snapshot[self.which] else GOING

    def least(self, memory: Progress, core: Core, snapshot: Snapshot, bounds: _Bounds) -> int:
        places = bounds.places(self.meant.things, core)
        if places is None:
            return 0
        return bounds.near(tuple(sorted({*places, *snapshot[self.which]})), core)

    def visited(self, core: Core, snapshot: Snapshot, bounds: _Bounds) -> Visited | None:
        places = bounds.places(self.meant.things, core)
        cells = None if places is None else tuple(sorted({*places, *snapshot[self.which]}))
        return None if cells is None else Visited(cells, 0, bool(self.meant.things))


class _Open:
    """Open one of the doors; in strict mode to toggle any other loses."""

    def __init__(self, instr: Any, board: Board, env: Any, descriptions: list[_Description]) -> None:
        self.board, self.strict = board, bool(instr.strict)
        self.meant = _Description(instr.desc, board, env)
        self.door_at = {cell: door for door, cell in enumerate(board.door_cells)}

    def begin(self, instr: Any) -> Progress:
        return ()

    def judge(self, memory: Progress, action: int, now: Core, snapshot: Snapshot) -> tuple[Progress, int]:
        door = self.door_at.get(now.cell + self.board.steps[now.facing]) if action == USE else None
        if door is None:
            return memory, GOING
        if door in self.meant.doors and now.doors[door] == OPEN:
            return memory, REACHED
        return memory, FAILED if self.strict else GOING

    def least(self, memory: Progress, core: Core, snapshot: Snapshot, bounds: _Bounds) -> int:
        return bounds.near(self.meant.fixed, core) + 1

    def visited(self, core: Core, snapshot: Snapshot, bounds: _Bounds) -> Visited | None:
        return Visited(self.meant.fixed, 1, False)


class _PickUp(_Carrying):
    """Pick up one of the things; in strict mode to pick up any other loses. Remembers what was carried before."""

    def __init__(self, instr: Any, board: Board, env: Any, descriptions: list[_Description]) -> None:
        super().__init__(board, bool(instr.strict), _Description(instr.desc, board, env))

    def judge(self, memory: Progress, action: int, now: Core, snapshot: Snapshot) -> tuple[Progress, int]:
        (carried_before,) = memory
        status = GOING
        if action == PICK:
            if carried_before < 0 and now.carried in self.meant.things:
                status = REACHED
            elif self.strict and now.carried >= 0:
                status = FAILED
        return (now.carried,), status

    def least(self, memory: Progress, core: Core, snapshot: Snapshot, bounds: _Bounds) -> int:
        hands_full = core.carried >= 0 and core.carried not in self.meant.things
        return bounds.near(bounds.places(self.meant.things, core), core) + 1 + hands_full


class _PutNext(_Carrying):
    """Drop one of the things beside one of the others; in strict mode to pick up anything loses."""

    def __init__(self, instr: Any, board: Board, env: Any, descriptions: list[_Description]) -> None:
        super().__init__(board, bool(instr.strict), _Description(instr.desc_move, board, env))
        self.which = _described(instr.desc_fixed, board, env, descriptions)
        self.beside = descriptions[self.which]

    def judge(self, memory: Progress, action: int, now: Core, snapshot: Snapshot) -> tuple[Progress, int]:
        (carried_before,) = memory
        status = GOING
        if self.strict and action == PICK and now.carried >= 0:
            status = FAILED
        elif action == PUT and carried_before in self.meant.things:
            place = now.places[carried_before]
            if place >= 0 and any(self._next_to(place, other) for other in snapshot[self.which]):
                status = REACHED
        return (now.carried,), status

    def _next_to(self, one: int, other: int) -> bool:
        width = self.board.width
        return abs(one % width - other % width) + abs(one // width - other // width) == 1

    def least(self, memory: Progress, core: Core, snapshot: Snapshot, bounds: _Bounds) -> int:
        """Either the thing is brought to the other, or the other to the thing first."""
        others = bounds.places(self.beside.things, core)
        things = bounds.places(self.meant.things, core)
        if others is None:  # another is carried: drop it, take the thing, drop that
            return 3 + bounds.near(things, core) if things else 1
        others = tuple(sorted({*others, *self.beside.fixed}))
        if things is None:
            return bounds.near(others, core)
        hands_full = core.carried >= 0
        return hands_full + min(bounds.near_then(things, others, core, 1, 1), bounds.near_then(others, things, core, 4))


class _Pair:
    """Two clauses; which of them are done is remembered."""

    first, in_order = 0, True

    def __init__(self, instr: Any, board: Board, env: Any, descriptions: list[_Description]) -> None:
        self.strict = bool(instr.strict)
        self.parts = [_clause(one, board, env, descriptions) for one in (instr.instr_a, instr.instr_b)]

    def begin(self, instr: Any) -> Progress:
        done = (instr.a_done == "success", instr.b_done == "success")
        return (*done, self.parts[0].begin(instr.instr_a), self.parts[1].begin(instr.instr_b))

    def least(self, memory: Progress, core: Core, snapshot: Snapshot, bounds: _Bounds) -> int:
        left = [
            part.least(own, core, snapshot, bounds)
            for part, done, own in zip(self.parts, memory[:2], memory[2:], strict=True)
            if not done
        ]
        return max(*left, self._both(core, snapshot, bounds)) if len(left) == 2 else max(left, default=0)

    def _both(self, core: Core, snapshot: Snapshot, bounds: _Bounds) -> int:
        """Both places have to be visited, in one order or the other.

        Nothing that a clause names is moved without a visit to it. Where the order is fixed, the second place is
        visited early only to take something along.
        """
        one = self.parts[self.first].visited(core, snapshot, bounds)
        two = self.parts[1 - self.first].visited(core, snapshot, bounds)
        if one is None or two is None:
            return 0
        forth = bounds.near_then(one.cells, two.cells, core, one.cost)
        if self.in_order and not two.movable:
            return forth
        return min(forth, bounds.near_then(two.cells, one.cells, core, two.cost))

    def visited(self, core: Core, snapshot: Snapshot, bounds: _Bounds) -> Visited | None:
        return None


class _And(_Pair):
    """Both, in whichever order."""

    in_order = False

    def judge(self, memory: Progress, action: int, now: Core, snapshot: Snapshot) -> tuple[Progress, int]:
        done, own = list(memory[:2]), list(memory[2:])
        for i, part in enumerate(self.parts):
            if not done[i]:
                own[i], status = part.judge(own[i], action, now, snapshot)
                done[i] = status == REACHED
        return (*done, *own), REACHED if all(done) else GOING


class _Before(_Pair):
    """The first, then the second, which is judged from the very step that finishes the first."""

    def judge(self, memory: Progress, action: int, now: Core, snapshot: Snapshot) -> tuple[Progress, int]:
        done, own = list(memory[:2]), list(memory[2:])
        one, two = self.first, 1 - self.first
        status = GOING
        if not done[one]:
            own[one], status = self.parts[one].judge(own[one], action, now, snapshot)
            done[one] = status == REACHED
            if status == GOING and self.strict:
                own[two], early = self.parts[two].judge(own[two], action, now, snapshot)
                status = FAILED if early == REACHED else GOING
        if done[one]:
            own[two], status = self.parts[two].judge(own[two], action, now, snapshot)
        return (*done, *own), status


class _After(_Before):
    first = 1


_CLAUSES: dict[str, Any] = {
    "GoToInstr": _GoTo,
    "OpenInstr": _Open,
    "PickupInstr": _PickUp,
    "PutNextInstr": _PutNext,
    "AndInstr": _And,
    "BeforeInstr": _Before,
    "AfterInstr": _After,
}
