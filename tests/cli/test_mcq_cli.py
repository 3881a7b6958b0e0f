"""`howsure mcq` and `howsure compare` within this process: what they print, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner, Result

import howsure
from howsure.cli.app import app
from studies.on_paper import OnPaper, write

ROWS = [{"id": f"q{i}", "question": f"{i}?", "choices": ["yes", "no"], "answer_index": i % 2} for i in range(6)]
MODELS = {
    "before": OnPaper({" yes": -1.0, " no": -3.0}, name="before"),
    "after": OnPaper({" yes": -3.0, " no": -1.0}, name="after"),
    "chat": OnPaper({"yes": -3.0, "no": -1.0}, name="chat", chat=True),
}


def cli(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "120"})


def assert_fails(done: Result, words: str) -> None:
    """One sentence on standard error, exit code 2, nothing else."""
    assert done.exit_code == 2, done.output
    assert words in done.stderr
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("howsure.studies.study.load", lambda name, **options: MODELS[name])
    return write(tmp_path / "q.jsonl", *ROWS)


@pytest.fixture
def runs(tmp_path: Path, data: Path) -> tuple[Path, Path]:
    for name in ("before", "after"):
        howsure.mcq(data, MODELS[name], out=tmp_path / name)
    return tmp_path / "before", tmp_path / "after"


def test_compare_prints_a_table_and_the_flips(runs: tuple[Path, Path]) -> None:
    done = cli("compare", *runs, "--flips", "1")
    assert done.exit_code == 0, done.stderr
    for words in (
        "before",
        "after",
        "50.0 %",
        "+0.0 points",
        "3 of 6",
        "right in A, wrong in B: 3",
        "--flips 3` lists all",
    ):
        assert words in done.stdout
    assert "+4.00 nats" in done.stdout
    assert "right in A" not in cli("compare", *runs, "--quiet").stdout


def test_compare_as_data_has_every_flip(runs: tuple[Path, Path], tmp_path: Path) -> None:
    done = cli("compare", *runs, "--json", "--output-json", tmp_path / "new" / "out.json", "--flips", "1")
    found = json.loads(done.stdout)
    assert found == msgspec.to_builtins(howsure.compare(*runs))
    assert len(found["difference"]["flips"]["right_to_wrong"]) == 3
    written = json.loads((tmp_path / "new" / "out.json").read_text())
    assert written["difference"] == found["difference"]
    assert [len(written[side]["results"]) for side in "ab"] == [6, 6]
    assert "12 items, 0 model calls" in cli("compare", *runs, "--dry-run").stdout


def test_compare_refuses_in_one_sentence(runs: tuple[Path, Path], data: Path, tmp_path: Path) -> None:
    assert_fails(cli("compare", runs[0], tmp_path / "gone"), "is not a run folder")
    assert_fails(cli("compare", *runs, "--output-json", tmp_path), "is a folder: name a file")
    howsure.mcq(data, MODELS["after"], out=tmp_path / "few", max_samples=3)
    assert_fails(cli("compare", runs[0], tmp_path / "few"), "are over different questions")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--batch-size", "0"], "--batch-size must be at least 1"),
        (["--max-samples", "0"], "--max-samples must be at least 1"),
        (["--image-root", "gone"], "--image-root gone is not a folder"),
        (["--chat"], "--chat needs a chat template, and 'before' has none"),
        (["--output-json", "/proc/none/x.json"], "--output-json /proc/none/x.json cannot be written"),
        (["--prompt", "no place"], "has no {question} in it"),
        (["--cluster", "pasage"], "--cluster pasage: no question of"),
    ],
)
def test_mcq_refuses_before_any_work(data: Path, tmp_path: Path, options: list[str], words: str) -> None:
    assert_fails(cli("mcq", data, "--model", "before", "--out", tmp_path / "run", *options), words)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("more", [[], ["--dry-run"]], ids=["run", "dry-run"])
def test_an_engine_that_is_none_leaves_no_folder_behind(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert_fails(cli("mcq", data, "--model", "before", "--engine", "slurm", *more), "must be local or ray, not 'slurm'")
    assert_fails(cli("mcq", data, "--model", "before", "--workers", "2", *more), "--workers is for --engine ray")
    assert not (tmp_path / "runs").exists()


def test_an_image_is_refused_by_line_and_by_a_text_model(data: Path, tmp_path: Path) -> None:
    from PIL import Image

    (tmp_path / "x.png").write_text("no image")
    write(data, ROWS[0], ROWS[1] | {"image_path": "x.png"})
    assert_fails(cli("mcq", data, "--model", "before"), f"{data}, line 2: image_path: image")
    Image.new("RGB", (4, 4)).save(tmp_path / "x.png")
    assert_fails(cli("mcq", data, "--model", "before"), "1 of 2 questions have an image, and 'before' reads text only")


def test_mcq_passes_its_options_on(data: Path, tmp_path: Path) -> None:
    def options(*arguments: str) -> Any:
        folder = tmp_path / "-".join(arguments).replace("/", "").replace("\\", "")
        done = cli("mcq", data, "--model", *arguments, "--out", folder, "--quiet")
        assert done.exit_code == 0, done.output
        return howsure.Run(folder).manifest.identity.options

    plain = options("before")
    assert plain == {
        "prompt": "{question}\nAnswer:",
        "chat": False,
        "pmi": True,
        "max_samples": None,
        "batch_size": None,
        "skip_bad": False,
    }
    changed = options("before", "--no-pmi", "--batch-size", "2", "--max-samples", "4", "--skip-bad")
    assert changed == plain | {"pmi": False, "batch_size": 2, "max_samples": 4, "skip_bad": True}
    assert options("before", "--cluster", "question") == plain | {"cluster": "question"}
    assert options("chat", "--chat") == plain | {"prompt": "{question}", "chat": True}
    assert options("chat", "--prompt", "{question}\\n")["prompt"] == "{question}\n"


def test_two_models_cost_both_and_are_compared(data: Path, tmp_path: Path) -> None:
    both = ("mcq", data, "--model", "before", "--model-b", "after", "--out", tmp_path / "both")
    one = json.loads(cli("mcq", data, "--model", "before", "--dry-run", "--json").stdout)
    two = json.loads(cli(*both, "--dry-run", "--json").stdout)
    assert two == {"items": 6, "model_calls": 2 * one["model_calls"], "tokens": 2 * one["tokens"]}
    found = json.loads(cli(*both, "--json", "--quiet").stdout)
    assert found == msgspec.to_builtins(howsure.compare(tmp_path / "both" / "a", tmp_path / "both" / "b"))
