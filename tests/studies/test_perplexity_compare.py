"""Two models over the same texts: the difference per byte, its interval, its notes, and what is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import howsure
from howsure.errors import InputError
from howsure.measures import ratio_interval
from howsure.runs.run import Pair
from studies.on_paper import OnPaper
from studies.on_paper import write as write_lines
from studies.readers import BYTES, PROBS, Reader, poem, put, write_arpa


def test_the_difference_by_hand(tmp_path: Path) -> None:
    """A needs 1 bit for every byte. B's tokens are words: «a a» is 2 of 2 bits, « b» after them one of 8."""
    path = put(tmp_path / "t.jsonl", "a a", "a a b")
    first, second = Reader(0.5, name="first", pattern=BYTES), Reader({"a": 1 / 4, "b": 1 / 256}, name="second")
    pair = howsure.perplexity(path, first, model_b=second, out=tmp_path / "both")
    assert isinstance(pair, Pair)
    found = pair.comparison
    a, b = found["a"], found["b"]
    assert (a["model"], a["tokens"], a["words"], a["bytes"], a["bits_per_byte"]) == ("first", 8, 5, 8, pytest.approx(1))
    assert (b["model"], b["tokens"], b["words"], b["bytes"]) == ("second", 5, 5, 8)
    assert b["bits_per_byte"] == pytest.approx(16 / 8)
    assert (a["perplexity_per_word"], b["perplexity_per_word"]) == (pytest.approx(2**1.6), pytest.approx(2**3.2))
    assert (a["perplexity_per_token"], b["perplexity_per_token"]) == (pytest.approx(2), pytest.approx(2**3.2))
    assert msgspec.to_builtins(found["difference"]) == {
        "bits_per_byte": pytest.approx(1),
        "low": None,
        "high": None,
        "level": None,
        "method": None,
        "approximate": None,
        "note": "of these 2 texts only; an interval takes 5 documents",
        "documents": 2,
        "documents_b_needs_less": 0,
    }
    rows = [(row["document"], row["bits_per_byte_a"], row["bits_per_byte_b"]) for row in found["documents"]]
    assert rows == [
        ("t0", pytest.approx(1), pytest.approx(4 / 3)),
        ("t1", pytest.approx(1), pytest.approx(12 / 5)),
    ]
    assert [row["difference"] for row in found["documents"]] == [pytest.approx(1 / 3), pytest.approx(7 / 5)]
    assert found["notes"] == []
    turned = howsure.compare(tmp_path / "both" / "b", tmp_path / "both" / "a")["difference"]
    assert (turned["bits_per_byte"], turned["documents_b_needs_less"]) == (pytest.approx(-1), 2)


def test_the_interval_of_a_difference_over_five_documents_by_hand(tmp_path: Path) -> None:
    """A needs 4 bits for each letter, B 2, 3, 4, 5 and 6: −1 to 1 a byte in steps of 1/2, as a token has two bytes.

    So B − A is 0 ± t · √0.625 / √5, with 2.7764 for four degrees of freedom.
    """
    path = put(tmp_path / "t.jsonl", *(f" {letter}" * 3 for letter in "ijklm"))
    second = Reader({letter: 2.0 ** -(2 + i) for i, letter in enumerate("ijklm")}, name="second")
    pair = howsure.perplexity(path, Reader(1 / 16, name="first"), model_b=second, out=tmp_path / "both")
    difference = pair.comparison["difference"]
    half = 2.7764451 * math.sqrt(0.625) / math.sqrt(5)
    assert difference["bits_per_byte"] == pytest.approx(0, abs=1e-12)
    assert (difference["low"], difference["high"]) == pytest.approx((-half, half), rel=1e-6)
    assert (difference["level"], difference["approximate"], difference["note"]) == (0.95, True, None)
    assert (difference["documents"], difference["documents_b_needs_less"]) == (5, 2)


def test_fewer_than_five_documents_have_no_interval_and_say_so(tmp_path: Path) -> None:
    path = put(tmp_path / "t.jsonl", *(poem(900, seed=i) for i in range(4)))
    pair = howsure.perplexity(path, Reader(PROBS), model_b=Reader(0.2, name="second"), out=tmp_path / "both")
    difference = pair.comparison["difference"]
    assert difference["bits_per_byte"] is not None
    assert {difference[name] for name in ("low", "high", "level", "method", "approximate")} == {None}
    assert difference["note"] == "of these 4 texts only; an interval takes 5 documents"


def test_what_both_find_hard_is_no_doubt_about_their_difference(tmp_path: Path) -> None:
    """B needs one bit a byte more than A in every document, give or take little: each varies far more by itself."""
    path = put(tmp_path / "t.jsonl", *("a" * (100 + i) + "b" * (60 * i) + "c" * (i % 3) for i in range(12)))
    first = Reader({"a": 1 / 2, "b": 1 / 64, "c": 1 / 2}, name="first", pattern=BYTES)
    second = Reader({"a": 1 / 4, "b": 1 / 128, "c": 1 / 8}, name="second", pattern=BYTES)
    pair = howsure.perplexity(path, first, model_b=second, out=tmp_path / "both")
    difference = pair.comparison["difference"]
    assert 1 < difference["low"] < difference["bits_per_byte"] < difference["high"] < 1.01
    own = pair.a.summary["intervals_bits"]["byte"]
    assert own["high"] - own["low"] > 0.5


def test_a_difference_that_is_the_same_everywhere_has_no_interval_and_says_so(tmp_path: Path) -> None:
    path = put(tmp_path / "t.jsonl", *("a" * (10 + i) for i in range(6)))
    first, second = Reader(0.5, name="first", pattern=BYTES), Reader(0.25, name="second", pattern=BYTES)
    difference = howsure.perplexity(path, first, model_b=second, out=tmp_path / "both").comparison["difference"]
    assert (difference["bits_per_byte"], difference["low"]) == (pytest.approx(1), None)
    assert difference["note"] == "no interval: all changed alike"


@pytest.mark.parametrize("count", [5, 20])
def test_the_interval_is_that_of_the_differences_document_by_document(tmp_path: Path, count: int) -> None:
    texts = [poem(30 + 5 * i, seed=i) for i in range(count)]
    other = {word: prob ** (1.3 if word < "l" else 0.8) for word, prob in PROBS.items()}
    first, second = Reader(PROBS, name="first"), Reader(other, name="second")
    pair = howsure.perplexity(put(tmp_path / "t.jsonl", *texts), first, model_b=second, out=tmp_path / "both")
    tokens = [first.pattern.findall(text.encode()) for text in texts]
    cost = [
        [sum(-math.log2(probs[token.decode().strip()]) for token in some) for some in tokens]
        for probs in (PROBS, other)
    ]
    more, size = np.subtract(cost[1], cost[0]), [len(text.encode()) for text in texts]
    expected = ratio_interval(more, size)
    difference = pair.comparison["difference"]
    assert expected is not None
    assert difference["bits_per_byte"] == pytest.approx(more.sum() / sum(size))
    assert (difference["low"], difference["high"]) == pytest.approx((expected.low, expected.high))
    assert (difference["documents"], difference["documents_b_needs_less"]) == (count, int((more < 0).sum()))


# -- in one call and in two ---------------------------------------------------------------------------------------


def test_two_models_in_one_call_are_two_runs_and_what_compare_says_of_them(tmp_path: Path) -> None:
    path = put(tmp_path / "t.jsonl", poem(900), poem(9, seed=1))
    first, second = Reader(PROBS, name="first"), Reader(0.25, name="second")
    pair = howsure.perplexity(path, first, model_b=second, out=tmp_path / "both", seed=4)
    written = json.loads((tmp_path / "both" / "comparison.json").read_text())
    assert written == msgspec.to_builtins(pair.comparison)
    assert pair.comparison == howsure.compare(tmp_path / "both" / "a", tmp_path / "both" / "b")
    alone = howsure.perplexity(path, second, out=tmp_path / "alone", seed=4)
    assert pair.b.summary == alone.summary
    by_run = howsure.compare(pair.a.run, howsure.Run(tmp_path / "alone"))
    assert by_run["difference"] == pair.comparison["difference"]
    with pytest.raises(InputError, match="both/a is the run folder of one model: with --model-b choose another --out"):
        howsure.perplexity(path, first, model_b=second, out=tmp_path / "both" / "a", seed=4)
    with pytest.raises(InputError, match="both holds 'a' and is not a run folder"):
        howsure.perplexity(path, first, out=tmp_path / "both", seed=4)


def test_a_pair_that_was_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    path = put(tmp_path / "t.jsonl", poem(200))
    first, second = Reader(PROBS, name="first"), Reader(0.25, name="second")

    def stop() -> None:
        raise KeyboardInterrupt

    second.before_call = stop
    with pytest.raises(KeyboardInterrupt):
        howsure.perplexity(path, first, model_b=second, out=tmp_path / "both")
    assert not (tmp_path / "both" / "comparison.json").exists()
    second.before_call = lambda: None
    pair = howsure.perplexity(path, first, model_b=second, out=tmp_path / "both")
    assert (len(first.calls), len(second.calls)) == (1, 1)
    assert pair.comparison["difference"]["documents"] == 1


def test_standard_input_is_there_for_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import io
    import sys
    from types import SimpleNamespace

    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"a b a")))
    pair = howsure.perplexity("-", Reader(0.5, name="a"), model_b=Reader(0.25, name="b"), out=tmp_path / "both")
    assert pair.comparison["difference"]["bits_per_byte"] == pytest.approx(3 / 5)


# -- what one of them could not do --------------------------------------------------------------------------------


def test_a_document_that_one_could_not_read_is_left_out_of_both(tmp_path: Path) -> None:
    path = put(tmp_path / "t.jsonl", "a a", "a fail", "a")
    first = Reader(0.5, name="first", fail="fail")
    pair = howsure.perplexity(path, first, model_b=Reader(0.25, name="second"), out=tmp_path / "both")
    a, b, difference = (pair.comparison[name] for name in ("a", "b", "difference"))
    assert (a["tokens"], b["tokens"], difference["documents"]) == (3, 3, 2)
    assert difference["bits_per_byte"] == pytest.approx(3 / 4)
    assert a["coverage"]["text"] == "scored 2 of 3; 1 missing: 1 too hard"
    assert b["coverage"]["text"] == "scored 3 of 3"
    assert [row["document"] for row in pair.comparison["documents"]] == ["t0", "t2"]
    assert pair.comparison["notes"] == ["1 of 3 documents were not read by both, and are left out"]
    assert (pair.a.failed, pair.b.failed) == (True, False)


def test_nothing_in_common_is_no_difference(tmp_path: Path) -> None:
    path = put(tmp_path / "t.jsonl", "a one", "a two")
    first, second = Reader(0.5, name="first", fail="one"), Reader(0.25, name="second", fail="two")
    found = howsure.perplexity(path, first, model_b=second, out=tmp_path / "both").comparison
    assert found["difference"]["bits_per_byte"] is None
    assert (found["difference"]["documents"], found["documents"]) == (0, [])
    assert (found["a"]["bits_per_byte"], found["b"]["tokens"]) == (None, None)
    assert found["notes"] == ["2 of 2 documents were not read by both, and are left out"]


def test_probability_zero_in_one_leaves_no_difference_and_is_said(tmp_path: Path) -> None:
    path = put(tmp_path / "t.jsonl", "a never", "a")
    second = Reader({"a": 0.25, "never": 0.0}, name="second")
    found = howsure.perplexity(path, Reader(0.5, name="first"), model_b=second, out=tmp_path / "both").comparison
    assert found["difference"]["bits_per_byte"] is None
    assert [row["difference"] for row in found["documents"]] == [None, pytest.approx(1)]
    assert found["notes"] == ["B gives 1 tokens probability zero, so that no difference can be given"]


def test_notes_are_about_the_documents_that_are_compared(tmp_path: Path) -> None:
    """The zero and the unknown word of A lie in a document that B could not read."""
    path = put(tmp_path / "t.jsonl", "a never x fail", "a")
    first = Reader({"a": 0.5, "never": 0.0, "x": 0.1, "fail": 0.1}, name="first", vocabulary=frozenset({"a", "never"}))
    second = Reader(0.25, name="second", fail="fail")
    found = howsure.perplexity(path, first, model_b=second, out=tmp_path / "both").comparison
    assert found["difference"]["bits_per_byte"] == pytest.approx(1)
    assert found["a"]["oov"] == 0
    assert found["notes"] == ["1 of 2 documents were not read by both, and are left out"]


def test_unknown_words_are_said_to_flatter(tmp_path: Path) -> None:
    path = put(tmp_path / "t.jsonl", "a b\nx a\n")
    pair = howsure.perplexity(path, Reader(0.25), model_b=write_arpa(tmp_path), out=tmp_path / "both")
    assert (pair.comparison["a"]["oov"], pair.comparison["b"]["oov"]) == (None, 1)
    assert pair.comparison["notes"] == [
        "B does not know 1 words and does not have to spell them, which flatters it",
        "perplexity per word is of words only in B, and pays for line ends too in A",
    ]


def test_one_model_twice_is_noted_whatever_its_file_is_called(tmp_path: Path) -> None:
    path = put(tmp_path / "t.jsonl", "a b\n")
    (tmp_path / "copy").mkdir()
    name, copy = write_arpa(tmp_path), write_arpa(tmp_path / "copy")
    found = howsure.perplexity(path, name, model_b=copy, out=tmp_path / "both").comparison
    assert found["notes"] == ["both runs are of the same model"]
    assert (found["difference"]["bits_per_byte"], found["difference"]["documents_b_needs_less"]) == (0.0, 0)


# -- what is refused ----------------------------------------------------------------------------------------------


def test_runs_over_other_texts_are_refused_and_moved_ones_are_not(tmp_path: Path) -> None:
    put(tmp_path / "t.jsonl", "a", "b")
    howsure.perplexity(tmp_path / "t.jsonl", Reader(0.5), out=tmp_path / "a")
    howsure.perplexity(put(tmp_path / "u.jsonl", "a", "c"), Reader(0.25), out=tmp_path / "other")
    with pytest.raises(InputError, match="a and .*other are over different texts, and cannot be compared"):
        howsure.compare(tmp_path / "a", tmp_path / "other")
    plain = [tmp_path / "x.txt", tmp_path / "y.txt"]
    for path, text in zip(plain, "ab", strict=True):
        path.write_text(text)
    howsure.perplexity(plain, Reader(0.25), out=tmp_path / "moved")
    found = howsure.compare(tmp_path / "a", tmp_path / "moved")
    assert found["difference"]["bits_per_byte"] == pytest.approx(1)
    assert [row["document"] for row in found["documents"]] == ["t0", "t1"]


def test_runs_of_different_studies_are_refused_in_one_sentence(tmp_path: Path) -> None:
    howsure.perplexity(put(tmp_path / "t.jsonl", "a"), Reader(0.5), out=tmp_path / "read")
    row = {"question": "a?", "choices": ["yes", "no"], "answer_index": 0}
    questions = write_lines(tmp_path / "q.jsonl", row)
    howsure.mcq(questions, OnPaper({" yes": -1.0, " no": -2.0}), out=tmp_path / "asked")
    with pytest.raises(InputError, match="read is a run of perplexity, .*asked one of mcq: compare runs of the same"):
        howsure.compare(tmp_path / "read", tmp_path / "asked")
    manifest = json.loads((tmp_path / "read" / "run.json").read_text())
    manifest["identity"]["study"] = "trust coherent"
    (tmp_path / "read" / "run.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match="'trust coherent', and only mcq, .* runs can be compared"):
        howsure.compare(tmp_path / "asked", tmp_path / "read")


@pytest.mark.parametrize(("status", "said"), [("interrupted", "interrupted"), ("running", "stopped"), ("failed",) * 2])
def test_an_unfinished_run_is_refused_with_what_to_do(tmp_path: Path, status: str, said: str) -> None:
    path = put(tmp_path / "t.jsonl", "a")
    for name in ("a", "b"):
        howsure.perplexity(path, Reader(0.5), out=tmp_path / name)
    manifest: dict[str, Any] = json.loads((tmp_path / "b" / "run.json").read_text())
    (tmp_path / "b" / "run.json").write_text(json.dumps(manifest | {"status": status}))
    with pytest.raises(InputError, match=rf"b is not finished \({said}\): run the command that made it again"):
        howsure.compare(tmp_path / "a", tmp_path / "b")
    (tmp_path / "b" / "run.json").write_text(json.dumps(manifest))
    (tmp_path / "b" / "summary.json").unlink()
    with pytest.raises(InputError, match="b is not finished"):
        howsure.compare(tmp_path / "a", tmp_path / "b")
