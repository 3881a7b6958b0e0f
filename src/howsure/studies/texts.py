"""Texts to be read: files, folders, JSON lines and standard input, checked before any model is loaded.

A file is one document; a `.jsonl` file holds one in the field `text` of each line. `.gz` is unpacked on the way. Texts
are read in pieces and never held whole, so that a document may be longer than memory.
"""

from __future__ import annotations

import codecs
import contextlib
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

from howsure.errors import InputError, StorageError
from howsure.runs.files import storage_errors
from howsure.runs.reading import MANIFEST
from howsure.storage import (
    OPENED_BY_THE_SHELL,
    local_folder,
    open_regular,
    shown_path,
)
from howsure.storage.opening import MOST_FOLD, read_lines, unpacking

PathLike = str | os.PathLike[str]

CHUNK_BYTES = 1 << 20
MOST_LINE_BYTES = 64 << 20
"""Of a line of JSON, which is held as a whole."""
STANDARD_INPUT = "-"
TEXT_SUFFIXES = frozenset({".txt", ".text", ".md", ".rst"})
JSON_LINES_SUFFIXES = frozenset({".jsonl", ".ndjson"})
WANTED = TEXT_SUFFIXES | JSON_LINES_SUFFIXES


def as_paths(texts: PathLike | Sequence[PathLike] | None) -> list[PathLike]:
    """One path or several, as several; None is what is piped in, or an error where a person sits at the keyboard."""
    if texts is None:
        if sys.stdin.isatty():
            raise InputError("there is no text: name files or folders, or pipe one in")
        return [STANDARD_INPUT]
    return [texts] if isinstance(texts, str | os.PathLike) else list(texts)


class Document(NamedTuple):
    """One text: what it is called, and how many bytes it has."""

    id: str
    byte_count: int


class Problem(NamedTuple):
    """Why a file or a line of one cannot be read as a text."""

    reason: str
    sentence: str


class Source(NamedTuple):
    """A file, under the name by which the user knows it; and how far it may unpack."""

    name: str
    path: Path
    most_fold: int = MOST_FOLD

    @property
    def holds_json(self) -> bool:
        return _suffix(self.name) in JSON_LINES_SUFFIXES


class Texts:
    """All documents of some sources, in order.

    Making it reads everything once: whatever cannot be read is an error that names file and line, or is counted
    under its reason with `skip_bad`. The fingerprint is that of the documents in their order, whatever they are called
    and however they are packed. `most_fold` is how far a packed one may unpack.
    """

    def __init__(self, paths: Sequence[PathLike], *, skip_bad: bool = False, most_fold: int = MOST_FOLD) -> None:
        self._spooled: dict[str, Any] = {}
        self.sources: list[Source] = []
        self.documents: list[Document] = []
        problems: list[Problem] = []
        contents = hashlib.sha256()
        for source in [source for path in paths for source in self._sources(os.fspath(path))]:
            source = source._replace(most_fold=most_fold)
            documents, refused, digests = _scanned(source)
            problems += refused
            if documents:
                self.sources.append(source)
                self.documents += documents
                contents.update(digests)
        _report(problems, skip_bad, bool(self.documents), paths)
        self.skipped: dict[str, int] = dict(Counter(problem.reason for problem in problems))
        self.fingerprint = f"sha256:{contents.hexdigest()}"
        _refuse_twice(self.documents)

    @property
    def byte_count(self) -> int:
        return sum(document.byte_count for document in self.documents)

    def identity(self) -> dict[str, Any]:
        """What run.json says of them."""
        return {"fingerprint": self.fingerprint, "documents": len(self.documents), "skipped": self.skipped}

    def stream(self) -> Iterator[tuple[Document, Iterator[str]]]:
        """Every document with its text in pieces; a document's pieces are to be read before the next is asked for."""
        documents = iter(self.documents)
        for source in self.sources:
            for text in _texts(source):
                document = next(documents, None)
                if document is None:
                    raise _changed(source.name)
                yield document, _as_long_as(document, text)
        if (document := next(documents, None)) is not None:
            raise _changed(document.id)

    def _sources(self, path: str) -> list[Source]:
        if path == STANDARD_INPUT:
            return [Source("standard input", self._spool(path, sys.stdin.buffer))]
        place = local_folder(path, lambda name: _suffix(name) in WANTED or name.rpartition("/")[2] == MANIFEST)
        if place.is_dir():
            return [Source(_name(file), file) for file in _files_of(place)]
        source = Source(_name(place), place)
        if not path.startswith(OPENED_BY_THE_SHELL):
            return [source]
        with _reading_errors(source.name), open_regular(path, shell_pipes=True) as pipe:
            return [source._replace(path=self._spool(path, pipe))]

    def _spool(self, path: str, stream: IO[bytes]) -> Path:
        """A pipe on the disk, since texts are read twice: once to be checked, once by the model."""
        if path not in self._spooled:
            with storage_errors(Path(tempfile.gettempdir())):
                file = tempfile.NamedTemporaryFile(prefix="howsure-")  # noqa: SIM115 - lives as long as this
                for chunk in read_chunks(stream):
                    file.write(chunk)
                file.flush()
            self._spooled[path] = file
        return Path(self._spooled[path].name)


def _changed(name: str) -> InputError:
    return InputError(f"{_short(name)} changed while it was read: let nobody write to it, and start anew")


def _as_long_as(document: Document, pieces: Iterable[str]) -> Iterator[str]:
    """The pieces of a document that must still have the bytes that it had when it was looked through."""
    left = document.byte_count
    for piece in pieces:
        left -= len(piece.encode("utf-8"))
        if left < 0:
            break
        yield piece
    if left:
        raise _changed(document.id)


# -- which files -----------------------------------------------------------------------------------------------------


def _name(path: PathLike) -> str:
    """A path as text that can be written; a name on the disk may be no text at all."""
    return shown_path(os.fsencode(path).decode("utf-8", errors="backslashreplace"))


def _suffix(name: str) -> str:
    return Path(name.removesuffix(".gz")).suffix.lower()


def _files_of(folder: Path) -> list[Path]:
    """The texts in a folder and the folders in it, by name, without hidden ones, run folders and what is no text."""
    inside = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    visible = [path for path in inside if not any(part.startswith(".") for part in path.relative_to(folder).parts)]
    texts = [path for path in visible if _suffix(path.name) in WANTED and not (path.parent / MANIFEST).is_file()]
    if not texts:
        raise InputError(
            f"{folder} holds no text: looked for {', '.join(sorted(WANTED))}, each also with .gz; name other "
            "files one by one"
        )
    return texts


# -- reading -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _opened(source: Source) -> Iterator[IO[bytes]]:
    with _reading_errors(source.name), open_regular(source.path) as plain:
        zipped = source.name.endswith(".gz")
        yield unpacking(plain, source.name, source.most_fold) if zipped else plain


@contextlib.contextmanager
def _reading_errors(name: str) -> Iterator[None]:
    try:
        yield
    except StorageError:
        raise
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"{name} cannot be read: {why}") from error


def read_chunks(file: IO[bytes]) -> Iterator[bytes]:
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


def _texts(source: Source) -> Iterator[Iterator[str]]:
    """The documents of a source as pieces of text; what is none was reported before, and is passed over."""
    if not source.holds_json:
        yield _text(source)
        return
    for _, line in _lines(source):
        if isinstance(line, _Line):
            yield iter([line.text])


def _text(source: Source) -> Iterator[str]:
    with _opened(source) as file:
        yield from _decoded(source.name, read_chunks(file))


def _lines(source: Source) -> Iterator[tuple[int, _Line | Problem]]:
    """The lines of a JSON lines file that are not blank, by number."""
    with _opened(source) as file:
        for number, line in enumerate(read_lines(file, source.name, MOST_LINE_BYTES), 1):
            line = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
            if line.strip():
                yield number, _json_text(f"{source.name}, line {number:,}", line)


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


def _json_text(place: str, line: bytes) -> _Line | Problem:
    try:
        decoded = msgspec.json.decode(line, type=_Line)
        decoded.text.encode("utf-8")
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return Problem("bad_line", f"{place}: {error}; each line must be a JSON object with a text")
    if not decoded.text:
        return Problem("empty", f"{place}: text is empty")
    return decoded


# -- looking through -----------------------------------------------------------------------------------------------


def _scanned(source: Source) -> tuple[list[Document], list[Problem], bytes]:
    """The documents of a source, its problems, and the digests of what the documents hold, one after the other.

    A file that breaks off has no documents: what came before the break may be half of one.
    """
    digests = bytearray()
    documents, problems = [], []
    try:
        for result in (_scanned_json if source.holds_json else _scanned_text)(source, digests):
            if isinstance(result, Document):
                documents.append(result)
            else:
                problems.append(result)
    except InputError as error:
        return [], [Problem("unreadable", str(error))], b""
    if not documents and not problems:
        problems = [Problem("empty", f"{source.name} is empty: there is no line 1 to read")]
    return documents, problems, bytes(digests)


def _scanned_text(source: Source, digests: bytearray) -> Iterator[Document]:
    size, contents = 0, hashlib.sha256()
    for text in _text(source):
        spelled = text.encode("utf-8")
        size += len(spelled)
        contents.update(spelled)
    if size:
        digests += contents.digest()
        yield Document(source.name, size)


def _scanned_json(source: Source, digests: bytearray) -> Iterator[Document | Problem]:
    for number, one in _lines(source):
        if isinstance(one, Problem):
            yield one
            continue
        spelled = one.text.encode("utf-8")
        digests += hashlib.sha256(spelled).digest()
        yield Document(f"{source.name}:{number}" if one.id is None else str(one.id), len(spelled))


def _report(problems: Sequence[Problem], skip_bad: bool, any_left: bool, paths: Sequence[PathLike]) -> None:
    if problems and not skip_bad:
        more = f" ({len(problems) - 1} more follow)" if len(problems) > 1 else ""
        raise InputError(f"{problems[0].sentence}{more}; --skip-bad goes on without such texts")
    if not any_left:
        named = ", ".join(_name(path) for path in paths) or "nothing"
        raise InputError(f"there is no text to read in {named}")


def _refuse_twice(documents: Sequence[Document]) -> None:
    counts = Counter(document.id for document in documents)
    name, count = counts.most_common(1)[0]
    if count > 1:
        raise InputError(
            f"{_short(name)!r} is the name of {count} documents: name each file once, and give each line its own id"
        )


def _short(name: str) -> str:
    return name if len(name) <= 100 else f"{name[:99]}…"
