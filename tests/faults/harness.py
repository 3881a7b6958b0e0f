"""What the fault suite shares: commands that can be disturbed, and what must be true of a run after that.

Two sizes (`sizes`): `make test` disturbs two studies, which share the loop with all others, at a few moments;
`make test-faults` disturbs every study, and at more of them. HOWSURE_FAULT_SEED chooses the moments of a repetition, so
that ten of them try ten times as many.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from commands import Commands

SEED = int(os.environ.get("HOWSURE_FAULT_SEED", "0"))


def chance(*what: object) -> random.Random:
    """The draws of one test, which differ from repetition to repetition."""
    return random.Random("/".join(map(str, (SEED, *what))))


# -- what must be true afterwards ---------------------------------------------------------------------------------

TIMES = re.compile(rb"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?( UTC|\+00:00)?|\b\d+ sessions?\b")
"""When a run was made, and in how many sessions."""
RETRIES = re.compile(rb',"server_retries":\d+')
"""How often a server was asked before it answered is recorded, and is no part of the answer."""

OWN = {"run.json", "report.html", ".lock", "samples.jsonl"}
"""What is looked at apart: it says when and by whom a run was made, or holds the samples."""


def assert_same_run(undisturbed: Path, disturbed: Path, *, same_order: bool = True) -> None:
    """Nothing lost, nothing twice, figures equal, every failed sample named, and nothing left lying about."""
    assert_whole(disturbed)
    assert_same_samples(undisturbed, disturbed, same_order=same_order)
    assert read(disturbed / "summary.json") == read(undisturbed / "summary.json"), "figures to the last byte"
    assert_same_files(undisturbed, disturbed)
    mine, theirs = manifest(disturbed), manifest(undisturbed)
    assert {**mine["identity"]} == {**theirs["identity"]}
    assert mine["items"] == theirs["items"]
    if same_order:  # of samples that are equally worth a look, a page shows the first
        assert report_apart_from_times(disturbed) == report_apart_from_times(undisturbed)


def assert_same_pair(undisturbed: Path, disturbed: Path) -> None:
    """The same for the two runs of --model-b, and for what was found between them.

    The folder that holds both has no owner, so that nobody may take away a scrap that a kill left there.
    """
    for name in ("a", "b"):
        assert_same_run(undisturbed / name, disturbed / name)
    for scrap in disturbed.glob(".*.part"):
        scrap.unlink()
    assert_same_files(undisturbed, disturbed)
    assert report_apart_from_times(disturbed) == report_apart_from_times(undisturbed)


def assert_whole(run: Path) -> None:
    """A finished run that can be believed by itself."""
    assert manifest(run)["status"] == "finished"
    assert manifest(run).get("error") is None
    rows = samples(run)
    twice = [name for name, count in Counter(row["id"] for row in rows).items() if count > 1]
    assert not twice, f"samples that are there twice: {twice}"
    for row in rows:
        if row.get("reason") is not None:
            assert row["reason"], row
            assert row.get("detail"), f"{row['id']} failed for {row['reason']} and does not say more"
    coverage = json.loads(read(run / "summary.json"))["coverage"]
    assert coverage["items"] == coverage["scored"] + sum(coverage["missing"].values())


def assert_same_samples(undisturbed: Path, disturbed: Path, *, same_order: bool = True) -> None:
    mine, theirs = (RETRIES.sub(b"", read(run / "samples.jsonl")).splitlines() for run in (disturbed, undisturbed))
    ids = [{json.loads(line)["id"] for line in lines} for lines in (mine, theirs)]
    assert ids[0] == ids[1], f"lost: {sorted(ids[1] - ids[0])}, from nowhere: {sorted(ids[0] - ids[1])}"
    assert (mine == theirs) if same_order else (sorted(mine) == sorted(theirs)), "every sample to the last digit"


def assert_same_files(undisturbed: Path, disturbed: Path) -> None:
    """Tables, exports and pictures are the same to the last byte, and there is no scrap of a torn write."""
    names = [files_of(run) for run in (disturbed, undisturbed)]
    assert names[0] == names[1], f"files that differ: {sorted(names[0] ^ names[1])}"
    for name in {name for name in names[0] if Path(name).name not in OWN}:
        mine, theirs = (read(run / name).replace(bytes(run), b"RUN") for run in (disturbed, undisturbed))
        assert mine == theirs, f"{name} is another"


def report_apart_from_times(run: Path) -> bytes:
    """The page about a run without what says when and where it was made."""
    return TIMES.sub(b"", read(run / "report.html"))


def files_of(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def samples(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in read(run / "samples.jsonl").splitlines()]


def manifest(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(read(run / "run.json"))
    return found


def read(path: Path) -> bytes:
    return path.read_bytes()


def lines_on_disk(run: Path) -> int:
    """Samples that are finished so far; there may be no run yet."""
    path = run / "samples.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def moments_of(commands: Commands, arguments: Sequence[object], below: Path, log: Path, **fault: Any) -> list[str]:
    """Run undisturbed, and what happened on the disk on the way."""
    commands.finish(*arguments, below=str(below), count_into=str(log), **fault)
    return log.read_text().splitlines()


def kinds_of(moments: Sequence[str]) -> dict[str, list[int]]:
    """Moments by what is done to which file, whatever the number or digest in its name."""
    kinds: dict[str, list[int]] = {}
    for number, line in enumerate(moments, 1):
        what, _, path = line.partition(" ")[2].rpartition(" ")
        name = re.sub(r"\.[a-z0-9_]{8}\.part$|[0-9a-f]{24}|\d+", "", os.path.basename(path))
        kinds.setdefault(f"{what} {name}", []).append(number)
    return kinds
