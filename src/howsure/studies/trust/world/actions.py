"""What an agent can say to do: absolute actions under one name each, and the many ways in which they are written."""

from __future__ import annotations

import re
from typing import NamedTuple

DIRECTIONS = ("right", "down", "left", "up")
"""In MiniGrid's order, so that a direction's place here is its number there."""

MOVES = ("up", "down", "left", "right")
PICK_UP, DROP, TOGGLE, DONE = "pick up", "drop", "toggle", "done"
LABELS = (*MOVES, PICK_UP, DROP, TOGGLE, DONE)
"""Every action's name; none is the beginning of another, so that a model's first tokens tell them apart."""


class ParsedAction(NamedTuple):
    """An action under its one name, and the direction that was said with it."""

    label: str
    direction: str | None


_WORDS = {"up": "up", "down": "down", "left": "left", "right": "right"}
_WORDS |= {"north": "up", "south": "down", "west": "left", "east": "right"}
_LETTERS = {"u": "up", "d": "down", "l": "left", "r": "right", "n": "up", "s": "down", "w": "left", "e": "right"}
_VERBS = {"pickup": PICK_UP, "grab": PICK_UP, "drop": DROP, "putdown": DROP, "toggle": TOGGLE, "open": TOGGLE}
_VERBS |= {"done": DONE}

# A single letter needs a blank before it: "drops" and "steps" name no direction.
_TO = r"(?: to)?(?: the)?"
_WHERE = rf"(?:(?:{_TO} | ?)(?P<word>{'|'.join(_WORDS)})|{_TO} (?P<letter>[{''.join(_LETTERS)}]))"
_GO = re.compile(rf"(?:move|go|walk|step){_WHERE}")
_ACT = re.compile(rf"(?P<verb>pick ?up|grab|put ?down|drop|toggle|open|done){_WHERE}?")


def parse_action(said: str) -> ParsedAction | None:
    """The action that these words name, whatever their case, blanks, underscores and hyphens; None for any others.

    >>> parse_action("MOVE_NORTH")
    ParsedAction(label='up', direction='up')
    >>> parse_action("drop to the east")
    ParsedAction(label='drop', direction='right')
    """
    text = " ".join(re.sub(r"[-_]", " ", said.lower()).split())
    bare = _WORDS.get(text) or _LETTERS.get(text)
    if bare:
        return ParsedAction(bare, bare)
    if match := _GO.fullmatch(text):
        direction = _direction(match)
        return ParsedAction(direction, direction) if direction else None
    if match := _ACT.fullmatch(text):
        return ParsedAction(_VERBS[match["verb"].replace(" ", "")], _direction(match))
    return None


def _direction(match: re.Match[str]) -> str | None:
    return _WORDS.get(match["word"] or "") or _LETTERS.get(match["letter"] or "")
