"""What a perplexity run keeps of the texts themselves: little, the same after every stop, and never all of it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import howsure
from howsure.evidence import TokenLogprobs
from howsure.models.contract import Stretch
from howsure.studies.perplexity import record, study
from howsure.studies.perplexity.record import MOST_TOKENS, Trail, excerpts_of
from studies.readers import BYTES, PROBS, Reader, poem, put, write_arpa


def kept(folder: Path) -> dict[str, Any]:
    return {sample["id"]: sample.get("evidence", {}) for sample in howsure.Run(folder).samples()}


def test_a_passage_keeps_its_first_tokens_and_where_each_block_begins(tmp_path: Path) -> None:
    text = poem(300)
    howsure.perplexity(put(tmp_path / "t.jsonl", text), Reader(PROBS, passage_tokens=200), out=tmp_path / "run")
    found = kept(tmp_path / "run")
    assert list(found) == ["0#0", "0#1"]
    joined = ""
    for sample in howsure.Run(tmp_path / "run").samples():
        one, counts = sample["evidence"], sample["result"]["blocks"]["bytes"]
        assert len(one["excerpts"]) == len(counts), "one for each block"
        begin = len(joined)
        for excerpt, count in zip(one["excerpts"], counts, strict=True):
            assert excerpt == text[begin : begin + min(count, 160)]
            begin += count
        tokens = TokenLogprobs.from_dict(one["beginning"])
        joined += tokens.text
        nats = sum(sample["result"]["blocks"]["nats"])
        assert tokens.nll_nats == pytest.approx(nats, abs=1e-4 * len(tokens))
    assert joined == text, "both passages are shorter than what is kept of one"


def test_an_ngram_model_keeps_text_without_doing_anything_for_it(tmp_path: Path) -> None:
    howsure.perplexity(put(tmp_path / "t.jsonl", "a b\nx a\n"), write_arpa(tmp_path), out=tmp_path / "run")
    (found,) = kept(tmp_path / "run").values()
    assert found["excerpts"] == ["a b\nx a\n"]
    assert found["beginning"]["tokens"] == ["a", " b", "\n", "x", " a", "\n"]
    assert found["beginning"]["logprobs"][0] == pytest.approx(-0.125 * math.log(10), abs=1e-4)


def test_no_more_than_so_many_tokens_and_bytes_are_kept(tmp_path: Path) -> None:
    put(tmp_path / "t.jsonl", "ab " * 3000, "x" * 50_000)
    howsure.perplexity(tmp_path / "t.jsonl", Reader(0.5), out=tmp_path / "run")
    many, long = kept(tmp_path / "run").values()
    assert len(many["beginning"]["tokens"]) == MOST_TOKENS
    assert long["beginning"] == {"tokens": [], "logprobs": []}, "a token as long as a text is no beginning"
    assert {len(excerpt) for excerpt in long["excerpts"]} <= {0, 160}


def test_of_later_documents_fewer_tokens_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "MANY_DOCUMENTS", 1)
    put(tmp_path / "t.jsonl", "a " * 90, "a " * 90)
    howsure.perplexity(tmp_path / "t.jsonl", Reader(0.5), out=tmp_path / "run")
    assert [len(one["beginning"]["tokens"]) for one in kept(tmp_path / "run").values()] == [91, 50]


def test_a_character_over_several_tokens_keeps_its_bytes(tmp_path: Path) -> None:
    howsure.perplexity(put(tmp_path / "t.jsonl", "é!"), Reader(0.5, pattern=BYTES), out=tmp_path / "run")
    (found,) = kept(tmp_path / "run").values()
    assert found["beginning"]["bytes"] == ["c3", "a9", "21"]
    assert TokenLogprobs.from_dict(found["beginning"]).text == "é!"


def test_what_is_impossible_is_kept_as_such(tmp_path: Path) -> None:
    howsure.perplexity(put(tmp_path / "t.jsonl", "a b"), Reader({"a": 1.0, "b": 0.0}), out=tmp_path / "run")
    (found,) = kept(tmp_path / "run").values()
    assert TokenLogprobs.from_dict(found["beginning"]).logprobs.tolist() == [0.0, -math.inf]


def test_a_run_that_was_stopped_keeps_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "TOKENS_AT_ONCE", 50)
    data = put(tmp_path / "t.jsonl", poem(200), poem(150, seed=1))
    howsure.perplexity(data, Reader(PROBS, passage_tokens=30), out=tmp_path / "whole")
    stopped, calls = Reader(PROBS, passage_tokens=30), iter(range(100))

    def stop() -> None:
        if next(calls) == 2:
            raise KeyboardInterrupt

    stopped.before_call = stop
    with pytest.raises(KeyboardInterrupt):
        howsure.perplexity(data, stopped, out=tmp_path / "stopped")
    assert len(kept(tmp_path / "stopped")) == 4
    howsure.perplexity(data, Reader(PROBS, passage_tokens=30), out=tmp_path / "stopped")
    assert kept(tmp_path / "stopped") == kept(tmp_path / "whole")
    assert all(kept(tmp_path / "whole").values())


def test_a_passage_that_failed_keeps_nothing_and_nor_do_those_after_it(tmp_path: Path) -> None:
    data = put(tmp_path / "t.jsonl", "a a b a a a", "a a")
    howsure.perplexity(data, Reader(0.5, passage_tokens=2, fail="b"), out=tmp_path / "run")
    assert [bool(one) for one in kept(tmp_path / "run").values()] == [True, False, False, True]


# -- the trail --------------------------------------------------------------------------------------------------------


def test_a_trail_has_what_came_by_and_was_not_let_go() -> None:
    trail = Trail()
    passed = trail.along(["ab", "cé", "f"])
    assert next(passed) == "ab"
    assert (trail.between(0, 2), trail.between(1, 3)) == (b"ab", None)
    assert "".join(passed) == "céf"
    trail.drop(2)
    assert (trail.between(2, 5), trail.between(1, 5), trail.between(2, 9)) == ("cé".encode(), None, None)
    trail.drop(None)
    assert trail.between(2, 5) is None


def test_a_trail_that_nobody_wants_holds_nothing() -> None:
    trail = Trail()
    trail.drop(None)
    assert list(trail.along(["a" * 100])) == ["a" * 100]
    assert trail.between(0, 1) is None


def test_without_its_text_a_passage_keeps_nothing() -> None:
    ones = np.ones(3, dtype=np.int64)
    assert excerpts_of(Stretch(-ones.astype(float), ones, ones), [3], 0, Trail(), 10) is None


def test_reading_on_does_not_pile_up_what_was_read_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The passages that are done are passed over by the resumed run; their text must go by and be let go."""
    monkeypatch.setattr(study, "TOKENS_AT_ONCE", 10)
    data = put(tmp_path / "t.jsonl", "a " * 400 + "b")
    howsure.perplexity(data, Reader(0.5, passage_tokens=10, fail="b"), out=tmp_path / "run")
    held = []
    drop = Trail.drop
    monkeypatch.setattr(Trail, "drop", lambda self, before: (drop(self, before), held.append(len(self._held))))
    again = Reader(0.5, passage_tokens=10)
    howsure.perplexity(data, again, out=tmp_path / "run", retry_failed=True)
    assert len(again.calls) == 1
    assert len(held) == 41, "40 passed over, one read"
    assert held[-1] == 0
    assert held == sorted(held, reverse=True), "each passage lets go of its own text"
