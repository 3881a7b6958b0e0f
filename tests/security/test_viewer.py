"""The viewer on an open address: who sends half a request, or reads nothing, keeps nobody else out."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from howsure.report.viewer import guard, server
from report.viewer.asking import write_run
from security.viewing import get, port_of, viewing

SHORT = 1.0
"""Seconds that stand for the ten and the sixty of the product."""
LARGE = b"x" * (64 << 20)


# -- a real process ------------------------------------------------------------------------------------------------


def half_sent(port: int, held: contextlib.ExitStack) -> None:
    """A connection that sends the beginning of a request, and stays."""
    client = held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
    with contextlib.suppress(OSError):  # that it was thrown out at once
        client.sendall(b"GET / HTTP/1.1\r\nHost: 127")


def test_half_sent_requests_keep_nobody_out(tmp_path: Path) -> None:
    write_run(tmp_path / "one")
    with viewing(tmp_path, descriptors=64) as (url, process):
        port = port_of(url)
        with contextlib.ExitStack() as held:
            for _ in range(200):
                half_sent(port, held)
            for _ in range(3):
                assert get(port) == 200
                assert get(port, "/run?path=one") == 200
            assert process.poll() is None
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=10)
            assert time.monotonic() - began < 5
        assert process.returncode == 0
        assert err == f"howsure: showing 1 run below {tmp_path} at this address; Ctrl-C ends it\n"


def test_the_limit_leaves_descriptors_for_files(monkeypatch: pytest.MonkeyPatch) -> None:
    in_use = len(os.listdir("/dev/fd"))
    for allowed, expected in ((in_use + 108, 25), (in_use, 1), (1 << 20, 256), (resource.RLIM_INFINITY, 256)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, allowed=allowed: (allowed, allowed))
        assert abs(guard.most_connections() - expected) <= 1


# -- the server alone, with short times ------------------------------------------------------------------------------


async def _answers(scope: Scope, receive: Receive, send: Send) -> None:
    """`/large`: more than a connection buffers; `/slow`: after a while; anything else: at once."""
    if scope["path"] == "/slow":
        await asyncio.sleep(2.5 * SHORT)
    body = LARGE if scope["path"] == "/large" else b"here"
    length = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": length})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
def serving(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., int]]:
    """Starts a server that takes at most so many connections; gives its port."""
    monkeypatch.setattr(guard, "REQUEST_SECONDS", SHORT)
    monkeypatch.setattr(guard, "STALLED_SECONDS", 2.5 * SHORT)
    with contextlib.ExitStack() as ends:

        def start(most: int = 8) -> int:
            monkeypatch.setattr(guard, "MOST_CONNECTIONS", most)
            listener = server.listen("127.0.0.1", 0)
            config = uvicorn.Config(_answers, log_level="critical", lifespan="off", ws="none", timeout_keep_alive=60)
            running = guard.Server(config)
            thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
            thread.start()
            ends.callback(thread.join, 10)
            ends.callback(setattr, running, "should_exit", True)
            port: int = listener.getsockname()[1]
            return port

        yield start


def ended_after(client: socket.socket) -> float:
    """Seconds until the other side ends it."""
    began = time.monotonic()
    client.settimeout(20)
    with contextlib.suppress(ConnectionError):
        while client.recv(1 << 16):
            pass
    return time.monotonic() - began


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nHost: 127", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"])
def test_who_sends_no_further_request_is_let_go(serving: Callable[..., int], said: bytes) -> None:
    with socket.create_connection(("127.0.0.1", serving())) as client:
        client.sendall(said)
        assert ended_after(client) < 10


def test_a_head_that_drips_is_given_up(serving: Callable[..., int]) -> None:
    with socket.create_connection(("127.0.0.1", serving())) as client:
        client.sendall(b"GET / HTTP/1.1\r\nX: ")
        began = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - began < 20:
                client.sendall(b"x")
                time.sleep(SHORT / 10)
        assert time.monotonic() - began < 10


def test_who_reads_nothing_is_let_go_and_who_reads_slowly_gets_all(serving: Callable[..., int]) -> None:
    port = serving()
    with contextlib.ExitStack() as held:
        stalled, slow = (held.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(2))
        for client in (stalled, slow):
            client.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        got, began = 0, time.monotonic()
        while got < len(LARGE) and (part := slow.recv(1 << 20)):
            got += len(part)
            time.sleep(3 * SHORT * len(part) / len(LARGE))  # longer than it may do without reading
        assert got >= len(LARGE)
        assert time.monotonic() - began > 3 * SHORT
        time.sleep(1.5 * SHORT)
        stalled.settimeout(20)
        got = 0
        with contextlib.suppress(ConnectionError):
            while part := stalled.recv(1 << 20):
                got += len(part)
        assert got < len(LARGE)


def test_an_answer_that_takes_long_to_make_is_waited_for(serving: Callable[..., int]) -> None:
    assert get(serving(), "/slow") == 200


def test_who_asks_again_and_again_stays_while_idle_ones_make_room(serving: Callable[..., int]) -> None:
    port = serving(4)
    busy = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    with contextlib.closing(busy), contextlib.ExitStack() as held:
        busy.connect()
        first = busy.sock
        began = time.monotonic()
        while time.monotonic() - began < 2.5 * SHORT:
            half_sent(port, held)
            busy.request("GET", "/")
            assert busy.getresponse().read() == b"here"
        assert busy.sock is first


def test_where_all_are_being_answered_no_more_come_in(serving: Callable[..., int]) -> None:
    port = serving(2)
    with contextlib.ExitStack() as held:
        answered = [held.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(2)]
        for client in answered:
            client.sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(SHORT / 2)
        late = held.enter_context(socket.create_connection(("127.0.0.1", port)))
        assert ended_after(late) < 1.5 * SHORT
        for client in answered:
            client.settimeout(20)
            assert client.recv(100).startswith(b"HTTP/1.1 200")
