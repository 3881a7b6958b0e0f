"""Imports point downwards only, as docs/architecture.md draws it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import howsure

ROOT = Path(howsure.__file__).parent
FLOORS = {
    "errors": 0,
    "wiring": 0,
    "isolated": 0,
    "limited": 0,
    "data": 0,
    "storage": 1,
    "measures": 1,
    "evidence": 2,
    "models": 3,
    "runs": 3,
    "studies": 4,
    "report": 5,
    "cli": 6,
}


def imported_rooms(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = [n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
    names += [alias.name for n in ast.walk(tree) if isinstance(n, ast.Import) for alias in n.names]
    return {name.split(".")[1] for name in names if name.startswith("howsure.")}


@pytest.mark.parametrize("room", [room for room in FLOORS if (ROOT / room).is_dir()])
def test_a_room_imports_only_what_lies_below(room: str) -> None:
    for path in (ROOT / room).rglob("*.py"):
        above = {other for other in imported_rooms(path) - {room, "_version"} if FLOORS[other] >= FLOORS[room]}
        assert not above, f"{path.relative_to(ROOT)} imports {sorted(above)}"


def test_every_room_has_its_floor() -> None:
    rooms = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith("_")}
    assert rooms <= set(FLOORS)
