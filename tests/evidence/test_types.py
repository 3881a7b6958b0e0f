"""TokenLogprobs, Distribution, Outcome: they check themselves and travel without loss."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from howsure.errors import EvidenceError
from howsure.evidence import Distribution, TokenLogprobs, TopAlternatives

logprobs = st.one_of(st.just(-math.inf), st.floats(min_value=-9000.0, max_value=0.0))


@st.composite
def evidence(draw: st.DrawFn) -> TokenLogprobs:
    n = draw(st.integers(0, 6))
    maybe_bytes = st.one_of(st.none(), st.binary(max_size=4))
    rows = draw(st.lists(st.lists(st.tuples(st.text(max_size=3), logprobs), max_size=3), min_size=n, max_size=n))
    return TokenLogprobs(
        tokens=tuple(draw(st.lists(st.text(max_size=4), min_size=n, max_size=n))),
        logprobs=np.array(draw(st.lists(logprobs, min_size=n, max_size=n))),
        token_bytes=draw(st.one_of(st.none(), st.lists(maybe_bytes, min_size=n, max_size=n).map(tuple))),
        top=draw(st.sampled_from([None, TopAlternatives.from_rows(rows)])),
        entropies_nats=draw(st.one_of(st.none(), st.lists(st.floats(0, 20), min_size=n, max_size=n).map(np.array))),
        prefix_chars=draw(st.integers(0, 3)),
    )


@given(evidence())
def test_json_and_back_is_exact(given_evidence: TokenLogprobs) -> None:
    data = json.loads(json.dumps(given_evidence.to_dict(), allow_nan=False))
    back = TokenLogprobs.from_dict(data)
    assert back == given_evidence
    assert np.array_equal(back.logprobs, given_evidence.logprobs)
    assert back.token_bytes == given_evidence.token_bytes
    if given_evidence.top is not None:
        assert back.top is not None
        assert [back.top.row(i) for i in range(len(back))] == [given_evidence.top.row(i) for i in range(len(back))]


def test_sums_and_means_by_hand() -> None:
    found = TokenLogprobs(("a", "b"), np.array([-1.0, -3.0]))
    assert found.nll_nats == 4.0
    assert found.mean_nll_nats == 2.0
    assert found.perplexity_per_token == pytest.approx(math.e**2)
    assert found.byte_count is None


def test_nothing_has_no_mean() -> None:
    found = TokenLogprobs((), np.array([]))
    assert (found.nll_nats, found.mean_nll_nats, found.perplexity_per_token) == (0.0, None, None)


def test_probability_zero_is_infinite_surprise() -> None:
    found = TokenLogprobs(("a",), np.array([-9999.0]))
    assert found.logprobs[0] == -math.inf
    assert found.perplexity_per_token == math.inf
    assert found.to_dict()["logprobs"] == [-9999.0]


@pytest.mark.parametrize("value", [math.nan, 0.5, 1e-3])
def test_what_is_no_logprob_is_named_with_its_place(value: float) -> None:
    with pytest.raises(EvidenceError, match="at token 1"):
        TokenLogprobs(("a", "b"), np.array([-1.0, value]))


def test_rounding_above_zero_is_zero() -> None:
    assert TokenLogprobs(("a",), np.array([5e-7])).logprobs[0] == 0.0


def test_columns_must_agree() -> None:
    with pytest.raises(EvidenceError, match="entropies_nats has 2 entries for 1 tokens"):
        TokenLogprobs(("a",), np.array([-1.0]), entropies_nats=np.array([1.0, 2.0]))
    with pytest.raises(EvidenceError, match="finite"):
        TokenLogprobs(("a",), np.array([-1.0]), entropies_nats=np.array([math.nan]))


def test_text_of_a_character_split_over_tokens() -> None:
    halves = TokenLogprobs(("�", "�"), np.array([-1.0, -1.0]), token_bytes=(b"\xc3", b"\xa9"))
    assert halves.text == "é"
    assert halves.byte_count == 2


def test_broken_records_are_refused_in_words() -> None:
    for data in ({}, {"tokens": ["a"], "logprobs": ["x"]}, {"tokens": ["a"], "logprobs": [-1.0], "bytes": ["zz"]}):
        with pytest.raises(EvidenceError):
            TokenLogprobs.from_dict(data)


def test_distribution_keeps_what_no_label_explains() -> None:
    found = Distribution.from_logprobs(["left", "right"], [math.log(0.5), math.log(0.2)])
    assert found.other == pytest.approx(0.3)
    assert Distribution.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_distribution_over_likelihoods_survives_a_gap_of_2000_nats() -> None:
    found = Distribution.from_log_likelihoods(["a", "b"], [-2000.0, -4000.0])
    assert found.probabilities.tolist() == [1.0, 0.0]
    sums = Distribution.from_log_likelihoods(["a", "b"], [-20000.0, -20000.0])
    assert sums.probabilities.tolist() == [0.5, 0.5], "a sum over many tokens may lie below -9999 and is not zero"


@pytest.mark.parametrize(
    ("labels", "values", "other"),
    [(["a"], [0.5], 0.0), (["a", "a"], [0.5, 0.5], 0.0), (["a"], [math.nan], 0.0), (["a"], [1.5], -0.5)],
)
def test_what_is_no_distribution_is_refused(labels: list[str], values: list[float], other: float) -> None:
    with pytest.raises(EvidenceError):
        Distribution(tuple(labels), np.array(values), other)


def test_logprobs_above_all_mass_are_no_logprobs() -> None:
    with pytest.raises(EvidenceError, match="sum to 2"):
        Distribution.from_logprobs(["a", "b"], [0.0, 0.0])
    with pytest.raises(EvidenceError, match="no label has a likelihood"):
        Distribution.from_log_likelihoods(["a"], [-math.inf])
