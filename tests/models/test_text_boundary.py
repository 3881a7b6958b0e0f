"""Where the prefix ends, for tokenizers that spell bytes and those that spell words."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from howsure.errors import InputError
from howsure.models.text import KNOWN_PATTERNS, Encoded, TextEncoder, TextItem, can_be_cut, last_cut
from tiny import TINY_TEXT, byte_level_tokenizer


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


# -- many items at once: the prefix tokenised once, up to a safe cut ---------------------------------------------


SPACED = (
    """the  sky   is\n\n  blue 's don't  ...  the\n 12  23 1989 ,  ?\n the \t sky \n is . the's é  数字  the\r\n sky."""
)


def split_by(pattern: str, **template: object):
    """Byte-level BPE on the words of a pattern, as the tokenizer of a newer family has it."""
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=420, special_tokens=["<s>", "</s>"], initial_alphabet=alphabet)
    tokenizer.train_from_iterator([SPACED, TINY_TEXT] * 4, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", **template)


def metaspace():
    """SentencePiece's words by a pre-tokenizer, with nothing spelled in bytes."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.train_from_iterator([TINY_TEXT] * 4, trainers.BpeTrainer(vocab_size=200, special_tokens=["<unk>", "<s>"]))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", unk_token="<unk>")


def by_definition(encoder: TextEncoder, item: TextItem) -> Encoded:
    """Every text tokenised whole; the context is what all share and what ends before the boundary."""
    boundary = len(item.prefix.encode())
    texts = encoder.pieces([item.prefix + c for c in item.continuations], framed=item.framed)
    shared = 0
    for column in zip(*(text.ids for text in texts), strict=False):
        inside = [text.ends[shared] <= boundary if boundary else shared < text.leading for text in texts]
        if len(set(column)) > 1 or not all(inside):
            break
        shared += 1
    start = () if encoder.start_token is None else (encoder.start_token,)
    covered = texts[0].ends[shared - 1] if shared else 0
    return Encoded(
        context=(texts[0].ids[:shared] if texts else ()) or start,
        suffixes=tuple(text.ids[shared:] for text in texts),
        suffix_bytes=tuple(None if text.token_bytes is None else text.token_bytes[shared:] for text in texts),
        prefix_chars=len(item.prefix.encode()[covered:].decode(errors="ignore")),
    )


CUT_KINDS = {
    "byte-level": lambda: TextEncoder(byte_level_tokenizer()),
    **{name: lambda pattern=pattern: TextEncoder(split_by(pattern)) for name, pattern in KNOWN_PATTERNS.items()},
}
WHOLE_KINDS = {
    "sentencepiece": lambda: TextEncoder(sentencepiece_like()),
    "metaspace": lambda: TextEncoder(metaspace()),
}


@pytest.fixture(scope="module", params=["smollm2", *CUT_KINDS, *WHOLE_KINDS])
def encoder(request: pytest.FixtureRequest) -> TextEncoder:
    if request.param == "smollm2":
        import howsure

        return howsure.load("smollm2", lazy=True).encoder
    return (CUT_KINDS | WHOLE_KINDS)[request.param]()


SPACES = (" ", "  ", "\n", "\t ", " \n", "\r\n ", "\u00a0", "\u3000", "\u2009", "\x1c", "\u180e", "\u200b", "\ufeff")
WORDS = ("the", " sky", "is ", "Blue", "1", "23", " 1989 ", "½", "²", "Ⅷ", "'s", "'LL", "don't ", "ſ", "<s>", "</s>")
SIGNS = (".", ", ", "...", "/", "?\n", "_", "🤖", "。 ", "<|im_start|>", " \u0301", "e\u0301", "é", "ﬁ", "\u212a ")
OTHERS = ("数字 ", "हि ", "ᄀ", "ᅡ ", "\u0345", "ά", "ΐ ")
fragments = st.sampled_from([*SPACES, *WORDS, *SIGNS, *OTHERS])
texts = st.lists(fragments | st.text(max_size=3), max_size=14).map("".join)
readable = texts.filter(lambda text: not any("\ud800" <= c <= "\udfff" for c in text))
text_items = st.builds(TextItem, readable, st.lists(readable, max_size=4), st.booleans())


@given(items=st.lists(text_items, max_size=4))
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_many_at_once_is_what_the_definition_gives(encoder: TextEncoder, items: list[TextItem]) -> None:
    assert encoder.encode_many(items) == [by_definition(encoder, item) for item in items]


@given(left=readable, right=readable)
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_cut_leaves_the_tokens_of_the_whole(encoder: TextEncoder, left: str, right: str) -> None:
    if not can_be_cut(encoder.tokenizer):
        return
    text = f"{left}x {right}"
    whole, first, second = encoder.tokenizer([text, left + "x", f" {right}"], add_special_tokens=False)["input_ids"]
    assert first + second == whole
    cut = last_cut(text)
    assert cut >= len(left) + 1
    parts = encoder.tokenizer([text[:cut], text[cut:]], add_special_tokens=False)["input_ids"]
    assert parts[0] + parts[1] == whole


@pytest.mark.parametrize("kind", CUT_KINDS)
def test_families_with_known_words_are_cut(kind: str) -> None:
    assert can_be_cut(CUT_KINDS[kind]().tokenizer)


@pytest.mark.real_model
def test_smollm2_is_cut() -> None:
    import howsure

    assert can_be_cut(howsure.load("smollm2", lazy=True).encoder.tokenizer)


def unlike(change: str):
    """A byte-level tokenizer with one trait for which a cut would not be exact."""
    from tokenizers import AddedToken, Regex, normalizers, pre_tokenizers

    tokenizer = byte_level_tokenizer()
    backend = tokenizer.backend_tokenizer
    if change == "a space before every text":
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    elif change == "no words":
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    elif change == "an unknown pattern":
        words = pre_tokenizers.Split(Regex(r"\w+ ?|\s+"), "isolated")
        backend.pre_tokenizer = pre_tokenizers.Sequence([words, backend.pre_tokenizer])
    elif change == "another normalizer":
        backend.normalizer = normalizers.Strip()
    elif change == "random merges":
        backend.model.dropout = 0.1
    elif change == "an added token with a space":
        tokenizer.add_tokens([AddedToken("the sky")])
    else:
        tokenizer.add_tokens([AddedToken("<eats>", rstrip=True)])
    return tokenizer


@pytest.mark.parametrize(
    "change",
    [
        "a space before every text",
        "no words",
        "an unknown pattern",
        "another normalizer",
        "random merges",
        "an added token with a space",
        "an added token that eats spaces",
    ],
)
def test_whatever_is_not_known_is_tokenised_whole(change: str) -> None:
    tokenizer = unlike(change)
    assert not can_be_cut(tokenizer)
    if change != "random merges":
        encoder = TextEncoder(tokenizer)
        item = TextItem("is the sky blue <eats> the", [" sky", "n", ""])
        assert encoder.encode_many([item]) == [by_definition(encoder, item)]


def test_one_unreadable_item_leaves_the_others(byte_level: TextEncoder) -> None:
    items = [TextItem("the sky is", [" blue", " the"]), TextItem("a", ["b\ud800"]), TextItem("the", [" sky"], True)]
    first, second, third = byte_level.encode_many(items)
    assert first == byte_level.encode("the sky is", [" blue", " the"])
    assert isinstance(second, InputError)
    assert "character 2" in str(second)
    assert third == byte_level.encode("the", [" sky"], framed=True)


def test_a_prompt_is_tokenised_once_for_all_its_choices(byte_level: TextEncoder, monkeypatch) -> None:
    seen: list[str] = []
    tokenise = byte_level._tokenise

    def watched(given: list[str], framed: bool):
        seen.extend(given)
        return tokenise(given, framed)

    monkeypatch.setattr(byte_level, "_tokenise", watched)
    byte_level.encode("the quick brown fox is", [" blue", " lazy", " the", " not"])
    assert sum(map(len, seen)) < len("the quick brown fox is") + 4 * len(" is lazy")
