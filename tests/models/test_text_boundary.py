"""Where the prefix ends, for tokenizers that spell bytes and those that spell words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from howsure.errors import InputError
from howsure.models.text_boundary import TextEncoder
from tiny import byte_level_tokenizer


@pytest.fixture(scope="module")
def byte_level() -> TextEncoder:
    return TextEncoder(byte_level_tokenizer())


def sentencepiece_like(**template: object):
    """Metaspace words with byte fallback and a begin token that the tokenizer adds itself, as Llama 2 has it."""
    from tokenizers import Tokenizer, decoders, models, normalizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = {"<unk>": 0, "<s>": 1, "▁": 2, "▁the": 3, "▁sky": 4, "t": 5, "h": 6, "e": 7, "s": 8, "k": 9, "y": 10}
    for text in ("th", "▁t", "▁th", "▁s", "▁sk", "ky", "x", "1", "A"):
        vocabulary[text] = len(vocabulary)
    for byte in range(256):
        vocabulary[f"<0x{byte:02X}>"] = len(vocabulary)
    merges = [("t", "h"), ("▁", "t"), ("▁t", "h"), ("▁th", "e"), ("▁", "s"), ("▁s", "k"), ("▁sk", "y")]
    tokenizer = Tokenizer(
        models.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    )
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", vocabulary["<s>"])]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", unk_token="<unk>", **template)


def test_the_shared_prefix_is_what_every_continuation_shares(byte_level: TextEncoder) -> None:
    encoded = byte_level.encode("the sky is", [" blue", " blue.", " the"])
    assert encoded.prefix_chars == 0
    assert tuple(byte_level.pieces(["the sky is"])[0].ids) == encoded.context
    for suffix, text in zip(encoded.suffixes, [" blue", " blue.", " the"], strict=True):
        assert (*encoded.context, *suffix) == byte_level.pieces(["the sky is" + text])[0].ids


def test_a_token_across_the_boundary_is_scored_for_all_alike(byte_level: TextEncoder) -> None:
    """ " the" is one token: after a prefix that ends in its space, the space is scored with it, for everyone."""
    assert len(byte_level.pieces([" the"])[0].ids) == 1
    encoded = byte_level.encode("sky is ", ["the", "quick"])
    assert encoded.prefix_chars == 1
    assert byte_level.pieces(["sky is"])[0].ids == encoded.context
    assert b"".join(encoded.suffix_bytes[0] or ()) == b" the"
    assert b"".join(encoded.suffix_bytes[1] or ()) == b" quick"


def test_an_empty_context_gets_the_start_token(byte_level: TextEncoder) -> None:
    encoded = byte_level.encode("", ["the sky"])
    assert encoded.context == (byte_level.tokenizer.bos_token_id,)
    assert b"".join(encoded.suffix_bytes[0] or ()) == b"the sky"


def test_a_document_separator_goes_before_a_chat_marker() -> None:
    from tokenizers import AddedToken

    tokenizer = byte_level_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": [AddedToken("<|endoftext|>", special=True)]})
    encoder = TextEncoder(tokenizer)
    assert encoder.tokenizer.convert_ids_to_tokens(encoder.start_token) == "<|endoftext|>"


def test_an_empty_continuation_has_no_tokens(byte_level: TextEncoder) -> None:
    encoded = byte_level.encode("the sky", ["", " is"])
    assert encoded.suffixes[0] == ()
    assert encoded.tokens == len(encoded.context) + len(encoded.suffixes[1]) - 1


def test_sentencepiece_spells_bytes_and_keeps_its_own_begin_token() -> None:
    encoder = TextEncoder(sentencepiece_like())
    encoded = encoder.encode("the sky", [" the é"])
    assert encoded.context[0] == 1
    assert b"".join(encoded.suffix_bytes[0] or ()) == " the é".encode()
    assert encoder.encode("", ["the"]).context == (1,)


def test_half_a_surrogate_pair_is_refused_in_words(byte_level: TextEncoder) -> None:
    with pytest.raises(InputError, match="character 1 .*surrogate"):
        byte_level.encode("a\ud800", ["b"])


words = st.text(alphabet="the sky is blue éü🤖数\n 12", max_size=12)


@given(words, st.lists(words, min_size=1, max_size=4))
@pytest.mark.parametrize("kind", ["byte-level", "sentencepiece"])
def test_context_and_suffix_spell_the_text(kind: str, prefix: str, continuations: list[str]) -> None:
    encoder = ENCODERS[kind]
    encoded = encoder.encode(prefix, continuations)
    for continuation, suffix, known in zip(continuations, encoded.suffixes, encoded.suffix_bytes, strict=True):
        whole = encoder.pieces([prefix + continuation])[0].ids
        assert whole[len(whole) - len(suffix) :] == suffix
        assert known is not None
        tail = b"".join(known)
        assert (prefix + continuation).encode().endswith(tail)
        assert len(tail) >= len(continuation.encode())
        assert len(tail.decode(errors="ignore")) <= len(continuation) + encoded.prefix_chars
    rest = {(*encoded.context, *s)[: len(encoded.context)] for s in encoded.suffixes}
    assert len(rest) == 1


ENCODERS = {"byte-level": TextEncoder(byte_level_tokenizer()), "sentencepiece": TextEncoder(sentencepiece_like())}
