"""perplexity from texts to summary: figures by hand, blocks, intervals, what fails, and what is taken up again."""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

import howsure
from howsure.errors import InputError, MissingCapability, RunMismatch, UnusableText
from howsure.measures import ratio_interval
from howsure.models.contract import Capability, Rolling, Stretch
from howsure.runs.run import prepared
from howsure.studies.perplexity import PERPLEXITY, PerplexityOptions, study
from howsure.studies.perplexity.judge import document_rows, figures, judge
from howsure.studies.perplexity.record import Blocks, PerplexityRecord, block_size, block_sums, joined
from howsure.studies.perplexity.study import Result, batches, units
from howsure.studies.texts import Texts
from studies.readers import ARPA, BYTES, PROBS, WORDS, Reader, poem, put, write_arpa

LN2 = math.log(2)


def samples_on_disk(folder: Path) -> dict[str, Any]:
    return {sample["id"]: sample for sample in howsure.Run(folder).samples()}


def strict(text: str | bytes) -> Any:
    """JSON as it is defined: without NaN and Infinity."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


# -- figures by hand ----------------------------------------------------------------------------------------------


def test_figures_of_a_small_text_by_hand(tmp_path: Path) -> None:
    """Tokens «a», « b», « a», «\\n» of 1, 2, 1 and 3 bits: 7 bits over 4 tokens, 3 words and 6 bytes."""
    path = put(tmp_path / "t.jsonl", "a b a\n")
    model = Reader({"a": 1 / 2, "b": 1 / 4, "": 1 / 8})
    summary = howsure.perplexity(path, model, out=tmp_path / "run").summary
    corpus = summary["corpus"]
    assert [corpus[unit] for unit in ("tokens", "words", "bytes", "impossible")] == [4, 3, 6, 0]
    assert corpus["nll_nats"] == pytest.approx(7 * LN2)
    for unit, count in (("token", 4), ("word", 3), ("byte", 6)):
        assert corpus[f"bits_per_{unit}"] == pytest.approx(7 / count)
        assert corpus[f"perplexity_per_{unit}"] == pytest.approx(2 ** (7 / count))
    assert corpus["oov"] is None, "a model that can spell everything knows every word"
    assert corpus["perplexity_per_token_without_oov"] is None
    assert [(figure["name"], figure["value"]) for figure in summary["headline"]] == [
        ("bits per byte", pytest.approx(7 / 6)),
        ("perplexity per word", pytest.approx(2 ** (7 / 3))),
        ("perplexity per token", pytest.approx(2 ** (7 / 4))),
    ]
    assert summary["coverage"]["text"] == "scored 1 of 1"
    assert summary["notes"] == []


def test_figures_of_an_ngram_model_by_hand_with_and_without_oov_words(tmp_path: Path) -> None:
    """«a b» costs .125 + .25 + 1 and «x a» (.5 + 2) + .5 + (.25 + 1) times log 10; x is unknown and 2.5 of it."""
    path = put(tmp_path / "t.jsonl", "a b\nx a\n")
    summary = howsure.perplexity(path, write_arpa(tmp_path), out=tmp_path / "run").summary
    corpus = summary["corpus"]
    assert [corpus[unit] for unit in ("tokens", "words", "bytes", "oov", "impossible")] == [6, 4, 8, 1, 0]
    assert corpus["nll_nats"] == pytest.approx(5.625 * math.log(10))
    assert corpus["perplexity_per_token"] == pytest.approx(10 ** (5.625 / 6)), "as KenLM counts, including OOVs"
    assert corpus["perplexity_per_token_without_oov"] == pytest.approx(10 ** (3.125 / 5)), "and excluding OOVs"
    assert corpus["bits_per_token_without_oov"] == pytest.approx(0.625 * math.log2(10))
    assert corpus["bits_per_byte"] == pytest.approx(5.625 / 8 * math.log2(10)), "with </s> for each line end"
    assert summary["headline"][-1]["name"] == "perplexity per token, without OOVs"
    assert summary["headline"][-1]["value"] == pytest.approx(10**0.625)
    assert [figure["note"].partition("documents")[2] for figure in summary["headline"]] == [
        "; too low: 1 unknown word", "; too low: 1 unknown word", "", "",
    ]  # fmt: skip
    assert len(summary["notes"]) == 1
    assert summary["notes"][0].startswith("1 of 6 tokens are words that the model does not know")


def test_perplexity_per_word_is_the_inverse_probability_of_the_words_by_hand(tmp_path: Path) -> None:
    """PP(W) = P(w₁ … w_N)^(−1/N): the two ends of sentences are no words, and count neither above nor below."""
    path = put(tmp_path / "t.jsonl", "a b\nx a\n")
    result = howsure.perplexity(path, write_arpa(tmp_path), out=tmp_path / "run")
    probability = 10**-0.125 * 10**-0.25 * 10**-2.5 * 10**-0.5  # a after <s>, b after a, <unk> after <s>, a
    corpus = result.summary["corpus"]
    assert (corpus["words"], corpus["sentence_ends"], corpus["tokens"]) == (4, 2, 6)
    assert corpus["perplexity_per_word"] == pytest.approx(probability ** (-1 / 4))
    assert corpus["bits_per_word"] == pytest.approx(-math.log2(probability) / 4)
    both_ends = 10**-1.0 * 10**-1.25
    assert corpus["perplexity_per_token"] == pytest.approx((probability * both_ends) ** (-1 / 6)), "with both, as KenLM"
    assert corpus["nll_nats"] == pytest.approx(-math.log(probability * both_ends))
    table = list(csv.DictReader((tmp_path / "run" / "documents.csv").open(newline="")))
    assert float(table[0]["perplexity_per_word"]) == pytest.approx(probability ** (-1 / 4))
    assert table[0]["sentence_ends"] == "2"
    assert result.summary["documents"][0]["perplexity_per_word"] == corpus["perplexity_per_word"]


def test_a_sentence_end_of_probability_zero_leaves_the_words_their_perplexity() -> None:
    """One word of 3 bits, one end of a sentence that cannot be."""
    ends = np.array([False, True])
    stretch = Stretch(np.array([-3 * LN2, -math.inf]), np.array([4, 1]), np.array([1, 0]), ~ends & ends, ends)
    found = figures(joined([block_sums(stretch, 0, 5)]))
    assert (found["impossible"], found["perplexity_per_token"], found["bits_per_byte"]) == (1, None, None)
    assert found["perplexity_per_word"] == pytest.approx(8)


@pytest.mark.parametrize("size", [2, 10, 50_257])
def test_a_model_that_knows_nothing_has_the_perplexity_of_its_vocabulary(tmp_path: Path, size: int) -> None:
    path = put(tmp_path / "t.jsonl", poem(500), poem(20, seed=1))
    summary = howsure.perplexity(path, Reader(1 / size), out=tmp_path / "run").summary
    assert summary["corpus"]["perplexity_per_token"] == pytest.approx(size)
    assert [row["perplexity_per_token"] for row in summary["documents"]] == pytest.approx([size, size])


def test_a_document_counts_by_its_tokens_and_not_as_one(tmp_path: Path) -> None:
    """One token of 3 bits and three of 1 bit: 6 bits over 4 tokens, not the mean of 3 and 1."""
    path = put(tmp_path / "t.jsonl", "b", "a a a")
    summary = howsure.perplexity(path, Reader({"a": 1 / 2, "b": 1 / 8}), out=tmp_path / "run").summary
    assert summary["corpus"]["bits_per_token"] == pytest.approx(6 / 4)
    assert [row["bits_per_token"] for row in summary["documents"]] == [pytest.approx(3), pytest.approx(1)]


def test_a_gap_of_120_nats_stays_a_number(tmp_path: Path) -> None:
    path = put(tmp_path / "t.jsonl", "a b")
    model = Reader({"a": 1.0, "b": math.exp(-120)})
    corpus = howsure.perplexity(path, model, out=tmp_path / "run").summary["corpus"]
    assert corpus["nll_nats"] == pytest.approx(120)
    assert corpus["perplexity_per_token"] == pytest.approx(math.exp(60))


def test_a_word_beyond_floating_point_is_missing_and_the_rest_is_not(tmp_path: Path) -> None:
    """One word of 2,000 characters at one bit each: its perplexity would be 2 to the power of 2,000."""
    path = put(tmp_path / "t.jsonl", "x" * 2000)
    result = howsure.perplexity(path, Reader(0.5, pattern=BYTES), out=tmp_path / "run")
    corpus = result.summary["corpus"]
    assert (corpus["words"], corpus["bits_per_word"], corpus["perplexity_per_word"]) == (1, pytest.approx(2000), None)
    assert corpus["bits_per_byte"] == pytest.approx(1)
    assert strict((tmp_path / "run" / "summary.json").read_bytes()) == msgspec.to_builtins(result.summary)


def test_what_has_probability_zero_is_counted_and_said_and_never_infinite(tmp_path: Path) -> None:
    path = put(tmp_path / "t.jsonl", "a never a never", "a a")
    result = howsure.perplexity(path, Reader({"a": 1 / 2, "never": 0.0}), out=tmp_path / "run")
    corpus = result.summary["corpus"]
    assert (corpus["impossible"], corpus["tokens"]) == (2, 6)
    names = [f"{what}_per_{unit}" for what in ("bits", "perplexity") for unit in ("token", "word", "byte")]
    assert {corpus[name] for name in [*names, "nll_nats"]} == {None}
    assert result.summary["notes"][0].startswith("2 of 6 tokens have probability zero under this model")
    assert {figure["note"] for figure in result.summary["headline"]} == {"infinite: 2 tokens of probability zero"}
    never, plain = result.summary["documents"]
    assert (never["impossible"], never["bits_per_byte"], plain["bits_per_token"]) == (2, None, pytest.approx(1))
    assert not result.failed, "the model was asked and has answered"
    assert strict((tmp_path / "run" / "summary.json").read_bytes()) == msgspec.to_builtins(result.summary)
    assert all(strict(line)["result"] for line in (tmp_path / "run" / "samples.jsonl").read_text().splitlines())
    assert not {"inf", "nan"} & set((tmp_path / "run" / "documents.csv").read_text().replace("\n", ",").split(","))


def test_unknown_words_of_probability_zero_leave_the_known_ones_alone(tmp_path: Path) -> None:
    """An ARPA file without <unk>: KenLM's perplexity without OOVs is still there."""
    name = write_arpa(tmp_path, ARPA.replace("-2\t<unk>\n", "").replace("ngram 1=5", "ngram 1=4"))
    corpus = howsure.perplexity(put(tmp_path / "t.jsonl", "a b\nx a\n"), name, out=tmp_path / "run").summary["corpus"]
    assert (corpus["oov"], corpus["impossible"], corpus["perplexity_per_token"]) == (1, 1, None)
    assert corpus["perplexity_per_word"] is None
    assert corpus["perplexity_per_token_without_oov"] == pytest.approx(10**0.625)


def test_a_text_of_unknown_words_only_has_no_figure_without_them(tmp_path: Path) -> None:
    path = put(tmp_path / "t.jsonl", "x y")
    model = Reader(0.5, vocabulary=frozenset({"a"}))
    corpus = howsure.perplexity(path, model, out=tmp_path / "run").summary["corpus"]
    assert (corpus["tokens"], corpus["oov"], corpus["perplexity_per_token"]) == (2, 2, pytest.approx(2))
    assert corpus["perplexity_per_token_without_oov"] is None


@pytest.mark.parametrize(("text", "words", "tokens"), [(" \n\t", 0, 1), ("a", 1, 1), ("\u00a0", 1, 1), ("a ", 1, 2)])
def test_texts_of_one_word_or_none(tmp_path: Path, text: str, words: int, tokens: int) -> None:
    """A no-break space is part of a word, as everywhere here; where there is no word, nothing is per word."""
    result = howsure.perplexity(put(tmp_path / "t.jsonl", text), Reader(0.5), out=tmp_path / "run")
    corpus = result.summary["corpus"]
    assert (corpus["words"], corpus["tokens"], corpus["bytes"]) == (words, tokens, len(text.encode()))
    assert corpus["bits_per_word"] == (pytest.approx(tokens / words) if words else None)
    assert corpus["perplexity_per_word"] == (pytest.approx(2**tokens) if words else None)
    assert corpus["bits_per_token"] == pytest.approx(1)
    assert result.summary["intervals_bits"] is None


def test_lines_without_words_for_an_ngram_model(tmp_path: Path) -> None:
    corpus = howsure.perplexity(put(tmp_path / "t.jsonl", "\n \n"), write_arpa(tmp_path), out=tmp_path / "run").summary[
        "corpus"
    ]
    assert (corpus["tokens"], corpus["words"], corpus["bytes"]) == (2, 0, 3)
    assert corpus["nll_nats"] == pytest.approx(2 * 1.5 * math.log(10)), "an empty sentence is <s> </s>"
    assert corpus["bits_per_word"] is None


# -- blocks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "wanted"),
    [(1, 256), (256, 256), (16_384, 256), (16_385, 512), (32_768, 512), (204_176, 4096), (10**9, 1 << 24)],
)
def test_blocks_are_powers_of_two_and_at_most_64(size: int, wanted: int) -> None:
    assert block_size(size) == wanted
    assert size <= 64 * wanted
    assert wanted == 256 or size > 64 * wanted // 2, "the smallest that will do"


def naive_blocks(found: Sequence[Stretch], byte_count: int) -> dict[int, Counter[str]]:
    """The definition, token by token: each counts where it begins, and what begins at the very end in the last."""
    blocks: dict[int, Counter[str]] = {}
    at = 0
    for stretch in found:
        for i, logprob in enumerate(stretch.logprobs):
            block = blocks.setdefault(min(at, byte_count - 1) // block_size(byte_count), Counter())
            block["tokens"] += 1
            block["bytes"] += int(stretch.byte_counts[i])
            block["words"] += int(stretch.word_starts[i])
            block["nats"] += -float(logprob)
            at += int(stretch.byte_counts[i])
    assert at == byte_count
    return blocks


def assert_blocks_are(row: dict[str, Any], expected: dict[int, Counter[str]]) -> None:
    for name in ("nats", "tokens", "words", "bytes"):
        wanted = [expected.get(i, Counter())[name] for i in range(max(expected) + 1)]
        assert row["blocks"][name].tolist() == pytest.approx(wanted), name


def test_a_token_counts_where_it_begins_by_hand() -> None:
    """Blocks of 256 bytes: tokens that begin at 0, 255, 300 and, without any bytes, at the end of the text."""
    unknown, ends = np.array([False, True, False, True]), np.array([True, False, False, True])
    logprobs, sizes, words = np.array([-1.0, -2.0, -4.0, -8.0]), np.array([255, 45, 212, 0]), np.array([1, 0, 2, 0])
    stretch = Stretch(logprobs, sizes, words, unknown, ends)
    assert block_sums(stretch, 0, 512) == Blocks(
        first=0,
        nats=[3.0, 12.0],
        tokens=[2, 2],
        words=[1, 2],
        bytes=[300, 212],
        impossible=[0, 0],
        unknown=[1, 1],
        unknown_nats=[2.0, 8.0],
        unknown_impossible=[0, 0],
        ends=[1, 1],
        ends_nats=[1.0, 8.0],
        ends_impossible=[0, 0],
    )
    later = block_sums(stretch._replace(unknown=None, sentence_ends=None), 512, 1024)
    assert (later.first, later.tokens) == (2, [2, 2])
    assert (later.unknown, later.ends) == (None, None)
    assert not {"unknown", "ends"} & set(joined([later]))


def test_a_passage_without_tokens_adds_nothing() -> None:
    nothing = Stretch(np.empty(0), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    stretch = Stretch(np.array([-1.0]), np.array([600]), np.array([1]))
    parts = [block_sums(stretch, 0, 600), block_sums(nothing, 600, 600)]
    assert parts[1].nats == []
    assert joined(parts)["tokens"].tolist() == [1]


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.floats(-50, 0), st.integers(0, 700), st.integers(0, 2)), min_size=1, max_size=60),
    st.lists(st.integers(0, 60), max_size=6),
)
def test_the_parts_of_a_document_add_up_to_it_wherever_it_is_cut(tokens: list[Any], cuts: list[int]) -> None:
    byte_count = sum(size for _, size, _ in tokens)
    if not byte_count:
        return
    edges = sorted({0, len(tokens), *(min(cut, len(tokens)) for cut in cuts)})
    found, parts, at = [], [], 0
    for start, end in pairwise(edges):
        columns = [np.array(column) for column in zip(*tokens[start:end], strict=True)]
        found.append(Stretch(columns[0], columns[1], columns[2]))
        parts.append(block_sums(found[-1], at, byte_count))
        at += int(columns[1].sum())
    assert_blocks_are({"blocks": joined(parts)}, naive_blocks(found, byte_count))
    assert len(joined(parts)["nats"]) <= 64


@pytest.mark.parametrize("passage_tokens", [1, 7, 64, 1_000_000])
def test_the_figures_do_not_depend_on_the_passages(tmp_path: Path, passage_tokens: int) -> None:
    path = put(tmp_path / "t.jsonl", poem(1500), poem(3, seed=1))
    probs = {word: 1 / (2 + i) for i, word in enumerate(sorted({*poem(300).split(), ""}))}
    whole = howsure.perplexity(path, Reader(probs), out=tmp_path / "whole")
    parts = howsure.perplexity(path, Reader(probs, passage_tokens=passage_tokens), out=tmp_path / "parts")
    assert parts.summary["coverage"] == whole.summary["coverage"]
    for name, value in dict(whole.summary["corpus"]).items():
        assert parts.summary["corpus"][name] == pytest.approx(value), name
    for one, other in zip(parts.documents, whole.documents, strict=True):
        for name, sums in other["blocks"].items():
            assert one["blocks"][name].tolist() == pytest.approx(sums.tolist())
    count = sum(-(-len(WORDS.findall(text.encode())) // passage_tokens) for text in (poem(1500), poem(3, seed=1)))
    assert len(samples_on_disk(tmp_path / "parts")) == count


@pytest.mark.parametrize("passage_bytes", [40, 700])
def test_the_figures_of_an_ngram_model_do_not_depend_on_the_passages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, passage_bytes: int
) -> None:
    text = "a b a x\n" * 60 + "a b " * 300
    path, name = put(tmp_path / "t.jsonl", text), write_arpa(tmp_path)
    whole = howsure.perplexity(path, name, out=tmp_path / "whole")
    monkeypatch.setattr("howsure.models.ngram.model.PASSAGE_BYTES", passage_bytes)
    parts = howsure.perplexity(path, name, out=tmp_path / "parts")
    assert (
        len(samples_on_disk(tmp_path / "parts"))
        >= len(text) // passage_bytes
        > len(samples_on_disk(tmp_path / "whole"))
    )
    for name, value in dict(whole.summary["corpus"]).items():
        assert parts.summary["corpus"][name] == pytest.approx(value), name


# -- a network ----------------------------------------------------------------------------------------------------


@pytest.fixture
def small_passages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A document of a few hundred tokens becomes many passages, and few of them a batch."""
    monkeypatch.setattr("howsure.models.hf.documents.PASSAGE_TOKENS", 48)
    monkeypatch.setattr(study, "TOKENS_AT_ONCE", 150)


@pytest.fixture(scope="module")
def tiny(tiny_folder: Path) -> Any:
    return howsure.load(f"hf:{tiny_folder}")


def test_a_run_is_what_the_model_reads_token_by_token(tmp_path: Path, tiny: Any, small_passages: None) -> None:
    texts = [poem(300), "Ünïcödé wörds, 数字 and 🤖", poem(40, seed=2)]
    path = put(tmp_path / "t.jsonl", *texts)
    result = howsure.perplexity(path, tiny, out=tmp_path / "run", window=32, stride=16)
    total = Counter[str]()
    for text, row, shown in zip(texts, result.documents, result.summary["documents"], strict=True):
        passages = list(tiny.passages([text], tiny.rolling(Rolling(32, 16))))
        found = tiny.read(passages)
        expected = naive_blocks(found, len(text.encode()))
        for name in ("tokens", "words", "bytes"):
            assert row["blocks"][name].sum() == sum(block[name] for block in expected.values())
        assert row["blocks"]["nats"] == pytest.approx(
            [expected.get(i, Counter())["nats"] for i in range(max(expected) + 1)], rel=1e-4
        ), "in other batches than in the run, and so in other last digits"
        nats = -sum(float(stretch.logprobs.sum()) for stretch in found)
        assert shown["bits_per_byte"] == pytest.approx(nats / LN2 / len(text.encode()), rel=1e-5)
        assert shown["words"] == len(text.split())
        total.update(nats=nats, tokens=sum(len(one.logprobs) for one in found), bytes=len(text.encode()))
    corpus = result.summary["corpus"]
    assert (corpus["tokens"], corpus["bytes"]) == (total["tokens"], total["bytes"])
    assert corpus["perplexity_per_token"] == pytest.approx(math.exp(total["nats"] / total["tokens"]), rel=1e-5)


def test_the_window_is_in_the_manifest_as_it_was_decided(tmp_path: Path, tiny: Any) -> None:
    path = put(tmp_path / "t.jsonl", "the sky is blue")
    howsure.perplexity(path, tiny, out=tmp_path / "plain")
    howsure.perplexity(path, tiny, out=tmp_path / "small", window=16, stride=4)
    options = [howsure.Run(tmp_path / name).manifest.identity.options for name in ("plain", "small")]
    assert options == [
        {"window": 256, "stride": 128, "skip_bad": False},
        {"window": 16, "stride": 4, "skip_bad": False},
    ]


# -- intervals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "note"),
    [
        (1, "of this text only; an interval takes 5 documents"),
        (2, "of these 2 texts only; an interval takes 5 documents"),
        (4, "of these 4 texts only; an interval takes 5 documents"),
    ],
)
def test_fewer_than_five_documents_have_no_interval_and_say_so(tmp_path: Path, count: int, note: str) -> None:
    path = put(tmp_path / "t.jsonl", *(poem(900, seed=i) for i in range(count)))
    summary = howsure.perplexity(path, Reader(PROBS), out=tmp_path / "run").summary
    assert (summary["intervals_bits"], summary["intervals_missing"]) == (None, note)
    for figure in summary["headline"]:
        assert figure["value"] is not None
        assert (figure["low"], figure["high"], figure["method"], figure["note"]) == (None, None, None, note)


def test_the_interval_over_five_documents_by_hand(tmp_path: Path) -> None:
    """Bits per token of 1, 1.5, 2, 2.5 and 3 in documents of equal size: 2 ± 2.7764 · 0.790569 / √5, by Student's t."""
    path = put(tmp_path / "t.jsonl", "i i i i", "j j i i", "j j j j", "k k k k", "l l l l")
    model = Reader({"i": 2**-1.0, "j": 2**-2.0, "k": 2**-2.5, "l": 2**-3.0})
    summary = howsure.perplexity(path, model, out=tmp_path / "run").summary
    half = 2.7764451 * 0.7905694 / math.sqrt(5)
    for unit, share in (("token", 1), ("word", 1), ("byte", 4 / 7)):
        found = summary["intervals_bits"][unit]
        assert (found["low"], found["high"]) == pytest.approx(((2 - half) * share, (2 + half) * share), rel=1e-6)
        assert (found["level"], found["approximate"]) == (0.95, True)
        assert found["method"].startswith("Student's t over 5")
    assert summary["intervals_missing"] is None
    bits, word, token = summary["headline"]
    assert (bits["low"], bits["high"]) == pytest.approx(((2 - half) * 4 / 7, (2 + half) * 4 / 7), rel=1e-6)
    for figure in (word, token):
        assert figure["value"] == pytest.approx(4)
        assert (figure["low"], figure["high"]) == pytest.approx((2 ** (2 - half), 2 ** (2 + half)), rel=1e-6)
        assert (figure["approximate"], figure["note"]) == (True, None)


@pytest.mark.parametrize("count", [5, 9, 10, 25])
def test_the_interval_is_the_jackknifes_over_documents_of_any_size(tmp_path: Path, count: int) -> None:
    """Each document left out in turn, t at as many documents as they weigh, and the skewness taken off numerically."""
    texts = [poem(40 + 37 * (i % 4), seed=i) for i in range(count)]
    result = howsure.perplexity(put(tmp_path / "t.jsonl", *texts), Reader(PROBS), out=tmp_path / "run")
    bits = np.array([row["blocks"]["nats"].sum() for row in result.documents]) / LN2
    for unit in ("byte", "word"):
        size = np.array([row["blocks"][f"{unit}s"].sum() for row in result.documents])
        value = bits.sum() / size.sum()
        left_out = value - (bits.sum() - bits) / (size.sum() - size)
        deviation = math.sqrt((count - 1) / count * float((left_out**2).sum()))
        t = stats.t.ppf(0.975, size.sum() ** 2 / float((size**2).sum()) - 1)
        skew = float((left_out**3).mean() / (left_out**2).mean() ** 1.5) / math.sqrt(count)

        def studentised(wanted: float, skew: float = skew) -> float:
            def less(x: float) -> float:
                return x + skew / 3 * x**2 + skew**2 / 27 * x**3 + skew / 6 - wanted

            return float(optimize.brentq(less, -1e4, 1e4))

        most = 2.5 * stats.t.ppf(0.975, count - 1)
        below, above = max(t, min(studentised(t), most)), max(t, min(-studentised(-t), most))
        found = result.summary["intervals_bits"][unit]
        expected = (value - below * deviation, value + above * deviation)
        assert (found["low"], found["high"]) == pytest.approx(expected, rel=1e-6)
        assert found["low"] < result.summary["corpus"][f"bits_per_{unit}"] < found["high"]
        assert found["approximate"] or count > 9


def test_the_interval_per_word_is_of_the_words_and_that_of_known_tokens_without_the_others(tmp_path: Path) -> None:
    texts = ["a b\n" * (2 + i % 3) + "x a\n" * (i % 4) + "b" for i in range(12)]
    result = howsure.perplexity(put(tmp_path / "t.jsonl", *texts), write_arpa(tmp_path), out=tmp_path / "run")
    blocks = [{name: values.sum() for name, values in row["blocks"].items()} for row in result.documents]
    for unit, nats, size in (
        ("token", [one["nats"] for one in blocks], [one["tokens"] for one in blocks]),
        ("word", [one["nats"] - one["ends_nats"] for one in blocks], [one["words"] for one in blocks]),
        ("byte", [one["nats"] for one in blocks], [one["bytes"] for one in blocks]),
        (
            "known_token",
            [one["nats"] - one["unknown_nats"] for one in blocks],
            [one["tokens"] - one["unknown"] for one in blocks],
        ),
    ):
        expected = ratio_interval(np.array(nats) / LN2, size)
        found = result.summary["intervals_bits"][unit]
        assert expected is not None
        assert (found["low"], found["high"]) == pytest.approx((expected.low, expected.high)), unit
    without = result.summary["headline"][-1]
    known = result.summary["intervals_bits"]["known_token"]
    assert (without["low"], without["high"]) == pytest.approx((2 ** known["low"], 2 ** known["high"]))


def test_one_document_has_no_interval_however_long_it_is(tmp_path: Path) -> None:
    path = put(tmp_path / "t.jsonl", *(poem(1500, seed=i) for i in range(6)))
    result = howsure.perplexity(path, Reader(PROBS), out=tmp_path / "run")
    assert result.summary["intervals_bits"] is not None
    assert all("intervals_bits" not in row for row in result.summary["documents"])
    assert all(len(row["blocks"]["nats"]) > 8 for row in result.documents), "blocks of one text are no sample of texts"


def test_an_interval_ends_where_nothing_surprises(tmp_path: Path) -> None:
    path = put(tmp_path / "t.jsonl", "a a", "a a", "a a", "a a", "b b")
    summary = howsure.perplexity(path, Reader({"a": 1.0, "b": 2.0**-20}), out=tmp_path / "run").summary
    assert summary["intervals_bits"]["token"]["low"] == 0.0
    assert summary["headline"][2]["low"] == 1.0


def test_documents_that_are_all_alike_have_no_interval_and_say_so(tmp_path: Path) -> None:
    path = put(tmp_path / "t.jsonl", *(poem(20 + i, seed=i) for i in range(6)))
    figure = howsure.perplexity(path, Reader(0.5), out=tmp_path / "run").summary["headline"][2]
    assert (figure["name"], figure["low"]) == ("perplexity per token", None)
    assert figure["note"] == "no interval: the documents are all alike"


def test_an_end_beyond_floating_point_leaves_the_perplexity_without_an_interval(tmp_path: Path) -> None:
    path = put(tmp_path / "t.jsonl", *("x" * size for size in (700, 800, 900, 1000, 1000, 1000)))
    summary = howsure.perplexity(path, Reader(0.5, pattern=BYTES), out=tmp_path / "run").summary
    assert summary["intervals_bits"]["word"]["high"] > 1024
    word = summary["headline"][1]
    assert word["value"] == pytest.approx(2.0**900)
    assert (word["low"], word["high"], word["note"]) == (None, None, "no interval: its end is beyond floating point")


def test_nothing_depends_on_the_seed(tmp_path: Path) -> None:
    path = put(tmp_path / "t.jsonl", *(poem(100, seed=i) for i in range(6)))
    found = [howsure.perplexity(path, Reader(PROBS), out=tmp_path / str(seed), seed=seed).summary for seed in (1, 2)]
    assert found[0] == found[1]
    with pytest.raises(InputError, match="--seed must be 0 or more, not -1"):
        howsure.perplexity(path, Reader(PROBS), out=tmp_path / "never", seed=-1)
    assert not (tmp_path / "never").exists()


# -- what is written ----------------------------------------------------------------------------------------------


def test_the_table_has_a_line_for_each_document(tmp_path: Path) -> None:
    path = put(tmp_path / "t.jsonl", "a b", "a fail", "never", " ")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[0]["id"] = 'with "quotes", and\na line'
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = Reader({"a": 1 / 2, "b": 1 / 8, "never": 0.0, "": 1 / 2}, fail="fail")
    howsure.perplexity(path, model, out=tmp_path / "run")
    table = list(csv.DictReader((tmp_path / "run" / "documents.csv").open(newline="")))
    assert [row["document"] for row in table] == ['with "quotes", and\na line', "t1", "t2", "t3"]
    assert [row["reason"] for row in table] == ["", "too_hard", "", ""]
    first, failed, never, blank = table
    counts = ("tokens", "words", "bytes", "impossible", "oov")
    assert [first[name] for name in counts] == ["2", "2", "3", "0", ""]
    assert float(first["bits_per_token"]) == pytest.approx(2)
    assert float(first["perplexity_per_word"]) == pytest.approx(4)
    assert float(first["bits_per_byte"]) == pytest.approx(4 / 3)
    assert float(first["nll_nats"]) == pytest.approx(4 * LN2)
    assert {value for name, value in failed.items() if name not in ("document", "reason")} == {""}
    assert (never["impossible"], never["bits_per_byte"], never["nll_nats"]) == ("1", "", "")
    assert (blank["words"], blank["bits_per_word"], float(blank["bits_per_byte"])) == ("0", "", pytest.approx(1))


def test_the_summary_is_a_pure_function_of_the_samples(tmp_path: Path) -> None:
    path = put(tmp_path / "t.jsonl", poem(400), "silence", poem(200, seed=1), "fail here")
    model = Reader(PROBS, passage_tokens=50, fail="fail")
    result = howsure.perplexity(path, model, out=tmp_path / "run", seed=3)
    samples = howsure.Run(tmp_path / "run").records(record=PerplexityRecord)
    assert len(samples) > 10
    for order in (samples, samples[::-1], sorted(samples, key=lambda sample: hash(sample.id))):
        assert judge(document_rows(order), skipped={}) == result.summary
    assert strict((tmp_path / "run" / "summary.json").read_bytes()) == msgspec.to_builtins(result.summary)
    assert howsure.Run(tmp_path / "run").summary == msgspec.to_builtins(result.summary)


def test_a_summary_lists_a_thousand_documents_and_says_how_many_it_left_out(tmp_path: Path) -> None:
    path = put(tmp_path / "t.jsonl", *["a"] * 1003)
    result = howsure.perplexity(path, Reader(0.5), out=tmp_path / "run")
    assert (len(result.summary["documents"]), result.summary["documents_left_out"]) == (1000, 3)
    assert result.summary["corpus"]["tokens"] == 1003
    assert len((tmp_path / "run" / "documents.csv").read_text().splitlines()) == 1004


def test_what_was_skipped_is_in_the_coverage(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"text": "a"}\n{\n{"text": ""}\n')
    summary = howsure.perplexity(
        [path, tmp_path / "gone.txt"], Reader(0.5), out=tmp_path / "run", skip_bad=True
    ).summary
    assert summary["coverage"]["text"] == "scored 1 of 4; 3 missing: 1 bad line, 1 empty, 1 unreadable"
    assert howsure.Run(tmp_path / "run").manifest.identity.options["skip_bad"] is True


# -- what fails ---------------------------------------------------------------------------------------------------


def test_a_document_that_fails_leaves_the_others_untouched(tmp_path: Path) -> None:
    texts = [poem(60), f"{poem(60, seed=1)} fail {poem(60, seed=2)}", poem(60, seed=3)]
    path, rest = put(tmp_path / "t.jsonl", *texts), put(tmp_path / "rest.jsonl", texts[0], texts[2])
    probs = PROBS | {"fail": 0.5}
    result = howsure.perplexity(path, Reader(probs, passage_tokens=25, fail="fail"), out=tmp_path / "run")
    assert result.failed
    assert result.summary["coverage"]["text"] == "scored 2 of 3; 1 missing: 1 too hard"
    reasons = [(row["document"], row["reason"]) for row in result.summary["documents"]]
    assert reasons == [("t0", None), ("t1", "too_hard"), ("t2", None)]
    assert result.summary["documents"][1]["detail"] == "said so on paper of fail"
    alone = howsure.perplexity(rest, Reader(probs, passage_tokens=25), out=tmp_path / "rest")
    assert not alone.failed
    assert result.summary["corpus"] == alone.summary["corpus"]
    parts = [sample for sample in samples_on_disk(tmp_path / "run").values() if sample["result"]["document"] == "t1"]
    assert [part.get("reason") for part in parts] == [
        None,
        None,
        "too_hard",
        "earlier_part_failed",
        "earlier_part_failed",
    ]


def test_what_failed_is_read_again_on_request_and_then_all_is_as_if_it_never_had(tmp_path: Path) -> None:
    path = put(tmp_path / "t.jsonl", poem(60), f"{poem(60, seed=1)} fail {poem(60, seed=2)}", poem(60, seed=3))
    probs = PROBS | {"fail": 0.5}
    model = Reader(probs, passage_tokens=25, fail="fail")
    howsure.perplexity(path, model, out=tmp_path / "run")
    model.fail = None
    again = howsure.perplexity(path, model, out=tmp_path / "run")
    assert again.failed, "without being asked, nothing is done again"
    assert len(model.calls) == 1
    mended = howsure.perplexity(path, model, out=tmp_path / "run", retry_failed=True)
    assert not mended.failed
    howsure.perplexity(path, Reader(probs, passage_tokens=25), out=tmp_path / "whole")
    for name in ("summary.json", "documents.csv"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert samples_on_disk(tmp_path / "run") == samples_on_disk(tmp_path / "whole")


def test_nothing_that_could_be_read_gives_no_figures(tmp_path: Path) -> None:
    result = howsure.perplexity(put(tmp_path / "t.jsonl", "fail"), Reader(0.5, fail="fail"), out=tmp_path / "run")
    assert result.failed
    assert (result.summary["corpus"], result.summary["intervals_bits"]) == (None, None)
    assert [figure["value"] for figure in result.summary["headline"]] == [None]
    assert result.summary["coverage"]["text"] == "scored 0 of 1; 1 missing: 1 too hard"


def test_a_text_that_the_model_cannot_take_fails_alone(tmp_path: Path) -> None:
    class Squeamish(Reader):
        def passages(self, chunks, rolling):
            for passage in super().passages(chunks, rolling):
                yield passage
                if passage.content.tokens[0].spelled == b"nasty":
                    raise UnusableText("the text holds something nasty")

    path = put(tmp_path / "t.jsonl", "a", "nasty", "b")
    result = howsure.perplexity(path, Squeamish(0.5), out=tmp_path / "run")
    assert [row["reason"] for row in result.documents] == [None, "unusable_text", None]
    assert result.documents[1]["detail"] == "the text holds something nasty"
    assert result.summary["corpus"]["bytes"] == 2


def test_a_text_without_tokens_has_that_as_its_reason(tmp_path: Path) -> None:
    path = put(tmp_path / "t.jsonl", "a", "silence", "b")
    model = Reader(0.5)
    result = howsure.perplexity(path, model, out=tmp_path / "run")
    assert [row["reason"] for row in result.documents] == [None, "no_tokens", None]
    assert model.calls == [["a", "b"]]
    alone = howsure.perplexity(put(tmp_path / "s.jsonl", "silence"), Reader(0.5), out=tmp_path / "alone")
    assert alone.summary["coverage"]["text"] == "scored 0 of 1; 1 missing: 1 no tokens"


@pytest.mark.parametrize(("value", "words"), [(math.nan, "NaN at token 1"), (0.5, "0.5 at token 1")])
def test_what_is_no_log_probability_is_never_taken_for_one(tmp_path: Path, value: float, words: str) -> None:
    class Broken(Reader):
        def logprob(self, name: str) -> float:
            return value if name == "bad" else -1.0

    result = howsure.perplexity(put(tmp_path / "t.jsonl", "a bad", "a"), Broken(0.5), out=tmp_path / "run")
    assert [row["reason"] for row in result.documents] == ["bad_logprobs", None]
    assert words in result.documents[0]["detail"]


def test_a_model_that_cannot_score_is_refused_before_any_work(tmp_path: Path) -> None:
    class Talker(Reader):
        capabilities = frozenset({Capability.GENERATE})

    with pytest.raises(MissingCapability, match="perplexity needs a model that can score"):
        howsure.perplexity(put(tmp_path / "t.jsonl", "a"), Talker(0.5), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_options_of_a_model_that_is_open_already_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'device' is for a model that is opened by its name"):
        howsure.perplexity(put(tmp_path / "t.jsonl", "a"), Reader(0.5), out=tmp_path / "run", device="cpu")


# -- stopped and taken up -----------------------------------------------------------------------------------------


def after(count: int, model: Reader) -> Callable[[], None]:
    """Ctrl-C when the model has been called so many times more."""
    until = len(model.calls) + count

    def check() -> None:
        if len(model.calls) >= until:
            raise KeyboardInterrupt

    return check


@pytest.mark.parametrize("documents", [1, 6])
def test_stopped_at_any_batch_it_goes_on_and_reads_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, documents: int
) -> None:
    """One long document of many passages, and several short ones that share batches."""
    monkeypatch.setattr(study, "TOKENS_AT_ONCE", 60)
    path = put(tmp_path / "t.jsonl", *(poem(600 // documents, seed=i) for i in range(documents)))
    undisturbed = Reader(PROBS, passage_tokens=25)
    howsure.perplexity(path, undisturbed, out=tmp_path / "whole")
    count = len(undisturbed.calls)
    assert count >= 8
    expected = samples_on_disk(tmp_path / "whole")
    for stop in range(0, count, 2):
        out, model = tmp_path / f"stopped-{stop}", Reader(PROBS, passage_tokens=25)
        model.before_call = after(stop, model)
        with pytest.raises(KeyboardInterrupt):
            howsure.perplexity(path, model, out=out)
        assert howsure.Run(out).status == "interrupted"
        assert not (out / "summary.json").exists()
        model.before_call = lambda: None
        howsure.perplexity(path, model, out=out)
        assert model.calls == undisturbed.calls, "the same batches in the same order, none of them twice"
        for name in ("summary.json", "documents.csv", "samples.jsonl"):
            assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
        assert samples_on_disk(out) == expected
        assert howsure.Run(out).manifest.sessions == 2


def test_stopped_by_its_progress_it_has_kept_what_was_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Nervous:
        told = 0

        def start(self, *_: Any) -> None: ...

        def advance(self, samples: Sequence[Any]) -> None:
            self.told += len(samples)
            if self.told > 5:
                raise KeyboardInterrupt

        def stop(self) -> None: ...

    monkeypatch.setattr(study, "TOKENS_AT_ONCE", 60)
    progress = Nervous()
    with pytest.raises(KeyboardInterrupt):
        howsure.perplexity(
            put(tmp_path / "t.jsonl", poem(600)),
            Reader(PROBS, passage_tokens=25),
            out=tmp_path / "run",
            progress=progress,
        )
    assert len(samples_on_disk(tmp_path / "run")) == progress.told > 5


def test_torn_anywhere_a_network_ends_byte_for_byte_alike(tmp_path: Path, tiny: Any, small_passages: None) -> None:
    """Cut within lines and between them, so that a batch may be there in part."""
    path = put(tmp_path / "t.jsonl", poem(300), *(poem(8, seed=i) for i in range(8)))
    options = {"window": 32, "stride": 16}
    howsure.perplexity(path, tiny, out=tmp_path / "whole", **options)
    lines = (tmp_path / "whole" / "samples.jsonl").read_bytes()
    records = samples_on_disk(tmp_path / "whole")
    assert len(records) > 14
    for cut in range(0, len(lines), len(lines) // 9):
        folder = tmp_path / f"cut-{cut}"
        folder.mkdir()
        manifest = json.loads((tmp_path / "whole" / "run.json").read_text())
        (folder / "run.json").write_text(json.dumps(manifest | {"status": "running"}))
        (folder / "samples.jsonl").write_bytes(lines[:cut])
        howsure.perplexity(path, tiny, out=folder, **options)
        for name in ("summary.json", "documents.csv"):
            assert (folder / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
        assert samples_on_disk(folder) == records


def test_a_finished_run_needs_no_model(tmp_path: Path) -> None:
    path = put(tmp_path / "t.jsonl", poem(100), "silence")
    first, second = (Reader(PROBS, passage_tokens=25) for _ in range(2))
    expected = howsure.perplexity(path, first, out=tmp_path / "run").summary
    assert howsure.perplexity(path, second, out=tmp_path / "run").summary == expected
    assert (first.loaded, second.loaded, second.calls) == (1, 0, [])
    (tmp_path / "run" / "summary.json").unlink()
    howsure.perplexity(path, second, out=tmp_path / "run")
    assert strict((tmp_path / "run" / "summary.json").read_bytes()) == msgspec.to_builtins(expected)


def test_a_passage_whose_line_was_deleted_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the sentence about a damaged line advises; the passages behind it are still there, the last one too."""
    monkeypatch.setattr(study, "TOKENS_AT_ONCE", 60)
    path, model = put(tmp_path / "t.jsonl", poem(600)), Reader(PROBS, passage_tokens=25)
    howsure.perplexity(path, model, out=tmp_path / "run")
    expected, calls = (tmp_path / "run" / "summary.json").read_bytes(), len(model.calls)
    records = samples_on_disk(tmp_path / "run")
    lines = (tmp_path / "run" / "samples.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "run" / "samples.jsonl").write_text("".join(lines[:4] + lines[5:]))
    howsure.perplexity(path, model, out=tmp_path / "run")
    assert samples_on_disk(tmp_path / "run") == records
    assert (tmp_path / "run" / "summary.json").read_bytes() == expected
    assert len(model.calls) == calls + 1, "its batch, and no other"


def test_a_run_goes_on_though_its_file_was_moved_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "TOKENS_AT_ONCE", 60)
    path = tmp_path / "before.txt"
    path.write_text(poem(600))
    model = Reader(PROBS, passage_tokens=25)
    model.before_call = after(3, model)
    with pytest.raises(KeyboardInterrupt):
        howsure.perplexity(path, model, out=tmp_path / "run")
    model.before_call = lambda: None
    moved = path.rename(tmp_path / "after.txt")
    result = howsure.perplexity(moved, model, out=tmp_path / "run")
    whole = howsure.perplexity(moved, Reader(PROBS, passage_tokens=25), out=tmp_path / "whole")
    assert result.summary["corpus"] == whole.summary["corpus"]
    assert len(samples_on_disk(tmp_path / "run")) == len(samples_on_disk(tmp_path / "whole"))
    assert sum(map(len, model.calls)) == len(samples_on_disk(tmp_path / "run")), "and nothing was read twice"
    assert [row["document"] for row in result.summary["documents"]] == [str(path)], "under the name it began with"


def test_a_run_of_the_first_edition_is_resumed(tmp_path: Path) -> None:
    """Its samples had no fields for what they lacked."""
    path = put(tmp_path / "t.jsonl", "a b a", "fail", "b", "a a")
    model = Reader({"a": 0.5, "b": 0.25}, passage_tokens=2, fail="fail")
    howsure.perplexity(path, model, out=tmp_path / "run")
    expected = {name: (tmp_path / "run" / name).read_bytes() for name in ("summary.json", "documents.csv")}
    kept = [strict(line) for line in (tmp_path / "run" / "samples.jsonl").read_text().splitlines()][:-1]
    for sample in kept:
        sample["result"] = {name: value for name, value in sample["result"].items() if value is not None}
        if blocks := sample["result"].get("blocks"):
            sample["result"]["blocks"] = {name: value for name, value in blocks.items() if value is not None}
    (tmp_path / "run" / "samples.jsonl").write_text("".join(json.dumps(sample) + "\n" for sample in kept))
    howsure.perplexity(path, model, out=tmp_path / "run")
    assert {name: (tmp_path / "run" / name).read_bytes() for name in expected} == expected
    assert len(model.calls) == 2, "the last batch alone was read again"


def test_nothing_named_at_a_keyboard_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    with pytest.raises(InputError, match="there is no text: name files or folders, or pipe one in"):
        howsure.perplexity(model=Reader(0.5), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_other_options_texts_models_or_seeds_are_another_run(tmp_path: Path) -> None:
    path, model = put(tmp_path / "t.jsonl", "a b", "c"), Reader(0.5)
    howsure.perplexity(path, model, out=tmp_path / "run")
    changes: list[tuple[Path, Reader, dict[str, Any], str]] = [
        (path, model, {"window": 16}, "options.window was 8, now 16"),
        (path, model, {"stride": 2}, "options.stride was 4, now 2"),
        (path, model, {"skip_bad": True}, "options.skip_bad was False, now True"),
        (path, model, {"seed": 1}, "seed was 0, now 1"),
        (path, Reader(0.25), {}, "model.probs was '0.5', now '0.25'"),
        (path, Reader(0.5, name="other"), {}, "model.name was 'on-paper', now 'other'"),
        (put(tmp_path / "u.jsonl", "a b", "d"), model, {}, "data.fingerprint was"),
        (put(tmp_path / "v.jsonl", "a b"), model, {}, "data.documents was 2, now 1"),
    ]
    for data, other, options, words in changes:
        with pytest.raises(RunMismatch, match=words):
            howsure.perplexity(data, other, out=tmp_path / "run", **options)
    assert len(model.calls) == 1


# -- the plan -----------------------------------------------------------------------------------------------------


def cost(path: Path, model: Any, **options: Any) -> dict[str, int]:
    with prepared(PERPLEXITY, PerplexityOptions(path, model, **options)) as ready:
        return ready.cost()


def test_a_plan_counts_what_a_run_then_takes(tmp_path: Path, tiny_folder: Path) -> None:
    path = put(tmp_path / "t.jsonl", poem(300), poem(20, seed=1))
    model = howsure.load(f"hf:{tiny_folder}")
    plan = cost(path, model, window=32, stride=8)
    result = howsure.perplexity(path, model, out=tmp_path / "run", window=32, stride=8)
    assert plan["items"] == 2
    assert plan["tokens"] == model.counters.tokens_run
    assert plan["tokens_scored"] == result.summary["corpus"]["tokens"] < plan["tokens"]


def test_neither_a_plan_nor_a_run_holds_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "TOKENS_AT_ONCE", 40)
    path, model = put(tmp_path / "t.jsonl", poem(4000)), Reader(PROBS, passage_tokens=20)
    assert cost(path, model)["model_calls"] > 200
    howsure.perplexity(path, model, out=tmp_path / "run")
    assert model.most_alive <= 6


def test_batches_are_neighbours_up_to_a_number_of_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "TOKENS_AT_ONCE", 10)
    path = put(tmp_path / "t.jsonl", "a a a a", "silence", "a a a", "a a a", "a " * 12, "a")
    found = list(batches(units(Texts([path]), Reader(0.5, passage_tokens=5), Rolling())))
    assert [[(unit.document.id, unit.part, unit.last) for unit in batch.items] for batch in found] == [
        [("t0", 0, True), ("t1", 0, True), ("t2", 0, True), ("t3", 0, True)],
        [("t4", 0, False), ("t4", 1, False)],
        [("t4", 2, True), ("t5", 0, True)],
    ]


def test_a_model_given_by_name_is_given_back_and_one_given_as_an_object_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Reader(0.5)
    monkeypatch.setattr("howsure.studies.study.load", lambda name, **options: model)
    path = put(tmp_path / "t.jsonl", "a")
    howsure.perplexity(path, model, out=tmp_path / "object")
    assert not model.closed
    howsure.perplexity(path, "by-name", out=tmp_path / "name")
    assert model.closed


def test_one_path_and_several_are_both_taken(tmp_path: Path) -> None:
    first, second = put(tmp_path / "a.jsonl", "a"), tmp_path / "b.txt"
    second.write_text("b b")
    result: Result = howsure.perplexity((str(first), second), Reader(0.5), out=tmp_path / "both")
    assert [row["document"] for row in result.documents] == ["t0", str(second)]
    assert howsure.perplexity(second, Reader(0.5), out=tmp_path / "one").summary["corpus"]["tokens"] == 2
    assert howsure.Run(tmp_path / "both").manifest.source == f"{first}, {second}"
    assert howsure.Run(tmp_path / "both").manifest.items == 2
