"""Gzip files that swell without end, and honest ones."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest

from howsure.errors import InputError
from howsure.models.ngram.arpa import read_arpa
from howsure.storage.opening import HARMLESS_BYTES, MOST_FOLD, unpacked, unpacking
from howsure.studies.entropy import read_texts
from howsure.studies.texts import Texts

BOMB = gzip.compress(b"a" * 10_000_000, mtime=0) * 3
"""Thirty kilobytes, thirty megabytes; gzip takes members one after the other for one file."""


def test_what_is_packed_comes_out() -> None:
    text = b"".join(b"line %d\n" % number for number in range(50_000))
    assert unpacked(io.BytesIO(gzip.compress(text)), "a.gz") == text
    assert list(unpacking(io.BytesIO(gzip.compress(text)), "a.gz")) == text.splitlines(keepends=True)


def test_what_packs_well_but_is_small_is_let_through() -> None:
    zeros = bytes(HARMLESS_BYTES // 2)
    packed = gzip.compress(zeros, mtime=0)
    assert len(zeros) > MOST_FOLD * len(packed)
    assert unpacked(io.BytesIO(packed), "zeros.gz") == zeros


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("model.arpa.gz", read_arpa),
        ("book.gz", lambda path: read_texts([str(path)])),
        ("text.txt.gz", lambda path: Texts([path])),
        ("lines.jsonl.gz", lambda path: Texts([path])),
    ],
)
def test_a_bomb_is_refused_by_name_before_it_fills_the_memory(tmp_path: Path, name: str, read: object) -> None:
    path = tmp_path / name
    path.write_bytes(BOMB)
    with pytest.raises(
        InputError, match=rf"{name}(, line 1:)? (unpacks to far more than a file of its size holds|is longer than)"
    ):
        read(path)  # type: ignore[operator]
