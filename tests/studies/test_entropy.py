"""Entropy of numbers, counts and texts: figures by hand, texts against naive counting, bad input by its sentence."""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howsure.errors import EvidenceError, InputError
from howsure.measures import block_entropies
from howsure.models.text import starts_of_words
from howsure.studies.entropy import (
    SYMBOLS,
    Text,
    cross_entropy_of_text,
    entropy_of_counts,
    entropy_of_distribution,
    entropy_of_text,
    read_texts,
    symbol_codes,
)

few = settings(max_examples=100, deadline=None)
PACKED, PACKED_NOTHING = gzip.compress(b"so it goes", mtime=0), gzip.compress(b"", mtime=0)
pairs = st.integers(1, 8).flatmap(lambda n: st.tuples(*[st.lists(st.floats(0.001, 1), min_size=n, max_size=n)] * 2))


def shares(values: list[float]) -> list[float]:
    return [value / sum(values) for value in values]


def text(content: str, name: str = "t.txt") -> list[Text]:
    return [Text(name, content.encode())]


# -- probabilities ----------------------------------------------------------------------------------------------------


def test_a_coin_has_one_bit_and_perplexity_two() -> None:
    found = entropy_of_distribution([0.5, 0.5])
    assert (found.entropy_bits, found.perplexity, found.against) == (1.0, 2.0, None)
    assert found.to_dict() == {
        "kind": "distribution",
        "probabilities": [0.5, 0.5],
        "entropy_bits": 1.0,
        "perplexity": 2.0,
        "against": None,
    }


def test_a_uniform_distribution_has_the_perplexity_of_its_size() -> None:
    for size in (1, 3, 27, 50_257):
        assert entropy_of_distribution([1 / size] * size).perplexity == pytest.approx(size)


def test_against_a_model_by_hand() -> None:
    found = entropy_of_distribution([0.5, 0.5], [0.25, 0.75]).against
    assert found is not None
    cross = 0.5 * 2 + 0.5 * math.log2(4 / 3)
    assert found.cross_entropy_bits == pytest.approx(cross)
    assert found.kl_bits == pytest.approx(cross - 1)
    assert found.distance_bits == pytest.approx(cross - 1)
    assert found.perplexity == pytest.approx(2**cross)
    assert found.ruled_out == ()


@few
@given(pairs)
def test_no_model_needs_fewer_bits_than_the_truth(both: tuple[list[float], list[float]]) -> None:
    p, m = map(shares, both)
    found = entropy_of_distribution(p, m)
    assert found.against is not None
    assert found.against.cross_entropy_bits >= found.entropy_bits - 1e-9
    assert found.against.distance_bits == pytest.approx(found.against.kl_bits, abs=1e-9)
    assert found.against.cross_entropy_bits == pytest.approx(-sum(x * math.log2(y) for x, y in zip(p, m, strict=True)))


def test_what_the_model_rules_out_is_named_and_null_in_json() -> None:
    found = entropy_of_distribution([0.5, 0.5, 0.0], [1.0, 0.0, 0.0]).against
    assert found is not None
    assert found.cross_entropy_bits == found.kl_bits == found.distance_bits == found.perplexity == math.inf
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert data["ruled_out"] == [1], "the third outcome never happens, so it may be ruled out"
    assert data["cross_entropy_bits"] is data["kl_bits"] is data["distance_bits"] is data["perplexity"] is None


def test_a_perplexity_beyond_floating_point_is_infinite() -> None:
    found = entropy_of_distribution([0.0, 1.0], [1.0, 5e-324]).against
    assert found is not None
    assert found.cross_entropy_bits == pytest.approx(1074)
    assert found.perplexity == math.inf


@pytest.mark.parametrize(
    ("p", "against", "words"),
    [
        ([0.5, 0.4], None, "the numbers sum to 0.9, not to 1 within 1e-06; if they are counts, pass --counts"),
        ([5, 3], None, "sum to 8, .* pass --counts"),
        ([1e308, 1e308], None, "sum to inf"),
        ([-0.5, 1.5], None, "-0.5 at position 0"),
        ([math.nan, 1.0], None, "nan at position 0"),
        ([0.5, 0.5], [0.9], "--against holds 1 probabilities for 2 outcomes"),
        ([0.5, 0.5], [0.9, 0.2], "the probabilities of --against sum to 1.1, not to 1"),
        ([0.5, 0.5], [1.5, -0.5], "--against: -0.5 at position 1"),
    ],
)
def test_what_is_no_distribution_is_refused(p: list[float], against: list[float] | None, words: str) -> None:
    with pytest.raises((InputError, EvidenceError), match=words):
        entropy_of_distribution(p, against)


# -- counts -----------------------------------------------------------------------------------------------------------


def test_counts_by_hand() -> None:
    found = entropy_of_counts([2, 1, 0, 1], [0.25, 0.25, 0.25, 0.25])
    assert (found.total_count, found.distinct_count) == (4, 3)
    assert found.estimates.plugin_bits == pytest.approx(1.5)
    assert found.estimates.miller_madow_bits == pytest.approx(1.5 + 2 / 8 / math.log(2))
    assert found.estimates.grassberger_bits == pytest.approx(1.6566572065813687 / math.log(2))
    assert found.against is not None
    assert found.against.cross_entropy_bits == pytest.approx(2.0)
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert data["kind"] == "counts"
    assert data["perplexity"] == pytest.approx(2**1.5)


def test_counts_that_are_none_are_refused() -> None:
    with pytest.raises(EvidenceError, match="1.5 at position 1 is not a whole number"):
        entropy_of_counts([1, 1.5])


# -- texts ------------------------------------------------------------------------------------------------------------


@few
@given(st.text(alphabet=st.sampled_from("ab \n\t\0\u00a0é🤖"), min_size=1, max_size=80), st.sampled_from(SYMBOLS))
def test_symbols_are_those_of_a_naive_reading(content: str, kind: str) -> None:
    pieces = {
        "bytes": list(content.encode()),
        "characters": list(content),
        "words": content.encode().replace(b"\0", b" ").split(),
    }[kind]
    if not pieces:
        with pytest.raises(InputError, match="t.txt holds no words"):
            symbol_codes(text(content), kind)
        return
    found = entropy_of_text(text(content), kind, 1)
    assert (found.symbol_count, found.distinct_count) == (len(pieces), len(set(pieces)))
    expected = -sum(n / len(pieces) * math.log2(n / len(pieces)) for n in Counter(pieces).values())
    assert found.estimates.plugin_bits == pytest.approx(expected, abs=1e-9)
    if kind == "words":
        assert len(pieces) == len(starts_of_words(content.encode())), "one meaning of a word in the whole house"


def test_a_text_by_hand() -> None:
    found = entropy_of_text(text("to be or not to be " * 20), "words", 4)
    assert (found.symbol_count, found.distinct_count) == (120, 4)
    # to and be a third each, or and not a sixth each.
    assert found.estimates.plugin_bits == pytest.approx(2 / 3 * math.log2(3) + 1 / 3 * math.log2(6))
    assert [row.distinct for row in found.blocks] == [4, 5, 6, 6]
    assert found.rate_row == found.blocks[3]
    assert found.entropy_rate_bits == pytest.approx(0, abs=1e-12), "three words settle the fourth"
    assert found.blocks == tuple(block_entropies(symbol_codes(text("to be or not to be " * 20), "words"), 4))


def test_the_entropy_rate_is_that_of_the_longest_supported_blocks() -> None:
    rng = np.random.default_rng(0)
    content = "".join(rng.choice(list("abcdefgh"), size=4000))
    found = entropy_of_text(text(content), "characters", 5)
    assert [row.supported for row in found.blocks] == [True, True, False, False, False]
    assert found.rate_row == found.blocks[1]
    assert found.entropy_rate_bits == pytest.approx(3, abs=0.02)
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert (data["entropy_rate_block"], data["entropy_rate_missing"]) == (2, None)
    assert data["entropy_rate_perplexity"] == pytest.approx(8, abs=0.2)
    assert [row["n"] for row in data["blocks"]] == [1, 2, 3, 4, 5]
    assert data["blocks"][1]["conditional_bits"] == data["entropy_rate_bits"]
    assert data["blocks"][0]["ceiling_bits"] == pytest.approx(math.log2(4000))


def test_where_nothing_is_supported_the_rate_is_missing_with_its_reason() -> None:
    found = entropy_of_text(text("all of these words are different"), "words", 2)
    assert found.entropy_rate_bits is None
    reason = "single words occur 1.0 times on average, and an estimate needs 10"
    assert reason in (found.entropy_rate_missing or "")
    data = found.to_dict()
    assert data["entropy_rate_bits"] is data["entropy_rate_perplexity"] is data["entropy_rate_block"] is None
    assert reason in data["entropy_rate_missing"]


def test_texts_named_together_are_one_text_and_words_do_not_grow_together() -> None:
    both = entropy_of_text([*text("one two"), *text("three\n")], "words", 1)
    assert (both.symbol_count, both.distinct_count, both.sources) == (3, 3, ("t.txt", "t.txt"))
    assert entropy_of_text([*text("ab"), *text("c")], "characters", 1).symbol_count == 3


def test_a_byte_order_mark_is_no_character() -> None:
    assert entropy_of_text([Text("t", b"\xef\xbb\xbfab")], "characters", 1).symbol_count == 2
    assert entropy_of_text([Text("t", b"\xef\xbb\xbfab")], "bytes", 1).symbol_count == 5


# -- against a model --------------------------------------------------------------------------------------------------


def test_a_models_total_against_the_text_by_hand() -> None:
    found = entropy_of_text(text("ab" * 40), "characters", 2)
    assert (found.estimates.plugin_bits, found.entropy_rate_bits) == (pytest.approx(1.0), pytest.approx(0, abs=1e-9))
    model = cross_entropy_of_text(found, "ngram:x.arpa", total_nats=80 * 1.5 * math.log(2), symbol_count=80)
    assert model.cross_entropy_bits == pytest.approx(1.5)
    assert model.perplexity == pytest.approx(2**1.5)
    assert model.above_entropy_bits == pytest.approx(0.5)
    assert model.above_entropy_rate_bits == pytest.approx(1.5)
    data = dataclasses.replace(found, against=model).to_dict()["against"]
    distances = {"distance_bits": pytest.approx(0.5), "distance_from_rate_bits": pytest.approx(1.5)}
    assert data == {**dataclasses.asdict(model), "perplexity": model.perplexity, **distances}
    below = cross_entropy_of_text(found, "m", total_nats=80 * 0.25 * math.log(2), symbol_count=80).to_dict()
    assert (below["above_entropy_bits"], below["distance_bits"]) == (pytest.approx(-0.75), pytest.approx(0.75))


def test_a_model_may_be_infinitely_wrong_and_a_rate_missing() -> None:
    found = entropy_of_text(text("a b c"), "words", 1)
    model = cross_entropy_of_text(found, "m", math.inf, 3)
    assert model.above_entropy_bits == math.inf
    assert model.above_entropy_rate_bits is None
    data = json.loads(json.dumps(model.to_dict(), allow_nan=False))
    assert data["cross_entropy_bits"] is data["perplexity"] is None


@pytest.mark.parametrize(
    ("total", "count", "words"), [(math.nan, 3, "total_nats nan"), (-1.0, 3, "total_nats -1.0"), (1.0, 0, "at least 1")]
)
def test_a_total_that_is_none_is_refused(total: float, count: int, words: str) -> None:
    with pytest.raises((InputError, EvidenceError), match=words):
        cross_entropy_of_text(entropy_of_text(text("a b"), "words", 1), "m", total, count)


# -- reading ----------------------------------------------------------------------------------------------------------


def test_files_gzip_and_standard_input_give_the_same_text(tmp_path: Path) -> None:
    content = b"so it goes\n"
    (tmp_path / "a.txt").write_bytes(content)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(content))
    plain, packed, piped = read_texts(
        [str(tmp_path / "a.txt"), str(tmp_path / "a.txt.gz"), "-"], stdin=io.BytesIO(content)
    )
    assert plain.content == packed.content == piped.content == content
    assert (plain.name, piped.name) == (str(tmp_path / "a.txt"), "standard input")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("gone.txt", None, "gone.txt cannot be read: No such file"),
        ("empty.txt", b"", "empty.txt is empty"),
        ("empty.gz", PACKED_NOTHING, "empty.gz is empty"),
        ("torn.gz", PACKED[:-9], "torn.gz is not a whole gzip file"),
        ("not.gz", b"so it goes", "not.gz is not a whole gzip file"),
        ("bad.gz", PACKED[:10] + b"\xff" * 20, "bad.gz is not a whole gzip file"),
    ],
)
def test_what_cannot_be_read_is_said_in_a_sentence(
    name: str, content: bytes | None, words: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=words):
        read_texts([str(tmp_path / name)])


def test_standard_input_is_read_once() -> None:
    with pytest.raises(InputError, match="only once"):
        read_texts(["-", "-"], stdin=io.BytesIO(b"x"))


@pytest.mark.parametrize("kind", ["words", "characters"])
def test_what_is_no_utf_8_is_named_by_its_line_and_counts_as_bytes(kind: str) -> None:
    noise = [Text("noise.txt", b"good\nfine\nbad \xff here\n")]
    with pytest.raises(InputError, match=r"noise.txt, line 3: the byte 0xff is not UTF-8; .*--symbols bytes"):
        entropy_of_text(noise, kind, 1)
    assert entropy_of_text(noise, "bytes", 1).symbol_count == 21


def test_unknown_symbols_are_refused() -> None:
    with pytest.raises(InputError, match="symbols 'letters' must be one of words, characters, bytes"):
        symbol_codes(text("x"), "letters")
