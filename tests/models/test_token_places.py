"""Where the tokens of an answer lie in its text, and when that is not certain."""

from __future__ import annotations

import numpy as np

from howsure.evidence import TokenLogprobs
from howsure.models.token_places import TokenPlaces, lay_tokens


def evidence(*tokens: str, known: bool = True) -> TokenLogprobs:
    spelled = tuple(token.encode() for token in tokens) if known else None
    return TokenLogprobs(tokens=tokens, logprobs=np.full(len(tokens), -0.5), token_bytes=spelled)


def test_tokens_hold_the_bytes_that_they_spell() -> None:
    places = lay_tokens("(12, 3)", evidence("(1", "2", ", ", "3)"))
    assert places is not None
    assert places.spans == ((0, 2), (2, 3), (3, 5), (5, 7))
    assert places.overlapping(1, 3) == [0, 1]
    assert places.overlapping(5, 6) == [3]
    assert places.overlapping(6, 8) is None, "no token holds the last byte"


def test_a_text_that_was_stripped_and_its_end_token_shown() -> None:
    for known in (True, False):
        places = lay_tokens("12, 3", evidence(" ", "12", ",", " 3", "\n", "<|im_end|>", known=known))
        assert places is not None
        assert [places.overlapping(0, 2), places.overlapping(4, 5)] == [[1], [3]]


def test_an_answer_that_stands_twice_among_the_tokens_is_not_located() -> None:
    """Such as one that was thought of before it was given: its probabilities may be those of either."""
    thought = ("<think>", "(1, 2)", "</think>", "(1, 2)")
    assert lay_tokens("(1, 2)", evidence(*thought)) is None
    assert lay_tokens("(1, 2)", evidence(*thought[2:])) is not None


def test_tokens_that_spell_something_else_are_not_located() -> None:
    assert lay_tokens("(1, 2)", evidence("(3, 4)")) is None
    assert lay_tokens("", evidence("(3, 4)")) is None


def test_a_stretch_with_an_uncertain_token_in_it_is_not_certain() -> None:
    places = TokenPlaces(((0, 2), None, (3, 5)))
    assert places.overlapping(0, 5) is None
    assert places.overlapping(0, 2) == [0]
