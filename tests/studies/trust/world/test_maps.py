"""Maps as people draw them, and as they get them wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howsure.errors import HowsureError, InputError
from howsure.studies.trust.world.maps import MOST_BYTES, MapPlan, cells, colour, parse_map, read_map

PLAIN = {"⬛": {"type": "wall"}, "⬜": {"type": "empty"}}
BOX = ["⬛⬛⬛⬛", "⬛🤖⬜⬛", "⬛⬜🎯⬛", "⬛⬛⬛⬛"]


def as_map(rows: Any = BOX, objects: Any = PLAIN, **more: Any) -> str:
    return json.dumps({"map": {"emoji_render": rows, "emoji_objects": objects, **more}}, ensure_ascii=False)


def types(plan: MapPlan) -> list[str]:
    return ["".join(kind.type[0] for kind in row) for row in plan.rows]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("⬜️⬜🤖", ["⬜️", "⬜", "🤖"]),
        ("👩‍👩‍👧⬛", ["👩‍👩‍👧", "⬛"]),
        ("👍🏽👍", ["👍🏽", "👍"]),
        ("1️⃣2️⃣", ["1️⃣", "2️⃣"]),
        ("🇩🇪🇫🇷🇯", ["🇩🇪", "🇫🇷", "🇯"]),
        ("🏴󠁧󠁢󠁥󠁮󠁧󠁿🏴", ["🏴󠁧󠁢󠁥󠁮󠁧󠁿", "🏴"]),
        ("e\u0301x", ["e\u0301", "x"]),
        ("", []),
    ],
)
def test_what_belongs_together_is_one_cell(row: str, expected: list[str]) -> None:
    assert cells(row) == expected


@given(st.text())
def test_cells_lose_nothing(row: str) -> None:
    assert "".join(cells(row)) == row


@pytest.mark.parametrize(
    "rows",
    [
        BOX,
        "\n".join(BOX),
        "\n" + "\r\n".join(BOX) + "\n\n",
        [cells(row) for row in BOX],
        [" ".join(cells(row)) for row in BOX],
        [row.replace("⬜", "⬜️") for row in BOX],
        [BOX[0], BOX[1].replace("⬜", "⬜\ufe0f"), BOX[2].replace("⬛", "⬛\ufe0e", 1), BOX[3].replace("⬛", "⬛️")],
    ],
)
def test_rows_in_every_form_are_the_same_map(rows: Any) -> None:
    plan = parse_map(as_map(rows), "box")
    assert types(plan) == ["wwww", "weew", "weew", "wwww"]
    assert (plan.start, plan.goal, plan.width, plan.height) == ((1, 1), (2, 2), 4, 4)


def test_a_blank_is_a_cell_where_the_map_defines_it() -> None:
    objects = {"#": {"type": "wall"}, " ": {"type": "empty"}, "r": {"type": "floor"}}
    plan = parse_map(as_map(["###", "#r ", "###"], objects, start_pos=[1, 1]), "box")
    assert types(plan) == ["www", "wfe", "www"]


def test_marks_go_before_positions_and_unknown_keys_are_ignored() -> None:
    text = json.dumps({"Pallete": [1], "map": {"emoji_render": BOX, "emoji_objects": PLAIN, "start_pos": [2, 1],
                       "goal_pos": [1, 2], "robot_config": {"x": []}, "more": 1}})  # fmt: skip
    plan = parse_map(text, "box")
    assert (plan.start, plan.goal) == ((1, 1), (2, 2))
    bare = parse_map(as_map(["⬜⬜", "⬜⬜"], start_pos=[1, 0], goal_pos=[0, 1]), "box")
    assert (bare.start, bare.goal, bare.instruction) == ((1, 0), (0, 1), None)
    assert parse_map(as_map(["🤖⬜"]), "box").goal is None


def test_what_lies_under_a_mark() -> None:
    objects = {**PLAIN, "🤖": {"type": "floor", "color": "red"}, "🎯": {"type": "emoji", "can_overlap": False}}
    plan = parse_map(as_map(BOX, objects), "box")
    assert plan.rows[1][1].type == "floor"
    assert plan.rows[2][2].type == "empty"


def test_definitions_are_filled_in() -> None:
    objects = {
        **PLAIN,
        "🛋️": {"type": "Emoji", "color": "Light Blue", "can_pickup": True, "use_emoji_color": False},
        "🚪": {"type": "door", "color": "#A0b1C2", "is_locked": True},
        "🔑": {"type": "key", "color": None, "emoji_name": "  little\n key "},
    }
    plan = parse_map(as_map(["🤖🛋🚪🔑"], objects), "box")
    _, sofa, door, key = plan.rows[0]
    assert (sofa.name, sofa.rgb, sofa.can_pickup, sofa.can_overlap, sofa.use_emoji_color) == (
        "couch and lamp", (173, 216, 230), True, False, False)  # fmt: skip
    assert (door.rgb, door.door_state, door.can_pickup) == ((160, 177, 194), "locked", False)
    assert (key.name, key.colour, key.can_pickup) == ("little key", "grey", True)


def test_an_exact_definition_goes_before_one_that_only_looks_the_same() -> None:
    plan = parse_map(as_map(["🤖⬜⬜️"], {"⬜": {"type": "empty"}, "⬜️": {"type": "floor"}}), "box")
    assert types(plan) == ["eef"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (as_map(["⬛⬛⬛", "⬛🤖❓", "⬛⬛⬛"]), ["row 2, column 3 (counted from 1)", "'❓' (U+2753)", "not defined"]),
        (as_map([["⬛", "🤖", ""]]), ["row 1, column 3", "an empty text"]),
        (as_map(["⬛⬛", "⬛🤖⬛"]), ["row 2 has 3 cells where row 1 has 2"]),
        (as_map([]), ["draws no cell"]),
        (as_map(""), ["draws no cell"]),
        (as_map([[]]), ["draws no cell"]),
        (as_map(["⬜🤖🤖"]), ["🤖 is drawn twice", "column 2", "column 3"]),
        (as_map(["🎯🤖", "🎯⬜"]), ["🎯 is drawn twice", "row 1, column 1", "row 2, column 1"]),
        (as_map(["⬜⬜"]), ["where the agent starts", "start_pos"]),
        (as_map(["⬜⬜"], start_pos=[2, 0]), ["start_pos [2, 0] lies outside the map of 2 × 1 cells"]),
        (as_map(["⬜⬜"], start_pos=[-1, 0]), ["start_pos [-1, 0] lies outside"]),
        (as_map(["🤖⬜"], goal_pos=[0, 5]), ["goal_pos [0, 5] lies outside"]),
        (as_map(["⬛⬜"], start_pos=[0, 0]), ["start at row 1, column 1", "'⬛' (U+2B1B)", "move start_pos"]),
        (as_map(["⬛🤖"], goal_pos=[0, 0]), ["goal at row 1, column 1", "move goal_pos"]),
        (as_map(["🪨⬜"], {**PLAIN, "🪨": {"type": "emoji"}}, start_pos=[0, 0]), ["start at row 1", "(rock)"]),
        (as_map(["🤖⬜"], goal_pos=[0, 0]), ["same cell"]),
        (as_map(BOX, {**PLAIN, "🤖": {"type": "wall"}}), ["defined as wall", "row 2, column 2"]),
        (as_map(BOX, {"⬛": {"type": "brick"}}), ["'⬛'", "'brick'", "wall, empty, floor, emoji"]),
        (as_map(BOX, {"⬛": {"type": "wall", "color": "purpel"}}), ["color of '⬛'", "'purpel'", "mean purple"]),
        (as_map(BOX, {"⬛": {"color": "red"}}), ["missing required field type", "'⬛' (U+2B1B) in emoji_objects"]),
        (as_map(BOX, {"⬛": {"type": "wall", "can_pickup": "no"}}), ["Expected bool", "can_pickup"]),
        (as_map(BOX, {"⬛": 3}), ["Expected object"]),
        (as_map(BOX, {"⬛": {"type": "wall"}, "🦊": {"color": "red"}}), ["'🦊' (U+1F98A)", "required field type"]),
        ('{"map": {"emoji_objects": {"🦊": 3}, "more": ' + "[" * 100_000, ["Expected object"]),
        (as_map(["⬛⬛\n⬛⬛", "⬛⬛⬛⬛"]), ["row 1", "line break"]),
        (as_map([["⬛", "⬛"], ["⬛", 3]]), ["row 2, column 2", "Expected str"]),
        (as_map([["⬛", "⬛"], 3]), ["row 2", "Expected str | array"]),
        (as_map(7), ["emoji_render"]),
        (as_map([["⬛", 3]]), ["emoji_render"]),
        (as_map(BOX, start_pos=[1]), ["start_pos"]),
        (as_map(BOX, goal_pos=[1.5, 2]), ["goal_pos"]),
        (as_map(BOX, instruction=3), ["instruction"]),
        (as_map(BOX, task={"fetch": "hat"}), ["fetch 'hat'", "nothing there can be picked up"]),
        (as_map(["🤖🔑"], {**PLAIN, "🔑": {"type": "key"}}, task={"fetch": "key"}), ["no goal to bring it to"]),
        (as_map(["⬜" * 101]), ["101 × 1", "100 × 100"]),
        (as_map(["⬜"] * 101, start_pos=[0, 0]), ["1 × 101", "100 × 100"]),
        (as_map(["⬜" * 100_000]), ["absurdly large"]),
        ('{"map": 3}', ["Expected object", "map"]),
        ("[]", ["Expected object"]),
        ('{"world": {}}', ["missing required field map"]),
        ('{"map":\n {"emoji_render": oops}}', ["line 2, column 19", "malformed"]),
        ("", ["line 1"]),
        ('{"map": ', ["line 1", "truncated"]),
        ('{"other": ' + "[" * 100_000, ["deeply"]),
        ('{"map": {"emoji_render": "\ud800"}}', ["UTF-8"]),
    ],
)  # fmt: skip
def test_a_wrong_map_gets_one_sentence_with_the_place(tmp_path: Path, text: str, words: list[str]) -> None:
    path = tmp_path / "some map.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(InputError) as caught:
        read_map(path)
    said = str(caught.value)
    assert "some map.json" in said
    assert "\n" not in said
    assert len(said) < 500
    for word in words:
        assert word in said, said


def test_files_that_are_no_maps(tmp_path: Path) -> None:
    (tmp_path / "latin.json").write_bytes(b'{"map": "caf\xe9"}')
    (tmp_path / "huge.json").write_bytes(b" " * (MOST_BYTES + 1))
    for name, word in (
        ("none.json", "No such file"),
        (".", "directory"),
        ("latin.json", "byte 13"),
        ("huge.json", "4 MiB"),
    ):
        with pytest.raises(InputError, match=word):
            read_map(tmp_path / name)


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "box.json").write_bytes(b"\xef\xbb\xbf" + as_map().encode())
    assert read_map(tmp_path / "box.json").name == "box"


@settings(max_examples=60)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(
            st.sampled_from(["map", "emoji_render", "emoji_objects", "start_pos", "type", "⬜", "task"]), inner),
    )
)  # fmt: skip
def test_any_json_ends_in_a_map_or_in_a_sentence(content: Any) -> None:
    for text in (json.dumps(content), as_map(content), as_map(BOX, content), as_map(BOX, start_pos=content)):
        try:
            parse_map(text, "any")
        except HowsureError as error:
            assert "any" in str(error)


def test_colours() -> None:
    assert colour(None) == colour("GRAY") == ("grey", (100, 100, 100))
    assert colour("green")[1] == (0, 255, 0)
    assert colour("Light_Blue") == colour("lightblue")
    assert colour("#00FF7f")[1] == (0, 255, 127)
    with pytest.raises(InputError, match="#rrggbb"):
        colour("#12345")
