"""The shortest way, against the environments themselves."""

from __future__ import annotations

import random

import pytest

from howsure.studies.trust.world import SHIPPED_MAPS, World, open_world
from studies.trust.world.brute_force import brute_force

FOLLOWED = (
    *SHIPPED_MAPS,
    "MiniGrid-Empty-Random-6x6-v0", "MiniGrid-LavaCrossingS9N2-v0", "MiniGrid-FourRooms-v0", "MiniGrid-LavaGapS7-v0",
    "MiniGrid-DoorKey-8x8-v0", "MiniGrid-MultiRoom-N4-S5-v0", "MiniGrid-LockedRoom-v0", "MiniGrid-MemoryS11-v0",
    "MiniGrid-Fetch-8x8-N3-v0", "MiniGrid-Unlock-v0", "MiniGrid-UnlockPickup-v0", "MiniGrid-BlockedUnlockPickup-v0",
    "MiniGrid-KeyCorridorS4R3-v0", "MiniGrid-ObstructedMaze-1Dlhb-v0", "MiniGrid-ObstructedMaze-2Dlh-v0",
    "MiniGrid-GoToDoor-8x8-v0", "MiniGrid-GoToObject-8x8-N2-v0", "MiniGrid-PutNear-8x8-N3-v0",
    "MiniGrid-RedBlueDoors-8x8-v0", "BabyAI-GoTo-v0", "BabyAI-GoToObjMazeS5-v0", "BabyAI-GoToImpUnlock-v0",
    "BabyAI-GoToSeqS5R2-v0", "BabyAI-GoToDoor-v0", "BabyAI-Open-v0", "BabyAI-OpenTwoDoors-v0",
    "BabyAI-OpenDoorsOrderN4-v0", "BabyAI-PickupDistDebug-v0", "BabyAI-PickupLoc-v0",
    "BabyAI-PutNextLocal-v0", "BabyAI-PutNextS6N3Carrying-v0", "BabyAI-KeyInBox-v0", "BabyAI-BlockedUnlockPickup-v0",
    "BabyAI-UnlockToUnlock-v0", "BabyAI-FindObjS5-v0", "BabyAI-MoveTwoAcrossS5N2-v0", "BabyAI-SynthS5R2-v0",
)  # fmt: skip
SMALL = (
    "empty", "MiniGrid-LavaGapS5-v0", "MiniGrid-DoorKey-5x5-v0", "MiniGrid-Fetch-5x5-N2-v0", "MiniGrid-GoToDoor-5x5-v0",
    "MiniGrid-MultiRoom-N2-S4-v0", "MiniGrid-MemoryS7-v0", "MiniGrid-PutNear-6x6-N2-v0", "BabyAI-GoToObjS4-v0",
    "BabyAI-GoToLocalS5N2-v0", "BabyAI-PutNextS4N1-v0", "BabyAI-OpenDoorsOrderN2Debug-v0", "BabyAI-OpenRedDoor-v0",
)  # fmt: skip


def wander(world: World, seed: int, steps: int) -> None:
    """Begin an episode and act at random, so that the search starts from states that nobody planned."""
    world.reset(seed)
    chance = random.Random(seed)
    for _ in range(steps):
        if world.act(chance.choice(world.actions)).over:
            world.reset(seed)


@pytest.mark.parametrize("source", FOLLOWED)
def test_following_it_ends_the_task_in_exactly_so_many_steps(source: str) -> None:
    world, chance = open_world(source), random.Random(0)
    for seed in range(2):
        wander(world, seed, 4 * seed)
        best = world.best_actions()
        assert best.actions, best.reason
        assert best.distance is not None
        for left in range(best.distance, 0, -1):
            now = world.best_actions()
            assert now.distance == left
            assert now.actions
            effect = world.act(chance.choice(sorted(now.actions)))
            assert effect.reached == (left == 1)
        assert effect.reward > 0
        assert world.best_actions() == (None, None, "episode_over")


@pytest.mark.parametrize("source", SMALL)
def test_it_finds_what_trying_everything_finds(source: str) -> None:
    world = open_world(source)
    compared = 0
    for seed in range(3):
        wander(world, seed, 3 * seed)
        expected = brute_force(world, most=120)
        if expected is None:
            continue
        compared += 1
        found = world.best_actions()
        if expected == (frozenset(), -1):
            assert found == (None, None, "unreachable")
        else:
            assert (found.actions, found.distance) == expected
    assert compared > 1


def test_a_box_that_was_opened_cannot_be_picked_up_any_more() -> None:
    world = open_world("BabyAI-PickupDist-v0")
    world.reset(8)
    assert world.mission == "pick up the purple box"
    while (best := world.best_actions()).distance != 1:
        assert best.actions
        world.act(min(best.actions))
    assert best.actions == {"pick up"}
    assert world.act("toggle").words == "You opened the purple box; it was empty."
    assert world.best_actions() == (None, None, "unreachable")


def test_a_phrase_may_mean_walls_too() -> None:
    world = open_world("BabyAI-PickupDist-v0")
    world.reset(7)
    assert world.mission == "pick up a grey object"
    meant = world._env.instrs.desc.obj_set
    assert {"wall"} < {one.type for one in meant}
    assert (world.best_actions().actions, world.best_actions().distance) == brute_force(world, most=2000)


def test_obstacles_are_taken_as_they_stand_and_nothing_is_walked_into() -> None:
    world = open_world("MiniGrid-Dynamic-Obstacles-8x8-v0")
    world.reset(0)
    best = world.best_actions()
    assert best == ({"right", "down"}, 10, None)
    assert world.act("left").over, "a wall ends this game"


def test_what_cannot_be_told_has_a_reason() -> None:
    playground = open_world("MiniGrid-Playground-v0")
    playground.reset(0)
    assert playground.best_actions() == (None, None, "no_known_task")


def test_a_search_gives_up_after_so_many_states() -> None:
    from howsure.studies.trust.world.search import Board, shortest
    from howsure.studies.trust.world.tasks import task_of

    world = open_world("fetch")
    world.reset(0)
    board = Board(world._env)
    task = task_of(world._env, board)
    assert task is not None
    assert shortest(board, board.start, task, world.actions, most_states=5) == (None, None, "search_too_large")


def test_an_environment_of_others_has_no_known_task() -> None:
    from minigrid.envs.empty import EmptyEnv

    class Odd(EmptyEnv):  # type: ignore[misc]
        def step(self, action: int) -> object:
            return super().step(action)

    world = World(Odd(size=5), "odd", ("up", "down", "left", "right"), {}, 0)
    world.reset(0)
    assert world.best_actions() == (None, None, "no_known_task")
