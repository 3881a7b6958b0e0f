"""What the package exports, what it costs to import, and that its examples are true."""

import doctest
import importlib
import pkgutil
import subprocess
import sys

import pytest

import howsure.measures as measures

MODULES = [module.name for module in pkgutil.iter_modules(measures.__path__)]


def test_every_public_name_is_there_once():
    missing = [name for name in measures.__all__ if not hasattr(measures, name)]
    assert missing == []
    assert len(set(measures.__all__)) == len(measures.__all__)


def test_every_public_function_is_documented():
    for name in measures.__all__:
        thing = getattr(measures, name)
        assert not callable(thing) or thing.__doc__, name


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_are_true(name):
    found = doctest.testmod(importlib.import_module(f"howsure.measures.{name}"))
    assert found.failed == 0


def test_there_are_examples():
    modules = [importlib.import_module(f"howsure.measures.{name}") for name in MODULES]
    assert sum(bool(test.examples) for m in modules for test in doctest.DocTestFinder().find(m)) > 25


def test_importing_the_package_loads_numpy_alone():
    heavy = ("scipy", "sklearn", "relplot", "torch")
    code = f"import sys, howsure.measures; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
