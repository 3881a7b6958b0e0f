"""A short, fixed round of inputs for one target: hypothesis chooses, always the same.

Each target has a process of its own, forked from one in which everything is imported already: an input that takes all
memory, or that C code chews on for ever, is then a finding and not the end of the tests.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import msgspec

from fuzz import scratch
from fuzz.limits import bound_memory, feed
from fuzz.mutations import mutated
from fuzz.targets import TARGETS, Target

PATIENCE_SECONDS = 100
"""For a whole round, on a busy machine; a hang in C code is ended by this."""

IMPORTED_FIRST = (
    "hypothesis",
    "PIL.Image",
    "howsure.report.run_report",
    "howsure.report.viewer.server",
    "howsure.studies.comparing",
    "howsure.studies.entropy",
    "howsure.studies.trajectories",
    "howsure.studies.trust.logs",
    "howsure.studies.trust.world.worlds",
    "inspect_ai.log",
    "peft",
    "pyarrow.parquet",
    "sklearn.metrics",
    "transformers.models.auto.modeling_auto",
    "transformers.models.auto.tokenization_auto",
)


class Finding(msgspec.Struct):
    """What an input did to a reader, and the input."""

    what: str
    where: str
    data: bytes

    def __str__(self) -> str:
        return f"{self.what}\n{self.where}\nthe input, {len(self.data):,} bytes, begins {self.data[:300]!r}"


class Outcome(msgspec.Struct):
    """How a round went: the inputs that were taken, and what was found, if anything."""

    target: str
    inputs: int = 0
    finding: Finding | None = None


def import_everything() -> None:
    """Once, for all processes that are forked from this one; what hypothesis does at its first test too."""
    for module in IMPORTED_FIRST:
        try:
            import_module(module)
        except ImportError:
            continue  # an extra that is not installed; the targets that need it are left out
    fixed_round(TARGETS["recorded-evidence"], 10)
    gc.freeze()  # a collection in a fork need not look through all of it


def run_apart(target: Target, examples: int) -> Outcome:
    """One round in a forked process; its silence is a finding as well."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _in_child(target, examples, writer)
    os.close(writer)
    said = _listen(reader)
    os.close(reader)
    if said is None:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if said:
        return msgspec.json.decode(said, type=Outcome)
    what = "it hangs" if said is None else f"its process ended with status {status}"
    return Outcome(target.name, 0, Finding(what, "", b""))


def _listen(reader: int) -> bytes | None:
    """All that the child says until it closes its end; None where it says nothing for too long."""
    said = b""
    while select.select([reader], [], [], PATIENCE_SECONDS)[0]:
        block = os.read(reader, 1 << 16)
        if not block:
            return said
        said += block
    return None


def _in_child(target: Target, examples: int, writer: int) -> None:
    """Never returns: what this process inherited belongs to the one that it was forked from."""
    try:
        bound_memory()
        outcome = fixed_round(target, examples)
    except BaseException as error:  # noqa: BLE001  a fault of the round itself, told instead of a silence
        outcome = Outcome(target.name, 0, Finding(repr(error), traceback.format_exc(limit=-4), b""))
    try:
        scratch.sweep()
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(msgspec.json.encode(outcome))
    finally:
        os._exit(0)


def fixed_round(target: Target, examples: int) -> Outcome:
    """The seeds, which must be taken, and then so many mutations of them."""
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import strategies as st

    outcome = Outcome(target.name)
    seeds = target.seeds()

    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.builds(mutated, st.sampled_from(seeds), st.just(target.form), st.randoms(use_true_random=False)))
    def feed_one(data: bytes) -> None:
        _try(target, data, outcome)

    for seed in seeds:
        target.feed(seed)
    feed_one()
    return outcome


def _try(target: Target, data: bytes, outcome: Outcome) -> None:
    if outcome.finding is not None:
        return
    outcome.inputs += 1
    try:
        feed(target.feed, data)
    except BaseException as error:  # noqa: BLE001  whatever it is, it is what was looked for
        outcome.finding = Finding(f"{type(error).__name__}: {error}"[:500], _place(error), data)


def _place(error: BaseException) -> str:
    frames: Sequence[Any] = traceback.extract_tb(error.__traceback__)[-6:]
    return "\n".join(f"  {frame.filename}:{frame.lineno} in {frame.name}" for frame in frames)


def chosen(names: Sequence[str]) -> list[Target]:
    """The targets of these names, or all; those whose package is not installed are left out by the caller."""
    unknown = [name for name in names if name not in TARGETS]
    if unknown:
        raise SystemExit(f"there is no target {unknown[0]!r}; known are {', '.join(TARGETS)}")
    return [TARGETS[name] for name in names or TARGETS]
