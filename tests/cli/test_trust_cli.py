"""`howsure trust` as a new user meets it: real processes, exit codes, one-sentence errors."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from commands import assert_one_sentence as assert_fails
from commands import howsure
from tiny import build_tiny

pytest.importorskip("minigrid", reason="the extra `grid` is not installed")
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def wide_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny checkpoint, with room for a whole prompt."""
    return build_tiny(tmp_path_factory.mktemp("wide"), max_position_embeddings=4096)


def test_a_run_then_again_then_its_log(wide_folder: Path, tmp_path: Path) -> None:
    arguments = ("trust", "empty", "--model", f"hf:{wide_folder}", "--max-steps", "4", "--out", tmp_path / "run")
    first = howsure(*arguments, "--verbose", fresh=True)
    assert first.returncode == 0, first.stderr
    for words in ("Episode 1, step 4", "T = (H(X) − H(X|S))", "ΔH_L,S", "on a shortest path", "scored 4 of 4"):
        assert words in first.stdout
    rows = list(csv.DictReader((tmp_path / "run" / "steps.csv").open()))
    assert len(rows) == 4
    assert all(value != "" for row in rows for name, value in row.items() if name != "trust_T")
    before = (tmp_path / "run" / "steps.csv").read_bytes()
    again = howsure(*arguments, "--json", "--quiet")
    assert again.stderr == ""
    summary = json.loads(again.stdout)
    assert summary == json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (tmp_path / "run" / "steps.csv").read_bytes() == before
    log = json.loads(howsure("trust", "analyse", tmp_path / "run" / "steps.csv", "--json").stdout)
    for part in ("rows", "ordering", "per_step", "mean_entropy_bits"):
        assert log[part] == summary[part], part
    assert log["trust"] == summary["trust"]
    assert summary["trust"]["reason"] == "1 episode, and T takes at least 5"
    listed = json.loads(howsure("runs", tmp_path, "--json").stdout)
    assert [(row["study"], row["status"]) for row in listed] == [("trust", "finished")]


def test_what_is_said_on_the_way(wide_folder: Path, tmp_path: Path) -> None:
    """Feedback from a pipe becomes knowledge, its end lets the run go on, and :q stops it."""
    arguments = ("trust", "empty", "-m", f"hf:{wide_folder}", "--max-steps", "3", "--interactive", "--out")
    said = ":k\n:nonsense\n:i go and see the far corner\n\nmind the carpet\n"
    done = howsure(*arguments, tmp_path / "a", stdin=said)
    assert done.returncode == 0, done.stderr
    assert "The green square is in the bottom right corner." in done.stderr
    assert ":nonsense is unknown" in done.stderr
    samples = [json.loads(line) for line in (tmp_path / "a" / "samples.jsonl").read_text().splitlines()]
    assert [one["result"]["told"] for one in samples] == [
        {"instruction": "go and see the far corner"},
        {"feedback": "mind the carpet"},
        {},
    ]
    assert samples[0]["result"]["instruction"] == "go and see the far corner"
    assert samples[1]["result"]["learned"]
    stopped = howsure(*arguments, tmp_path / "b", stdin="\n:q\n")
    assert stopped.returncode == 130
    assert len((tmp_path / "b" / "samples.jsonl").read_text().splitlines()) == 1


def test_maps_are_listed_and_printed(tmp_path: Path) -> None:
    listed = json.loads(howsure("trust", "maps", "--json").stdout)
    assert [one["name"] for one in listed] == ["empty", "walls", "home", "fetch"]
    path = tmp_path / "mine.json"
    path.write_text(howsure("trust", "maps", "fetch").stdout)
    plan = json.loads(howsure("trust", path, "--dry-run", "--json").stdout)
    assert plan["steps_at_most"] == 20
    assert plan["tokens_at_most"] > 1000
    assert "home" in howsure("trust", "maps").stdout


def test_coherent_from_the_command_line(wide_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "l.txt").write_text("go to the lamp\ngo to the chair\n")
    (tmp_path / "s.txt").write_text("Stairs are steep.\n\n-\n")
    sets = ("--instructions", tmp_path / "l.txt", "--groundings", tmp_path / "s.txt", "--states", "3")
    done = howsure("trust", "coherent", "walls", "-m", f"hf:{wide_folder}", *sets, "--out", tmp_path / "run", "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["trust"]["value"] is None or 0.0 <= summary["trust"]["value"] <= 1.0
    assert [figure["name"] for figure in summary["headline"]] == ["coherent trust T", "I(X;S)", "I(X;S,L)"]
    assert all(figure["note"] and figure["low"] is None for figure in summary["headline"])
    shown = howsure("trust", "coherent", "walls", "-m", f"hf:{wide_folder}", *sets, "--out", tmp_path / "run").stdout
    assert "How much comes from the grounding?" in shown
    assert "2 instructions × 2 groundings can be arranged in 3 ways only" in shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("trust", "nowhere.json"), "nowhere.json"),
        (("trust", "MiniGrid-Emtpy-8x8-v0"), "MiniGrid-Empty-8x8-v0"),
        (("trust", "empty", "--evidence", "tea leaves"), "scored, logprobs, verbalized"),
        (("trust", "empty", "--view", "image"), "reads text only"),
        (("trust", "empty", "--grounding", "nowhere.txt"), "nowhere.txt"),
        (("trust", "analyse", "nowhere.csv"), "nowhere.csv"),
        (("trust", "maps", "nowhere"), "empty, walls, home, fetch"),
    ],
)
def test_bad_usage_is_one_sentence(arguments: tuple[str, ...], words: str) -> None:
    assert_fails(howsure(*arguments), 2, words)


def test_bad_logs_beside_good_ones(tmp_path: Path) -> None:
    good = tmp_path / "good.csv"
    good.write_text(
        "step,timestamp,agent_x,agent_y,entropy_H_X,entropy_H_X_given_S,entropy_H_X_given_LS,trust_T\n"
        "1,2025-01-21T16:51:19,5,5,2.3456,1.8765,0.5432,0.2604\n"
        "2,2025-01-21T16:51:25,5,6,2.1234,1.6543,0.4321,0.2789\n"
        "3,2025-01-21T16:51:31,5,7,,1.5,0.4,\n"
    )
    done = howsure("trust", "analyse", good, tmp_path / "none.csv")
    assert done.returncode == 1
    assert "none.csv" in done.stdout
    assert "2 of 3" in done.stdout


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--address", "127.0.0.1:9", "--out", "runs/named"], "no Ray cluster answers at 127.0.0.1:9"),
        (["--carry", "--episodes", "2"], "--carry makes each episode wait for the one before"),
    ],
)
def test_what_is_refused_before_it_begins_leaves_no_folder(
    wide_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], sentence: str
) -> None:
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    monkeypatch.chdir(tmp_path)
    command = ("trust", "empty", "--model", f"hf:{wide_folder}", "--engine", "ray", *options, "--quiet")
    assert_fails(howsure(*command), 2, sentence)
    assert not list(tmp_path.glob("runs/*"))
