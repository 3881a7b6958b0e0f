"""Every reader against a short, fixed round of documents that are almost good; `make fuzz` goes on from there.

The round runs in one process of its own, and each target in a fork of that: time and memory of each input are limited
there, and nothing that an input does can reach the other tests.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from fuzz.mutations import FORMS, LARGEST_BYTES, mutated
from fuzz.rounds import Outcome
from fuzz.targets import TARGETS, Target

from fuzz import limits
from howsure.errors import InputError
from sizes import several

ROOT = Path(__file__).parents[2]
TIMES = several(1, 10)


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    command = [sys.executable, "-m", "fuzz", "--short", "--times", str(TIMES), "--json"]
    env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, timeout=280, check=False)
    assert done.stdout, done.stderr.decode()
    return {one.target: one for one in msgspec.json.decode(done.stdout.splitlines()[-1], type=list[Outcome])}


@pytest.mark.parametrize("name", TARGETS)
def test_a_reader_ends_in_a_value_or_a_sentence(name: str, outcomes: dict[str, Outcome]) -> None:
    """No other exception, no second of CPU time, no memory beyond bounds; and the good documents are taken."""
    target = TARGETS[name]
    if not target.is_here:
        pytest.skip(f"{target.needs} is not installed")
    assert outcomes[name].finding is None, str(outcomes[name].finding)
    assert outcomes[name].inputs >= TIMES * target.examples // 2, "hypothesis gave up before the round was over"


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
def test_mutations_are_many_and_of_bounded_length(target: Target) -> None:
    """Most mutations differ from each other and from the seeds, so that a round tries something."""
    assert target.form in FORMS
    made = {mutated(target.seeds()[0], target.form, random.Random(seed)) for seed in range(20)}
    assert len(made - set(target.seeds())) >= 10
    assert max(map(len, made)) <= LARGEST_BYTES


# -- that the limits are limits ---------------------------------------------------------------------------------------


def test_a_sentence_is_good_and_any_other_exception_is_a_finding() -> None:
    def refuse(data: bytes) -> None:
        raise InputError("this is no map")

    def fail(data: bytes) -> None:
        raise KeyError("simulations")

    limits.feed(refuse, b"")
    with pytest.raises(KeyError):
        limits.feed(fail, b"")


def test_a_slow_reader_is_found_even_where_it_catches_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_SECONDS", 0.05)

    def chew(data: bytes) -> None:
        end = time.process_time() + 5
        while time.process_time() < end:
            try:
                sum(range(1000))
            except Exception:  # noqa: BLE001  as readers of pictures do
                return

    with pytest.raises(limits.TooSlow):
        limits.feed(chew, b"")


def test_a_slow_call_into_c_is_found_when_it_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_SECONDS", 0.002)  # far below what the call takes on any machine
    monkeypatch.setattr(limits.signal, "setitimer", lambda *_: None)
    with pytest.raises(limits.TooSlow, match="CPU time for 3 bytes"):
        limits.feed(lambda data: (sorted(range(400_000), key=str), None)[1], b"abc")


def test_a_reader_that_swells_is_found() -> None:
    program = (
        "from fuzz.limits import TooLarge, feed\n"
        "try:\n"
        "    feed(lambda data: (bytearray(b'x') * (600 * 2**20), None)[1], b'abc')\n"
        "except TooLarge as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "MiB more memory for 3 bytes" in done.stdout
