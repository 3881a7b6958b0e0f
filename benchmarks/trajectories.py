"""Reading τ² results with top-5 alternatives, and step 2: against `json.load` and a loop over dictionaries.

The file is made by chance in τ²'s form, 200 MB: as `json.dump` writes it, and with the indentation of τ²'s own files.
Peak memory is that of a process of its own, less what the same process takes without a file.
"""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.harness import Case

SIZE_BYTES = 200_000_000
WORDS = (" the", " of", "ing", " reservation", "\n\n", " café", '"id"', " I", " can", " user_1", "日本", ".")

ALONE = """
import sys
from howsure.studies.trajectories.reading import read_sources
from howsure.studies.trajectories.sources import find_sources
from howsure.studies.trajectories.document import document
readings = list(read_sources(find_sources(sys.argv[1:])[0], jobs=1))
document([r.loaded for r in readings], [t for r in readings for t in r.loaded.trajectories], verbose=True)
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(int(status["VmHWM"].split()[0]) * 1024)
"""


def cases() -> list[Case]:
    folder = tempfile.TemporaryDirectory()
    tiny = make(Path(folder.name) / "tiny.json", 1000, None)
    base = _peak_bytes(tiny)
    return [
        _case("200 MB as json.dump writes it", folder, None, base),
        _case("200 MB indented by 2", folder, 2, base),
    ]


def _case(name: str, folder: Any, indent: int | None, base: int) -> Case:
    path = make(Path(folder.name) / f"{indent}.json", SIZE_BYTES, indent)

    def ours(_: Any = folder) -> list[Any]:
        return howsure_rows(path)

    def theirs() -> list[Any]:
        return naive_rows(path)

    gap = max(abs(a - b) for a, b in zip(ours(), theirs(), strict=True))
    assert gap < 1e-9, f"the contenders differ by {gap}"
    size = path.stat().st_size
    notes = {
        "bytes": f"{size:,}",
        "peak memory": f"{(_peak_bytes(path) - base) / size:.2f} of the file",
    }
    return Case(name, {"howsure": ours, "json.load and a loop": theirs}, notes)


def _peak_bytes(path: Path) -> int:
    done = subprocess.run(
        [sys.executable, "-c", ALONE, str(path)], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    return int(done.stdout)


def howsure_rows(path: Path) -> list[Any]:
    """Every statistic of every turn, one after the other."""
    from howsure.studies.trajectories.document import document
    from howsure.studies.trajectories.reading import read_sources
    from howsure.studies.trajectories.sources import find_sources

    readings = list(read_sources(find_sources([path])[0], jobs=1))
    runs = [run for reading in readings for run in reading.loaded.trajectories]
    found = document([reading.loaded for reading in readings], runs, verbose=True)
    return [
        value
        for row in found["results"]
        for turn in row["uncertainty_scores"]
        for value in (turn["ui_score"], *turn["statistics"].values())
    ]


def naive_rows(path: Path) -> list[Any]:
    """What scripts do: everything as dictionaries, and a loop."""
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    rows: list[Any] = []
    for simulation in data["simulations"]:
        for message in simulation["messages"]:
            tokens = message["raw_data"]["choices"][0]["logprobs"]["content"]
            u = [-token["logprob"] for token in tokens]
            n, total = len(u), sum(u)
            mean = total / n
            std = math.sqrt(sum((x - mean) ** 2 for x in u) / n)
            rows += [mean, mean, total, n, min(u), max(u), std, sum(math.exp(-x) for x in u) / n]
    return rows


def make(path: Path, size: int, indent: int | None, seed: int = 0) -> Path:
    """A results file of about so many bytes: runs of 20 turns of 80 tokens, five alternatives to each."""
    draw = random.Random(seed)
    with open(path, "w", encoding="utf-8") as file:
        file.write('{"timestamp": "2026-01-01", "info": null, "tasks": [], "simulations": [')
        number = 0
        while file.tell() < size:
            file.write((", " if number else "") + json.dumps(_simulation(draw, number), indent=indent))
            number += 1
        file.write("]}")
    return path


def _simulation(draw: random.Random, number: int) -> dict[str, Any]:
    return {
        "id": f"simulation-{number}",
        "task_id": f"task-{number % 50}",
        "trial": number // 50,
        "termination_reason": "user_stop",
        "reward_info": {"reward": float(draw.random() < 0.5)},
        "messages": [_message(draw, turn) for turn in range(20)],
    }


def _message(draw: random.Random, turn: int) -> dict[str, Any]:
    tokens = [make_token(draw) for _ in range(80)]
    text = "".join(token["token"] for token in tokens)
    choice = {"index": 0, "message": {"content": text}, "logprobs": {"content": tokens, "refusal": None}}
    return {
        "role": "assistant" if turn % 2 else "user",
        "content": text,
        "tool_calls": None,
        "turn_idx": turn,
        "usage": {"completion_tokens": 80, "prompt_tokens": 4000},
        "raw_data": {"id": "x", "object": "chat.completion", "choices": [choice]},
    }


def make_token(draw: random.Random) -> dict[str, Any]:
    logprob = -draw.expovariate(3.0)
    alternatives = [_entry(draw, logprob - 3.0 * draw.random()) for _ in range(5)]
    return _entry(draw, logprob) | {"top_logprobs": alternatives}


def _entry(draw: random.Random, logprob: float) -> dict[str, Any]:
    word = draw.choice(WORDS)
    return {"token": word, "bytes": list(word.encode()), "logprob": logprob}
