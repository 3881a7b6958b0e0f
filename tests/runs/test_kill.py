"""kill -9 in the middle of a run, again and again at random moments; then to the end."""

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

KILLS = int(os.environ.get("HOWSURE_KILLS", "6"))
"""HOWSURE_KILLS=20 takes two minutes, which is too long for every day."""
pytestmark = pytest.mark.long


def write_questions(path: Path, count: int) -> None:
    rng = random.Random(3)
    words = [
        "the",
        "quick",
        "brown",
        "fox",
        "jumps",
        "over",
        "lazy",
        "dog",
        "answer",
        "is",
        "four",
        "not",
        "five",
        "sky",
        "blue",
    ]
    with path.open("w") as file:
        for i in range(count):
            question = " ".join(rng.choices(words, k=rng.randint(4, 40)))
            choices = [f"{' '.join(rng.choices(words, k=rng.randint(1, 6)))} {c}" for c in "abcd"]
            file.write(
                json.dumps({"id": f"q{i}", "question": question, "choices": choices, "answer_index": i % 4}) + "\n"
            )


def start(data: Path, model: Path, out: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "howsure", "mcq", str(data), "--model", f"hf:{model}", "--out", str(out)]
    # Two batches or so a second would end too soon to be killed that often; small ones last.
    command += ["--token-budget", "64", "--quiet", "--json"]
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )


def finished_lines(out: Path) -> int:
    path = out / "samples.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def wait_for_more_than(lines: int, out: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while finished_lines(out) <= lines and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)


@pytest.mark.timeout(400)
def test_killed_again_and_again_nothing_is_lost_and_nothing_twice(tiny_folder: Path, tmp_path: Path) -> None:
    count = 75 * KILLS
    data = tmp_path / "questions.jsonl"
    write_questions(data, count)
    undisturbed = start(data, tiny_folder, tmp_path / "whole")
    _, errors = undisturbed.communicate()
    assert undisturbed.returncode == 0, errors.decode()

    rng = random.Random(11)
    kept: list[int] = []
    for kill in range(KILLS):
        before = finished_lines(tmp_path / "torn")
        process = start(data, tiny_folder, tmp_path / "torn")
        if kill % 4 == 3:  # any moment at all, loading and taking up included
            time.sleep(rng.uniform(0, 4))
        else:  # a moment of its work
            wait_for_more_than(before, tmp_path / "torn", process)
            time.sleep(rng.uniform(0, 0.1))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL, "the run ended before it could be killed: make it longer"
        kept.append(finished_lines(tmp_path / "torn"))
    assert kept == sorted(kept)
    assert len(set(kept)) >= KILLS * 3 // 4, "every session that was let work must have got further"

    last = start(data, tiny_folder, tmp_path / "torn")
    _, errors = last.communicate()
    assert last.returncode == 0, errors.decode()
    summaries = [(tmp_path / name / "summary.json").read_bytes() for name in ("whole", "torn")]
    assert summaries[0] == summaries[1]
    lines = {n: (tmp_path / n / "samples.jsonl").read_bytes().splitlines() for n in ("whole", "torn")}
    ids = Counter(json.loads(line)["id"] for line in lines["torn"])
    assert set(ids.values()) == {1}
    assert len(ids) == count
    assert sorted(lines["torn"]) == sorted(lines["whole"]), "every sample, to the last digit"
    assert KILLS * 3 // 4 < json.loads((tmp_path / "torn" / "run.json").read_text())["sessions"] <= KILLS + 1
