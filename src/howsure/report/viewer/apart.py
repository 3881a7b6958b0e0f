"""Large comparisons, in a process of their own: two runs of 100,000 take seconds and hundreds of megabytes, which the
viewer neither keeps afterwards nor takes from those who ask for something else meanwhile."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import msgspec

from howsure.errors import InputError
from howsure.isolated import python
from howsure.report.viewer.places import mark_of
from howsure.runs import Run
from howsure.runs.reading import SAMPLES

LARGE_BYTES = 40_000_000
"""Of both files of samples together; fewer are compared sooner than a process starts."""


def compare(a: Run, b: Run) -> Any:
    """As `studies.comparing.compare`."""
    from howsure.studies.comparing import compare as compare_here  # the studies take a while to load

    if _sample_bytes(a) + _sample_bytes(b) < LARGE_BYTES:
        return compare_here(a, b)
    howsure = python("-m", "howsure", "compare", *(os.path.abspath(run.path) for run in (a, b)), "--json", "--quiet")
    done = subprocess.run(**howsure, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode == 0:
        return msgspec.json.decode(done.stdout, type=dict[str, Any])
    raise InputError(_said(done.stderr) or "the comparison was ended before it was done, perhaps for want of memory")


def _sample_bytes(run: Run) -> int:
    mark = mark_of(run.path / SAMPLES)
    return 0 if mark is None else mark[1]


def _said(errors: bytes) -> str:
    """The sentence that ended it, which stands last."""
    return errors.decode("utf-8", "replace").strip().rpartition("\n")[2].removeprefix("howsure: error: ")
