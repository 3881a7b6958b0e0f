"""The world in words: what an agent can say to do, names of things, what an action did, and a view of the grid.

The view is for models without eyes. Nothing here speaks of a task: what MiniGrid calls a goal is a green square, as it
looks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

DIRECTIONS = ("right", "down", "left", "up")
"""In MiniGrid's order, so that a direction's place here is its number there."""

COMPASS = {"up": "north", "down": "south", "left": "west", "right": "east"}
"""The four directions with their names on a map, in the order that every table keeps."""

MOVES = tuple(COMPASS)
PICK_UP, DROP, TOGGLE, DONE = "pick up", "drop", "toggle", "done"
LABELS = (*MOVES, PICK_UP, DROP, TOGGLE, DONE)
"""Every action's name; none is the beginning of another, so that a model's first tokens tell them apart."""

ARROWS = {"right": ">", "down": "v", "left": "<", "up": "^"}
_STEPS = {"right": (1, 0), "down": (0, 1), "left": (-1, 0), "up": (0, -1)}
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUWXYZabcdefghijklmnopqrstuwxyz0123456789"
_TAKEN = "#.<>^v"

# -- what an agent says --------------------------------------------------------------------------------------------


class ParsedAction(NamedTuple):
    """An action under its one name, and the direction that was said with it."""

    label: str
    direction: str | None


_GO = ("move", "go", "walk", "step")
_VERBS = {
    PICK_UP: ("pick up", "pickup", "grab"),
    DROP: ("drop", "put down", "putdown"),
    TOGGLE: ("toggle", "open"),
    DONE: ("done",),
}
_TOWARDS = (" ", " to ", " the ", " to the ")


def _spelled() -> Iterator[tuple[str, ParsedAction]]:
    """Every way to write an action, in lower case and with single blanks.

    A single letter needs a blank before it: "drops" and "steps" name no direction.
    """
    acts = [(verb, label) for label, verbs in _VERBS.items() for verb in verbs]
    yield from ((verb, ParsedAction(label, None)) for verb, label in acts)
    for direction, compass in COMPASS.items():
        names = (direction, compass, direction[0], compass[0])
        where = [*(towards + name for towards in _TOWARDS for name in names), direction, compass]
        yield from ((name, ParsedAction(direction, direction)) for name in names)
        yield from ((verb + there, ParsedAction(direction, direction)) for verb in _GO for there in where)
        yield from ((verb + there, ParsedAction(label, direction)) for verb, label in acts for there in where)


_ACTIONS = dict(_spelled())


def parse_action(said: str) -> ParsedAction | None:
    """The action that these words name, whatever their case, blanks, underscores and hyphens; None for any others.

    >>> parse_action("MOVE_NORTH")
    ParsedAction(label='up', direction='up')
    >>> parse_action("drop to the east")
    ParsedAction(label='drop', direction='right')
    """
    return _ACTIONS.get(" ".join(re.sub(r"[-_]", " ", said.lower()).split()))


def usual_spellings(allowed: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The ways to write each allowed action, as `parse_action` reads them; one that it does not know is its label.

    >>> usual_spellings(["left"])["left"][:8]
    ('left', 'west', 'l', 'w', 'move left', 'move west', 'move l', 'move w')
    """
    return {label: _SPELLINGS.get(label, (label,)) for label in allowed}


_SPELLINGS = {label: tuple(said for said, action in _ACTIONS.items() if action.label == label) for label in LABELS}

# -- names ---------------------------------------------------------------------------------------------------------


class Grid(NamedTuple):
    """The part of an environment's grid that is shown; a map's hidden ring of walls is left out."""

    env: Any
    ring: int

    @property
    def width(self) -> int:
        return int(self.env.width) - 2 * self.ring

    @property
    def height(self) -> int:
        return int(self.env.height) - 2 * self.ring

    def at(self, x: int, y: int) -> Any:
        return self.env.grid.get(x + self.ring, y + self.ring)

    def cells(self) -> list[Any]:
        """Everything in it, row by row."""
        width, cells = self.env.width, self.env.grid.grid
        if not self.ring:
            return list(cells)
        rows = range(self.ring, self.env.height - self.ring)
        return [one for y in rows for one in cells[y * width + self.ring : (y + 1) * width - self.ring]]

    def agent(self) -> tuple[int, int, str]:
        x, y = self.env.agent_pos
        return int(x) - self.ring, int(y) - self.ring, DIRECTIONS[self.env.agent_dir]


def name_of(obj: Any) -> str:
    """What a thing is called, without how it stands: "red key", "wall", "sofa"."""
    if obj is None:
        return "free"
    if obj.type == "emoji":
        return str(obj.name)
    if obj.type == "goal":
        return "green square"
    if obj.type in ("wall", "lava"):
        return str(obj.type)
    named = getattr(obj, "kind", None)
    if named is not None and named.name != named.type:
        return str(named.name)
    return f"{obj.color} {obj.type}"


def described(obj: Any) -> str:
    """What a thing is called and how it stands: "closed red door"."""
    if obj is None or obj.type != "door":
        return name_of(obj)
    return f"{'open' if obj.is_open else 'locked' if obj.is_locked else 'closed'} {name_of(obj)}"


# -- the view ----------------------------------------------------------------------------------------------------


class Legend:
    """One character for each description, the same for as long as an episode lasts."""

    def __init__(self) -> None:
        self._known = {"wall": "#", "free": "."}

    def symbol(self, description: str) -> str:
        known = self._known.get(description)
        if known is None:
            used = {*self._known.values(), *_TAKEN}
            noun = description.split()[-1] if description.split() else ""
            wishes = [*noun[:1].upper(), *noun[:1].lower(), *description.upper(), *_LETTERS]
            known = next((one for one in wishes if one in _LETTERS and one not in used), "?")
            self._known[description] = known
        return known


def view(grid: Grid, legend: Legend) -> str:
    """The whole grid in characters, what they mean, where the agent is, and what lies around it."""
    x, y, facing = grid.agent()
    rows, used = _drawn(grid, legend)
    rows[y] = rows[y][:x] + ARROWS[facing] + rows[y][x + 1 :]
    wide = len(str(grid.height - 1))
    ruler = "".join(str(column % 10) for column in range(grid.width))
    lines = [f"{'':{wide}} {ruler}", *(f"{number:{wide}} {row}" for number, row in enumerate(rows))]
    meaning = "; ".join(f"{symbol} {what}" for what, symbol in used.items())
    lines.append(f"{ARROWS[facing]} you; {meaning}")
    lines.append(f"You are at x={x}, y={y} (x counts to the right, y down, from 0), facing {facing}{_with_you(grid)}.")
    lines.append("Next to you: " + "; ".join(f"{way}: {_beside(grid, way)}" for way in MOVES) + ".")
    return "\n".join(lines)


def _drawn(grid: Grid, legend: Legend) -> tuple[list[str], dict[str, str]]:
    """The rows in characters, and the character of each description that occurs, in the order of reading."""
    used: dict[str, str] = {}
    symbols: dict[int, str] = {}
    drawn = []
    for obj in grid.cells():
        symbol = symbols.get(id(obj))
        if symbol is None:
            what = described(obj)
            symbol = symbols[id(obj)] = used[what] = legend.symbol(what)
        drawn.append(symbol)
    text = "".join(drawn)
    return [text[at : at + grid.width] for at in range(0, len(text), grid.width)], used


def _with_you(grid: Grid) -> str:
    x, y, _ = grid.agent()
    under = grid.at(x, y)
    carried = grid.env.carrying
    return ("" if under is None else f", standing on {a(described(under))}") + (
        ", carrying nothing" if carried is None else f", carrying {a(name_of(carried))}"
    )


def _beside(grid: Grid, way: str) -> str:
    x, y, _ = grid.agent()
    x, y = x + _STEPS[way][0], y + _STEPS[way][1]
    inside = 0 <= x < grid.width and 0 <= y < grid.height
    return described(grid.at(x, y)) if inside else "edge"


def a(name: str) -> str:
    if name in ("lava", "wall") or name[:1].isupper():
        return name if name != "wall" else "a wall"
    return f"{'an' if name[:1] in 'aeiou' else 'a'} {name}"


# -- what an action did --------------------------------------------------------------------------------------------


class Before(NamedTuple):
    """What counted just before an action: what lay in front, and what was carried."""

    front: Any
    front_was: str
    inside_grid: bool
    carried: Any


def moved(before: Before, way: str, went: bool) -> str:
    if went:
        onto = "" if before.front is None or before.front.type == "floor" else f" onto {a(before.front_was)}"
        return f"You moved {way}{onto}."
    if not before.inside_grid or type(before.front).__name__ == "Edge":
        return "The edge of the grid stopped you."
    if before.front is None:
        return f"You could not move {way}."
    return f"{'A wall' if before.front.type == 'wall' else f'The {before.front_was}'} stopped you."


def picked_up(before: Before, got: bool) -> str:
    if got:
        return f"You picked up the {name_of(before.front)}."
    if before.front is None or not before.front.can_pickup():
        return "There is nothing to pick up."
    return f"Your hands are full: you already carry the {name_of(before.carried)}."


def dropped(before: Before, did: bool) -> str:
    if before.carried is None:
        return "You carry nothing to drop."
    name = name_of(before.carried)
    return f"You dropped the {name}." if did else f"There is no room to drop the {name} here."


def toggled(before: Before, now: Any) -> str:
    front = before.front
    if front is not None and front.type == "door":
        if before.front_was == described(front):
            return f"The {name_of(front)} is locked."
        done = (
            "unlocked and opened" if before.front_was.startswith("locked") else "opened" if front.is_open else "closed"
        )
        return f"You {done} the {name_of(front)}."
    if front is not None and front.type == "box" and now is not front:
        inside = "it was empty" if now is None else f"{a(name_of(now))} was in it"
        return f"You opened the {name_of(front)}; {inside}."
    return "There is nothing to toggle."
