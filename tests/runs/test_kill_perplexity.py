"""kill -9 in the middle of one long document, a few times at random moments; then to the end."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from runs.test_kill import finished_lines, wait_for_more_than
from studies.readers import poem

KILLS = 3
pytestmark = pytest.mark.long

SMALL_STEPS = """
from howsure.models.hf import rolling
from howsure.studies.perplexity import work
from howsure.cli.app import main

rolling.PASSAGE_TOKENS, work.TOKENS_AT_ONCE = 64, 400
main()
"""
"""The command itself, writing a sample every few milliseconds, so that a short text can be torn in many places."""


def start(data: Path, model: Path, out: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", SMALL_STEPS, "perplexity", str(data), "--model", f"hf:{model}", "--out", str(out)]
    command += ["--window", "32", "--stride", "8", "--quiet", "--json"]
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )


def finish(data: Path, model: Path, out: Path) -> None:
    process = start(data, model, out)
    _, errors = process.communicate()
    assert process.returncode == 0, errors.decode()


def test_killed_again_and_again_a_document_loses_nothing_and_has_nothing_twice(
    tiny_folder: Path, tmp_path: Path
) -> None:
    data, torn, whole = tmp_path / "book.txt", tmp_path / "torn", tmp_path / "whole"
    data.write_text(poem(12_000))
    rng = random.Random(5)
    kept = [0]
    for _ in range(KILLS):
        process = start(data, tiny_folder, torn)
        wait_for_more_than(kept[-1], torn, process)
        time.sleep(rng.uniform(0, 0.1))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL, "the run ended before it could be killed: make it longer"
        kept.append(finished_lines(torn))
    assert kept == sorted(set(kept)), "every session got further"
    finish(data, tiny_folder, torn)
    finish(data, tiny_folder, whole)
    for name in ("summary.json", "documents.csv"):
        assert (torn / name).read_bytes() == (whole / name).read_bytes()
    lines = {folder: (folder / "samples.jsonl").read_bytes().splitlines() for folder in (torn, whole)}
    assert set(Counter(json.loads(line)["id"] for line in lines[torn]).values()) == {1}
    assert len(lines[torn]) > kept[-1], "there was something left to read"
    assert lines[torn] == lines[whole], "every sample, in order and to the last digit"
    assert json.loads((torn / "run.json").read_text())["sessions"] == KILLS + 1
