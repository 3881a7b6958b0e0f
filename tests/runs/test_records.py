"""A line of samples.jsonl: what is written is what was there, and numbers that JSON has no word for are refused."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from howsure.errors import EvidenceError
from howsure.runs.reading import Sample, encoded
from howsure.types import Fields

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from([math.nan, math.inf]) | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12)


def is_finite(value: Any) -> bool:
    """The definition, written out."""
    if isinstance(value, dict):
        return all(map(is_finite, value.values()))
    if isinstance(value, list):
        return all(map(is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


@given(st.dictionaries(st.text(), VALUES, max_size=3), st.dictionaries(st.text(), VALUES, max_size=3))
@example({"v": ["a", math.nan]}, {})
@example({"v": [0.5, None, math.inf]}, {})
@example({"v": [1e308, 1e308]}, {"v": [math.inf, -math.inf]})
@example({"v": [0.5, 2**2000]}, {})
def test_it_is_read_back_as_it_was_or_refused(result: dict[str, Any], evidence: dict[str, Any]) -> None:
    sample = Sample("s", 0, result, evidence)
    if not (is_finite(result) and is_finite(evidence)):
        with pytest.raises(EvidenceError, match="sample 's' holds a number that JSON has no word for, at "):
            encoded(sample)
        return
    assert json.loads(encoded(sample)) == {"id": "s", "index": 0} | {
        name: part for name, part in (("result", result), ("evidence", evidence)) if part
    }


class Inner(Fields):
    values: list[float | None]


class Record(Fields, kw_only=True):
    name: str = ""
    number: float | None = None
    inner: Inner | None = None
    parts: dict[str, list[Inner]] = msgspec.field(default_factory=dict)


@pytest.mark.parametrize(
    ("record", "place"),
    [
        (Record(number=math.nan), "result.number"),
        (Record(inner=Inner([0.5, -math.inf])), "result.inner.values[1]"),
        (Record(parts={"a": [Inner([]), Inner([None, math.nan])]}), "result.parts.a[1].values[1]"),
    ],
)
def test_the_place_in_a_struct_is_named(record: Record, place: str) -> None:
    with pytest.raises(EvidenceError, match=f"at {place}$".replace("[", r"\[")):
        encoded(Sample("s", 0, record))


def test_every_field_of_a_struct_is_written_and_half_a_character_is_replaced() -> None:
    record = Record(name="n\udcff", number=1 / 3, inner=Inner([None, 5e-324]))
    expected = {"name": "n\ufffd", "number": 1 / 3, "inner": {"values": [None, 5e-324]}, "parts": {}}
    assert json.loads(encoded(Sample("s", 0, record)))["result"] == expected
    whole = msgspec.structs.replace(record, name="n")
    assert msgspec.json.decode(encoded(Sample("s", 0, whole)), type=Sample[Record]).result == whole
