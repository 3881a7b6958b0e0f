"""Imports point downwards only, as docs/architecture.md draws it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import howsure

ROOT = Path(howsure.__file__).parent
FLOORS = {
    "errors": 0,
    "isolated": 0,
    "types": 0,
    "data": 0,
    "limited": 1,
    "options": 1,
    "storage": 1,
    "measures": 1,
    "evidence": 2,
    "models": 3,
    "runs": 4,
    "studies": 5,
    "report": 6,
    "saup": 6,
    "cli": 7,
    "__main__": 8,
}
UPWARDS = {
    ("types.py", "howsure.report.notebook"): "notebooks ask the object itself how it looks",
    ("runs/folder.py", "howsure.report"): "every run that ends has its page",
}
"""The only two, each within a function, so that the room above is there only when it is asked."""


class Import(NamedTuple):
    module: str
    in_function: bool

    @property
    def room(self) -> str:
        return self.module.split(".")[1]


def imports(node: ast.AST, in_function: bool = False) -> Iterator[Import]:
    """What a file imports of howsure, apart from what is there for types alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ImportFrom):
            whole = child.module == "howsure"
            names = [f"howsure.{one.name}" for one in child.names] if whole else [child.module or ""]
            yield from (Import(name, in_function) for name in names if name.startswith("howsure."))
        elif isinstance(child, ast.Import):
            yield from (Import(one.name, in_function) for one in child.names if one.name.startswith("howsure."))
        elif isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            yield from imports(ast.Module(child.orelse, []), in_function)
        else:
            yield from imports(child, in_function or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)))


def imports_of(path: Path) -> list[Import]:
    return list(imports(ast.parse(path.read_text(encoding="utf-8"))))


def files_of(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py")) if (ROOT / room).is_dir() else [ROOT / f"{room}.py"]


@pytest.mark.parametrize("room", FLOORS)
def test_a_room_imports_only_what_lies_below(room: str) -> None:
    for path in files_of(room):
        file = path.relative_to(ROOT).as_posix()
        named = [one for one in imports_of(path) if one.room not in (room, "_version")]
        above = {one.module for one in named if FLOORS[one.room] >= FLOORS[room] and (file, one.module) not in UPWARDS}
        assert not above, f"{file} imports {sorted(above)}"


@pytest.mark.parametrize(("file", "module"), UPWARDS)
def test_what_imports_upwards_does_so_in_a_function(file: str, module: str) -> None:
    assert [one.in_function for one in imports_of(ROOT / file) if one.module == module] == [True]


def test_every_room_has_its_floor() -> None:
    places = [path for path in ROOT.iterdir() if path.is_dir() or path.suffix == ".py"]
    rooms = {path.stem for path in places if path.name not in ("__init__.py", "_version.py", "__pycache__")}
    assert rooms == set(FLOORS)


def test_the_readers_of_imports_see_what_they_should() -> None:
    code = """
from typing import TYPE_CHECKING
import howsure.errors
if TYPE_CHECKING:
    from howsure.cli import app
else:
    from howsure import runs
def late():
    if True:
        from howsure.report import run_report
"""
    assert list(imports(ast.parse(code))) == [
        Import("howsure.errors", False),
        Import("howsure.runs", False),
        Import("howsure.report", True),
    ]
