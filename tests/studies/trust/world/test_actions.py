"""Actions as models write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from howsure.studies.trust.world.words import LABELS, ParsedAction, parse_action

WAYS = {
    "up": ("up", "Up", " UP ", "north", "n", "N", "u", "move up", "move_up", "go-north", "MoveUp", "walk n", "step up"),
    "down": ("down", "south", "s", "d", "go down", "walk_south"),
    "left": ("left", "west", "w", "l", "move left", "go to the left"),
    "right": ("right", "east", "e", "r", "step east", "move to the right"),
}
ACTS = {
    "pick up": ("pick up", "pickup", "PICK_UP", "pick-up", "grab"),
    "drop": ("drop", "put down", "putdown", "Put_Down"),
    "toggle": ("toggle", "open"),
    "done": ("done", " Done "),
}


@pytest.mark.parametrize(("label", "said"), [(label, said) for label, ways in WAYS.items() for said in ways])
def test_moves(label: str, said: str) -> None:
    assert parse_action(said) == ParsedAction(label, label)


@pytest.mark.parametrize(("label", "said"), [(label, said) for label, ways in ACTS.items() for said in ways])
def test_acts_alone_and_with_a_direction(label: str, said: str) -> None:
    assert parse_action(said) == ParsedAction(label, None)
    for direction, ways in (("left", ("left", "west", "to the west", "w", "to_the_left")), ("up", ("north", "to n"))):
        for way in ways:
            assert parse_action(f"{said} {way}") == ParsedAction(label, direction)


@pytest.mark.parametrize(
    "said",
    ["", " ", "jump", "drops", "steps", "opens", "walks", "up down", "move", "go to the", "pick", "pick up the key",
     "forward", "upp", "leftright", "turn left", "pick up left right", "to the east", "ｕｐ", "u p", "do ne"],
)  # fmt: skip
def test_anything_else_is_no_action(said: str) -> None:
    assert parse_action(said) is None


def test_every_label_means_itself_and_none_begins_another() -> None:
    for label in LABELS:
        parsed = parse_action(label)
        assert parsed is not None
        assert parsed.label == label
        assert not [other for other in LABELS if other != label and other.startswith(label)]


@given(
    st.text() | st.lists(st.sampled_from(["go", "pick", "up", "_", "-", " ", "n", "drop", "to", "the"])).map("".join)
)
def test_no_text_breaks_it(said: str) -> None:
    parsed = parse_action(said)
    assert parsed is None or parsed.label in LABELS
