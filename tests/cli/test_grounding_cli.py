"""`howsure grounding` as a new user meets it: real processes, the built-in baseline, one-sentence errors."""

from __future__ import annotations

import json
import os
import pickle
from importlib.resources import as_file, files
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

import commands
from tiny_vision import build_vision, picture

pytestmark = pytest.mark.long


def howsure(*arguments: Any, fresh: bool = False) -> CompletedProcess[str]:
    return commands.howsure("grounding", *arguments, fresh=fresh, COLUMNS="100")


def assert_fails(done: CompletedProcess[str], *words: str) -> None:
    commands.assert_one_sentence(done, 2, *words)


@pytest.fixture(scope="module")
def clicks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """User files with small pictures, and answers that can be read."""
    folder = tmp_path_factory.mktemp("data")
    picture(folder / "a.png", 64, 48)
    for user in (1, 2, 3, 7):
        asked = {"role": "system", "content": [{"type": "image", "image": "a.png"}, {"type": "text", "text": "x"}]}
        answer = {"role": "assistant", "content": [{"type": "text", "text": "```grounding\n(500, 500)\n```"}]}
        (folder / f"user_{user}.pkl").write_bytes(pickle.dumps([[asked, answer]] * 2))
    return folder


@pytest.fixture(scope="module")
def demo_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("rapidocr_onnxruntime")
    run = tmp_path_factory.mktemp("runs") / "demo"
    with as_file(files("howsure.data")) as folder:
        done = howsure(folder / "demo_grounding.jsonl", "--out", run, fresh=True)
    assert done.returncode == 0, done.stderr
    assert "point in target" in done.stdout
    return run


def test_the_baseline_clicks_what_it_reads(demo_run: Path) -> None:
    rows = {row["id"]: row for row in json.loads((demo_run / "out.json").read_text())}
    assert all(rows[name]["hit"] for name in ("apply", "help", "storage")), rows
    assert rows["printer"]["gt_coord"] is None
    summary = json.loads((demo_run / "summary.json").read_text())
    assert summary["knows"]["match"]["answers"] == 9


def test_overlays_of_a_run(demo_run: Path, tmp_path: Path) -> None:
    from PIL import Image

    done = howsure("overlay", demo_run, "apply", "--to", tmp_path / "drawn")
    assert done.returncode == 0, done.stderr
    (path,) = (tmp_path / "drawn").iterdir()
    assert done.stdout.strip() == str(path)
    assert Image.open(path).size[0] >= 900
    assert_fails(howsure("overlay", demo_run, "aply"), "aply", "apply")
    assert_fails(howsure("overlay", tmp_path), "is not a run folder")


def test_users_in_every_spelling(clicks: Path, tmp_path: Path) -> None:
    for given, expected in ((("1-3",), 6), (("1", "3", "7"), 6), (("1-2,7",), 6), (("7",), 2)):
        done = howsure("convert", clicks, "--users", *given, "--to", tmp_path / "out.jsonl", "--dry-run", "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["items"] == expected
    first = howsure("convert", "--users", "1", "3", "--dry-run", "--json", "--to", tmp_path / "x", clicks)
    assert json.loads(first.stdout)["items"] == 4
    assert_fails(howsure(clicks, "--users", "9"), "9", "1, 2, 3, 7")
    assert_fails(howsure(clicks, "--users", "one"), "one")


@pytest.mark.parametrize(
    ("written", "users"),
    [
        ("--users 1 3 7 data", [1, 3, 7]),
        ("--users=1 3 7 data", [1, 3, 7]),
        ("--users 1, 3, 7 data", [1, 3, 7]),
        ("--users 1 ,3 data", [1, 3]),
        ("--users 1-2, 7 data", [1, 2, 7]),
        ("--users 1 --users 7 data", [1, 7]),
        ("--users 1 data 2", [1]),
    ],
)
def test_numbers_after_users_belong_to_it(written: str, users: list[int]) -> None:
    from howsure.cli.grounding import users_joined
    from howsure.studies.grounding.options import parse_users

    args = users_joined(written.split())
    given = [args[i + 1] for i, arg in enumerate(args) if arg == "--users"]
    assert parse_users(given) == users
    assert args[2 * len(given)] == "data"


def test_converted_data_is_the_same_data(clicks: Path, tmp_path: Path) -> None:
    done = howsure("convert", clicks, "--to", tmp_path / "clicks.jsonl")
    assert done.returncode == 0, done.stderr
    assert "8 samples written" in done.stdout
    lines = [json.loads(line) for line in (tmp_path / "clicks.jsonl").read_text().splitlines()]
    assert [line["target"]["coords"] for line in lines] == [[500.0, 500.0]] * 8


def test_what_cannot_be_is_said_before_any_work(clicks: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "run")
    assert_fails(howsure(clicks, "--model", "smollm2", *out), "sees", "smollm2")
    assert_fails(howsure(clicks, "--delta", "-1", *out), "--delta")
    assert_fails(howsure(clicks, "--parser", "lenient", *out), "strict", "compat")
    assert_fails(howsure(clicks, "--frame", "inches", *out), "relative-1000")
    assert_fails(howsure(clicks, "--prompt", "where?", *out), "{instruction}")
    assert_fails(howsure(clicks, "--samples", "3", *out), "--samples", "ocr")
    assert_fails(howsure(clicks, "--frame", "pixels", *out), "--frame", "ocr")
    assert_fails(howsure(clicks, "--max-pixels", "9999", *out), "--max-pixels", "ocr")
    assert_fails(howsure(tmp_path / "nothing", *out), "nothing")
    assert not (tmp_path / "run").exists()


def test_a_plan_of_a_conversion_says_what_the_conversion_would(clicks: Path, tmp_path: Path) -> None:
    assert_fails(howsure("convert", clicks, "--to", tmp_path / "no" / "x.jsonl", "--dry-run"), "is not a folder")


def test_a_hostile_pickle_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "ran"

    class Evil:
        def __reduce__(self) -> object:
            return os.system, (f"touch {target}",)

    (tmp_path / "user_1.pkl").write_bytes(pickle.dumps([Evil()]))
    assert_fails(howsure(tmp_path, "--out", tmp_path / "run"), "user_1.pkl", "system")
    assert not target.exists()


def test_a_plan_and_a_run_with_an_image_text_model(clicks: Path, tmp_path: Path) -> None:
    model = f"hf:{build_vision('qwen3_vl', tmp_path / 'model')}"
    arguments = (clicks, "--users", "1", "--model", model, "--max-new-tokens", "8", "--max-pixels", "4096")
    plan = howsure(*arguments, "--samples", "2", "--dry-run", "--json")
    assert json.loads(plan.stdout) == {"items": 2, "images": 1, "model_calls": 6, "new_tokens_at_most": 48}
    done = howsure(*arguments, "--out", tmp_path / "run", "--json", "--quiet")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found = json.loads(done.stdout)
    assert found["wrong_format_count"] == 2
    assert found["mean_l2"] is None
    manifest = json.loads((tmp_path / "run" / "run.json").read_text())
    assert manifest["identity"]["model"]["max_pixels"] == 4096
