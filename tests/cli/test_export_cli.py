"""`howsure export` as it is typed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from runs_to_look_at import make_mcq


def export(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "howsure", "export", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good run, one of a study that nobody here knows, and one whose third sample does not fit."""
    base = tmp_path_factory.mktemp("export")
    make_mcq(base / "runs" / "good", base, 0)
    make_mcq(base / "runs" / "odd", base, 1)
    odd = base / "runs" / "odd" / "run.json"
    manifest = json.loads(odd.read_text())
    manifest["identity"]["study"] = "oddities"
    odd.write_text(json.dumps(manifest))
    shutil.copytree(base / "runs" / "good", base / "runs" / "bad")
    lines = (base / "runs" / "bad" / "samples.jsonl").read_text().splitlines()
    third = json.loads(lines[2])
    third["result"]["margin"] = "wide"
    (base / "runs" / "bad" / "samples.jsonl").write_text("\n".join([*lines[:2], json.dumps(third), *lines[3:], ""]))
    return base / "runs"


def test_a_folder_of_runs_one_of_them_damaged(runs: Path) -> None:
    done = export(runs, "--parquet")
    assert done.returncode == 1
    good, odd = (runs / name / "samples.parquet" for name in ("good", "odd"))
    assert [line.split(",")[0] for line in done.stdout.splitlines()] == [f"{good}: 60 rows", f"{odd}: 60 rows"]
    said = done.stderr.splitlines()
    assert len(said) == 2
    assert (
        f"error: {runs / 'bad' / 'samples.jsonl'}, line 3: Expected `float | null`, got `str` - at `$.result.margin`"
        in said[0]
    )
    assert said[1] == "howsure: result is JSON text (values of any form), and 1 more"
    assert not (runs / "bad" / "samples.parquet").exists()
    assert pq.read_metadata(good).num_rows == 60


def test_one_damaged_run_is_one_sentence(runs: Path) -> None:
    done = export(runs / "bad")
    assert (done.returncode, done.stdout) == (2, "")
    assert "line 3" in done.stderr
    assert "Traceback" not in done.stderr


def test_as_data_into_one_file(runs: Path, tmp_path: Path) -> None:
    target = tmp_path / "both.parquet"
    done = export(runs / "good", runs / "odd", "--out", target, "--no-evidence", "--json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    assert (row["path"], row["runs"], row["rows"]) == (str(target), 2, 120)
    assert row["byte_count"] == target.stat().st_size
    assert not any(name.startswith("evidence") for name in pq.read_schema(target).names)
    planned = export(runs, "--dry-run", "--json")
    assert json.loads(planned.stdout) == {"runs": 3, "files": 3, "model_calls": 0, "tokens": 0}


def test_without_pyarrow_the_extra_is_named(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['pyarrow'] = None\n")
    done = export(runs / "good", PYTHONPATH=str(tmp_path))
    assert done.returncode == 2
    assert 'pip install "howsure[stats]"' in done.stderr
    assert len(done.stderr.splitlines()) == 1
