"""Lower bounds of distances: how many steps at least, whatever may be picked up or opened on the way.

Walls and lava stay, things are no hindrance, a closed door costs one step more. Without a key in hand a locked door
can be passed only by way of a key. Each bound is the exact distance in a world with more freedom, so that it never
falls by more than one in one step.
"""

from __future__ import annotations

from howsure.studies.trust.world.board import CARRIED, DEADLY, LOCKED, OPEN, SOLID, Board, Core

FAR = 10**6
Seeds = tuple[tuple[int, int], ...]
"""Cells where a way may end, each with the steps that are still to be taken there."""


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
