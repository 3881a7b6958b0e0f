"""Servers for the tests of the back ends: real ones, and one that misbehaves on purpose."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .gemini_server import ACCOUNT_VARIABLES
from .misbehaving_server import MisbehavingServer
from .prompt_logprobs_server import PromptServer, running


@pytest.fixture(scope="session")
def scoring_server(llama_server: str) -> Iterator[PromptServer]:
    """A server that scores with SmolLM2's real numbers, after a begin token, and passes chat on to llama.cpp."""
    with running(PromptServer(begin="<|endoftext|>", chat_url=llama_server)) as server:
        yield server


@pytest.fixture
def misbehaving() -> Iterator[MisbehavingServer]:
    """A loopback server that answers each request as its script says."""
    with MisbehavingServer() as server:
        yield server


@pytest.fixture(autouse=True)
def no_inherited_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test may use, or depend on, an account of whoever runs it."""
    for name in (
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "OPENAI_ORG_ID",
        "OPENAI_PROJECT_ID",
        "OPENAI_ADMIN_KEY",
        *ACCOUNT_VARIABLES,
    ):
        monkeypatch.delenv(name, raising=False)
