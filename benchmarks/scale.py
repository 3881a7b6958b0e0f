"""`howsure trajectories` over 62 to 1,000 files of 2 MB: time and memory by number of files, and by number of workers.

The files are made by chance in τ²'s form, four runs each with five alternatives to every token, and kept in
benchmarks/out/scale between runs (2 GB). For growth, each measurement is a process of its own, as a user starts it.
For workers, the same files are read by one and by two, by turns; what starting them takes is measured apart.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.harness import Case
from benchmarks.trajectories import make_token

FILES, RUNS_A_FILE, TURNS, TOKENS_A_TURN = 1000, 4, 16, 64
MESSAGES_MADE = 400
MADE = Path(__file__).parent / "out" / "scale"
COUNTS = (62, 125, 250, 500, 1000)
FILES_FOR_SCALING = 1000
ROUNDS = 5

ALONE = """
import json, resource, sys, time
from howsure.cli.app import main
began = time.perf_counter()
try:
    main()
finally:
    seconds = time.perf_counter() - began
    own, others = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    print(json.dumps({
        "seconds": seconds,
        "cpu_seconds": sum(one.ru_utime + one.ru_stime for one in (own, others)),
        "driver_bytes": own.ru_maxrss * 1024,
    }), file=sys.stderr)
"""


WORKER = """
import pickle, resource, sys
from howsure.studies.trajectories.reading import Reader, handed_out
from howsure.studies.trajectories.sources import find_sources
reader = Reader()
for piece in handed_out(find_sources(sys.argv[1:])[0]):
    pickle.dumps(reader(piece))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""
"""What a worker does, alone: children's peaks as the system tells them hold what they share with their parent."""


APART = """
import pickle, sys, time
from howsure.studies.trajectories.reading import Reader, handed_out
from howsure.studies.trajectories.sources import find_sources
reader, pieces = Reader(), list(handed_out(find_sources(sys.argv[2:])[0]))[int(sys.argv[1])::2]
print("ready", flush=True)
sys.stdin.readline()
began = time.perf_counter()
for piece in pieces:
    pickle.dumps(reader(piece))
print(time.perf_counter() - began)
"""
"""Every second piece, read by a process that nobody hands anything to."""


def cases() -> list[Case]:
    make_files()
    worker_bytes(FILES)  # so that what is measured first finds the files in memory too
    notes: dict[str, Any] = {}
    for words, options in (("", []), (" with --out", ["--out"])):
        for count in COUNTS:
            notes[f"{count} files{words}"] = _shown(grown(count, options))
    notes |= {f"a worker that reads {count} files": f"{worker_bytes(count) / 1e6:.0f} MB" for count in (62, 1000)}
    notes |= {f"two workers against one, {name}": value for name, value in scaling().items()}
    notes["two processes that know nothing of each other"] = apart()
    return [Case(f"{FILES_FOR_SCALING} files read", {"two processes": _read_by(2), "one process": _read_by(1)}, notes)]


def _read_by(workers: int) -> Callable[[], Any]:
    from howsure.runs.processes import ProcessEngine

    return lambda: _read_all(ProcessEngine(workers))


def grown(count: int, options: list[str]) -> dict[str, float]:
    """What the command takes over so many files, in a process of its own."""
    with tempfile.TemporaryDirectory() as scratch:
        out = [*options, f"{scratch}/run"] if options else []
        command = [sys.executable, "-c", ALONE, "trajectories", str(folder_of(count)), "--quiet", "--json", *out]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=dict(os.environ))
    found: dict[str, float] = json.loads(done.stderr.strip().splitlines()[-1])
    return found


def _shown(found: dict[str, float]) -> str:
    return f"{found['seconds']:.1f} s ({found['cpu_seconds']:.1f} s of CPU), {found['driver_bytes'] / 1e6:.0f} MB"


def worker_bytes(count: int) -> int:
    command = [sys.executable, "-c", WORKER, str(folder_of(count))]
    return int(subprocess.run(command, capture_output=True, text=True, check=True, env=dict(os.environ)).stdout)


def scaling(rounds: int = ROUNDS) -> dict[str, str]:
    """Seconds that one and two workers take for the same files, by turns; for processes and for Ray."""
    from howsure.runs.processes import ProcessEngine
    from howsure.runs.ray_engine import RayEngine

    found = {}
    for name, engine in (("processes", ProcessEngine), ("Ray", RayEngine)):
        times: dict[int, list[float]] = {1: [], 2: []}
        starts: list[float] = []
        for _ in range(rounds):
            for workers in times:
                with closing(engine(workers=workers)) as doer:
                    start, seconds = _read_all(doer)
                times[workers].append(seconds)
                starts.append(start)
        ratios = [one / two for one, two in zip(times[1], times[2], strict=True)]
        found[name] = (
            f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}; "
            f"{min(times[1]):.2f} s and {min(times[2]):.2f} s at best, started in {statistics.median(starts):.2f} s)"
        )
    return found


def apart(rounds: int = ROUNDS) -> str:
    """What the machine itself allows: each half of the files by a process, at the same time and one after the other."""
    ratios = []
    for _ in range(rounds):
        one, other = _halves(0), _halves(1)
        ratios.append((one[0] + other[0]) / max(_halves(0, 1)))
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def _halves(*which: int) -> list[float]:
    """Seconds that halves of the files take, all begun together."""
    command = [sys.executable, "-c", APART]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    folder = str(folder_of(FILES_FOR_SCALING))
    readers = [subprocess.Popen([*command, str(half), folder], **pipes) for half in which]
    for reader in readers:
        assert reader.stdout is not None
        reader.stdout.readline()
    for reader in readers:
        assert reader.stdin is not None
        reader.stdin.write("\n")
        reader.stdin.flush()
    return [float(reader.communicate()[0]) for reader in readers]


def _read_all(engine: Any) -> tuple[float, float]:
    """Seconds until the workers are there, and until all files are read after that."""
    from howsure.studies.trajectories.reading import Reader, handed_out
    from howsure.studies.trajectories.sources import find_sources

    pieces = list(handed_out(find_sources([folder_of(FILES_FOR_SCALING)])[0]))
    reader = Reader()
    began = time.perf_counter()
    getattr(engine, "load_all", engine.load)(reader)
    ready = time.perf_counter()
    read = sum(len(readings) for readings in engine.run(reader, pieces))
    assert read == FILES_FOR_SCALING
    return ready - began, time.perf_counter() - ready


# -- files ---------------------------------------------------------------------------------------------------------


def make_files() -> None:
    """All files, unless they are there; whoever stopped half-way begins again."""
    if (MADE / "whole").is_file():
        return
    shutil.rmtree(MADE, ignore_errors=True)
    (MADE / "files").mkdir(parents=True)
    draw = random.Random(0)
    messages = {role: [_message(draw, role) for _ in range(MESSAGES_MADE)] for role in ("user", "assistant")}
    for number in range(FILES):
        _place(number).write_text("".join(_results(draw, number, messages)), encoding="utf-8")
    (MADE / "whole").touch()


def folder_of(count: int) -> Path:
    """A folder of the first so many files."""
    folder = MADE / f"first-{count}"
    folder.mkdir(exist_ok=True)
    for number in range(count):
        link = folder / _place(number).name
        if not link.exists():
            os.link(_place(number), link)
    return folder


def _place(number: int) -> Path:
    return MADE / "files" / f"results-{number:04}.json"


def _results(draw: random.Random, number: int, messages: dict[str, list[str]]) -> Iterator[str]:
    """A file of four runs of one task, whose messages are drawn from those that were made."""
    info = {"agent_info": {"llm": "an-agent"}, "environment_info": {"domain_name": ("airline", "retail")[number % 2]}}
    yield f'{{"timestamp": "2026-01-01T00:00:00", "info": {json.dumps(info)}, "tasks": [], "simulations": ['
    for trial in range(RUNS_A_FILE):
        head = {
            "id": f"simulation-{number}-{trial}",
            "task_id": f"task-{number // 2 % 100}",
            "trial": trial,
            "termination_reason": "user_stop",
            "reward_info": {"reward": float(draw.random() < 0.6)},
        }
        turns = [draw.choice(messages["assistant" if turn % 2 else "user"]) for turn in range(TURNS)]
        yield f'{", " if trial else ""}{json.dumps(head)[:-1]}, "messages": [{", ".join(turns)}]}}'
    yield "]}"


def _message(draw: random.Random, role: str) -> str:
    tokens = [make_token(draw) for _ in range(TOKENS_A_TURN)]
    text = "".join(token["token"] for token in tokens)
    choice = {"index": 0, "message": {"content": text}, "logprobs": {"content": tokens, "refusal": None}}
    return json.dumps(
        {
            "role": role,
            "content": text,
            "tool_calls": None,
            "turn_idx": None,
            "usage": {"completion_tokens": TOKENS_A_TURN, "prompt_tokens": 4000},
            "raw_data": {"id": "x", "object": "chat.completion", "choices": [choice]},
        }
    )
