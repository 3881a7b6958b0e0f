"""`howsure ngram train`, `howsure perplexity` and `howsure compare`: what they print of texts, and what they refuse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner, Result

import howsure
from howsure.cli.app import app
from studies.readers import PROBS, Reader, poem, write_arpa

MODELS = {
    "first": Reader(PROBS, name="first", fail="fail"),
    "second": Reader(0.25, name="second"),
}


def cli(*arguments: str | Path, stdin: str | bytes | None = None) -> Result:
    found = [str(argument) for argument in arguments]
    return CliRunner().invoke(app, found, input=stdin, env={"COLUMNS": "120"})


def done(*arguments: str | Path, stdin: str | bytes | None = None) -> Result:
    """What must have worked."""
    result = cli(*arguments, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result


def assert_fails(result: Result, words: str) -> None:
    """One sentence on standard error, exit code 2, nothing else."""
    assert result.exit_code == 2, result.output
    assert words in result.stderr
    assert result.stdout == ""
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "book.txt"
    path.write_text(poem(400))
    return path


@pytest.fixture
def on_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("howsure.studies.study.load", lambda name, **options: MODELS[name])


# -- from a text to a verdict -------------------------------------------------------------------------------------


def process(*arguments: str | Path, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "howsure", *map(str, arguments)],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )


@pytest.mark.long
def test_trained_read_and_compared_with_the_real_commands(tmp_path: Path, text: Path) -> None:
    """A model of the same words, one that never saw them in order, and which of the two needs fewer bits."""
    test = tmp_path / "test.jsonl"
    lines = ["the quick brown fox jumps over the lazy dog\n" * (9 + i) + "the lazy fox\n" * (i % 2) for i in range(6)]
    test.write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
    (tmp_path / "train.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 5 + poem(400))
    for order in ("1", "3"):
        trained = process(
            "ngram", "train", tmp_path / "train.txt", "--order", order, "--out", tmp_path / f"{order}.arpa",
            "--smoothing", "witten-bell",
        )  # fmt: skip
        assert trained.returncode == 0, trained.stderr
        assert f"use it as --model ngram:{tmp_path}/{order}.arpa" in trained.stdout
        read = process("perplexity", test, "--model", f"ngram:{tmp_path}/{order}.arpa", "--out", tmp_path / order)
        assert read.returncode == 0, read.stderr
        assert "Compare models by bits per byte" in read.stdout
        assert "bits per byte" in read.stderr, "progress as plain lines where there is no terminal"
        assert f"run folder: {tmp_path / order}" in read.stdout
    compared = process("compare", tmp_path / "1", tmp_path / "3", "--json")
    assert compared.returncode == 0, compared.stderr
    difference = json.loads(compared.stdout)["difference"]
    assert difference["high"] < 0, "three words know more than one"
    (tmp_path / "all.txt").write_text("".join(lines))
    whole = howsure.perplexity(tmp_path / "all.txt", f"ngram:{tmp_path}/3.arpa", out=tmp_path / "whole").summary
    piped = process("perplexity", "-", "--model", f"ngram:{tmp_path}/3.arpa", "--out", tmp_path / "piped", "--json",
                    "--quiet", stdin="".join(lines))  # fmt: skip
    assert piped.stderr == ""
    assert json.loads(piped.stdout)["corpus"] == dict(whole["corpus"])


def test_what_train_prints_as_data_is_what_the_library_says(tmp_path: Path, text: Path) -> None:
    train = ("ngram", "train", text, "--order", "2", "--discount-fallback", "--out")
    found = json.loads(done(*train, tmp_path / "a.arpa", "--json").stdout)
    expected = howsure.train_ngram(text, tmp_path / "b.arpa", order=2, discount_fallback=True)
    changing = {"seconds": 0, "model": ""}
    assert found | changing == msgspec.to_builtins(expected) | changing
    assert (tmp_path / "a.arpa").read_bytes() == (tmp_path / "b.arpa").read_bytes()
    assert done(*train, tmp_path / "a.arpa", "--quiet").stdout == ""
    plan = done(*train, tmp_path / "never.arpa", "--dry-run").stdout
    assert plan == f"would take: 1 items, {text.stat().st_size:,} bytes, 0 model calls\n"
    assert not (tmp_path / "never.arpa").exists()


def test_training_passes_its_options_on(tmp_path: Path, text: Path) -> None:
    def trained(*options: str) -> bytes:
        done("ngram", "train", text, "--out", tmp_path / "m.arpa", "--order", "2", *options)
        return (tmp_path / "m.arpa").read_bytes()

    def expected(**options: Any) -> bytes:
        howsure.train_ngram(text, tmp_path / "n.arpa", order=2, **options)
        return (tmp_path / "n.arpa").read_bytes()

    assert trained("--smoothing", "add-k", "--k", "0.5") == expected(smoothing="add-k", k=0.5)
    assert expected(smoothing="add-k", k=0.5) != expected(smoothing="add-k")
    assert trained("--smoothing", "mle") == expected(smoothing="mle") != expected(smoothing="witten-bell")
    bad = text.with_name("bad.txt")
    bad.write_bytes(b"\xff")
    (tmp_path / "m.arpa").unlink()
    assert json.loads(done("ngram", "train", text, bad, "--skip-bad", "--out", tmp_path / "m.arpa", "--json",
                           "--smoothing", "witten-bell").stdout)["skipped"] == {"unreadable": 1}  # fmt: skip


def test_a_packed_model_is_read_like_a_plain_one(tmp_path: Path, text: Path) -> None:
    found = []
    for name in ("m.arpa", "m.arpa.gz"):
        done("ngram", "train", text, "--smoothing", "witten-bell", "--out", tmp_path / name)
        model = f"ngram:{tmp_path / name}"
        found.append(
            json.loads(done("perplexity", text, "-m", model, "--out", tmp_path / f"{name}-run", "--json").stdout)
        )
    assert found[0]["corpus"] == found[1]["corpus"]


# -- perplexity ---------------------------------------------------------------------------------------------------


def test_data_is_the_summary_and_quiet_says_nothing_else(tmp_path: Path, text: Path, on_paper: None) -> None:
    run = ("perplexity", text, "--model", "first", "--out", tmp_path / "run")
    loud, quiet = done(*run, "--json"), done(*run, "--json", "--quiet")
    assert (
        json.loads(loud.stdout) == json.loads(quiet.stdout) == json.loads((tmp_path / "run/summary.json").read_text())
    )
    assert "perplexity: 2 of 2 kB" in loud.stderr
    assert quiet.stderr == ""
    shown = done(*run, "--quiet")
    assert "scored 1 of 1" in shown.stdout
    assert shown.stderr == ""


def test_a_model_without_smoothing_is_infinite_while_it_reads_and_after(tmp_path: Path, text: Path) -> None:
    (tmp_path / "train.txt").write_text("the quick brown fox\n")
    done("ngram", "train", tmp_path / "train.txt", "--order", "1", "--smoothing", "mle", "--out", tmp_path / "m.arpa")
    result = done("perplexity", text, "--model", f"ngram:{tmp_path / 'm.arpa'}", "--out", tmp_path / "run")
    impossible = howsure.Run(tmp_path / "run").summary["corpus"]["impossible"]  # type: ignore[index]
    assert impossible > 100
    assert f"infinite bits per byte ({impossible} tokens of probability zero)" in result.stderr
    assert f"— (infinite: {impossible} tokens of probability zero)" in result.stdout


def test_without_a_folder_one_is_made_and_named(
    tmp_path: Path, text: Path, on_paper: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = done("perplexity", text, "--model", "first")
    (folder,) = (tmp_path / "runs").iterdir()
    assert f"the same command with --out runs/{folder.name} resumes it" in result.stderr
    assert f"run folder: runs/{folder.name}" in result.stdout


@pytest.mark.parametrize("content", [poem(50), "zwölf 数字 🤖\n"])
def test_standard_input_is_read_like_a_file(tmp_path: Path, content: str) -> None:
    model = ("--model", write_arpa(tmp_path), "--json", "--quiet", "--out")
    (tmp_path / "t.txt").write_text(content)
    piped = json.loads(done("perplexity", "-", *model, tmp_path / "piped", stdin=content.encode()).stdout)
    filed = json.loads(done("perplexity", tmp_path / "t.txt", *model, tmp_path / "filed").stdout)
    assert piped["documents"][0]["document"] == "standard input"
    assert piped["corpus"] == filed["corpus"]
    unnamed = json.loads(done("perplexity", *model, tmp_path / "unnamed", stdin=content.encode()).stdout)
    assert unnamed == piped, "what is piped in needs no name"
    again = json.loads(done("perplexity", "-", *model, tmp_path / "filed", stdin=content.encode()).stdout)
    assert again == filed, "the same text in the same run, wherever it comes from"


def test_a_dry_run_counts_and_runs_nothing(tmp_path: Path, text: Path, tiny_folder: Path) -> None:
    (tmp_path / "more.txt").write_text("the sky is blue")
    run = ("perplexity", text, tmp_path / "more.txt", "--window", "64", "--stride", "16", "--out", tmp_path / "run")
    model_of = ("--model", f"hf:{tiny_folder}", "--token-budget", "200")
    counts = json.loads(done(*run, *model_of, "--dry-run", "--json").stdout)
    assert not (tmp_path / "run").exists()
    model = howsure.load(f"hf:{tiny_folder}", token_budget=200)
    result = howsure.perplexity([text, tmp_path / "more.txt"], model, out=tmp_path / "run", window=64, stride=16)
    assert (counts["items"], counts["tokens"]) == (2, model.counters.tokens_run)
    assert counts["model_calls"] == model.counters.calls > 5
    assert counts["tokens_scored"] == result.summary["corpus"]["tokens"]
    assert result.run.manifest.identity.options["window"] == 64


def test_a_dry_run_of_two_models_counts_both(tmp_path: Path, text: Path, on_paper: None) -> None:
    one = json.loads(done("perplexity", text, "--model", "first", "--dry-run", "--json").stdout)
    both = ("perplexity", text, "--model", "first", "--model-b", "second")
    two = json.loads(done(*both, "--dry-run", "--json").stdout)
    assert two == {name: count if name == "items" else 2 * count for name, count in one.items()}
    assert done(*both, "--dry-run").stdout.startswith(f"would take: 1 items, 2 model calls, {two['tokens']:,} tokens")


def test_a_window_is_for_the_model_that_takes_one(tmp_path: Path, text: Path, tiny_folder: Path) -> None:
    done("ngram", "train", text, "--smoothing", "witten-bell", "--out", tmp_path / "m.arpa")
    both = ("--model", f"ngram:{tmp_path / 'm.arpa'}", "--model-b", f"hf:{tiny_folder}", "--window", "32")
    done("perplexity", text, *both, "--out", tmp_path / "both")
    windows = [howsure.Run(tmp_path / "both" / name).manifest.identity.options["window"] for name in "ab"]
    assert windows == [None, 32]


def test_two_models_are_compared(tmp_path: Path, text: Path, on_paper: None) -> None:
    both = ("perplexity", text, "--model", "first", "--model-b", "second", "--out", tmp_path / "both")
    result = done(*both)
    assert "B − A (95 % interval, paired)" in result.stdout
    assert "Compare models by bits per byte" in result.stdout
    assert "perplexity a: 2 of 2 kB" in result.stderr
    assert "perplexity b: 2 of 2 kB" in result.stderr
    found = json.loads(done(*both, "--json", "--quiet").stdout)
    assert found == json.loads((tmp_path / "both" / "comparison.json").read_text())
    compare = ("compare", tmp_path / "both" / "a", tmp_path / "both" / "b")
    assert json.loads(done(*compare, "--json").stdout) == found
    assert done(*compare).stdout == result.stdout
    assert "2 items, 0 model calls" in done(*compare, "--dry-run").stdout
    done(*compare, "--output-json", tmp_path / "out.json")
    assert json.loads((tmp_path / "out.json").read_text()) == found


def test_what_failed_leaves_exit_code_1_and_can_be_read_again(
    tmp_path: Path, on_paper: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"text": "fox"}\n{"text": "fail"}\n')
    monkeypatch.setitem(MODELS, "first", Reader(0.5, name="first", fail="fail"))
    run = ("perplexity", path, "--model", "first", "--out", tmp_path / "run")
    failed = cli(*run)
    assert failed.exit_code == 1
    assert "scored 1 of 2; 1 missing: 1 too hard" in failed.stdout
    assert "perplexity: 1 of 1 kB" in failed.stderr
    assert "1 failed" in failed.stderr
    assert cli(*run, "--json").exit_code == 1
    both = cli("perplexity", path, "--model", "second", "--model-b", "first", "--out", tmp_path / "both", "--quiet")
    assert both.exit_code == 1, "one of the two is enough"
    MODELS["first"].fail = None
    assert cli(*run).exit_code == 1, "only on request"
    assert "scored 2 of 2" in done(*run, "--retry-failed").stdout


def test_bad_texts_are_counted_on_request_and_leave_exit_code_0(tmp_path: Path, text: Path, on_paper: None) -> None:
    (tmp_path / "bad.txt").write_bytes(b"\xff")
    result = done("perplexity", text, tmp_path / "bad.txt", "--model", "first", "--skip-bad", "--out", tmp_path / "run")
    assert "scored 1 of 2; 1 missing: 1 unreadable" in result.stdout


# -- what is refused ----------------------------------------------------------------------------------------------


def test_bad_texts_are_refused_in_one_sentence(tmp_path: Path, text: Path, on_paper: None) -> None:
    (tmp_path / "empty.txt").write_bytes(b"")
    (tmp_path / "latin.txt").write_bytes(b"one\ntwo\nna\xefve\n")
    (tmp_path / "bad.jsonl").write_text('{"text": "a"}\n{\n')
    (tmp_path / "folder").mkdir()
    for name, words in (
        ("empty.txt", "empty.txt is empty: there is no line 1 to read"),
        ("latin.txt", "latin.txt, line 3: byte 0xef is not UTF-8 text"),
        ("bad.jsonl", "bad.jsonl, line 2: Input data was truncated"),
        ("gone.txt", "gone.txt cannot be read: No such file"),
        ("folder", "folder holds no text"),
    ):
        out = tmp_path / "never"
        assert_fails(cli("perplexity", text, tmp_path / name, "--model", "first", "--out", out), words)
        assert_fails(cli("ngram", "train", text, tmp_path / name, "--out", out), words)
        assert not out.exists()
    assert_fails(cli("perplexity", "-", "--model", "first", stdin=b""), "standard input is empty")
    assert_fails(cli("perplexity", "-", "--model", "first", stdin=b"a\n\xff"), "standard input, line 2: byte 0xff")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--window", "1"], "the window must be at least 2 tokens, not 1"),
        (["--window", "0"], "the window must be at least 2 tokens, not 0"),
        (["--window", "257"], "a window of 257 tokens does not fit the model's context of 256"),
        (["--window", "16", "--stride", "17"], "the stride must be 1 to 16 tokens for a window of 16, not 17"),
        (["--stride", "0"], "not 0"),
        (["--seed", "-1"], "--seed must be 0 or more, not -1"),
        (["--token-budget", "0"], "token budget must be at least 1"),
    ],
)
def test_bad_options_are_refused_in_one_sentence(
    tmp_path: Path, text: Path, tiny_folder: Path, options: list[str], words: str
) -> None:
    assert_fails(cli("perplexity", text, "--model", f"hf:{tiny_folder}", "--out", tmp_path / "run", *options), words)
    assert not (tmp_path / "run").exists()


def test_models_that_cannot_be_had_are_refused_in_one_sentence(tmp_path: Path, text: Path) -> None:
    model = write_arpa(tmp_path)
    for option in ("--window", "--stride"):
        words = "--window and --stride are for neural models"
        assert_fails(cli("perplexity", text, "--model", model, option, "16"), words)
    assert_fails(cli("perplexity", text, "--model", "ngram:gone.arpa"), "gone.arpa cannot be read")
    assert_fails(cli("perplexity", text, "--model", "smolm2"), "did you mean 'smollm2'")
    (tmp_path / "no.arpa").write_text("no model")
    out = tmp_path / "run"
    assert_fails(cli("perplexity", text, "--model", f"ngram:{tmp_path}/no.arpa", "--out", out), "it is no ARPA file")


def test_folders_that_cannot_take_the_run_are_refused_in_one_sentence(
    tmp_path: Path, text: Path, on_paper: None
) -> None:
    run = ("perplexity", text, "--model", "first", "--out")
    assert_fails(cli(*run, tmp_path), "holds 'book.txt' and is not a run folder: choose another --out")
    assert_fails(cli(*run, text), "cannot be written")
    done(*run, tmp_path / "run")
    assert_fails(cli(*run, tmp_path / "run", "--seed", "3"), "holds another run (seed was 0, now 3)")
    words = "is the run folder of one model: with --model-b choose another --out"
    assert_fails(cli(*run, tmp_path / "run", "--model-b", "second"), words)
    other = tmp_path / "other.txt"
    other.write_text("fox")
    done("perplexity", other, "--model", "first", "--out", tmp_path / "other")
    assert_fails(cli("compare", tmp_path / "run", tmp_path / "other"), "are over different texts")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--smoothing", "good-turing"], "--smoothing 'good-turing' is not known; known are modified-kneser-ney, "),
        (["--order", "0"], "--order must lie between 1 and 20, not 0"),
        (["--order", "21"], "--order must lie between 1 and 20, not 21"),
        (["--smoothing", "add-k", "--k", "0"], "--k must be a positive number, not 0"),
        (["--smoothing", "add-k", "--k", "nan"], "--k must be a positive number, not nan"),
        ([], "--discount-fallback takes fixed discounts there"),
    ],
)
def test_training_refuses_in_one_sentence(tmp_path: Path, options: list[str], words: str) -> None:
    (tmp_path / "t.txt").write_text("a b\na b\n")
    assert_fails(cli("ngram", "train", tmp_path / "t.txt", "--out", tmp_path / "m.arpa", *options), words)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.txt"], "and leaves nothing behind"


def test_training_refuses_where_it_could_not_write(tmp_path: Path, text: Path) -> None:
    train = ("ngram", "train", text, "--smoothing", "witten-bell", "--out")
    assert_fails(cli(*train, tmp_path), f"--out {tmp_path} is a folder: name the file to be written, such as")
    assert_fails(cli(*train, tmp_path / "gone" / "m.arpa"), f"the folder {tmp_path}/gone does not exist; make it first")
    before = text.read_bytes()
    assert_fails(cli(*train, text), f"--out {text} is one of the texts, and would be overwritten")
    assert text.read_bytes() == before
    assert cli("ngram", "train", text).exit_code == 2, "a model goes somewhere"


def test_a_reserved_word_is_named_with_its_file_and_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("howsure.studies.texts.CHUNK_BYTES", 16)
    good, bad = tmp_path / "good.txt", tmp_path / "bad.txt"
    good.write_text("fox\n" * 9)
    bad.write_text("the quick brown fox\n" * 4 + "an </s> in it\nand on\n")
    out = ("--out", tmp_path / "m.arpa")
    assert_fails(cli("ngram", "train", good, bad, *out), f"{bad}, line 5: the word </s> is reserved")
    lines = tmp_path / "t.jsonl"
    lines.write_text(json.dumps({"id": "psalm 7", "text": "so\n<s> it goes"}) + "\n")
    assert_fails(cli("ngram", "train", good, lines, *out), "psalm 7, line 2: the word <s> is reserved")
