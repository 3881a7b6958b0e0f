"""One server of commands and one workshop of small models for each process that runs tests."""

from __future__ import annotations

from collections.abc import Iterator

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
