"""Pickles: plain data comes out as Python's own machine would give it, and nothing else comes out at all."""

from __future__ import annotations

import io
import math
import pickle
import struct
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
from howsure.studies.grounding.reading import pickles
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


@pytest.mark.parametrize(
    "name", ["os_system_0", "os_system_4", "eval_0", "stack_global_by_memo", "inst", "obj", "frame_cuts_a_text"]
)
def test_they_would_have_run(name: str, tmp_path: Path) -> None:
    """The files are what they claim to be: Python's own machine makes the canary."""
    canary = tmp_path / "canary"
    pickle.load(io.BytesIO(that_would_run(canary)[name][0]))
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
    bombs = ("lists_by_doubling_60", "tuple_bomb_as_key", "tuples_by_dup", "text_of_exabytes", "long_of_2_gigabytes")
    for name in (*bombs, "wide_texts", "keys_that_are_wide", "memo_at_a_billion", "memo_at_4_billion"):
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


@pytest.mark.parametrize("name", RUNNING)
def test_each_of_two_guards_is_enough(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What would run stops before Python's own machine is started, and that machine would run none of it either."""
    canary = tmp_path / "canary"
    content, _ = that_would_run(canary)[name]
    if name != "after_the_end":  # the machine stops at the first end
        with pytest.raises(Exception):  # noqa: B017 - whichever, as long as nothing runs
            pickles._PlainUnpickler(io.BytesIO(content)).load()
    monkeypatch.setattr(pickles, "_PlainUnpickler", None)
    with pytest.raises(InputError):
        plain_data(content, "x")
    assert not canary.exists()


TEXTS = [b"X\x01\0\0\0a", b"\x8c\x01b", b"Vkey\n"]
INSTRUCTIONS = [
    *TEXTS,
    *(b"N", b"\x88", b"K\x05", b"I01\n", b"L-7L\n", b"F1.5\n", b"\x8a\x01\xff"),
    *(b"(", b"]", b"}", b")", b"a", b"e", b"s", b"u", b"l", b"t", b"d", b"\x85", b"\x86", b"\x87"),
    *(b"\x94", b"q\0", b"q\3", b"p1\n", b"r\2\0\0\0", b"h\0", b"h\1", b"g01\n", b"j\2\0\0\0", b"p-1\n"),
    *(b"\x95" + bytes([size]) + b"\0" * 7 for size in (0, 1, 2, 5, 11)),
]


@settings(max_examples=2000)
@given(st.lists(st.sampled_from(INSTRUCTIONS), max_size=12), st.sampled_from([b"", b"l", b"t", b"e", b"u", b"d"]))
def test_what_is_looked_at_is_what_is_read(inside: list[bytes], last: bytes) -> None:
    """Any instructions that pass stand for the same value however the file is taken in, with texts alone as keys."""
    content = b"](" + b"".join(inside) + last + b"."
    try:
        found = plain_data(content, "x")
    except InputError:
        return
    assert repr(found) == repr(pickle.loads(content)) == repr(pickle._Unpickler(io.BytesIO(content)).load())
    waiting = [found]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            assert all(type(key) is str for key in value)
        waiting += value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else []


@pytest.mark.parametrize("protocol", range(6))
def test_a_file_that_breaks_off_anywhere_is_told_so(protocol: int) -> None:
    whole = pickle.dumps([{"role": "user", "content": [("a\n한", 1.5, None, 2**70, 300, True)]}] * 2, protocol)
    for length in range(len(whole)):
        with pytest.raises(InputError, match=f"^x breaks off after {length} bytes"):
            plain_data(whole[:length], "x")


def test_the_same_key_without_end_is_one_key() -> None:
    wide = b"X" + struct.pack("<I", 100_000) + b"k" * 100_000
    started = time.process_time()
    assert plain_data(b"}(Va\nq\0N" + b"h\0N" * 200_000 + b"u.", "x") == {"a": None}
    assert plain_data(b"}(" + (wide + b"N") * 200 + b"u.", "x") == {"k" * 100_000: None}
    assert time.process_time() - started < 5
