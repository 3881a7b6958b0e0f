"""A text tokenised part by part is the text tokenised at once, however it comes in."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import howsure
from howsure.errors import InputError
from howsure.models.hf.documents import PART_CHARS, Tokens, parts, tokens_of
from howsure.models.text import TextEncoder, _byte_ends, shares
from tiny import byte_level_tokenizer

from .test_text_boundary import CUT_KINDS, WHOLE_KINDS, readable

WHITE_SPACE = " \t\n\r\x0b\x0c\x00"


@pytest.fixture(scope="module", params=["smollm2", *CUT_KINDS, *WHOLE_KINDS])
def encoder(request: pytest.FixtureRequest) -> TextEncoder:
    if request.param == "smollm2":
        return howsure.load("smollm2", lazy=True).encoder
    return (CUT_KINDS | WHOLE_KINDS)[request.param]()


def joined(blocks: Iterable[Tokens]) -> Tokens:
    nothing = Tokens(*(np.empty(0, np.int64) for _ in Tokens._fields))
    return Tokens(*map(np.concatenate, zip(nothing, *blocks, strict=True)))


def in_chunks(text: str, sizes: list[int]) -> Iterable[str]:
    """Pieces of these sizes in turn."""
    start, turn = 0, 0
    while start < len(text):
        yield text[start : start + sizes[turn % len(sizes)]]
        start, turn = start + sizes[turn % len(sizes)], turn + 1


def word_count(text: str) -> int:
    for character in WHITE_SPACE[1:]:
        text = text.replace(character, " ")
    return sum(map(bool, text.split(" ")))


documents = st.lists(readable, max_size=8).map(" ".join)
sizes = st.lists(st.integers(1, 30), min_size=1, max_size=4)


@given(text=documents, sizes=sizes, part=st.integers(1, 40))
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_tokens_are_those_of_the_whole_text(encoder: TextEncoder, text: str, sizes: list[int], part: int) -> None:
    with patch("howsure.models.hf.documents.PART_CHARS", part):
        found = joined(tokens_of(encoder, in_chunks(text, sizes)))
        at_once = joined(tokens_of(encoder, [text]))
    whole = encoder.tokenizer(text)["input_ids"]
    lead = encoder.lead
    assert [*lead, *found.ids] == whole[: len(lead) + len(found.ids)]
    assert len(encoder.tokenizer(text, add_special_tokens=False)["input_ids"]) == len(found.ids)
    for column, other in zip(found, at_once, strict=True):
        assert column.tolist() == other.tolist(), "the pieces in which a text comes change nothing"
    if len(found.ids):
        assert found.byte_counts.sum() == len(text.encode())
        assert found.word_starts.sum() == word_count(text)
        assert found.byte_counts.min() >= 0


@given(text=documents, part=st.integers(1, 40))
def test_each_token_has_its_own_bytes_and_the_words_that_begin_in_them(text: str, part: int) -> None:
    encoder = ENCODER
    with patch("howsure.models.hf.documents.PART_CHARS", part):
        found = joined(tokens_of(encoder, [text]))
    known = encoder.pieces([text])[0].token_bytes
    assert known is not None
    assert found.byte_counts.tolist() == list(map(len, known))
    before = " "
    for spelled, starts in zip(known, found.word_starts.tolist(), strict=True):
        shown = before + spelled.decode("latin-1")
        here = [a in WHITE_SPACE and b not in WHITE_SPACE for a, b in pairwise(shown)]
        assert starts == sum(here)
        before = shown[-1]


ENCODER = TextEncoder(byte_level_tokenizer())


def test_bytes_by_hand() -> None:
    """Tokens that end at 2, at 2 and at 5 of a text of 8 bytes: the last one takes what is left."""
    byte_counts, word_starts = shares(b"so it  g", [2, 2, 5])
    assert byte_counts.tolist() == [2, 0, 6]
    assert word_starts.tolist() == [1, 0, 2]
    assert shares(b"so it  g", [2, 2, 5], after_space=False)[1].tolist() == [0, 0, 2]


def test_ends_that_a_tokenizer_gives_out_of_order_take_no_bytes_back() -> None:
    assert shares(b"abcdef", [3, 2, 9])[0].tolist() == [3, 0, 3]


@given(text=readable, data=st.data())
def test_places_in_characters_become_places_in_bytes(text: str, data: st.DataObject) -> None:
    ends = data.draw(st.lists(st.integers(0, len(text))))
    assert list(_byte_ends(text, ends)) == [len(text[:end].encode()) for end in ends]


def test_a_text_without_a_place_to_cut_is_one_part() -> None:
    text = "x" * (3 * PART_CHARS) + " y"
    assert list(parts([text], True)) == [text]
    assert len(list(parts(["x y " * PART_CHARS], True))) >= 4, "and one with places is cut"
    assert list(parts(["x y " * PART_CHARS], False)) == ["x y " * PART_CHARS], "unless the tokenizer forbids it"


def test_after_a_stretch_without_a_cut_parts_are_small_again() -> None:
    text = "x" * (3 * PART_CHARS) + " y" * (2 * PART_CHARS)
    found = list(parts(in_chunks(text, [1000]), True))
    assert "".join(found) == text
    assert max(map(len, found[1:])) <= PART_CHARS


def test_what_the_vocabulary_cannot_spell_goes_with_what_follows() -> None:
    """Byte-level tokenizers may lack bytes; a first part of nothing else has no token of its own."""
    encoder = TextEncoder(without_cyrillic())
    assert encoder.cuts
    text = "ббб the sky"
    with patch("howsure.models.hf.documents.PART_CHARS", 5):
        found = joined(tokens_of(encoder, [text]))
    assert "".join(encoder.tokenizer.convert_ids_to_tokens(found.ids.tolist())).endswith("Ġsky")
    assert found.byte_counts.sum() == len(text.encode())
    assert found.word_starts.sum() == 3


def without_cyrillic():
    """A byte-level tokenizer whose vocabulary lacks the two bytes of б."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(set(pre_tokenizers.ByteLevel.alphabet()) - {"Ð", "±"})
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=["<s>"], initial_alphabet=alphabet)
    tokenizer.train_from_iterator(["the sky is blue"], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>")


def test_half_a_surrogate_pair_is_refused_in_words() -> None:
    with pytest.raises(InputError, match="character 4 .*surrogate"):
        list(tokens_of(ENCODER, ["the ", "\ud800 sky"]))


def test_nothing_has_no_tokens(encoder: TextEncoder) -> None:
    assert list(tokens_of(encoder, [])) == []
    assert list(tokens_of(encoder, ["", ""])) == []


def test_no_warning_for_a_text_that_nobody_runs_as_a_whole(caplog: pytest.LogCaptureFixture) -> None:
    from transformers.utils import logging

    tokenizer = byte_level_tokenizer()
    tokenizer.model_max_length = 16
    logging.enable_propagation()
    list(tokens_of(TextEncoder(tokenizer), ["the sky is blue " * 20]))
    assert "longer than" not in caplog.text
    tokenizer("the sky is blue " * 20)
    assert "longer than" in caplog.text, "which transformers would otherwise write"
    logging.disable_propagation()
