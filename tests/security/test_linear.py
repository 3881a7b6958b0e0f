"""`show` and `ask` take time in proportion to the text. They took its square: 22 s for 0.4 MB."""

from __future__ import annotations

import gc
import io
import json
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
from rich.console import Console

from howsure.evidence import TokenLogprobs
from howsure.models.ngram.arpa import write_arpa
from howsure.models.ngram.training import Piece, Smoothing, train
from howsure.models.registry import load
from howsure.report import tokens
from howsure.report.terminal import print_document
from howsure.studies.reading import Reading, read_answer, read_text
from models.misbehaving_server import MisbehavingServer, chat, raw

FEW, MANY = 20_000, 80_000
"""Tokens of five bytes: 0.1 and 0.4 MB. Four times as many take four times as long, or sixteen by the square."""
MOST_TIMES = 7

T = TypeVar("T")


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """How many seconds of this process it took, collections of garbage apart: they depend on what else there is."""
    gc.collect()
    gc.disable()
    try:
        start = time.process_time()
        done = work()
        return time.process_time() - start, done
    finally:
        gc.enable()


def answer_of(tokens: int) -> Reading:
    """What `howsure ask` reads of a server's answer."""
    entries = [{"token": " word", "logprob": -0.5 - i % 11} for i in range(tokens)]
    with MisbehavingServer() as server:
        server.script = [raw(json.dumps(chat(" word" * tokens, {"content": entries})).encode())]
        return read_answer("Say it.", load("openai:tiny", base_url=server.base_url))


def shown(reading: Reading) -> str:
    terminal = Console(file=io.StringIO(), force_terminal=True, color_system="truecolor", width=80)
    print_document(terminal, tokens.reading(reading))
    assert isinstance(terminal.file, io.StringIO)
    return terminal.file.getvalue()


def test_a_long_answer_takes_time_in_proportion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-of-no-account")
    answer_of(10)  # loads the packages
    few_s, few = timed(lambda: answer_of(FEW))
    many_s, many = timed(lambda: answer_of(MANY))
    assert many_s < MOST_TIMES * few_s
    for use in (shown, Reading.to_dict):
        few_s, many_s = timed(partial(use, few))[0], timed(partial(use, many))[0]
        assert many_s < MOST_TIMES * few_s, use.__name__
        assert many_s < 5
    assert len(many.to_dict()["tokens"]) == MANY


def test_a_character_that_is_never_finished_is_not_read_again_with_every_token() -> None:
    """A server may end a token of a megabyte within a character and then send thousands of empty ones."""
    pieces = ("é" * 500_000).encode() + b"\xf0", *[b""] * 20_000
    reading = Reading("…", "server", TokenLogprobs(tuple("?" for _ in pieces), np.full(len(pieces), -1.0), pieces))
    took_s, characters = timed(reading.characters)
    assert [tokens for _, tokens in characters] == [slice(0, len(pieces))]
    assert took_s < 2


def test_the_expectations_of_a_long_text_are_not_all_in_memory(tmp_path: Path) -> None:
    """With a vocabulary of 50,000 words, those of 0.4 MB would take 30 GB."""
    words, tokens = 4_000, 1_500
    write_arpa(
        train([Piece(" ".join(f"w{i}" for i in range(words)).encode())], 1, Smoothing.WITTEN_BELL).table,
        tmp_path / "words.arpa",
    )
    model = load(f"ngram:{tmp_path / 'words.arpa'}")
    model.load()
    tracemalloc.start()
    try:
        read_text(" ".join(f"w{i}" for i in range(tokens)), model)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < words * tokens * 8 / 4
