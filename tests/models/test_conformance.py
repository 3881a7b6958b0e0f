"""One battery for every registered back end: a new one is tested by being registered."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import howsure
from howsure.errors import HowsureError, MissingCapability
from howsure.models.contract import Capability, Failure, Message, Model, Rolling, ScoreItem
from howsure.models.registry import BACK_ENDS
from tiny import build_ngram
from tiny_vision import build_pi0_fast

from .gemini_server import GeminiServer, forget_accounts

pytestmark = pytest.mark.real_model


def open_real(kind: str, request: pytest.FixtureRequest) -> Model:
    """A real model of each kind; a kind that is missing here fails, so that none goes untested."""
    if kind == "smollm2":
        return request.getfixturevalue("smollm2")
    if kind == "hf":
        folder: Path = request.getfixturevalue("tiny_folder")
        return howsure.load(f"hf:{folder}")
    if kind == "lerobot":
        return howsure.load(f"lerobot:{build_pi0_fast(request.getfixturevalue('tmp_path'))}")
    if kind == "openai":
        return howsure.load("openai:smollm2", base_url=request.getfixturevalue("scoring_server").base_url)
    if kind == "gemini":
        return open_gemini(request)
    if kind == "ngram":
        return howsure.load(f"ngram:{build_ngram(request.getfixturevalue('tmp_path'))}")
    if kind == "ocr":
        return howsure.load("ocr")
    raise AssertionError(f"no real model is set up for back end {kind!r}: add one to this test")


def open_gemini(request: pytest.FixtureRequest) -> Model:
    """Google's own models are out of reach: their SDK is real, and the answers have their documented form."""
    forget_accounts(request.getfixturevalue("monkeypatch"))
    server = GeminiServer()
    request.addfinalizer(lambda: server.__exit__(None, None, None))
    model = howsure.load("gemini:gemini-2.5-flash", base_url=server.__enter__().base_url)
    request.addfinalizer(model.close)
    return model


@pytest.fixture(params=sorted(BACK_ENDS))
def model(request: pytest.FixtureRequest) -> Model:
    return open_real(request.param, request)


def needs(model: Model, capability: Capability) -> None:
    if capability not in model.capabilities:
        pytest.skip(f"{model.name} does not claim to {capability.value}")


def test_it_claims_what_the_registry_says(model: Model) -> None:
    assert model.capabilities == BACK_ENDS[model.name.partition(":")[0]].capabilities
    assert model.capabilities


def test_what_it_does_not_claim_is_refused_by_name(model: Model) -> None:
    for capability in set(Capability) - model.capabilities:
        with pytest.raises(MissingCapability, match=f"can {capability.value}"):
            model.require(capability, "this test")
    if Capability.SCORE not in model.capabilities:
        with pytest.raises(MissingCapability):
            model.score([("a", ["b"])])
        with pytest.raises(MissingCapability):
            model.plan_scores([ScoreItem("a", ("b",))])


def test_its_fingerprint_is_plain_data_and_stays(model: Model) -> None:
    first = json.dumps(model.fingerprint(), allow_nan=False, sort_keys=True)
    assert json.dumps(model.fingerprint(), sort_keys=True) == first


def test_score_keeps_order_and_shape(model: Model) -> None:
    needs(model, Capability.SCORE)
    items = [("the sky is", [" blue", " a very long way up"]), ("", ["the"]), ("the quick brown", [" fox"])]
    found = model.score(items)
    assert [len(row) for row in found] == [2, 1, 1]
    for (_, continuations), row in zip(items, found, strict=True):
        for continuation, evidence in zip(continuations, row, strict=True):
            assert evidence.text == continuation
            assert evidence.byte_count == len(continuation.encode())
            assert np.isfinite(evidence.logprobs).all()
    again = model.score(items)
    assert all(a == b for x, y in zip(found, again, strict=True) for a, b in zip(x, y, strict=True)), "same digits"


def test_a_plan_covers_every_item_once(model: Model) -> None:
    needs(model, Capability.SCORE)
    items = [ScoreItem("the sky " * n, (" is", " was")) for n in range(1, 9)]
    plan = model.plan_scores(items)
    assert sorted(i for batch in plan.batches for i in batch.indices) == list(range(8))
    assert not plan.refused
    assert model.plan_scores(items) == plan


def test_probabilities_of_all_next_bytes_do_not_exceed_one(model: Model) -> None:
    needs(model, Capability.SCORE)
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    scored = model.score([("the sky is ", letters)])[0]
    total = sum(np.exp(-evidence.nll_nats) for evidence in scored)
    assert 0 < total <= 1 + 1e-4


def test_a_document_is_read_to_its_last_byte(model: Model) -> None:
    needs(model, Capability.SCORE)
    text = "The sky is blue,\nthe café is open\tand the 数字 are here.\n\nSo it  goes\n"
    decided = model.rolling(Rolling())
    assert model.rolling(decided) == decided
    passages = list(model.passages([text[:9], text[9:]], decided))
    found = model.read(passages)
    assert not any(isinstance(one, Failure) for one in found), found
    logprobs, byte_counts, word_starts = (np.concatenate(c) for c in list(zip(*found, strict=True))[:3])
    assert np.isfinite(logprobs).all()
    assert logprobs.max() <= 0
    assert byte_counts.min() >= 0
    assert byte_counts.sum() == len(text.encode())
    assert word_starts.sum() == len(text.split())
    assert len(logprobs) == len(byte_counts) == len(word_starts)
    assert [one.logprobs.tolist() for one in model.read(passages)] == [one.logprobs.tolist() for one in found]
    assert logprobs.sum() == pytest.approx(-model.score([("", [text])])[0][0].nll_nats, rel=1e-6)


def test_an_empty_document_has_no_passages(model: Model) -> None:
    needs(model, Capability.SCORE)
    assert list(model.passages(["", ""], model.rolling(Rolling()))) == []
    assert model.read([]) == []


def test_a_conversation_is_read_message_by_message_or_refused_by_name(model: Model) -> None:
    if not model.takes_conversations:
        for ask in (model.conversation_cost, model.read_conversations):
            with pytest.raises(MissingCapability, match="reading a conversation needs a model with a chat template"):
                ask([[Message("user", "hello")]], Rolling())
        return
    question, answer = Message("user", "Is the café open?\n"), Message("assistant", "The 数字 say so.")
    conversations = [[question, answer, Message("user", "")], [question]]
    decided = model.rolling(Rolling())
    costs = model.conversation_cost(conversations, decided)
    before = model.counters.tokens_run
    found = model.read_conversations(conversations, decided)
    assert model.counters.tokens_run - before == sum(cost.tokens_run for cost in costs)
    for conversation, cost, row in zip(conversations, costs, found, strict=True):
        assert [one.text for one in row] == [message.content for message in conversation]
        assert all(np.isfinite(one.logprobs).all() for one in row)
        assert cost.windows == 1
        assert sum(map(len, row)) <= cost.tokens_run < cost.tokens
    assert found[0][0].logprobs == pytest.approx(found[1][0].logprobs, abs=1e-4), "what follows changes nothing"
    again = model.read_conversations(conversations, decided)
    assert all(a == b for x, y in zip(found, again, strict=True) for a, b in zip(x, y, strict=True)), "same digits"


def test_generate_keeps_order_and_gives_evidence(model: Model) -> None:
    needs(model, Capability.GENERATE)
    questions = ["What is the capital of France?", "Name a colour.", "Say hello."]
    answers = model.generate(questions, max_tokens=8, top_logprobs=4)
    assert len(answers) == 3
    for answer in answers:
        assert answer.failure is None
        assert answer.logprobs is not None
        assert answer.logprobs.text == answer.text
        assert answer.logprobs.top is not None
        assert len(answer.logprobs) <= 8
        for i, logprob in enumerate(answer.logprobs.logprobs):
            row = answer.logprobs.top.row(i)
            assert len(row) == 4
            assert [value for _, value in row] == sorted((value for _, value in row), reverse=True)
            assert logprob == pytest.approx(row[0][1], abs=1e-5), "greedy takes the likeliest"
    assert [a.text for a in model.generate(questions, max_tokens=8, top_logprobs=4)] == [a.text for a in answers]


def test_nonsense_is_refused_in_one_sentence(model: Model) -> None:
    needs(model, Capability.GENERATE)
    for conversations, options in (([[]], {}), ([[{"role": "user"}]], {}), (["hi"], {"max_tokens": 0})):
        with pytest.raises(HowsureError) as caught:
            model.generate(conversations, **options)
        assert "\n" not in str(caught.value)
