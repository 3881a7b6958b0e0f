"""What the hunt found about lists of runs: one damaged run must not hide the others."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from fuzz.mutations import PART
from fuzz.seeds import example_run
from typer.testing import CliRunner

from howsure.cli.app import app


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A good run, and beside it one for each test to damage."""
    for name in ("good", "bad"):
        parts = example_run("mcq").split(PART)
        (tmp_path / name).mkdir()
        for file, content in zip(("run.json", "samples.jsonl", "summary.json"), parts, strict=True):
            (tmp_path / name / file).write_bytes(content)
    return tmp_path


def listed(folder: Path, *options: str) -> str:
    done = CliRunner().invoke(app, ["runs", str(folder), *options], env={"COLUMNS": "300"})
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.stdout


@pytest.mark.parametrize(
    "content", [b"{", b'{"headline": [{}]}', b'{"headline": null}', b'{"headline": ["a"]}', b"\xff"]
)
def test_a_damaged_summary_hides_no_other_run(folder: Path, content: bytes) -> None:
    (folder / "bad" / "summary.json").write_bytes(content)
    assert "accuracy 45.0 %" in listed(folder)
    rows = {Path(row["path"]).name: row for row in json.loads(listed(folder, "--json"))}
    assert rows["good"]["headline"][0]["value"] == 0.45


def test_words_of_a_run_are_words_and_no_markup(folder: Path) -> None:
    manifest = json.loads((folder / "bad" / "run.json").read_bytes())
    manifest["identity"]["study"], manifest["started"] = "[/nothing] \x1b[31m", "[red]now"
    (folder / "bad" / "run.json").write_text(json.dumps(manifest))
    shutil.rmtree(folder / "good")
    shown = listed(folder)
    assert "[/nothing]" in shown
    assert "\x1b[31m" not in shown
