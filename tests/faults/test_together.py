"""Several processes on one run, at the same instant: one works, the others are told; and whoever reads sees no harm."""

from __future__ import annotations

import json
import re
import threading
import time
from pathlib import Path

from filelock import FileLock

from commands import Commands
from faults.cases import Workshop
from faults.harness import assert_same_run, manifest, read
from howsure.runs import Run
from sizes import several

AT_ONCE = 3


def test_of_those_who_begin_at_the_same_instant_one_works(
    commands: Commands, workshop: Workshop, tmp_path: Path
) -> None:
    """Others are told who does, and a run that somebody left is fought over as one that nobody began."""
    case, whole = workshop.mcq(), tmp_path / "whole" / "run"
    commands.finish(*case.arguments, "--out", whole)
    told = 0
    for number in range(several(2, 8)):
        out, go = tmp_path / str(number) / "run", tmp_path / f"go-{number}"
        arguments = [*case.arguments, "--out", out]
        if begun := number % 2:
            assert commands.run(*arguments, below=str(out), kill_at=45).killed
        slowly = {"below": str(out), "pause_s": 0.01, "starts_with": str(go)}
        started = [commands.start(*arguments, **slowly) for _ in range(AT_ONCE)]
        go.touch()
        ends = {one.pid: one.wait() for one in started}
        workers = {pid for pid, end in ends.items() if end.code == 0}
        assert workers, [end.said for end in ends.values()]
        for pid in set(ends) - workers:
            who = re.search(r"is being written by (?:process (\d+) on|another process)", ends[pid].said)
            assert ends[pid].code == 2, ends[pid].said
            assert who, ends[pid].said
            assert who[1] is None or int(who[1]) in workers, f"{who[0]}, and it was one of {workers}"
            told += 1
        assert_same_run(whole, out)
        assert manifest(out)["sessions"] == len(workers) + begun
    assert told, "they never met"


def test_who_left_a_run_is_not_said_to_write_it(commands: Commands, workshop: Workshop, tmp_path: Path) -> None:
    """Between its lock and its manifest a process has not said yet who it is; the manifest still names a dead one."""
    case, out = workshop.mcq(), tmp_path / "run"
    arguments = [*case.arguments, "--out", out]
    assert commands.run(*arguments, below=str(out), kill_at=45).killed
    with FileLock(out / ".lock"):
        said = commands.refused(*arguments)
    assert f"{out} is being written by another process: wait for it" in said


def test_training_into_one_file_at_the_same_instant(commands: Commands, workshop: Workshop, tmp_path: Path) -> None:
    """The file is whole whenever somebody looks; whoever comes second is told, or comes after the first."""
    train = ["ngram", "train", workshop.book, "--discount-fallback", "--quiet", "--order", 3, "--out"]
    for name in ("whole", "torn"):
        (tmp_path / name).mkdir()
    commands.finish(*train, tmp_path / "whole" / "m.arpa")
    new = read(tmp_path / "whole" / "m.arpa")
    for number in range(several(1, 4)):
        go, folder = tmp_path / f"go-{number}", tmp_path / "torn"
        slowly = {"below": str(folder), "pause_s": 0.02, "starts_with": str(go)}
        started = [commands.start(*train, folder / "m.arpa", **slowly) for _ in range(AT_ONCE)]
        go.touch()
        ends = [one.wait() for one in started]
        assert 0 in [end.code for end in ends], [end.said for end in ends]
        for end in ends:
            assert end.code == 0 or "is being written by another process" in end.said, end.said
        assert read(folder / "m.arpa") == new
        assert [path.name for path in folder.iterdir()] == ["m.arpa"]


def test_whoever_reads_while_it_is_written_sees_whole_samples_and_more_of_them(
    commands: Commands, workshop: Workshop, tmp_path: Path
) -> None:
    case, whole, out = workshop.mcq(), tmp_path / "whole" / "run", tmp_path / "runs" / "run"
    commands.finish(*case.arguments, "--out", whole)
    out.parent.mkdir()
    writing = commands.start(*case.arguments, "--out", out, below=str(out), pause_s=0.02)
    ended: list[int] = []
    watcher = threading.Thread(target=lambda: ended.append(writing.wait().code))
    watcher.start()
    counts, states = [0], set()
    while watcher.is_alive():
        if (out / "run.json").exists():
            counts.append(len(Run(out).records()))
            states.add(Run(out).status)
            if len(counts) % 20 == 2:
                assert len(json.loads(commands.finish("runs", out.parent, "--json").out)) == 1
        time.sleep(0.02)
    watcher.join()
    assert ended == [0]
    assert counts == sorted(counts)
    assert len(set(counts)) > 2, "nobody looked while it was written"
    assert states <= {"running", "finished"}, f"somebody who reads took a run for {states}"
    assert_same_run(whole, out)
