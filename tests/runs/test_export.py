"""Runs as Parquet: what is read back is what the samples hold, whatever their shape, and whoever reads it."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from howsure.errors import RunDamaged, StorageError
from howsure.evidence import Outcome
from howsure.runs import Identity, Run, RunWriter, Sample
from howsure.runs.export import COMMON_COLUMNS, Shape, parquet, shape_of, write_parquet
from howsure.runs.export.columns import MOST_COLUMNS, joined
from howsure.runs.export.shapes import MOST_DEPTH, MOST_FIELDS
from howsure.runs.files import to_json

IDENTITY = Identity("odd", {"b": 1, "a": None}, {"name": "m", "sha": "1"}, {"fingerprint": "sha256:0"}, 7)


def run_with(folder: Path, *lines: Any, torn: bytes = b"") -> Run:
    """A run whose samples.jsonl holds these lines; a plain dictionary is the result of a sample."""
    with RunWriter(folder, IDENTITY, len(lines)):
        pass
    whole = [
        one if isinstance(one, bytes) else to_json({"id": f"s{place}", "index": place, "result": one})
        for place, one in enumerate(lines)
    ]
    (folder / "samples.jsonl").write_bytes(b"".join(line + b"\n" for line in whole) + torn)
    return Run(folder)


def exported(folder: Path, *results: Any, **more: Any) -> pa.Table:
    path = folder / "x.parquet"
    write_parquet([run_with(folder / "run", *results)], path, shape_of([]), **more)
    return pq.read_table(path)


def type_of(folder: Path, *values: Any) -> str | None:
    """The type of a column with these values, or None where there is no such column."""
    schema = exported(folder, *({"v": value} for value in values)).schema
    return str(schema.field("result.v").type) if "result.v" in schema.names else None


# -- types ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([True, None], "bool"),
        ([1, 2], "int64"),
        ([-(2**63), 2**63 - 1], "int64"),
        ([1, 2.5], "double"),
        ([2**53, 0.5], "double"),
        ([2**53 + 1, 0.5], "string"),
        ([2**63], "string"),
        (["a", None], "string"),
        (["a", 1], "string"),
        ([True, 1], "string"),
        ([[1], [0.5, None]], "list<element: double>"),
        ([["a"], [1]], "list<element: string>"),
        ([[], None], "list<element: null>"),
        ([[[]], [[1]]], "list<element: list<element: int64>>"),
        ([{"x": 1}, [1]], "string"),
        ([[{"x": 1}, {"y": "a"}]], "list<element: struct<x: int64, y: string>>"),
        ([[{}]], "list<element: string>"),
        ([None, None], None),
        ([{}, {}], None),
    ],
    ids=str,
)
def test_the_type_is_decided_over_all_samples(values: list[Any], wanted: str | None, tmp_path: Path) -> None:
    assert type_of(tmp_path, *values) == wanted
    assert type_of(tmp_path / "again", *reversed(values)) == wanted, "whatever comes first"


def test_what_has_no_common_type_is_json_text_with_a_note(tmp_path: Path) -> None:
    table = exported(tmp_path, {"v": "a"}, {"v": 2**70}, {"v": None}, {"v": {"x": [1, "é"]}})
    assert table["result.v"].to_pylist() == ['"a"', str(2**70), None, '{"x":[1,"é"]}']
    assert table.schema.field("result.v").metadata == {b"howsure": b"JSON text: values of several kinds"}
    assert json.loads(table.schema.metadata[b"howsure.json_text"]) == {"result.v": "values of several kinds"}


def test_dictionaries_lie_flat_and_many_keys_are_data(tmp_path: Path) -> None:
    few = {"d": {"x": 1, "y": {"z": 0.5}}}
    many = [{"p": {f"word {place}": place / 7}} for place in range(MOST_FIELDS + 1)]
    table = exported(tmp_path, few, *many)
    assert {"result.d.x", "result.d.y.z", "result.p"} == set(table.schema.names) - set(COMMON_COLUMNS)
    assert table.schema.field("result.p").type.item_type == pa.float64()
    assert table["result.p"].to_pylist()[1:3] == [[("word 0", 0.0)], [("word 1", 1 / 7)]]
    named = exported(tmp_path / "b", *many[:-1])
    assert len(named.schema.names) == len(COMMON_COLUMNS) + MOST_FIELDS


@pytest.mark.parametrize("key", ["", "N" * 1_000_000, "line\nbreak", "nul\0"], ids=["empty", "1 MB", "newline", "nul"])
def test_a_key_that_is_no_name_makes_keys_data(key: str, tmp_path: Path) -> None:
    table = exported(tmp_path, {"d": {key: 1, "b": None}})
    assert table["result.d"].to_pylist() == [[(key, 1), ("b", None)]]


def test_keys_with_dots_collide_with_nothing(tmp_path: Path) -> None:
    table = exported(tmp_path, {"a.b": 1, "a": {"b": 2}, '"a': {"b": 3}, "c": {"D": 4, "d": 5}})
    assert [table[name].to_pylist() for name in ('result."a.b"', "result.a.b", 'result."\\"a".b')] == [[1], [2], [3]]
    assert table["result.c"].to_pylist() == [[("D", 4), ("d", 5)]], "DuckDB takes D and d for one name"


def test_no_file_has_endless_columns_and_no_shape_grows_with_the_run(tmp_path: Path) -> None:
    wide = {f"a{i}": {f"b{j}": {f"c{k}": 1 for k in range(8)} for j in range(20)} for i in range(20)}
    table = exported(tmp_path, wide)
    assert len(table.schema.names) < MOST_COLUMNS
    assert dict(table["result.a3"].to_pylist()[0])["b7"] == {f"c{k}": 1 for k in range(8)}
    shape = shape_of([])
    before = shape.room.places
    for sample in range(300):
        shape.see({"result": {"d": {f"{sample}-{i}": [{f"{sample}-{i}": i}] for i in range(300)}}})
    assert before - shape.room.places < 10


def test_what_is_nested_too_deeply_is_text(tmp_path: Path) -> None:
    deep: Any = 1
    for _ in range(400):
        deep = [deep]
    value = exported(tmp_path, {"v": deep})["result.v"].to_pylist()[0]
    for _ in range(MOST_DEPTH - 2):  # a sample and its result are two already
        (value,) = value
    left = 400 - (MOST_DEPTH - 2)
    assert value == "[" * left + "1" + "]" * left


# -- what every file has ----------------------------------------------------------------------------------------------


def test_the_columns_of_the_run_stand_in_every_row(tmp_path: Path, lenient_pages: None) -> None:
    folder = tmp_path / "my run"
    with RunWriter(folder, IDENTITY, 3, source="data.jsonl") as writer:
        writer.append([Sample("b", 1, {}, outcome=Outcome(True, 0.5, 3.0)), Sample("a", 0, reason="r", detail="d")])
        running = write_parquet([Run(folder)], folder / "samples.parquet", shape_of([]))
        writer.append([Sample("c", 2)])
        writer.finish({"headline": [], "notes": []})
    table = pq.read_table(running.path)
    assert table.schema.names == list(COMMON_COLUMNS)
    first, second = table.to_pylist()
    assert (first["run"], first["study"], first["model"], first["data"]) == ("my run", "odd", "m", "data.jsonl")
    assert first["data_fingerprint"] == "sha256:0"
    assert json.loads(first["options"]) == {"b": 1, "a": None}
    assert (first["seed"], first["status"], first["items"]) == (7, "running", 3)
    assert first["started"].isoformat() == Run(folder).manifest.started
    assert (first["id"], first["reason"], first["detail"], first["outcome.correct"]) == ("a", "r", "d", None)
    assert (second["id"], second["outcome.correct"], second["outcome.reward"]) == ("b", True, 0.5)
    assert second["outcome.distance"] == 3.0
    again = write_parquet([Run(folder)], folder / "samples.parquet", shape_of([]))
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
    assert exported(tmp_path / "b", {}).schema.names == list(COMMON_COLUMNS)


def test_rows_are_in_the_order_of_the_data_in_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "PIECE_BYTES", 100)
    monkeypatch.setattr(parquet, "GROUP_BYTES", 1)
    lines = [to_json({"id": f"s{place}", "index": place % 5, "result": {"v": place}}) for place in range(20)]
    table = exported(tmp_path, *lines)
    assert table["index"].to_pylist() == sorted(place % 5 for place in range(20))
    assert table["result.v"].to_pylist()[:4] == [0, 5, 10, 15], "as they were written, where the place is the same"
    assert pq.read_metadata(tmp_path / "x.parquet").num_row_groups > 3


def test_several_runs_are_one_file(tmp_path: Path) -> None:
    runs = [run_with(tmp_path / "a", {"v": 1}), run_with(tmp_path / "b", {"v": 0.5, "w": "x"})]
    done = write_parquet(runs, tmp_path / "x.parquet", shape_of([]))
    table = pq.read_table(done.path)
    assert (done.runs, done.rows) == (2, 2)
    assert table.select(["run", "result.v", "result.w"]).to_pylist() == [
        {"run": "a", "result.v": 1.0, "result.w": None},
        {"run": "b", "result.v": 0.5, "result.w": "x"},
    ]
    assert len({name for name in table.schema.metadata if name.startswith(b"run.json/")}) == 2
    assert len(set(table["run_id"].to_pylist())) == 2, "though all that was asked for is the same"


def test_declared_columns_are_there_in_their_type(tmp_path: Path) -> None:
    shape = shape_of([{"result": {"v": 0.5, "words": [""]}, "evidence": {"logprobs": [0.5]}}])
    write_parquet([run_with(tmp_path / "run", {"v": 1}, {"words": []})], tmp_path / "x.parquet", shape)
    schema = pq.read_schema(tmp_path / "x.parquet")
    wanted = {
        "result.v": "double",
        "result.words": "list<element: string>",
        "evidence.logprobs": "list<element: double>",
    }
    assert {name: str(schema.field(name).type) for name in wanted} == wanted


def test_without_evidence(tmp_path: Path) -> None:
    line = to_json({"id": "a", "index": 0, "result": {"v": 1}, "evidence": {"tokens": ["x"]}})
    assert "evidence.tokens" in exported(tmp_path, line).schema.names
    lean = exported(tmp_path / "b", line, evidence=False)
    assert set(lean.schema.names) == {*COMMON_COLUMNS, "result.v"}


# -- faults -----------------------------------------------------------------------------------------------------------


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    run = run_with(tmp_path / "run", {"v": 1}, torn=b'{"id":"s1","index":1,"resu')
    assert write_parquet([run], tmp_path / "x.parquet", shape_of([])).rows == 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"id":"s1","index":1,"result":{"v":NaN}}', "line 2: JSON is malformed"),
        (b'{"id":"s1","index":1,"result":{"v":1e999}}', "line 2: Number out of range"),
        (b'{"id":"s1","index":1,"result":{"v":"\\ud800"}}', "line 2: "),
        (b'{"id":"s1","index":1,"result":{"v":"\xff"}}', "line 2: "),
        (b'{"id":"s0","index":1}', "line 2: sample 's0' is there twice"),
        (b'{"id":"s1","index":99999999999999999999}', "line 2: index 1e\\+20 is no place"),
        (b'{"id":"s1","index":1,"outcome":{"correct":"yes"}}', "line 2: Expected `bool"),
        (b'{"id":"s1","index":1,"result":' + b"[" * 5000, "line 2: "),
    ],
    ids=["nan", "infinite", "surrogate", "no text", "twice", "index", "outcome", "endless"],
)
def test_a_bad_line_is_named_and_the_old_file_stays(line: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"old")
    with pytest.raises(RunDamaged, match=said):
        exported(tmp_path, {"v": 1}, line)
    assert (tmp_path / "x.parquet").read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "x.parquet"]


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
        write_parquet([run], tmp_path / "x.parquet", shape_of([]))
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
    real = parquet._columns
    monkeypatch.setattr(parquet, "_columns", lambda *given: pieces.append(len(given[-1])) or real(*given))
    table = exported(tmp_path, *({"v": i} for i in range(9)))
    assert (table.num_rows, max(pieces)) == (9, 2)


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.parquet").write_bytes(b"old")
    run = run_with(tmp_path / "run", {"v": 1})

    def full(_: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="x.parquet cannot be written: the disk is full"):
        write_parquet([run], tmp_path / "x.parquet", shape_of([]))
    assert (tmp_path / "x.parquet").read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "x.parquet"]


def test_a_run_that_is_changed_between_the_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It grows, and then its file is replaced by another: what the first pass saw is what is written."""
    run = run_with(tmp_path / "run", {"v": 1}, {"v": 2})
    samples = tmp_path / "run" / "samples.jsonl"
    usual = parquet.kind_of

    def meanwhile(shape: Shape) -> Any:
        with samples.open("ab") as file:
            file.write(b'{"id":"new","index":2,"result":{"v":"text"}}\n')
        other = tmp_path / "other"
        other.write_bytes(b"gone\n")
        other.replace(samples)
        return usual(shape)

    monkeypatch.setattr(parquet, "kind_of", meanwhile)
    write_parquet([run], tmp_path / "x.parquet", shape_of([]))
    assert pq.read_table(tmp_path / "x.parquet")["result.v"].to_pylist() == [1, 2]


# -- read back by three readers ---------------------------------------------------------------------------------------

KEYS = st.sampled_from(["a", "b", "A", "a.b", "", 'q"', "x y", "é", "[]", "k" * 101]) | st.text(max_size=3)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.integers(-9, 9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)
PARTS = st.dictionaries(KEYS, VALUES, max_size=3)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(PARTS, PARTS), max_size=4))
@example([({f"key {i}": {str(j): 1 for j in range(9)} for i in range(600)}, {"x": [{"y": None}, {}, None]})])
@example([({"v": 2**63}, {}), ({"v": -0.0}, {}), ({"v": 5e-324}, {})])
def test_it_reads_back_as_it_was(tmp_path: Path, samples: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    lines = [
        to_json({"id": str(place), "index": place, "result": result, "evidence": evidence})
        for place, (result, evidence) in enumerate(samples)
    ]
    folder = tmp_path / f"{len(os.listdir(tmp_path))}"
    table = exported(folder, *lines)
    texts = json.loads(table.schema.metadata[b"howsure.json_text"])
    whole = [nested(table, row, texts) for row in range(table.num_rows)]
    assert whole == [{"result": bare(result), "evidence": bare(evidence)} for result, evidence in samples]
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
