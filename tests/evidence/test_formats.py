"""OpenAI's and Gemini's forms, as dictionaries and as SDK objects."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from howsure.errors import EvidenceError
from howsure.evidence import from_gemini, from_openai, to_openai

ENTRY = {
    "token": " Paris",
    "logprob": -0.25,
    "bytes": list(b" Paris"),
    "top_logprobs": [
        {"token": " Paris", "logprob": -0.25, "bytes": list(b" Paris")},
        {"token": " Rome", "logprob": -3.5, "bytes": list(b" Rome")},
    ],
}


def test_openai_dictionaries() -> None:
    found = from_openai({"content": [ENTRY]})
    assert found.tokens == (" Paris",)
    assert found.logprobs.tolist() == [-0.25]
    assert found.token_bytes == (b" Paris",)
    assert found.top is not None
    assert found.top.row(0) == [(" Paris", -0.25), (" Rome", -3.5)]


def test_openai_round_trip_is_exact() -> None:
    entries = [ENTRY, {"token": "é", "logprob": -9999.0, "bytes": None, "top_logprobs": []}]
    assert to_openai(from_openai({"content": entries})) == {"content": entries}


def test_openai_sdk_objects_read_the_same() -> None:
    from openai.types.chat.chat_completion import ChoiceLogprobs

    assert from_openai(ChoiceLogprobs.model_validate({"content": [ENTRY], "refusal": None})) == from_openai([ENTRY])


def test_gemini_in_both_spellings_and_as_objects() -> None:
    rest = {
        "chosenCandidates": [{"token": "up", "tokenId": 7, "logProbability": -0.5}],
        "topCandidates": [{"candidates": [
            {"token": "up", "logProbability": -0.5}, {"token": "down", "logProbability": -1.5},
        ]}],
    }  # fmt: skip
    snake = SimpleNamespace(
        chosen_candidates=[SimpleNamespace(token="up", log_probability=-0.5)],
        top_candidates=[
            SimpleNamespace(candidates=[
                SimpleNamespace(token="up", log_probability=-0.5),
                SimpleNamespace(token="down", log_probability=-1.5),
            ])
        ],
    )  # fmt: skip
    assert from_gemini(rest) == from_gemini(snake)
    found = from_gemini(rest)
    assert found.top is not None
    assert found.top.row(0) == [("up", -0.5), ("down", -1.5)]


def test_absent_alternatives_stay_unknown() -> None:
    found = from_openai([{"token": "a", "logprob": -1}])
    assert found.top is None
    assert found.token_bytes is None


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ([{"token": "a"}], r"content\[0\]\.logprob"),
        ([{"token": "a", "logprob": None}], r"content\[0\]\.logprob"),
        ([{"token": "a", "logprob": "-1"}], r"content\[0\]\.logprob"),
        ([{"token": "a", "logprob": True}], r"content\[0\]\.logprob"),
        ([{"token": 3, "logprob": -1}], r"content\[0\]\.token"),
        ([{"token": "a", "logprob": -1, "bytes": [300]}], r"content\[0\]\.bytes"),
        ([{"token": "a", "logprob": -1, "top_logprobs": [{"token": "b"}]}], r"top_logprobs\[0\]\.logprob"),
        ([{"token": "a", "logprob": -1, "top_logprobs": 3}], r"top_logprobs"),
        ([{"token": "a", "logprob": -1}, {"token": "a", "logprob": 1.0}], "1 at token 1"),
        ([{"token": "a", "logprob": math.nan}], "NaN at token 0"),
        ([{"token": "a", "logprob": 10**400}], "too large"),
        ("text", "content"),
        (None, "content"),
        (7, "content"),
    ],
)
def test_broken_openai_evidence_is_named_by_its_place(content: Any, place: str) -> None:
    with pytest.raises(EvidenceError, match=place):
        from_openai({"content": content})


def test_gemini_lists_that_disagree() -> None:
    with pytest.raises(EvidenceError, match="2 steps for 1"):
        from_gemini({"chosenCandidates": [{"token": "a", "logProbability": -1}], "topCandidates": [{}, {}]})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["content", "token", "logprob", "bytes", "top_logprobs", "x"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(json_values)
def test_any_json_ends_in_a_value_or_a_sentence(value: Any) -> None:
    for read in (from_openai, from_gemini):
        try:
            found = read(value)
        except EvidenceError as error:
            assert str(error)
        else:
            json.dumps(found.to_dict(), allow_nan=False)
            assert len(found.tokens) == len(found.logprobs)
