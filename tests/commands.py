"""`howsure` as a real process of its own, without importing torch anew for each.

Most of what a short command takes is Python loading its packages. So a server that has loaded them, and has done
nothing else, forks one process for each command (`forkserver`): with its own arguments, variables, standard streams and
exit code, as from a shell, and for the fault suite with a fault. What only a fresh interpreter shows (that it starts
quickly, loads little and finds all that it imports) is tested with `fresh=True`, at least once for every study.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

LIMIT_S = 240
SINGLE_THREADED = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
FRESH_ONLY = ("HF_", "PYTHON")
"""How variables begin that are read once, when Python or a package is loaded."""


def howsure(
    *arguments: Any, stdin: str | None = None, fresh: bool = False, **variables: str
) -> subprocess.CompletedProcess[str]:
    """A command, its end and what it said; without `stdin` there is nothing to read."""
    given = list(map(str, arguments))
    environment = {**os.environ, **variables}
    if fresh or any(name.startswith(FRESH_ONLY) for name in variables):
        return _fresh(given, stdin, environment)
    does = "howsure.__main__:main"
    started = commands().start(*given, does=does, folder=os.getcwd(), stdin=stdin, environment=environment)
    ended = started.wait(LIMIT_S)
    return subprocess.CompletedProcess(given, ended.code, ended.out, ended.said)


def _fresh(arguments: list[str], stdin: str | None, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "howsure", *arguments],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env=environment,
        check=False,
    )


def assert_one_sentence(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    """The right exit code, one line on standard error, nothing else."""
    assert done.returncode == code, done.stderr
    assert all(word in done.stderr for word in words), done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert len([line for line in done.stderr.splitlines() if line.strip()]) == 1


# -- by way of the server -------------------------------------------------------------------------------------------


class Ended(NamedTuple):
    """How a command ended: its exit code, or minus the signal; and what it said."""

    code: int
    out: str
    said: str
    seconds: float

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL


class Started:
    """A command that is under way."""

    def __init__(self, connection: socket.socket, asked: dict[str, Any]) -> None:
        self._connection, self._asked = connection, asked
        self._began = time.monotonic()
        connection.sendall(json.dumps(asked).encode() + b"\n")
        self._told = connection.makefile("r")
        self.pid = int(self._told.readline())

    def kill(self) -> Ended:
        """kill -9, now, if it has not ended by itself."""
        with contextlib.suppress(OSError):
            self._connection.sendall(b"kill\n")
        return self.wait()

    def wait(self, seconds: float = LIMIT_S) -> Ended:
        """Its end; one that does not end in time is killed, and is an error."""
        self._connection.settimeout(seconds)
        with self._connection, self._told:
            code = int(self._told.readline())
        out, said = (Path(self._asked[name]).read_text(errors="replace") for name in ("stdout", "stderr"))
        return Ended(code, out, said, time.monotonic() - self._began)


class Commands:
    """Starts commands of howsure, each a process of its own, by way of `forkserver`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count()
        self._socket = str(folder / "s")
        places = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
        self._server = subprocess.Popen(
            [sys.executable, "-m", "forkserver", self._socket],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={**os.environ, **SINGLE_THREADED, "PYTHONPATH": places},
        )
        assert self._server.stdout is not None
        assert self._server.stdout.readline() == "ready\n"

    def start(
        self,
        *arguments: object,
        does: str = "howsure.cli.app:main",
        folder: str | Path | None = None,
        stdin: str | None = None,
        environment: Mapping[str, str] | None = None,
        **fault: Any,
    ) -> Started:
        """Without `does` the command of howsure with these arguments, which it finds where commands find theirs."""
        name = self._folder / f"command-{next(self._numbers)}"
        asked = {
            "does": does,
            "arguments": [str(one) for one in arguments],
            "folder": str(folder or self._folder),
            "environment": environment or {**os.environ, **SINGLE_THREADED, "NO_COLOR": "1"},
            "stdin": stdin,
            "stdout": f"{name}.out",
            "stderr": f"{name}.err",
            "fault": fault,
        }
        for stream in ("stdout", "stderr"):
            Path(str(asked[stream])).touch()  # one that is killed at once never opens them
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(self._socket)
        return Started(connection, asked)

    def run(self, *arguments: object, **fault: Any) -> Ended:
        return self.start(*arguments, **fault).wait()

    def finish(self, *arguments: object, failures: bool = False, **fault: Any) -> Ended:
        """Run to the end, which must be a good one; `failures` where samples may have failed."""
        ended = self.run(*arguments, **fault)
        assert ended.code in ((0, 1) if failures else (0,)), f"{arguments} ended with {ended.code}:\n{ended.said}"
        assert "Traceback" not in ended.said, ended.said
        return ended

    def refused(self, *arguments: object, **fault: Any) -> str:
        """Run to its end in one sentence, and give that."""
        ended = self.run(*arguments, **fault)
        assert "Traceback" not in ended.said, ended.said
        assert ended.code == 2, f"{arguments} ended with {ended.code}:\n{ended.said}"
        return ended.said

    def close(self) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait(timeout=LIMIT_S)


@functools.cache
def commands() -> Commands:
    """The one server of this process, which ends with it."""
    folder = tempfile.TemporaryDirectory(prefix="howsure-")  # a socket's name must be short
    made = Commands(Path(folder.name))
    atexit.register(folder.cleanup)
    atexit.register(made.close)
    return made
