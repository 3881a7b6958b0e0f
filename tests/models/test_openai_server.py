"""The OpenAI back end against a real llama.cpp server with real weights."""

from __future__ import annotations

import asyncio
import logging
import pickle
import warnings

import numpy as np
import pytest

from howsure.errors import InputError, MissingCapability
from howsure.models.contract import Answer, Capability, ScoreItem
from howsure.models.servers.openai import OpenAIServer

from .llama_server import CONTEXT_TOKENS

pytestmark = [pytest.mark.server, pytest.mark.real_model]

KEY = "sk-a-key-that-nobody-may-see-0123456789"


@pytest.fixture
def model(llama_server: str) -> OpenAIServer:
    return OpenAIServer("smollm2", base_url=llama_server, concurrency=4)


def _only(answers: list[Answer]) -> Answer:
    assert len(answers) == 1
    assert answers[0].failure is None
    assert answers[0].logprobs_missing is None
    return answers[0]


def test_an_answer_comes_with_the_log_probabilities_of_its_tokens(model: OpenAIServer) -> None:
    answer = _only(model.generate(["What is the capital of France? Answer in one sentence."], max_tokens=40))
    assert "Paris" in answer.text
    assert answer.logprobs.text == answer.text
    assert (answer.logprobs.logprobs <= 0).all()
    assert answer.logprobs.perplexity_per_token < 2
    assert (answer.finish_reason, answer.retries) == ("stop", 0)


@pytest.mark.parametrize("width", [1, 5, 20])
def test_alternatives_have_the_width_that_was_asked_for_and_are_sorted(model: OpenAIServer, width: int) -> None:
    logprobs = _only(model.generate(["Name a colour."], max_tokens=6, top_logprobs=width)).logprobs
    rows = [logprobs.top.row(i) for i in range(len(logprobs))]
    assert [len(row) for row in rows] == [width] * 6
    for row in rows:
        values = [logprob for _, logprob in row]
        assert values == sorted(values, reverse=True)
        assert np.exp(values).sum() <= 1 + 1e-3


def test_no_alternatives_where_none_were_asked_for(model: OpenAIServer) -> None:
    logprobs = _only(model.generate(["Name a colour."], max_tokens=3, top_logprobs=0)).logprobs
    assert len(logprobs) == 3
    assert logprobs.top is None


def test_at_temperature_one_the_log_probability_is_that_of_the_emitted_token(model: OpenAIServer) -> None:
    answers = model.generate(
        ["Tell me a story.", "Write a poem.", "Describe a city."],
        max_tokens=40,
        temperature=1.0,
        top_logprobs=20,
    )
    emitted_is_top = []
    for logprobs in (answer.logprobs for answer in answers):
        for i, token_bytes in enumerate(logprobs.token_bytes):
            start, stop = logprobs.top.starts[i : i + 2]
            row = dict(zip(logprobs.top.token_bytes[start:stop], logprobs.top.logprobs[start:stop], strict=True))
            if token_bytes in row:
                assert row[token_bytes] == pytest.approx(logprobs.logprobs[i], abs=1e-6)
            else:
                assert logprobs.logprobs[i] <= min(row.values()) + 1e-6
            emitted_is_top.append(logprobs.logprobs[i] == max(row.values()))
    assert 10 < sum(emitted_is_top) < len(emitted_is_top) - 10


def test_temperature_zero_gives_the_most_probable_token_each_time_and_the_same_answer_twice(
    model: OpenAIServer,
) -> None:
    first, second = (_only(model.generate(["Count from one to five."], max_tokens=30)) for _ in range(2))
    assert first.text == second.text
    np.testing.assert_array_equal(first.logprobs.logprobs, second.logprobs.logprobs)
    tops = [first.logprobs.top.row(i)[0][1] for i in range(len(first.logprobs))]
    assert first.logprobs.logprobs.tolist() == tops


def test_the_seed_decides_what_is_sampled(model: OpenAIServer) -> None:
    def sample(seed: int) -> str:
        return _only(model.generate(["Tell me a story."], max_tokens=12, temperature=1.0, seed=seed)).text

    assert sample(1) == sample(1)
    assert len({sample(seed) for seed in range(4)}) > 1


def test_answers_come_in_the_order_of_the_conversations(model: OpenAIServer) -> None:
    words = ["elephant", "violin", "cheese", "river", "hammer", "planet", "coffee", "window"]
    heard: dict[int, Answer] = {}
    answers = model.generate(
        [f"Repeat this word: {word}" for word in words], max_tokens=10, on_answer=heard.__setitem__
    )
    said = [[word for word in words if word in answer.text.lower()] for answer in answers]
    assert all(found in ([], [word]) for found, word in zip(said, words, strict=True))
    assert sum(map(len, said)) >= 6  # so small a model does not always do as it is told
    assert [heard[i] for i in range(len(words))] == answers


def test_max_tokens_is_kept_and_said(model: OpenAIServer) -> None:
    answer = _only(model.generate(["Tell me a long story."], max_tokens=7))
    assert len(answer.logprobs) == 7
    assert answer.finish_reason == "length"


def test_non_ascii_prompts_arrive_whole(model: OpenAIServer) -> None:
    before = model.counters.tokens_run
    answer = _only(model.generate(["Répète : «Ünïcödé ☕ 日本語 🙂»"], max_tokens=24, temperature=1.0))
    assert answer.logprobs.byte_count >= len(answer.text.encode()) - 3  # a character may be cut at the end
    assert model.counters.tokens_run - before > 40  # that many bytes do not fit in fewer tokens


def test_conversations_with_several_messages(model: OpenAIServer) -> None:
    conversation = [
        {"role": "system", "content": "You answer with one word."},
        {"role": "user", "content": "My name is Zebediah. Remember it."},
        {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": "What is my name?"},
    ]
    assert "Zeb" in _only(model.generate([conversation], max_tokens=20)).text


def test_too_long_a_conversation_fails_alone_with_the_servers_words(model: OpenAIServer) -> None:
    calls = model.counters.calls
    first, second, third = model.generate(["Hello", "word " * 2 * CONTEXT_TOKENS, "Hello"], max_tokens=4)
    assert second.text is None
    assert second.failure.startswith("HTTP 400: request (")
    assert f"exceeds the available context size ({CONTEXT_TOKENS} tokens)" in second.failure
    assert second.retries == 0
    assert first.text == third.text
    assert model.counters.calls - calls == 3


def test_counters_and_no_work_for_no_conversations(model: OpenAIServer) -> None:
    assert model.generate([]) == []
    assert model.counters.calls == 0
    answer = _only(model.generate(["Hello"], max_tokens=5))
    assert model.counters.calls == 1
    assert 5 + len(answer.logprobs) < model.counters.tokens_run < 60


def test_the_probe_passes_where_log_probabilities_are_given(model: OpenAIServer) -> None:
    model.check_logprobs()
    model.check_logprobs(top_logprobs=0)
    assert model.counters.calls == 2


def test_it_can_generate_and_says_that_it_cannot_score(model: OpenAIServer) -> None:
    """llama.cpp takes both ways of asking for a prompt's log-probabilities, and gives only those of new tokens."""
    assert model.name == "openai:smollm2"
    model.require(Capability.SCORE, "mcq")
    assert len(model.plan_scores([ScoreItem("a", ("b", "c"))]).batches) == 1
    assert model.counters.calls == 0
    for use in (model.load, model.fingerprint, lambda: model.score([("a", ["b"])])):
        with pytest.raises(MissingCapability) as caught:
            use()
        assert str(caught.value) == (
            f"openai:smollm2 cannot score: {model.base_url} was asked for the log-probabilities of a prompt "
            "by prompt_logprobs (an answer without them: Object missing required field `prompt_logprobs` - at "
            "`$.choices[0]`) and by echo (an answer without them: Object missing required field `tokens` - at "
            "`$.choices[0].logprobs`); start vLLM, which gives them, or take a local model: hf:<repo or folder>"
        )
    assert model.generate(["Hello"], max_tokens=2)[0].failure is None


def test_works_inside_a_running_event_loop_and_leaves_nothing_open(model: OpenAIServer) -> None:
    async def notebook() -> tuple[str, str]:
        inside = _only(model.generate(["Name a colour."], max_tokens=4)).text
        awaited = _only(await model.agenerate(["Name a colour."], max_tokens=4)).text
        return inside, awaited

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        inside, awaited = asyncio.run(notebook())
        outside = _only(model.generate(["Name a colour."], max_tokens=4)).text
    assert inside == awaited == outside


def test_it_travels_to_another_process(model: OpenAIServer) -> None:
    there = pickle.loads(pickle.dumps(model))
    assert there.fingerprint() == model.fingerprint()
    assert _only(there.generate(["Hello"], max_tokens=3)).text == _only(model.generate(["Hello"], max_tokens=3)).text


def test_the_key_is_sent_but_never_shown(
    llama_server: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    model = OpenAIServer("smollm2", base_url=llama_server)
    with caplog.at_level(logging.DEBUG):
        answer = _only(model.generate(["Hello"], max_tokens=3))
    assert model.fingerprint() == {"backend": "openai", "model": "smollm2", "base_url": llama_server}
    shown = [
        repr(model),
        str(model.fingerprint()),
        repr(answer),
        caplog.text,
        str(vars(model)),
        str(pickle.dumps(model)),
    ]
    assert "HTTP Request" in caplog.text
    assert all(KEY not in text for text in shown)


@pytest.mark.parametrize("width", [-1, 21])
def test_too_many_alternatives_are_refused_before_any_call(model: OpenAIServer, width: int) -> None:
    with pytest.raises(InputError, match=f"top_logprobs must be 0 to 20 for an OpenAI-compatible server, not {width}"):
        model.generate(["Hello"], top_logprobs=width)
    assert model.counters.calls == 0
