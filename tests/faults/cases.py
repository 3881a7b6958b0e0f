"""Every study as a command that takes a second or less and writes often: small data, tiny models, small batches."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from commands import Commands
from tiny import build_ngram, build_tiny
from tiny_vision import build_vision, picture
from trajectory_logs import message, results, simulation

WORDS = ("the", "quick", "brown", "fox", "jumps", "over", "lazy", "dog", "answer", "is", "four", "not", "five", "sky")
CHAT = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


class Case(NamedTuple):
    """A command without its --out, and what of howsure is made smaller so that it writes more often."""

    name: str
    arguments: list[str]
    smaller: Mapping[str, int] = MappingProxyType({})
    pair: bool = False


def sentence(rng: random.Random, least: int, most: int) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(least, most)))


def write_questions(path: Path, count: int) -> Path:
    rng = random.Random(3)
    rows = []
    for i in range(count):
        choices = [f"{sentence(rng, 1, 4)} {letter}" for letter in "abcd"]
        rows.append({"id": f"q{i}", "question": sentence(rng, 4, 20), "choices": choices, "answer_index": i % 4})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_book(path: Path, lines: int) -> Path:
    rng = random.Random(4)
    path.write_text("".join(sentence(rng, 3, 12) + "\n" for _ in range(lines)))
    return path


def write_logs(path: Path, count: int) -> Path:
    """Conversations without log-probabilities, for a model to read."""
    rng = random.Random(5)
    talks = []
    for i in range(count):
        turns = [message(("user", "assistant")[j % 2], sentence(rng, 3, 9)) for j in range(4)]
        talks.append(
            simulation(turns, id=f"s{i}", task_id=f"t{i}", reward_info={"reward": float(i % 2), "db_check": None})
        )
    path.write_text(json.dumps(results(*talks)))
    return path


class Workshop:
    """Makes models and data once, and cases of them."""

    def __init__(self, folder: Path, commands: Commands) -> None:
        self.folder = folder
        self._commands = commands
        self._made: dict[str, Path] = {}

    def make(self, name: str, how: Callable[[Path], Path]) -> Path:
        if name not in self._made:
            place = self.folder / name
            place.mkdir()
            self._made[name] = how(place)
        return self._made[name]

    def built(self, name: str) -> Path:
        """A network, built where torch is imported already."""

        def build(place: Path) -> Path:
            self._commands.finish(place / "model", does=f"faults.cases:build_{name}")
            return place / "model"

        return self.make(name, build)

    @property
    def ngram(self) -> str:
        return f"ngram:{self.make('ngram', build_ngram)}"

    @property
    def other_ngram(self) -> str:
        return f"ngram:{self.make('bigram', lambda place: build_ngram(place, order=2))}"

    @property
    def hf(self) -> str:
        return f"hf:{self.built('talker')}"

    @property
    def book(self) -> Path:
        return self.make("book", lambda place: write_book(place / "book.txt", 120))

    def questions(self, count: int = 24) -> Path:
        return self.make(f"questions-{count}", lambda place: write_questions(place / "questions.jsonl", count))

    # -- cases ----------------------------------------------------------------------------------------------------

    def mcq(self, count: int = 24, batch: int = 3) -> Case:
        data = self.questions(count)
        return Case("mcq", ["mcq", str(data), "--model", self.ngram, "--batch-size", str(batch), "--quiet", "--json"])

    def mcq_pair(self) -> Case:
        case = self.mcq(12)
        return Case("mcq_pair", [*case.arguments, "--model-b", self.other_ngram], pair=True)

    def mcq_hf(self) -> Case:
        arguments = ["mcq", str(self.questions(12)), "--model", self.hf, "--token-budget", "256", "--quiet", "--json"]
        return Case("mcq_hf", arguments)

    def perplexity(self) -> Case:
        arguments = ["perplexity", str(self.book), "--model", self.ngram, "--quiet", "--json"]
        small = {
            "howsure.models.ngram.model.PASSAGE_BYTES": 512,
            "howsure.studies.perplexity.study.TOKENS_AT_ONCE": 100,
        }
        return Case("perplexity", arguments, small)

    def perplexity_hf(self) -> Case:
        arguments = ["perplexity", str(self.book), "--model", self.hf, "--window", "64", "--stride", "32"]
        small = {
            "howsure.models.hf.documents.PASSAGE_TOKENS": 256,
            "howsure.studies.perplexity.study.TOKENS_AT_ONCE": 400,
        }
        return Case("perplexity_hf", [*arguments, "--quiet", "--json"], small)

    def trajectories(self) -> Case:
        logs = self.make("logs", lambda place: write_logs(place / "logs.json", 10))
        arguments = ["trajectories", str(logs), "--score-with", self.hf, "--window", "128", "--quiet", "--json"]
        return Case("trajectories", arguments, {"howsure.studies.trajectories.study.TOKENS_AT_ONCE": 100})

    def many_trajectories(self, count: int) -> Case:
        logs = self.make("many", lambda place: write_logs(place / "logs.json", count))
        arguments = ["trajectories", str(logs), "--score-with", self.hf, "--window", "128", "--quiet", "--json"]
        return Case("trajectories", arguments, {"howsure.studies.trajectories.study.TOKENS_AT_ONCE": 60})

    def distances(self) -> Case:
        case = self.trajectories()
        return Case("distances", [*case.arguments, "--distances"], case.smaller)

    def trust(self) -> Case:
        arguments = ["trust", "run", "home", "--model", self.hf, "--episodes", "2", "--max-steps", "4"]
        return Case("trust", [*arguments, "--quiet", "--json"])

    def screens(self, count: int = 6) -> Path:
        return self.make(f"screens-{count}", lambda place: write_screens(place, count))

    def grounding(self) -> Case:
        model = self.built("clicker")
        arguments = ["grounding", "run", str(self.screens()), "--model", f"hf:{model}", "--batch-size", "2"]
        return Case("grounding", [*arguments, "--max-new-tokens", "24", "--quiet", "--json"])


def build_talker() -> None:
    """A tiny network with room for long prompts, and with a chat template."""
    from transformers import AutoTokenizer

    folder = build_tiny(Path(sys.argv[1]), max_position_embeddings=4096)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = CHAT
    tokenizer.save_pretrained(folder)


def build_clicker() -> None:
    """A tiny network that sees; it has learned nothing, and most of what it says is no place."""
    build_vision("qwen3_vl", Path(sys.argv[1]))


def write_screens(place: Path, count: int) -> Path:
    """Instructions of two users on six screens."""
    for i in range(6):
        picture(place / f"{i}.png", 96 + 16 * (i % 3), 64, seed=i)
    rows: list[dict[str, Any]] = []
    for i in range(count):
        asked = {"id": f"c{i}", "image": f"{i % 6}.png", "instruction": f"press {i}"}
        target = {"kind": "point", "coords": [100 + 120 * (i % 6), 300]}
        rows.append({**asked, "target": target, "labels": {"user": [f"u{i % 2}"]}})
    data = place / "clicks.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return data
