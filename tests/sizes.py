"""Two sizes of the suite: `make test` runs the short one, `make test-all` sets HOWSURE_TESTS=long and runs everything.

What is marked `only_long` repeats, for another study, file or draw, what the short one shows for some.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

LONG = os.environ.get("HOWSURE_TESTS", "short") == "long"


def in_long(*values: object) -> list[Any]:
    """Parameters that a test has in the long suite beside those of the short one."""
    return [pytest.param(value, marks=pytest.mark.only_long) for value in values]


def several(short: int, long: int) -> int:
    return long if LONG else short
