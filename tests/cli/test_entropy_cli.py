"""`howsure entropy` and `howsure theorem` within this process: what they print, and what they refuse."""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
import math
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from howsure.cli.app import app
from howsure.report.entropy import document
from howsure.report.terminal import print_document
from howsure.studies.entropy import Text, cross_entropy_of_text, entropy_of_text
from howsure.studies.theorem import theorem
from studies.readers import write_arpa


def cli(*arguments: str | Path, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin, env={"COLUMNS": "80"})


def data(*arguments: str | Path, stdin: str | None = None) -> dict:
    done = cli(*arguments, "--json", stdin=stdin)
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def lines(done: Result) -> list[list[str]]:
    assert done.exit_code == 0, done.stderr
    return [line.split() for line in done.stdout.splitlines()]


def assert_fails(done: Result, words: str) -> None:
    """One sentence on standard error, exit code 2, nothing else."""
    assert done.exit_code == 2, done.output
    assert words in done.stderr
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.fixture
def book(tmp_path: Path) -> Path:
    path = tmp_path / "book.txt"
    path.write_text("to be or not to be\n" * 20)
    return path


# -- numbers ----------------------------------------------------------------------------------------------------------


def test_a_coin_has_one_bit() -> None:
    assert lines(cli("entropy", "0.5", "0.5")) == [["entropy", "H(p)", "1", "bit"], ["perplexity", "2"]]
    assert data("entropy", "0.5", "0.5")["entropy_bits"] == 1.0


def test_fractions_are_numbers() -> None:
    assert ["perplexity", "3"] in lines(cli("entropy", "1/3", "1/3", "1/3"))
    assert ["entropy", "H(p)", "1.5", "bits"] in lines(cli("entropy", "1/2", "0.25", "25e-2"))


def test_against_a_model() -> None:
    shown = lines(cli("entropy", "0.5", "0.5", "--against", "0.9,0.1"))
    assert ["cross-entropy", "H(p,", "m)", "1.73697", "bits"] in shown
    assert ["KL(p", "‖", "m)", "0.736966", "bits"] in shown
    assert ["|H(p,", "m)", "−", "H(p)|", "0.736966", "bits"] in shown
    figures = data("entropy", "0.5", "0.5", "--against", "0.9 0.1")["against"]
    assert figures["cross_entropy_bits"] == pytest.approx(-0.5 * math.log2(0.09))
    ruled_out = cli("entropy", "0.5", "0.5", "--against", "1,0")
    assert "infinite" in ruled_out.stdout
    assert "probability 0 to what does happen, at position 1" in ruled_out.stdout


def test_counts() -> None:
    shown = cli("entropy", "--counts", "2", "1", "1")
    assert "counted  4, of 3 kinds" in shown.stdout
    assert ["plug-in", "1.5", "bits"] in [row[:3] for row in lines(shown)]
    assert "of the shares seen" not in cli("entropy", "--counts", "2", "1", "1", "--quiet").stdout
    counted = data("entropy", "--counts", "2", "1", "1", "--against", "0.5,0.25,0.25")
    assert (counted["kind"], counted["total_count"], counted["against"]["kl_bits"]) == ("counts", 4, 0.0)
    against = cli("entropy", "--counts", "2", "1", "1", "--against", "0.5,0.25,0.25").stdout
    assert f"too high: by about {2 / 8 / math.log(2):.6g} bits on average (Miller–Madow)" in " ".join(against.split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["0.5", "0.4"], "the numbers sum to 0.9, not to 1 within 1e-06; if they are counts, pass --counts"),
        (["5", "3", "2"], "sum to 10, not to 1"),
        (["-0.5", "1.5"], "-0.5 at position 0 is not a probability"),
        (["1.5", "-.5"], "-0.5 at position 1 is not a probability"),
        (["--counts", "3", "-1"], "-1 at position 1 is not a count"),
        (["--counts", "3", "x"], "--counts takes numbers, and 'x' is none"),
        (["--counts", "3", "1.5"], "1.5 at position 1 is not a whole number"),
        (["--counts", "0", "0"], "none of the 2 is above zero"),
        (["nan", "1"], "nan at position 0"),
        (["1/0", "1"], "'1' is a number and '1/0' is none"),
        (["0.5", "book.txt"], "'0.5' is a number and 'book.txt' is none: give only numbers, or only files"),
        (["nonsense"], "'nonsense' is neither a number nor a file"),
        (["/"], "'/' is a folder"),
        (["--symbolz", "x"], "there is no option '--symbolz'"),
        (["-x"], "there is no option '-x'"),
        (["0.5", "0.5", "--against", "0.9"], "--against holds 1 probabilities for 2 outcomes"),
        (["0.5", "0.5", "--against", "0.9,x"], "'x' is no number"),
        (["0.5", "0.5", "--blocks", "0"], "--blocks must be at least 1, not 0"),
        (["0.5", "0.5", "--symbols", "lines"], "--symbols must be one of words, characters, bytes, not 'lines'"),
        (["0.5", "0.5", "--plot", "x.svg"], "--plot draws the block entropies of a text"),
    ],
)
def test_numbers_that_cannot_be_used_are_refused_in_one_sentence(arguments: list[str], words: str) -> None:
    assert_fails(cli("entropy", *arguments), words)


# -- texts ------------------------------------------------------------------------------------------------------------


def test_a_text_prints_its_estimates_blocks_and_rate(book: Path) -> None:
    shown = cli("entropy", book, "--blocks", "4").stdout
    assert "words         120, 4 of them distinct" in shown
    assert "entropy rate  about 0.000 bits per word, perplexity 1.00, by n = 4" in shown
    assert "ceiling       6.907 bits" in shown
    rows = [line.split() for line in shown.splitlines()]
    assert rows[-4][:4] == ["1", "120", "4", "30.0"]
    assert [row[0] for row in rows[-4:]] == ["1", "2", "3", "4"]
    assert "?" not in shown


def test_a_text_too_short_says_so(book: Path) -> None:
    shown = cli("entropy", "-", stdin="all of these words differ").stdout
    assert "entropy rate  — (single words occur 1.0 times on average, and an estimate needs 10" in shown
    assert "? fewer than 10 of each distinct block" in shown
    assert "? fewer than" not in cli("entropy", "-", "--quiet", stdin="all of these words differ").stdout


def test_symbols_gzip_and_standard_input(book: Path, tmp_path: Path) -> None:
    packed = tmp_path / "book.txt.gz"
    packed.write_bytes(gzip.compress(book.read_bytes()))
    by_file = data("entropy", book, "--symbols", "characters", "--blocks", "2")
    assert by_file["symbol_count"] == 380
    for other in (
        data("entropy", packed, "--symbols", "characters", "--blocks", "2"),
        data("entropy", "-", "--symbols", "characters", "--blocks", "2", stdin=book.read_text()),
        data("entropy", "--symbols", "characters", "--blocks", "2", stdin=book.read_text()),
    ):
        assert {**other, "sources": None} == {**by_file, "sources": None}
    both = data("entropy", book, book, "--symbols", "bytes")
    assert (both["symbol_count"], both["sources"]) == (760, [str(book), str(book)])


def test_a_number_can_be_the_name_of_a_file(book: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book.rename(book.parent / "5")
    monkeypatch.chdir(book.parent)
    assert data("entropy", "./5")["symbol_count"] == 120


def test_texts_that_cannot_be_used_are_refused_in_one_sentence(book: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_bytes(b"")
    (tmp_path / "noise.txt").write_bytes(b"good\n\xff\n")
    assert_fails(cli("entropy", tmp_path / "gone.txt"), "is neither a number nor a file")
    assert_fails(cli("entropy", tmp_path / "empty.txt"), "is empty: there is nothing to count")
    assert_fails(cli("entropy", tmp_path / "noise.txt"), "line 2: the byte 0xff is not UTF-8")
    assert_fails(cli("entropy", book, "--against", "0.5,0.5"), "a text has none written out")
    assert_fails(cli("entropy", book, "--plot", tmp_path / "x.pdf"), "must end in .svg or .png")
    assert_fails(cli("entropy", stdin=" \n"), "standard input holds no words")


def test_the_plot_of_blocks(book: Path, tmp_path: Path) -> None:
    done = cli("entropy", book, "--plot", tmp_path / "blocks.svg")
    assert done.exit_code == 0
    assert f"the plot is in {tmp_path / 'blocks.svg'}" in done.stderr
    assert "120 words" in (tmp_path / "blocks.svg").read_text()


def test_a_models_cross_entropy_is_printed_below_the_text() -> None:
    """What a model makes of the text comes from elsewhere; here is only how it is shown."""
    text = entropy_of_text([Text("t", b"ab" * 40)], "characters", 2)
    model = cross_entropy_of_text(text, "ngram:[bold]x", 80 * 1.5 * math.log(2), 80)
    stream = io.StringIO()
    print_document(Console(file=stream, width=80), document(dataclasses.replace(text, against=model)))
    shown = stream.getvalue().partition("ngram:[bold]x")[2]
    for words in (
        "1.5 bits per character",
        "perplexity under m     2.82843",
        "0.500 bits above the entropy of one character",
        "1.500 bits above the estimate of the entropy rate",
    ):
        assert words in shown


def test_a_model_reads_the_text_too(book: Path, tmp_path: Path) -> None:
    """Of «to be or not to be», twenty times: its own bigrams know each word but the one after «to be»."""
    arpa = tmp_path / "book.arpa"
    assert cli("ngram", "train", book, "--order", "2", "--smoothing", "mle", "--out", arpa, "--quiet").exit_code == 0
    entropy = data("entropy", book, "--symbols", "words", "--model", f"ngram:{arpa}", "--blocks", "2", "--quiet")
    sixth = 1 / 6  # after «be» comes «or» once in two, and else the line ends, which is no word; all else is certain
    assert entropy["against"]["cross_entropy_bits"] == pytest.approx(sixth)
    assert entropy["against"]["perplexity"] == pytest.approx(2**sixth)
    assert entropy["against"]["distance_bits"] == pytest.approx(abs(sixth - entropy["plugin_bits"]))
    assert entropy["against"]["counted"] == "words only, without the 20 ends of sentences (</s>)"
    run = data("perplexity", book, "--model", f"ngram:{arpa}", "--out", tmp_path / "run", "--quiet")
    assert run["corpus"]["bits_per_word"] == pytest.approx(sixth), "as howsure perplexity has it"
    letters = data("entropy", book, "--symbols", "characters", "--model", f"ngram:{arpa}", "--quiet")["against"]
    assert letters["cross_entropy_bits"] == pytest.approx(2 * 20 / 380), "here line ends are symbols, and </s> counts"
    assert letters["counted"] == "the whole text, with </s> for the end of each line"
    shown = " ".join(cli("entropy", book, "--model", f"ngram:{arpa}", "--blocks", "1", "--quiet").stdout.split())
    assert "0.166667 bits per word" in shown
    assert "below the entropy of one word" in shown
    assert "counted words only, without the 20 ends of sentences (</s>)" in shown
    assert "one that was trained on this text, or does not know some of its words, may" in shown
    plan = json.loads(cli("entropy", book, "--model", f"ngram:{arpa}", "--dry-run", "--json").stdout)
    assert plan == {"items": 1, "model_calls": 1, "tokens": 140, "tokens_scored": 140}


def test_the_distance_between_a_models_words_and_the_texts_own_by_hand(tmp_path: Path) -> None:
    """«a b» and «x a»: H(p) = 1.5 bits; the words have 10^-3.375 together, so H(p, m) = 3.375 / 4 · log₂ 10."""
    path = tmp_path / "t.txt"
    path.write_text("a b\nx a\n")
    entropy = data("entropy", path, "--model", write_arpa(tmp_path), "--quiet")
    cross = 3.375 / 4 * math.log2(10)
    assert entropy["plugin_bits"] == pytest.approx(1.5)
    assert entropy["against"]["cross_entropy_bits"] == pytest.approx(cross)
    assert entropy["against"]["distance_bits"] == pytest.approx(cross - 1.5)
    assert entropy["against"]["counted"].endswith("; 1 unknown word costs too little")


def test_a_distance_to_something_impossible_is_infinite_and_says_why(tmp_path: Path, book: Path) -> None:
    arpa = tmp_path / "book.arpa"
    assert cli("ngram", "train", book, "--order", "1", "--smoothing", "mle", "--out", arpa, "--quiet").exit_code == 0
    (tmp_path / "t.txt").write_text("to be never\n")
    against = data("entropy", tmp_path / "t.txt", "--model", f"ngram:{arpa}", "--quiet")["against"]
    assert (against["cross_entropy_bits"], against["distance_bits"]) == (None, None)
    assert against["counted"].endswith("; 1 tokens have probability zero")
    shown = cli("entropy", tmp_path / "t.txt", "--model", f"ngram:{arpa}", "--quiet").stdout
    assert "— (there is no estimate of the entropy rate)" in shown


def test_a_model_is_for_texts_in_files(book: Path) -> None:
    assert_fails(cli("entropy", "0.5", "0.5", "--model", "smollm2"), "--model reads a text, and these are numbers")
    assert_fails(cli("entropy", "-", "--model", "smollm2", stdin="a b"), "standard input comes only once")
    assert_fails(cli("entropy", book, "--against", "0.5,0.5"), "name a --model instead")
    assert_fails(cli("entropy", book, "--model", "nonsense:x"), "nonsense")


def test_dry_runs_count_and_do_nothing(book: Path, tmp_path: Path) -> None:
    plot = tmp_path / "x.svg"
    assert cli("entropy", book, "--plot", plot, "--dry-run").stdout == "would take: 1 items, 0 model calls, 0 tokens\n"
    assert data("entropy", "0.5", "0.5", "--dry-run") == {"items": 2, "model_calls": 0, "tokens": 0}
    done = cli("theorem", "--longest", "100", "--paths", "3", "--plot", plot, "--dry-run")
    assert done.stdout == "would take: 3 texts, 300 words, 0 model calls, 0 tokens\n"
    assert not plot.exists()


# -- the theorem ------------------------------------------------------------------------------------------------------


def test_the_theorem_prints_a_row_a_length_and_the_limits_last(tmp_path: Path) -> None:
    done = cli("theorem", "--longest", "128", "--paths", "3", "--seed", "4", "--plot", tmp_path / "t.png")
    assert done.exit_code == 0, done.stderr
    computed = theorem(longest=128, paths=3, seed=4)
    table, _, remarks = done.stdout.partition("−(1/n)")
    rows = [line.split() for line in table.splitlines()]
    assert [row[0] for row in rows[-5:]] == ["16", "32", "64", "128", "limit"]
    expected = [f"{curve.limit_bits:.3f} ({2**curve.limit_bits:.2f})" for curve in computed.curves]
    assert rows[-1] == ["limit", *" ".join(expected).split()]
    path = [f"{curve.path_bits[-1]:.3f} ({2 ** curve.path_bits[-1]:.2f})" for curve in computed.curves]
    assert rows[-2][2:] == " ".join(path).split()
    assert "on 3 texts" in remarks
    assert (tmp_path / "t.png").is_file()


def test_the_theorem_as_data_is_the_studys(tmp_path: Path) -> None:
    arguments = ("theorem", "--longest", "64", "--paths", "2", "--seed", "9")
    assert data(*arguments) == json.loads(json.dumps(theorem(longest=64, paths=2, seed=9).to_dict()))
    quiet = cli(*arguments, "--quiet", "--plot", tmp_path / "t.svg")
    assert quiet.stderr == ""
    assert "closed form" not in quiet.stdout
    assert_fails(cli(*arguments, "--plot", tmp_path / "no" / "t.svg"), "there is no folder")
    assert_fails(cli("theorem", "--longest", "15"), "--longest must be 16 to 16777216, not 15")
