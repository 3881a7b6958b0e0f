"""A disk that is full, lets no file grow, or may not be written; then it is mended, and the same command goes on."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from commands import Commands, Ended
from faults.cases import Case, Workshop
from faults.harness import assert_same_run, chance, files_of, kinds_of, moments_of, read
from sizes import in_long, several

FULL = "the disk is full: free some space and run the same command again"
DISK_KB = 8192


def run(commands: Commands, case: Case, out: Path, **fault: object) -> Ended:
    return commands.run(*case.arguments, "--out", out, set=dict(case.smaller), **fault)


def finish(commands: Commands, case: Case, out: Path, **fault: object) -> Ended:
    return commands.finish(*case.arguments, "--out", out, set=dict(case.smaller), **fault)


def assert_told(ended: Ended, sentence: str) -> None:
    """The end was one sentence; or the run is whole, and only its pictures or its report are said to be missing."""
    assert "Traceback" not in ended.said, ended.said
    if ended.code == 0:
        assert re.search("no report was written|not all pictures were copied", ended.said), ended.said
    else:
        assert ended.code == 2, f"{ended.code}: {ended.said}"
        errors = [line for line in ended.said.splitlines() if "not all pictures were copied" not in line]
        assert len(errors) == 1, ended.said
    assert sentence in ended.said, ended.said


# -- full ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own, where this machine lets us make one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_KB}k", "tmpfs", str(folder)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {made.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def leave_kb(disk: Path, room_kb: int) -> Path:
    """Fill the disk but for so much."""
    ballast = disk / "ballast"
    free = os.statvfs(disk)
    ballast.write_bytes(bytes(free.f_bavail * free.f_bsize - room_kb * 1024))
    return ballast


@pytest.mark.parametrize("name", ["mcq", *in_long("grounding", "trust", "perplexity", "trajectories")])
def test_a_disk_that_fills_up_stops_the_run_and_costs_it_nothing(
    name: str, commands: Commands, workshop: Workshop, tmp_path: Path, disk: Path
) -> None:
    """At several levels, so that it is full at the manifest, at samples, pictures, tables, summary or report."""
    case, whole = getattr(workshop, name)(), tmp_path / "whole" / "run"
    finish(commands, case, whole)
    blocks_kb = sum(-(-(whole / one).stat().st_size // 4096) * 4 for one in files_of(whole))
    rng = chance("full", name)
    levels = sorted({rng.choice((0, 4)), *(4 * rng.randint(2, blocks_kb // 4 - 1) for _ in range(several(1, 5)))})
    for room_kb in levels:
        out = disk / f"room-{room_kb}" / "run"
        ballast = leave_kb(disk, room_kb)
        assert_told(run(commands, case, out), "the disk is full")
        ballast.unlink()
        finish(commands, case, out)
        assert_same_run(whole, out)
        subprocess.run(["rm", "-r", str(out.parent)], check=True)


@pytest.mark.parametrize("name", ["trust", *in_long("mcq", "grounding", "perplexity", "trajectories")])
def test_a_disk_that_is_full_from_one_moment_on(
    name: str, commands: Commands, workshop: Workshop, tmp_path: Path
) -> None:
    """The same without a disk of its own: from some moment of the work on, nothing can be written."""
    case, whole = getattr(workshop, name)(), tmp_path / "whole" / "run"
    moments = moments_of(commands, [*case.arguments, "--out", whole], whole, tmp_path / "m", set=dict(case.smaller))
    rng, kinds = chance("full from", name), kinds_of(moments)
    for number, kind in enumerate(rng.sample(sorted(kinds), several(1, 6))):
        out, moment = tmp_path / str(number) / "run", rng.choice(kinds[kind])
        ended = run(commands, case, out, below=str(out), full_from=moment)
        if ended.code != 0 or ended.said:  # what was the last write of all is refused nothing
            assert_told(ended, "the disk is full")
        finish(commands, case, out)
        assert_same_run(whole, out)


@pytest.mark.parametrize("name", ["mcq", *in_long("grounding")])
def test_files_that_may_not_grow_beyond_a_limit(
    name: str, commands: Commands, workshop: Workshop, tmp_path: Path
) -> None:
    """As with a quota: the system refuses the one file that would be too large, whichever that is."""
    case, whole = getattr(workshop, name)(), tmp_path / "whole" / "run"
    finish(commands, case, whole)
    sizes = sorted({(whole / one).stat().st_size for one in files_of(whole)} - {0})
    rng = chance("limit", name)
    for size in rng.sample(sizes, min(several(2, 5), len(sizes))):
        limit = size - 1
        out = tmp_path / str(limit) / "run"
        assert_told(run(commands, case, out, largest_file_bytes=limit), "File too large")
        finish(commands, case, out)
        assert_same_run(whole, out)


def test_a_model_that_does_not_fit_leaves_the_old_one(commands: Commands, workshop: Workshop, tmp_path: Path) -> None:
    target = tmp_path / "models" / "m.arpa"
    target.parent.mkdir()
    train = ["ngram", "train", workshop.book, "--discount-fallback", "--quiet", "--out", target, "--order"]
    commands.finish(*train, 2)
    old = read(target)
    said = commands.refused(*train, 3, largest_file_bytes=len(old))
    assert "m.arpa cannot be written" in said
    assert read(target) == old
    assert [path.name for path in target.parent.iterdir()] == ["m.arpa"]


# -- read-only ----------------------------------------------------------------------------------------------------


def assert_can_be_read(commands: Commands, run_folder: Path) -> None:
    """A list of runs needs no right to write, and sees the stopped run as what it is."""
    listed = commands.finish("runs", run_folder.parent, "--json", without_privileges=True)
    assert '"stopped"' in listed.out, listed.out


def test_a_disk_that_becomes_read_only(commands: Commands, workshop: Workshop, tmp_path: Path, disk: Path) -> None:
    case, whole, out = workshop.mcq(), tmp_path / "whole" / "run", disk / "run"
    finish(commands, case, whole)
    assert run(commands, case, out, below=str(out), kill_at=50).killed
    before = {name: read(out / name) for name in files_of(out)}
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    for place in (out, disk / "new"):
        assert_told(run(commands, case, place), "the disk is read-only: choose another --out")
    assert_can_be_read(commands, out)
    assert {name: read(out / name) for name in files_of(out)} == before
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    finish(commands, case, out)
    assert_same_run(whole, out)


def test_a_folder_that_somebody_may_only_read(commands: Commands, workshop: Workshop, tmp_path: Path) -> None:
    """By its mode, for a process without root's right to pass over modes."""
    case, whole, out = workshop.mcq(), tmp_path / "whole" / "run", tmp_path / "kept" / "run"
    finish(commands, case, whole)
    assert run(commands, case, out, below=str(out), kill_at=50).killed
    places = [out, out.parent, *out.rglob("*")]
    for place in places:
        place.chmod(0o555 if place.is_dir() else 0o444)
    for place in (out, out.parent / "new"):
        ended = run(commands, case, place, without_privileges=True)
        assert_told(ended, "cannot be written: you may not write there: choose another --out")
    assert_can_be_read(commands, out)
    for place in places:
        place.chmod(0o755 if place.is_dir() else 0o644)
    finish(commands, case, out)
    assert_same_run(whole, out)


# -- what is printed ------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize(
    ("arguments", "unbuffered"), [(("--help",), "1"), (("theorem",), ""), (("entropy", "0.5", "0.5", "--json"), "")]
)
def test_output_that_cannot_be_written_is_one_sentence(arguments: tuple[str, ...], unbuffered: str) -> None:
    """As `howsure … > file` on a full disk, whether Python keeps what is printed for later or not."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "howsure", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == (
        "howsure: error: the output cannot be written (No space left on device); what is in run folders is safe\n"
    )
