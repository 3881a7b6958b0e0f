"""One battery for every study: a new one is tested by being registered."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import howsure
from howsure.options import signature_of
from howsure.studies import registry
from howsure.studies.study import python_function
from howsure.studies.trust.coherent import coherent
from runs_to_look_at import make_runs
from scripted import Writer, action_json
from studies.battery import DECLARED, OF_A_RUN
from studies.test_a_new_study import MIRROR, WORDS, MirrorOptions
from tiny import build_ngram

FOLDERS = {"mcq": "mcq/before"}
"""Where `make_runs` has the run of a study whose folder is not called like it."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("data")
    folder = make_runs(tmp_path_factory.mktemp("all") / "runs", data)
    (data / "l.txt").write_text("go to the goal\nstay where you are\n")
    (data / "s.txt").write_text("the door is open\n\nthe floor is wet\n")
    sets: dict[str, Any] = {"instructions": data / "l.txt", "groundings": data / "s.txt", "states": 3}
    model = Writer(lambda messages, number: action_json(("up", "down")[number % 2]))
    coherent("home", model, evidence="logprobs", out=folder / "trust coherent", **sets)
    return folder


@pytest.mark.parametrize("name", list(registry.HOMES))
@pytest.mark.parametrize("check", DECLARED)
def test_what_a_study_declares(check: Callable[..., None], name: str) -> None:
    check(registry.study_named(name))


@pytest.mark.parametrize("name", list(registry.HOMES))
def test_its_card_has_its_table(name: str) -> None:
    assert "\nQuestion " in registry.study_named(name).card


@pytest.mark.parametrize("name", list(registry.HOMES))
@pytest.mark.parametrize("check", OF_A_RUN)
def test_what_a_run_of_it_holds(check: Callable[..., None], name: str, runs: Path, tmp_path: Path) -> None:
    """A study without a run in `make_runs` or above fails here, so that none goes untested."""
    check(registry.study_named(name), runs / FOLDERS.get(name, name), tmp_path)


@pytest.mark.parametrize("name", [name for name in registry.HOMES if " " not in name])
def test_the_function_has_each_of_its_options(name: str) -> None:
    function = getattr(howsure, name)
    assert inspect.signature(function).parameters == signature_of(registry.study_named(name).options).parameters
    assert registry.line_of(name) in function.__doc__


# -- a study that somebody added --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def added(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The study of `test_a_new_study.py`, registered, and a run of it."""
    registry.register(MIRROR)
    folder = tmp_path_factory.mktemp("added")
    (folder / "words.txt").write_text(WORDS)
    model = f"ngram:{build_ngram(folder)}"
    python_function(MirrorOptions, MIRROR)(str(folder / "words.txt"), model, out=folder / "run")
    yield folder / "run"
    registry.forget(MIRROR.name)


@pytest.mark.parametrize("check", DECLARED)
def test_what_an_added_study_declares(check: Callable[..., None], added: Path) -> None:
    check(MIRROR)


@pytest.mark.parametrize("check", OF_A_RUN)
def test_what_a_run_of_an_added_study_holds(check: Callable[..., None], added: Path, tmp_path: Path) -> None:
    check(MIRROR, added, tmp_path)
