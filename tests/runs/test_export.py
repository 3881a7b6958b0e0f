"""Runs as Parquet: columns by what a study declares, values as the samples hold them, whoever reads them back."""

from __future__ import annotations

import enum
import itertools
import json
import math
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import duckdb
import msgspec
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from howsure.errors import RunDamaged, StorageError
from howsure.evidence import Outcome
from howsure.evidence.types import TokenRecord
from howsure.runs import Identity, Run, RunWriter, Sample, export
from howsure.runs.columns import joined
from howsure.runs.export import COMMON_COLUMNS, Holds, write_parquet
from howsure.runs.files import to_json
from howsure.runs.reading import encoded
from howsure.types import Fields

IDENTITY = Identity("odd", {"b": 1, "a": None}, {"name": "m", "sha": "1"}, {"fingerprint": "sha256:0"}, 7)


class Plain(Fields):
    """A record with one number."""

    v: float | None = None


def run_with(folder: Path, *lines: Any, study: str = "odd", torn: bytes = b"") -> Run:
    """A run whose samples.jsonl holds these lines; a plain dictionary is the result of a sample."""
    with RunWriter(folder, msgspec.structs.replace(IDENTITY, study=study), len(lines)):
        pass
    whole = [
        one if isinstance(one, bytes) else to_json({"id": f"s{place}", "index": place, "result": one})
        for place, one in enumerate(lines)
    ]
    (folder / "samples.jsonl").write_bytes(b"".join(line + b"\n" for line in whole) + torn)
    return Run(folder)


def exported(
    folder: Path, *results: Any, record: Any = Plain, kind_of_evidence: Any = dict[str, Any], **more: Any
) -> pa.Table:
    path = folder / "x.parquet"
    write_parquet([run_with(folder / "run", *results)], path, {"odd": Holds(record, kind_of_evidence)}, **more)
    return pq.read_table(path)


def own(table: pa.Table) -> dict[str, str]:
    """The columns of the study with their types."""
    return {
        field.name: re.sub(r" \('[^']*'\)", "", str(field.type)).replace("element: ", "")
        for field in table.schema
        if field.name not in COMMON_COLUMNS
    }


def texts_of(table: pa.Table) -> dict[str, str]:
    found: dict[str, str] = json.loads(table.schema.metadata[b"howsure.json_text"])
    return found


# -- types ------------------------------------------------------------------------------------------------------------


class Colour(enum.StrEnum):
    RED = "red"


class Point(msgspec.Struct):
    x: int
    y: float | None = None


class Step(Fields, rename={"at": "X|S"}):
    at: Point | None = None
    many: dict[str, float] = msgspec.field(default_factory=dict)


@pytest.mark.parametrize(
    ("hint", "wanted", "value", "read"),
    [
        (bool, "bool", True, True),
        (int | None, "int64", -(2**63), -(2**63)),
        (float, "double", 1, 1.0),
        (int | float, "double", 3, 3.0),
        (str, "string", "é\0", "é\0"),
        (Literal["a", "b"] | None, "string", "b", "b"),
        (Colour, "string", "red", "red"),
        (Annotated[int, msgspec.Meta(ge=0)], "int64", 3, 3),
        (list[int], "list<int64>", [], []),
        (list[list[float | None]], "list<list<double>>", [[1, None], []], [[1.0, None], []]),
        (tuple[float, ...], "list<double>", [0.5], [0.5]),
        (Sequence[str], "list<string>", ["a"], ["a"]),
        (list[Point], "list<struct<x: int64, y: double>>", [{"x": 1}], [{"x": 1, "y": None}]),
        (dict[str, int], "map<string, int64>", {"a b": 1, "": 2}, [("a b", 1), ("", 2)]),
        (Mapping[str, list[bool]], "map<string, list<bool>>", {"a": [True]}, [("a", [True])]),
        (dict[str, Point], "map<string, struct<x: int64, y: double>>", {"a": {"x": 1}}, [("a", {"x": 1, "y": None})]),
    ],
    ids=str,
)
def test_a_declared_type_is_a_column_of_that_type(
    hint: Any, wanted: str, value: Any, read: Any, tmp_path: Path
) -> None:
    record = msgspec.defstruct("Record", [("v", hint | None, None)])
    table = exported(tmp_path, {"v": value}, {"v": None}, {}, record=record, evidence=False)
    assert own(table) == {"result.v": wanted}
    assert table["result.v"].to_pylist() == [read, None, None]
    assert texts_of(table) == {}


@pytest.mark.parametrize("hint", [Any, dict[str, Any], dict, int | str, list[int] | int, Point | int, object], ids=str)
def test_what_may_have_any_form_is_json_text_with_a_note(hint: Any, tmp_path: Path) -> None:
    record = msgspec.defstruct("Record", [("v", hint, None), ("many", list[hint], [])])
    values = [{"a": [1, "é", None]}] if hint in (Any, object, dict, dict[str, Any]) else [3]
    table = exported(tmp_path, *({"v": value, "many": [value, value]} for value in values), {}, record=record)
    assert own(table) == {"result.v": "string", "result.many": "list<string>", "evidence": "string"}
    assert [msgspec.json.decode(value) for value in table["result.v"].to_pylist()[:-1]] == values
    assert [msgspec.json.decode(value) for value in table["result.many"].to_pylist()[0]] == values * 2
    assert table["result.v"].to_pylist()[-1] is None, "and not the text null"
    assert table.schema.field("result.v").metadata == {b"howsure": b"JSON text: values of any form"}
    why = "values of any form"
    assert texts_of(table) == {"result.v": why, "result.many[]": why, "evidence": why}


def test_texts_are_found_wherever_they_lie(tmp_path: Path) -> None:
    deep = msgspec.defstruct("Deep", [("v", Any, None), ("w", int, 0)])
    record = msgspec.defstruct("Record", [("one", deep | None, None), ("some", dict[str, list[deep]], {})])
    lines = [{"one": {"v": [1]}, "some": {"a": [{"v": "x", "w": 2}, {"w": 3}]}}, {"one": None}]
    table = exported(tmp_path, *lines, record=record, evidence=False)
    assert table["result.one.v"].to_pylist() == ["[1]", None]
    assert table["result.some"].to_pylist() == [[("a", [{"v": '"x"', "w": 2}, {"v": None, "w": 3}])], None]
    assert set(texts_of(table)) == {"result.one.v", "result.some{}[].v"}


def test_structs_lie_flat_and_a_struct_that_is_not_there_is_null_in_all_its_columns(tmp_path: Path) -> None:
    record = msgspec.defstruct("Record", [("step", Step | None, None), ("name", str, "")])
    lines = [{"step": {"X|S": {"x": 1, "y": 0.5}, "many": {}}}, {"step": {"X|S": None}}, {"step": None, "name": "n"}]
    table = exported(tmp_path, *lines, record=record, evidence=False)
    assert own(table) == {
        "result.step.X|S.x": "int64",
        "result.step.X|S.y": "double",
        "result.step.many": "map<string, double>",
        "result.name": "string",
    }, "under the names that they have in JSON"
    assert table["result.step.X|S.x"].to_pylist() == [1, None, None]
    assert table["result.step.many"].to_pylist() == [[], None, None]


def test_names_with_dots_collide_with_nothing(tmp_path: Path) -> None:
    inner = msgspec.defstruct("Inner", [("b", int, 0)])
    names = {"dotted": "a.b", "inner": "a", "bracket": "a[]"}
    record = msgspec.defstruct("Record", [("dotted", int), ("inner", inner), ("bracket", inner)], rename=names)
    table = exported(tmp_path, {"a.b": 1, "a": {"b": 2}, "a[]": {"b": 3}}, record=record)
    columns = [table[name].to_pylist() for name in ('result."a.b"', "result.a.b", 'result."a[]".b')]
    assert columns == [[1], [2], [3]]


def test_declared_columns_are_there_though_no_sample_fills_them_and_others_are_not(tmp_path: Path) -> None:
    line = to_json(
        {"id": "a", "index": 0, "result": {"new": 1, "v": 2}, "evidence": {"tokens": ["x"], "logprobs": [-1]}}
    )
    table = exported(tmp_path, line, kind_of_evidence=TokenRecord)
    assert own(table) == {
        "result.v": "double",
        "evidence.tokens": "list<string>",
        "evidence.logprobs": "list<double>",
        "evidence.bytes": "list<string>",
        "evidence.top.starts": "list<int64>",
        "evidence.top.tokens": "list<string>",
        "evidence.top.logprobs": "list<double>",
        "evidence.top.bytes": "list<string>",
        "evidence.entropies_nats": "list<double>",
        "evidence.prefix_chars": "int64",
    }, "a field that a later edition added is skipped"
    assert table["evidence.logprobs"].to_pylist() == [[-1.0]]
    assert list(own(exported(tmp_path / "none"))) == ["result.v", "evidence"]


def test_without_evidence(tmp_path: Path) -> None:
    line = to_json({"id": "a", "index": 0, "result": {"v": 1}, "evidence": {"tokens": 3}})
    lean = exported(tmp_path, line, kind_of_evidence=TokenRecord, evidence=False)
    assert set(lean.schema.names) == {*COMMON_COLUMNS, "result.v"}, "nor is it looked at"
    with pytest.raises(RunDamaged, match=r"line 1: Expected `array`, got `int` - at `\$.evidence.tokens`"):
        exported(tmp_path / "b", line, kind_of_evidence=TokenRecord)


# -- several studies --------------------------------------------------------------------------------------------------


def test_samples_of_a_study_that_is_not_known_are_json_text(tmp_path: Path) -> None:
    run = run_with(tmp_path / "run", {"v": "a", "w": {"x": [1, "é"]}}, b'{"id":"s1","index":1,"evidence":{"t":[0.5]}}')
    write_parquet([run], tmp_path / "x.parquet", {})
    table = pq.read_table(tmp_path / "x.parquet")
    assert own(table) == {"result": "string", "evidence": "string"}
    assert table["result"].to_pylist() == ['{"v":"a","w":{"x":[1,"é"]}}', "{}"]
    assert table["evidence"].to_pylist() == ["{}", '{"t":[0.5]}']
    assert texts_of(table) == dict.fromkeys(("result", "evidence"), "values of any form")


def together(folder: Path, one: Any, other: Any, *lines: dict[str, Any]) -> pa.Table:
    """Two runs of two studies, one line each, in one file."""
    kinds = zip(("one", "other"), (one, other), lines, strict=True)
    runs = [run_with(folder / study, line, study=study) for study, _, line in kinds]
    holds = {"one": Holds(one), "other": Holds(other)}
    write_parquet(runs, folder / "x.parquet", holds, evidence=False)
    write_parquet(runs[::-1], folder / "turned.parquet", holds, evidence=False)
    tables = [pq.read_table(folder / f"{name}.parquet") for name in ("x", "turned")]
    assert own(tables[0]) == dict(sorted(own(tables[1]).items(), key=lambda one: list(own(tables[0])).index(one[0])))
    assert texts_of(tables[0]) == texts_of(tables[1]), "whichever comes first"
    return tables[0]


@pytest.mark.parametrize(
    ("one", "other", "wanted", "values", "read"),
    [
        (int, int, "int64", (1, 2), [1, 2]),
        (int, float, "double", (1, 0.5), [1.0, 0.5]),
        (int, str, "string", (1, "a"), ["1", '"a"']),
        (str, dict[str, str], "string", ("a", {"b": "c"}), ['"a"', '{"b":"c"}']),
        (list[int], list[str], "string", ([1], ["a"]), ["[1]", '["a"]']),
        (Any, str, "string", ({"a": 1}, "b"), ['{"a":1}', '"b"']),
        (Any, Any, "string", (1, "b"), ["1", '"b"']),
        (Point, float, "string", ({"x": 1}, 0.5), ['{"x":1}', "0.5"]),
        (list[Any], list[str], "string", ([1], ["a"]), ["[1]", '["a"]']),
    ],
    ids=str,
)
def test_fields_of_one_name_get_a_type_that_takes_both(
    one: Any, other: Any, wanted: str, values: Any, read: list[Any], tmp_path: Path
) -> None:
    records = [msgspec.defstruct("Record", [("v", hint)]) for hint in (one, other)]
    table = together(tmp_path, *records, *({"v": value} for value in values))
    assert own(table) == {"result.v": wanted}
    assert table["result.v"].to_pylist() == read
    several = wanted == "string" and one is not other
    assert texts_of(table).get("result.v") == (
        "values of several kinds" if several else "values of any form" if one is Any else None
    )


@pytest.mark.parametrize("number", [int, float])
def test_structs_of_several_studies_are_merged_field_by_field(number: Any, tmp_path: Path) -> None:
    """Also where both are of one type, in which other fields are JSON text."""
    inner = msgspec.defstruct("Inner", [("x", number), ("t", Any, None), ("u", str, "")])
    other = msgspec.defstruct("Other", [("x", float), ("t", str, ""), ("u", Any, None)])
    a = msgspec.defstruct("A", [("inner", inner), ("own", str)])
    b = msgspec.defstruct("B", [("inner", other | None)])
    lines = {"inner": {"x": 1, "t": 2, "u": "v"}, "own": "o"}, {"inner": {"x": 0.5, "t": "w", "u": [3]}}
    table = together(tmp_path, a, b, *lines)
    texts = dict.fromkeys(("result.inner.t", "result.inner.u"), "string")
    assert own(table) == {"result.inner.x": "double"} | texts | {"result.own": "string"}
    rows = table.select([*texts, "result.own"]).to_pylist()
    assert [list(row.values()) for row in rows] == [["2", '"v"', "o"], ['"w"', "[3]", None]]
    assert texts_of(table) == dict.fromkeys(texts, "values of several kinds")


def test_several_runs_are_one_file(tmp_path: Path) -> None:
    runs = [run_with(tmp_path / "a", {"v": 1}), run_with(tmp_path / "b", {"v": 0.5})]
    done = write_parquet(runs, tmp_path / "x.parquet", {"odd": Holds(Plain)})
    table = pq.read_table(done.path)
    assert (done.runs, done.rows, done.columns) == (2, 2, len(table.schema))
    assert done.byte_count == done.path.stat().st_size
    assert table.select(["run", "result.v"]).to_pylist() == [
        {"run": "a", "result.v": 1.0},
        {"run": "b", "result.v": 0.5},
    ]
    assert len({name for name in table.schema.metadata if name.startswith(b"run.json/")}) == 2
    assert len(set(table["run_id"].to_pylist())) == 2, "though all that was asked for is the same"


# -- what every file has ----------------------------------------------------------------------------------------------


def test_the_columns_of_the_run_stand_in_every_row(tmp_path: Path, lenient_pages: None) -> None:
    folder = tmp_path / "my run"
    with RunWriter(folder, IDENTITY, 3, source="data.jsonl") as writer:
        writer.append([Sample("b", 1, {}, outcome=Outcome(True, 0.5, 3.0)), Sample("a", 0, reason="r", detail="d")])
        running = write_parquet([Run(folder)], folder / "samples.parquet", {"odd": Holds(Plain)})
        writer.append([Sample("c", 2)])
        writer.finish({"headline": [], "notes": []})
    table = pq.read_table(running.path)
    assert table.schema.names == [*COMMON_COLUMNS, "result.v", "evidence"]
    first, second = table.to_pylist()
    assert (first["run"], first["study"], first["model"], first["data"]) == ("my run", "odd", "m", "data.jsonl")
    assert first["data_fingerprint"] == "sha256:0"
    assert json.loads(first["options"]) == {"b": 1, "a": None}
    assert (first["seed"], first["status"], first["items"]) == (7, "running", 3)
    assert first["started"].isoformat() == Run(folder).manifest.started
    assert (first["id"], first["reason"], first["detail"], first["outcome.correct"]) == ("a", "r", "d", None)
    assert (second["id"], second["outcome.correct"], second["outcome.reward"]) == ("b", True, 0.5)
    assert second["outcome.distance"] == 3.0
    again = write_parquet([Run(folder)], folder / "samples.parquet", {"odd": Holds(Plain)})
    table = pq.read_table(again.path)
    assert (table.num_rows, set(table["status"].to_pylist())) == (3, {"finished"})
    assert set(table["run_id"].to_pylist()) == {first["run_id"]}, "the same run, wherever it lies and however far it is"
    assert json.loads(table.schema.metadata[b"summary.json"]) == {"headline": [], "notes": []}
    assert json.loads(table.schema.metadata[b"run.json"])["identity"]["study"] == "odd"
    assert oct(again.path.stat().st_mode)[-3:] == "644"
    metadata = pq.read_metadata(again.path)
    assert metadata.row_group(0).column(0).compression == "ZSTD"


def test_a_run_without_samples_and_one_without_a_result(tmp_path: Path) -> None:
    assert exported(tmp_path).num_rows == 0
    assert exported(tmp_path / "b", {})["result.v"].to_pylist() == [None]
    assert exported(tmp_path / "c", b'{"id":"a","index":0}')["result.v"].to_pylist() == [None]


def test_rows_are_in_the_order_of_the_data_in_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "PIECE_BYTES", 100)
    monkeypatch.setattr(export, "GROUP_BYTES", 1)
    lines = [to_json({"id": f"s{place}", "index": place % 5, "result": {"v": place}}) for place in range(20)]
    table = exported(tmp_path, *lines)
    assert table["index"].to_pylist() == sorted(place % 5 for place in range(20))
    assert table["result.v"].to_pylist()[:4] == [0, 5, 10, 15], "as they were written, where the place is the same"
    assert pq.read_metadata(tmp_path / "x.parquet").num_row_groups > 3


# -- faults -----------------------------------------------------------------------------------------------------------


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    run = run_with(tmp_path / "run", {"v": 1}, torn=b'{"id":"s1","index":1,"resu')
    assert write_parquet([run], tmp_path / "x.parquet", {"odd": Holds(Plain)}).rows == 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"id":"s1","index":1,"result":{"v":NaN}}', "line 2: JSON is malformed"),
        (b'{"id":"s1","index":1,"result":{"v":1e999}}', "line 2: Number out of range"),
        (b'{"id":"s1","index":1,"result":{"v":"\\ud800"}}', "line 2: "),
        (b'{"id":"s1","index":1,"result":{"v":"\xff"}}', "line 2: "),
        (b'{"id":"s1","index":1,"result":{"unknown":"\xff"}}', "line 2: "),
        (b'{"id":"s0","index":1}', "line 2: sample 's0' is there twice"),
        (b'{"id":"s1","index":99999999999999999999}', "line 2: index 1e\\+20 is not a place"),
        (b'{"id":"s1","index":1,"outcome":{"correct":"yes"}}', "line 2: Expected `bool"),
        (b'{"id":"s1","index":1,"result":null}', r"line 2: Expected `object`, got `null` - at `\$.result`"),
        (b'{"id":"s1","index":1,"result":{"n":"wide"}}', r"got `str` - at `\$.result.n`; delete that line"),
        (b'{"id":"s1","index":1,"result":{"n":1.5}}', r"got `float` - at `\$.result.n`"),
        (b'{"id":"s1","index":1,"result":{"p":[{"x":1},{}]}}', r"missing required field `x` - at `\$.result.p\[1\]`"),
        (b'{"id":"s1","index":1,"result":' + b"[" * 5000, "line 2: "),
    ],
    ids=[
        "nan",
        "infinite",
        "surrogate",
        "no text",
        "unknown field",
        "twice",
        "index",
        "outcome",
        "null",
        "text",
        "fraction",
        "lacking",
        "endless",
    ],
)
def test_a_bad_line_is_named_and_the_old_file_stays(line: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"old")
    record = msgspec.defstruct("Record", [("v", Any, None), ("n", int | None, None), ("p", list[Point], [])])
    with pytest.raises(RunDamaged, match=said):
        exported(tmp_path, {"v": 1}, line, record=record)
    assert (tmp_path / "x.parquet").read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "x.parquet"]


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 10**400], ids=["one", "negative", "huge"])
def test_an_integer_of_more_than_64_bits_is_named_by_its_sample(value: int, tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"old")
    record = msgspec.defstruct("Record", [("v", list[int])])
    with pytest.raises(RunDamaged, match="samples.jsonl: sample 's1' holds what no column can; delete its line"):
        exported(tmp_path, {"v": [2**63 - 1]}, {"v": [0, value]}, {"v": []}, record=record)
    assert (tmp_path / "x.parquet").read_bytes() == b"old"
    text = exported(tmp_path / "b", {"v": value}, record=msgspec.defstruct("Record", [("v", Any)]))
    assert text["result.v"].to_pylist() == [str(value)], "JSON text holds it"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (os.mkfifo, "is not a file but a pipe"),
        (os.mkdir, "cannot be read: Is a directory; restore it"),
        (lambda path: os.symlink(os.devnull, path), "leads out of"),
    ],
)
def test_samples_that_are_no_file_are_damage_and_not_waited_for(make: Any, said: str, tmp_path: Path) -> None:
    run = run_with(tmp_path / "run")
    (tmp_path / "run" / "samples.jsonl").unlink()
    make(tmp_path / "run" / "samples.jsonl")
    with pytest.raises(RunDamaged, match=f"samples.jsonl {said}"):
        write_parquet([run], tmp_path / "x.parquet", {"odd": Holds(Plain)})
    with pytest.raises(RunDamaged, match=f"samples.jsonl {said}"), RunWriter(tmp_path / "run", IDENTITY, 1):
        pass
    assert not (tmp_path / "x.parquet").exists()


def test_long_options_stand_in_every_row_but_not_in_memory_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        sys.modules[__name__], "IDENTITY", msgspec.structs.replace(IDENTITY, options={"a": "x" * 2**19})
    )
    pieces: list[int] = []
    real = export._columns
    monkeypatch.setattr(export, "_columns", lambda *given: pieces.append(len(given[-1])) or real(*given))
    table = exported(tmp_path, *({"v": i} for i in range(9)))
    assert (table.num_rows, max(pieces)) == (9, 2)


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.parquet").write_bytes(b"old")
    run = run_with(tmp_path / "run", {"v": 1})

    def full(_: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="x.parquet cannot be written: the disk is full"):
        write_parquet([run], tmp_path / "x.parquet", {"odd": Holds(Plain)})
    assert (tmp_path / "x.parquet").read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "x.parquet"]


def test_a_run_that_is_changed_between_the_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It grows, and then its file is replaced by another: what the first pass saw is what is written."""
    run = run_with(tmp_path / "run", {"v": 1}, {"v": 2})
    samples = tmp_path / "run" / "samples.jsonl"
    usual = export.schema_of

    def meanwhile(*given: Any) -> Any:
        with samples.open("ab") as file:
            file.write(b'{"id":"new","index":2,"result":{"v":"text"}}\n')
        other = tmp_path / "other"
        other.write_bytes(b"gone\n")
        other.replace(samples)
        return usual(*given)

    monkeypatch.setattr(export, "schema_of", meanwhile)
    write_parquet([run], tmp_path / "x.parquet", {"odd": Holds(Plain)})
    assert pq.read_table(tmp_path / "x.parquet")["result.v"].to_pylist() == [1, 2]


# -- read back by three readers ---------------------------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
REALS = st.floats(allow_nan=False, allow_infinity=False)
KEYS = st.sampled_from(["a", "b", "A", "a.b", "", 'q"', "x y", "é", "[]", "k" * 101]) | TEXT
ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | REALS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
NAMES = ("a", "b", "X|S", "a.b", "x y", "é[]", "{}")
_numbers = itertools.count()

Declared = tuple[Any, st.SearchStrategy[Any]]
"""A type as a study may declare it, and values of it."""
SCALARS: list[Declared] = [
    (bool, st.booleans()),
    (int, st.integers(-(2**63), 2**63 - 1)),
    (float, REALS),
    (str, TEXT),
    (Literal["north", "south"], st.sampled_from(["north", "south"])),
    (Any, ANY),
    (dict[str, Any], st.dictionaries(KEYS, ANY, max_size=3)),
    (int | str, st.integers(-9, 9) | TEXT),
]


def or_none(one: Declared) -> Declared:
    return one[0] | None if one[0] is not Any else Any, st.none() | one[1]


def struct_of(fields: list[Declared]) -> Declared:
    names = NAMES[: len(fields)]
    made = [(f"f{i}", hint) for i, (hint, _) in enumerate(fields)]
    renamed = {f"f{i}": name for i, name in enumerate(names)}
    struct = msgspec.defstruct(f"S{next(_numbers)}", made, rename=renamed)
    return struct, st.builds(struct, *(values for _, values in fields))


HINTS = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: (
        inner.map(or_none)
        | inner.map(lambda one: (list[one[0]], st.lists(one[1], max_size=3)))
        | inner.map(lambda one: (dict[str, one[0]], st.dictionaries(KEYS, one[1], max_size=3)))
        | st.lists(inner, min_size=1, max_size=4).map(struct_of)
    ),
    max_leaves=5,
)
RECORDS = st.lists(HINTS, min_size=1, max_size=len(NAMES)).map(struct_of)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_it_reads_back_as_it_was(tmp_path: Path, data: st.DataObject) -> None:
    record, results = data.draw(RECORDS)
    kind_of_evidence, evidence = data.draw(RECORDS)
    samples = [
        Sample(str(place), place, *parts)
        for place, parts in enumerate(data.draw(st.lists(st.tuples(results, evidence), max_size=4)))
    ]
    folder = tmp_path / f"{len(os.listdir(tmp_path))}"
    table = exported(folder, *map(encoded, samples), record=record, kind_of_evidence=kind_of_evidence)
    whole = [nested(table, row, texts_of(table)) for row in range(table.num_rows)]
    plain = [msgspec.to_builtins(sample) for sample in samples]
    assert whole == [{part: bare(sample.get(part, {})) for part in ("result", "evidence")} for sample in plain]
    columns = [[told(value) for value in column.to_pylist()] for column in table.columns]
    path = str(folder / "x.parquet")
    assert [[told(value) for value in one.to_list()] for one in polars.read_parquet(path)] == columns
    with duckdb.connect() as connection:
        rows = connection.execute("SELECT * FROM read_parquet(?)", [path]).fetchall()
    assert [[told(value) for value in column] for column in zip(*rows, strict=True)] == (columns if rows else [])


def bare(value: Any) -> Any:
    """Without what a table cannot tell: keys with null or nothing below them."""
    if isinstance(value, dict):
        found = {key: bare(one) for key, one in value.items()}
        return {key: one for key, one in found.items() if one is not None and one != {}}
    if isinstance(value, list):
        return [bare(one) for one in value]
    return exact(value)


def exact(value: Any) -> Any:
    """A number by its value and sign, so that 1 is 1.0, but True is not 1 and -0.0 is not 0.0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    return ("number", value, math.copysign(1.0, value) if value == 0 else None)


def nested(table: pa.Table, row: int, texts: dict[str, str]) -> dict[str, Any]:
    """A sample, put together again from its columns by what docs/export.md says about them."""
    found: dict[str, Any] = {"result": {}, "evidence": {}}
    for field in table.schema:
        if field.name in COMMON_COLUMNS:
            continue
        value = unfolded(table[field.name][row].as_py(), field.type, field.name, texts)
        *above, last = keys_of(field.name)
        here = found
        for key in above:
            here = here.setdefault(key, {})
        here[last] = here[last] | value if isinstance(here.get(last), dict) and isinstance(value, dict) else value
    return {part: bare(value) if value else {} for part, value in found.items()}


def keys_of(name: str) -> list[str]:
    parts = re.findall(r'"(?:[^"\\]|\\.)*"|[^.]+', name)
    keys = [json.loads(part) if part.startswith('"') else part for part in parts]
    assert ".".join(joined("", key) for key in keys) == name
    return keys


def unfolded(value: Any, kind: pa.DataType, place: str, texts: dict[str, str]) -> Any:
    if value is None:
        return None
    if place in texts:
        return msgspec.json.decode(value)
    if pa.types.is_list(kind):
        return [unfolded(one, kind.value_type, f"{place}[]", texts) for one in value]
    if pa.types.is_map(kind):
        return {key: unfolded(one, kind.item_type, f"{place}{{}}", texts) for key, one in value}
    if pa.types.is_struct(kind):
        return {f.name: unfolded(value[f.name], f.type, joined(place, f.name), texts) for f in kind}
    return value


def told(value: Any) -> Any:
    """pyarrow gives maps as pairs, the others as dictionaries; an empty one is then no different from an empty list."""
    if isinstance(value, dict):
        return {key: told(one) for key, one in value.items()} or None
    if isinstance(value, list):
        if value and all(isinstance(one, tuple) for one in value):
            return {key: told(one) for key, one in value}
        return [told(one) for one in value] or None
    return exact(value)
