"""`howsure view` on a run of 100,000 questions: the real server, a process of its own, asked over HTTP.

The run is made by chance in the form of mcq's samples, more than 1 kB each with its evidence. For the first rows every
round has a server that was just started and never saw the run; the contender reads the file as scripts do, all of it.
"""

from __future__ import annotations

import http.client
import json
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.harness import Case

SAMPLES = 100_000
FRESH_SERVERS = 5
"""One to check with, one to warm up with, and one a round."""
WORDS = (
    "the", "robot", "cup", "door", "key", "river", "winter", "engine", "paper", "orbit", "music", "garden", "signal",
    "metal", "window", "bridge", "forest", "salt", "mirror", "candle", "under", "before", "between", "slowly", "opens",
)  # fmt: skip


class Server:
    """A viewer of one folder, until the benchmark ends."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "howsure", "view", str(folder), "--quiet"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline().strip().rstrip("/").rpartition(":")[2])
        self.get("/assets/viewer.js")  # it listens, and has loaded its code, but has seen no run

    def __del__(self) -> None:
        self.process.kill()
        self.process.wait()

    def get(self, path: str) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", path)
        answer = connection.getresponse()
        text = answer.read().decode()
        assert answer.status == 200, text
        return text

    def peak_mb(self) -> float:
        lines = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8").splitlines()
        status = dict(line.split(":", 1) for line in lines)
        return int(status["VmHWM"].split()[0]) / 1024


def cases() -> list[Case]:
    folder = tempfile.TemporaryDirectory()
    path = make_run(Path(folder.name) / "run", SAMPLES) / "samples.jsonl"
    fresh = [Server(Path(folder.name)) for _ in range(FRESH_SERVERS)]

    def first_rows(_: Any = folder) -> str:
        return fresh.pop().get("/run?path=run")

    assert first_rows().count('<th scope="row"') == 50
    warm = Server(Path(folder.name))
    results = read_all(path)
    asked = {
        "a filter by a number": ("f.confidence=%3E0.9", lambda r: r["confidence"] > 0.9),
        "a search in all text": ("q=candle+robot", _says_candle_robot),
        "sorted by a number": ("sort=-margin", lambda r: True),
        "sorted by a text": ("sort=question", lambda r: True),
    }
    found = [_asking(name, warm, results, *what) for name, what in asked.items()]
    size = path.stat().st_size
    notes = {"bytes": f"{size:,}", "a sample": f"{size // SAMPLES:,} bytes", "server, peak": f"{warm.peak_mb():.0f} MB"}
    first = Case(
        "the first rows, a server that never saw the run",
        {"howsure view": first_rows, "json.loads of every line": lambda: read_all(path)},
        notes,
    )
    return [first, *found]


def _asking(
    name: str, server: Server, results: list[dict[str, Any]], query: str, fits: Callable[[dict[str, Any]], bool]
) -> Case:
    """Each time with another filter that all rows pass, so that nothing is answered from memory but the rows."""
    turn = iter(range(1_000_000))

    def ours() -> int:
        text = server.get(f"/table?path=run&{query}&f.entropy_nats=%3E-{next(turn) + 1}")
        counted = re.search(r'data-swap="count">([0-9,]+)', text)
        assert counted is not None
        return int(counted[1].replace(",", ""))

    def loop() -> int:
        kept = [result for result in results if fits(result)]
        if query.startswith("sort="):
            kept.sort(key=lambda result: result[query.removeprefix("sort=").removeprefix("-")])
        return len(kept)

    found = ours()
    assert found == loop(), name
    return Case(name, {"howsure view": ours, "a loop over dictionaries in memory": loop}, {"rows": f"{found:,}"})


def _says_candle_robot(result: dict[str, Any]) -> bool:
    texts = (result["question"], result["choices"][result["predicted_index"]], result["choices"][0])
    return any("candle robot" in text.casefold() for text in texts)


def read_all(path: Path) -> list[dict[str, Any]]:
    with open(path, encoding="utf-8") as file:
        return [json.loads(line)["result"] for line in file]


def make_run(folder: Path, samples: int, seed: int = 0) -> Path:
    draw = random.Random(seed)
    folder.mkdir(parents=True)
    with open(folder / "samples.jsonl", "w", encoding="utf-8") as file:
        for place in range(samples):
            file.write(json.dumps(_sample(draw, place), separators=(",", ":")) + "\n")
    identity = {"study": "mcq", "options": {}, "model": {"name": "by chance"}, "data": {}, "seed": seed}
    manifest = {"identity": identity, "items": samples, "status": "finished", "started": "2026-01-01T00:00:00+00:00"}
    (folder / "run.json").write_text(json.dumps(manifest))
    (folder / "summary.json").write_text(json.dumps({"headline": [], "notes": []}))
    return folder


def _sample(draw: random.Random, place: int) -> dict[str, Any]:
    choices = [" ".join(draw.choices(WORDS, k=5)) for _ in range(4)]
    evidence = [_tokens(draw, choice) for choice in choices]
    confidence = draw.random()
    correct = draw.random() < confidence
    result = {
        "question": " ".join(draw.choices(WORDS, k=25)) + "?",
        "choices": choices,
        "answer_index": 0,
        "group": draw.choice("abcdef"),
        "predicted_index": 0 if correct else 1,
        "log_likelihoods": [sum(one["logprobs"]) for one in evidence],
        "correct": correct,
        "margin": draw.expovariate(0.5),
        "tie": False,
        "confidence": confidence,
        "entropy_nats": draw.random(),
    }
    outcome = {"correct": correct}
    return {
        "id": f"q-{place:06d}",
        "index": place,
        "result": result,
        "evidence": {"choices": evidence},
        "outcome": outcome,
    }


def _tokens(draw: random.Random, choice: str) -> dict[str, Any]:
    tokens = [f" {word}" for word in choice.split()]
    return {
        "tokens": tokens,
        "logprobs": [-draw.expovariate(0.5) for _ in tokens],
        "bytes": [token.encode().hex() for token in tokens],
    }
