"""`howsure` as a real process of its own, without importing torch anew for each.

Most of what a short command takes is Python loading its packages. So a server that has loaded them, and has done
nothing else, forks one process for each command (`multiprocessing`'s fork server): with its own arguments, variables,
standard streams and exit code, as from a shell. What only a fresh interpreter shows (that it starts quickly, loads
little and finds all that it imports) is tested with `fresh=True`, at least once for every study.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
from multiprocessing.reduction import DupFd
from typing import Any

PRELOADED = (
    "howsure.cli.app",
    "howsure.models.hf.scoring",
    "howsure.models.hf.pixels",
    "howsure.models.registry",
    "howsure.report.run_report",
    "howsure.report.terminal",
    "howsure.studies.grounding.study",
    "howsure.studies.mcq",
    "howsure.studies.perplexity.study",
    "howsure.studies.trust",
    "minigrid",
    "networkx",
    "relplot",
    "rich.progress",
    "sklearn.metrics",
    "transformers.generation.utils",
    "transformers.models.auto.modeling_auto",
    "transformers.models.auto.tokenization_auto",
    "transformers.models.llama.modeling_llama",
)
"""What is loaded before any command begins. One that cannot be had is left to the command that needs it."""
LIMIT_S = 240
PIPE_BYTES = 65_536
"""What a pipe takes without a reader."""
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
    return _forked(given, stdin, environment)


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


def _forked(arguments: list[str], stdin: str | None, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    reading = _filled_pipe(stdin)
    try:
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            job = _Command(arguments, environment, os.getcwd(), [reading, out.fileno(), err.fileno()])
            process = context.Process(target=job)
            process.start()
            code = _end(process)
            said = [_all_of(stream) for stream in (out, err)]
    finally:
        os.close(reading)
    return subprocess.CompletedProcess(arguments, code, *said)


def _filled_pipe(text: str | None) -> int:
    """Something to read `text` from, as from a shell's pipe; nothing at all where there is none."""
    if text is None:
        return os.open(os.devnull, os.O_RDONLY)
    data = text.encode()
    assert len(data) <= PIPE_BYTES
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(data)
    return reading


def _end(process: Any) -> int:
    """The exit code; a process that does not end is ended, and is an error."""
    process.join(LIMIT_S)
    if process.exitcode is None:
        process.kill()
        process.join()
        raise subprocess.TimeoutExpired("howsure", LIMIT_S)
    code: int = process.exitcode
    return code


def _all_of(stream: Any) -> str:
    stream.seek(0)
    return str(stream.read().decode())


class _Command:
    """What the forked process does. Pickled on its way there, its streams are passed on as open files."""

    def __init__(self, arguments: list[str], environment: dict[str, str], folder: str, streams: list[int]) -> None:
        self.arguments, self.environment, self.folder = arguments, environment, folder
        self.streams: list[Any] = streams

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "streams": [DupFd(stream) for stream in self.streams]}

    def __call__(self) -> None:
        """As `python -m howsure` would, from the arguments on."""
        import runpy

        for number, stream in enumerate(self.streams):
            os.dup2(stream.detach(), number)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
        os.environ.clear()
        os.environ.update(self.environment)
        os.chdir(self.folder)
        sys.argv = ["howsure", *self.arguments]
        runpy.run_module("howsure", run_name="__main__", alter_sys=True)


def assert_one_sentence(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    """The right exit code, one line on standard error, nothing else."""
    assert done.returncode == code, done.stderr
    assert all(word in done.stderr for word in words), done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert len([line for line in done.stderr.splitlines() if line.strip()]) == 1
