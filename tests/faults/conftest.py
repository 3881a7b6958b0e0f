"""One server of commands and one workshop of small models for each process that runs tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.cases import Workshop
from faults.harness import Commands


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    found = Commands(tmp_path_factory.mktemp("commands"))
    yield found
    found.close()


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory, commands: Commands) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("workshop"), commands)


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """Where the undisturbed run goes."""
    return tmp_path / "whole"


@pytest.fixture
def torn(tmp_path: Path) -> Path:
    """Where the disturbed run goes."""
    return tmp_path / "torn"
