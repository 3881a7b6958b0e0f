"""Fixtures that every part of the suite shares: the real SmolLM2, and a tiny checkpoint that loads in no time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from sizes import LONG
from tiny import build_tiny

# A loaded machine is slow without being wrong, so no example has a deadline. The few examples of the short suite are
# the same each time; the long one looks for others.
hypothesis.settings.register_profile("howsure", deadline=None, derandomize=not LONG)
hypothesis.settings.load_profile("howsure")
FEW_EXAMPLES, MORE_EXAMPLES = 25, 5
"""At most so many examples in the short suite, and so many times those that a test names in the long one."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long ones first, so that one process does not work on alone at the end; and of each as much as is asked for."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
    for item in items:
        if item.get_closest_marker("only_long") and not LONG:
            item.add_marker(pytest.mark.skip(reason="for make test-all"))
    functions = {function for item in items if hypothesis.is_hypothesis_test(function := getattr(item, "obj", None))}
    for function in functions:
        own = function._hypothesis_internal_use_settings
        examples = own.max_examples * MORE_EXAMPLES if LONG else min(own.max_examples, FEW_EXAMPLES)
        function._hypothesis_internal_use_settings = hypothesis.settings(own, max_examples=examples)


@pytest.fixture(autouse=True)
def faults_of_pages_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that cannot be made of good files is our fault; `lenient_pages` is for tests with bad ones."""
    from howsure.report import views

    monkeypatch.setattr(views, "STRICT", True)


@pytest.fixture
def lenient_pages(faults_of_pages_are_errors: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bad files become sentences on the page, as they do for users."""
    from howsure.report import views

    monkeypatch.setattr(views, "STRICT", False)


@pytest.fixture(scope="session")
def smollm2():
    """SmolLM2 with its real weights; fetched once into the cache."""
    import howsure

    return howsure.load("smollm2")


@pytest.fixture(scope="session")
def llama_server() -> Iterator[str]:
    """The base URL of a real llama.cpp server with SmolLM2."""
    from models.llama_server import running_llama_server

    with running_llama_server() as base_url:
        yield base_url


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A two-layer Llama with random weights, saved as any checkpoint is."""
    return build_tiny(tmp_path_factory.mktemp("tiny"))
