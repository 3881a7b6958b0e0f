"""Declared options: what Python may give, what the command line makes of a text, what run.json says."""

from __future__ import annotations

import inspect
from dataclasses import KW_ONLY, dataclass, field
from typing import Annotated, Any

import pytest

from howsure.errors import InputError
from howsure.options import HERE, INTERNAL, Opt, Options, declared, signature_of, table_of, takes
from howsure.runs.run import RunOptions
from howsure.studies import registry


@dataclass(frozen=True)
class Some(Options):
    data: Annotated[str, Opt("Data.", argument=True, identity="no")]
    _: KW_ONLY
    most: Annotated[int | None, Opt("At most N.", least=1, identity="always")] = None
    rate: Annotated[float, Opt("A rate.", least=0, most=1)] = 0.5
    count: Annotated[int, Opt("A count.")] = 0
    way: Annotated[str, Opt("A way.", choices=("up", "down"))] = "up"
    switch: Annotated[bool, Opt("A switch.")] = True
    sizes: Annotated[list[int] | None, Opt("Sizes.")] = None
    ratio: Annotated[int | float, Opt("A ratio.")] = 1
    scale: float = 1.0
    tell: Annotated[Any, HERE] = None
    inner: Annotated[bool, INTERNAL] = False


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"most": "5"}, "--most must be a whole number, not '5'"),
        ({"most": 2.5}, "--most must be a whole number, not 2.5"),
        ({"most": True}, "--most must be a whole number, not True"),
        ({"most": 0}, "--most must be at least 1, not 0"),
        ({"count": None}, "--count must be a whole number, not None"),
        ({"rate": "much"}, "--rate must be a number, not 'much'"),
        ({"rate": 2}, "--rate must be 0 to 1, not 2"),
        ({"rate": float("nan")}, "--rate must be 0 to 1, not nan"),
        ({"way": "left"}, "--way must be one of up, down, not 'left'"),
        ({"switch": "no"}, "--switch must be True or False, not 'no'"),
        ({"data": 5}, "--data must be a text, not 5"),
        ({"scale": "x"}, "--scale must be a number, not 'x'"),
    ],
)
def test_what_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as error:
        Some(**{"data": "x", **given})
    assert str(error.value) == said


def test_what_run_json_says() -> None:
    assert Some("x").for_identity() == {"most": None}
    changed = Some("y", most=3, rate=0.1, way="down", tell=print, scale=2.0)
    assert changed.for_identity() == {"most": 3, "rate": 0.1, "way": "down"}


def test_what_the_command_line_makes_of_a_text() -> None:
    types = {one.name: one.type for one in declared(Some)}
    assert (types["most"], types["rate"], types["sizes"], types["ratio"]) == (int, float, list[int], float)
    assert {one.name: one.switch for one in declared(Some)}["switch"] == "--switch/--no-switch"


def test_the_signature_and_the_table_have_what_is_for_people() -> None:
    assert "inner" not in signature_of(Some).parameters
    assert list(signature_of(Some).parameters)[:2] == ["data", "most"]
    assert {name: default for name, default, _ in table_of(Some)}["--count"] == "0"

    @takes(Some)
    def work(options: Any) -> int:
        """It works."""
        return len(options.data)

    assert work("abc", most=2) == 3
    assert inspect.signature(work).parameters["rate"].default == 0.5
    with pytest.raises(TypeError, match=r"work\(\) has no option 'nonsense'; known are data, most"):
        work("abc", nonsense=1)  # type: ignore[call-arg]


def test_a_default_can_be_shown() -> None:
    @dataclass(frozen=True)
    class Odd(Options):
        names: Annotated[list[str], Opt("Names.")] = field(default_factory=list)

    with pytest.raises(TypeError, match="names: an option has a default that can be shown"):
        Odd()


@dataclass(frozen=True, kw_only=True)
class Sent(RunOptions):
    scale: float = 1.0
    tell: Annotated[Any, HERE] = None


def test_what_goes_to_a_worker() -> None:
    sent = Sent(scale=2.0, tell=print, seed=3, engine="ray").for_workers()
    assert (sent.scale, sent.tell, sent.seed, sent.engine) == (2.0, None, 3, "local")


@pytest.mark.parametrize("name", ["mcq", "show", "../up", "a/b", "two words", "", "--x", "Big"])
def test_a_study_has_a_name_of_its_own(name: str) -> None:
    class Named:
        pass

    study: Any = Named()
    study.name = name
    with pytest.raises(InputError, match="a study cannot be called"):
        registry.register(study)


def test_no_study_takes_the_name_of_a_command() -> None:
    from typer.main import get_command

    from howsure.cli.app import app

    commands: Any = get_command(app)
    assert set(commands.commands) == {*registry.COMMANDS, *(name.partition(" ")[0] for name in registry.HOMES)}
