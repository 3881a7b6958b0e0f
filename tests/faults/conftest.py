"""The server of commands and one workshop of small models for each process that runs tests."""

from __future__ import annotations

import pytest

from commands import Commands
from commands import commands as server
from faults.cases import Workshop


@pytest.fixture(scope="session")
def commands() -> Commands:
    return server()


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory, commands: Commands) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("workshop"), commands)
