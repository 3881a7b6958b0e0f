"""docs/export.md lists the columns of every study as they are declared, in the words that stand below the fields.

`HOWSURE_WRITE_DOCS=1 pytest tests/test_docs_columns.py` writes the tables anew.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import types
import typing
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pytest

from howsure.evidence.types import TokenRecord
from howsure.runs.columns import joined, kind_of
from howsure.runs.export import COMMON_COLUMNS, common_fields
from howsure.studies import registry
from test_docs_tables import DOCS, check

TABLES = {TokenRecord: "tokens"}
"""Structs that have a heading of their own on the page."""


class Row(NamedTuple):
    names: list[str]
    kind: str
    words: str


class Part(NamedTuple):
    """A struct whose columns several names have before them."""

    struct: Any
    names: list[str]


def struct_of(hint: Any) -> Any:
    """The struct that a hint is, perhaps beside None."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        (hint, *others) = [one for one in typing.get_args(hint) if one not in (type(None), msgspec.UnsetType)]
        return None if others else struct_of(hint)
    return hint if isinstance(hint, type) and issubclass(hint, msgspec.Struct) else None


def innermost(type_: pa.DataType) -> list[str]:
    """The fields of the struct in a list or map, or in those within it."""
    if pa.types.is_list(type_):
        return innermost(type_.value_type)
    if pa.types.is_map(type_):
        return innermost(type_.item_type)
    return [field.name for field in type_] if pa.types.is_struct(type_) else []


def hints_of(struct: Any) -> dict[str, tuple[str, Any]]:
    """By the name in JSON: that of the attribute, and its type."""
    hints = typing.get_type_hints(struct)
    names = zip(struct.__struct_encode_fields__, struct.__struct_fields__, strict=True)
    return {name: (field, hints[field]) for name, field in names}


def words_below(struct: Any) -> dict[str, str]:
    """The text that stands below each field."""
    found: dict[str, str] = {}
    for kind in reversed(struct.__mro__[: struct.__mro__.index(msgspec.Struct)]):
        body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
        assert isinstance(body, ast.ClassDef)
        for field, after in zip(body.body, body.body[1:], strict=False):
            said = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else None
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(said, str):
                found[field.target.id] = re.sub(r"\bNone\b", "null", " ".join(said.split()))
    return found


def rows_of(struct: Any, place: str, parts: list[Part]) -> Iterator[Row]:
    """A row for each column; what several fields share is told apart, once."""
    hints, words = hints_of(struct), words_below(struct)
    shared = Counter(one for _, hint in hints.values() if (one := struct_of(hint)) is not None)
    for name, (field, hint) in hints.items():
        column, inner = joined(place, name), struct_of(hint)
        if inner in TABLES:
            yield Row([f"{column}.*"], f"[{TABLES[inner]}](#{TABLES[inner]})", words.get(field, ""))
        elif inner is not None and shared[inner] > 1:
            if not any(part.struct is inner and part.names[0].startswith(f"{place}.") for part in parts):
                parts.append(
                    Part(inner, [joined(place, one) for one, (_, of) in hints.items() if struct_of(of) is inner])
                )
        elif inner is not None:
            yield from rows_of(inner, column, parts)
        else:
            yield Row([column], told(kind_of(hint)), " ".join(filter(None, (words.get(field), fields_of(hint)))))


def fields_of(hint: Any) -> str:
    """What the structs of a list hold, or which words a text may be."""
    names = innermost(kind_of(hint).type)
    if names:
        return f"Fields: {', '.join(f'`{name}`' for name in names)}."
    kinds = [hint, *(one for one in typing.get_args(hint) if one is not type(None))]
    chosen = next((typing.get_args(one) for one in kinds if typing.get_origin(one) is typing.Literal), ())
    return f"One of {', '.join(f'`{word}`' for word in chosen)}." if chosen else ""


def told(kind: Any) -> str:
    return "JSON text" if kind.texts and pa.types.is_string(kind.type) else words_of(kind.type)


def words_of(type_: pa.DataType) -> str:
    if pa.types.is_list(type_):
        return f"list of {words_of(type_.value_type)}"
    if pa.types.is_map(type_):
        return f"map of text to {words_of(type_.item_type)}"
    if pa.types.is_struct(type_):
        return "struct"
    return {"string": "text", "double": "float64", "timestamp[us, tz=UTC]": "timestamp"}.get(str(type_), str(type_))


def merged(rows: Iterator[Row]) -> list[Row]:
    """Neighbours of one type of which nothing is said share a row."""
    found: list[Row] = []
    for row in rows:
        if found and not row.words and not found[-1].words and row.kind == found[-1].kind and len(found[-1].names) < 6:
            found[-1].names.extend(row.names)
        else:
            found.append(row)
    return found


def table(rows: Iterator[Row]) -> str:
    lines = [
        f"| {', '.join(f'`{name}`' for name in row.names)} | {row.kind} | {row.words} |".replace("X|", "X\\|")
        for row in merged(rows)
    ]
    return "\n".join(["| column | type | |", "|---|---|---|", *lines])


def tables(structs: dict[str, Any]) -> str:
    """The columns of some structs, each below its name; then those of the structs that several fields share."""
    parts: list[Part] = []
    text = table(row for place, struct in structs.items() for row in rows_of(struct, place, parts))
    for part in parts:  # which grows on the way
        names = [f"`{name}`".replace("|", "\\|") for name in part.names]
        heading = f"Below {', '.join(names[:-1])} and {names[-1]}:"
        text += f"\n\n{heading}\n\n{table(rows_of(part.struct, '', parts))}"
    return text


@pytest.mark.parametrize("study", list(registry.HOMES))
def test_the_page_lists_the_columns_of_a_study(study: str) -> None:
    one = registry.study_named(study)
    structs = {"result": one.record, "evidence": one.evidence}
    check("export", f"columns of {study}", tables(structs))


def test_the_page_lists_the_columns_of_tokens() -> None:
    check("export", "columns of tokens", tables({"": TokenRecord}))


def test_the_page_lists_the_columns_of_every_file() -> None:
    page = (DOCS / "export.md").read_text(encoding="utf-8")
    (section,) = re.findall(r"^## The columns\n(.*?)^#", page, re.M | re.S)
    listed = dict(re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", section, re.M))
    assert listed == {field.name: words_of(field.type) for field in common_fields()}
    assert tuple(listed) == COMMON_COLUMNS
