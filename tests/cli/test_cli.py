"""The command line as a new user meets it: real processes, exit codes, one-sentence errors."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from commands import assert_one_sentence as assert_fails
from commands import commands, howsure
from tiny import build_ngram, build_tiny

pytestmark = pytest.mark.long
DEMO_SCREENS = files("howsure.data") / "demo_grounding.jsonl"
QUESTION = {"question": "the sky is", "choices": ["blue", "the dog"], "answer_index": 0}


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(QUESTION | {"question": f"the {i} sky is"}) + "\n" for i in range(5)))
    return path


@pytest.fixture(scope="module", autouse=True)
def nobody_asked() -> Iterator[Future[subprocess.CompletedProcess[str]]]:
    """Asking where no server is takes a quarter of a minute of waiting, so it is begun while others are tested."""
    with ThreadPoolExecutor(1) as pool:
        asking = ("ask", "hi", "--model", "openai:x", "--base-url", "http://127.0.0.1:9/v1")
        yield pool.submit(howsure, *asking, fresh=True)


# -- fast and light -----------------------------------------------------------------------------------------------

HEAVY = (
    "torch",
    "transformers",
    "sklearn",
    "scipy",
    "openai",
    "polars",
    "pyarrow",
    "relplot",
    "matplotlib",
    "pandas",
    "minigrid",
    "gymnasium",
    "pygame",
    "google.genai",
    "PIL",
    "cv2",
    "onnxruntime",
    "rapidocr_onnxruntime",
    "starlette",
    "uvicorn",
)


@pytest.mark.parametrize("statement", ["import howsure", "import howsure; from howsure.cli.app import app"])
def test_importing_loads_nothing_heavy(statement: str) -> None:
    code = f"{statement}\nimport sys; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_help_loads_nothing_heavy() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "howsure", "--help"], capture_output=True, text=True, check=True
    )
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "typer" in loaded
    assert not loaded & set(HEAVY)


def test_the_exported_names() -> None:
    import howsure as package

    assert sorted(package.__all__) == [
        "Distribution", "Outcome", "Run", "TokenLogprobs", "__version__", "compare", "export", "grounding", "load",
        "mcq", "perplexity", "read_text", "train_ngram", "trajectories", "trust",
    ]  # fmt: skip
    for name in package.__all__:
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = package.nonsense


COMMANDS = (
    "show",
    "ask",
    "mcq",
    "perplexity",
    "trajectories",
    "compare",
    "report",
    "export",
    "demo",
    "models",
    "runs",
    "view",
    "entropy",
    "theorem",
)
GROUPS = {
    "trust": ("run", "coherent", "analyse", "maps"),
    "grounding": ("run", "convert", "overlay"),
    "ngram": ("train",),
}


@pytest.mark.parametrize("command", [*COMMANDS, *(f"{g} {c}" for g, names in GROUPS.items() for c in names)])
def test_every_command_has_help_with_an_example_and_the_common_options(command: str) -> None:
    done = howsure(*command.split(), "--help", COLUMNS="120")
    assert done.returncode == 0
    for word in (f"Example: howsure {command}", "--json", "--quiet", "--dry-run"):
        assert word in done.stdout


def test_the_list_of_commands_is_the_one_tested_here() -> None:
    from typer.main import get_command

    from howsure.cli.app import app

    commands = get_command(app).commands
    assert sorted(commands) == sorted((*COMMANDS, *GROUPS))
    assert {name: tuple(commands[name].commands) for name in GROUPS} == GROUPS
    assert howsure("--version", fresh=True).stdout.startswith("howsure 0.")


# -- mcq ------------------------------------------------------------------------------------------------------------


def test_mcq_end_to_end_then_again(questions: Path, tiny_folder: Path, tmp_path: Path) -> None:
    arguments = ("mcq", questions, "--model", f"hf:{tiny_folder}", "--out", tmp_path / "run")
    first = howsure(*arguments, fresh=True)
    assert first.returncode == 0, first.stderr
    assert "accuracy" in first.stdout
    assert "95% interval" in first.stdout
    assert "scored 5 of 5" in first.stdout
    assert str(tmp_path / "run") in first.stdout
    assert "mcq: 5 of 5" in first.stderr, "progress as plain lines where there is no terminal"
    again = howsure(*arguments, "--json", "--quiet")
    assert again.stderr == ""
    assert json.loads(again.stdout) == json.loads((tmp_path / "run" / "summary.json").read_text())
    listed = json.loads(howsure("runs", tmp_path, "--json").stdout)
    assert [(row["study"], row["status"], row["items"]) for row in listed] == [("mcq", "finished", 5)]
    assert "finished" in howsure("runs", tmp_path).stdout


def test_a_dry_run_counts_and_runs_nothing(questions: Path, tiny_folder: Path, tmp_path: Path) -> None:
    import howsure as package

    done = howsure("mcq", questions, "--model", f"hf:{tiny_folder}", "--out", tmp_path / "run", "--dry-run", "--json")
    counts = json.loads(done.stdout)
    assert not (tmp_path / "run").exists()
    model = package.load(f"hf:{tiny_folder}")
    package.mcq(questions, model, out=tmp_path / "run")
    ran = {"items": 5, "model_calls": model.counters.calls, "tokens": model.counters.tokens_run}
    assert counts == ran


def test_failed_samples_leave_exit_code_1(tmp_path: Path, tiny_folder: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text(json.dumps(QUESTION) + "\n" + json.dumps(QUESTION | {"question": "x " * 400}) + "\n")
    done = howsure("mcq", path, "--model", f"hf:{tiny_folder}", "--out", tmp_path / "run", "--quiet")
    assert done.returncode == 1
    assert "scored 1 of 2; 1 missing: 1 too long" in done.stdout
    assert "do not fit the model's context of 256" in done.stdout


def test_bad_input_is_one_sentence_and_exit_code_2(questions: Path, tiny_folder: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text(json.dumps(QUESTION) + "\n{\n")
    assert_fails(howsure("mcq", bad), 2, f"{bad}, line 2: Input data was truncated")
    assert_fails(howsure("mcq", tmp_path / "gone.jsonl"), 2, "No such file")
    assert_fails(howsure("mcq", questions, "--model", "smolm2"), 2, "did you mean 'smollm2'")
    assert_fails(howsure("mcq", questions, "--prompt", "x"), 2, "no {question}")
    assert_fails(howsure("mcq", questions, "--model", f"hf:{tiny_folder}", "--token-budget", "0"), 2, "token budget")
    assert_fails(
        howsure("mcq", questions, "--model", f"hf:{tiny_folder}", "--device", "xpu:7"), 2, "device 'xpu:7' cannot be"
    )
    for command in (["mcq", questions], ["grounding", DEMO_SCREENS]):  # a model that is not there is not called blind
        done = howsure(*command, "--model", "hf:nosuch/model", HF_HUB_OFFLINE="1")
        assert_fails(done, 2, "the configuration of 'nosuch/model' was not found locally or on the Hub")
    assert_fails(howsure("runs", tmp_path / "gone"), 2, "not a folder")
    assert howsure("mcq").returncode == 2
    assert howsure("nonsense").returncode == 2


def test_debug_shows_where(questions: Path) -> None:
    done = howsure("mcq", questions, "--model", "smolm2", "--debug")
    assert done.returncode == 2
    assert "Traceback" in done.stderr


def test_a_missing_extra_names_its_command(questions: Path, tmp_path: Path) -> None:
    """A process that cannot find torch, as after a plain `pip install howsure`."""
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\nfind = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'torch' else find(name, *a)\n"
    )
    done = howsure("mcq", questions, PYTHONPATH=str(tmp_path))
    assert_fails(done, 2, 'pip install "howsure[local]"')
    assert "no: pip install" in howsure("models", PYTHONPATH=str(tmp_path)).stdout


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_keeps_what_it_has(how: signal.Signals, tiny_folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text("".join(json.dumps(QUESTION | {"question": f"the {i} sky is"}) + "\n" for i in range(5000)))
    command = ("mcq", path, "--model", f"hf:{tiny_folder}", "--out", tmp_path / "run", "--token-budget", "64")
    started = commands().start(*command)
    samples = tmp_path / "run" / "samples.jsonl"
    deadline = time.monotonic() + 60
    while not (samples.exists() and samples.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(started.pid, how)
    ended = started.wait(30)
    assert ended.code == 130
    assert "stopped; what was finished is kept, and the same command" in ended.said
    assert "Traceback" not in ended.said
    manifest = json.loads((tmp_path / "run" / "run.json").read_text())
    assert manifest["status"] == "interrupted"
    assert samples.read_bytes().endswith(b"\n")


# -- two checkpoints ------------------------------------------------------------------------------------------------


def test_two_checkpoints_in_one_command(questions: Path, tiny_folder: Path, tmp_path: Path) -> None:
    second = build_tiny(tmp_path / "second", seed=1)
    models = ("--model", f"hf:{tiny_folder}", "--model-b", f"hf:{second}")
    out, target = tmp_path / "both", tmp_path / "both.json"
    done = howsure("mcq", questions, *models, "--out", out, "--output-json", target, "--batch-size", "2")
    assert done.returncode == 0, done.stderr
    assert "B − A (95 % interval, paired)" in done.stdout
    assert "mcq a: 5 of 5" in done.stderr
    assert "mcq b: 5 of 5" in done.stderr
    assert set(json.loads(target.read_text())) == {"a", "b", "difference", "notes"}
    assert [path.name for path in sorted(out.iterdir())] == ["a", "b", "comparison.json", "report.html"]


# -- show and ask -----------------------------------------------------------------------------------------------------


@pytest.mark.real_model
def test_show_prints_figures_and_what_was_expected() -> None:
    done = howsure("show", "The capital of France is Paris, not Berlin.", fresh=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("The capital of France is Paris, not Berlin.\n")
    for word in ("mean surprisal", "perplexity", "bits per byte", "most surprising", "« Berlin»", "« Paris»"):
        assert word in done.stdout
    assert "\x1b" not in done.stdout, "plain text where the output is no terminal"


@pytest.mark.real_model
def test_show_as_data_agrees_with_its_own_definitions(smollm2, tmp_path: Path) -> None:
    import math

    text = "Zwölf Boxkämpfer 🤖 jagen Viktor."
    path = tmp_path / "text.txt"
    path.write_text(text + "\n")
    from_file = howsure("show", path, "--json")
    assert from_file.returncode == 0, from_file.stderr
    reading = json.loads(from_file.stdout)
    assert reading == json.loads(howsure("show", "-", "--json", stdin=text).stdout)
    evidence = smollm2.score([("", [text])])[0][0]
    assert reading["text"] == text
    assert reading["mean_surprisal_bits"] == pytest.approx(evidence.nll_nats / len(evidence) / math.log(2), abs=1e-4)
    assert reading["perplexity_per_token"] == pytest.approx(2 ** reading["mean_surprisal_bits"])
    assert reading["bits_per_byte"] == pytest.approx(evidence.nll_nats / math.log(2) / len(text.encode()), abs=1e-4)
    surprisals = [token["surprisal_bits"] for token in reading["tokens"]]
    worst = [entry["surprisal_bits"] for entry in reading["most_surprising"]]
    assert worst == sorted(surprisals, reverse=True)[:5]
    for entry in reading["most_surprising"]:
        assert all(other["token"] != entry["token"] for other in entry["expected"])


@pytest.mark.real_model
def test_ask_shows_the_answer() -> None:
    done = howsure("ask", "What is the capital of France?", "--max-tokens", "12", "--json")
    assert done.returncode == 0, done.stderr
    assert "Paris" in json.loads(done.stdout)["text"]


def test_show_of_nothing_and_of_noise(tmp_path: Path, tiny_folder: Path) -> None:
    (tmp_path / "noise").write_bytes(b"\xff\xfe\x00")
    assert_fails(howsure("show", tmp_path / "noise"), 2, "not UTF-8 text: byte 0")
    assert_fails(howsure("show", "", "--model", f"hf:{tiny_folder}"), 2, "no text to read")
    assert_fails(
        howsure("show", "x " * 400, "--model", f"hf:{tiny_folder}"),
        2,
        "do not fit the model's context of 256; show a part",
    )


@pytest.mark.parametrize(("text", "said"), [("notes.txt", True), ("a/b", True), ("Hello.", False), ("to a.txt", False)])
def test_a_mistyped_file_name_is_not_read_in_silence(text: str, said: bool, tiny_folder: Path, tmp_path: Path) -> None:
    done = howsure("show", text, "--model", f"hf:{tiny_folder}", "--dry-run")
    assert done.returncode == 0
    assert (f"there is no file {text}" in done.stderr) == said


def test_ask_a_server_that_gives_no_logprobs() -> None:
    from models.misbehaving_server import MisbehavingServer, ok

    with MisbehavingServer() as server:
        server.script = [ok("Yes.", None)]
        done = howsure("ask", "hi", "--model", "openai:x", "--base-url", server.base_url)
    assert_fails(done, 2, "left out the log-probabilities that were asked for")
    assert "«Yes.»" in done.stderr, "the answer itself is not lost"


def test_ask_a_server_that_is_not_there(nobody_asked: Future[subprocess.CompletedProcess[str]]) -> None:
    assert_fails(nobody_asked.result(), 2, "no server answers at http://127.0.0.1:9/v1")


def summary_of_the_demo(out: Path, *options: object) -> dict[str, Any]:
    """Of its questions, when its table was as it should be."""
    done = howsure("demo", "--out", out, *options)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["study", "samples", "coverage", "headline", "seconds"]
    assert "scored 48 of 48" in done.stdout
    assert f"run folders: {out}" in done.stdout
    summary: dict[str, Any] = json.loads((out / "mcq" / "summary.json").read_text())
    assert summary["coverage"]["scored"] == 48
    return summary


def test_the_demo_prints_one_table_and_where_it_lies(tmp_path: Path) -> None:
    summary_of_the_demo(tmp_path / "demo", "--model", f"ngram:{build_ngram(tmp_path)}")


@pytest.mark.only_long
@pytest.mark.real_model
def test_the_demo_knows_better_than_chance(tmp_path: Path) -> None:
    summary = summary_of_the_demo(tmp_path / "demo")
    assert summary["accuracy"] > summary["accuracy_by_chance"] + 0.15


def test_a_damaged_run_is_listed_as_such(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{")
    done = howsure("runs", tmp_path)
    assert done.returncode == 1
    assert "damaged" in done.stdout


def test_a_hub_name_is_read_from_the_hubs_cache(questions: Path, tiny_folder: Path, tmp_path: Path) -> None:
    """The cache as huggingface_hub lays it out, and no network."""
    revision = "0123456789012345678901234567890123456789"
    repository = tmp_path / "hub" / "models--org--tiny"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(revision)
    shutil.copytree(tiny_folder, repository / "snapshots" / revision)
    hub = {"HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"}
    done = howsure("mcq", questions, "--model", "hf:org/tiny", "--out", tmp_path / "a", "--json", "--quiet", **hub)
    assert done.returncode == 0, done.stderr
    by_folder = howsure("mcq", questions, "--model", f"hf:{tiny_folder}", "--out", tmp_path / "b", "--json", "--quiet")
    assert done.stdout == by_folder.stdout
    manifest = json.loads((tmp_path / "a" / "run.json").read_text())
    assert manifest["identity"]["model"]["weights"] == f"hub:{revision}"
