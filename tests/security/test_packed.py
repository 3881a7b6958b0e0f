"""Texts and models that are small packed and fill the memory unpacked: each reader refuses them, or stays small."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from howsure.errors import InputError, UnusableText
from howsure.models.contract import Rolling
from howsure.models.ngram.arpa import MOST_LINE_BYTES, read_arpa
from howsure.models.ngram.model import NgramModel
from howsure.studies.entropy import read_texts
from howsure.studies.ngram import train_ngram
from howsure.studies.texts import Texts
from sizes import in_long

MIB = 1 << 20
MOST_MIB = 600

_READ = """
import sys
from howsure.errors import InputError
from howsure.models.ngram.arpa import read_arpa
from howsure.studies.entropy import read_texts, symbol_codes
from howsure.studies.ngram import train_ngram
from howsure.studies.texts import Texts

def train(path):
    train_ngram([path], path + ".arpa", order=2, smoothing="add-k")

def count(path):
    symbol_codes(read_texts([path]), "words")

def stream(path):
    for _, chunks in Texts([path]).stream():
        for _ in chunks:
            pass

try:
    {"arpa": read_arpa, "entropy": count, "train": train, "texts": stream}[sys.argv[1]](sys.argv[2])
    print("read")
except InputError as error:
    print(error)
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(int(status["VmHWM"].split()[0]) >> 10)
"""


def pack(path: Path, head: bytes, unit: bytes, mib: int, padding: int = 0) -> str:
    """So many MiB of a unit behind a head; one MiB is packed once and stands there many times, as gzip allows.

    The padding is a name in gzip's header, of which nothing comes out: it makes the file as large as it takes for what
    it holds not to be absurd.
    """
    packer = zlib.compressobj(9, wbits=31)
    begin = packer.compress(head) + packer.flush()
    packer = zlib.compressobj(9, wbits=31)
    block = packer.compress(unit * (MIB // len(unit))) + packer.flush()
    named = begin[:3] + bytes([begin[3] | 8]) + begin[4:10] + b"x" * padding + b"\0" + begin[10:]
    path.write_bytes(named + block * mib)
    return str(path)


def read(kind: str, path: str) -> tuple[str, int]:
    """What a reader says, and its peak of memory in MiB."""
    done = subprocess.run(
        [sys.executable, "-c", _READ, kind, path], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said, peak = done.stdout.splitlines()[-2:]
    return said, int(peak)


HEAD = b"\\data\\\nngram 1=400000000\n\n\\1-grams:\n"
UNITS = {
    "zeros": (HEAD, b"\0"),
    "one line of words": (HEAD + b"-1 ", b"a "),
    "one word": (HEAD + b"-1 ", b"a"),
    "line ends": (HEAD, b"\n"),
    "the same line": (HEAD, b"0 a\n"),
    "long lines": (HEAD, b"0" + b" a" * 30_000 + b"\n"),
}


@pytest.mark.parametrize(
    "unit", ["zeros", "line ends", "long lines", *in_long("one line of words", "one word", "the same line")]
)
def test_four_megabytes_of_gzip_are_no_model_of_gigabytes(tmp_path: Path, unit: str) -> None:
    said, peak = read("arpa", pack(tmp_path / "m.arpa.gz", *UNITS[unit], mib=370, padding=4 * MIB))
    assert peak < MOST_MIB
    assert "m.arpa.gz" in said
    assert any(why in said for why in ("NUL byte", "is longer than 65,536 bytes", "unpacks to far more than"))


@pytest.mark.parametrize(
    ("kind", "name", "head", "unit"),
    [
        pytest.param("entropy", "a.txt.gz", b"", b"\0", marks=pytest.mark.only_long),
        ("entropy", "a.txt.gz", b"", b"a "),
        ("train", "a.txt.gz", b"", b"a"),
        pytest.param("train", "a.txt.gz", b"", b"\n", marks=pytest.mark.only_long),
        pytest.param("train", "a.jsonl.gz", b'{"text": "', b"a", marks=pytest.mark.only_long),
        pytest.param("texts", "a.jsonl.gz", b"", b"\0", marks=pytest.mark.only_long),
        ("texts", "a.jsonl.gz", b'{"text": "', b"a"),
        ("arpa", "a.arpa.gz", HEAD, b"\0"),
    ],
)
def test_a_gigabyte_that_is_packed_is_refused_by_name(
    tmp_path: Path, kind: str, name: str, head: bytes, unit: bytes
) -> None:
    """Packed a hundredfold; what is packed further is refused for that alone."""
    said, peak = read(kind, pack(tmp_path / name, head, unit, mib=1024, padding=10 * MIB))
    assert peak < MOST_MIB
    assert name in said
    assert any(why in said for why in ("NUL byte", "is longer than", "unpacks to far more than")), said


def test_a_line_of_json_without_end_is_refused_unpacked_too(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with open(path, "wb") as file:
        file.write(b'{"text": "a"}\n')
        file.truncate(1 << 30)
    said, peak = read("texts", str(path))
    assert peak < MOST_MIB
    assert "a.jsonl, line 2 is longer than 64 MiB" in said


def test_a_line_of_a_model_has_a_bound_and_others_do_not_count(tmp_path: Path) -> None:
    head, end = "\\data\\\nngram 1=3\n\n\\1-grams:\n-1 <s>\n-1 </s>\n", "\n\n\\end\\\n"
    longest = "-1\t" + "a" * (MOST_LINE_BYTES - 3)
    path = tmp_path / "m.arpa"
    for before in ("", "b" * 60_000 + "\n" * 3, "c" * 1000 + "\n", ("d" * 65_000 + "\n") * 40):
        path.write_text(before + head + longest + end)
        assert len(read_arpa(path).vocabulary) == 4
        path.write_text(before + head + longest + "a" + end)
        line = before.count("\n") + 7
        with pytest.raises(InputError, match=rf"m.arpa, line {line}: is longer than 65,536 bytes"):
            read_arpa(path)


@pytest.mark.parametrize("unit", ["a", " "])
def test_a_word_without_end_is_not_collected(tmp_path: Path, unit: str) -> None:
    (tmp_path / "book.txt").write_text("a b a\n")
    train_ngram(tmp_path / "book.txt", tmp_path / "m.arpa", order=1, smoothing="add-k")
    taken: list[int] = []

    def chunks() -> Iterator[str]:
        for number in range(1024):
            taken.append(number)
            yield unit * MIB

    model = NgramModel(str(tmp_path / "m.arpa"))
    with pytest.raises(UnusableText, match="more than 32 MiB of it are one word, or white space alone"):
        list(model.passages(chunks(), Rolling()))
    assert len(taken) < 40


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
@pytest.mark.parametrize("kind", ["arpa", "entropy", "texts"])
def test_a_pipe_that_nobody_writes_into_is_not_waited_for(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.txt"
    os.mkfifo(path)
    readers = {"arpa": read_arpa, "entropy": lambda path: read_texts([str(path)]), "texts": lambda path: Texts([path])}
    said: list[str] = []

    def work() -> None:
        with pytest.raises(InputError, match="is not a file but a pipe or a device") as error:
            readers[kind](path)
        said.append(str(error.value))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(10)
    assert said
