"""Question files from strangers: neither their lines nor their copies cost more than they are."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path

import pytest

from howsure.errors import InputError
from howsure.studies.mcq.data import read_questions

QUESTION = b'{"question": "a", "choices": ["b", "c"], "answer_index": 0}\n'


def test_many_lines_that_are_no_questions_take_little_memory(tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_bytes(b"x\n" * 60_000)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="59999 more bad lines follow"):
            read_questions(tmp_path / "q.jsonl")
        assert tracemalloc.get_traced_memory()[1] < 6 << 20
    finally:
        tracemalloc.stop()


def test_a_line_without_end_is_refused_by_its_number(tmp_path: Path) -> None:
    with (tmp_path / "q.jsonl").open("wb") as file:
        file.write(QUESTION)
        file.truncate(4 << 30)
    with pytest.raises(InputError, match="line 2 is longer than 64 MiB"):
        read_questions(tmp_path / "q.jsonl")


def test_copies_of_a_question_take_time_in_proportion(tmp_path: Path) -> None:
    def seconds(copies: int) -> float:
        (tmp_path / "q.jsonl").write_bytes(QUESTION * copies)
        began = time.process_time()
        names = [item.id for item in read_questions(tmp_path / "q.jsonl").items]
        assert names[1] == f"{names[0]}-2"
        assert len(set(names)) == copies
        return time.process_time() - began

    assert min(seconds(8_000) for _ in range(3)) < 8 * min(seconds(2_000) for _ in range(3))
