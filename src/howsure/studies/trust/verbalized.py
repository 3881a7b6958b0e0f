"""Probabilities that a model writes out: for the next three steps, the four directions.

The answer is `{"executability": 0.95, "step1": {"north": 0.65, "south": 0.15, "west": 0.12, "east": 0.08}, …}`. The
model is taken at its word, as far as its words are probabilities: a step that is absent, all zero or broken is missing
with its reason, and then so is the entropy over the three.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from howsure.measures import entropy_nats, verbalized_entropy_nats
from howsure.studies.trust.json_places import INCOMPLETE, first_object, note_schemas, read_notes
from howsure.studies.trust.world.words import COMPASS

STEPS = ("step1", "step2", "step3")
LABELS = tuple(COMPASS)
"""Up, down, left, right: north, south, west, east. Of equal probabilities the first is taken."""

SUM_TOLERANCE = 0.02
"""A direction may be left out, and is 0, where the others sum to 1 as near as this: a model rounds to two digits."""

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_DIRECTION_OF = {name: label for label, other in COMPASS.items() for name in (label, other)}


class VerbalizedStep(msgspec.Struct, frozen=True):
    """One step: `probabilities` of up, down, left and right, divided by `raw_sum`, which is what was written.

    `action` is the most probable, the first of several that are `tied`. `reason` says why there is nothing: absent,
    not_an_object, not_a_number, negative, not_finite, incomplete, twice (a direction under both of its names),
    all_zero, or that of the whole answer.
    """

    probabilities: dict[str, float] | None = None
    raw_sum: float | None = None
    entropy_nats: float | None = None
    action: str | None = None
    tied: bool = False
    reason: str | None = None


class Verbalized(msgspec.Struct, frozen=True):
    """The three steps, and their entropy weighted 0.5, 0.3, 0.2, which is there only if all three are.

    `reason` says why the answer cannot be read at all: no_answer, no_json, bad_json, too_deep, json_incomplete. Where
    the three steps are whole and the answer breaks off behind them, json_incomplete is but a `remark`.
    `executability` lies in [0, 1], or is missing as a step can be, or because it is out_of_range.
    """

    steps: tuple[VerbalizedStep, VerbalizedStep, VerbalizedStep]
    entropy_nats: float | None = None
    reason: str | None = None
    remark: str | None = None
    executability: float | None = None
    executability_missing: str | None = None
    reasoning: str | None = None
    grounding: str | None = None
    memory: str | None = None


def read_verbalized(text: str | None) -> Verbalized:
    """The probabilities in a model's answer; `text` is None where there is no answer.

    A number may be written as a text, `"0.65"`, and as a percentage, `"65%"`. Keys count in any case, those of a
    direction by either of its names, and those that are none are left aside. Sums other than 1 are divided out.
    """
    if text is None:
        return _nothing("no_answer")
    obj = first_object(text)
    if obj.reason not in (None, INCOMPLETE):
        return _nothing(obj.reason)
    values = {key.strip().casefold(): member.place.value for key, member in obj.members.items()}
    first, second, third = (_step(values, name) for name in STEPS)
    steps = (first, second, third)
    whole = all(step.reason is None for step in steps)
    executability, unknown = _executability(values)
    return Verbalized(
        steps,
        entropy_nats=verbalized_entropy_nats([step.entropy_nats for step in steps]),
        reason=None if whole else obj.reason,
        remark=obj.reason if whole else None,
        executability=executability,
        executability_missing=unknown,
        **read_notes(obj, text)._asdict(),
    )


def _nothing(reason: str | None) -> Verbalized:
    step = VerbalizedStep(reason=reason)
    return Verbalized((step, step, step), reason=reason, executability_missing=reason)


def _step(values: Mapping[str, Any], name: str) -> VerbalizedStep:
    if name not in values:
        return VerbalizedStep(reason="absent")
    if not isinstance(values[name], dict):
        return VerbalizedStep(reason="not_an_object")
    written: dict[str, float] = {}
    for key, value in values[name].items():
        label = _DIRECTION_OF.get(key.strip().casefold())
        if label is None:
            continue
        number, reason = _number(value)
        if number is None or label in written:
            return VerbalizedStep(reason=reason or "twice")
        written[label] = number
    return _normalised(written)


def _normalised(written: Mapping[str, float]) -> VerbalizedStep:
    total = sum(written.values())
    if not math.isfinite(total):
        return VerbalizedStep(reason="not_finite")
    if len(written) < len(LABELS) and not (written and abs(total - 1.0) <= SUM_TOLERANCE):
        return VerbalizedStep(raw_sum=total if written else None, reason="incomplete")
    if total == 0:
        return VerbalizedStep(raw_sum=0.0, reason="all_zero")
    probabilities = {label: written.get(label, 0.0) / total for label in LABELS}
    shares = list(probabilities.values())
    return VerbalizedStep(
        probabilities=probabilities,
        raw_sum=total,
        entropy_nats=float(entropy_nats(shares)),
        action=LABELS[int(np.argmax(shares))],
        tied=shares.count(max(shares)) > 1,
    )


def _executability(values: Mapping[str, Any]) -> tuple[float | None, str | None]:
    if "executability" not in values:
        return None, "absent"
    number, reason = _number(values["executability"])
    if number is not None and number > 1:
        return None, "out_of_range"
    return number, reason


def _number(value: Any) -> tuple[float | None, str | None]:
    """A number that is finite and not negative, or what else it is."""
    if isinstance(value, str):
        digits = value.strip().removesuffix("%").rstrip()
        share = 100.0 if value.strip().endswith("%") else 1.0
        value = float(digits) / share if _NUMBER.fullmatch(digits) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None, "not_a_number"
    try:
        number = float(value) + 0.0
    except OverflowError:
        return None, "not_finite"
    if not math.isfinite(number):
        return None, "not_finite"
    return (number, None) if number >= 0 else (None, "negative")


def _schema() -> dict[str, Any]:
    share = {"type": "number", "minimum": 0, "maximum": 1}
    names = list(COMPASS.values())
    step = {
        "type": "object",
        "properties": dict.fromkeys(names, share),
        "required": names,
        "additionalProperties": False,
    }
    properties = {"executability": share, **dict.fromkeys(STEPS, step), **note_schemas()}
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


VERBALIZED_SCHEMA = _schema()
"""The answer as a JSON Schema, for servers that hold a model to one."""
