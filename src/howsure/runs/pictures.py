"""Small copies of the pictures that samples are about, kept in the run folder.

A run that is sent to somebody, or whose data has moved, still shows what was asked about: pages are made of the run
folder alone. Copies are made beside the model's work, by one thread. Pillow is loaded when the first picture comes.
"""

from __future__ import annotations

import io
import os
import re
import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

from howsure.errors import InputError, PicturesNotKept, StorageError
from howsure.models.images import Picture
from howsure.runs.files import storage_errors, write_atomic

FOLDER = "pictures"
LONGEST_SIDE_PX = 1280
JPEG_QUALITY = 80
MOST_BYTES = 512_000_000
"""Of one run's copies together: some thousand screens."""

_DIGEST = re.compile(r"[0-9a-f]{64}")
_NAME_DIGITS = 24


def name_of(sha256: str) -> str | None:
    """The name of a picture's copy within its run folder, by the digest of the picture; None for what is no digest."""
    return f"{FOLDER}/{sha256[:_NAME_DIGITS]}.jpg" if _DIGEST.fullmatch(sha256) else None


def small_copy(picture: Picture) -> bytes | None:
    """A JPEG of the very bytes that were hashed, without their metadata; None where they are gone or cannot be read."""
    try:
        image = picture.load()
    except InputError:
        return None
    image.thumbnail((LONGEST_SIDE_PX, LONGEST_SIDE_PX))
    image.info.clear()  # Pillow would copy the comment of a JPEG
    content = io.BytesIO()
    image.save(content, "JPEG", quality=JPEG_QUALITY)
    return content.getvalue()


class PictureKeeper:
    """Makes copies while a run goes on; leaving it waits for those that are not made yet.

    A picture that has its copy is passed over, so that a run that was stopped completes what it has. When the next
    copy would make the folder larger than `most_bytes`, or the disk refuses one, it and all after it are left out: a
    run is worth more than its pictures, and what room there is belongs to its samples.
    """

    def __init__(self, run: Path, most_bytes: int = MOST_BYTES) -> None:
        self._run, self._most_bytes = run, most_bytes
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="pictures")
        self._waiting: list[Future[None]] = []
        self._seen: set[str] = set()
        self._bytes: int | None = None
        self._full = False

    def __enter__(self) -> PictureKeeper:
        return self

    def keep(self, pictures: Iterable[Picture | None]) -> None:
        """Have copies made of these, each once; None is a sample without a picture."""
        for picture in pictures:
            if picture is not None and picture.sha256 not in self._seen:
                self._seen.add(picture.sha256)
                self._waiting.append(self._pool.submit(self._keep, picture))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """What went wrong with copies is told, and costs nothing but them."""
        try:
            if error is None:
                self._tell([fault for copy in self._waiting if (fault := copy.exception()) is not None])
        finally:
            self._pool.shutdown(cancel_futures=True)

    def _tell(self, faults: Sequence[BaseException]) -> None:
        if faults:
            why = str(faults[0]) or repr(faults[0])
            warnings.warn(
                f"{self._run}: not all pictures were copied, the first for this reason: {why}. Samples and figures are "
                "whole; the same command tries the copies again",
                PicturesNotKept,
                stacklevel=4,
            )

    def _keep(self, picture: Picture) -> None:
        name = name_of(picture.sha256)
        if name is None or self._full or (self._run / name).is_file():
            return
        content = small_copy(picture)
        if content is not None:
            try:
                self._write(name, content)
            except StorageError:
                self._full = True
                raise

    def _write(self, name: str, content: bytes) -> None:
        if self._bytes is None:
            self._bytes = self._made_folder()
        self._full = self._bytes + len(content) > self._most_bytes
        if not self._full:
            write_atomic(self._run / name, content)
            self._bytes += len(content)

    def _made_folder(self) -> int:
        """How many bytes the copies of an earlier session have."""
        folder = self._run / FOLDER
        with storage_errors(folder):
            folder.mkdir(exist_ok=True)
            with os.scandir(folder) as entries:
                return sum(entry.stat().st_size for entry in entries)


def kept_count(run: Path, digests: Iterable[str]) -> tuple[int, int]:
    """Of how many different pictures there is a copy, and how many there are."""
    names = {name for digest in set(digests) if (name := name_of(digest)) is not None}
    folder = run / FOLDER
    there = {f"{FOLDER}/{path.name}" for path in folder.iterdir()} if folder.is_dir() else set()
    return len(names & there), len(names)
