"""A small run of every study, made by the studies themselves from models that stand on paper, and hostile copies."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

import howsure
from howsure.models.contract import Message
from howsure.models.images import inspect_picture
from howsure.runs import Identity, RunWriter
from howsure.runs.pictures import PictureKeeper
from howsure.studies.grounding.judge import judge as judge_clicks
from scripted import Writer, action_json, condition_of
from studies.grounding import clicks_on_paper
from studies.on_paper import OnPaper, write
from tiny import build_ngram
from trajectory_logs import results, scored

STUDIES = ("mcq", "perplexity", "trajectories", "trust", "grounding")
QUESTIONS = 60


def make_runs(folder: Path, data: Path) -> Path:
    """`mcq/before`, `mcq/after`, and one run of each other study, below `folder`; what they read lies in `data`."""
    data.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(("before", "after")):
        make_mcq(folder / "mcq" / name, data, number)
    make_perplexity(folder / "perplexity", data)
    make_trajectories(folder / "trajectories", data)
    make_trust(folder / "trust")
    make_grounding(folder / "grounding", data)
    return folder


def make_mcq(out: Path, data: Path, seed: int) -> None:
    """Questions with four choices; the likelihoods are drawn, so that some are surely wrong."""
    words = ("north", "south", "east", "west")
    lines = [
        {"id": f"q-{i:02}", "question": f"Which way leads from room {i} to the door?", "group": f"floor {i % 3}",
         "choices": [f"{word} {i}" for word in words], "answer_index": i % 4}
        for i in range(QUESTIONS)
    ]  # fmt: skip
    draw = random.Random(seed)
    table = {
        f" {choice}": [-draw.uniform(0.1, 4.0) - (0.8 if place != line["answer_index"] else 0.0), -draw.uniform(0, 1)]
        for line in lines
        for place, choice in enumerate(line["choices"])
    }
    howsure.mcq(write(data / "questions.jsonl", *lines), OnPaper(table, name=f"checkpoint-{seed}"), out=out)


def make_perplexity(out: Path, data: Path) -> None:
    model = build_ngram(data)
    for number in range(6):
        text = "the quick brown fox jumps over the lazy dog . the sky is blue " * (10 * (number + 1))
        (data / f"text-{number}.txt").write_text(text + "\n" + "the fox is lazy\n" * (4 * (number % 3)))
    howsure.perplexity([data / f"text-{number}.txt" for number in range(6)], f"ngram:{model}", out=out)


def make_trajectories(out: Path, data: Path) -> None:
    """Forty runs; those that fail grow unsure towards their end."""
    draw = random.Random(7)
    runs = []
    for number in range(40):
        failed = number % 3 == 0
        agent = [draw.uniform(0.2, 0.8) + (0.5 * turn if failed and turn > 3 else 0.0) for turn in range(8)]
        user = [draw.uniform(0.3, 1.2) for _ in range(8)]
        reward = {"reward": 0.0 if failed else 1.0}
        runs.append(scored(agent, user, id=f"sim_{number}", task_id=f"task_{number}", reward_info=reward))
    path = data / "results.json"
    path.write_text(json.dumps(results(*runs)))
    howsure.trajectories([path], out=out)


def make_trust(out: Path) -> None:
    """An agent that writes what it does, with log-probabilities and alternatives; some of it leads to the goal."""
    told = ("right", "up", "down", "right", "left", "down")

    def answer(messages: list[Message], number: int) -> str:
        ways = {"X": "up", "X|S": "down", "X|L,S": told[number // 3 % len(told)]}
        return action_json(ways[condition_of(messages)])

    howsure.trust("home", Writer(answer), evidence="logprobs", out=out, max_steps=6)


def make_grounding(out: Path, data: Path) -> None:
    screen = data / "screen.png"
    drawn = Image.new("RGB", (800, 500), (240, 240, 245))
    ImageDraw.Draw(drawn).rectangle((300, 200, 500, 260), fill=(60, 90, 160))
    drawn.save(screen)
    picture = inspect_picture(screen)
    draw = random.Random(3)
    samples = []
    for number in range(30):
        item = clicks_on_paper.about(
            picture, (375.0, 400.0, 625.0, 520.0), instruction=f"press the blue button {number}"
        )
        sure = draw.uniform(0.3, 1.0)
        click = None if number == 9 else (500 + draw.gauss(0, 130), 460 + draw.gauss(0, 130))
        confidence = {"coordinate_mean": sure if click else None}
        samples.append(clicks_on_paper.answered(f"click-{number:02}", number, item, click, confidence=confidence))
    identity = Identity(
        "grounding", {"delta": 140.0, "frame": "relative-1000"}, {"name": "on paper"}, {"fingerprint": "0"}, 0
    )
    with RunWriter(out, identity, len(samples), source="screens") as writer:
        writer.append(samples)
        with PictureKeeper(out) as keeper:
            keeper.keep([picture])
        writer.finish(judge_clicks(samples, delta=140.0, skipped=0, seed=0))


# -- hostile ----------------------------------------------------------------------------------------------------------

LONG = "A" * 1_000_000
ATTACKS = (
    "<script>window.pwned=1</script>",
    "\"><img src=x onerror=\"window.pwned=1\">",
    "' onmouseover='window.pwned=1' onfocus='window.pwned=1' autofocus='",
    "javascript:window.pwned=1",
    "</title></style></textarea></script><svg onload=window.pwned=1>",
    "{{7*7}} ${7*7} <%= 7*7 %> {% include 'x' %} #{7*7}",
    "\u202e\u2066gnp.txt\u200f\u202d\u061c and \u0000\u001b[31m\u0085",
    "<a href=\"javascript:window.pwned=1\">click me</a><iframe srcdoc=\"<script>parent.pwned=1</script>\">",
    LONG,
)  # fmt: skip
STRUCTURAL = frozenset({
    "actor", "role", "kind", "says", "study", "status", "unit", "reason", "action", "best_actions", "agent_dir",
    "format", "evidence", "bytes", "taken", "told", "shape",
})  # fmt: skip
"""Fields whose words steer the code; a first copy leaves them, so that every page is made to the end."""


def make_hostile(good: Path, out: Path, *, everything: bool = False) -> Path:
    """A copy of a run in which every text is an attack, one after the other; with `everything` also the words that
    steer the code, so that hardly a part of a page can be made."""
    shutil.copytree(good, out)
    attack = _attacks(everything)
    manifest = json.loads((out / "run.json").read_text())
    study = manifest["identity"]["study"]
    told = attack(manifest, "")
    told["identity"]["study"] = study if not everything else ATTACKS[0]
    told |= {name: manifest[name] for name in ("status", "items", "started", "ended", "sessions", "format")}
    told["identity"]["study"] = study
    (out / "run.json").write_text(json.dumps(told))
    lines = (out / "samples.jsonl").read_text(encoding="utf-8").splitlines()
    samples = [json.loads(line) for line in lines]
    (out / "samples.jsonl").write_text(
        "".join(
            json.dumps(attack(sample, "") | {"id": _name(place), "index": place}) + "\n"
            for place, sample in enumerate(samples)
        )
    )
    (out / "summary.json").write_text(json.dumps(attack(json.loads((out / "summary.json").read_text()), "")))
    return out


def _name(place: int) -> str:
    return f"{place} {ATTACKS[place % len(ATTACKS)]}"


def _attacks(everything: bool) -> Callable[[Any, str], Any]:
    count = 0

    def attack(value: Any, name: str) -> Any:
        nonlocal count
        if isinstance(value, dict):
            return {key: attack(one, key) for key, one in value.items()}
        if isinstance(value, list):
            return [attack(one, name) for one in value]
        if isinstance(value, str) and (everything or name not in STRUCTURAL):
            count += 1
            # A megabyte in every field of every sample would be a gigabyte; one in fifty is enough to see each field.
            return LONG if count % 50 == 0 else ATTACKS[count % (len(ATTACKS) - 1)]
        return value

    return attack
