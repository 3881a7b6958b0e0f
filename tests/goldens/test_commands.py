"""Goldens: what every command and study prints and writes on small data, kept as files to be read beside the tests.

Whoever only moves code about has to leave them as they are. Where a change is wanted, this writes them anew, and what
has changed can be read in git's diff:

    HOWSURE_WRITE_GOLDENS=1 pytest tests/goldens

Here: the help of every command, the calls from Python, and the commands that belong to no study.
"""

from __future__ import annotations

import inspect
import re

import pytest

import howsure
from goldens.pinned import HERE, WRITE, Case, command
from tiny import TINY_TEXT, build_ngram

STUDIES = ("mcq", "perplexity", "trajectories", "trust", "grounding")
CALLS = (*STUDIES, "compare", "export", "load", "read_text", "train_ngram")


def names_of(group: object, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The words of every command and of every group of commands."""
    found = [path]
    for name, one in getattr(group, "commands", {}).items():
        found += names_of(one, (*path, name))
    return found


def test_help(case: Case) -> None:
    from typer.main import get_command

    from howsure.cli.app import app

    for path in names_of(get_command(app)):
        case.howsure("-".join(("howsure", *path)), *path, "--help")
    for path in ((), ("trust",), ("grounding",), ("ngram",)):
        case.howsure("-".join(("howsure", *path, "alone")), *path)
    case.check()


def test_calls(case: Case) -> None:
    """The public names, and what the functions among them take."""
    signatures = []
    for name in CALLS:
        signature = inspect.signature(getattr(howsure, name))
        taken = [f"    {one.kind.description} {one}," for one in signature.parameters.values()]
        signatures.append("\n".join([f"howsure.{name}(", *taken, f") -> {signature.return_annotation}", ""]))
    case.pin("signatures.txt", "\n".join(signatures))
    case.pin("names.txt", "".join(f"{name}\n" for name in howsure.__all__))
    case.check()


def test_entropy(case: Case) -> None:
    case.put("book.txt", *TINY_TEXT.splitlines(), *TINY_TEXT.splitlines()[:2])
    build_ngram(case.folder)
    case.howsure("probabilities", "entropy", "0.5", "1/4", "0.25", "--against", "0.9,0.05,0.05")
    case.howsure("probabilities-json", "entropy", "0.5", "1/4", "0.25", "--against", "0.9,0.05,0.05", "--json")
    case.howsure("counts", "entropy", "3", "1", "4", "--counts")
    case.howsure("counts-json", "entropy", "3", "1", "4", "--counts", "--json")
    case.howsure("words", "entropy", "book.txt", "--blocks", "3")
    case.howsure("words-json", "entropy", "book.txt", "--blocks", "3", "--json")
    case.howsure("characters", "entropy", "book.txt", "--symbols", "characters", "--blocks", "3", "--quiet")
    case.howsure("model", "entropy", "book.txt", "--model", "ngram:tiny.arpa", "--quiet")
    case.howsure("model-json", "entropy", "book.txt", "--model", "ngram:tiny.arpa", "--json", "--quiet")
    case.howsure("piped", "entropy", "-", stdin="a b a b a a\n")
    case.howsure("plan", "entropy", "book.txt", "--model", "ngram:tiny.arpa", "--dry-run")
    case.howsure("plan-json", "entropy", "book.txt", "--dry-run", "--json")
    case.howsure("refused", "entropy", "0.5", "0.7")
    case.check()


def test_theorem(case: Case) -> None:
    case.howsure("shown", "theorem", "--longest", "256", "--paths", "3")
    case.howsure("quiet", "theorem", "--longest", "256", "--paths", "3", "--quiet")
    case.howsure("json", "theorem", "--longest", "64", "--paths", "2", "--json", "--seed", "7")
    case.howsure("plan", "theorem", "--dry-run")
    case.howsure("plan-json", "theorem", "--dry-run", "--json")
    case.check()


def test_ngram_train(case: Case) -> None:
    case.put("book.txt", *TINY_TEXT.splitlines())
    (case.folder / "bad.txt").write_bytes(b"\xff\xfe\n")
    how = ("--order", "2", "--smoothing", "witten-bell")
    case.howsure("train", "ngram", "train", "book.txt", *how, "--out", "book.arpa")
    case.pin("book.arpa.txt", (case.folder / "book.arpa").read_text(encoding="utf-8"))
    case.howsure("json", "ngram", "train", "book.txt", *how, "--out", "again.arpa", "--json")
    case.howsure("skipped", "ngram", "train", "book.txt", "bad.txt", *how, "--out", "c.arpa", "--skip-bad", "--json")
    case.howsure("bad", "ngram", "train", "book.txt", "bad.txt", *how, "--out", "d.arpa")
    case.howsure("discounts", "ngram", "train", "book.txt", "--out", "e.arpa")
    case.howsure("plan", "ngram", "train", "book.txt", "--out", "f.arpa", "--dry-run")
    case.howsure("plan-json", "ngram", "train", "book.txt", "--out", "f.arpa", "--dry-run", "--json")
    case.check()


def test_show(case: Case) -> None:
    build_ngram(case.folder)
    case.put("text.txt", "the sky is unheard of")
    case.howsure("text", "show", "the quick brown fox", "--model", "ngram:tiny.arpa")
    case.howsure("text-json", "show", "the quick brown fox", "--model", "ngram:tiny.arpa", "--json")
    case.howsure("file", "show", "text.txt", "--model", "ngram:tiny.arpa", "--quiet")
    case.howsure("piped", "show", "-", "--model", "ngram:tiny.arpa", stdin="the sky is blue\n")
    case.howsure("plan", "show", "text.txt", "--model", "ngram:tiny.arpa", "--dry-run")
    case.howsure("plan-json", "show", "text.txt", "--model", "ngram:tiny.arpa", "--dry-run", "--json")
    case.howsure("unknown-model", "show", "a", "--model", "nonsense")
    case.check()


def test_models(case: Case) -> None:
    """Without whether a kind is installed, which is another matter on every machine."""
    installed = re.compile(r"\s+(yes|no: pip install .*?)\s*$", re.MULTILINE)
    done = command("models")
    case.pin("models.txt", installed.sub("", done.stdout))
    done = command("models", "--json")
    case.pin("models.stdout.json", re.sub(r'"installed": (true|false)', '"installed": "<whether>"', done.stdout))
    case.howsure("quiet", "models", "--quiet")
    case.howsure("plan", "models", "--dry-run")
    case.howsure("plan-json", "models", "--dry-run", "--json")
    case.check()


@pytest.mark.skipif(WRITE, reason="they are being written")
def test_goldens_belong_to_cases() -> None:
    """A case that was renamed leaves no folder behind."""
    tests = [path.read_text(encoding="utf-8") for path in HERE.glob("test_*.py")]
    cases = set(re.findall(r"^def test_(\w+)\(case\b", "\n".join(tests), re.MULTILINE))
    folders = {path.name for path in HERE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == cases


@pytest.mark.parametrize(
    ("kept", "found", "is_same"),
    [
        ('{"a": 0.1}', '{"a": 0.10000000000000002}', True),
        ('{"a": 1e-17}', '{"a": 0.0}', True),
        ('{"a": 0.1}', '{"a": 0.1001}', False),
        ('{"a": 1.0}', '{"a": 1}', False),
        ('{"a": 1}', '{"a": 2}', False),
        ('{"a": 1.5, "b": 2.5}', '{"b": 2.5, "a": 1.5}', False),
        ('{"a": null}', '{"a": 0.0}', False),
    ],
)
def test_only_last_digits_may_differ(kept: str, found: str, is_same: bool) -> None:
    from goldens.pinned import same

    assert same(kept, found, exactly=False) is is_same
    assert not same(kept, found, exactly=True)
