"""kill -9 at random moments, for every study, again and again; then to the end.

Moments are of two kinds: a place in the work on the disk (before, after or half-way through any write, from the first
lock to the last byte of the report), and a time on the clock, which may fall anywhere.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from commands import Commands, Ended
from faults.cases import Case, Workshop
from faults.harness import (
    assert_same_pair,
    assert_same_run,
    chance,
    kinds_of,
    lines_on_disk,
    manifest,
    moments_of,
    read,
)
from howsure.runs.files import remove_scraps
from sizes import LONG, in_long, several

pytestmark = pytest.mark.long
OTHERS = ("mcq_pair", "mcq_hf", "perplexity", "perplexity_hf", "trajectories", "distances", "grounding")
CHAINS, KILLS = several(1, 5), several(1, 3)


class Undisturbed(NamedTuple):
    """A study done in one go: where, in what time, and at what moments it wrote."""

    case: Case
    run: Path
    seconds: float
    moments: list[str]


@pytest.fixture(params=["mcq", "trust", *in_long(*OTHERS)])
def undisturbed(request: pytest.FixtureRequest, commands: Commands, workshop: Workshop, tmp_path: Path) -> Undisturbed:
    case, run = getattr(workshop, request.param)(), tmp_path / "whole" / "run"
    began = time.monotonic()
    arguments = [*case.arguments, "--out", run]
    moments = moments_of(commands, arguments, run, tmp_path / "moments", set=dict(case.smaller))
    assert len(moments) > 50, "a run that hardly writes cannot be torn"
    return Undisturbed(case, run, time.monotonic() - began, moments)


def killed_chain(commands: Commands, whole: Undisturbed, torn: Path, first: int, rng: random.Random) -> list[Ended]:
    """Sessions that end too early: the first at a given moment, the others at any of the work or of the clock."""
    arguments, smaller = [*whole.case.arguments, "--out", torn], dict(whole.case.smaller)
    ends = [commands.run(*arguments, set=smaller, below=str(torn), kill_at=first)]
    for _ in range(KILLS - 1):
        if rng.random() < 0.3:
            started = commands.start(*arguments, set=smaller)
            time.sleep(rng.uniform(0, whole.seconds))
            ends.append(started.kill())
        else:
            moment = rng.randint(1, len(whole.moments) // 2)  # a run that is taken up has less before it
            ends.append(commands.run(*arguments, set=smaller, below=str(torn), kill_at=moment))
    return ends


def test_a_run_that_is_killed_again_and_again_ends_as_if_nothing_had_been(
    undisturbed: Undisturbed, commands: Commands, tmp_path: Path
) -> None:
    """Each chain of kills begins with a moment of another kind: another thing done to another file."""
    case, whole = undisturbed.case, undisturbed.run
    rng, kinds = chance("kill", case.name), kinds_of(undisturbed.moments)
    for chain, kind in enumerate(rng.sample(sorted(kinds), CHAINS)):
        torn = tmp_path / f"torn-{chain}" / "run"
        ends = killed_chain(commands, undisturbed, torn, rng.choice(kinds[kind]), rng)
        assert ends[0].killed, "the first session must not get to its end"
        assert all(end.killed or end.code == 0 for end in ends), [end.said for end in ends]
        commands.finish(*case.arguments, "--out", torn, set=dict(case.smaller))
        try:
            (assert_same_pair if case.pair else assert_same_run)(whole, torn)
        except AssertionError as error:
            error.add_note("\n".join(end.said for end in ends))
            raise


def test_a_run_that_is_killed_twice_at_one_place_is_counted_by_its_sessions(
    commands: Commands, workshop: Workshop, tmp_path: Path
) -> None:
    case, torn = workshop.mcq(), tmp_path / "torn"
    for _ in range(2):
        ended = commands.run(*case.arguments, "--out", torn, below=str(torn), kill_at=40)
        assert ended.killed, ended.said
    assert manifest(torn)["status"] == "running"
    commands.finish(*case.arguments, "--out", torn)
    assert manifest(torn)["sessions"] == 3


def test_half_a_frame_is_never_taken_for_a_frame(commands: Commands, workshop: Workshop, tmp_path: Path) -> None:
    """A picture is not looked into when a run is taken up: what has its name must be whole."""
    case, whole, torn = workshop.trust(), tmp_path / "whole" / "run", tmp_path / "torn" / "run"
    arguments = [*case.arguments, "--out"]
    moments = moments_of(commands, [*arguments, whole], whole, tmp_path / "moments")
    begun = next(i for i, line in enumerate(moments, 1) if "after open" in line and "/frames/" in line)
    assert commands.run(*arguments, torn, below=str(torn), kill_at=begun).killed
    commands.finish(*arguments, torn)
    assert_same_run(whole, torn)


@pytest.mark.parametrize("suffix", [".arpa", ".arpa.gz"])
def test_training_that_is_killed_leaves_the_old_model_or_the_new(
    suffix: str, commands: Commands, workshop: Workshop, tmp_path: Path
) -> None:
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    for folder in (whole, torn):
        folder.mkdir()
    texts = [workshop.book, "--discount-fallback", "--quiet", "--order"]
    moments = moments_of(
        commands, ["ngram", "train", *texts, 3, "--out", whole / f"m{suffix}"], whole, tmp_path / "moments"
    )
    target = torn / f"m{suffix}"
    commands.finish("ngram", "train", *texts, 2, "--out", target)
    old, new = read(target), read(whole / f"m{suffix}")
    rng = chance("train", suffix)
    chosen = range(1, len(moments) + 1) if LONG else rng.sample(range(1, len(moments) + 1), 3)
    for moment in chosen:
        ended = commands.run("ngram", "train", *texts, 3, "--out", target, below=str(torn), kill_at=moment)
        assert ended.killed, ended.said
        assert read(target) in (old, new), ended.said
    commands.finish("ngram", "train", *texts, 3, "--out", target)
    assert read(target) == new
    assert [path.name for path in torn.iterdir()] == [target.name], "and no scrap is left"


@pytest.mark.only_long
def test_the_command_itself_from_the_first_instant_on(workshop: Workshop, tmp_path: Path) -> None:
    """A process that begins with the interpreter, not as a fork; killed while it starts, works and ends."""
    case = workshop.mcq()
    rng, torn, whole = chance("cold"), tmp_path / "torn" / "run", tmp_path / "whole" / "run"

    def start(out: Path) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "howsure", *case.arguments, "--out", str(out)]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    began = time.monotonic()
    _, said = (undisturbed := start(whole)).communicate()
    seconds = time.monotonic() - began
    assert undisturbed.returncode == 0, said.decode()
    kept = [0]
    for _ in range(5):
        process = start(torn)
        time.sleep(rng.uniform(0, seconds))
        process.kill()
        process.communicate()
        assert process.returncode in (-signal.SIGKILL, 0)
        kept.append(lines_on_disk(torn))
    assert kept == sorted(kept), "nothing that was finished is ever lost"
    _, said = (last := start(torn)).communicate()
    assert last.returncode == 0, said.decode()
    assert_same_run(whole, torn)


def test_scraps_of_killed_writes_go_and_nothing_else_does(tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    scraps = [tmp_path / ".summary.json.a1b2c3d4.part", tmp_path / "tables" / ".turns.csv.x_y_z_12.part"]
    others = [tmp_path / name for name in (".lock", "big.part", ".hidden.part", "tables/turns.csv")]
    for path in (*scraps, *others):
        path.write_text("something")
    remove_scraps(tmp_path)
    assert not any(path.exists() for path in scraps)
    assert all(path.exists() for path in others)
