"""How howsure starts Python: a process that imports nothing from the working folder, which may be anybody's."""

from __future__ import annotations

import os
import sys
from typing import Any

NEUTRAL_FOLDER = os.path.abspath(os.sep)
"""Where such a process begins. Only the administrator can put a file there, and paths given to it must be absolute."""


def python(*arguments: str) -> dict[str, Any]:
    """What `subprocess` takes to start this Python apart: `subprocess.run(**python("-m", "pip", …), …)`.

    `-P` keeps the working folder off the path, and so does PYTHONSAFEPATH for whatever that process starts. Empty parts
    of PYTHONPATH mean the working folder too, and are left out; relative ones mean what they meant here.
    """
    named = [os.path.abspath(part) for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    environment = {**os.environ, "PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(named)}
    return {"args": [sys.executable, "-P", *arguments], "cwd": NEUTRAL_FOLDER, "env": environment}
