"""Scoring by a server against scoring on this machine: the same network, the same boundary, the same numbers."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from howsure.errors import InputError, MissingCapability
from howsure.evidence import TokenLogprobs
from howsure.models.contract import Capability, Failure, Message, Model, ScoreItem
from howsure.models.servers.openai import OpenAIServer

from .prompt_logprobs_server import PromptServer, running

pytestmark = pytest.mark.real_model

Here = Callable[..., list[list[TokenLogprobs]]]

PLAIN = [
    ("The capital of France is", [" Paris", " Berlin", " a city"]),
    ("The capital of France is ", ["Paris", "Berlin"]),  # the last space belongs to the next token
    ("Un caf", ["é noir", "e", "eteria"]),  # the continuations disagree about the prefix's last token
    ("The answer", [" is", " is four", ""]),
    ("Zażółć gęślą", [" jaźń", " ją"]),
    ("x = 12", ["34", "3.5"]),
]
BROKEN = [
    ("I like the robot ", ["🤖", "🤕"]),  # the space is one token with the first half of the character
    ("I like the robot", [" 🤖!", " 🤕", " 中文"]),
    ("日本の首都は", ["東京です。", "大阪です。", "京都"]),
    ("🤖🤕", ["🤖", "x", "🤕🤖"]),  # which begin with the same two thirds of a character
]
KINDS: dict[str, dict[str, Any]] = {
    "vLLM now": {"spelling": "corrected"},
    "vLLM with broken characters": {},
    "vLLM without token ids": {"token_ids": False},
    "vLLM 0.8, which writes tokens as its vocabulary does": {"spelling": "vocabulary", "token_ids": False},
    "echo": {"prompt_logprobs": False},
    "echo, as the vocabulary writes": {"prompt_logprobs": False, "spelling": "vocabulary"},
}


@pytest.fixture(scope="module", params=list(KINDS))
def server(request: pytest.FixtureRequest) -> Iterator[PromptServer]:
    with running(PromptServer(**KINDS[request.param])) as started:
        yield started


@pytest.fixture(scope="module")
def here(smollm2: Model) -> Here:
    """`score` on this machine, computed once for each question."""
    known: dict[str, list[list[TokenLogprobs]]] = {}

    def score(rows: list[tuple[str, list[str]]], **options: int) -> list[list[TokenLogprobs]]:
        question = repr((rows, options))
        if question not in known:
            known[question] = smollm2.score(rows, **options)
        return known[question]

    return score


@pytest.fixture
def model(server: PromptServer) -> OpenAIServer:
    return OpenAIServer("smollm2", base_url=server.base_url, concurrency=4)


def items(rows: list[tuple[str, list[str]]]) -> list[ScoreItem]:
    return [ScoreItem(*row) for row in rows]


def assert_same(found: list[TokenLogprobs], wanted: list[TokenLogprobs]) -> None:
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.prefix_chars == other.prefix_chars
        assert one.text == other.text
        np.testing.assert_allclose(one.logprobs, other.logprobs, atol=1e-4)


def test_the_numbers_are_those_of_the_same_network_here(model: OpenAIServer, here: Here) -> None:
    for found, wanted in zip(model.score(PLAIN), here(PLAIN), strict=True):
        assert_same(found, wanted)
        assert [one.tokens for one in found] == [one.tokens for one in wanted]
        assert [one.token_bytes for one in found] == [one.token_bytes for one in wanted]
    assert here(PLAIN)[1][0].prefix_chars == 1, "a straddling token is among them"
    assert here(PLAIN)[2][0].prefix_chars == 4, "and continuations that disagree about the prefix"


def test_broken_characters_are_scored_right_or_not_at_all(
    model: OpenAIServer, server: PromptServer, here: Here
) -> None:
    found = model.try_score(items(BROKEN))
    for one, wanted in zip(found, here(BROKEN), strict=True):
        if isinstance(one, Failure):
            assert one.reason == "not_aligned"
        else:
            assert_same(one, wanted)
    certain = server.prompt_logprobs or server.spelling == "vocabulary"
    assert sum(isinstance(one, Failure) for one in found) == (0 if certain else 2)


def test_alternatives_are_those_of_the_network_and_the_own_token_is_told_apart(model: OpenAIServer, here: Here) -> None:
    text = [("The capital of France is", [" Berlin when it rains"])]
    found, wanted = (score(text, top_logprobs=4)[0][0] for score in (model.score, here))
    outside = 0
    for i in range(len(wanted)):
        ours, theirs = found.top.row(i), wanted.top.row(i)
        assert [token for token, _ in ours] == [token for token, _ in theirs]
        np.testing.assert_allclose([value for _, value in ours], [value for _, value in theirs], atol=1e-4)
        outside += found.logprobs[i] < ours[-1][1] - 1e-3
    assert outside >= 1, "the own token is not always among the likeliest"
    assert model.score(PLAIN[:1])[0][0].top is None


def test_entropies_are_left_unknown(model: OpenAIServer) -> None:
    assert model.score(PLAIN[:1], entropies=True)[0][0].entropies_nats is None


def test_a_text_without_context_is_not_scored(model: OpenAIServer) -> None:
    found = model.try_score(items([("", ["The sky"]), ("The", [" sky"]), ("Par", ["is"]), ("", [""])]))
    assert [one.reason if isinstance(one, Failure) else len(one) for one in found] == [
        "no_context", 1, "no_context", "no_context",
    ]  # fmt: skip
    with pytest.raises(InputError, match="item 0 cannot be scored: the first token of a prompt has no log-prob"):
        model.score([("", ["The sky"])])


def test_where_the_server_begins_with_a_token_a_text_needs_no_prefix(scoring_server: PromptServer, here: Here) -> None:
    model = OpenAIServer("smollm2", base_url=scoring_server.base_url)
    texts = [("", ["The sky is blue.", "école 🤖"]), ("", ["日本", "🤖", "<s>"])]
    for found, wanted in zip(model.score(texts), here(texts), strict=True):
        assert_same(found, wanted)


def test_one_request_for_each_continuation_and_one_probe(model: OpenAIServer, server: PromptServer) -> None:
    before = len(server.requests)
    model.score(PLAIN[:2])
    model.score(PLAIN[:1])
    probes = 1 if server.prompt_logprobs else 2
    assert len(server.requests) - before == probes + 8 == model.counters.calls
    assert model.counters.tokens_run > 40


def test_the_fingerprint_tells_how_scores_are_had_once_they_are_wanted(
    model: OpenAIServer, server: PromptServer
) -> None:
    plain = {"backend": "openai", "model": "smollm2", "base_url": server.base_url}
    assert model.fingerprint() == plain
    model.require(Capability.GENERATE, "ask")
    assert model.fingerprint() == plain
    assert model.counters.calls == 0
    model.require(Capability.SCORE, "mcq")
    way = "prompt_logprobs" if server.prompt_logprobs else "echo"
    assert model.fingerprint() == plain | {"scores_by": way, "begin_tokens": 0}
    calls = model.counters.calls
    there = pickle.loads(pickle.dumps(model))
    assert there.fingerprint() == model.fingerprint()
    assert there.counters.calls == calls


def test_what_does_not_fit_fails_alone_with_the_servers_words(model: OpenAIServer) -> None:
    long, short = model.try_score(items([("word " * 2000, ["a"]), ("The", [" sky"])]))
    assert long.reason == "server_failed"
    assert long.detail.startswith("HTTP 400: This model's maximum context length is 1024 tokens, not ")
    assert len(short) == 1


# Without any request ----------------------------------------------------------------------------------------


@pytest.fixture
def nobody() -> OpenAIServer:
    """No server is there: what works with this one sends nothing."""
    return OpenAIServer("m", base_url="http://no-such-host.invalid/v1", concurrency=2)


def test_a_plan_needs_no_server_and_fills_the_calls_that_may_run_together(nobody: OpenAIServer) -> None:
    nobody.require(Capability.SCORE, "mcq")
    wanted = [ScoreItem("the sky " * n, (" is", " was")) for n in range(1, 11)]
    plan = nobody.plan_scores(wanted)
    assert [batch.indices for batch in plan.batches] == [(0, 1, 2, 3), (4, 5, 6, 7), (8, 9)]
    assert plan.batches[0].tokens == sum(-(-(8 * n + k) // 4) for n in range(1, 5) for k in (3, 4))
    again = nobody.plan_scores([wanted[i] for i in plan.batches[1].indices])
    assert [batch.tokens for batch in again.batches] == [plan.batches[1].tokens], "a batch can be redone by itself"
    assert [batch.indices for batch in nobody.plan_scores([ScoreItem("a", ("b",) * 99)] * 2).batches] == [(0,), (1,)]
    assert nobody.plan_scores([]).batches == []


def test_what_no_server_can_score_is_refused_beforehand(nobody: OpenAIServer) -> None:
    wanted = [
        ScoreItem((Message("user", "Hi"),), (" a",)),
        ScoreItem("a", (" b",), image=object()),  # type: ignore[arg-type]
        ScoreItem("a\ud800", (" b",)),
        ScoreItem("", ("",)),
    ]
    plan = nobody.plan_scores(wanted)
    assert plan.batches == []
    reasons = ["needs_local_model", "needs_local_model", "unreadable_text", "no_context"]
    assert [plan.refused[i].reason for i in range(4)] == reasons
    assert nobody.try_score(wanted) == [plan.refused[i] for i in range(4)]
    assert "local model" in plan.refused[0].detail
    assert nobody.try_score([]) == []
    assert nobody.counters.calls == 0
    assert not nobody.takes_chat
    assert not nobody.takes_images


@pytest.mark.parametrize("speaks", [{"prompt_logprobs": False, "echo": False}])
def test_a_server_that_gives_neither_is_told_apart(speaks: dict[str, bool]) -> None:
    with running(PromptServer(**speaks)) as server:
        model = OpenAIServer("smollm2", base_url=server.base_url)
        with pytest.raises(
            MissingCapability, match="^openai:smollm2 cannot score: .* by prompt_logprobs .* and by echo"
        ):
            model.score([("a", ["b"])])
        assert len(server.requests) == 2
