"""Inputs that a reader once did not survive, each in a file TARGET.what-it-did.

They are fed under the limits of the hunt. A new one: the file that `make fuzz` left, put here under such a name.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzz.limits import feed
from fuzz.targets import TARGETS

from fuzz import scratch

FILES = sorted((Path(__file__).parent / "regressions").iterdir())


@pytest.mark.usefixtures("lenient_pages")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_what_was_found_stays_mended(path: Path) -> None:
    target = TARGETS[path.name.partition(".")[0]]
    if not target.is_here:
        pytest.skip(f"{target.needs} is not installed")
    try:
        feed(target.feed, path.read_bytes())
    finally:
        scratch.sweep()


def test_there_are_regressions() -> None:
    assert len(FILES) >= 6
