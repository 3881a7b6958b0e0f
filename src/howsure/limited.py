"""Functions that run in a process of their own, which the kernel ends when it takes too much time or memory.

For decoders and templates of others. C code hears neither Ctrl-C nor Python's timers, and a thread cannot be ended; a
process can. It bounds time and memory and is no sandbox: the code that runs there is ours, only its input is not.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from importlib import import_module

from howsure.isolated import python

PATIENCE_SECONDS = 600
"""By the clock, without a sign of life, on a busy machine. The limit that counts is of CPU time."""
SECONDS_TO_END = 5
MOST_REPLY_BYTES = 128 * 2**20
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

_MEMORY = b"MemoryError"
_LENGTH = struct.Struct(">Q")


class Ended(Exception):
    """The process was ended; the message says by what, as the rest of a sentence ("takes …")."""


class Raised(Exception):
    """What the function itself raised, in its words."""


class LimitedFunction:
    """A function of bytes that runs under limits, in processes that are started when they are needed and used again.

    name          "package.module:function"; what it takes are bytes, what it gives is bytes
    cpu_seconds   of each call; the function itself may ask for more (`more_time`)
    memory_bytes  of the process

    Threads may call it; as many calls run at once as this process has cores. A process that was forked from this one
    starts its own.
    """

    def __init__(self, name: str, *, cpu_seconds: float, memory_bytes: int) -> None:
        self.cpu_seconds, self.memory_bytes = cpu_seconds, memory_bytes
        self._command = (name, str(cpu_seconds), str(memory_bytes))
        self._forget()
        _functions.append(self)

    def __call__(self, *parts: bytes, unless: threading.Event | None = None) -> bytes:
        """What the function gives; raises `Ended` or `Raised`. Once the event `unless` is set, nothing is begun."""
        process = self._take(unless)
        try:
            reply = process.ask(parts)
        except TimeoutError:
            process.kill()
            self._drop(process)
            raise Ended(f"takes more than {PATIENCE_SECONDS} s") from None
        except (EOFError, OSError):
            raise Ended(_why(self._drop(process))) from None
        except BaseException:  # Ctrl-C, mostly
            process.kill()
            self._drop(process)
            raise
        with self._changed:
            self._idle.append(process)
            self._changed.notify()
        if len(reply) == 1:
            return reply[0]
        if reply[0] == _MEMORY:
            raise Ended(f"takes more than {self.memory_bytes >> 20:,} MiB of memory")
        raise Raised(reply[1].decode("utf-8", "surrogatepass"))

    def start(self) -> None:
        """Begin a process before it is needed, and do not wait for it. One that cannot be begun is told of later."""
        with self._changed, contextlib.suppress(Ended):
            if not self._all:
                self._idle.append(self._begun())

    def stop(self) -> None:
        """End all processes, whatever they are doing; whoever waits for one is told that it ended."""
        with self._changed:
            for process in self._all:
                process.kill()
            while self._idle:
                self._drop(self._idle.pop())
            self._changed.notify_all()

    def _take(self, unless: threading.Event | None) -> _Process:
        with self._changed:
            while not (given_up := unless is not None and unless.is_set()):
                if self._idle or len(self._all) < _cores():
                    break
                self._changed.wait()
            if given_up:
                raise Ended("was given up")
            while self._idle:
                process = self._idle.pop()
                if process.is_alive:
                    return process
                self._drop(process)
            return self._begun()

    def _begun(self) -> _Process:
        try:
            process = _Process(self._command)
        except OSError as error:
            raise Ended(f"needs a process of its own, and none can be started ({error.strerror})") from error
        self._all.add(process)
        return process

    def _drop(self, process: _Process) -> int:
        status = process.end()
        with self._changed:
            self._all.discard(process)
            self._changed.notify()
        return status

    def _forget(self) -> None:
        self._changed = threading.Condition()  # its lock may be taken again by who holds it
        self._idle: list[_Process] = []
        self._all: set[_Process] = set()

    def after_fork(self) -> None:
        """In the child: the processes are the parent's, whose end they must notice."""
        for process in self._all:
            process.let_go()
        self._forget()


def _why(status: int) -> str:
    if status == -getattr(signal, "SIGPROF", 0):
        return "takes too long"
    if status == -getattr(signal, "SIGKILL", 0):
        return "takes more memory than there is, or was stopped"
    how = signal.Signals(-status).name if -status in list(signal.Signals) else f"exit code {status}"
    return f"ends the process that works on it ({how})"


class _Process:
    """One process that calls the function, and the socket that is its standard input."""

    def __init__(self, command: tuple[str, ...]) -> None:
        self._channel, theirs = socket.socketpair()
        self._channel.settimeout(PATIENCE_SECONDS)
        how = python("-c", "from howsure.limited import serve; serve()", *command)
        how["env"] |= dict.fromkeys(ONE_THREAD, "1")
        with theirs:
            self._process: subprocess.Popen[bytes] = subprocess.Popen(
                **how, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )

    def ask(self, parts: tuple[bytes, ...]) -> list[bytes]:
        _send(self._channel, *parts)
        return _receive(self._channel, MOST_REPLY_BYTES)

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> int:
        """How it ended: it does so by itself once nobody is there to ask."""
        self._channel.close()
        try:
            return self._process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def let_go(self) -> None:
        self._channel.close()
        self._process.returncode = 0  # not this process's child, so nothing to wait for


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_functions: list[LimitedFunction] = []


@atexit.register
def _stop_all() -> None:
    for function in _functions:
        function.stop()


def _after_fork() -> None:
    for function in _functions:
        function.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# -- within the process ---------------------------------------------------------------------------------------------

_serving = False


def serve() -> None:
    """Call the function that the command line names, again and again, until the other side is gone."""
    global _serving
    name, cpu_seconds, memory_bytes = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks
    if hasattr(signal, "SIGPROF"):
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
    channel = socket.socket(fileno=0)
    module, _, function = name.partition(":")
    try:
        work, fault = getattr(import_module(module), function), None
    except Exception as error:  # noqa: BLE001  told to whoever asks: nobody reads this standard error
        work, fault = None, error
    _limit_memory(int(memory_bytes))
    _serving = True
    while True:
        try:
            parts = _receive(channel)
        except (EOFError, OSError):
            return
        _set_timer(float(cpu_seconds))
        try:
            if fault is not None:
                raise fault
            reply = [work(*parts)]
        except MemoryError:
            reply = [_MEMORY, b""]
        except Exception as error:  # noqa: BLE001  told to whoever asks
            reply = [b"Exception", (str(error) or repr(error)).encode("utf-8", "surrogatepass")]
        _set_timer(0)
        del parts
        _send(channel, *reply)


def more_time(seconds: float) -> None:
    """Asked by a function that runs under limits: so much more CPU time for this call. Nothing where there is none."""
    if _serving and hasattr(signal, "getitimer"):
        left, _ = signal.getitimer(signal.ITIMER_PROF)
        _set_timer(left + seconds)


def _set_timer(seconds: float) -> None:
    """So much CPU time until SIGPROF, whose default action ends a process, in C code too."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _limit_memory(most_bytes: int) -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = most_bytes if hard == resource.RLIM_INFINITY else min(most_bytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


# -- on both sides --------------------------------------------------------------------------------------------------


def _send(channel: socket.socket, *parts: bytes) -> None:
    channel.sendall(b"".join(map(_LENGTH.pack, (len(parts), *map(len, parts)))))
    for part in parts:
        channel.sendall(part)


def _receive(channel: socket.socket, most_bytes: int | None = None) -> list[bytes]:
    count = _number(channel)
    lengths = [_number(channel) for _ in range(count)]
    if most_bytes is not None and sum(lengths) > most_bytes:
        raise OSError("more than was to be expected")
    return [bytes(_exactly(channel, length)) for length in lengths]


def _number(channel: socket.socket) -> int:
    number: int
    (number,) = _LENGTH.unpack(_exactly(channel, _LENGTH.size))
    return number


def _exactly(channel: socket.socket, count: int) -> bytearray:
    data = bytearray(count)
    room = memoryview(data)
    while room:
        received = channel.recv_into(room)
        if not received:
            raise EOFError
        room = room[received:]
    return data
