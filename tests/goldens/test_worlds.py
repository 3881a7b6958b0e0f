"""Goldens of `howsure trust`: a server walks through grid worlds, by probabilities of tokens or in words."""

from __future__ import annotations

import pytest

from goldens.pinned import Case
from goldens.speaking import Speaker, chance
from scripted import action_json, verbalized_json

pytest.importorskip("pyarrow", reason="the extra `stats` is not installed")
pytest.importorskip("minigrid", reason="the extra `grid` is not installed")

WORLD = "MiniGrid-Empty-Random-6x6-v0"
"""Its episodes begin in places of their own."""
WAYS = ("up", "down", "left", "right")
HOW = ("--clock", "world", "--no-frames", "--view", "text")


def acting(text: str, seed: int) -> str | None:
    """The text decides where to; now and then that is nowhere."""
    number = chance(text, seed)
    return "I cannot say." if number > 0.95 else action_json(WAYS[int(number * 16) % 4])


def surer(text: str) -> float:
    """The more is known, the surer."""
    return 0.2 + 0.2 * ("What is known" in text) + 0.3 * ("Instruction: none" not in text)


def telling(text: str, seed: int) -> str | None:
    """Probabilities in words, surer the more is known; some do not add up, and one is none."""
    number = chance(text, seed)
    if number > 0.95:
        return "north, I would think"
    likely = round(0.2 + surer(text) + 0.1 * number, 3)
    rest = round((1 - likely) / 3, 3)
    return verbalized_json([rest, likely, rest, rest], memory={"seen": "a wall"})


def test_trust_run(case: Case) -> None:
    """By log-probabilities of the action in a JSON answer."""
    case.put("known.txt", "Stairs are steep.")
    how = (
        *HOW,
        "--grounding",
        "known.txt",
        "--episodes",
        "5",
        "--max-steps",
        "2",
        "--act",
        "sample",
        "--vocab-size",
        "1000",
    )
    with Speaker(acting, surer) as server:
        model = ("--model", "openai:walker", "--base-url", server.base_url)
        case.howsure("plan", "trust", "run", WORLD, *model, *how, "--dry-run")
        case.howsure("plan-json", "trust", "run", WORLD, *model, *how, "--dry-run", "--json")
        case.howsure("shown", "trust", "run", WORLD, *model, *how, "--out", "first")
        case.run("first")
        case.howsure("json", "trust", WORLD, *model, *how, "--out", "first", "--json", "--quiet")
    case.howsure("analysed", "trust", "analyse", "first/steps.csv", "--json")
    case.howsure("exported", "export", "first", "--no-evidence", "--quiet")
    case.table("first/samples.parquet")
    case.check()


def test_trust_verbalized(case: Case) -> None:
    """By probabilities that are written down, step by step as it is shown."""
    case.put("known.txt", "Stairs are steep.", "The lamp is warm.")
    how = (*HOW, "--evidence", "verbalized", "--episodes", "2", "--max-steps", "2", "--grounding", "known.txt")
    with Speaker(telling) as server:
        model = ("--model", "openai:walker", "--base-url", server.base_url)
        more = ("--instruction", "go and see", "--verbose", "--own-grounding", "--carry")
        case.howsure("shown", "trust", "run", "walls", *model, *how, *more, "--out", "first")
        case.run("first")
        said = ":k\n:nonsense\n:i go back\n\nmind the carpet\n"
        talk = ("--interactive", "--out", "second", "--max-steps", "3")
        case.howsure("told", "trust", "run", "empty", *model, *HOW, "--evidence", "verbalized", *talk, stdin=said)
        stopped = ("--interactive", "--out", "third", "--quiet")
        case.howsure("stopped", "trust", "empty", *model, *HOW, "--evidence", "verbalized", *stopped, stdin="\n:q\n")
        case.file("third/run.json")
    case.howsure("exported", "export", "first", "--no-evidence", "--quiet")
    case.table("first/samples.parquet")
    case.check()


def test_trust_frames(case: Case) -> None:
    """What a run holds beside its tables."""
    with Speaker(acting, surer) as server:
        model = ("--model", "openai:walker", "--base-url", server.base_url)
        how = ("--clock", "world", "--max-steps", "2", "--view", "both", "--out", "first", "--quiet")
        case.howsure("shown", "trust", "run", "home", *model, *how)
    folder = case.folder / "first"
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    case.pin("files.txt", "".join(f"{name}\n" for name in names))
    case.file("first/steps.csv")
    case.check()


def test_trust_coherent(case: Case) -> None:
    case.put("l.txt", "go to the lamp", "go to the chair")
    case.put("s.txt", "Stairs are steep.", "", "-", "", "Roofs leak.")
    sets = ("--instructions", "l.txt", "--groundings", "s.txt", "--states", "2")
    how = ("--evidence", "verbalized", "--view", "text")
    with Speaker(telling) as server:
        model = ("--model", "openai:walker", "--base-url", server.base_url)
        case.howsure("plan", "trust", "coherent", "walls", *sets, *how, *model, "--dry-run")
        case.howsure("plan-json", "trust", "coherent", "walls", *sets, *how, *model, "--dry-run", "--json")
        case.howsure("shown", "trust", "coherent", "walls", *sets, *how, *model, "--out", "first")
        case.run("first")
        case.howsure("json", "trust", "coherent", "walls", *sets, *how, *model, "--out", "first", "--json", "-q")
    case.howsure("exported", "export", "first", "--quiet")
    case.table("first/samples.parquet")
    case.check()


def test_trust_maps(case: Case) -> None:
    case.howsure("list", "trust", "maps")
    case.howsure("list-json", "trust", "maps", "--json")
    case.howsure("one", "trust", "maps", "empty")
    case.howsure("plan", "trust", "maps", "--dry-run")
    case.howsure("none", "trust", "maps", "nowhere")
    case.check()


def test_trust_refused(case: Case) -> None:
    with Speaker(acting, surer) as server:
        model = ("--model", "openai:walker", "--base-url", server.base_url, "--out", "run")
        for name, more in {
            "world": ("nowhere.json",),
            "environment": ("MiniGrid-Emtpy-8x8-v0",),
            "evidence": ("empty", "--evidence", "tea leaves"),
            "grounding": ("empty", "--grounding", "gone.txt"),
            "clock": ("empty", "--clock", "sundial"),
            "act": ("empty", "--act", "worst"),
            "episodes": ("empty", "--episodes", "0"),
        }.items():
            case.howsure(name, "trust", "run", *more, *model)
    case.check()


def test_ask(case: Case) -> None:
    """`howsure ask`, by the same server."""
    with Speaker(lambda text, seed: "Go up 5 steps.") as server:
        model = ("--model", "openai:walker", "--base-url", server.base_url)
        case.howsure("shown", "ask", "Where to?", *model)
        case.howsure("json", "ask", "Where to?", *model, "--json")
        case.howsure("quiet", "ask", "-", *model, "--quiet", "--temperature", "0.5", stdin="Where to?\n")
        case.howsure("plan", "ask", "Where to?", *model, "--dry-run")
        case.howsure("plan-json", "ask", "Where to?", *model, "--dry-run", "--json")
    with Speaker(lambda text, seed: None) as server:
        case.howsure("failed", "ask", "Where to?", "--model", "openai:walker", "--base-url", server.base_url)
    case.check()
