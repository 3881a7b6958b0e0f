"""Training: counts and figures worked out by hand, the naive definitions written out, and properties of every model."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howsure.errors import InputError
from howsure.models.ngram.table import BEGIN_ID, END_ID, UNKNOWN_ID, NgramTable, begins_of
from howsure.models.ngram.training import Piece, Smoothing, Trained, count_ngrams, number_words, train

Gram = tuple[str, ...]

words = st.sampled_from(["a", "b", "c", "dd", "a-word-of-more-than-sixteen-bytes", "ж", "数字"])
sentences = st.lists(words, max_size=7)
texts = st.lists(sentences, min_size=1, max_size=12).filter(lambda lines: any(lines))


def as_text(lines: list[list[str]]) -> bytes:
    return "".join(" ".join(line) + "\n" for line in lines).encode()


def trained(lines: list[list[str]], order: int, smoothing: Smoothing, **options: object) -> Trained:
    return train([Piece(as_text(lines))], order, smoothing, **options)  # type: ignore[arg-type]


def sentence_grams(lines: list[list[str]], order: int) -> list[Counter[Gram]]:
    """The n-grams of every length up to `order`, in sentences of `<s> words </s>`; `<s>` alone is none."""
    counts: list[Counter[Gram]] = [Counter() for _ in range(order)]
    for line in lines:
        marked = ["<s>", *line, "</s>"]
        for end in range(1, len(marked)):
            for length in range(1, min(order, end + 1) + 1):
                counts[length - 1][tuple(marked[end - length + 1 : end + 1])] += 1
    return counts


def grams_of(table: NgramTable, level: int) -> list[Gram]:
    """The n-grams of a level, spelled."""
    spelled = [(word.decode(),) for word in table.vocabulary.words]
    names = spelled
    for one in table.levels[1 : level + 1]:
        contexts, last = one.keys // len(spelled), one.keys % len(spelled)
        names = [names[c] + spelled[w] for c, w in zip(contexts.tolist(), last.tolist(), strict=True)]
    return names


# -- counts -----------------------------------------------------------------------------------------------------------


@given(texts, st.integers(1, 5))
def test_counts_are_those_of_a_dictionary(lines: list[list[str]], order: int) -> None:
    laid, vocabulary = number_words([Piece(as_text(lines))])
    levels = count_ngrams(laid, order, len(vocabulary))
    wanted = sentence_grams(lines, order)
    names: list[Gram] = [(word.decode(),) for word in vocabulary.words]
    singles = names
    for i, level in enumerate(levels):
        if i:
            last = (level.keys % len(singles)).tolist()
            names = [names[c] + singles[w] for c, w in zip(level.contexts.tolist(), last, strict=True)]
        found = {name: count for name, count in zip(names, level.counts.tolist(), strict=True) if count}
        assert found == dict(wanted[i])
        assert [name[0] == "<s>" for name in names] == level.begins.tolist()


@given(texts, st.integers(2, 4))
def test_continuations_are_the_distinct_words_before(lines: list[list[str]], order: int) -> None:
    laid, vocabulary = number_words([Piece(as_text(lines))])
    levels = count_ngrams(laid, order, len(vocabulary))
    grams = sentence_grams(lines, order)
    table = trained(lines, order, Smoothing.MLE).table
    for level in range(order - 1):
        found = levels[level + 1].continuations(len(levels[level].keys))
        for name, count in zip(grams_of(table, level), found.tolist(), strict=True):
            assert count == len({gram[0] for gram in grams[level + 1] if gram[1:] == name})


def test_a_text_in_pieces_is_the_same_text() -> None:
    lines = [["a", "b"], [], ["c", "a", "b"], ["b"]]
    whole = trained(lines, 3, Smoothing.WITTEN_BELL)
    pieces = [Piece(as_text(lines[:1])), Piece(as_text(lines[1:3])), Piece(b"b")]
    parts = train(pieces, 3, Smoothing.WITTEN_BELL)
    assert (parts.sentences, parts.words) == (whole.sentences, whole.words) == (4, 6)
    for one, other in zip(parts.table.levels, whole.table.levels, strict=True):
        assert np.array_equal(one.keys, other.keys)
        assert np.array_equal(one.log10_probs, other.log10_probs)


# -- the definitions, written out -------------------------------------------------------------------------------------


def adjusted(lines: list[list[str]], order: int) -> list[dict[Gram, int]]:
    """Kneser and Ney's counts: real ones at the longest length and after `<s>`, else distinct words before."""
    grams = sentence_grams(lines, order)
    found: list[dict[Gram, int]] = []
    for shorter, longer in pairwise(grams):
        before: dict[Gram, set[str]] = {}
        for gram in longer:
            before.setdefault(gram[1:], set()).add(gram[0])
        found.append({g: c if g[0] == "<s>" else len(before.get(g, ())) for g, c in shorter.items()})
    return [*found, dict(grams[-1])]


def naive_probability(
    smoothing: Smoothing, lines: list[list[str]], order: int, discounts: list[tuple[float, ...]] | None, k: float
):
    """p(word | context) by the textbook, one word at a time, from dictionaries."""
    raw: list[dict[Gram, int]] = [dict(level) for level in sentence_grams(lines, order)]
    kneser_ney = smoothing in (Smoothing.MODIFIED_KNESER_NEY, Smoothing.KNESER_NEY)
    counts = adjusted(lines, order) if kneser_ney else raw
    size = len({g[0] for g in raw[0]} | {"</s>"}) + 1

    def after(context: Gram) -> dict[str, int]:
        return {g[-1]: c for g, c in counts[len(context)].items() if g[:-1] == context and c > 0}

    def probability(word: str, context: Gram) -> float:
        seen = after(context)
        if smoothing is Smoothing.ADD_K:
            return (seen.get(word, 0) + k) / (sum(seen.values()) + k * size)
        lower = probability(word, context[1:]) if context else 1 / size
        total = sum(seen.values())
        if not total:
            return lower
        if smoothing is Smoothing.MLE:
            return seen.get(word, 0) / total
        if smoothing is Smoothing.WITTEN_BELL:
            return (seen.get(word, 0) + len(seen) * lower) / (total + len(seen))
        assert discounts is not None
        taken = (0.0, *discounts[len(context)])
        kept = seen.get(word, 0) - min(taken[min(seen.get(word, 0), 3)], seen.get(word, 0))
        free = sum(min(taken[min(c, 3)], c) for c in seen.values())
        return kept / total + free / total * lower

    return probability


@pytest.mark.parametrize("smoothing", list(Smoothing))
@settings(max_examples=40)
@given(lines=texts, test=texts, order=st.integers(1, 4), k=st.sampled_from([0.01, 0.5, 1.0, 3.0]))
def test_every_way_gives_the_textbook_probability_of_every_word(
    smoothing: Smoothing, lines: list[list[str]], test: list[list[str]], order: int, k: float
) -> None:
    found = trained(lines, order, smoothing, k=k, discount_fallback=True)
    naive = naive_probability(smoothing, lines, order, found.discounts, k)
    laid, _ = found.table.lay(as_text(test))
    scored = found.table.log10_probs(laid.ids, begins_of(laid))
    known = {word for line in lines for word in line}
    place = 0
    for line in test:
        marked = ["<s>", *(word if word in known else "<unk>" for word in line), "</s>"]
        for i in range(1, len(marked)):
            context = tuple(marked[max(0, i - order + 1) : i])
            wanted = naive(marked[i], context)
            assert 10.0 ** scored[place + i] == pytest.approx(wanted, rel=1e-9, abs=1e-300)
        place += len(marked)
    assert place == len(laid.ids)


@pytest.mark.parametrize("smoothing", list(Smoothing))
@settings(max_examples=40)
@given(lines=texts, order=st.integers(1, 4), data=st.data())
def test_probabilities_sum_to_one_after_any_context(
    smoothing: Smoothing, lines: list[list[str]], order: int, data: st.DataObject
) -> None:
    table = trained(lines, order, smoothing, discount_fallback=True).table
    some = st.integers(UNKNOWN_ID, len(table.vocabulary) - 1).filter(lambda word: word not in (BEGIN_ID, END_ID))
    context = data.draw(st.lists(some, max_size=order))
    if data.draw(st.booleans()):
        context = [BEGIN_ID, *context]
    distribution = table.distribution(context)
    assert distribution.sum() == pytest.approx(1.0, abs=1e-9)
    assert distribution[BEGIN_ID] == 0
    assert (distribution >= 0).all()
    if context:
        ids = np.array([word for other in range(len(table.vocabulary)) for word in (*context, other)])
        begins = np.arange(0, len(ids), len(context) + 1)
        scored = 10.0 ** table.log10_probs(ids, begins)[len(context) :: len(context) + 1]
        scored[BEGIN_ID] = 0.0
        assert scored == pytest.approx(distribution, rel=1e-9, abs=1e-300)


def test_smoothing_leaves_nothing_impossible_and_no_smoothing_does() -> None:
    lines = [["a", "b", "a", "c"], ["b", "a"]]
    for smoothing in set(Smoothing) - {Smoothing.MLE}:
        assert (trained(lines, 3, smoothing, discount_fallback=True).table.distribution([])[[0, 2, 3, 4]] > 0).all()
    assert trained(lines, 1, Smoothing.MLE).table.distribution([])[UNKNOWN_ID] == 0


# -- by hand ----------------------------------------------------------------------------------------------------------


def test_a_bigram_model_by_hand() -> None:
    """Two sentences «a b», «a a»: after a came b, a and </s>."""
    table = trained([["a", "b"], ["a", "a"]], 2, Smoothing.MLE).table
    a, b = (table.vocabulary.words.index(word) for word in (b"a", b"b"))
    after_a = table.distribution([a])
    assert after_a[[a, b, END_ID]] == pytest.approx([1 / 3, 1 / 3, 1 / 3])
    assert table.distribution([BEGIN_ID])[a] == 1.0
    smoothed = trained([["a", "b"], ["a", "a"]], 2, Smoothing.ADD_K, k=1.0).table.distribution([a])
    assert smoothed[[a, b, END_ID, UNKNOWN_ID]] == pytest.approx([2 / 7, 2 / 7, 2 / 7, 1 / 7])


def test_witten_bell_by_hand() -> None:
    """Of four words and two ends: c(a) = 3, c(b) = 1, c(</s>) = 2, three kinds, four words to choose from."""
    unigrams = trained([["a", "b"], ["a", "a"]], 1, Smoothing.WITTEN_BELL).table.distribution([])
    assert unigrams[[3, 4, END_ID, UNKNOWN_ID]] == pytest.approx(
        [(3 + 0.75) / 9, (1 + 0.75) / 9, (2 + 0.75) / 9, 0.75 / 9]
    )


def test_a_discount_that_cannot_be_estimated_says_so_and_names_the_way_out() -> None:
    with pytest.raises(
        InputError, match=r"discount of 1-grams .* none of its 3 has an adjusted count of 2.*--discount-fallback"
    ):
        trained([["a", "b"]] * 3, 2, Smoothing.MODIFIED_KNESER_NEY)
    with pytest.raises(InputError, match=r"--discount-fallback .*--smoothing witten-bell"):
        trained([["one"]], 3, Smoothing.KNESER_NEY)
    found = trained([["one"]], 3, Smoothing.MODIFIED_KNESER_NEY, discount_fallback=True)
    assert found.discounts == [(0.5, 1.0, 1.5)] * 3


def test_a_discount_out_of_range_is_no_discount() -> None:
    """Counts of counts 1, 1, 1, 9: D₃ = 3 − 4 · (1/3) · 9 / 1 = −9."""
    kinds = {1: 1, 2: 1, 3: 1, 4: 9}
    line = [f"w{count}-{i}" for count, kind in kinds.items() for i in range(kind) for _ in range(count)]
    with pytest.raises(InputError, match="for a count of 3 it comes out as -9"):
        trained([line] * 1 + [[]] * 40, 1, Smoothing.MODIFIED_KNESER_NEY)


@pytest.mark.parametrize("order", [0, 21, -1])
def test_an_order_out_of_range_is_refused(order: int) -> None:
    with pytest.raises(InputError, match="--order must lie between 1 and 20"):
        trained([["a"]], order, Smoothing.MLE)


@pytest.mark.parametrize("k", [0.0, -1.0, math.inf, math.nan])
def test_a_k_that_adds_nothing_is_refused(k: float) -> None:
    with pytest.raises(InputError, match="--k must be a positive number"):
        trained([["a"]], 2, Smoothing.ADD_K, k=k)


def test_a_text_without_words_is_refused() -> None:
    with pytest.raises(InputError, match="no word in the training text"):
        train([Piece(b"\n \t\n")], 2, Smoothing.MLE)


def test_reserved_words_are_refused_with_their_line() -> None:
    with pytest.raises(InputError, match=r"book, line 12: the word </s> is reserved"):
        train([Piece(b"a b\nc </s> d\n", "book", 10)], 2, Smoothing.MLE)
