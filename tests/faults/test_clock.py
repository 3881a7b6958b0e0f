"""A clock that is set back, again and again, while a run works: figures, order, status and resuming do not mind."""

from __future__ import annotations

import datetime
import json
import os
from pathlib import Path

import pytest

from commands import Commands
from faults.cases import Workshop
from faults.harness import assert_same_run, assert_whole, chance, manifest
from howsure.runs import Identity, Run, RunWriter, folder
from sizes import several

FAR_AHEAD_S = 4e9
"""Seconds since 1970 that lie in the year 2096."""


def assert_times_make_sense(run: Path) -> None:
    began, ended = (datetime.datetime.fromisoformat(manifest(run)[name]) for name in ("started", "ended"))
    assert (ended - began).total_seconds() >= 0, "no run ends before it began"


def test_a_clock_that_goes_backwards_changes_no_figure(commands: Commands, workshop: Workshop, tmp_path: Path) -> None:
    for name in ("mcq", "perplexity", "trust", "trajectories")[: several(2, 4)]:
        case, whole = getattr(workshop, name)(), tmp_path / name / "whole" / "run"
        smaller, rng = dict(case.smaller), chance("clock", name)
        commands.finish(*case.arguments, "--out", whole, set=smaller)
        for number in range(several(1, 3)):
            out = tmp_path / name / str(number) / "run"
            arguments = [*case.arguments, "--out", out]
            at, seed = rng.randint(20, 60), rng.randint(0, 10**6)
            assert commands.run(*arguments, set=smaller, below=str(out), kill_at=at, clock_seed=seed).killed
            commands.finish(*arguments, set=smaller, clock_seed=seed + 1)
            assert_same_run(whole, out)
            assert_times_make_sense(out)


def test_no_run_ends_before_it_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(["2030-06-01T12:00:00+00:00", "2030-06-01T11:59:59+00:00"])
    monkeypatch.setattr(folder, "_now", lambda: next(times))
    with pytest.raises(KeyboardInterrupt), RunWriter(tmp_path, Identity("mcq", {}, {}, {}, 0), items=1):
        raise KeyboardInterrupt
    assert Run(tmp_path).status == "interrupted"
    assert_times_make_sense(tmp_path)


def test_the_time_of_day_may_be_recorded_and_still_go_backwards(
    commands: Commands, workshop: Workshop, tmp_path: Path
) -> None:
    """A run whose steps carry the real time of day is taken up all the same, and ends whole."""
    case, out = workshop.trust(), tmp_path / "run"
    arguments = [*case.arguments, "--clock", "real", "--out", out]
    assert commands.run(*arguments, below=str(out), kill_at=100, clock_seed=1).killed
    commands.finish(*arguments, clock_seed=2)
    assert_whole(out)
    assert_times_make_sense(out)


def test_files_from_the_future_are_taken_up_and_listed(commands: Commands, workshop: Workshop, tmp_path: Path) -> None:
    case, whole, out = workshop.mcq(), tmp_path / "runs" / "whole" / "run", tmp_path / "runs" / "ahead" / "run"
    commands.finish(*case.arguments, "--out", whole)
    assert commands.run(*case.arguments, "--out", out, below=str(out), kill_at=50).killed
    for place in [*out.rglob("*"), out, workshop.questions()]:
        os.utime(place, (FAR_AHEAD_S, FAR_AHEAD_S))
    commands.finish(*case.arguments, "--out", out)
    assert_same_run(whole, out)
    listed = json.loads(commands.finish("runs", tmp_path / "runs", "--json").out)
    assert sorted(Path(row["path"]).parent.name for row in listed) == ["ahead", "whole"]


def test_a_clock_that_stands_still_gives_every_run_a_folder_of_its_own(
    commands: Commands, workshop: Workshop, tmp_path: Path
) -> None:
    """Runs that nobody named are named by the time of day, which comes twice: in autumn, and when a clock is set."""
    case = workshop.mcq()
    for samples in (5, 6, 5):
        commands.finish(*case.arguments, "--max-samples", samples, folder=tmp_path, clock_stands_still=True)
    runs = sorted((tmp_path / "runs").iterdir())
    assert [manifest(run)["items"] for run in runs] == [5, 6, 5]
    assert [manifest(run)["sessions"] for run in runs] == [1, 1, 1]
