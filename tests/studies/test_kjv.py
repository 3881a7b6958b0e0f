"""A real book: the King James Bible, trained and read by howsure, against KenLM's own figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import howsure

DATA = Path(__file__).parents[3] / "shared" / "data" / "ngram"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"the King James Bible is not at {DATA}")


@pytest.fixture(scope="module")
def reference() -> Any:
    return json.loads((DATA / "kenlm_reference.json").read_text())


@pytest.mark.parametrize("order", [2, 3])
def test_a_model_of_the_bible_has_the_perplexity_that_kenlm_gives_it(
    tmp_path: Path, reference: Any, order: int
) -> None:
    trained = howsure.train_ngram(DATA / "kjv.train.txt.gz", tmp_path / "kjv.arpa", order=order)
    summary = howsure.perplexity(DATA / "kjv.test.txt", trained["model"], out=tmp_path / "run").summary
    corpus, expected = summary["corpus"], reference["orders"][str(order)]
    assert (corpus["tokens"], corpus["oov"]) == (reference["tokens"], reference["oov"])
    assert corpus["perplexity_per_token"] == pytest.approx(expected["ppl_with_oov"], rel=1e-4)
    assert corpus["perplexity_per_token_without_oov"] == pytest.approx(expected["ppl_without_oov"], rel=1e-4)
    assert corpus["bytes"] == (DATA / "kjv.test.txt").stat().st_size
    assert corpus["words"] == len((DATA / "kjv.test.txt").read_bytes().split())
    assert corpus["sentence_ends"] == corpus["tokens"] - corpus["words"]
    assert summary["intervals_bits"] is None, "it is one text"
    if order == 3:
        assert trained["ngrams"] == reference["ngrams_order3"]
        for found, wanted in zip(trained["discounts"], reference["discounts_order3"].values(), strict=True):
            assert found == pytest.approx(wanted, rel=1e-5)
