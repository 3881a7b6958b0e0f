"""A loopback server that misbehaves as its script says, request by request.

A behaviour is a function of the open connection. `MisbehavingServer.script` holds one for each request to
come, and the last one stays; `by_prompt` instead chooses by the prompt or the last message. Every request is recorded.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

Behaviour = Callable[["Connection"], None]

LOGPROBS = {
    "content": [
        {
            "token": "Yes",
            "logprob": -0.25,
            "bytes": [89, 101, 115],
            "top_logprobs": [{"token": "Yes", "logprob": -0.25}, {"token": "No", "logprob": -2.0}],
        }
    ]
}


@dataclass
class Request:
    """What a client sent, and when."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    at_s: float


class Connection(BaseHTTPRequestHandler):
    """One open connection; behaviours write to it, in or out of form."""

    protocol_version = "HTTP/1.1"
    server: _Server
    asked: Request
    """What this connection's client sent."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.close_connection = True
        self.asked = Request(self.path, headers, body, time.monotonic())
        behaviour = self.server.owner.record(self.asked)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the client may have had enough
            behaviour(self)

    def head(self, status: int, length: int | None, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"content_type": "application/json", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        if length is not None:
            self.send_header("content-length", str(length))
        self.send_header("connection", "close")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    owner: MisbehavingServer


class MisbehavingServer:
    """Starts on a free port of 127.0.0.1; `base_url` is what a client needs."""

    def __init__(self) -> None:
        self.script: list[Behaviour] = [ok()]
        self.by_prompt: dict[str, Behaviour] = {}
        self.requests: list[Request] = []
        self.stopping = threading.Event()
        self._lock = threading.Lock()
        self._http = _Server(("127.0.0.1", 0), Connection)
        self._http.owner = self
        self.port = self._http.server_address[1]
        self.base_url = f"http://127.0.0.1:{self.port}/v1"

    def record(self, request: Request) -> Behaviour:
        with self._lock:
            self.requests.append(request)
            prompt = request.body["messages"][-1]["content"] if "messages" in request.body else request.body["prompt"]
            if isinstance(prompt, str) and prompt in self.by_prompt:
                return self.by_prompt[prompt]
            return self.script.pop(0) if len(self.script) > 1 else self.script[0]

    def __enter__(self) -> MisbehavingServer:
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.stopping.set()
        self._http.shutdown()
        self._http.server_close()


def chat(content: Any = "Yes", logprobs: Any = LOGPROBS, finish_reason: Any = "stop", **message: Any) -> dict[str, Any]:
    """The body of a chat answer."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": content, **message},
        "logprobs": logprobs,
        "finish_reason": finish_reason,
    }
    return {"object": "chat.completion", "choices": [choice], "usage": {"total_tokens": 7}}


def ok(text: str = "Yes", logprobs: Any = LOGPROBS) -> Behaviour:
    return answer(chat(text, logprobs))


def answer(body: Any, status: int = 200, **headers: str) -> Behaviour:
    """Any body, as JSON unless it is text already (Python writes NaN as the literal that JSON has not)."""
    return raw((body if isinstance(body, str) else json.dumps(body)).encode(), status, **headers)


def error(status: int, message: str, code: str | None = None, param: str | None = None, **headers: str) -> Behaviour:
    return answer({"error": {"message": message, "code": code, "param": param, "type": None}}, status, **headers)


def raw(body: bytes, status: int = 200, **headers: str) -> Behaviour:
    def behave(connection: Connection) -> None:
        connection.head(status, len(body), **headers)
        connection.wfile.write(body)

    return behave


def disconnect_mid_body() -> Behaviour:
    def behave(connection: Connection) -> None:
        body = json.dumps(chat()).encode()
        connection.head(200, len(body))
        connection.wfile.write(body[: len(body) // 2])

    return behave


def hang_up() -> Behaviour:
    """Close without a word."""
    return lambda connection: connection.connection.close()


def drip(pause_s: float = 0.02) -> Behaviour:
    """One byte at a time and never the last one: no single read takes long."""

    def behave(connection: Connection) -> None:
        connection.head(200, 10**9)
        while not connection.server.owner.stopping.wait(pause_s):
            connection.wfile.write(b" ")
            connection.wfile.flush()

    return behave


def silent() -> Behaviour:
    """Take the request and never answer."""

    def behave(connection: Connection) -> None:
        connection.server.owner.stopping.wait(60)

    return behave


def endless() -> Behaviour:
    """A body without a length that never ends."""

    def behave(connection: Connection) -> None:
        connection.head(200, None)
        while not connection.server.owner.stopping.is_set():
            connection.wfile.write(b"x" * 65536)

    return behave


def delayed(seconds: float, then: Behaviour) -> Behaviour:
    def behave(connection: Connection) -> None:
        time.sleep(seconds)
        then(connection)

    return behave


def reset() -> Behaviour:
    """Break the connection off in the hardest way: whatever is under way is lost, and the client is told so."""

    def behave(connection: Connection) -> None:
        connection.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.connection.close()

    return behave


def cut_off(body: Any) -> Behaviour:
    """The first half of a good answer, and then nothing."""
    content = json.dumps(body).encode()

    def behave(connection: Connection) -> None:
        connection.head(200, len(content))
        connection.wfile.write(content[: len(content) // 2])

    return behave


def without_numbers(body: Any) -> Any:
    """The answer with NaN for every log-probability."""
    if isinstance(body, dict):
        return {name: float("nan") if name == "logprob" else without_numbers(part) for name, part in body.items()}
    return [without_numbers(part) for part in body] if isinstance(body, list) else body


WAYS_THAT_PASS: dict[str, Callable[[Any], Behaviour]] = {
    "500": lambda body: error(500, "something broke"),
    "503": lambda body: error(503, "overloaded, come back later"),
    "429": lambda body: error(429, "too many requests"),
    "429 with a wait": lambda body: error(429, "too many requests", retry_after="0.02"),
    "reset": lambda body: reset(),
    "hangs": lambda body: silent(),
    "cut off": cut_off,
    "broken JSON": lambda body: raw(json.dumps(body).encode()[:-7]),
    "a page": lambda body: raw(b"<html><body>Bad gateway</body></html>", content_type="text/html"),
}
"""Ways to fail that the next attempt may well not meet."""

WAYS_THAT_STAY: dict[str, Callable[[Any], Behaviour]] = {
    "no choices": lambda body: answer(body | {"choices": []}),
    "other fields": lambda body: answer({"object": "list", "data": [1, 2, 3]}),
}
"""Ways to fail that are answers, in form, and so are not asked again."""

NO_NUMBERS: dict[str, Callable[[Any], Behaviour]] = {"NaN": lambda body: answer(without_numbers(body))}


class Unreliable(MisbehavingServer):
    """Gives good answers but for a share of all attempts, which fail in one of many ways.

    The seed decides which. An attempt is known by its request and by how often that was made before, so that the order
    does not matter in which requests happen to come in.
    """

    def __init__(self, good: Callable[[dict[str, Any]], Any], ways: dict[str, Callable[[Any], Behaviour]]) -> None:
        super().__init__()
        self.good, self.ways = good, ways
        self.share, self.seed = 0.0, 0
        self.attempts: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()

    def disturb(self, share: float, seed: int = 0) -> None:
        self.share, self.seed = share, seed
        self.attempts.clear()
        self.failed.clear()

    def record(self, request: Request) -> Behaviour:
        key = hashlib.sha256(json.dumps([request.path, request.body], sort_keys=True).encode()).hexdigest()
        with self._lock:
            self.attempts[key] += 1
            draw = random.Random(f"{self.seed}/{key}/{self.attempts[key]}")
            if draw.random() >= self.share:
                return answer(self.good(request.body))
            way = draw.choice(sorted(self.ways))
            self.failed[way] += 1
        return self.ways[way](self.good(request.body))
