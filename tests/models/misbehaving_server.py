"""A loopback server that misbehaves as its script says, request by request.

A behaviour is a function of the open connection. `MisbehavingServer.script` holds one for each request to
come, and the last one stays; `by_prompt` instead chooses by the prompt or the last message. Every request is recorded.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
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
