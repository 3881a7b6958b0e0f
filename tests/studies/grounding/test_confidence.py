"""Which tokens spell the coordinates, what they say, and what answers drawn again say."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howsure.errors import InputError
from howsure.evidence import TokenLogprobs
from howsure.studies.grounding.confidence import (
    COORDINATE_KINDS,
    coordinate_confidence,
    coordinate_tokens,
    sampled_confidence,
)
from howsure.studies.grounding.record import Sampled

few = settings(max_examples=200, deadline=None)


def written(*tokens: tuple[str, float]) -> tuple[str, TokenLogprobs]:
    """An answer of these tokens with these probabilities."""
    texts = [text for text, _ in tokens]
    with np.errstate(divide="ignore"):
        logprobs = np.log([probability for _, probability in tokens])
    return "".join(texts), TokenLogprobs(tuple(texts), logprobs)


def spans_of(text: str, *numbers: str) -> list[tuple[int, int]]:
    found, start = [], 0
    for number in numbers:
        start = text.index(number, start)
        found.append((start, start + len(number)))
        start += len(number)
    return found


# -- the tokens of the numbers --------------------------------------------------------------------------------------


def test_mean_least_and_joint_by_hand() -> None:
    text, logprobs = written(("(", 0.1), ("1", 0.5), ("00", 0.8), (", ", 0.1), ("200", 0.4), (")", 0.1))
    found = coordinate_confidence(text, logprobs, spans_of(text, "100", "200"))
    assert found.missing == {}
    assert found.confidence == {
        "coordinate_mean": pytest.approx((0.5 + 0.8 + 0.4) / 3),
        "coordinate_min": pytest.approx(0.4),
        "coordinate_joint": pytest.approx(0.5 * 0.8 * 0.4),
    }


def test_a_token_that_holds_a_digit_and_more_is_a_coordinate_token() -> None:
    text, logprobs = written(("at", 0.1), (" (1", 0.5), ("00,", 0.8), (" 2", 0.4), ("00)", 0.9), ("\n", 0.1))
    assert coordinate_tokens(text, logprobs, spans_of(text, "100", "200")) == [1, 2, 3, 4]


def test_a_token_across_two_numbers_counts_once() -> None:
    text, logprobs = written(("[", 0.1), ("10", 0.5), ("0,2", 0.25), ("00", 0.5), ("]", 0.1))
    found = coordinate_confidence(text, logprobs, spans_of(text, "100", "200"))
    assert found.confidence["coordinate_joint"] == pytest.approx(0.5 * 0.25 * 0.5)


def test_sign_and_point_inside_a_number_count_and_what_stands_between_does_not() -> None:
    text, logprobs = written(("(", 0.1), ("-", 0.5), ("3", 0.5), (".", 0.5), ("5", 0.5), (",", 0.1), ("7", 0.5))
    assert coordinate_tokens(text, logprobs, spans_of(text, "-3.5", "7")) == [1, 2, 3, 4, 6]


def test_places_are_characters_of_the_text_and_not_bytes() -> None:
    text, logprobs = written(("파란색", 0.1), (" é🖱 ", 0.1), ("311", 0.5), (", ", 0.1), ("541", 0.25))
    found = coordinate_confidence(text, logprobs, spans_of(text, "311", "541"))
    assert found.confidence["coordinate_min"] == pytest.approx(0.25)
    assert found.confidence["coordinate_mean"] == pytest.approx(0.375)


def test_half_characters_before_the_numbers_do_not_shift_them() -> None:
    pieces = ["é".encode()[:1], "é".encode()[1:], b"5", b",", b"6"]
    logprobs = TokenLogprobs(("�", "�", "5", ",", "6"), np.log([0.1, 0.1, 0.5, 0.1, 0.25]), tuple(pieces))
    assert coordinate_tokens("é5,6", logprobs, [(1, 2), (3, 4)]) == [2, 4]


def test_a_server_that_strips_the_answer_is_still_read() -> None:
    _, logprobs = written(("\n", 0.1), ("5", 0.5), (",", 0.1), ("6", 0.25), ("<|im_end|>", 0.1))
    assert coordinate_tokens("5,6", logprobs, [(0, 1), (2, 3)]) == [1, 3]


def test_a_token_of_probability_zero_is_a_zero_and_not_missing() -> None:
    text, logprobs = written(("5", 0.0), (",", 0.1), ("6", 0.5))
    found = coordinate_confidence(text, logprobs, spans_of(text, "5", "6"))
    assert list(found.confidence.values()) == [pytest.approx(0.25), 0.0, 0.0]


@pytest.mark.parametrize(
    ("text", "tokens", "spans", "reason"),
    [
        ("5,6", None, [(0, 1), (2, 3)], "no_logprobs"),
        ("5,6", [], [(0, 1), (2, 3)], "no_logprobs"),
        ("I cannot", ["I", " cannot"], [], "no_coordinates"),
        ("5,6", ["7", ",", "8"], [(0, 1), (2, 3)], "not_located"),
    ],
    ids=["none", "empty", "no_click", "other_text"],
)
def test_what_is_missing_has_a_reason_and_no_number(
    text: str, tokens: list[str] | None, spans: list[tuple[int, int]], reason: str
) -> None:
    logprobs = None if tokens is None else TokenLogprobs(tuple(tokens), np.full(len(tokens), -0.5))
    found = coordinate_confidence(text, logprobs, spans)
    assert found.confidence == dict.fromkeys(COORDINATE_KINDS)
    assert found.missing == dict.fromkeys(COORDINATE_KINDS, reason)


@few
@given(st.data(), st.text(alphabet="ab1,é🖱(-", min_size=1, max_size=30))
def test_the_tokens_are_those_that_hold_a_character(data: st.DataObject, text: str) -> None:
    """However a text is cut: the tokens that own a character of the span, found by going through the characters."""
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(text) - 1)))) & set(range(1, len(text))))
    tokens = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    owner = [number for number, token in enumerate(tokens) for _ in token]
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    logprobs = TokenLogprobs(tuple(tokens), np.full(len(tokens), -0.1))
    assert coordinate_tokens(text, logprobs, [(start, end)]) == sorted(set(owner[start:end]))


# -- answers drawn again --------------------------------------------------------------------------------------------

CLICK = (100.0, 100.0)


def test_agreement_and_spread_by_hand() -> None:
    """Six asked, one of them failed: of five answers two click within 20."""
    sampled = Sampled(6, ((100.0, 110.0), (100.0, 120.0), (100.0, 160.0)), wrong_format=1, refusals=1, failed=1)
    found = sampled_confidence("point", CLICK, sampled, delta=20)
    offsets = [y - 130 for y in (110, 120, 160)]
    assert found.missing == {}
    assert found.confidence == {
        "agreement": 2 / 5,
        "spread": pytest.approx(math.sqrt(sum(offset**2 for offset in offsets) / 3)),
    }


def test_a_refusal_agrees_with_refusals() -> None:
    found = sampled_confidence("refusal", None, Sampled(5, (CLICK,), 1, 2, 1), delta=20)
    assert found.confidence == {"agreement": 2 / 4, "spread": None}
    assert found.missing == {"spread": "no_coordinates"}


def test_an_answer_that_cannot_be_read_has_neither() -> None:
    found = sampled_confidence("wrong_format", None, Sampled(3, (CLICK, CLICK), 1), delta=20)
    assert found.confidence == {"agreement": None, "spread": None}
    assert found.missing == {"agreement": "no_coordinates", "spread": "no_coordinates"}


def test_one_click_has_no_spread_and_failed_calls_agree_with_nothing() -> None:
    one = sampled_confidence("point", CLICK, Sampled(3, (CLICK,), wrong_format=2), delta=20)
    assert one.confidence == {"agreement": 1 / 3, "spread": None}
    assert one.missing == {"spread": "fewer_than_two_points"}
    none = sampled_confidence("point", CLICK, Sampled(3, failed=3), delta=20)
    assert none.confidence == {"agreement": None, "spread": None}
    assert none.missing == {"agreement": "no_samples", "spread": "fewer_than_two_points"}
    refused = sampled_confidence("refusal", None, Sampled(2, failed=2), delta=20)
    assert refused.missing["agreement"] == "no_samples"


def test_what_was_drawn_is_written_as_it_was() -> None:
    sampled = Sampled(4, ((1.0, 2.0),), wrong_format=1, refusals=1, failed=1)
    assert msgspec.json.encode(sampled) == (
        b'{"asked":4,"points":[[1.0,2.0]],"wrong_format":1,"refusals":1,"failed":1}'
    )
    assert sampled.answered == 3


def test_counts_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(InputError, match="do not add up to the 4"):
        sampled_confidence("point", CLICK, Sampled(4, (CLICK,), wrong_format=1), delta=20)
