"""A whole step of the trust study: what three slow answers cost, what all but the model costs; and reading a log.

The server waits 300 ms before it answers, in a process of its own. The first case sets a step (three conditions, world,
frame, record, table) against one answer alone, asked without any library. The second leaves the model out: answers are
there at once, and what is left is the world, the shortest way, the picture, the record and the table. The third reads
a table of steps; beside it Python's own reader of CSV, with nothing made of its rows, and with a float of each number.
"""

from __future__ import annotations

import csv
import http.client
import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Case

WAIT_S = 0.3
ASKED_STEPS = 8
FREE_STEPS = 300
LOG_STEPS = 200_000
TOKENS = ['{"action": ["', "down", '"], "reasoning": "so"}']


def cases() -> list[Case]:
    base_url = _serve()
    return [
        Case(
            f"{ASKED_STEPS} steps of three answers that take {WAIT_S * 1000:.0f} ms each, home, both views",
            {
                "howsure": lambda: _asked_steps(base_url),
                "as many single answers": lambda: [_one_answer(base_url) for _ in range(ASKED_STEPS)],
                "three answers a step, one after the other": lambda: [
                    _one_answer(base_url) for _ in range(3 * ASKED_STEPS)
                ],
            },
            {"a step by one answer": _step_by_answer(base_url)},
        ),
        Case(
            f"{FREE_STEPS} steps without a model, fetch (14×14)",
            {"howsure": lambda: _free_steps()},
            {"milliseconds of a step": _milliseconds(_free_steps())},
        ),
        _log_case(),
    ]


def _log_case() -> Case:
    from howsure.studies.trust.logs import read_steps_csv
    from howsure.studies.trust.steps import ENTROPY_COLUMNS

    folder = tempfile.TemporaryDirectory()  # there as long as a contender is
    path = Path(folder.name) / "steps.csv"
    bits = np.random.default_rng(0).random((LOG_STEPS, 3))
    with path.open("w") as file:
        file.write(f"step,episode,timestamp,agent_x,agent_y,{','.join(ENTROPY_COLUMNS)},trust_T\n")
        for i, (x, s, ls) in enumerate(bits.tolist()):
            share = (x - s) / (x - ls)
            file.write(f"{i % 20 + 1},{i // 20 + 1},2025-01-21T16:51:19,5,6,{x},{s},{ls},{share}\n")

    def by_python(numbers: bool) -> None:
        with Path(folder.name, path.name).open(newline="") as file:
            for row in csv.reader(file):
                if numbers and row[0] != "step":
                    [float(cell) for cell in row[5:]]

    return Case(
        f"a log of {LOG_STEPS:,} steps, {path.stat().st_size / 1e6:.0f} MB",
        {
            "howsure": lambda: read_steps_csv(Path(folder.name, path.name)),
            "csv.reader alone": lambda: by_python(False),
            "csv.reader and float": lambda: by_python(True),
        },
    )


# -- a server that takes its time ---------------------------------------------------------------------------------


class _Slow(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        time.sleep(WAIT_S)
        top = [{"token": one, "logprob": -0.1, "bytes": list(one.encode())} for one in TOKENS]
        content = [{**one, "top_logprobs": [one]} for one in top]
        choice = {"index": 0, "message": {"role": "assistant", "content": "".join(TOKENS)}, "finish_reason": "stop"}
        body = json.dumps({"choices": [choice | {"logprobs": {"content": content}}]}).encode()
        self.wfile.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
        )

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""


def _serve() -> str:
    """In a process of its own, which ends with this one."""
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    multiprocessing.get_context("spawn").Process(target=_run_server, args=(theirs,), daemon=True).start()
    return f"http://127.0.0.1:{ours.recv()}/v1"


def _run_server(told: Any) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Slow)
    server.daemon_threads = True
    told.send(server.server_address[1])
    server.serve_forever()


def _one_answer(base_url: str) -> float:
    host = base_url.removeprefix("http://").removesuffix("/v1")
    began = time.perf_counter()
    connection = http.client.HTTPConnection(host)
    connection.request("POST", "/v1/chat/completions", b"{}", {"content-type": "application/json"})
    connection.getresponse().read()
    connection.close()
    return time.perf_counter() - began


# -- steps --------------------------------------------------------------------------------------------------------


def _timed(run: Callable[[Path, Callable[[Any], None]], Any]) -> list[float]:
    """Seconds from the end of one step to the end of the next."""
    ends: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder) / "run", lambda _: ends.append(time.perf_counter()))
    return [after - before for before, after in pairwise(ends)]


def _asked_steps(base_url: str) -> list[float]:
    import howsure

    return _timed(
        lambda out, on_step: howsure.trust(
            "home", "openai:slow", base_url=base_url, view="both", max_steps=ASKED_STEPS + 1, out=out, on_step=on_step
        )
    )


def _step_by_answer(base_url: str) -> str:
    _asked_steps(base_url)
    steps, answers = _asked_steps(base_url), [_one_answer(base_url) for _ in range(ASKED_STEPS)]
    ratio = statistics.median(steps) / statistics.median(answers)
    return f"{statistics.median(steps) * 1000:.0f} / {statistics.median(answers) * 1000:.0f} ms = {ratio:.3f}"


def _free_steps() -> list[float]:
    import howsure

    return _timed(
        lambda out, on_step: howsure.trust("fetch", _at_once(), max_steps=FREE_STEPS, out=out, on_step=on_step)
    )


def _milliseconds(seconds: list[float]) -> str:
    ordered = sorted(1000 * one for one in seconds)
    return f"median {statistics.median(ordered):.2f}, 95 of 100 under {ordered[-len(ordered) // 20]:.2f}"


def _at_once() -> Any:
    from howsure.evidence import TokenLogprobs
    from howsure.models.contract import Capability, Counters, Model

    class AtOnce(Model):
        """Scores at random without any work, so that the robot wanders about."""

        name = "at-once"
        capabilities = frozenset({Capability.SCORE})
        takes_chat = True
        counters = Counters()
        chance = np.random.default_rng(0)

        def fingerprint(self) -> dict[str, Any]:
            return {"backend": "none"}

        def try_score(self, items: Any, **options: Any) -> Any:
            return [
                [TokenLogprobs((word,), -self.chance.exponential(size=1)) for word in item.continuations]
                for item in items
            ]

    return AtOnce()
