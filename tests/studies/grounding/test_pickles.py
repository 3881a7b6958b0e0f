"""Pickles: plain data comes out as Python's own machine would give it, and nothing else comes out at all."""

from __future__ import annotations

import math
import pickle
import time
import tracemalloc
from collections import OrderedDict
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howsure.errors import InputError
from howsure.studies.grounding.reading.pickles import MOST_UNFOLDED, plain_data

from .hostile_pickles import that_would_run, that_would_swell

ANYWHERE = Path("canary")
RUNNING, SWELLING = sorted(that_would_run(ANYWHERE)), sorted(that_would_swell())
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**90), 2**90) | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.text(), inner, max_size=5)
        | st.lists(inner, max_size=5).map(tuple)
    ),
    max_leaves=40,
)


@pytest.mark.parametrize("name", RUNNING)
def test_nothing_is_run(name: str, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    content, what = that_would_run(canary)[name]
    with pytest.raises(InputError) as caught:
        plain_data(content, "user_1.pkl")
    assert what in str(caught.value)
    assert str(caught.value).startswith("user_1.pkl ")
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 500
    assert not canary.exists()


@pytest.mark.parametrize("name", ["os_system_0", "os_system_4", "eval_0", "stack_global_by_memo", "inst", "obj"])
def test_they_would_have_run(name: str, tmp_path: Path) -> None:
    """The files are what they claim to be: Python's own machine makes the canary."""
    canary = tmp_path / "canary"
    pickle.loads(that_would_run(canary)[name][0])
    assert canary.exists()


@pytest.mark.parametrize("name", SWELLING)
def test_what_would_swell_or_is_none_is_one_sentence(name: str) -> None:
    content, words = that_would_swell()[name]
    started = time.process_time()
    with pytest.raises(InputError) as caught:
        plain_data(content, "user_1.pkl")
    assert words in str(caught.value)
    assert len(str(caught.value)) < 400
    assert time.process_time() - started < (30 if name == "many_steps" else 5)  # a bomb would take for ever


def test_a_bomb_takes_little_memory() -> None:
    for name in ("lists_by_doubling_60", "tuple_bomb_as_key", "text_of_exabytes", "long_of_2_gigabytes", "wide_texts"):
        content, _ = that_would_swell()[name]
        tracemalloc.start()
        with pytest.raises(InputError):
            plain_data(content, name)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2_000_000, name


def test_an_empty_file_breaks_off() -> None:
    with pytest.raises(InputError, match="breaks off after 0 bytes"):
        plain_data(b"", "user_1.pkl")


@pytest.mark.parametrize(
    ("value", "remedy"),
    [
        (np.arange(3), ".tolist()"),
        (np.float64(0.5), ".tolist()"),
        (PurePosixPath("a/b.png"), "str(path)"),
        (OrderedDict(a=1), "dict(…)"),
    ],
    ids=["array", "scalar", "path", "ordered_dict"],
)
@pytest.mark.parametrize("protocol", range(6))
def test_honest_mistakes_are_told_what_to_do(value: Any, remedy: str, protocol: int) -> None:
    with pytest.raises(InputError) as caught:
        plain_data(pickle.dumps([value], protocol), "user_1.pkl")
    assert remedy in str(caught.value)


@given(PLAIN, st.integers(0, 5))
def test_plain_data_is_what_python_reads(value: Any, protocol: int) -> None:
    content = pickle.dumps(value, protocol)
    found = plain_data(content, "x")
    assert found == value
    assert repr(found) == repr(pickle.loads(content))  # also tells True from 1, and tuples from lists


@pytest.mark.parametrize("protocol", range(6))
def test_infinity_and_nan_are_numbers_here(protocol: int) -> None:
    found = plain_data(pickle.dumps([math.inf, math.nan], protocol), "x")
    assert found[0] == math.inf
    assert math.isnan(found[1])


@pytest.mark.parametrize("protocol", range(6))
def test_what_is_shared_stays_shared(protocol: int) -> None:
    prompt = "the same prompt"
    sample = ["a", {"text": prompt}]
    found = plain_data(pickle.dumps([sample, sample, (prompt, True, None)], protocol), "x")
    assert found == [sample, sample, (prompt, True, None)]
    assert found[0] is found[1]


def test_sharing_within_bounds_is_no_bomb() -> None:
    value: Any = ["leaf"]
    for _ in range(10):
        value = [value, value]
    assert plain_data(pickle.dumps(value), "x") == value
    assert MOST_UNFOLDED > 2**20


@settings(max_examples=300)
@given(st.binary(max_size=60) | st.binary(max_size=60).map(lambda tail: b"\x80\x04" + tail))
def test_no_bytes_end_in_anything_but_a_value_or_a_sentence(content: bytes) -> None:
    try:
        plain_data(content, "x")
    except InputError as error:
        assert str(error).startswith("x ")


@settings(max_examples=300)
@given(st.data())
def test_no_damage_ends_in_anything_but_a_value_or_a_sentence(data: st.DataObject) -> None:
    sample = [{"role": "user", "content": [{"type": "text", "text": "ab"}]}, {"role": "assistant", "content": "(1, 2)"}]
    content = bytearray(pickle.dumps([sample, [1.5, None, True, -7, 2**70]], data.draw(st.integers(0, 5))))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        plain_data(bytes(content), "x")
    except InputError as error:
        assert str(error).startswith("x ")


def test_reading_is_the_machines_alone() -> None:
    """Nothing of Python's own unpickling is used, so that nothing of it can be reached."""
    import howsure.studies.grounding.reading.pickles as module

    assert not {"pickle", "_pickle", "marshal", "importlib"} & set(vars(module))
