"""`howsure view` in a process of its own."""

from __future__ import annotations

import contextlib
import http.client
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def viewing(
    folder: Path, *options: str, descriptors: int | None = None, **environment: str
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address that it prints, and the process."""

    def limit() -> None:
        if descriptors is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

    process = subprocess.Popen(
        [sys.executable, "-m", "howsure", "view", str(folder), "--port", "0", *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=limit,
        env={name: value for name, value in os.environ.items() if name != "HOWSURE_VIEW_TOKEN"} | environment,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip(), process
    finally:
        process.kill()
        process.communicate()


def port_of(url: str) -> int:
    return int(url.split("//", 1)[1].partition("/")[0].rpartition(":")[2])


def get(port: int, path: str = "/") -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        return answer.status
