"""Texts from files, folders, JSON lines and pipes: what becomes a document, and what is refused by file and line."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howsure.errors import InputError, StorageError
from howsure.models.ngram.training import Piece
from howsure.studies import texts
from howsure.studies.ngram import pieces
from howsure.studies.texts import Document, Texts

MANY = "naïve – 数字 🤖\nzwei\n\nend"
"""Characters of one to four bytes."""


def put(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def put_lines(path: Path, *rows: Any) -> Path:
    return put(path, "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))


def read(found: Texts) -> dict[str, str]:
    """Every document, its pieces put together."""
    return {document.id: "".join(chunks) for document, chunks in found.stream()}


def give_stdin(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))


# -- what becomes a document --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.txt", "a", "a.txt.gz", "odd name.log"])
def test_a_file_is_one_document_with_its_name_and_its_bytes(tmp_path: Path, name: str) -> None:
    path = put(tmp_path / name, MANY)
    found = Texts([path])
    assert found.documents == [Document(str(path), len(MANY.encode()))]
    assert read(found) == {str(path): MANY}
    assert found.byte_count == len(MANY.encode())
    assert found.skipped == {}


@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson", "a.JSONL", "a.jsonl.gz"])
def test_a_json_line_is_one_document(tmp_path: Path, name: str) -> None:
    path = put_lines(
        tmp_path / name, {"text": MANY}, "", {"text": "b", "id": "mine"}, {"id": 7, "more": [1], "text": "c\r\n"}
    )
    found = Texts([path])
    assert found.documents == [Document(f"{path}:1", len(MANY.encode())), Document("mine", 1), Document("7", 3)]
    assert list(read(found).values()) == [MANY, "b", "c\r\n"]


def test_a_json_lines_file_with_a_byte_order_mark_and_windows_line_ends_is_no_trouble(tmp_path: Path) -> None:
    path = put(tmp_path / "a.jsonl", b'\xef\xbb\xbf{"text": "a"}\r\n{"text": "b"}')
    assert list(read(Texts([path])).values()) == ["a", "b"]


def test_a_folder_gives_its_texts_by_name_and_leaves_out_what_is_hidden_or_no_text(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.md", "a/c.rst.gz", "A.TXT", "a/deep/er/d.text"):
        put(tmp_path / name, name)
    put_lines(tmp_path / "e.jsonl", {"text": "e.jsonl"})
    for name in (".hidden.txt", ".git/x.txt", "a/.cache/y.txt", "image.png", "no_suffix", "table.csv", "z.zip"):
        put(tmp_path / name, "never read")
    for name in ("run.json", "samples.jsonl"):
        put(tmp_path / "runs" / "first" / name, "a run of ours, with a text's suffix")
    put(tmp_path / "c.txt" / "inside.txt", "a folder with the name of a text")
    wanted = ["A.TXT", "a/c.rst.gz", "a/deep/er/d.text", "a/z.md", "b.txt", "c.txt/inside.txt", "e.jsonl:1"]
    assert [document.id for document in Texts([tmp_path]).documents] == [f"{tmp_path}/{name}" for name in wanted]


def test_standard_input_is_read_once_and_streamed_as_often_as_one_likes(monkeypatch: pytest.MonkeyPatch) -> None:
    give_stdin(monkeypatch, MANY.encode())
    found = Texts(["-"])
    assert found.documents == [Document("standard input", len(MANY.encode()))]
    assert [read(found), read(found)] == [{"standard input": MANY}] * 2


def test_a_pipe_is_kept_like_standard_input() -> None:
    """As `howsure perplexity <(zcat book.gz)` gives it: it can be read once only."""
    reading, writing = os.pipe()
    with open(writing, "w") as file:
        file.write(MANY)
    found = Texts([f"/dev/fd/{reading}"])
    os.close(reading)
    assert read(found) == {f"/dev/fd/{reading}": MANY}


def test_a_temporary_folder_that_cannot_be_written_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    give_stdin(monkeypatch, b"a")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(StorageError, match=f"{tmp_path}/gone cannot be written"):
        Texts(["-"])


def test_sources_of_every_kind_come_in_the_order_they_were_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_stdin(monkeypatch, b"from a pipe")
    single = put(tmp_path / "single.log", "one")
    lines = put_lines(tmp_path / "lines.jsonl.gz", {"text": "two", "id": "x"}, {"text": "three"})
    put(tmp_path / "folder" / "b.txt", "five")
    put(tmp_path / "folder" / "a.txt", "four")
    found = Texts([single, str(lines), "-", tmp_path / "folder"])
    assert list(read(found).values()) == ["one", "two", "three", "from a pipe", "four", "five"]
    assert [document.byte_count for document in found.documents] == [3, 3, 5, 11, 4, 4]


def test_a_name_on_the_disk_that_is_no_text_is_written_with_its_bytes(tmp_path: Path) -> None:
    with open(os.fsencode(tmp_path) + b"/\xff.txt", "wb") as file:
        file.write(b"a")
    for path in (tmp_path, os.fsdecode(os.fsencode(tmp_path) + b"/\xff.txt")):
        assert read(Texts([path])) == {f"{tmp_path}/\\xff.txt": "a"}


# -- pieces -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1000])
def test_the_text_is_the_same_whatever_the_size_of_its_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    sources = [
        put(tmp_path / "a.txt", MANY),
        put(tmp_path / "b.txt.gz", MANY * 3),
        put_lines(tmp_path / "c.jsonl", {"text": MANY}),
    ]
    whole = Texts(sources)
    monkeypatch.setattr(texts, "CHUNK_BYTES", size)
    found = Texts(sources)
    assert (found.documents, found.fingerprint) == (whole.documents, whole.fingerprint)
    assert list(read(found).values()) == [MANY, MANY * 3, MANY]
    counts = [len(list(chunks)) for _, chunks in found.stream()]
    assert counts[2] == 1, "a JSON line comes whole"
    assert (counts[0] == len(MANY)) == (size == 1), "byte by byte, character by character"
    assert (counts[0] == 1) == (size == 1000)


@settings(max_examples=60)
@given(st.lists(st.text(min_size=1), min_size=1, max_size=5), st.integers(1, 9))
def test_what_was_written_is_what_is_read(
    tmp_path_factory: pytest.TempPathFactory, written: list[str], size: int
) -> None:
    folder = tmp_path_factory.mktemp("any")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(texts, "CHUNK_BYTES", size)
        plain = Texts([put(folder / f"{i}.txt{'.gz' if i % 2 else ''}", text) for i, text in enumerate(written)])
        lines = Texts([put_lines(folder / "all.jsonl", *({"text": text} for text in written))])
        for found in (plain, lines):
            assert list(read(found).values()) == written
            assert [document.byte_count for document in found.documents] == [len(text.encode()) for text in written]
        assert plain.fingerprint == lines.fingerprint


@settings(max_examples=60)
@given(st.text(alphabet="ab\n 数", min_size=1, max_size=60), st.integers(1, 7))
def test_training_gets_whole_lines_that_know_their_number(
    tmp_path_factory: pytest.TempPathFactory, text: str, size: int
) -> None:
    folder = tmp_path_factory.mktemp("lines")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(texts, "CHUNK_BYTES", size)
        path = put(folder / "a.txt", text)
        found: list[Piece] = list(pieces(Texts([path])))
    assert b"".join(piece.text for piece in found) == text.encode()
    before = 0
    for i, piece in enumerate(found):
        assert (piece.source, piece.lines_before) == (str(path), before)
        assert piece.text.endswith(b"\n") or i == len(found) - 1
        before += piece.text.count(b"\n")


# -- the fingerprint ----------------------------------------------------------------------------------------------


def test_the_fingerprint_is_of_the_texts_and_not_of_their_names_or_packing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = put(tmp_path / "a.txt", "one"), put(tmp_path / "b.md", "two")
    expected = Texts([first, second]).fingerprint
    digests = hashlib.sha256(b"one").digest() + hashlib.sha256(b"two").digest()
    assert expected == f"sha256:{hashlib.sha256(digests).hexdigest()}"
    give_stdin(monkeypatch, b"two")
    for same in (
        [put(tmp_path / "c.txt.gz", "one"), put(tmp_path / "d", "two")],
        [put_lines(tmp_path / "lines.jsonl", {"text": "one", "id": "z"}, {"text": "two"})],
        [first, "-"],
    ):
        assert Texts(same).fingerprint == expected


def test_other_texts_another_order_and_another_division_are_another_fingerprint(tmp_path: Path) -> None:
    one, two, both = put(tmp_path / "1", "one"), put(tmp_path / "2", "two"), put(tmp_path / "3", "onetwo")
    found = [Texts(paths).fingerprint for paths in ([one, two], [two, one], [both], [one], [two])]
    assert len(set(found)) == 5


# -- what is refused ----------------------------------------------------------------------------------------------


def packed(data: bytes) -> bytes:
    """Without the time of day: it is part of a test's name, which must be the same in every process."""
    return gzip.compress(data, mtime=0)


BAD_FILES = [
    ("gone.txt", None, "cannot be read: No such file or directory", "unreadable"),
    ("empty.txt", b"", "is empty: there is no line 1 to read", "empty"),
    ("empty.jsonl", b"", "is empty: there is no line 1 to read", "empty"),
    ("blank.jsonl", b"\n  \n", "is empty: there is no line 1 to read", "empty"),
    ("latin.txt", b"one\ntwo\nna\xefve\n", ", line 3: byte 0xef is not UTF-8 text; convert the file", "unreadable"),
    ("torn.txt", "one\ntwo\n数".encode()[:-1], ", line 3: byte 0xe6 is not UTF-8 text", "unreadable"),
    ("utf16.txt", "one".encode("utf-16"), ", line 1: byte 0xff is not UTF-8 text", "unreadable"),
    ("not.txt.gz", b"hello", "cannot be read: Not a gzipped file", "unreadable"),
    ("half.txt.gz", packed(b"a" * 1000)[:-9], "cannot be read: Compressed file ended before", "unreadable"),
    ("bent.txt.gz", packed(b"a")[:-8] + bytes(8), "cannot be read: CRC check failed", "unreadable"),
    ("torn.txt.gz", packed(b"a")[:10] + b"\xff" * 9, "cannot be read: Error -3 while", "unreadable"),
    ("empty.txt.gz", packed(b""), "is empty", "empty"),
    ("half.jsonl.gz", packed(b'{"text": "a"}\n' * 50)[:-9], "cannot be read: Compressed file", "unreadable"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "words", "reason"), BAD_FILES)
def test_a_file_that_cannot_be_read_is_named_and_can_be_left_out(
    tmp_path: Path, name: str, content: bytes | None, words: str, reason: str
) -> None:
    path, good = tmp_path / name, put(tmp_path / "good.txt", "good")
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        Texts([good, path])
    assert str(caught.value).startswith(f"{path}{words if words[0] == ',' else f' {words}'}")
    assert "--skip-bad" in str(caught.value)
    found = Texts([path, good], skip_bad=True)
    assert (read(found), found.skipped) == ({str(good): "good"}, {reason: 1})
    with pytest.raises(InputError, match=f"there is no text to read in {path}"):
        Texts([path], skip_bad=True)


BAD_LINES = [
    ("{", "Input data was truncated", "bad_line"),
    ('{"text": "a"} x', "JSON is malformed", "bad_line"),
    ("[1]", "Expected `object`, got `array`", "bad_line"),
    ("plain words", "JSON is malformed", "bad_line"),
    ('{"id": "x"}', "Object missing required field `text`", "bad_line"),
    ('{"text": 3}', "Expected `str`, got `int` - at `$.text`", "bad_line"),
    ('{"text": null}', "Expected `str`, got `null`", "bad_line"),
    ('{"text": "a", "id": 1.5}', "Expected `int | str | null`, got `float` - at `$.id`", "bad_line"),
    ('{"text": "a\\ud800b"}', "each line must be a JSON object with a text", "bad_line"),
    ('{"text": "a\\udc00"}', "each line must be a JSON object with a text", "bad_line"),
    ('{"text": "a", "id": "\\ud800"}', "each line must be a JSON object with a text", "bad_line"),
    ("[" * 100_000, "Expected `object`, got `array`", "bad_line"),
    ('{"more": ' + "[" * 100_000, "line 3", "bad_line"),
    ('{"text": ""}', "text is empty", "empty"),
]


@pytest.mark.parametrize(("line", "words", "reason"), BAD_LINES)
def test_a_bad_line_is_named_by_its_number_and_can_be_left_out(
    tmp_path: Path, line: str, words: str, reason: str
) -> None:
    path = put_lines(tmp_path / "a.jsonl", {"text": "one"}, "", line, {"text": "four"})
    with pytest.raises(InputError) as caught:
        Texts([path])
    assert str(caught.value).startswith(f"{path}, line 3: ")
    assert words in str(caught.value)
    assert str(caught.value).endswith("; --skip-bad goes on without such texts")
    found = Texts([path], skip_bad=True)
    assert read(found) == {f"{path}:1": "one", f"{path}:4": "four"}
    assert found.skipped == {reason: 1}


def test_bytes_that_are_no_text_in_a_json_line_are_named_by_line(tmp_path: Path) -> None:
    path = put(tmp_path / "a.jsonl", b'{"text": "one"}\n{"text": "na\xefve"}\n')
    with pytest.raises(InputError, match=f"{path}, line 2: 'utf-8' codec can't decode byte 0xef"):
        Texts([path])
    assert read(Texts([path], skip_bad=True)) == {f"{path}:1": "one"}


def test_bytes_that_are_no_text_are_named_by_line_whatever_the_size_of_the_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(tmp_path / "a.txt", "数\n".encode() * 5 + b"ab\xff\n")
    for size in range(1, 30):
        monkeypatch.setattr(texts, "CHUNK_BYTES", size)
        with pytest.raises(InputError, match=", line 6: byte 0xff"):
            Texts([path])


def test_the_first_of_several_problems_is_told_and_the_others_counted(tmp_path: Path) -> None:
    path = put_lines(tmp_path / "a.jsonl", "{", "{", {"text": "x"})
    with pytest.raises(InputError, match=r"line 1: .* \(2 more follow\); --skip-bad"):
        Texts([path, tmp_path / "gone.txt"])


def test_bad_and_good_of_every_kind_stay_in_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is streamed must be the document it is said to be, whatever was left out before it."""
    give_stdin(monkeypatch, b"")
    sources: list[Path | str] = ["-"]
    for i, (name, content, _, _) in enumerate(BAD_FILES):
        if content is not None:
            (tmp_path / f"{i}-{name}").write_bytes(content)
        sources += [tmp_path / f"{i}-{name}", put(tmp_path / f"good-{i}.txt", f"text {i}")]
    rows: list[Any] = [{"text": "l0", "id": "l0"}]
    for i, (line, _, _) in enumerate(BAD_LINES, 1):
        rows += [line, {"text": f"l{i}", "id": f"l{i}"}]
    sources += [put_lines(tmp_path / "mixed.jsonl", *rows), put_lines(tmp_path / "mixed.jsonl.gz", "{", {"text": "z"})]
    found = Texts(sources, skip_bad=True)
    expected = {f"{tmp_path}/good-{i}.txt": f"text {i}" for i in range(len(BAD_FILES))}
    expected |= {f"l{i}": f"l{i}" for i in range(len(BAD_LINES) + 1)} | {f"{tmp_path}/mixed.jsonl.gz:2": "z"}
    assert read(found) == expected
    assert [document.byte_count for document in found.documents] == [len(text) for text in expected.values()]
    reasons = [reason for *_, reason in BAD_FILES] + [reason for *_, reason in BAD_LINES] + ["empty", "bad_line"]
    assert found.skipped == {reason: reasons.count(reason) for reason in set(reasons)}
    alone = Texts(
        [source for source in sources if str(source).startswith(f"{tmp_path}/good")]
        + [put_lines(tmp_path / "rest.jsonl", *({"text": f"l{i}"} for i in range(len(BAD_LINES) + 1)), {"text": "z"})]
    )
    assert found.fingerprint == alone.fingerprint, "what is left out leaves no trace"


def test_two_documents_of_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give_stdin(monkeypatch, b"a")
    path = put(tmp_path / "a.txt", "a")
    lines = put_lines(tmp_path / "a.jsonl", {"text": "a", "id": 7}, {"text": "b", "id": "7"})
    for sources, name in (
        ([path, path], str(path)),
        ([path, tmp_path], str(path)),
        ([lines], "7"),
        (["-", "-"], "sta"),
    ):
        with pytest.raises(InputError, match=f"'{name}.*' is the name of 2 documents: name each file once"):
            Texts(sources)
    endless = put_lines(tmp_path / "long.jsonl", *[{"text": "a", "id": "x" * 1_000_000}] * 2)
    with pytest.raises(InputError) as caught:
        Texts([endless])
    assert len(str(caught.value)) < 300


def test_nothing_at_all_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="there is no text to read in nothing"):
        Texts([])
    put(tmp_path / "folder" / "image.png", "x")
    with pytest.raises(InputError, match=r"folder holds no text: looked for \.jsonl, .*\.txt, each also with \.gz"):
        Texts([tmp_path / "folder"])
    give_stdin(monkeypatch, b"")
    with pytest.raises(InputError, match="standard input is empty"):
        Texts(["-"])
    give_stdin(monkeypatch, b"one\n\xff")
    with pytest.raises(InputError, match="standard input, line 2: byte 0xff"):
        Texts(["-"])


# -- texts that change under the reader's hands ------------------------------------------------------------------


@pytest.mark.parametrize("content", ["longer than it was", "short", ""])
def test_a_text_that_changed_since_it_was_looked_through_is_not_read_in_silence(tmp_path: Path, content: str) -> None:
    path = put(tmp_path / "a.txt", "as it was")
    found = Texts([path, put(tmp_path / "b.txt", "b")])
    put(path, content)
    with pytest.raises(InputError, match=f"{path} changed while it was read"):
        read(found)
    path.unlink()
    with pytest.raises(InputError, match=f"{path} cannot be read: No such file"):
        read(found)


@pytest.mark.parametrize("rows", [[{"text": "one"}], [{"text": "one"}, {"text": "two"}, {"text": "three"}]])
def test_lines_that_came_or_went_since_are_not_read_in_silence(tmp_path: Path, rows: list[Any]) -> None:
    path = put_lines(tmp_path / "a.jsonl", {"text": "one"}, {"text": "two"})
    found = Texts([path])
    put_lines(path, *rows)
    with pytest.raises(InputError, match=f"{path}.* changed while it was read"):
        read(found)


def test_a_packed_text_that_breaks_off_while_it_is_read_is_a_sentence(tmp_path: Path) -> None:
    path = put(tmp_path / "a.txt.gz", "a" * 1000)
    found = Texts([path])
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match=f"{path} cannot be read: Compressed file ended"):
        read(found)
