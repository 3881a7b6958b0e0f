"""Pages of perplexity: stretches in their places, the figure along a text, and texts that mean harm."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from htpy import fragment

import howsure
from howsure.evidence import TokenLogprobs
from howsure.report.pages import perplexity as pages
from howsure.report.run_data import Embedded, Material
from howsure.report.html import picks as picks_node
from howsure.report.html import section
from howsure.report.pages.perplexity_blocks import along, begin_bytes, longest, stretches
from howsure.report.pages.perplexity_plots import by_document
from howsure.report.run_report import report_of
from howsure.report.tokens import readable_shades_of
from howsure.runs import Sample
from studies.readers import PROBS, Reader, poem, put, write_arpa

LN2 = math.log(2)


def material_of(folder: Path) -> Material:
    return Material(folder, Embedded(folder, 0))


def run_of(tmp_path: Path, *texts: str, model: Reader | None = None) -> Material:
    tmp_path.mkdir(exist_ok=True)
    howsure.perplexity(put(tmp_path / "t.jsonl", *texts), model or Reader(PROBS), out=tmp_path / "run")
    return material_of(tmp_path / "run")


def shown(material: Material) -> str:
    return "".join(str(section(one)) for one in pages.sections(material))


def about(material: Material, key: str) -> str:
    row = material.table.row_of(key) or 0
    return "".join(str(section(one)) for one in pages.about(material.sample(row), material))


# -- rows and blocks --------------------------------------------------------------------------------------------------


def test_a_row_has_the_figures_of_its_passage() -> None:
    blocks = {"first": 3, "nats": [4 * LN2, 2 * LN2], "tokens": [2, 1], "words": [1, 1], "bytes": [5, 3]}
    sample = Sample("0#1", 0, {"document": "d", "part": 1, "last": True, "blocks": blocks | {"impossible": [0, 0]}})
    row = pages.row(sample)
    assert (row["tokens"], row["words"], row["bytes"], row["impossible"]) == (3, 2, 8, 0)
    assert row["bits_per_byte"] == pytest.approx(6 / 8)
    assert row["bits_per_token"] == pytest.approx(2)
    assert row["perplexity_per_token"] == pytest.approx(4)
    assert row["perplexity_per_word"] == pytest.approx(8)
    assert (row["_first"], row["_bytes"]) == (3, (5, 3))


def test_a_row_with_something_impossible_or_nothing_has_no_bits() -> None:
    blocks = {"first": 0, "nats": [1.0], "tokens": [2], "words": [0], "bytes": [5], "impossible": [1]}
    sample = Sample("0#0", 0, {"document": "d", "part": 0, "last": True, "blocks": blocks})
    assert "bits_per_byte" not in pages.row(sample)
    failed = Sample("0#0", 0, {"document": "d", "part": 0, "last": True}, reason="too_hard", detail="no")
    assert pages.row(failed) == {"document": "d", "part": 0, "_last": True}


def test_passages_begin_where_those_before_them_end(tmp_path: Path) -> None:
    material = run_of(tmp_path, poem(50), poem(30, seed=1), model=Reader(PROBS, passage_tokens=20))
    begins = begin_bytes(material.table)
    length = material.table.numbers("bytes")
    assert begins[0] == 0
    assert begins[1] == length[0]
    assert begins[2] == length[0] + length[1]
    assert [begins[row] for row in np.flatnonzero(material.table.numbers("part") == 0)] == [0, 0]


def test_after_a_passage_that_failed_no_place_is_known(tmp_path: Path) -> None:
    material = run_of(tmp_path, "a a b a a a", model=Reader(0.5, passage_tokens=2, fail="b"))
    assert np.isfinite(begin_bytes(material.table)).tolist() == [True, False, False]
    document = along(material.table, 0)
    assert document is not None
    assert not document.whole
    assert document.ends_byte[-1] == 3, "as far as it is there"


def test_a_document_is_put_together_from_its_passages(tmp_path: Path) -> None:
    text = poem(400)
    cut = run_of(tmp_path / "cut", text, model=Reader(PROBS, passage_tokens=37))
    whole = run_of(tmp_path / "whole", text)
    assert whole.summary is not None
    (first,), (second,) = longest(cut.table, 4), longest(whole.table, 4)
    assert first.ends_byte.tolist() == second.ends_byte.tolist()
    assert first.running_bits == pytest.approx(second.running_bits)
    assert first.running_bits[-1] == pytest.approx(whole.summary["corpus"]["bits_per_byte"])


def test_the_longest_documents_come_first(tmp_path: Path) -> None:
    material = run_of(tmp_path, *(poem(n, seed=n) for n in (20, 200, 100, 300)))
    assert [one.name for one in longest(material.table, 2)] == ["t3", "t1"]


# -- plots ------------------------------------------------------------------------------------------------------------


def test_the_line_ends_at_the_figure_of_the_document(tmp_path: Path) -> None:
    material = run_of(tmp_path, poem(400))
    page = shown(material)
    assert material.summary is not None
    final = material.summary["corpus"]["bits_per_byte"]
    assert f"ends at {final:.3f} (dashed)" in page
    assert "Which texts surprise" not in page, "one document is beside no other"
    assert "Per token, per word, per byte" in page


def test_documents_stand_beside_each_other_the_hardest_first(tmp_path: Path) -> None:
    model = Reader({"a": 1 / 2, "b": 1 / 16, "c": 0.0, "d": 1 / 4})
    page = shown(run_of(tmp_path, "a a a", "b b b", "c", "d d", model=model))
    assert re.findall(r">(t\d)</text>", page) == ["t2", "t1", "t3", "t0"]
    assert "1 impossible" in page


def test_documents_are_dots_and_all_of_them_together_have_the_interval(tmp_path: Path) -> None:
    material = run_of(tmp_path, *(poem(300 + 40 * i, seed=i) for i in range(6)))
    assert material.summary is not None
    page = shown(material)
    caption = page[page.index("Bits per byte by document") :]
    assert "interval" not in caption[: caption.index("</figcaption>")]
    ends = material.summary["intervals_bits"]["byte"]
    assert f"about {ends['low']:.4f} to {ends['high']:.4f}" in page[page.index("Per token, per word, per byte") :]
    few = shown(run_of(tmp_path / "few", poem(300), poem(300, seed=1)))
    told = few[few.index("Per token, per word, per byte") :]
    assert "These figures are of these 2 texts only; an interval takes 5 documents." in told
    assert "95 % interval" not in told


def test_ends_of_sentences_are_no_words_on_the_page_of_a_passage_either(tmp_path: Path) -> None:
    howsure.perplexity(put(tmp_path / "t.jsonl", "a b\nx a\n"), write_arpa(tmp_path), out=tmp_path / "run")
    material = material_of(tmp_path / "run")
    assert pages.row(material.sample(0))["perplexity_per_word"] == pytest.approx(10 ** (3.375 / 4))
    assert "The 2 sentence ends (&lt;/s&gt;) count per token and per byte, not per word." in shown(material)


def test_a_run_in_progress_shows_what_is_there(tmp_path: Path) -> None:
    material = run_of(tmp_path, poem(400))
    material.summary, material.status = None, "running"
    page = shown(material)
    assert "Does the figure settle?" in page
    assert "Per token" not in page


@pytest.mark.parametrize(
    ("texts", "model"),
    [
        (["a"], Reader(0.5)),
        (["a"], Reader({"a": 0.0})),
        (["b"], Reader(0.5, fail="b")),
        (["a " * 3000, "a"], Reader({"a": 0.0, "": 0.0})),
        (["x" * 9000], Reader(0.5)),
        (["a " * 3000], Reader(1.0)),
        (["é" * 400], Reader(0.5)),
        (["a"] * 25, Reader(0.5)),
    ],
    ids=["one-token", "impossible", "failed", "all-impossible", "one-long-token", "certain", "not-ascii", "many"],
)
def test_odd_texts_have_pages(tmp_path: Path, texts: list[str], model: Reader) -> None:
    material = run_of(tmp_path, *texts, model=model)
    found = pages.picks(material, 5)
    assert found is not None
    page = report_of([tmp_path / "run"]) + shown(material) + str(fragment[picks_node(found, material.links)])
    assert "nan" not in page.replace("nanmean", "")
    assert "does not hold" not in page
    assert "do not hold" not in page
    assert all(about(material, key) for key in material.table.keys)


# -- what surprised it ------------------------------------------------------------------------------------------------


def surprising(tmp_path: Path) -> Material:
    """In the middle of plain words, a stretch of rare ones."""
    text = "plain " * 200 + "<b>rare</b> " * 100 + "plain " * 200
    return run_of(tmp_path, text, model=Reader({"plain": 0.9, "<b>rare</b>": 0.001, "": 0.9}))


def test_the_most_and_the_least_surprising_stretches_with_their_text(tmp_path: Path) -> None:
    material = surprising(tmp_path)
    found = pages.picks(material, 2)
    assert found is not None
    assert found.titles == ("Most surprising", "Least surprising")
    hard, easy = ([str(fragment[card.body]) for card in side] for side in (found.surely_wrong, found.doubtfully_right))
    assert len(hard) == len(easy) == 2
    assert all("&lt;b&gt;rare&lt;/b&gt;" in one for one in hard)
    assert all("rare" not in one for one in easy)
    assert all(card.right is None for card in found.surely_wrong), "a text has no right and wrong"
    begin = re.search(r"bytes ([\d,]+) to", hard[0])
    assert begin is not None
    assert 1100 <= int(begin[1].replace(",", "")) <= 2500


def test_one_document_does_not_fill_a_side(tmp_path: Path) -> None:
    model = Reader({"a": 0.5, "b": 0.01, "": 0.5})
    material = run_of(tmp_path, "b " * 2000, "a " * 2000, "a " * 1000, model=model)
    found = pages.picks(material, 5)
    assert found is not None
    assert [card.title for card in found.surely_wrong].count("t0") == 2


def test_no_stretch_is_both_the_most_and_the_least_surprising(tmp_path: Path) -> None:
    found = pages.picks(run_of(tmp_path, poem(60), poem(1_000, seed=1), poem(60, seed=2)), 5)
    assert found is not None
    sides = [
        {f"{card.key} {fragment[card.body]}" for card in side} for side in (found.surely_wrong, found.doubtfully_right)
    ]
    assert all(sides)
    assert not sides[0] & sides[1]


def test_a_stretch_that_is_shown_whole_has_no_dots_and_what_is_impossible_is_said_in_words(tmp_path: Path) -> None:
    found = pages.picks(run_of(tmp_path, "sky blue", "five", model=Reader({**PROBS, "five": 0.0})), 5)
    assert found is not None
    (hard,), (easy,) = found.surely_wrong, found.doubtfully_right
    assert hard.verdict == "1 token of probability 0"
    assert ">sky blue<" in str(fragment[easy.body])


def test_what_comes_after_a_line_that_is_lost_says_that_its_place_is_not_known(tmp_path: Path) -> None:
    material = run_of(tmp_path, poem(400), model=Reader(PROBS, passage_tokens=80))
    path = material.folder / "samples.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], *lines[2:]]))
    material = material_of(material.folder)
    found = pages.picks(material, 9)
    assert found is not None
    bodies = [str(fragment[card.body]) for card in (*found.surely_wrong, *found.doubtfully_right)]
    assert any("bytes, after a passage that is missing" in body for body in bodies)
    assert not any(re.search(r"bytes -", body) for body in bodies)
    assert ">byte of the passage<" in about(material, material.table.keys[1])
    assert ">byte of the document<" in about(material, material.table.keys[0])


def test_only_averages_over_something_impossible_are_infinite(tmp_path: Path) -> None:
    text = f"{poem(150).replace('five', 'sky')} five {poem(150, seed=1).replace('five', 'sky')}"
    page = shown(run_of(tmp_path, text, model=Reader({**PROBS, "five": 0.0})))
    assert "takes infinitely many bits, and so does every average over it." in page
    rows = re.findall(r"<tr>(.*?)</tr>", page[page.index(">from byte<") :])
    cells = [re.findall(r"<td[^>]*>([^<]*)</td>", row) for row in rows]
    assert any(row[2] != "—" and row[3] == "—" for row in cells if len(row) == 4), "a later block is finite"


def test_the_hardest_are_said_to_be_of_those_that_are_listed() -> None:
    figures = {"reason": None, "bytes": 9, "impossible": 0}
    listed = [{"document": f"d{i}", "bits_per_byte": 1.0 + i, **figures} for i in range(3)]
    found = by_document({"documents": listed, "documents_left_out": 2_000, "corpus": None})
    assert found is not None
    assert found.lead.startswith(
        "The hardest first of the first 3 documents; 2,000 more are in documents.csv. Fewer bits"
    )


def test_crumbs_of_blocks_are_not_compared_with_blocks(tmp_path: Path) -> None:
    material = run_of(tmp_path, "a " * 4000, model=Reader(0.5, passage_tokens=130))
    found = stretches(material.table)
    assert found.bytes.min() >= 128


def test_a_run_that_kept_no_text_says_so(tmp_path: Path) -> None:
    material = surprising(tmp_path)
    path = tmp_path / "run" / "samples.jsonl"
    path.write_text(re.sub(r'"evidence":\{.*\}\}', '"evidence":{}}', path.read_text()))
    material = material_of(tmp_path / "run")
    found = pages.picks(material, 1)
    assert found is not None
    assert "was not kept" in str(fragment[found.surely_wrong[0].body])
    assert "was not kept" in about(material, material.table.keys[0])


# -- the page of a passage --------------------------------------------------------------------------------------------


def test_the_page_of_a_passage_has_its_tokens_blocks_and_figures(tmp_path: Path) -> None:
    material = surprising(tmp_path)
    page = about(material, material.table.keys[0])
    assert page.count('class="tok ') == 501 + 5, "every token, and the legend"
    assert "&lt;b&gt;rare&lt;/b&gt;" in page
    assert "<b>rare" not in page
    assert "bits per byte along the passage" in page.lower()
    assert "infinite" not in page


def test_the_page_of_a_passage_that_failed_says_why(tmp_path: Path) -> None:
    page = about(run_of(tmp_path, "b", model=Reader(0.5, fail="b")), "~")
    assert "too_hard" in page
    assert "said so on paper" in page


def test_pieces_of_one_character_are_read_as_one() -> None:
    tokens: Any = ("a", "\ufffd", "\ufffd", "!")
    found = TokenLogprobs(tokens, np.array([-1, -2, -3, -4]) * LN2, (b"a", b"\xc3", b"\xa9", b"!"))
    shades = readable_shades_of(found)
    assert [one.text for one in shades] == ["a", "é", "!"]
    assert [one.bits for one in shades] == pytest.approx([1, 5, 4])
    broken = TokenLogprobs(("\ufffd",), np.array([-LN2]), (b"\xc3",))
    assert [one.text for one in readable_shades_of(broken)] == ["\ufffd"]
