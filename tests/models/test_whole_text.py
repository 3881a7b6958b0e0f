"""Documents that go to a model as a whole: what comes back is laid along their bytes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from howsure.errors import InputError
from howsure.evidence import TokenLogprobs
from howsure.models.contract import Failure, Model, Passage, Rolling, ScoreItem, Stretch
from howsure.models.servers import scoring
from howsure.models.servers.openai import OpenAIServer

from .prompt_logprobs_server import PromptServer, running

NOWHERE = "http://127.0.0.1:9/v1"
TEXT = "I like the robot 🤖!\nUnd Zürich heißt 維也納 nicht.\n"


def document(text: str) -> Passage:
    (passage,) = scoring.passages([text])
    return passage


def answering(tokens: list[str], known: list[bytes | None] | None = None):
    """A model that has these tokens for every text, each of probability one half."""
    return lambda items: [[TokenLogprobs(tokens, np.log([0.5] * len(tokens)), known)] for _ in items]


# -- a server -----------------------------------------------------------------------------------------------------


@pytest.mark.real_model
@pytest.mark.parametrize(
    ("by_echo", "spelling"),
    [(False, "decoded"), (False, "corrected"), (False, "vocabulary"), (True, "decoded"), (True, "vocabulary")],
)
def test_the_numbers_are_those_of_the_same_network_here(smollm2: Model, by_echo: bool, spelling: str) -> None:
    here = smollm2.read(list(smollm2.passages([TEXT], Rolling())))[0]
    kind = {"spelling": spelling, "begin": "<|endoftext|>", "prompt_logprobs": not by_echo, "tokenize": not by_echo}
    with running(PromptServer(**kind)) as server:
        model = OpenAIServer("smollm2", base_url=server.base_url)
        found = model.read(list(model.passages(iter(TEXT), model.rolling(Rolling()))))[0]
    assert isinstance(found, Stretch), found
    assert np.allclose(found.logprobs, here.logprobs, atol=1e-4)
    assert found.byte_counts.sum() == len(TEXT.encode())
    assert found.word_starts.sum() == len(TEXT.split())
    if not by_echo or spelling == "vocabulary":  # else the pieces of a character do not tell their bytes
        assert found.byte_counts.tolist() == here.byte_counts.tolist()
        assert found.word_starts.tolist() == here.word_starts.tolist()


@pytest.mark.real_model
def test_without_a_begin_token_the_document_fails_by_name() -> None:
    with running(PromptServer()) as server:
        model = OpenAIServer("smollm2", base_url=server.base_url)
        found = model.read([document("The sky is blue.")])[0]
    assert isinstance(found, Failure)
    assert found.reason == "no_context"


@pytest.mark.real_model
def test_a_document_that_the_server_will_not_take_fails_alone() -> None:
    with running(PromptServer(begin="<|endoftext|>")) as server:
        model = OpenAIServer("smollm2", base_url=server.base_url)
        long, short = model.read([document("the sky " * 700), document("the sky is blue")])
    assert isinstance(long, Failure)
    assert "maximum context length" in long.detail
    assert isinstance(short, Stretch)


@pytest.mark.parametrize("wanted", [Rolling(window=256), Rolling(stride=16), Rolling(256, 16)])
def test_windows_are_not_for_us_to_choose(wanted: Rolling) -> None:
    model = OpenAIServer("any", base_url=NOWHERE)
    option = "window" if wanted.window else "stride"
    for refused in (lambda: model.rolling(wanted), lambda: model.passages(["the sky"], wanted)):
        with pytest.raises(InputError, match=f"a {option} of (256|16) cannot be asked for; leave --{option} out"):
            refused()


def test_planning_needs_no_server() -> None:
    model = OpenAIServer("any", base_url=NOWHERE)
    decided = model.rolling(Rolling())
    assert decided == Rolling()
    (passage,) = model.passages(["the ", "sky é"], decided)
    assert passage == Passage(3, 3, "the sky é")
    assert list(model.passages(["", ""], decided)) == []
    assert model.read([]) == []


# -- any such model -----------------------------------------------------------------------------------------------


def test_a_document_that_is_too_large_is_given_up_at_once() -> None:
    taken = 0

    def endless() -> Iterator[str]:
        nonlocal taken
        while True:
            taken += 1
            yield "the sky " * 2**13

    (large,) = scoring.passages(endless())
    assert taken == 65, "64 KiB each, and 4 MiB are allowed"
    fits = document("é" * (scoring.MAX_DOCUMENT_BYTES // 2))
    asked: list[ScoreItem] = []

    def score(items):
        asked.extend(items)
        return [Failure("server_failed", "busy")] * len(items)

    refused, sent, empty = scoring.read([large, fits, document("x")], score)
    assert refused.reason == "too_long"
    assert "4 MiB" in refused.detail
    assert [len(item.continuations[0]) for item in asked] == [2**21, 1]
    assert sent == empty == Failure("server_failed", "busy")


def test_bytes_that_are_known_are_counted() -> None:
    known = [b"na\xc3", b"\xafve", b"", b"  x"]
    (found,) = scoring.read([document("naïve  x")], answering(["na", "ve", "", "  x"], known))
    assert found.byte_counts.tolist() == [3, 3, 0, 3]
    assert found.word_starts.tolist() == [1, 0, 0, 1]
    assert found.logprobs.tolist() == np.log([0.5] * 4).tolist()
    assert found.unknown is None


def test_bytes_that_are_not_known_are_found_along_the_text() -> None:
    """Of the robot's four bytes, the middle token may have one or two: the last place is taken."""
    tokens = ["a ", "\ufffd", "\ufffd", "\ufffd", " b"]
    (found,) = scoring.read([document("a 🤖 b")], answering(tokens))
    assert found.byte_counts.sum() == len("a 🤖 b".encode())
    assert found.byte_counts[[0, 4]].tolist() == [2, 2]
    assert found.byte_counts[1:4].min() >= 0
    assert found.word_starts.sum() == 3
    partly = scoring.read([document("a 🤖 b")], answering(tokens, [b"a ", None, None, None, b" b"]))[0]
    assert partly.byte_counts.tolist() == found.byte_counts.tolist()


def test_tokens_that_do_not_spell_the_text_have_no_bytes() -> None:
    for tokens, known in ((["the", "rain"], None), (["the", "rain"], [b"the", b"rain"]), ([], None)):
        (found,) = scoring.read([document("the sky")], answering(tokens, known))
        assert isinstance(found, Failure)
        assert found.reason == "no_token_bytes"


def test_half_a_surrogate_pair_is_refused_in_words() -> None:
    with pytest.raises(InputError, match="surrogate"):
        list(scoring.passages(["the sky", "\ud800"]))
