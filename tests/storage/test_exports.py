"""Exports of runs that lie in a store, and into one."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import howsure
from howsure.errors import InputError, RunDamaged
from howsure.storage import StoredFolder, local
from runs_to_look_at import make_mcq


def test_runs_in_a_store_are_exported_there(store: str, tmp_path: Path) -> None:
    for number, name in enumerate(("before", "after")):
        make_mcq(tmp_path / "runs" / name, tmp_path, number)
        stored = StoredFolder(f"{store}/runs/{name}")
        for path in sorted((tmp_path / "runs" / name).iterdir()):
            if path.is_file() and not path.name.startswith("."):
                stored.put_file(path.name, path)
    written = howsure.export(f"{store}/runs")
    assert [str(one.path) for one in written] == [
        f"{store}/runs/{name}/samples.parquet" for name in ("after", "before")
    ]
    (here,) = howsure.export(tmp_path / "runs" / "after")
    there = pq.read_table(local(f"{store}/runs/after/samples.parquet"))
    assert there.equals(pq.read_table(here.path))
    (both,) = howsure.export([f"{store}/runs/before", tmp_path / "runs" / "after"], f"{store}/tables/both.parquet")
    assert str(both.path) == f"{store}/tables/both.parquet"
    assert pq.read_table(local(f"{store}/tables/both.parquet")).num_rows == 120
    howsure.export(f"{store}/runs", f"{store}/tables")
    assert sorted(StoredFolder(f"{store}/tables").files()) == ["after.parquet", "before.parquet", "both.parquet"]


def test_a_damaged_run_in_a_store_is_named_by_its_address(tmp_path: Path) -> None:
    make_mcq(tmp_path / "run", tmp_path, 0)
    stored = StoredFolder("memory://damaged/run")
    stored.put_file("run.json", tmp_path / "run" / "run.json")
    stored.put("samples.jsonl", b"{}\n")
    with pytest.raises(RunDamaged, match="memory://damaged/run/samples.jsonl, line 1: "):
        howsure.export("memory://damaged/run")
    assert "samples.parquet" not in stored.files()


def test_nobodys_data_is_written_over(store: str, tmp_path: Path) -> None:
    make_mcq(tmp_path / "run", tmp_path, 0)
    there = StoredFolder(f"{store}/t")
    mine = tmp_path / "mine.parquet"
    pq.write_table(pa.table({"a": [1]}), mine)
    there.put_file("mine.parquet", mine)
    there.put_file("run.parquet", mine)
    there.put("samples.jsonl", b"{}")
    there.put("empty.parquet", b"")
    for out in (mine, f"{store}/t/mine.parquet", f"{store}/t"):
        with pytest.raises(InputError, match="is there, and `howsure export` did not write it: name another --out"):
            howsure.export(tmp_path / "run", out)
    with pytest.raises(InputError, match=r"is a file whose name does not end in \.parquet"):
        howsure.export(tmp_path / "run", f"{store}/t/samples.jsonl")
    with pytest.raises(InputError, match=r"is followed by \?"):
        howsure.export(tmp_path / "run", f"{store}/t/x?y.parquet")
    assert there.read("mine.parquet") == there.read("run.parquet") == mine.read_bytes()
    for _ in range(2):
        howsure.export(tmp_path / "run", f"{store}/t/empty.parquet")
    assert pq.read_table(local(f"{store}/t/empty.parquet")).num_rows == 60


@pytest.mark.parametrize("out", ["https://example.org/x/all.parquet", "s3:/bucket/all.parquet"])
def test_where_nothing_can_be_written(out: str, tmp_path: Path) -> None:
    make_mcq(tmp_path / "run", tmp_path, 0)
    with pytest.raises(InputError, match="which has no folders|was an address before"):
        howsure.export(tmp_path / "run", out)
