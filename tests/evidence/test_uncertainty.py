"""Entropies from a token's alternatives, with the chosen token inside and outside them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from howsure.evidence import TokenLogprobs, TopAlternatives, entropies_from_top
from howsure.measures import topk_entropy

L = math.log


def evidence(token: str, logprob: float, row: list[tuple[str, float]], **known: object) -> TokenLogprobs:
    top = TopAlternatives.from_rows([row], known.pop("row_bytes", None))  # type: ignore[arg-type]
    return TokenLogprobs((token,), np.array([logprob]), top=top, **known)  # type: ignore[arg-type]


def test_a_listed_token_is_counted_once() -> None:
    found = entropies_from_top(evidence("a", L(0.5), [("a", L(0.5)), ("b", L(0.25))]))
    assert found is not None
    expected = topk_entropy([L(0.5), L(0.25)])
    assert expected is not None
    assert found.entropy_nats[0] == pytest.approx(expected.entropy_nats)
    assert found.remainder[0] == pytest.approx(0.25)


def test_a_token_outside_its_alternatives_is_known_too() -> None:
    found = entropies_from_top(evidence("z", L(0.1), [("a", L(0.5)), ("b", L(0.25))]), vocab_size=100)
    assert found is not None
    expected = topk_entropy([L(0.5), L(0.25)], chosen_logprob=L(0.1), vocab_size=100)
    assert expected is not None
    assert found.high_nats is not None
    assert (found.entropy_nats[0], found.low_nats[0], found.high_nats[0], found.remainder[0]) == pytest.approx(expected)


def test_two_halves_of_characters_with_one_text_are_told_apart_by_bytes() -> None:
    half = "\ufffd"
    other = evidence(half, L(0.2), [(half, L(0.5))], token_bytes=(b"\xc3",), row_bytes=[[b"\xe2"]])
    same = evidence(half, L(0.5), [(half, L(0.5))], token_bytes=(b"\xc3",), row_bytes=[[b"\xc3"]])
    by_text = evidence(half, L(0.2), [(half, L(0.5))])
    remainders = []
    for one in (other, same, by_text):
        found = entropies_from_top(one)
        assert found is not None
        remainders.append(float(found.remainder[0]))
    assert remainders == pytest.approx([0.3, 0.5, 0.3])


def test_probability_zero_on_both_sides_is_the_same_token() -> None:
    found = entropies_from_top(evidence("a", -math.inf, [("b", L(1.0)), ("a", -math.inf)]))
    assert found is not None
    assert found.remainder[0] == 0.0


def test_without_alternatives_nothing_is_known() -> None:
    assert entropies_from_top(TokenLogprobs(("a",), np.array([-1.0]))) is None


@pytest.mark.real_model
def test_the_bounds_hold_the_exact_entropy_of_a_real_model(smollm2) -> None:
    text = "The old lighthouse keeper counted 17 ships until the fog came in, and then he slept."
    scored = smollm2.score([("", [text])], top_logprobs=5, entropies=True)[0][0]
    found = entropies_from_top(scored, vocab_size=smollm2.network.config.vocab_size)
    assert found is not None
    assert found.high_nats is not None
    exact = scored.entropies_nats
    assert (found.entropy_nats <= found.low_nats + 1e-9).all()
    assert (found.low_nats <= exact + 1e-4).all()
    assert (exact <= found.high_nats + 1e-4).all()
    assert (found.high_nats - found.low_nats).max() > 0.5, "five of 49,152 leave room, or this test shows nothing"
