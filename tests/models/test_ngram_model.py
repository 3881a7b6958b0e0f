"""`ngram:` as a model: the boundary of prefix and continuation, whole documents, and KenLM's figures on real text."""

from __future__ import annotations

import gzip
import json
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import howsure
from howsure.errors import InputError
from howsure.models.contract import Failure, Message, Rolling, ScoreItem, Stretch
from howsure.models.ngram import model as module
from howsure.models.ngram.arpa import write_arpa
from howsure.models.ngram.model import NgramModel
from howsure.models.ngram.table import BEGIN_ID, END_ID, UNKNOWN_ID, begins_of
from howsure.models.ngram.training import Piece, Smoothing, Trained, train

KJV = Path(__file__).parents[3] / "shared" / "data" / "ngram"
LN10 = np.log(10.0)

TEXT = """the cat sat on the mat
the dog sat on the cat

a dog ran and a-word-of-more-than-sixteen-bytes ran
"""


@pytest.fixture(scope="module")
def cats(tmp_path_factory: pytest.TempPathFactory) -> NgramModel:
    path = tmp_path_factory.mktemp("ngram") / "cats.arpa"
    write_arpa(train([Piece(TEXT.encode())], 3, Smoothing.WITTEN_BELL).table, path)
    return howsure.load(f"ngram:{path}")


def read(model: NgramModel, *chunks: str) -> Stretch:
    stretches = model.read(list(model.passages(chunks, model.rolling(Rolling()))))
    assert not any(isinstance(one, Failure) for one in stretches)
    return Stretch(*(np.concatenate(column) for column in zip(*stretches, strict=True)))


def probability(model: NgramModel, word: str, *before: str) -> float:
    words = model.table.vocabulary.words
    context = [words.index(one.encode()) for one in before]
    return float(model.table.distribution(context)[words.index(word.encode())])


# -- score ----------------------------------------------------------------------------------------------------------


def test_a_continuation_is_scored_word_by_word_after_what_stands_on_its_line(cats: NgramModel) -> None:
    (found,) = cats.score([("the cat sat\nthe dog", [" sat on"])])[0]
    assert found.tokens == (" sat", " on")
    assert np.exp(found.logprobs) == pytest.approx(
        [probability(cats, "sat", "the", "dog"), probability(cats, "on", "dog", "sat")]
    )
    assert found.prefix_chars == 0


def test_a_line_end_in_a_continuation_is_the_end_of_a_sentence(cats: NgramModel) -> None:
    (found,) = cats.score([("the", [" dog\nthe cat "])])[0]
    assert found.tokens == (" dog", "\n", "the", " cat ")
    assert np.exp(found.logprobs) == pytest.approx(
        [
            probability(cats, "dog", "<s>", "the"),
            probability(cats, "</s>", "the", "dog"),
            probability(cats, "the", "<s>"),
            probability(cats, "cat", "<s>", "the"),
        ]
    )


def test_a_word_across_the_boundary_is_scored_whole_for_all_continuations(cats: NgramModel) -> None:
    for found, text in zip(cats.score([("the do", ["g", " cat"])])[0], ("g", " cat"), strict=True):
        assert found.text == f" do{text}"
        assert found.prefix_chars == 3
    spaced = cats.score([("the ", ["dog"])])[0][0]
    assert (spaced.tokens, spaced.prefix_chars) == ((" dog",), 1)


def test_unknown_words_and_words_spelled_like_marks_are_unknown(cats: NgramModel) -> None:
    for word in ("bird", "<s>", "</s>", "<unk>", "a-word-of-more-than-sixteen-letters"):
        (found,) = cats.score([("", [word])])[0]
        assert np.exp(found.logprobs) == pytest.approx([probability(cats, "<unk>", "<s>")])


def test_entropies_and_alternatives_are_those_of_the_whole_vocabulary(cats: NgramModel) -> None:
    (found,) = cats.score([("the", [" dog sat"])], top_logprobs=3, entropies=True)[0]
    words = cats.table.vocabulary.words
    for i, context in enumerate((["<s>", "the"], ["the", "dog"])):
        whole = cats.table.distribution([words.index(word.encode()) for word in context])
        positive = whole[whole > 0]
        assert found.entropies_nats[i] == pytest.approx(-(positive * np.log(positive)).sum())
        row = found.top.row(i)
        assert [np.exp(value) for _, value in row] == pytest.approx(sorted(whole, reverse=True)[:3])
    assert found.top.row(0)[0][0] in {" dog", " cat"}


def test_numbers_that_make_more_than_a_probability_fail_by_name(tmp_path: Path) -> None:
    path = tmp_path / "wild.arpa"
    unigrams = "-1\t<unk>\n0\t<s>\t3.5\n-1\t</s>\n-1\ta\t0.2\n"
    path.write_text(f"\\data\\\nngram 1=4\nngram 2=1\n\n\\1-grams:\n{unigrams}\n\\2-grams:\n-0.1\ta a\n\n\\end\\\n")
    (found,) = howsure.load(f"ngram:{path}").try_score([ScoreItem("", ("a",))])
    assert isinstance(found, Failure)
    assert found.reason == "bad_logprobs"


def test_a_conversation_or_an_image_is_refused_and_nothing_else_is(cats: NgramModel) -> None:
    items = [ScoreItem("the", (" dog",)), ScoreItem((Message("user", "hi"),), (" dog",)), ScoreItem("the", ("\ud800",))]
    found = cats.try_score(items)
    assert [one.reason if isinstance(one, Failure) else None for one in found] == [
        None, "no_chat_template", "unreadable_text",
    ]  # fmt: skip
    plan = cats.plan_scores(items)
    assert {i: failure.reason for i, failure in plan.refused.items()} == {1: "no_chat_template", 2: "unreadable_text"}
    assert [batch.indices for batch in plan.batches] == [(0,)]


def test_it_answers_questions_of_the_other_studies(cats: NgramModel, tmp_path: Path) -> None:
    data = tmp_path / "questions.jsonl"
    data.write_text(json.dumps({"question": "the dog", "choices": ["sat", "mat"], "answer_index": 0}) + "\n")
    found = howsure.mcq(data, cats, out=tmp_path / "run", prompt="{question}")
    assert found.summary["accuracy"] == 1.0


# -- whole documents ------------------------------------------------------------------------------------------------


def test_a_document_by_hand(cats: NgramModel) -> None:
    """Two lines, the second without its end, the first with spaces around: seven tokens."""
    found = read(cats, "  the  dog \nbird")
    assert np.exp(found.logprobs) == pytest.approx(
        [
            probability(cats, "the", "<s>"),
            probability(cats, "dog", "<s>", "the"),
            probability(cats, "</s>", "the", "dog"),
            probability(cats, "<unk>", "<s>"),
            probability(cats, "</s>", "<s>", "<unk>"),
        ]
    )
    assert found.byte_counts.tolist() == [5, 5, 2, 4, 0]
    assert found.word_starts.tolist() == [1, 1, 0, 1, 0]
    assert found.unknown.tolist() == [False, False, False, True, False]
    assert found.sentence_ends.tolist() == [False, False, True, False, True]


pieces = st.sampled_from(
    ["the", " ", "dog", "\n", "cat", "\t", "ж", "\r\n", "\0", "sat", " on", "\x0b", "\u00a0", "  "]
)
documents = st.lists(pieces, min_size=1, max_size=60).map("".join)


@settings(max_examples=200)
@given(text=documents, size=st.integers(1, 40), cuts=st.lists(st.integers(0, 60), max_size=4))
def test_neither_chunks_nor_passages_change_what_is_read(
    cats: NgramModel, text: str, size: int, cuts: list[int]
) -> None:
    whole = read(cats, text)
    edges = [0, *sorted(cuts), len(text)]
    with patch.object(module, "PASSAGE_BYTES", size):
        parts = read(cats, *(text[a:b] for a, b in pairwise(edges)))
    assert parts.logprobs == pytest.approx(whole.logprobs, abs=1e-12)
    assert parts.byte_counts.sum() == whole.byte_counts.sum() == len(text.encode())
    assert parts.word_starts.tolist() == whole.word_starts.tolist()
    assert parts.unknown.tolist() == whole.unknown.tolist()


@given(text=documents)
def test_a_document_is_its_lines(cats: NgramModel, text: str) -> None:
    lines = text.encode().replace(b"\0", b" ").split(b"\n")
    lines = lines[:-1] if not lines[-1] else lines
    wanted = []
    for line in lines:
        marked = [
            "<s>",
            *(word.decode() if word in cats.table.vocabulary.words else "<unk>" for word in line.split()),
            "</s>",
        ]
        wanted += [probability(cats, marked[i], *marked[max(0, i - 2) : i]) for i in range(1, len(marked))]
    assert np.exp(read(cats, text).logprobs) == pytest.approx(wanted, rel=1e-9)


def test_an_empty_document_has_no_passages(cats: NgramModel) -> None:
    assert list(cats.passages([], Rolling())) == list(cats.passages([""], Rolling())) == []


def test_a_long_document_is_taken_piece_by_piece(cats: NgramModel) -> None:
    taken = 0

    def document():
        nonlocal taken
        for _ in range(64):
            taken += 1
            yield "the dog sat on the mat\n" * 5000

    passages = cats.passages(document(), Rolling())
    first = next(passages)
    assert taken < 12
    assert len(first.content[1]) <= module.PASSAGE_BYTES
    assert first.tokens + sum(passage.tokens for passage in passages) == 64 * 5000 * 7


def test_windows_are_not_for_ngrams(cats: NgramModel) -> None:
    with pytest.raises(InputError, match="--window and --stride are for neural models"):
        cats.rolling(Rolling(window=10))


def test_perplexity_of_a_uniform_model_is_the_number_of_words(tmp_path: Path) -> None:
    words = [f"w{i}" for i in range(97)]
    share = -np.log10(len(words) + 2)
    lines = [f"{share:.12g}\t{word}" for word in ("<unk>", "</s>", *words)]
    path = tmp_path / "uniform.arpa"
    path.write_text("\\data\\\nngram 1=100\n\n\\1-grams:\n-99\t<s>\n" + "\n".join(lines) + "\n\n\\end\\\n")
    found = read(howsure.load(f"ngram:{path}"), "w1 w2 nobody\nw96\n\nw3")
    assert howsure.measures.perplexity(found.logprobs) == pytest.approx(99.0, rel=1e-9)


def test_sentences_are_scored_one_by_one_as_kenlm_does(cats: NgramModel) -> None:
    sentences = ["the cat sat", "", "a bird", "the <s> dog", "  the   cat sat "]
    found = cats.sentence_scores(sentences)
    assert [(one.tokens, one.oov) for one in found] == [(4, 0), (1, 0), (3, 1), (4, 1), (4, 0)]
    assert found[0].log10 == found[4].log10
    assert cats.sentence_scores([]) == []
    with pytest.raises(InputError, match="sentence 0 holds a line end"):
        cats.sentence_scores(["a\nb"])
    kenlm = pytest.importorskip("kenlm", reason="kenlm could not be built here (it needs a C++ compiler)")
    theirs = kenlm.Model(str(cats.path))
    for sentence, one in zip(sentences, found, strict=True):
        if "<s>" not in sentence:  # which KenLM takes for the mark
            assert one.log10 == pytest.approx(theirs.score(sentence), abs=1e-4)


# -- KenLM on the King James Bible ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reference() -> dict:
    if not KJV.is_dir():
        pytest.skip(f"{KJV} is not there")
    return json.loads((KJV / "kenlm_reference.json").read_text())


@pytest.fixture(scope="module", params=[2, 3])
def kjv(request: pytest.FixtureRequest, reference: dict) -> tuple[int, Trained]:
    text = gzip.decompress((KJV / "kjv.train.txt.gz").read_bytes())
    return request.param, train([Piece(text)], request.param, Smoothing.MODIFIED_KNESER_NEY)


def test_kenlms_perplexities_discounts_counts_and_sentences(kjv: tuple[int, Trained], reference: dict) -> None:
    order, trained = kjv
    table = trained.table
    laid, _ = table.lay((KJV / "kjv.test.txt").read_bytes())
    log10 = table.log10_probs(laid.ids, begins_of(laid))
    counted = laid.ids != BEGIN_ID
    unknown = laid.ids == UNKNOWN_ID
    wanted = reference["orders"][str(order)]
    assert (counted.sum(), unknown.sum()) == (reference["tokens"], reference["oov"])
    assert 10 ** -log10[counted].mean() == pytest.approx(wanted["ppl_with_oov"], rel=1e-6)
    assert 10 ** -log10[counted & ~unknown].mean() == pytest.approx(wanted["ppl_without_oov"], rel=1e-6)
    assert table.counts == reference["ngrams_order3"][:order]
    if order == 3:
        for length, found in reference["discounts_order3"].items():
            assert trained.discounts[int(length) - 1] == pytest.approx(found, abs=1e-5)
        scores = np.add.reduceat(np.where(counted, log10, 0.0), begins_of(laid))
        for sentence in reference["order3_sentences"]:
            line = sentence["line"]
            assert scores[line] == pytest.approx(sentence["log10"], abs=1e-4)
            end = np.flatnonzero(laid.ids == END_ID)[line]
            assert end - begins_of(laid)[line] == sentence["tokens"]
