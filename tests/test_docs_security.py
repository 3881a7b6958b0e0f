"""docs/security.md names a test for every measure, and every target of the hunt."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from fuzz.targets import TARGETS

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))


def rows_below(heading: str) -> list[list[str]]:
    """The cells of a section's table, without its head."""
    section = PAGE.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.strip().strip("|").split(" | ") for line in section.splitlines() if line.startswith("|")]
    return rows[2:]


@pytest.mark.parametrize(("file", "test"), NAMED, ids=[f"{file}::{test}" for file, test in NAMED])
def test_every_named_test_is_there(file: str, test: str) -> None:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert test in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_measure_names_its_test() -> None:
    rows = rows_below("Not trusted")
    assert len(rows) >= 20
    assert [row[0] for row in rows if not re.search(r"`tests/[\w/]+\.py::test_\w+`", row[-1])] == []
    assert all(len(row) == 4 for row in rows)


def test_every_target_stands_on_the_page_with_what_it_reads() -> None:
    assert {row[0].strip(" `") for row in rows_below("Fuzzing")} == set(TARGETS)
