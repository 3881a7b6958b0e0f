"""The fixture that every test here takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from goldens.pinned import Case


@pytest.fixture
def case(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Case]:
    """A case that is called as its test is, in a folder of its own."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    made = Case(request.node.originalname.removeprefix("test_"), tmp_path)
    failed_before = request.session.testsfailed
    yield made
    assert made.checked or request.session.testsfailed > failed_before, "a case has to end with case.check()"
