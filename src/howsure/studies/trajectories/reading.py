"""Reading logs: one after the other, over the cores of this machine, or wherever an engine has workers.

A file is read once, by whoever does it, and becomes figures, words (`text_spool.py`) and the digest of its bytes. One
bad file never stops the others: it becomes a sentence, and so does one that ends every process that reads it.
"""

from __future__ import annotations

import codecs
import hashlib
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from howsure.errors import HowsureError, InputError
from howsure.runs.engine import Engine, Job, LocalEngine
from howsure.runs.processes import ProcessEngine, alone, usable_cores
from howsure.studies.trajectories.chats import read_chats
from howsure.studies.trajectories.messages import about_file
from howsure.studies.trajectories.sources import CHATS, INSPECT, Place, Source, bytes_of, shown_name, size_of
from howsure.studies.trajectories.tau2 import NO_SIMULATIONS, read_about, read_tau2
from howsure.studies.trajectories.text_spool import shorten, words_of
from howsure.studies.trajectories.turns import Loaded

SPREAD_FROM_BYTES = 64_000_000
"""Below this, starting more processes takes longer than reading."""

BYTES_AT_ONCE = 16_000_000
"""Small files are handed out together up to this: handing out and taking back cost about as much as reading 500 KB."""

UNKNOWN_BYTES = 4_000_000
"""What a file is taken for whose size cannot be seen from here."""

SETS_REMEMBERED = 4

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(Loaded).decode


class Reading(NamedTuple):
    """What came of one source, the digest of its bytes if that was wanted, and the words of its trajectories likewise.

    `unseen` is a file that is not where the worker is, or not the same: it says nothing, and is to be read by whoever
    named it.
    """

    source: Source
    loaded: Loaded
    digest: bytes = b""
    words: tuple[bytes, ...] = ()
    unseen: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        """As it goes from process to process: in a quarter of the time that pickling structs one by one takes."""
        try:
            return _received, (self.source, _pack(self.loaded), self.digest, self.words, self.unseen)
        except (UnicodeEncodeError, OverflowError):  # half a character, or a number that only Python holds
            return Reading, tuple(self)


def _received(source: Source, loaded: bytes, *rest: Any) -> Reading:
    return Reading(source, _unpack(loaded), *rest)


class SourceFile(NamedTuple):
    """A source as it is handed out, with its size as seen from here, where it can be seen."""

    source: Source
    byte_count: int | None = None


Files = tuple[SourceFile, ...]


class Reader(Job[Files, list[Reading]]):
    """Reads files; whatever is wrong with one is a sentence in what comes back.

    `with_words` says whether somebody will want the words again; without it they are dropped.
    """

    def __init__(self, *, with_tokens: bool = False, with_digests: bool = False, with_words: bool = False) -> None:
        self.with_tokens, self.with_digests, self.with_words = with_tokens, with_digests, with_words
        self.elsewhere = False
        self._abouts: dict[Place, tuple[Any, bytes]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _reader_elsewhere, (self.with_tokens, self.with_digests, self.with_words)

    def __call__(self, piece: Files) -> list[Reading]:
        return [self.read(file) for file in piece]

    def read(self, file: SourceFile) -> Reading:
        source = file.source
        if self.elsewhere and isinstance(source.path, Path) and not _is_same(source.path, file.byte_count):
            return Reading(source, _nothing(source), unseen=True)
        loaded, digest = self._read(source)
        for trajectory in loaded.trajectories:
            trajectory.set_name = source.set_name
        words = tuple(map(words_of, loaded.trajectories)) if self.with_words else ()
        for trajectory in loaded.trajectories:
            shorten(trajectory)
        return Reading(source, loaded, digest, words)

    def failed_piece(self, piece: Files, why: str) -> list[Reading]:
        """Of several files one was too much, and nobody knows which: each is tried in a process of its own."""
        if len(piece) > 1:
            return [reading for file in piece for reading in alone(self, (file,))]
        ((source, _),) = piece
        problem = about_file(shown_name(source.path), "unreadable_file", f"cannot be read: {why}; split it")
        return [Reading(source, _nothing(source, problem))]

    def _read(self, source: Source) -> tuple[Loaded, bytes]:
        try:
            data = bytes_of(source.path)
            digest = self._digest(source, data) if self.with_digests else b""
            return self._loaded(source, data), digest
        except OSError as error:
            why = f"cannot be read: {error.strerror or error}"
        except HowsureError as error:
            why = f"cannot be read: {error}"
        except MemoryError:
            why = "does not fit into memory; split it into smaller files"
        return _nothing(source, about_file(shown_name(source.path), "unreadable_file", why)), b""

    def _digest(self, source: Source, data: bytes) -> bytes:
        """Of all that the trajectories of a file are made of: a part of a set knows its domain and task from
        elsewhere."""
        digest = hashlib.sha256(data)
        if source.about is not None:
            digest.update(self._about(source.about)[1])
        return digest.digest()

    def _loaded(self, source: Source, data: bytes) -> Loaded:
        name = shown_name(source.path)
        if source.suffix in INSPECT:
            return _inspected(source.path, name, data, self.with_tokens)
        if source.suffix in CHATS:
            return read_chats(data, name, with_tokens=self.with_tokens)
        about = self._about(source.about)[0] if source.about is not None else None
        loaded = read_tau2(data.removeprefix(codecs.BOM_UTF8), name, with_tokens=self.with_tokens, about=about)
        if not source.named and {problem.reason for problem in loaded.problems} == {NO_SIMULATIONS}:
            return Loaded(name, len(data), None, [], [], passed_over="no results of τ²-bench")
        return loaded

    def _about(self, place: Place) -> tuple[Any, bytes]:
        """What results.json says about its simulations, and the digest of its bytes; read once for all of them.

        Its problems were told already, by whoever read the folder.
        """
        if place not in self._abouts:
            data = bytes_of(place)
            while len(self._abouts) >= SETS_REMEMBERED:
                del self._abouts[next(iter(self._abouts))]
            self._abouts[place] = read_about(data, shown_name(place))[0], hashlib.sha256(data).digest()
        return self._abouts[place]


def _reader_elsewhere(with_tokens: bool, with_digests: bool, with_words: bool) -> Reader:
    reader = Reader(with_tokens=with_tokens, with_digests=with_digests, with_words=with_words)
    reader.elsewhere = True
    return reader


def _nothing(source: Source, *problems: Any) -> Loaded:
    return Loaded(shown_name(source.path), 0, None, [], list(problems))


def _is_same(path: Path, byte_count: int | None) -> bool:
    """Whether a file is here what it was where it was named; /dev/stdin is there in every process, and another."""
    return byte_count is not None and size_of(path) == byte_count


def read_source(source: Source, *, with_tokens: bool = False, with_digest: bool = False) -> Reading:
    """One file, here and now."""
    return Reader(with_tokens=with_tokens, with_digests=with_digest).read(SourceFile(source, size_of(source.path)))


def read_sources(
    sources: Sequence[Source],
    *,
    with_tokens: bool = False,
    with_digests: bool = False,
    with_words: bool = False,
    jobs: int | None = None,
    engine: Engine | None = None,
) -> Iterator[Reading]:
    """Every source read, in order; only a few are held at a time by whoever takes them one by one.

    Without an engine, `jobs` is how many processes of this machine read; None means all cores where the files are
    large enough to be worth it.
    """
    pieces = list(handed_out(sources))
    reader = Reader(with_tokens=with_tokens, with_digests=with_digests, with_words=with_words)
    elsewhere = engine is not None and engine.name != LocalEngine.name
    if elsewhere and jobs is not None:
        raise InputError("--jobs is for processes of this machine: with --engine ray say --workers")
    chosen = engine if engine is not None and elsewhere else ProcessEngine(_jobs(pieces, jobs))
    for readings in chosen.run(reader, pieces):
        for reading in readings:
            # What a worker does not see is read here, as it was named.
            yield reader.read(SourceFile(reading.source)) if reading.unseen else reading


def handed_out(sources: Iterable[Source]) -> Iterator[Files]:
    """Neighbours that one worker reads in one go."""
    some: list[SourceFile] = []
    count = 0
    for source in sources:
        some.append(SourceFile(source, size_of(source.path)))
        count += UNKNOWN_BYTES if some[-1].byte_count is None else some[-1].byte_count
        if count >= BYTES_AT_ONCE:
            yield tuple(some)
            some, count = [], 0
    if some:
        yield tuple(some)


def _jobs(pieces: Sequence[Files], jobs: int | None) -> int:
    if jobs is not None and jobs < 1:
        raise InputError(f"--jobs must be at least 1, not {jobs}")
    files = [file for piece in pieces for file in piece]
    far = any(isinstance(file.source.path, str) for file in files)
    large = far or sum(file.byte_count or 0 for file in files) >= SPREAD_FROM_BYTES
    return max(1, min(jobs or (usable_cores() if large else 1), len(pieces)))


def _inspected(place: Place, name: str, data: bytes, with_tokens: bool) -> Loaded:
    """Inspect reads files of this machine only."""
    from howsure.studies.trajectories.inspect_logs import read_inspect

    if isinstance(place, Path):
        return read_inspect(place, name, with_tokens=with_tokens)
    with tempfile.NamedTemporaryFile(suffix=".eval") as copy:
        copy.write(data)
        copy.flush()
        return read_inspect(copy.name, name, with_tokens=with_tokens)
