"""How howsure starts Python: a process that imports nothing from the working folder, which may be anybody's."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

NEUTRAL_FOLDER = os.path.abspath(os.sep)
"""Where such a process begins. Only the administrator can put a file there, and paths given to it must be absolute."""


def python(*arguments: str) -> dict[str, Any]:
    """What `subprocess` takes to start this Python apart: `subprocess.run(**python("-m", "pip", …), …)`."""
    return {
        "args": [sys.executable, "-P", *arguments],
        "cwd": NEUTRAL_FOLDER,
        "env": {**os.environ, **environment()},
    }


def environment() -> dict[str, str]:
    """What keeps the working folder off the path of a Python, and of every Python that it starts.

    Empty parts of PYTHONPATH mean the working folder, and are left out; relative ones mean what they mean here.
    """
    return {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(_named_in_pythonpath())}


def isolate() -> None:
    """Import nothing more from the working folder, here and in every Python that is started from here.

    `python -m` puts that folder first, and so does an empty part of PYTHONPATH; whoever names it there wants it.
    """
    from_here_on = sys.path.index(_STANDARD_LIBRARY) if _STANDARD_LIBRARY in sys.path else len(sys.path)
    named = _named_in_pythonpath()
    unwanted = {"", _working_folder()} - set(named)
    sys.path[:from_here_on] = [entry for entry in sys.path[:from_here_on] if entry not in unwanted]
    os.environ.update(environment())


@contextmanager
def neutral_folder() -> Iterator[None]:
    """For libraries that look into the working folder, or start processes there."""
    here = os.getcwd()
    os.chdir(NEUTRAL_FOLDER)
    try:
        yield
    finally:
        os.chdir(here)


def load_matplotlib() -> None:
    """Import matplotlib, but not with the settings of a `matplotlibrc` in the working folder, which it looks for first.

    They can start programs (`text.usetex`). Other threads see the working folder change only where there is one.
    """
    planted = "matplotlib" not in sys.modules and os.path.lexists("matplotlibrc")
    with neutral_folder() if planted else nullcontext():
        importlib.import_module("matplotlib")


_STANDARD_LIBRARY = os.path.dirname(os.__file__)


def _named_in_pythonpath() -> list[str]:
    return [os.path.abspath(part) for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]


def _working_folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed: nothing can be imported from it
        return ""
