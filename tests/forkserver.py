"""Commands of howsure as processes of their own that start in no time, so that many can be killed.

Importing torch and transformers takes seconds. This server does it once; every command is a fork of it, with its own
arguments, streams and fault (`faults.injection`). Run as `python -m forkserver SOCKET`, it ends when its
standard input does. A client sends one line of JSON and gets back two numbers: the process, and how it
ended; another line, or none at all from a client that has gone, kills it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import sys
from typing import Any, NoReturn

SLOW = (
    "torch", "transformers", "accelerate", "safetensors.torch", "minigrid", "networkx", "openai", "relplot",
    "sklearn.metrics", "scipy.stats", "PIL.Image", "filelock", "rich.progress", "rich.table",
    "transformers.generation.utils",
    "transformers.models.auto.modeling_auto", "transformers.models.auto.tokenization_auto",
    "transformers.models.llama.modeling_llama", "transformers.models.qwen3_vl.modeling_qwen3_vl",
)  # fmt: skip
"""What commands import on their way, beside howsure itself."""
PIPE_BYTES = 65_536
"""What a pipe takes without a reader."""


def import_all() -> None:
    """All of howsure and all that takes long; what is not installed is left to the tests that need it."""
    import howsure

    ours = [one.name for one in pkgutil.walk_packages(howsure.__path__, "howsure.") if "__main__" not in one.name]
    for name in (*SLOW, *ours):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()  # so that a fork need not look through all of it


def main() -> None:
    import_all()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(sys.argv[1])
        listener.listen(64)
        print("ready", flush=True)
        while True:
            ready, _, _ = select.select([listener, sys.stdin], [], [])
            if sys.stdin in ready:
                return
            connection, _ = listener.accept()
            bury_the_dead()
            if os.fork() == 0:
                listener.close()
                attend(connection)
            connection.close()


def bury_the_dead() -> None:
    """Wait for those that have ended, so that their time counts as this process's."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue


def attend(connection: socket.socket) -> NoReturn:
    """Start the command, tell its process, kill it where the client sends another line, tell how it ended."""
    with connection, connection.makefile("rw") as line:
        asked = json.loads(line.readline())
        pid = os.fork()
        if pid == 0:
            connection.close()
            carry_out(asked)
        print(pid, file=line, flush=True)
        ended = os.pidfd_open(pid)
        ready, _, _ = select.select([ended, connection], [], [])
        if ended not in ready:
            os.kill(pid, signal.SIGKILL)  # nobody else can have its number as long as nobody waited for it
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), file=line, flush=True)
    os._exit(0)


def carry_out(asked: dict[str, Any]) -> NoReturn:
    """The command itself, in this process, with nothing left of the one that it was forked from."""
    os.setsid()
    # A shell's background jobs ignore Ctrl-C, and so would whatever a suite that is one of them starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.dup2(os.open(os.devnull, os.O_RDONLY) if asked["stdin"] is None else filled_pipe(asked["stdin"]), 0)
    for number, name in ((1, asked["stdout"]), (2, asked["stderr"])):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), number)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    sys.argv = ["howsure", *asked["arguments"]]
    code = 1
    try:
        from faults import injection

        injection.install(asked["fault"])
        place, _, name = asked["does"].partition(":")
        getattr(importlib.import_module(place), name)()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:  # noqa: BLE001  a traceback is what the tests look for
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def filled_pipe(text: str) -> int:
    """Something to read `text` from, as from a shell's pipe."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as pipe:
        assert pipe.write(text.encode()) <= PIPE_BYTES
    return reading


if __name__ == "__main__":
    main()
