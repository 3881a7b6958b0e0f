"""Perplexity as it is shown: in a terminal, on pages, two models compared, a trained model; texts that mean harm."""

from __future__ import annotations

import io
import json
import math
import re
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

import howsure
from howsure.evidence import TokenLogprobs
from howsure.report import progress as progress_module
from howsure.report.document import Value
from howsure.report.perplexity import row, trained
from howsure.report.perplexity_blocks import along, begin_bytes, longest, stretches
from howsure.report.progress import BarProgress, LineProgress
from howsure.report.run_data import StoredRun
from howsure.report.run_report import report_of
from howsure.report.text import figure, value_with_interval
from howsure.report.tokens import readable_shades_of
from howsure.runs import Sample
from howsure.studies.perplexity.record import Blocks, PerplexityRecord
from howsure.studies.perplexity.study import ReadSoFar
from report.rendered import about, body, cards, page, printed, stored
from studies.readers import BYTES, PROBS, Reader, poem, put, write_arpa

WIDTHS = pytest.mark.parametrize("width", [80, 200])


def in_one_line(shown: str) -> str:
    return " ".join(shown.split())


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("pair")
    path = put(folder / "t.jsonl", *(poem(200 + 50 * i, seed=i) for i in range(6)), "fox fail")
    first = Reader(PROBS, name="first", vocabulary=frozenset(PROBS) - {"sky"}, fail="fail")
    return howsure.perplexity(path, first, model_b=Reader(0.2, name="second"), out=folder / "out")


@WIDTHS
def test_a_run_fits_its_width_and_says_what_to_compare_by(pair: Any, width: int) -> None:
    shown = printed(pair.a, width)
    *body, last = shown.splitlines()
    assert last.startswith("run folder: ")
    assert max(map(cell_len, body)) <= width
    corpus, ends = pair.a.summary.corpus, pair.a.summary.intervals_bits
    bits = str(Value(corpus.bits_per_byte, "", ends["byte"].low, ends["byte"].high, True, decimals=4))
    for words in (
        "bits per byte", "perplexity per word", "perplexity per token", "95% interval",
        "coverage", "scored 6 of 7; 1 missing: 1 too hard",
        f"per token {corpus.tokens:,} ", f"per byte {corpus.bytes:,} ",
        f"per known token {corpus.tokens - corpus.oov:,} ",
        bits if width > 80 else "bits",
        f"{corpus.perplexity_per_byte:.4f}",
        f"too low: {corpus.oov} unknown words)",
        "Compare models by bits per byte: what a token is, each model decides for itself.",
        "Which texts surprise the model", "said so on paper of fail",
        f"note: {corpus.oov} of {corpus.tokens:,} tokens are words that the model does not know",
    ):  # fmt: skip
        assert words in in_one_line(shown), words


@WIDTHS
def test_a_comparison_fits_its_width_and_is_per_byte(pair: Any, width: int) -> None:
    shown = printed(pair.comparison, width)
    assert max(map(cell_len, shown.splitlines())) <= width
    difference = pair.comparison["difference"]
    for words in (
        "B − A (95 %", "first", "second",
        Value.at(difference, "bits_per_byte", "bits", is_difference=True).text(narrow=width < 110),
        "Compare models by bits per byte: what a token is, each model decides for itself.", "6 in both",
        "document, largest difference first", "note: 1 of 7 documents were not read by both",
        "which flatters it",
    ):  # fmt: skip
        assert words in in_one_line(shown), words
    lines = [line.split()[0] for line in shown.splitlines() if line.startswith("t") and line[1].isdigit()]
    moved = {row["document"]: abs(row["difference"]) for row in pair.comparison["documents"]}
    assert lines == sorted(moved, key=lambda name: -moved[name])


@WIDTHS
@pytest.mark.parametrize(("count", "which"), [(1, "this text"), (3, "these 3 texts")])
def test_few_texts_are_said_to_be_these_texts_only(tmp_path: Path, count: int, which: str, width: int) -> None:
    path = put(tmp_path / "t.jsonl", *(poem(900, seed=i) for i in range(count)))
    found = howsure.perplexity(path, Reader(PROBS), model_b=Reader(0.2, name="b"), out=tmp_path / "both")
    shown = in_one_line(printed(found.a, width))
    assert shown.count(f"of {which} only; an interval takes 5 documents") == 3
    assert "interval " not in shown.replace("an interval takes", "")
    bits = found.a.summary["headline"][0]
    in_a_list = figure(bits)
    assert in_a_list.endswith(f"bits (of {which} only; an interval takes 5 documents)")
    compared = in_one_line(printed(found.comparison, width))
    difference = found.comparison["difference"]["bits_per_byte"]
    assert f"{difference:+.4f} bits perplexity per word" in compared
    assert f"B − A: of {which} only; an interval takes 5 documents" in compared


def test_which_tokens_count_is_said_where_a_model_has_ends_of_sentences(tmp_path: Path) -> None:
    path = put(tmp_path / "t.jsonl", "a b\nb a\n")
    shown = printed(howsure.perplexity(path, write_arpa(tmp_path), out=tmp_path / "run"), 120)
    assert "The 2 sentence ends (</s>) count per token and byte, not per word." in shown
    shown = printed(howsure.perplexity(path, Reader(0.5), out=tmp_path / "plain"), 120)
    assert "</s>" not in shown


def test_documents_are_shown_hardest_first_and_the_others_counted(tmp_path: Path) -> None:
    words = sorted(PROBS, key=lambda word: PROBS[word])
    path = put(tmp_path / "t.jsonl", *(f"{word} " * 3 for word in words if word), *(["the"] * 20))
    result = howsure.perplexity(path, Reader(PROBS), out=tmp_path / "run")
    shown = printed(result, 120)
    bits = {row["document"]: row["bits_per_byte"] for row in result.summary["documents"]}
    lines = [line.split()[0] for line in shown.splitlines() if line.startswith("t") and line[1].isdigit()]
    assert lines == sorted(bits, key=lambda name: -bits[name])[:20]
    assert "and 12 more rows in documents.csv" in shown
    assert "of the first" not in shown


def test_a_list_that_was_cut_does_not_promise_the_hardest_of_all(tmp_path: Path) -> None:
    result = howsure.perplexity(put(tmp_path / "t.jsonl", *["a"] * 1100), Reader(0.5), out=tmp_path / "run")
    shown = printed(result, 120)
    assert "and 980 more rows in documents.csv" in shown
    html = page(stored(tmp_path / "run"))
    assert "The hardest first of the first 1,000 documents; 100 more are in documents.csv." in html


def test_one_document_needs_no_list_and_what_is_missing_is_a_dash(tmp_path: Path) -> None:
    result = howsure.perplexity(put(tmp_path / "t.jsonl", " \n"), Reader(0.5), out=tmp_path / "run")
    shown = in_one_line(printed(result, 80))
    assert "Which texts" not in shown
    assert "per word 0 — —" in shown
    assert "perplexity per word — (there are none)" in shown
    assert "per known token" not in shown


def test_infinite_figures_are_dashes_with_their_note(tmp_path: Path) -> None:
    path = put(tmp_path / "t.jsonl", "a never", "a", "never")
    pair = howsure.perplexity(
        path, Reader({"a": 0.5, "never": 0.0}, name="a"), model_b=Reader(0.5, name="b"), out=tmp_path / "both"
    )
    shown = in_one_line(printed(pair.a, 80))
    assert "per token 4 — —" in shown
    assert "bits per byte — (infinite: 2 tokens of probability zero)" in shown
    assert "note: 2 of 4 tokens have probability zero" in shown
    assert "inf" not in shown.replace("infinite", "")
    compared = in_one_line(printed(pair.comparison, 80))
    assert "bits per byte — 0.3077 —" in compared
    assert "note: A gives 2 tokens probability zero, so that no difference can be given" in compared


def test_nothing_read_shows_why(tmp_path: Path) -> None:
    path = put(tmp_path / "t.jsonl", *["fail"] * 7)
    shown = printed(howsure.perplexity(path, Reader(0.5, fail="fail"), out=tmp_path / "run"), 80)
    assert "bits per byte  —" in shown
    assert shown.count("said so on paper of fail") == 5
    assert "and 2 more rows in documents.csv" in shown


def test_a_perplexity_beyond_reading_is_shortened(tmp_path: Path) -> None:
    """Text without spaces is one word: 2 to the power of 360."""
    result = howsure.perplexity(put(tmp_path / "t.jsonl", "数字" * 60), Reader(0.5, pattern=BYTES), out=tmp_path / "r")
    shown = printed(result, 80)
    assert shown.count("2.349e+108") == 2
    assert max(map(cell_len, shown.splitlines()[:-1])) <= 80
    assert value_with_interval({"value": 9e6, "unit": "", "low": 1.0, "high": 2e7}) == "9,000,000 (1 to 2e+07)"


# -- names from outside -------------------------------------------------------------------------------------------

HOSTILE = [
    "\x1b[2J\x1b]0;owned\x07 cleared",
    "[red]markup[/red] [/] [link=http://x]y[/link]",
    "\u202etxt.exe\u2066 \u200f",
    "a\nb\r\tc\x00d\x85e",
    "宽" * 100,
    "x" * 1_000_000,
]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Every name twice: once on a text that can be read, once on one that fails."""
    folder = tmp_path_factory.mktemp("hostile")
    path = folder / "t.jsonl"
    rows = [{"id": name, "text": "fox"} for name in HOSTILE]
    rows += [{"id": f"{name}!", "text": "fox fail"} for name in HOSTILE[:5]]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    first = Reader(PROBS, name="\x1b[31m[bold]first", fail="fail")
    return howsure.perplexity(path, first, model_b=Reader(0.2, name="second"), out=folder / "out")


@pytest.mark.parametrize("terminal", [False, True])
@WIDTHS
def test_no_name_of_a_document_can_break_the_output(hostile: Any, width: int, terminal: bool) -> None:
    for result in (hostile.a, hostile.comparison):
        shown = printed(result, width, is_terminal=terminal)
        assert len(shown) < 20_000
        for sign in ("\x1b[2J", "\x1b]0", "\x1b[31m[bold]", "\x07", "\x00", "\r", "\x85", "\u202e", "\u2066", "\u200f"):
            assert sign not in shown
        assert "[red]markup[/red]" in shown, "markup is shown and not obeyed"
        assert "a⏎b␍␉c␀d\\u0085e" in shown
        assert "\\u202etxt.exe\\u2066" in shown
        if not terminal:
            assert "\x1b" not in shown
            lines = [line for line in shown.splitlines() if not line.startswith("run folder")]
            assert max(map(cell_len, lines)) <= width


def test_an_endless_name_of_what_failed_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps({"id": "x" * 1_000_000, "text": "fail"}) + "\n")
    shown = printed(howsure.perplexity(path, Reader(0.5, fail="fail"), out=tmp_path / "run"), 1000)
    assert len(shown) < 3000
    assert "said so on paper of fail" in shown


# -- a trained model ----------------------------------------------------------------------------------------------


def test_a_trained_model_shows_its_counts_discounts_and_how_to_use_it(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(poem(400))
    model = howsure.train_ngram(tmp_path / "t.txt", tmp_path / "m.arpa", order=2, discount_fallback=True)
    shown = printed(trained(model))
    lines = shown.splitlines()
    words = f"{model.words:,} words in {model.sentences:,} sentences"
    assert lines[0].startswith(f"modified-kneser-ney, order 2: {words}, ")
    assert lines[2].split()[:2] == ["1", f"{model.ngrams[0]:,}"]
    assert lines[3].split()[:2] == ["2", f"{model.ngrams[1]:,}"]
    assert lines[2].count(",") == 2, "three discounts"
    assert lines[-1] == f"use it as --model ngram:{tmp_path}/m.arpa"
    plain = howsure.train_ngram(tmp_path / "t.txt", tmp_path / "m.arpa", order=1, smoothing="witten-bell")
    assert printed(trained(plain)).splitlines()[2].split()[-1] == "—"
    hostile = printed(trained(msgspec.structs.replace(plain, model="ngram:\x1b[2J[red]x")))
    assert hostile.splitlines()[-1] == "use it as --model ngram:␛[2J[red]x"


# -- how far it is ------------------------------------------------------------------------------------------------


def sample(i: int, size: int, nats: float | None, impossible: int = 0) -> Sample:
    record = PerplexityRecord(document="d", part=i, last=False)
    if nats is None:
        return Sample(f"0#{i}", 0, record, reason="too_hard", detail="")
    record.blocks = Blocks(first=0, nats=[nats], tokens=[1], words=[1], bytes=[size], impossible=[impossible])
    return Sample(f"0#{i}", 0, record)


@pytest.mark.parametrize("kind", [LineProgress, BarProgress])
def test_progress_is_in_kilobytes_with_bits_per_byte(kind: type) -> None:
    stream = io.StringIO()
    progress = kind(Console(file=stream, force_terminal=kind is BarProgress, width=150))
    progress.start("perplexity", 3, [sample(0, 1000, 0.0)], ReadSoFar())
    progress.advance([sample(1, 1500, 5000 * 0.6931471805599453)])
    progress.stop()
    shown = stream.getvalue()
    assert "2.000 bits per byte" in shown, "5,000 bits over 2,500 bytes"
    assert "3 of 3 kB" in shown or "3/3" in shown
    assert "kB/s" in shown


def test_progress_is_infinite_from_the_first_impossible_token_on() -> None:
    progress = ReadSoFar()
    progress.add([sample(0, 1000, 500.0)])
    assert progress.text == "0.721 bits per byte"
    progress.add([sample(1, 1000, 500.0, impossible=1)])
    assert progress.text == "infinite bits per byte (1 token of probability zero)"
    progress.add([sample(2, 1000, 500.0, impossible=2)])
    assert progress.text == "infinite bits per byte (3 tokens of probability zero)"


def test_lines_end_with_how_far_it_came_though_something_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 11.0, 11.0, 12.0, 13.0])
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: next(clock))
    stream = io.StringIO()
    progress = LineProgress(Console(file=stream, width=150))
    progress.start("perplexity", 10, [sample(0, 2000, 0.0)], ReadSoFar())
    for i, nats in ((1, 0.0), (2, 0.0), (3, None)):
        progress.advance([sample(i, 1000, nats)])
    progress.stop()
    progress.stop()
    assert stream.getvalue().splitlines() == [
        "perplexity: resuming at 2 of 10 kB",
        "perplexity: 4 of 10 kB, 0.2 kB/s, about 33 s left, 0.000 bits per byte",
        "perplexity: 4 of 10 kB, 0.2 kB/s, 0.000 bits per byte, 1 failed",
    ]


# -- pages ------------------------------------------------------------------------------------------------------------

LN2 = math.log(2)


def run_of(tmp_path: Path, *texts: str, model: Reader | None = None) -> StoredRun:
    tmp_path.mkdir(exist_ok=True)
    howsure.perplexity(put(tmp_path / "t.jsonl", *texts), model or Reader(PROBS), out=tmp_path / "run")
    return stored(tmp_path / "run")


# -- rows and blocks --------------------------------------------------------------------------------------------------


def test_a_row_has_the_figures_of_its_passage() -> None:
    blocks = Blocks(first=3, nats=[4 * LN2, 2 * LN2], tokens=[2, 1], words=[1, 1], bytes=[5, 3], impossible=[0, 0])
    known = row(Sample("0#1", 0, PerplexityRecord(document="d", part=1, last=True, blocks=blocks)))
    assert (known["tokens"], known["words"], known["bytes"], known["impossible"]) == (3, 2, 8, 0)
    assert known["bits_per_byte"] == pytest.approx(6 / 8)
    assert known["bits_per_token"] == pytest.approx(2)
    assert known["perplexity_per_token"] == pytest.approx(4)
    assert known["perplexity_per_word"] == pytest.approx(8)
    assert (known["_first"], known["_bytes"]) == (3, (5, 3))


def test_a_row_with_something_impossible_or_nothing_has_no_bits() -> None:
    blocks = Blocks(first=0, nats=[1.0], tokens=[2], words=[0], bytes=[5], impossible=[1])
    record = PerplexityRecord(document="d", part=0, last=True, blocks=blocks)
    assert "bits_per_byte" not in row(Sample("0#0", 0, record))
    failed = Sample("0#0", 0, msgspec.structs.replace(record, blocks=None), reason="too_hard", detail="no")
    assert row(failed) == {"document": "d", "part": 0, "_last": True}


def test_passages_begin_where_those_before_them_end(tmp_path: Path) -> None:
    run = run_of(tmp_path, poem(50), poem(30, seed=1), model=Reader(PROBS, passage_tokens=20))
    begins = begin_bytes(run.table)
    length = run.table.numbers("bytes")
    assert begins[0] == 0
    assert begins[1] == length[0]
    assert begins[2] == length[0] + length[1]
    assert [begins[row] for row in np.flatnonzero(run.table.numbers("part") == 0)] == [0, 0]


def test_after_a_passage_that_failed_no_place_is_known(tmp_path: Path) -> None:
    run = run_of(tmp_path, "a a b a a a", model=Reader(0.5, passage_tokens=2, fail="b"))
    assert np.isfinite(begin_bytes(run.table)).tolist() == [True, False, False]
    document = along(run.table, 0)
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
    assert first.running_bits[-1] == pytest.approx(whole.summary.corpus.bits_per_byte)


def test_the_longest_documents_come_first(tmp_path: Path) -> None:
    run = run_of(tmp_path, *(poem(n, seed=n) for n in (20, 200, 100, 300)))
    assert [one.name for one in longest(run.table, 2)] == ["t3", "t1"]


# -- plots ------------------------------------------------------------------------------------------------------------


def test_the_line_ends_at_the_figure_of_the_document(tmp_path: Path) -> None:
    run = run_of(tmp_path, poem(400))
    shown = page(run)
    assert run.summary is not None
    final = run.summary.corpus.bits_per_byte
    assert f"ends at {final:.3f} (dashed)" in shown
    assert "Which texts surprise" not in shown, "one document is beside no other"
    assert "Per token, per word, per byte" in shown


def test_documents_stand_beside_each_other_the_hardest_first(tmp_path: Path) -> None:
    model = Reader({"a": 1 / 2, "b": 1 / 16, "c": 0.0, "d": 1 / 4})
    shown = page(run_of(tmp_path, "a a a", "b b b", "c", "d d", model=model))
    assert re.findall(r">(t\d)</text>", shown) == ["t2", "t1", "t3", "t0"]
    assert "1 impossible" in shown


def test_documents_are_dots_and_all_of_them_together_have_the_interval(tmp_path: Path) -> None:
    run = run_of(tmp_path, *(poem(300 + 40 * i, seed=i) for i in range(6)))
    assert run.summary is not None
    shown = page(run)
    caption = shown[shown.index("Bits per byte by document") :]
    assert "interval" not in caption[: caption.index("</figcaption>")]
    ends = run.summary.intervals_bits["byte"]
    assert str(Value(run.summary.corpus.bits_per_byte, "", ends.low, ends.high, True, decimals=4)) in shown
    few = page(run_of(tmp_path / "few", poem(300), poem(300, seed=1)))
    told = few[few.index("Per token, per word, per byte") :]
    assert "Of these 2 texts only; an interval takes 5 documents." in told
    assert "95 % interval" not in told


def test_ends_of_sentences_are_no_words_on_the_page_of_a_passage_either(tmp_path: Path) -> None:
    howsure.perplexity(put(tmp_path / "t.jsonl", "a b\nx a\n"), write_arpa(tmp_path), out=tmp_path / "run")
    run = stored(tmp_path / "run")
    assert row(run.sample(0))["perplexity_per_word"] == pytest.approx(10 ** (3.375 / 4))
    assert "The 2 sentence ends (&lt;/s&gt;) count per token and byte, not per word." in page(run)


def test_a_run_in_progress_shows_what_is_there(tmp_path: Path) -> None:
    run = run_of(tmp_path, poem(400))
    run.summary, run.status = None, "running"
    shown = page(run)
    assert "Does the figure settle?" in shown
    assert "Per token" not in shown


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
    run = run_of(tmp_path, *texts, model=model)
    shown = report_of([tmp_path / "run"]) + page(run)
    assert "nan" not in shown.replace("nanmean", "")
    assert "does not hold" not in shown
    assert "do not hold" not in shown
    assert all(about(run, key) for key in run.table.keys)


# -- what surprised it ------------------------------------------------------------------------------------------------


def surprising(tmp_path: Path) -> StoredRun:
    """In the middle of plain words, a stretch of rare ones."""
    text = "plain " * 200 + "<b>rare</b> " * 100 + "plain " * 200
    return run_of(tmp_path, text, model=Reader({"plain": 0.9, "<b>rare</b>": 0.001, "": 0.9}))


def test_the_most_and_the_least_surprising_stretches_with_their_text(tmp_path: Path) -> None:
    run = surprising(tmp_path)
    surely, doubtfully = cards(run)
    hard, easy = ([body(card) for card in side[:2]] for side in (surely, doubtfully))
    assert all("&lt;b&gt;rare&lt;/b&gt;" in one for one in hard)
    assert all("rare" not in one for one in easy)
    assert all(card.right is None for card in surely), "a text has no right and wrong"
    begin = re.search(r"bytes ([\d,]+) to", hard[0])
    assert begin is not None
    assert 1100 <= int(begin[1].replace(",", "")) <= 2500


def test_one_document_does_not_fill_a_side(tmp_path: Path) -> None:
    model = Reader({"a": 0.5, "b": 0.01, "": 0.5})
    run = run_of(tmp_path, "b " * 2000, "a " * 2000, "a " * 1000, model=model)
    surely, _doubtfully = cards(run)
    assert [card.title for card in surely].count("t0") == 2


def test_no_stretch_is_both_the_most_and_the_least_surprising(tmp_path: Path) -> None:
    surely, doubtfully = cards(run_of(tmp_path, poem(60), poem(1_000, seed=1), poem(60, seed=2)))
    sides = [{f"{card.title} {body(card)}" for card in side} for side in (surely, doubtfully)]
    assert all(sides)
    assert not sides[0] & sides[1]


def test_a_stretch_that_is_shown_whole_has_no_dots_and_what_is_impossible_is_said_in_words(tmp_path: Path) -> None:
    surely, doubtfully = cards(run_of(tmp_path, "sky blue", "five", model=Reader({**PROBS, "five": 0.0})))
    (hard,), (easy,) = surely, doubtfully
    assert hard.verdict == "1 token of probability 0"
    assert ">sky blue<" in body(easy)


def test_what_comes_after_a_line_that_is_lost_says_that_its_place_is_not_known(tmp_path: Path) -> None:
    run = run_of(tmp_path, poem(400), model=Reader(PROBS, passage_tokens=80))
    path = run.folder / "samples.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], *lines[2:]]))
    run = stored(run.folder)
    surely, doubtfully = cards(run)
    bodies = [body(card) for card in (*surely, *doubtfully)]
    assert any("bytes, after a passage that is missing" in body for body in bodies)
    assert not any(re.search(r"bytes -", body) for body in bodies)
    assert ">byte of the passage<" in about(run, run.table.keys[1])
    assert ">byte of the document<" in about(run, run.table.keys[0])


def test_only_averages_over_something_impossible_are_infinite(tmp_path: Path) -> None:
    text = f"{poem(150).replace('five', 'sky')} five {poem(150, seed=1).replace('five', 'sky')}"
    shown = page(run_of(tmp_path, text, model=Reader({**PROBS, "five": 0.0})))
    assert "takes infinitely many bits, and so does every average over it." in shown
    rows = re.findall(r"<tr>(.*?)</tr>", shown[shown.index(">from byte<") :])
    cells = [re.findall(r"<td[^>]*>([^<]*)</td>", row) for row in rows]
    assert any(row[2] != "—" and row[3] == "—" for row in cells if len(row) == 4), "a later block is finite"


def test_crumbs_of_blocks_are_not_compared_with_blocks(tmp_path: Path) -> None:
    run = run_of(tmp_path, "a " * 4000, model=Reader(0.5, passage_tokens=130))
    found = stretches(run.table)
    assert found.bytes.min() >= 128


def test_a_run_that_kept_no_text_says_so(tmp_path: Path) -> None:
    run = surprising(tmp_path)
    path = tmp_path / "run" / "samples.jsonl"
    path.write_text(re.sub(r'"evidence":\{.*\}\}', '"evidence":{}}', path.read_text()))
    run = stored(tmp_path / "run")
    surely, _doubtfully = cards(run)
    assert "was not kept" in body(surely[0])
    assert "was not kept" in about(run, run.table.keys[0])


# -- the page of a passage --------------------------------------------------------------------------------------------


def test_the_page_of_a_passage_has_its_tokens_blocks_and_figures(tmp_path: Path) -> None:
    run = surprising(tmp_path)
    shown = about(run, run.table.keys[0])
    assert shown.count('class="tok ') == 501 + 5, "every token, and the legend"
    assert "&lt;b&gt;rare&lt;/b&gt;" in shown
    assert "<b>rare" not in shown
    assert "bits per byte along the passage" in shown.lower()
    assert "infinite" not in shown


def test_the_page_of_a_passage_that_failed_says_why(tmp_path: Path) -> None:
    shown = about(run_of(tmp_path, "b", model=Reader(0.5, fail="b")), "~")
    assert "too_hard" in shown
    assert "said so on paper" in shown


def test_pieces_of_one_character_are_read_as_one() -> None:
    tokens: Any = ("a", "\ufffd", "\ufffd", "!")
    found = TokenLogprobs(tokens, np.array([-1, -2, -3, -4]) * LN2, (b"a", b"\xc3", b"\xa9", b"!"))
    shades = readable_shades_of(found)
    assert [one.text for one in shades] == ["a", "é", "!"]
    assert [one.bits for one in shades] == pytest.approx([1, 5, 4])
    broken = TokenLogprobs(("\ufffd",), np.array([-LN2]), (b"\xc3",))
    assert [one.text for one in readable_shades_of(broken)] == ["\ufffd"]
