"""Jobs that workers of Ray do in the tests; sent whole, since the tests are no package that a worker could import."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from howsure.errors import InputError, MissingExtra
from howsure.runs import Job


class Squares(Job[int, int]):
    """Squares numbers, the small ones slowly, so that they come back out of order."""

    def __call__(self, piece: int) -> int:
        time.sleep(0.03 if piece % 5 == 0 else 0.0)
        return piece * piece


class SlowFirst(Job[int, int]):
    """The first piece takes longer than all others together."""

    def __call__(self, piece: int) -> int:
        time.sleep(1.5 if piece == 0 else 0.0)
        return piece


class OpenedHere(Job[int, int]):
    """Cannot be opened where it is sent to, as a model whose files are not there."""

    def __call__(self, piece: int) -> int:
        return piece

    def __reduce__(self) -> Any:
        return _open_for, (os.getpid(),)


def _open_for(sender: int) -> OpenedHere:
    if os.getpid() != sender:
        raise InputError("models/qwen is not there: check the path")
    return OpenedHere()


class Deadly(Job[int, str]):
    """Ends its process at one number: the first time, or every time."""

    def __init__(self, marks: Path, at: int, always: bool = False, gives_up: bool = True) -> None:
        self.marks, self.at, self.always, self.gives_up = marks, at, always, gives_up

    def __call__(self, piece: int) -> str:
        with (self.marks / f"{piece}.txt").open("a") as file:
            file.write(f"{os.getpid()}\n")
        if piece == self.at and (self.always or len((self.marks / f"{piece}.txt").read_text().splitlines()) == 1):
            os.kill(os.getpid(), signal.SIGKILL)
        return f"piece {piece}"

    def failed_piece(self, piece: int, why: str) -> str:
        return f"piece {piece}: {why}" if self.gives_up else super().failed_piece(piece, why)


class DiesAtStart(Job[int, int]):
    def __init__(self) -> None:
        self.sender = os.getpid()

    def load(self) -> None:
        if os.getpid() != self.sender:
            os.kill(os.getpid(), signal.SIGKILL)

    def __call__(self, piece: int) -> int:
        return piece


class Where(Job[int, Any]):
    """Where a worker finds code, and files."""

    def __call__(self, piece: int) -> Any:
        return sys.path, os.getcwd()


class Refuses(Job[int, int]):
    """Raises what it was told to."""

    def __init__(self, kind: str, at_load: bool = False) -> None:
        self.kind, self.at_load = kind, at_load

    def load(self) -> None:
        if self.at_load:
            self._refuse()

    def __call__(self, piece: int) -> int:
        if piece == 3:
            self._refuse()
        return piece

    def _refuse(self) -> None:
        if self.kind == "extra":
            raise MissingExtra("this", "ray", "nothing")
        if self.kind == "input":
            raise InputError("piece 3 of q.jsonl is none: mend it")
        raise ZeroDivisionError("a bug")


class ByProcess(Job[int, int]):
    """Disagrees with whoever sent it."""

    def __call__(self, piece: int) -> int:
        return piece

    def fingerprint(self) -> dict[str, Any]:
        return {"device": os.getpid()}


class Threads(Job[int, str]):
    """Tells with how many threads a network would compute."""

    threads = 2

    def __call__(self, piece: int) -> str:
        return os.environ["OMP_NUM_THREADS"]


class WithFiles(Job[Any, Any]):
    """Shows what came to it, and where it works."""

    def with_files(self, piece: Any) -> Any:
        return {"with_files": piece}

    def __call__(self, piece: Any) -> Any:
        return piece, os.getcwd()
