"""One model or two over the same data, one after the other: opened, carried out, given back, compared."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from howsure import wiring
from howsure.errors import InputError
from howsure.models.contract import Model
from howsure.models.registry import load
from howsure.runs import Run
from howsure.runs.files import to_json, write_atomic
from howsure.runs.folder import MANIFEST
from howsure.runs.writer import have_report_written
from howsure.storage import checked, shown_path
from howsure.storage.writing import at_hand, below, is_there

COMPARISON = "comparison.json"
PathLike = str | os.PathLike[str]


class Opened(NamedTuple):
    """A model, and whether it was opened here, and so is given back when its work is done."""

    model: Model
    owned: bool


class Prepared(Protocol):
    @property
    def model(self) -> Model: ...

    @property
    def owned(self) -> bool: ...


class Finished(Protocol):
    @property
    def run(self) -> Run: ...


class Pair(NamedTuple):
    """Two finished studies and what changed from the first to the second."""

    a: Any
    b: Any
    comparison: dict[str, Any]

    def _repr_html_(self) -> str:
        return str(wiring.ask("html", self))


P = TypeVar("P", bound=Prepared)
R = TypeVar("R", bound="Finished")


def check_seed(seed: int) -> None:
    """Refuse before the work what would fail after it."""
    if seed < 0:
        raise InputError(f"--seed must be 0 or more, not {seed}")


def seed_of(*numbers: int) -> int:
    """A seed that these numbers decide, with room for retries below the 31 bits that every server takes."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0] >> 2)


def check_choice(option: str, given: str, known: Sequence[str]) -> None:
    """Refuse a word that is none of the known ones, and say which those are."""
    if given not in known:
        raise InputError(f"{option} must be one of {', '.join(known)}, not {given!r}")


def open_models(models: Sequence[str | Model], model_options: dict[str, Any]) -> list[Opened]:
    """Models by name, without their weights, beside those that are open already; options are for the former."""
    if model_options and not any(isinstance(model, str) for model in models):
        raise InputError(f"{next(iter(model_options))!r} is for a model that is opened by its name; this one is open")
    return [
        Opened(load(model, lazy=True, **model_options), True) if isinstance(model, str) else Opened(model, False)
        for model in models
    ]


def carry_out_and_give_back(prepared: list[P], carry_out: Callable[[P], R]) -> R:
    """Carry out the first of a list and let go of it, so that its weights are gone before the next are loaded."""
    first = prepared.pop(0)
    try:
        return carry_out(first)
    finally:
        owned = first.owned
        if owned:
            first.model.close()
        del first
        if owned:
            gc.collect()  # a network is full of cycles, and the next one needs its room now


def carry_out_all(
    prepared: list[P],
    study: str,
    carry_out: Callable[..., R],
    compare: Callable[..., dict[str, Any]],
    *,
    out: PathLike,
    seed: int = 0,
    **how: Any,
) -> R | Pair:
    """One into `out`; two into its folders `a` and `b`, and compared. The list is emptied on the way."""
    folder = checked(out)

    def into(name: str, **more: Any) -> R:
        return carry_out_and_give_back(
            prepared, lambda one: carry_out(one, out=below(folder, name), seed=seed, **how, **more)
        )

    if len(prepared) == 1:
        return into("")
    if is_there(below(folder, MANIFEST)):
        raise InputError(
            f"{shown_path(os.fspath(folder))} is the run folder of one model: with --model-b choose another --out"
        )
    first, second = into("a", what=f"{study} a"), into("b", what=f"{study} b")
    comparison = compare(first.run, second.run)
    with at_hand(folder) as here:
        write_atomic(here / COMPARISON, to_json(comparison, indent=2) + b"\n")
        have_report_written("pair_report", here, first.run.path, second.run.path)
    return Pair(first, second, comparison)
