"""Texts to be read: files, folders, JSON lines and standard input, checked before any model is loaded.

A file is one document; a `.jsonl` file holds one in the field `text` of each line. `.gz` is unpacked on the way. Texts
are read in pieces and never held whole, so that a document may be longer than memory.
"""

from __future__ import annotations

import codecs
import contextlib
import gzip
import hashlib
import os
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec

from howsure.errors import InputError

PathLike = str | os.PathLike[str]

CHUNK_BYTES = 1 << 20
STANDARD_INPUT = "-"
TEXT_SUFFIXES = frozenset({".txt", ".text", ".md", ".rst"})
JSON_LINES_SUFFIXES = frozenset({".jsonl", ".ndjson"})


class Document(NamedTuple):
    """One text: what it is called, and how many bytes it has."""

    id: str
    byte_count: int


class Problem(NamedTuple):
    """Why a file or a line of one cannot be read as a text."""

    reason: str
    sentence: str


class Source(NamedTuple):
    """A file, under the name by which the user knows it."""

    name: str
    path: Path

    @property
    def holds_json(self) -> bool:
        return _suffix(self.name) in JSON_LINES_SUFFIXES


class Texts:
    """All documents of some sources, in order.

    Making it reads everything once: whatever cannot be read is an error that names file and line, or is counted
    under its reason with `skip_bad`.
    """

    def __init__(self, paths: Sequence[PathLike], *, skip_bad: bool = False) -> None:
        self._spooled: Any = None
        self.sources: list[Source] = []
        self.documents: list[Document] = []
        problems: list[Problem] = []
        contents = hashlib.sha256()
        for source in [source for path in paths for source in self._sources(os.fspath(path))]:
            documents, refused, digest = _scanned(source)
            problems += refused
            if documents:
                self.sources.append(source)
                self.documents += documents
                contents.update(digest)
        _report(problems, skip_bad, bool(self.documents), paths)
        self.skipped: dict[str, int] = dict(Counter(problem.reason for problem in problems))
        self.fingerprint = f"sha256:{contents.hexdigest()}"
        _refuse_twice(self.documents)

    @property
    def byte_count(self) -> int:
        return sum(document.byte_count for document in self.documents)

    def stream(self) -> Iterator[tuple[Document, Iterator[str]]]:
        """Every document with its text in pieces; a document's pieces are to be read before the next is asked for."""
        documents = iter(self.documents)
        for source in self.sources:
            for found in _texts(source):
                if not isinstance(found, Problem):
                    yield next(documents), found

    def _sources(self, path: str) -> list[Source]:
        if path == STANDARD_INPUT:
            return [Source("standard input", self._spool())]
        if os.path.isdir(path):
            return [Source(str(file), file) for file in _files_of(Path(path))]
        return [Source(path, Path(path))]

    def _spool(self) -> Path:
        """Standard input on the disk, since it is read twice: once to be checked, once by the model."""
        if self._spooled is None:
            self._spooled = tempfile.NamedTemporaryFile(prefix="howsure-")  # noqa: SIM115 - lives as long as this
            while chunk := sys.stdin.buffer.read(CHUNK_BYTES):
                self._spooled.write(chunk)
            self._spooled.flush()
        return Path(self._spooled.name)


# -- which files -----------------------------------------------------------------------------------------------------


def _suffix(name: str) -> str:
    return Path(name.removesuffix(".gz")).suffix.lower()


def _files_of(folder: Path) -> list[Path]:
    """The texts in a folder and the folders in it, by name; hidden ones and what is no text are left out."""
    wanted = TEXT_SUFFIXES | JSON_LINES_SUFFIXES
    inside = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    visible = [path for path in inside if not any(part.startswith(".") for part in path.relative_to(folder).parts)]
    found = [path for path in visible if _suffix(path.name) in wanted]
    if not found:
        raise InputError(
            f"{folder} holds no text: looked for {', '.join(sorted(wanted))}, each also with .gz; name other "
            "files one by one"
        )
    return found


# -- reading -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _opened(source: Source) -> Iterator[IO[bytes]]:
    try:
        with open(source.path, "rb") as plain:
            zipped = source.name.endswith(".gz")
            yield gzip.GzipFile(fileobj=plain) if zipped else plain  # type: ignore[misc]
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"{source.name} cannot be read: {why}") from error


def read_chunks(file: IO[bytes], size: int = CHUNK_BYTES) -> Iterator[bytes]:
    while chunk := file.read(size):
        yield chunk


def _texts(source: Source) -> Iterator[Iterator[str] | Problem]:
    """The documents of a source as pieces of text, and what is no document."""
    with _opened(source) as file:
        if not source.holds_json:
            yield _decoded(source.name, read_chunks(file))
            return
        for number, line in enumerate(file, 1):
            found = _json_text(source.name, number, line)
            if found is not None:
                yield found if isinstance(found, Problem) else iter([found.text])


def _decoded(name: str, chunks: Iterable[bytes]) -> Iterator[str]:
    """UTF-8 text of chunks of bytes that may end within a character."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    line = 1
    for chunk in _with_end(chunks):
        try:
            text = decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            line += error.object[: error.start].count(b"\n")
            raise InputError(
                f"{name}, line {line:,}: byte 0x{error.object[error.start]:02x} is not UTF-8 text; convert the file "
                "first, such as with iconv -f latin1 -t utf-8"
            ) from error
        line += chunk.count(b"\n")
        if text:
            yield text


def _with_end(chunks: Iterable[bytes]) -> Iterator[bytes]:
    yield from chunks
    yield b""


class _Line(msgspec.Struct):
    """One line of a JSON lines file; fields that howsure does not know are ignored."""

    text: str
    id: str | int | None = None


def _json_text(name: str, number: int, line: bytes) -> _Line | Problem | None:
    if not line.strip():
        return None
    place = f"{name}, line {number:,}"
    try:
        found = msgspec.json.decode(line, type=_Line)
        found.text.encode("utf-8")
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return Problem("bad_line", f"{place}: {error}; each line must be a JSON object with a text")
    if not found.text:
        return Problem("empty", f"{place}: text is empty")
    return found


# -- looking through -----------------------------------------------------------------------------------------------


def _scanned(source: Source) -> tuple[list[Document], list[Problem], bytes]:
    """The documents of a source, its problems, and a digest of what the documents hold.

    A file that breaks off has no documents: what came before the break may be half of one.
    """
    contents = hashlib.sha256()
    documents, problems = [], []
    try:
        for found in (_scanned_json if source.holds_json else _scanned_text)(source, contents):
            if isinstance(found, Document):
                documents.append(found)
            else:
                problems.append(found)
    except InputError as error:
        return [], [Problem("unreadable", str(error))], b""
    if not documents and not problems:
        problems = [Problem("empty", f"{source.name} is empty: there is no line 1 to read")]
    return documents, problems, contents.digest()


def _scanned_text(source: Source, contents: Any) -> Iterator[Document]:
    size = 0
    with _opened(source) as file:
        for text in _decoded(source.name, read_chunks(file)):
            spelled = text.encode("utf-8")
            size += len(spelled)
            contents.update(spelled)
    if size:
        yield Document(source.name, size)


def _scanned_json(source: Source, contents: Any) -> Iterator[Document | Problem]:
    with _opened(source) as file:
        for number, line in enumerate(file, 1):
            found = _json_text(source.name, number, line)
            if isinstance(found, _Line):
                spelled = found.text.encode("utf-8")
                contents.update(hashlib.sha256(spelled).digest())
                name = f"{source.name}:{number}" if found.id is None else str(found.id)
                yield Document(name, len(spelled))
            elif found is not None:
                yield found


def _report(problems: Sequence[Problem], skip_bad: bool, any_left: bool, paths: Sequence[PathLike]) -> None:
    if problems and not skip_bad:
        more = f" ({len(problems) - 1} more follow)" if len(problems) > 1 else ""
        raise InputError(f"{problems[0].sentence}{more}; --skip-bad goes on without such texts")
    if not any_left:
        named = ", ".join(os.fspath(path) for path in paths) or "nothing"
        raise InputError(f"there is no text to read in {named}")


def _refuse_twice(documents: Sequence[Document]) -> None:
    counts = Counter(document.id for document in documents)
    name, count = counts.most_common(1)[0]
    if count > 1:
        raise InputError(
            f"{name!r} is the name of {count} documents: name each file once, and give each line its own id"
        )
