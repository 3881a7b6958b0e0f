"""A perplexity run, a comparison of two and a trained model as they are printed."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

import howsure
from howsure.report import progress as progress_module
from howsure.report.perplexity import print_comparison, print_perplexity, print_trained
from howsure.report.progress import BarProgress, LineProgress
from howsure.report.text import figure, value_with_interval
from howsure.runs import Sample
from howsure.studies.perplexity.record import Blocks, PerplexityRecord
from howsure.studies.perplexity.study import ReadSoFar
from studies.readers import BYTES, PROBS, Reader, poem, put, write_arpa

Show = Callable[[Console], None]
WIDTHS = pytest.mark.parametrize("width", [80, 200])


def printed(show: Show, width: int, *, terminal: bool = False) -> str:
    stream, colours = io.StringIO(), "truecolor" if terminal else None
    show(Console(file=stream, width=width, force_terminal=terminal, color_system=colours))
    return stream.getvalue()


def shown_run(result: Any) -> Show:
    return lambda console: print_perplexity(console, result.summary, result.run)


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
    shown = printed(shown_run(pair.a), width)
    *body, last = shown.splitlines()
    assert last.startswith("run folder: ")
    assert max(map(cell_len, body)) <= width
    corpus, ends = pair.a.summary["corpus"], pair.a.summary["intervals_bits"]
    for words in (
        "bits per byte", "perplexity per word", "perplexity per token", "95% interval",
        "coverage", "scored 6 of 7; 1 missing: 1 too hard",
        f"per token {corpus['tokens']:,} {corpus['bits_per_token']:.4f} {corpus['perplexity_per_token']:.4f}",
        f"per byte {corpus['bytes']:,} {corpus['bits_per_byte']:.4f} {corpus['perplexity_per_byte']:.4f}",
        f"about {ends['byte']['low']:.4f} to {ends['byte']['high']:.4f}",
        f"per known token {corpus['tokens'] - corpus['oov']:,} {corpus['bits_per_token_without_oov']:.4f}",
        f"too low: {corpus['oov']} unknown words)",
        "compare models by bits per byte; what a token is, each model decides for itself",
        "document, hardest first", "failed t6: said so on paper of fail",
        f"note: {corpus['oov']} of {corpus['tokens']:,} tokens are words that the model does not know",
    ):  # fmt: skip
        assert words in in_one_line(shown), words


@WIDTHS
def test_a_comparison_fits_its_width_and_is_per_byte(pair: Any, width: int) -> None:
    shown = printed(lambda console: print_comparison(console, pair.comparison), width)
    assert max(map(cell_len, shown.splitlines())) <= width
    difference = pair.comparison["difference"]
    for words in (
        "B − A (95% interval, paired)", "first", "second",
        f"{difference['bits_per_byte']:+.4f} bits (about {difference['low']:+.4f} to {difference['high']:+.4f})",
        "compared per byte: what a token is, each model decides for itself", "6 in both",
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
    shown = in_one_line(printed(shown_run(found.a), width))
    assert shown.count(f"of {which} only; an interval takes 5 documents") == 3
    assert "interval " not in shown.replace("an interval takes", "")
    bits = found.a.summary["headline"][0]
    in_a_list = figure(bits)
    assert in_a_list.endswith(f"bits (of {which} only; an interval takes 5 documents)")
    compared = in_one_line(printed(lambda console: print_comparison(console, found.comparison), width))
    difference = found.comparison["difference"]["bits_per_byte"]
    assert f"{difference:+.4f} bits perplexity per word" in compared
    assert f"B − A: of {which} only; an interval takes 5 documents" in compared


def test_which_tokens_count_is_said_where_a_model_has_ends_of_sentences(tmp_path: Path) -> None:
    path = put(tmp_path / "t.jsonl", "a b\nb a\n")
    shown = printed(shown_run(howsure.perplexity(path, write_arpa(tmp_path), out=tmp_path / "run")), 120)
    assert "the 2 sentence ends (</s>) count per token and per byte, not per word" in shown
    shown = printed(shown_run(howsure.perplexity(path, Reader(0.5), out=tmp_path / "plain")), 120)
    assert "</s>" not in shown


def test_documents_are_shown_hardest_first_and_the_others_counted(tmp_path: Path) -> None:
    words = sorted(PROBS, key=lambda word: PROBS[word])
    path = put(tmp_path / "t.jsonl", *(f"{word} " * 3 for word in words if word), *(["the"] * 20))
    result = howsure.perplexity(path, Reader(PROBS), out=tmp_path / "run")
    shown = printed(shown_run(result), 120)
    bits = {row["document"]: row["bits_per_byte"] for row in result.summary["documents"]}
    lines = [line.split()[0] for line in shown.splitlines() if line.startswith("t") and line[1].isdigit()]
    assert lines == sorted(bits, key=lambda name: -bits[name])[:20]
    assert "and 12 more in documents.csv" in shown
    assert "of the first" not in shown


def test_a_list_that_was_cut_does_not_promise_the_hardest_of_all(tmp_path: Path) -> None:
    result = howsure.perplexity(put(tmp_path / "t.jsonl", *["a"] * 1100), Reader(0.5), out=tmp_path / "run")
    shown = printed(shown_run(result), 120)
    assert "document, hardest first of the first 1,000" in shown
    assert "and 1,080 more in documents.csv" in shown


def test_one_document_needs_no_list_and_what_is_missing_is_a_dash(tmp_path: Path) -> None:
    result = howsure.perplexity(put(tmp_path / "t.jsonl", " \n"), Reader(0.5), out=tmp_path / "run")
    shown = in_one_line(printed(shown_run(result), 80))
    assert "hardest" not in shown
    assert "per word 0 — —" in shown
    assert "perplexity per word — (there are none)" in shown
    assert "per known token" not in shown


def test_infinite_figures_are_dashes_with_their_note(tmp_path: Path) -> None:
    path = put(tmp_path / "t.jsonl", "a never", "a", "never")
    pair = howsure.perplexity(
        path, Reader({"a": 0.5, "never": 0.0}, name="a"), model_b=Reader(0.5, name="b"), out=tmp_path / "both"
    )
    shown = in_one_line(printed(shown_run(pair.a), 80))
    assert "per token 4 — —" in shown
    assert "bits per byte — (infinite: 2 tokens of probability zero)" in shown
    assert "note: 2 of 4 tokens have probability zero" in shown
    assert "inf" not in shown.replace("infinite", "")
    compared = in_one_line(printed(lambda console: print_comparison(console, pair.comparison), 80))
    assert "bits per byte — 0.3077 —" in compared
    assert "note: A gives 2 tokens probability zero, so that no difference can be given" in compared


def test_nothing_read_shows_why(tmp_path: Path) -> None:
    path = put(tmp_path / "t.jsonl", *["fail"] * 7)
    shown = printed(shown_run(howsure.perplexity(path, Reader(0.5, fail="fail"), out=tmp_path / "run")), 80)
    assert "bits per byte  —" in shown
    assert shown.count("said so on paper of fail") == 5
    assert "and 2 more failed, see documents.csv" in shown


def test_a_perplexity_beyond_reading_is_shortened(tmp_path: Path) -> None:
    """Text without spaces is one word: 2 to the power of 360."""
    result = howsure.perplexity(put(tmp_path / "t.jsonl", "数字" * 60), Reader(0.5, pattern=BYTES), out=tmp_path / "r")
    shown = printed(shown_run(result), 80)
    assert shown.count("2.349e+108") == 2
    assert max(map(cell_len, shown.splitlines()[:-1])) <= 80
    assert value_with_interval({"value": 9e6, "unit": "", "low": 1.0, "high": 2e7}) == "9000000.000 (1.000 to 2e+07)"


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
    shows: list[Show] = [shown_run(hostile.a), lambda console: print_comparison(console, hostile.comparison)]
    for show in shows:
        shown = printed(show, width, terminal=terminal)
        assert len(shown) < 20_000
        for sign in ("\x1b[2J", "\x1b]0", "\x1b[31m[bold]", "\x07", "\x00", "\r", "\x85", "\u202e", "\u2066", "\u200f"):
            assert sign not in shown
        assert "[red]markup[/red]" in shown, "markup is shown and not obeyed"
        assert "a⏎b␍␉c␀d\\u0085e" in shown
        assert "\\u202etxt.exe\\u2066" in shown
        if not terminal:
            assert "\x1b" not in shown
            body = [line for line in shown.splitlines() if not line.startswith("run folder")]
            assert max(map(cell_len, body)) <= width
    failed = printed(shown_run(hostile.a), 80, terminal=terminal)
    assert "failed ␛[2J␛]0;owned␇ cleared!: said so on paper of fail" in failed


def test_an_endless_name_of_what_failed_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps({"id": "x" * 1_000_000, "text": "fail"}) + "\n")
    shown = printed(shown_run(howsure.perplexity(path, Reader(0.5, fail="fail"), out=tmp_path / "run")), 1000)
    assert len(shown) < 3000
    assert f"failed {'x' * 300}…: said so on paper of fail" in shown


# -- a trained model ----------------------------------------------------------------------------------------------


def test_a_trained_model_shows_its_counts_discounts_and_how_to_use_it(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(poem(400))
    trained = howsure.train_ngram(tmp_path / "t.txt", tmp_path / "m.arpa", order=2, discount_fallback=True)
    shown = printed(lambda console: print_trained(console, trained), 120)
    lines = shown.splitlines()
    words = f"{trained['words']:,} words in {trained['sentences']:,} sentences"
    assert lines[0].startswith(f"modified-kneser-ney, order 2: {words}, ")
    assert lines[2].split()[:2] == ["1", f"{trained['ngrams'][0]:,}"]
    assert lines[3].split()[:2] == ["2", f"{trained['ngrams'][1]:,}"]
    assert lines[2].count(",") == 2, "three discounts"
    assert lines[-1] == f"use it as --model ngram:{tmp_path}/m.arpa"
    plain = howsure.train_ngram(tmp_path / "t.txt", tmp_path / "m.arpa", order=1, smoothing="witten-bell")
    assert printed(lambda console: print_trained(console, plain), 120).splitlines()[2].split()[-1] == "—"
    hostile = printed(lambda console: print_trained(console, plain | {"model": "ngram:\x1b[2J[red]x"}), 120)
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
