"""`howsure view` as a new user meets it: a real process, a real port."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from howsure.errors import InputError
from howsure.report.viewer import server
from report.viewer.asking import write_run

pytestmark = pytest.mark.long


def arguments(*given: str | Path) -> list[str]:
    return [sys.executable, "-m", "howsure", "view", *map(str, given)]


def refused(*given: str | Path) -> str:
    """What is said by a viewer that does not start: one sentence, and nothing else."""
    done = subprocess.run(arguments(*given), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    return done.stderr


@contextlib.contextmanager
def viewing(*given: str | Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The line that it prints, and the process."""
    process = subprocess.Popen(arguments(*given), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip(), process
    finally:
        process.kill()
        process.communicate()


def ask(port: int, path: str, method: str = "GET", **headers: str) -> tuple[int, str, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    return answer.status, answer.read().decode(), answer.headers


def port_of(url: str) -> int:
    return int(url.split("//", 1)[1].partition("/")[0].rpartition(":")[2])


@pytest.fixture
def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def test_it_prints_its_address_answers_there_and_ends_quietly(tmp_path: Path, free_port: int) -> None:
    write_run(tmp_path / "one")
    with viewing(tmp_path, "--port", str(free_port)) as (url, process):
        assert url == f"http://127.0.0.1:{free_port}/"
        status, text, headers = ask(free_port, "/run?path=one")
        assert status == 200
        assert "mcq: tiny" in text
        assert "server" not in headers
        assert ask(free_port, "/", "POST")[0] == 405
        assert ask(free_port, "/", Host="evil.example")[0] == 421
        assert ask(free_port, "/../../etc/passwd")[0] == 404
        assert "is not to be had on 127.0.0.1" in refused(tmp_path, "--port", str(free_port))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        assert process.returncode == 0
        assert out == ""
        assert err == f"howsure: showing 1 run below {tmp_path} at this address; Ctrl-C ends it\n"


def test_without_a_port_the_next_free_one_is_taken(tmp_path: Path) -> None:
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            taken = held.enter_context(socket.socket())
            taken.bind(("127.0.0.1", 8765))
            taken.listen()
        with viewing(tmp_path, "--json", "--quiet") as (line, process):
            assert line == "{"
            assert process.stdout is not None
            told = json.loads("{" + "".join(process.stdout.readline() for _ in range(4)))
            assert port_of(told["url"]) > 8765
            assert told["runs"] == 0
            assert "howsure demo" in ask(port_of(told["url"]), "/")[1]


def test_other_machines_need_a_token(tmp_path: Path, free_port: int) -> None:
    said = refused(tmp_path, "--host", "0.0.0.0")
    assert "--host 0.0.0.0 lets other machines in, and needs a token" in said
    assert "--token takes `auto` alone" in refused(tmp_path, "--host", "0.0.0.0", "--token", "x" * 16)
    with viewing(tmp_path, "--port", str(free_port), "--token", "auto") as (url, _):
        path = url.removeprefix(f"http://127.0.0.1:{free_port}")
        assert len(path.removeprefix("/?token=")) >= 16
        assert ask(free_port, "/")[0] == 401
        status, _, headers = ask(free_port, path)
        assert (status, headers["location"]) == (303, "/")
        assert ask(free_port, "/", Cookie=headers["set-cookie"].partition(";")[0])[0] == 200


def test_what_cannot_be_served_is_one_sentence(tmp_path: Path) -> None:
    said = refused(tmp_path / "nothing")
    assert "nothing is not a folder: name one that holds run folders, or make some with `howsure demo`" in said
    said = refused(tmp_path, "--host", "192.0.2.1", "--token", "auto")
    assert "--host 192.0.2.1 is no address of this machine" in said
    with pytest.raises(InputError, match="--host is empty"):
        server.checked_host("")


def test_an_address_of_the_sixth_version_is_one_that_can_be_opened() -> None:
    assert server.Address(server.checked_host("[::1]"), 8765, None).url == "http://[::1]:8765/"


def test_a_dry_run_serves_nothing(tmp_path: Path) -> None:
    write_run(tmp_path / "one")
    done = subprocess.run(arguments(tmp_path, "--dry-run"), capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "would take: 1 runs, 0 model calls, 0 tokens\n"


def test_without_its_packages_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "hidden" / "uvicorn").mkdir(parents=True)
    (tmp_path / "hidden" / "uvicorn" / "__init__.py").write_text("raise ImportError('hidden', name='uvicorn')")
    paths = os.pathsep.join(filter(None, (str(tmp_path / "hidden"), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        arguments(tmp_path), capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": paths},
    )  # fmt: skip
    assert done.returncode == 2
    assert "the viewer needs the package 'uvicorn'" in done.stderr
    assert 'pip install "howsure[web]"' in done.stderr
