"""ARPA files, in and out: the text form in which KenLM, SRILM and others exchange n-gram models.

    \\data\\
    ngram 1=4

    \\1-grams:
    -0.9542425<tab>word<tab>-0.30103        log10 p, the words, log10 of the back-off (left out where it is 0)

    \\end\\

A file comes from anywhere, so every line is checked, and an error names the first line that is wrong. −99 or less is a
probability of zero, as SRILM writes it.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import gzip
import os
import re
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from howsure.errors import InputError
from howsure.models.ngram.table import SPECIAL, UNKNOWN, Ids, Level, NgramTable, Vocabulary
from howsure.models.text import is_space
from howsure.storage import open_regular
from howsure.storage.opening import BLOCK_BYTES, unpacking

PathLike = str | os.PathLike[str]

LOG10_OF_ZERO = -99.0
MOST_LINE_BYTES = 1 << 16
_FLAGS = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
_LONGEST_NUMBER = 64
_DATA = re.compile(rb"^[ \t]*\\data\\[ \t\r]*$", re.MULTILINE)
_COUNT = re.compile(rb"ngram\s+(\d{1,4})\s*=\s*(\d{1,15})")
_SECTION = re.compile(rb"\\(\d{1,4})-grams:")
_STRANGERS = {
    b"mmap lm http://kheafield.com/code": "a KenLM binary; give the ARPA file that it was built from",
    b"GGUF": "a GGUF file of a neural network; open it with hf:<folder>",
    b"PK\x03\x04": "a zip archive; unpack it first",
    b"\x28\xb5\x2f\xfd": "compressed with zstd; unpack it first",
    b"BZh": "compressed with bzip2; unpack it first, or use gzip",
    b"\xfd7zXZ": "compressed with xz; unpack it first, or use gzip",
    b"iARPA": "an iARPA file of IRSTLM; convert it with compile-lm --text=yes",
}


# -- out ---------------------------------------------------------------------------------------------------------


def arpa_lines(table: NgramTable) -> Iterator[bytes]:
    """The file, in blocks."""
    counts = "\n".join(f"ngram {n}={count}" for n, count in enumerate(table.counts, 1))
    yield f"\\data\\\n{counts}\n".encode()
    texts: list[str] = []
    words = [word.decode("utf-8") for word in table.vocabulary.words]
    for length, level in enumerate(table.levels, 1):
        size = len(words)
        if length == 1:
            texts = words
        else:
            contexts, last = (level.keys // size).tolist(), (level.keys % size).tolist()
            texts = [f"{texts[context]} {words[word]}" for context, word in zip(contexts, last, strict=True)]
        yield f"\n\\{length}-grams:\n".encode() + _section(level, texts, length == table.order)
    yield b"\n\\end\\\n"


def write_arpa(table: NgramTable, path: PathLike) -> None:
    """The whole model as one file; half of it never stands there under this name. Equal models are equal files."""
    target = Path(path)
    scratch = target.with_name(f".{target.name}.part")
    with _held(scratch, target) as raw:
        zipped = gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if target.suffix == ".gz" else None
        with zipped or contextlib.nullcontext(raw) as file:
            for block in arpa_lines(table):
                file.write(block)
        raw.flush()
        os.fsync(raw.fileno())
        if os.name != "nt":
            os.replace(scratch, target)
    if os.name == "nt":  # where nothing can be renamed that is open
        os.replace(scratch, target)


@contextlib.contextmanager
def _held(path: Path, target: Path) -> Iterator[IO[bytes]]:
    """An empty file that nobody else writes meanwhile; it is taken away where the work does not get to its end."""
    with _new_or_left(path) as file:
        if not _is_ours(file, path):
            raise InputError(f"{target} is being written by another process: wait for it, or name another --out")
        try:
            file.truncate(0)
            yield file
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def _new_or_left(path: Path) -> IO[bytes]:
    """A new file, or the one that a killed process left; never what a link or a pipe leads to."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | _FLAGS, 0o666)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO):
            raise
        raise _in_the_way(path) from error
    about = os.fstat(handle)
    if not stat.S_ISREG(about.st_mode) or about.st_nlink > 1:
        os.close(handle)
        raise _in_the_way(path)
    return os.fdopen(handle, "wb")


def _in_the_way(path: Path) -> InputError:
    return InputError(f"{path} is a link or a pipe, where howsure writes a file of its own: remove it")


def _is_ours(file: IO[bytes], path: Path) -> bool:
    """Whether the lock on a file could be had, and the file is still the one of that name."""
    if os.name == "nt":
        return True
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(file.fileno()), path.lstat())
    except OSError:
        return False


def _section(level: Level, texts: list[str], longest: bool) -> bytes:
    probs = np.maximum(level.log10_probs, LOG10_OF_ZERO).tolist()
    if longest:
        return "".join(f"{p:.8g}\t{text}\n" for p, text in zip(probs, texts, strict=True)).encode()
    backoffs = np.maximum(level.log10_backoffs, LOG10_OF_ZERO).tolist()
    return "".join(f"{p:.8g}\t{text}\t{b:.8g}\n" for p, text, b in zip(probs, texts, backoffs, strict=True)).encode()


# -- in ----------------------------------------------------------------------------------------------------------


class _Lines(NamedTuple):
    """A file, and where its lines begin and end in it."""

    path: str
    data: bytes
    starts: Ids
    ends: Ids

    def text(self, line: int) -> bytes:
        if line >= len(self.ends):
            self.refuse(len(self.ends) - 1, "the file ends within its header")
        return self.data[self.starts[line] : self.ends[line]].strip()

    def refuse(self, line: int, what: str) -> NoReturn:
        _refuse(self.path, line, what)


class _Section(NamedTuple):
    """The n-grams of one length: their lines, and the fields of all lines as places in the file.

    `firsts` is the number of each line's first field.
    """

    length: int
    lines: Ids
    starts: Ids
    ends: Ids
    firsts: Ids
    has_backoff: NDArray[np.bool_]


def read_arpa(path: PathLike) -> NgramTable:
    """A model from its file, plain or gzipped."""
    lines = _lines(os.fspath(path), _content(Path(path)))
    promised, at = _header(lines)
    sections = [_taken_apart(lines, n, inside) for n, inside in _sections(lines, promised, at)]
    vocabulary, order_of_words = _vocabulary(lines, sections[0])
    levels = [_words_level(lines, sections[0], order_of_words, len(vocabulary))]
    for section in sections[1:]:
        levels.append(_level(lines, section, vocabulary, levels))
    return NgramTable(vocabulary, levels)


def _content(path: Path) -> bytes:
    name = os.fspath(path)
    try:
        with open_regular(path, shell_pipes=True) as file:
            zipped = file.peek(2)[:2] == b"\x1f\x8b"  # type: ignore[attr-defined]
            return b"".join(_checked(name, unpacking(file, name, weigh=_memory_bytes) if zipped else file))
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(
            f"{path} cannot be read: {why}; name an ARPA file, such as `howsure ngram train` writes"
        ) from error


def _memory_bytes(block: bytes) -> int:
    """What becomes of a block: its bytes, its lines and its fields, whose places are kept."""
    fields = int(np.count_nonzero(np.diff(is_space(block)))) // 2
    return 4 * len(block) + 16 * block.count(b"\n") + 40 * fields


def _checked(path: str, file: IO[bytes]) -> Iterator[bytes]:
    """The blocks of a file, which is refused at the first that no ARPA file holds."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    line = begun_bytes = 0
    while block := file.read(BLOCK_BYTES):
        if not line:
            for sign, what in _STRANGERS.items():
                if block.startswith(sign):
                    raise InputError(f"{path} is {what}")
        _check_text(path, line, decoder, block)
        newlines = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == ord("\n"))
        lengths = np.diff(newlines, prepend=-1 - begun_bytes, append=len(block)) - 1
        if lengths.max() > MOST_LINE_BYTES:
            _refuse(path, line + int(np.argmax(lengths)), f"is longer than {MOST_LINE_BYTES:,} bytes; no n-gram is")
        line, begun_bytes = line + len(newlines), int(lengths[-1])
        yield block
    _check_text(path, line, decoder, b"")


def _check_text(path: str, line: int, decoder: codecs.IncrementalDecoder, block: bytes) -> None:
    """An empty block is the end."""
    try:
        decoder.decode(block, final=not block)
    except UnicodeDecodeError as error:
        place = line + error.object.count(b"\n", 0, error.start)
        _refuse(path, place, "these bytes are not UTF-8; convert the file first")
    if (nul := block.find(b"\0")) >= 0:
        _refuse(path, line + block.count(b"\n", 0, nul), "holds a NUL byte, which no word may")


def _refuse(path: str, line: int, what: str) -> NoReturn:
    raise InputError(f"{path}, line {line + 1:,}: {what}")


def _lines(path: str, data: bytes) -> _Lines:
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n"))
    if data and not data.endswith(b"\n"):
        ends = np.append(ends, len(data))
    return _Lines(path, data, np.append(0, ends[:-1] + 1) if len(ends) else ends, ends)


def _header(lines: _Lines) -> tuple[list[tuple[int, int]], int]:
    """For each length the number of n-grams that is promised and the line that does so; then the first marker."""
    begin = _DATA.search(lines.data)
    if begin is None:
        raise InputError(f"{lines.path} holds no line \\data\\, so it is no ARPA file")
    line = int(np.searchsorted(lines.ends, lines.data.index(b"\\", begin.start())))
    promised: list[tuple[int, int]] = []
    while not (text := lines.text(line := line + 1)).startswith(b"\\"):
        match = _COUNT.fullmatch(text)
        if match is not None and int(match[1]) == len(promised) + 1:
            promised.append((int(match[2]), line))
        elif text:
            lines.refuse(
                line, f"{_shown(text)} is not «ngram {len(promised) + 1}=<count>», which the header needs here"
            )
    if not promised:
        lines.refuse(line, "the header promises no n-grams: lines such as «ngram 1=12620» must stand before this")
    return promised, line


def _sections(lines: _Lines, promised: list[tuple[int, int]], at: int) -> Iterator[tuple[int, Ids]]:
    """Each length with the lines of its n-grams, whose number must be the one promised."""
    bytes_ = np.frombuffer(lines.data, dtype=np.uint8)
    filled = lines.starts < lines.ends
    marks = np.flatnonzero(filled)[bytes_[lines.starts[filled]] == ord("\\")]
    marks = marks[marks >= at]
    for place, mark in enumerate(marks.tolist()):
        length, text = place + 1, lines.text(mark)
        if length > len(promised):
            if text != b"\\end\\":
                lines.refuse(mark, f"{_shown(text)} is not «\\end\\», and the header promises no more n-grams")
            return
        match = _SECTION.fullmatch(text)
        if match is None or int(match[1]) != length:
            lines.refuse(mark, f"{_shown(text)} stands where «\\{length}-grams:» must")
        until = int(marks[place + 1]) if place + 1 < len(marks) else len(lines.ends)
        inside = np.arange(mark + 1, until)
        inside = _not_blank(lines, inside) if len(inside) else inside
        count, header = promised[place]
        if len(inside) != count:
            lines.refuse(
                header, f"promises {count:,} {length}-grams, and from line {mark + 1:,} on there are {len(inside):,}"
            )
        yield length, inside
    lines.refuse(len(lines.ends) - 1, "the file ends without «\\end\\»: it is cut off")


def _not_blank(lines: _Lines, inside: Ids) -> Ids:
    """The lines that hold more than white space."""
    first, last = int(lines.starts[inside[0]]), int(lines.ends[inside[-1]])
    solid = np.flatnonzero(~is_space(lines.data[first:last])) + first
    return inside[np.searchsorted(solid, lines.starts[inside]) < np.searchsorted(solid, lines.ends[inside])]


def _taken_apart(lines: _Lines, length: int, inside: Ids) -> _Section:
    """The fields of a section's lines: log10 p, the words, and the back-off where there is one."""
    if not len(inside):
        empty = np.empty(0, dtype=np.int64)
        return _Section(length, inside, empty, empty, empty, empty.astype(np.bool_))
    first, last = int(lines.starts[inside[0]]), int(lines.ends[inside[-1]])
    block = lines.data[first:last]
    edges = np.flatnonzero(np.diff(is_space(block), prepend=True, append=True)) + first
    starts, ends = edges[0::2], edges[1::2]
    firsts = np.searchsorted(starts, lines.starts[inside])
    fields = np.diff(firsts, append=len(starts))
    tabs = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == ord("\t")) + first
    last_ends = ends[firsts + fields - 1]  # a tab behind everything says nothing
    tab_counts = np.searchsorted(tabs, last_ends) - np.searchsorted(tabs, lines.starts[inside])
    good = ((fields == length + 1) & (tab_counts <= 1)) | ((fields == length + 2) & np.isin(tab_counts, (0, 2)))
    if not good.all():
        _refuse_fields(lines, int(inside[np.argmin(good)]), length)
    return _Section(length, inside, starts, ends, firsts, fields == length + 2)


def _refuse_fields(lines: _Lines, line: int, length: int) -> NoReturn:
    words = "one word" if length == 1 else f"{length} words with spaces between them"
    lines.refuse(
        line,
        f"{_shown(lines.text(line))} is no {length}-gram: it needs log10 p, a tab, {words}, and perhaps a tab and the "
        "back-off; no word may hold a tab or a space",
    )


def _numbers(lines: _Lines, section: _Section, fields: Ids, of: Ids, what: str) -> NDArray[np.float64]:
    """Fields as numbers; `of` are the lines that they stand on."""
    lengths = section.ends[fields] - section.starts[fields]
    if len(lengths) and lengths.max() > _LONGEST_NUMBER:
        place = int(np.argmax(lengths))
        start = int(section.starts[fields[place]])
        lines.refuse(int(of[place]), f"{_shown(lines.data[start : start + lengths[place]])} is no {what}")
    texts = [
        lines.data[s:e] for s, e in zip(section.starts[fields].tolist(), section.ends[fields].tolist(), strict=True)
    ]
    try:
        values = np.array(texts, dtype="S").astype(np.float64) if texts else np.empty(0)
    except ValueError:
        values = np.array([_number_or_nan(text) for text in texts])
    wrong = np.isnan(values) | (values == np.inf)
    if wrong.any():
        place = int(np.argmax(wrong))
        lines.refuse(int(of[place]), f"{_shown(texts[place])} is no {what}")
    values[values <= LOG10_OF_ZERO] = -np.inf
    return values


def _number_or_nan(text: bytes) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _probs_and_backoffs(lines: _Lines, section: _Section) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    probs = _numbers(lines, section, section.firsts, section.lines, "log10 of a probability")
    positive = probs > 0
    if positive.any():
        place = int(np.argmax(positive))
        lines.refuse(int(section.lines[place]), f"{probs[place]:g} is above 0, and so no log10 of a probability")
    backoffs = np.zeros(len(probs))
    with_one = np.flatnonzero(section.has_backoff)
    fields = section.firsts[with_one] + section.length + 1
    backoffs[with_one] = _numbers(lines, section, fields, section.lines[with_one], "log10 of a back-off")
    return probs, backoffs


def _vocabulary(lines: _Lines, section: _Section) -> tuple[Vocabulary, Ids]:
    """The words, the special ones first, and the number of the word on each line."""
    fields = section.firsts + 1
    spans = zip(section.starts[fields].tolist(), section.ends[fields].tolist(), strict=True)
    words = [lines.data[s:e] for s, e in spans]
    if UNKNOWN not in words:  # SRILM's spelling
        words = [UNKNOWN if word == b"<UNK>" else word for word in words]
    numbers = {word: i for i, word in enumerate(SPECIAL)}
    for word in words:
        numbers.setdefault(word, len(numbers))
    ids = np.fromiter(map(numbers.__getitem__, words), dtype=np.int64, count=len(words))
    _refuse_twice(lines, section, ids)
    for special in SPECIAL[1:]:
        if numbers[special] not in ids:
            raise InputError(f"{lines.path}: {special.decode()} is not among its words, and sentences need it")
    return Vocabulary(list(numbers)), ids


def _words_level(lines: _Lines, section: _Section, numbers: Ids, size: int) -> Level:
    """Single words by their number; without `<unk>` in the file, a word that is not known has probability zero."""
    probs, backoffs = np.full(size, -np.inf), np.zeros(size)
    probs[numbers], backoffs[numbers] = _probs_and_backoffs(lines, section)
    return Level(np.arange(size), probs, backoffs)


def _level(lines: _Lines, section: _Section, vocabulary: Vocabulary, shorter: list[Level]) -> Level:
    probs, backoffs = _probs_and_backoffs(lines, section)
    size = len(vocabulary)
    place: Ids = np.zeros(len(probs), dtype=np.int64)
    for i in range(section.length):
        fields = section.firsts + 1 + i
        words = vocabulary.look_up(lines.data, section.starts[fields], section.ends[fields])
        if i == 0:
            keys = words
        else:
            place = keys if i == 1 else shorter[i - 1].find(keys)
            _refuse_missing(lines, section, place, f"its first {i} words are not among the {i}-grams")
            keys = place * size + words
        _refuse_missing(lines, section, words, f"its word {i + 1} is not among the 1-grams")
    _refuse_twice(lines, section, keys)
    order = np.argsort(keys)
    return Level(keys[order], probs[order], backoffs[order])


def _refuse_missing(lines: _Lines, section: _Section, ids: Ids, what: str) -> None:
    if len(ids) and ids.min() < 0:
        line = int(section.lines[np.argmin(ids)])
        lines.refuse(line, f"{_shown(lines.text(line))}: {what}")


def _refuse_twice(lines: _Lines, section: _Section, keys: Ids) -> None:
    order = np.argsort(keys, kind="stable")
    again = np.flatnonzero(np.diff(keys[order]) == 0)
    if len(again):
        line = int(section.lines[order[again + 1]].min())
        lines.refuse(line, f"{_shown(lines.text(line))} is there a second time")


def _shown(text: bytes) -> str:
    shown = text[:60].decode("utf-8", errors="replace")
    return f"«{shown}{'…' if len(text) > 60 else ''}»"
