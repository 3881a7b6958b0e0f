"""Goldens of `howsure mcq` and `howsure perplexity`: what an n-gram model reads, and models that stand on paper."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from typing import Any

import pytest

import howsure
from goldens.pinned import Case, Done
from studies.on_paper import OnPaper
from studies.readers import Reader
from tiny import TINY_TEXT, build_ngram

pytest.importorskip("pyarrow", reason="the extra `stats` is not installed")

WORDS = ("the", "quick", "brown", "fox", "jumps", "over", "lazy", "dog", "answer", "is", "four", "not", "five", "sky")
MODEL = ("--model", "ngram:tiny.arpa")


def questions(count: int, **more: Any) -> list[dict[str, Any]]:
    """Questions of words that the n-gram model knows; `more` are fields by what gives them for a number."""
    draw = random.Random(3)
    rows = []
    for i in range(count):
        asked = " ".join(draw.choices(WORDS, k=draw.randint(3, 7)))
        choices = [" ".join([*draw.choices(WORDS, k=draw.randint(1, 3)), letter]) for letter in "abc"]
        row = {"id": f"q{i}", "question": asked, "choices": choices, "answer_index": i % 3}
        rows.append(row | {name: value(i) for name, value in more.items()})
    return rows


def write_models(case: Case) -> None:
    build_ngram(case.folder)
    (case.folder / "other").mkdir()
    build_ngram(case.folder / "other", order=2)


def test_mcq(case: Case) -> None:
    write_models(case)
    case.put("q.jsonl", *questions(8))
    case.howsure("plan", "mcq", "q.jsonl", *MODEL, "--dry-run")
    case.howsure("plan-json", "mcq", "q.jsonl", *MODEL, "--dry-run", "--json")
    case.howsure("shown", "mcq", "q.jsonl", *MODEL, "--out", "first", "--output-json", "all.json")
    case.run("first")
    case.file("all.json")
    case.howsure("again", "mcq", "q.jsonl", *MODEL, "--out", "first")
    case.howsure("json", "mcq", "q.jsonl", *MODEL, "--out", "first", "--json", "--quiet")
    case.howsure("other-data", "mcq", "q.jsonl", *MODEL, "--out", "first", "--max-samples", "3")
    case.howsure("exported", "export", "first", "--quiet")
    case.table("first/samples.parquet")
    case.howsure("bare", "export", "first", "--no-evidence", "--out", "bare.parquet", "--quiet")
    case.table("bare.parquet")
    case.check()


def test_mcq_groups(case: Case) -> None:
    """Groups, clusters and lines that cannot be used."""
    write_models(case)
    rows: list[Any] = questions(16, group=lambda i: "xy"[i % 2], passage=lambda i: f"p{i // 2}")
    rows[3:3] = ["{", {"question": "a?"}, {"question": "b?", "choices": ["a", "a"], "answer_index": 0}]
    case.put("q.jsonl", *rows)
    case.howsure("bad", "mcq", "q.jsonl", *MODEL, "--out", "none")
    how = ("--cluster", "passage", "--skip-bad", "--batch-size", "3", "--seed", "5")
    case.howsure("shown", "mcq", "q.jsonl", *MODEL, *how, "--out", "first", "--output-json", "all.json")
    case.run("first")
    case.file("all.json")
    case.howsure("exported", "export", "first", "--quiet", "--no-evidence")
    case.table("first/samples.parquet")
    case.check()


def test_mcq_without_pmi(case: Case) -> None:
    """Another prompt, and a model that gives some choices no chance."""
    case.put("book.txt", *TINY_TEXT.splitlines(), "the sky is a b c")
    case.howsure("train", "ngram", "train", "book.txt", "--smoothing", "mle", "--order", "2", "--out", "m.arpa")
    case.put("q.jsonl", *questions(5), {"question": "the sky is", "choices": ["a b", "four"], "answer_index": 0})
    how = ("--no-pmi", "--prompt", "Q: {question}\\n", "--max-samples", "6")
    case.howsure("shown", "mcq", "q.jsonl", "--model", "ngram:m.arpa", *how, "--out", "first")
    case.run("first")
    case.check()


def test_mcq_failed(case: Case) -> None:
    """Questions and choices that a model fails at, ties, and probabilities of zero."""
    table = {" yes": -1.0, " no": -3.0, " maybe": [-1.0, -1.0], " mute": -0.5, " never": float("-inf"), " even": -1.0}
    rows = [
        {"question": "0?", "choices": ["yes", "no"], "answer_index": 0},
        {"question": "fail 1?", "choices": ["yes", "no"], "answer_index": 0, "group": "g"},
        {"question": "2?", "choices": ["mute", "no"], "answer_index": 1, "group": "g"},
        {"question": "3?", "choices": ["yes", "even"], "answer_index": 1},
        {"question": "4?", "choices": ["never", "maybe", "no"], "answer_index": 1},
        {"question": "5?", "choices": ["never", "maybe"], "answer_index": 0},
    ]
    case.put("q.jsonl", *({"id": f"q{i}", **row} for i, row in enumerate(rows)))
    howsure.mcq("q.jsonl", OnPaper(table, {" yes": -0.25}), out="first", output_json="all.json")
    case.run("first")
    case.file("all.json")
    case.howsure("exported", "export", "first", "--quiet")
    case.table("first/samples.parquet")
    case.check()


def test_mcq_pair(case: Case) -> None:
    write_models(case)
    case.put("q.jsonl", *questions(7))
    pair = (*MODEL, "--model-b", "ngram:other/tiny.arpa")
    case.howsure("plan", "mcq", "q.jsonl", *pair, "--dry-run")
    case.howsure("shown", "mcq", "q.jsonl", *pair, "--out", "both", "--output-json", "all.json")
    case.run("both")
    case.file("all.json")
    case.howsure("json", "mcq", "q.jsonl", *pair, "--out", "both", "--json", "--quiet")
    case.howsure("compared", "compare", "both/a", "both/b", "--output-json", "compared.json", "--flips", "1")
    case.file("compared.json")
    case.howsure("compared-quiet", "compare", "both/b", "both/a", "--quiet")
    case.howsure("compared-plan", "compare", "both/a", "both/b", "--dry-run")
    case.howsure("compared-plan-json", "compare", "both/a", "both/b", "--dry-run", "--json")
    case.howsure("exported-plan", "export", "both", "--dry-run")
    case.howsure("exported-plan-json", "export", "both", "--dry-run", "--json")
    case.howsure("exported", "export", "both", "--out", "both.parquet", "--no-evidence", "--quiet")
    case.table("both.parquet")
    case.check()


def test_mcq_refused(case: Case) -> None:
    """What is refused, in one sentence each."""
    write_models(case)
    case.put("q.jsonl", *questions(2))
    for name, more in {
        "no-file": ("gone.jsonl",),
        "no-place": ("q.jsonl", "--prompt", "nothing"),
        "no-chat": ("q.jsonl", "--chat"),
        "no-cluster": ("q.jsonl", "--cluster", "pasage"),
        "batch": ("q.jsonl", "--batch-size", "0"),
        "engine": ("q.jsonl", "--engine", "slurm"),
        "option": ("q.jsonl", "--nonsense"),
        "nothing": (),
    }.items():
        case.howsure(name, "mcq", *more, *MODEL, "--out", "run")
    case.check()


def write_texts(case: Case) -> list[str]:
    """Six documents of several lengths."""
    lines = TINY_TEXT.splitlines()
    return [case.put(f"text-{i}.txt", *(lines * 3)[i : 2 * i + 1], "a b c the fox " * (i + 1)) for i in range(6)]


def test_perplexity(case: Case) -> None:
    write_models(case)
    texts = write_texts(case)
    (case.folder / "bad.txt").write_bytes(b"the sky \xff\xfe\n")
    case.put("empty.txt")
    case.howsure("plan", "perplexity", *texts, *MODEL, "--dry-run")
    case.howsure("plan-json", "perplexity", *texts, *MODEL, "--dry-run", "--json")
    case.howsure("bad", "perplexity", *texts, "bad.txt", *MODEL, "--out", "none")
    given = (*texts, "bad.txt", "empty.txt")
    case.howsure("shown", "perplexity", *given, *MODEL, "--skip-bad", "--out", "first")
    case.run("first")
    case.howsure("json", "perplexity", *given, *MODEL, "--skip-bad", "--out", "first", "--json", "--quiet")
    case.howsure("exported", "export", "first", "--quiet")
    case.table("first/samples.parquet")
    case.howsure("exported-bare", "export", "first", "--out", "bare.parquet", "--no-evidence", "--quiet")
    case.table("bare.parquet")
    case.howsure("one", "perplexity", texts[2], *MODEL, "--out", "one")
    case.howsure("window", "perplexity", texts[2], *MODEL, "--window", "8", "--out", "two")
    case.howsure("nothing", "perplexity", "gone.txt", *MODEL, "--out", "three")
    case.howsure("piped", "perplexity", "-", *MODEL, "--out", "piped", "--json", stdin="the sky is blue\n")
    case.check()


def test_perplexity_failed(case: Case) -> None:
    """One document that fails, one without tokens, one with a token of probability zero."""
    probs = {"a": 0.5, "b": 0.25, "zero": 0.0, "hard": 0.5, "silence": 0.5}
    texts = ["a b a", "hard a b", "silence", "a zero b", "b b a a b", "a b c"]
    rows = [{"id": f"t{i}", "text": text} for i, text in enumerate(texts)]
    case.put("texts.jsonl", *rows)
    vocabulary = frozenset(probs)
    reader = Reader(probs | {"c": 0.125}, fail="hard", vocabulary=vocabulary, passage_tokens=2)
    howsure.perplexity("texts.jsonl", reader, out="first")
    case.run("first")
    case.howsure("exported", "export", "first", "--quiet")
    case.table("first/samples.parquet")
    case.check()


def test_perplexity_pair(case: Case) -> None:
    write_models(case)
    texts = write_texts(case)
    pair = (*MODEL, "--model-b", "ngram:other/tiny.arpa")
    case.howsure("plan", "perplexity", *texts, *pair, "--dry-run")
    case.howsure("shown", "perplexity", *texts, *pair, "--out", "both")
    case.run("both")
    case.howsure("json", "perplexity", *texts, *pair, "--out", "both", "--json", "--quiet")
    case.howsure("compared", "compare", "both/b", "both/a", "--output-json", "compared.json")
    case.file("compared.json")
    case.howsure("exported", "export", "both", "--out", "both.parquet", "--no-evidence", "--quiet")
    case.table("both.parquet")
    case.check()


def test_list_of_runs(case: Case) -> None:
    """`howsure runs`, `howsure report` and `howsure export` over runs of several studies, one of them damaged."""
    write_models(case)
    case.put("q.jsonl", *questions(6))
    text = write_texts(case)[3]
    case.howsure("mcq", "mcq", "q.jsonl", *MODEL, "--out", "all/mcq", "--quiet")
    case.howsure("perplexity", "perplexity", text, *MODEL, "--out", "all/perplexity", "--quiet")
    case.put("all/damaged/run.json", "{}")
    case.howsure("runs", "runs", "all")
    case.howsure("runs-json", "runs", "all", "--json")
    case.howsure("runs-quiet", "runs", "all", "--quiet")
    case.howsure("runs-plan", "runs", "all", "--dry-run")
    case.howsure("runs-none", "runs", "other")
    case.howsure("report", "report", "all/mcq", "--json")
    case.howsure("report-plan", "report", "all/mcq", "all/perplexity", "--dry-run")
    case.howsure("export", "export", "all")
    case.howsure("export-json", "export", "all/mcq", "all/perplexity", "--out", "tables", "--json")
    case.howsure("compare", "compare", "all/mcq", "all/perplexity")
    case.howsure("unnamed", "mcq", "q.jsonl", *MODEL, "--max-samples", "2")
    case.check()


def test_mcq_in_a_process_of_its_own(case: Case) -> None:
    """As from a shell; the other cases run commands within the process of the tests."""
    write_models(case)
    case.put("q.jsonl", *questions(4))
    given = ("mcq", "q.jsonl", *MODEL, "--out", "first")
    ended = subprocess.run(
        [sys.executable, "-m", "howsure", *given], capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    case.said("shown", given, Done(ended.returncode, ended.stdout, ended.stderr))
    case.run("first")
    case.check()
