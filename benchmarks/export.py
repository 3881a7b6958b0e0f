"""`howsure export` of a run of 100,000 questions, against Polars reading the same lines and writing the same format.

The run is the one of `viewer`. Polars infers its types from all lines and holds the whole table; it leaves dictionaries
as structures, and knows neither runs nor torn lines. Peak memory is that of a process that does nothing else.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.harness import Case
from benchmarks.viewer import SAMPLES, make_run

OURS = "import howsure; howsure.export({run!r}, {out!r}, evidence={evidence})"
POLARS = (
    "import polars as pl; pl.read_ndjson({run!r} + '/samples.jsonl', infer_schema_length=None)"
    "{columns}.write_parquet({out!r}, compression='zstd')"
)
PEAK = "\nprint([line for line in open('/proc/self/status') if line.startswith('VmHWM')][0].split()[1])"


def cases() -> list[Case]:
    folder = tempfile.TemporaryDirectory()
    run = make_run(Path(folder.name) / "run", SAMPLES)
    return [_case(folder, run, evidence) for evidence in (True, False)]


def _case(folder: Any, run: Path, evidence: bool) -> Case:
    ours, theirs = (Path(folder.name) / f"{name}-{evidence}.parquet" for name in ("ours", "theirs"))
    code = {
        "howsure export": OURS.format(run=str(run), out=str(ours), evidence=evidence),
        "Polars, all in memory": POLARS.format(
            run=str(run), out=str(theirs), columns="" if evidence else ".drop('evidence')"
        ),
    }
    peaks = {f"{name}, peak": f"{_peak_mb(words):.0f} MB" for name, words in code.items()}
    _check(ours, theirs, evidence)
    sizes = {
        "samples.jsonl": f"{(run / 'samples.jsonl').stat().st_size:,} bytes",
        "our file": f"{ours.stat().st_size:,} bytes",
        "theirs": f"{theirs.stat().st_size:,} bytes",
    }
    contenders = {name: _doing(words, folder) for name, words in code.items()}
    return Case(f"{SAMPLES:,} samples, {'with' if evidence else 'without'} evidence", contenders, sizes | peaks)


def _doing(words: str, _: Any) -> Any:
    """The work in this process; whoever holds it holds the folder too."""
    compiled = compile(words, "<benchmark>", "exec")
    return lambda folder=_: exec(compiled, {})


def _peak_mb(words: str) -> float:
    done = subprocess.run([sys.executable, "-c", words + PEAK], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1]) / 1024


def _check(ours: Path, theirs: Path, evidence: bool) -> None:
    """Both files hold the same."""
    import polars

    mine, other = polars.read_parquet(ours), polars.read_parquet(theirs)
    result = other["result"].struct
    assert mine["id"].equals(other["id"])
    for name in ("confidence", "choices", "log_likelihoods", "correct"):
        assert mine[f"result.{name}"].to_list() == result.field(name).to_list(), name
    if evidence:
        assert mine["evidence.choices"].to_list()[::1000] == [
            [{field: choice.get(field) for field in mine["evidence.choices"].dtype.inner.to_schema()} for choice in one]
            for one in other["evidence"].struct.field("choices").to_list()[::1000]
        ]
