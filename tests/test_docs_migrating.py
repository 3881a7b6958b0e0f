"""docs/migrating.md: every command, option, Python name and output field that it promises is there."""

from __future__ import annotations

import csv
import inspect
import json
import pickle
import re
import shlex
import unicodedata
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer
from PIL import Image

import howsure
from howsure.cli.app import app
from howsure.models.registry import BACK_ENDS
from howsure.studies.entropy import Text, entropy_of_distribution, entropy_of_text
from howsure.studies.theorem import theorem
from runs_to_look_at import make_perplexity
from scripted import Writer, action_json, verbalized_json
from studies.on_paper import OnPaper, write
from tiny import build_ngram
from trajectory_logs import greeting, results, scored, simulation

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "migrating.md"
SOURCE = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "src").rglob("*.py")))
COMMANDS = typer.main.get_command(app)
NOT_OURS = {"CUDA_VISIBLE_DEVICES"}
VALUES = {"null", "checkpoint-*", "user_{id}"}
FIELD = re.compile(
    r"(?P<file>[\w/.-]+\.(?:json|jsonl|csv|txt)|(?:entropy|theorem) --json|--output-json): (?P<path>\S+)"
)


class Promise(NamedTuple):
    """What stands between backticks in a column that is about this program, and in which section."""

    section: str
    words: str


def promises() -> Iterator[Promise]:
    section, is_table = "everywhere", False
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        is_table = bool(cells)
        for cell in cells[1:] if is_table else [line]:
            yield from (Promise(section, words) for words in re.findall(r"`([^`]+)`", cell))


PROMISES = list(dict.fromkeys(promises()))


# -- what runs leave --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """For each section the folders that its commands leave."""
    base = tmp_path_factory.mktemp("migrating")
    return {
        "The MiniGrid entropy scripts": _trust(base),
        "The τ² SAUP scripts": [_trajectories(base)],
        "The entropy and perplexity notes": _perplexity(base),
        "The GUI evaluation": [_grounding(base)],
        "The MCQ script": _mcq(base),
    }


def _trust(base: Path) -> list[Path]:
    answers = {"logprobs": action_json("down"), "verbalized": verbalized_json([0.1, 0.7, 0.1, 0.1])}
    for evidence, answer in answers.items():
        model = Writer(lambda messages, number, answer=answer: answer)
        howsure.trust("home", model, evidence=evidence, out=base / evidence, max_steps=2)
    return [base / evidence for evidence in answers]


def _trajectories(base: Path) -> Path:
    path = base / "simulation.json"
    path.write_text(json.dumps(results(scored([1.0, 2.0], [0.5]), simulation([greeting()]))))
    howsure.trajectories(path, tokens=True, verbose=True, out=base / "trajectories")
    return base / "trajectories"


def _perplexity(base: Path) -> list[Path]:
    make_perplexity(base / "perplexity", base)
    model = f"ngram:{build_ngram(base)}"
    howsure.perplexity(base / "text-0.txt", model, model_b=model, out=base / "two")
    told = base / "told"
    told.mkdir()
    text = entropy_of_text([Text("a text", b"abcab" * 40)], "characters").to_dict()
    spread = entropy_of_distribution([0.5, 0.5], [0.9, 0.1]).to_dict()
    (told / "entropy --json").write_text(json.dumps(text | {"against": spread["against"]}))
    (told / "theorem --json").write_text(json.dumps(theorem(longest=16, paths=2, seed=0).to_dict()))
    return [base / "perplexity", base / "two", told]


def _grounding(base: Path) -> Path:
    data = base / "dataset_pkl"
    data.mkdir()
    Image.new("RGB", (40, 30), "white").save(data / "screen.png")
    parts = [{"type": "image", "image": "screen.png"}, {"type": "text", "text": "Click the button."}]
    answer = [{"type": "text", "text": "```referring\nthe button\n```\n```grounding\n[311, 541]\n```"}]
    told = [{"role": "system", "content": parts}, {"role": "assistant", "content": answer}]
    for user in (1, 2):
        (data / f"user_{user}.pkl").write_bytes(pickle.dumps([told]))
    model = Writer(lambda messages, number: "```referring\nbutton\n```\n```grounding\n(300, 500)\n```")
    howsure.grounding(data, model, out=base / "grounding")
    return base / "grounding"


def _mcq(base: Path) -> list[Path]:
    data = write(base / "q.jsonl", {"question": "q", "choices": ["a", "b"], "answer_index": 0})
    both = [OnPaper({" a": [-a], " b": [-1.0]}, name=f"model {a}") for a in (2.0, 0.5)]
    howsure.mcq(data, both[0], model_b=both[1], out=base / "both")
    howsure.mcq(data, both[0], out=base / "mcq", output_json=base / "mcq" / "--output-json")
    return [base / "mcq", base / "both"]


def holds(path: Path, wanted: str) -> bool:
    """Whether a file has a field, at its place or in some entry of a list."""
    if path.suffix == ".csv":
        return wanted in next(csv.reader(path.open(encoding="utf-8")))
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".txt":
        return f"'{wanted}':" in text
    entries = [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else [json.loads(text)]
    return any(_within(entry, wanted.removeprefix("[]").lstrip(".").split(".")) for entry in _listed(entries, wanted))


def _listed(entries: list[Any], wanted: str) -> list[Any]:
    return entries[0] if wanted.startswith("[]") else entries


def _within(value: Any, keys: list[str]) -> bool:
    if not keys:
        return True
    name = keys[0].removesuffix("[]")
    if not isinstance(value, dict) or name not in value:
        return False
    if not keys[0].endswith("[]"):
        return _within(value[name], keys[1:])
    return any(_within(entry, keys[1:]) for entry in value[name])


# -- what each promise says -------------------------------------------------------------------------------------------


def command_of(words: list[str]) -> tuple[str, set[str], list[str]]:
    """A command's name, its options, and what else stands on its line."""
    here: Any = COMMANDS
    names, rest = [], words[1:]
    while hasattr(here, "commands"):
        if rest and rest[0] in here.commands:
            name, rest = rest[0], rest[1:]
        elif "run" in here.commands:
            name = "run"
        elif not rest:
            return " ".join(names), set(), []
        else:
            raise AssertionError(f"{' '.join(words)}: there is no command {rest[0]}")
        here = here.commands[name]
        names.append(name)
    options = {option for one in here.params for option in (*one.opts, *one.secondary_opts)}
    return " ".join(names), options, rest


@cache
def options_in(section: str) -> set[str]:
    """Of all commands that a section names; those that stand before the first one are for all of them."""
    commands = [one for one in PROMISES if one.words.startswith("howsure ") and section in (one.section, "everywhere")]
    return {option for one in commands for option in command_of(shlex.split(one.words))[1]}


def check_command(words: str) -> None:
    _, options, rest = command_of(shlex.split(words))
    unknown = [word for word in rest if word.startswith("--") and word not in options]
    assert not unknown, f"{words}: no option {unknown}"


def check_option(promise: Promise) -> None:
    option, *value = shlex.split(promise.words)
    known = options_in(promise.section)
    assert option in known, f"{promise.section}: no command there has the option {option}"
    if option in ("--model", "--model-b") and value:
        check_model(value[0])


def check_model(name: str) -> None:
    assert name.partition(":")[0] in BACK_ENDS


def check_python(words: str) -> None:
    name, _, arguments = words.partition("(")
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: Any = import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        break
    for part in parts[end:]:
        found = getattr(found, part)
    if arguments:
        named = set(re.findall(r"(\w+)=", arguments))
        assert named <= set(inspect.signature(found).parameters), words


def check_field(promise: Promise, left: dict[str, list[Path]]) -> None:
    match = FIELD.fullmatch(promise.words)
    assert match is not None
    every = [folder for folders in left.values() for folder in folders]
    folders = left.get(promise.section, every)
    files = [folder / match["file"] for folder in folders if (folder / match["file"]).is_file()]
    assert files, f"{promise.section}: no run leaves {match['file']}"
    assert any(holds(path, match["path"]) for path in files), f"{promise.section}: {promise.words} is not there"


def check_word(promise: Promise, left: dict[str, list[Path]]) -> None:
    """A file of a run folder, or a word that the code itself writes or reads."""
    words = promise.words
    folders = left.get(promise.section, [folder for one in left.values() for folder in one])
    if any((folder / words).exists() for folder in folders) or words in NOT_OURS | VALUES:
        return
    assert re.search(rf"""["']{re.escape(words)}["']|^    {re.escape(words)}: """, SOURCE, re.M), words


def check(promise: Promise, left: dict[str, list[Path]]) -> None:
    words = promise.words
    if FIELD.fullmatch(words):
        check_field(promise, left)
    elif words.startswith("howsure "):
        check_command(words)
    elif words.startswith("howsure."):
        check_python(words)
    elif words.startswith("--"):
        check_option(promise)
    elif ":" in words:
        check_model(words)
    else:
        check_word(promise, left)


@pytest.mark.parametrize("section", dict.fromkeys(one.section for one in PROMISES))
def test_what_the_page_names_is_there(section: str, left: dict[str, list[Path]]) -> None:
    missing = []
    for promise in [one for one in PROMISES if one.section == section]:
        try:
            check(promise, left)
        except (AssertionError, AttributeError) as error:
            missing.append(f"{promise.words}: {error}")
    assert missing == []


# -- and that the test would notice -----------------------------------------------------------------------------------


def test_the_page_is_read_whole() -> None:
    sections = {one.section for one in PROMISES}
    assert len(sections) == 7
    assert len(PROMISES) > 180
    assert Promise("The τ² SAUP scripts", "summary.json: statistics.agent.mean") in PROMISES
    assert Promise("The MiniGrid entropy scripts", "samples.jsonl: result.conditions.X.entropy_missing") in PROMISES


@pytest.mark.parametrize(
    "words",
    [
        "howsure mcq Q.jsonl --no-such-option",
        "howsure no-such-command",
        "howsure.measures.no_such_measure",
        "howsure.grounding(data, model, no_such_argument=…)",
        "--no-such-option",
        "summary.json: no_such_field",
        "results[]: results[].no_such_field",
        "no_such_file.csv: step",
        "nosuch:model",
        "no_such_word",
    ],
)
def test_what_is_not_there_is_noticed(words: str, left: dict[str, list[Path]]) -> None:
    with pytest.raises((AssertionError, AttributeError)):
        check(Promise("The MCQ script", words), left)


def test_links_lead_to_headings_and_pages() -> None:
    text = PAGE.read_text(encoding="utf-8")
    headings = {slug(line.lstrip("# ")) for line in text.splitlines() if line.startswith("#")}
    for target in re.findall(r"\]\(([^)]+)\)", text):
        found = target[1:] in headings if target.startswith("#") else (PAGE.parent / target).is_file()
        assert found, target


def slug(heading: str) -> str:
    """The name under which GitHub has a heading: letters, digits and dashes, ² being neither."""
    kept = [one for one in heading.lower() if one in " -_" or unicodedata.category(one) in ("Ll", "Lo", "Nd")]
    return "".join(kept).replace(" ", "-")
