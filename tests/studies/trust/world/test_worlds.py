"""Worlds to act in: maps and environments alike."""

from __future__ import annotations

import io
import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from howsure.errors import InputError, MissingExtra
from howsure.studies.trust.world import SHIPPED_MAPS, State, World, open_world
from howsure.studies.trust.world.words import LABELS

ENVIRONMENTS = (
    "MiniGrid-Empty-8x8-v0", "MiniGrid-LavaGapS6-v0", "MiniGrid-DoorKey-6x6-v0", "MiniGrid-Dynamic-Obstacles-6x6-v0",
    "MiniGrid-Fetch-8x8-N3-v0", "MiniGrid-GoToDoor-6x6-v0", "MiniGrid-GoToObject-6x6-N2-v0", "MiniGrid-MemoryS7-v0",
    "MiniGrid-MultiRoom-N2-S4-v0", "MiniGrid-RedBlueDoors-6x6-v0", "MiniGrid-ObstructedMaze-1Dlhb-v0",
    "MiniGrid-Playground-v0", "BabyAI-GoToRedBall-v0", "BabyAI-PutNextS5N2Carrying-v0", "BabyAI-SynthS5R2-v0",
)  # fmt: skip
OBJECTS = {
    "⬛": {"type": "wall"},
    "⬜": {"type": "empty"},
    "🟫": {"type": "floor", "color": "brown"},
    "🔑": {"type": "key", "color": "red"},
    "🚪": {"type": "door", "color": "red", "is_locked": True},
    "📦": {"type": "box", "color": "blue"},
    "🔥": {"type": "lava"},
    "🌷": {"type": "emoji", "emoji_name": "tulip", "can_overlap": True, "can_pickup": True},
    "🪨": {"type": "emoji", "emoji_name": "rock"},
}


def drawn(folder: Path, *rows: str, **more: Any) -> World:
    path = folder / "drawn.json"
    path.write_text(json.dumps({"map": {"emoji_render": rows, "emoji_objects": OBJECTS, **more}}), encoding="utf-8")
    world = open_world(path)
    world.reset(0)
    return world


def pixels(world: World) -> Any:
    picture = world.picture()
    image = Image.open(io.BytesIO(picture.content or b""))
    assert image.size == (picture.width, picture.height)
    return image.convert("RGB")


# -- acting on a map -------------------------------------------------------------------------------------------------


def test_what_each_action_does_and_says(tmp_path: Path) -> None:
    world = drawn(tmp_path, "🤖⬜🔑⬛", "🪨⬜🚪⬜", "🌷🟫📦🎯")
    assert world.actions == ("up", "down", "left", "right", "pick up", "drop", "toggle")
    said = [
        ("down", "The rock stopped you.", False),
        ("up", "The edge of the grid stopped you.", False),
        ("pick up", "There is nothing to pick up.", False),
        ("drop", "You carry nothing to drop.", False),
        ("toggle", "There is nothing to toggle.", False),
        ("east", "You moved right.", True),
        ("right", "The red key stopped you.", False),
        ("pick up", "You picked up the red key.", True),
        ("d", "You moved down.", True),
        ("pick up right", "There is nothing to pick up.", False),
        ("right", "The locked red door stopped you.", False),
        ("open", "You unlocked and opened the red door.", True),
        ("toggle", "You closed the red door.", True),
        ("toggle", "You opened the red door.", True),
        ("down", "You moved down.", True),
        ("drop left", "There is no room to drop the red key here.", False),
        ("drop up", "You dropped the red key.", True),
        ("toggle right", "You opened the blue box; it was empty.", True),
        ("left", "You moved left onto a tulip.", True),
        ("right", "You moved right.", True),
        ("pick up west", "You picked up the tulip.", True),
        ("pick up north", "Your hands are full: you already carry the tulip.", False),
        ("drop left", "You dropped the tulip.", True),
        ("right", "You moved right.", True),
    ]
    for steps, (action, words, changed) in enumerate(said, 1):
        effect = world.act(action)
        assert (effect.words, effect.changed, effect.reward, effect.over) == (words, changed, 0, False)
        assert world.state().steps == steps
    last = world.act("right")
    assert last == ("right", "You moved right onto a green square.", True, 1 - 0.9 * 25 / 200, True, True)
    with pytest.raises(InputError, match="is over"):
        world.act("up")


def test_a_move_against_something_turns_the_agent(tmp_path: Path) -> None:
    world = drawn(tmp_path, "🤖⬜🎯")
    assert world.state() == State(0, 0, "right", None, 0)
    world.act("up")
    assert world.state() == State(0, 0, "up", None, 1)


def test_the_edge_stops_everywhere_and_positions_are_those_of_the_map(tmp_path: Path) -> None:
    world = drawn(tmp_path, "⬜⬜⬜", "⬜⬜🤖")
    chance, states = random.Random(0), set()
    for _ in range(400):
        if world.act(chance.choice(world.actions)).over:
            break
        state = world.state()
        assert 0 <= state.x < 3
        assert 0 <= state.y < 2
        states.add((state.x, state.y))
    assert len(states) == 6
    assert pixels(world).size == (510, 340)
    single = drawn(tmp_path, "🤖")
    assert not single.act("left").changed
    assert single.best_actions() == (None, None, "no_known_task")


def test_lava_ends_an_episode_without_reward(tmp_path: Path) -> None:
    effect = drawn(tmp_path, "🤖🔥🎯").act("right")
    assert effect[1:] == ("You moved right onto lava.", True, 0, False, True)


def test_a_thing_is_fetched_when_the_agent_stands_on_the_goal_with_it(tmp_path: Path) -> None:
    world = drawn(tmp_path, "🎯🤖🔑", "⬜⬜🌷", task={"fetch": "tulip"}, instruction="Bring the tulip.")
    assert world.mission == "Bring the tulip."
    assert world.act("pick up").changed
    assert not world.act("left").over, "the key is not what was asked for"
    assert world.act("drop down").changed
    assert [world.act(action).over for action in ("right", "down", "pick up right", "up")] == [False] * 4
    assert world.act("left").reached


def test_a_goal_may_lie_under_a_thing_that_can_be_entered_or_taken(tmp_path: Path) -> None:
    world = drawn(tmp_path, "🤖🌷", goal_pos=[1, 0])
    assert world.best_actions() == ({"right"}, 1, None)
    assert world.act("right").reached
    world = drawn(tmp_path, "🤖🔑", goal_pos=[1, 0])
    assert world.best_actions() == ({"pick up"}, 2, None)
    world.act("pick up")
    assert world.act("right").reached
    assert drawn(tmp_path, "🤖🪨", goal_pos=[1, 0]).best_actions() == (None, None, "unreachable")


def test_what_is_no_action_here_is_refused(tmp_path: Path) -> None:
    world = drawn(tmp_path, "🤖⬜🎯")
    assert world.actions == ("up", "down", "left", "right")
    for said in ("pick up", "done", "jump", ""):
        with pytest.raises(InputError, match="no action in drawn; there are up, down, left, right"):
            world.act(said)
    assert world.state().steps == 0


# -- what is shown ---------------------------------------------------------------------------------------------------


def test_the_text_view(tmp_path: Path) -> None:
    world = drawn(tmp_path, "🤖⬜🔑⬛", "🪨⬜🚪🎯", instruction="Unlock it.")
    world.act("down")
    assert world.text().splitlines() == [
        "  0123",
        "0 v.K#",
        "1 R.DS",
        "v you; . free; K red key; # wall; R rock; D locked red door; S green square",
        "You are at x=0, y=0 (x counts to the right, y down, from 0), facing down, carrying nothing.",
        "Next to you: up: edge; down: rock; left: edge; right: free.",
    ]
    world.act("right")
    world.act("right")
    world.act("pick up")
    assert "facing right, carrying a red key." in world.text()
    assert "red key;" not in world.text()


@pytest.mark.parametrize("source", [*SHIPPED_MAPS, *ENVIRONMENTS])
def test_the_text_view_tells_nothing_of_the_task(source: str) -> None:
    world = open_world(source)
    for seed in range(3):
        world.reset(seed)
        text = world.text().lower()
        assert world.mission is None or world.mission.lower() not in text
        for word in ("goal", "task", "mission", "instruction", "reach", "fetch", "pick", "bring", "target", "reward"):
            assert word not in text


def test_the_picture_shows_the_world_and_what_changes(tmp_path: Path) -> None:
    world = drawn(tmp_path, "🤖⬜🔑", "⬛🪨🎯")
    before = pixels(world)
    tile = before.width // 3
    middle = [[before.getpixel((x * tile + tile // 2, y * tile + tile // 2)) for x in range(3)] for y in range(2)]
    assert middle[0][0] == (255, 0, 0), "the agent"
    assert middle[0][1] == (0, 0, 0)
    assert middle[1][0] == (100, 100, 100)
    assert middle[1][2] == (0, 255, 0)
    world.act("right")
    world.act("pick up")
    after = pixels(world)
    assert after.getpixel((tile // 2, tile // 2)) == (0, 0, 0)
    assert after.getpixel((tile + tile // 2, tile // 2)) == (255, 0, 0)
    assert after.crop((0, tile, 3 * tile, 2 * tile)).tobytes() == before.crop((0, tile, 3 * tile, 2 * tile)).tobytes()
    corner = (tile + tile - 20, tile - 20, 2 * tile, tile)
    assert after.crop(corner).tobytes() != before.crop(corner).tobytes(), "the key in the agent's hand"


def test_painting_what_changed_gives_the_same_as_painting_all() -> None:
    world, chance = open_world("fetch"), random.Random(1)
    world.reset(0)
    for _ in range(40):
        world.act(chance.choice(world.actions))
        painted = world.picture()
        world._painter = None
        assert world.picture() == painted


def test_minigrid_tiles_look_as_minigrid_draws_them() -> None:
    import numpy as np

    world = open_world("MiniGrid-DoorKey-16x16-v0")
    world.reset(3)
    ours = np.asarray(pixels(world)).astype(int)
    theirs = world._env.get_frame(highlight=False, tile_size=32).astype(int)
    assert ours.shape == theirs.shape
    assert (abs(ours - theirs) > 100).mean() < 0.005


# -- opening ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [*SHIPPED_MAPS, *ENVIRONMENTS])
def test_equal_seeds_and_actions_give_equal_worlds(source: str) -> None:
    def played(world: World) -> list[Any]:
        world.reset(7)
        chance = random.Random(7)
        seen: list[Any] = [world.mission, world.text(), world.picture().sha256, world.best_actions()]
        for _ in range(20):
            effect = world.act(chance.choice(world.actions))
            seen += [effect, world.state(), world.text(), world.picture().sha256]
            if effect.over:
                break
        return seen

    world = open_world(source)
    first = played(world)
    assert played(world) == first
    other = open_world(source)
    assert played(other) == first
    assert other.fingerprint() == world.fingerprint()
    assert set(world.actions) <= set(LABELS)
    assert not [(a, b) for a in world.actions for b in world.actions if a != b and b.startswith(a)]
    assert max(world.picture().width, world.picture().height) in range(448, 513)
    world.close()


def test_actions_are_those_that_can_do_something(capsys: pytest.CaptureFixture[str]) -> None:
    more = {
        "MiniGrid-Empty-5x5-v0": (),
        "MiniGrid-MultiRoom-N2-S4-v0": ("toggle",),
        "MiniGrid-GoToDoor-5x5-v0": ("toggle", "done"),
        "MiniGrid-GoToObject-6x6-N2-v0": ("pick up", "drop", "toggle", "done"),
        "BabyAI-GoToLocal-v0": ("pick up", "drop", "toggle"),
    }
    for name, actions in more.items():
        world = open_world(name)
        assert world.actions == ("up", "down", "left", "right", *actions)
        for seed in range(10):
            world.reset(seed)
            found = [one for one in world._env.grid.grid if one is not None]
            assert not actions or any(one.can_pickup() or one.type == "door" for one in found)
            assert actions or not any(one.can_pickup() or one.type in ("door", "box") for one in found)
    assert capsys.readouterr().out == "", "BabyAI prints when it draws a mission anew"


def test_shipped_maps_have_an_instruction_and_a_way() -> None:
    for name in SHIPPED_MAPS:
        world = open_world(name)
        world.reset(0)
        assert world.name == name
        assert world.mission
        assert world.best_actions().reason is None
        assert world.fingerprint().keys() == {"kind", "name", "sha256", "minigrid"}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("emtpy", "did you mean empty"),
        ("MiniGrid-Empty-9x9-v0", "did you mean MiniGrid-Empty-8x8-v0"),
        ("CartPole-v1", "another kind"),
        ("MiniGrid-WFC-MazeSimple-v0", "cannot be set up with seed 0: imageio is missing|No such file"),
        ("no/such/map.json", "cannot be read"),
        ("nowhere.json", "cannot be read"),
        ("\0", "no world|cannot be read"),
    ],
)
def test_an_unknown_world_gets_one_sentence(name: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        open_world(name)
    assert "\n" not in str(caught.value)


def test_worlds_must_begin_and_seeds_must_be_possible() -> None:
    world = open_world("empty")
    for call in (
        world.state,
        world.text,
        world.picture,
        world.best_actions,
        lambda: world.act("up"),
        lambda: world.mission,
    ):
        with pytest.raises(InputError, match="reset"):
            call()
    with pytest.raises(InputError, match="seed -1"):
        world.reset(-1)


def test_without_minigrid_the_install_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [one for one in sys.modules if one.split(".")[0] in ("minigrid", "gymnasium")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "howsure.studies.trust.world.map_env", None)
    for source in ("empty", "MiniGrid-Empty-8x8-v0"):
        with pytest.raises(MissingExtra, match=r'pip install "howsure\[grid\]"'):
            open_world(source)
