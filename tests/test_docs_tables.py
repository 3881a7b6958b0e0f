"""Tables in the docs that follow from the code. `HOWSURE_WRITE_DOCS=1 pytest tests/test_docs_tables.py` writes them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from howsure.models.contract import ModelOptions
from howsure.options import Options, declared, names_of, table_of
from howsure.runs import EngineOptions
from howsure.runs.run import RetryOptions
from howsure.studies import registry

DOCS = Path(__file__).parent.parent / "docs"
SHARED: tuple[type[Options], ...] = (RetryOptions, ModelOptions, EngineOptions)
WRITE = os.environ.get("HOWSURE_WRITE_DOCS") == "1"


def table(options: type[Options], without: frozenset[str] = frozenset()) -> str:
    rows = [
        f"| `{name}` | {f'`{default}`' if default else ''} | {_escaped(words)} |"
        for name, default, words in table_of(options)
        if name.lower().strip("-").replace("-", "_") not in without
    ]
    return "\n".join(["| option | default | |", "|---|---|---|", *rows])


def _escaped(words: str) -> str:
    return words.replace("|", "\\|").replace("<", "&lt;")


def check(page: str, what: str, wanted: str) -> None:
    path = DOCS / f"{page}.md"
    begin, end = f"<!-- {what} -->\n", f"<!-- end of {what} -->"
    text = path.read_text(encoding="utf-8")
    kept = re.search(f"{re.escape(begin)}(.*?){re.escape(end)}", text, re.S)
    assert kept is not None, f"{path.name} has no place for the {what}: {begin}{end}"
    if WRITE:
        path.write_text(text.replace(kept[0], f"{begin}{wanted}\n{end}"), encoding="utf-8")
    else:
        assert kept[1] == f"{wanted}\n", "HOWSURE_WRITE_DOCS=1 pytest tests/test_docs_*.py writes it anew"


@pytest.mark.parametrize("study", list(registry.HOMES))
def test_a_page_has_the_options_of_its_study(study: str) -> None:
    shared = frozenset(one.name for kind in SHARED for one in declared(kind) if one.about is not None)
    check(study.partition(" ")[0], f"options of {study}", table(registry.study_named(study).options, shared))


@pytest.mark.parametrize("kind", SHARED)
def test_a_page_has_the_options_that_all_share(kind: type[Options]) -> None:
    engine = frozenset(names_of(EngineOptions)) if kind is not EngineOptions else frozenset()
    check("options", f"options of {kind.__name__}", table(kind, engine))
