"""The OpenAI back end against a server that misbehaves on purpose: exact outcomes and numbers of attempts."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import socket
import subprocess
import sys
import threading
import time
import warnings
import zlib
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from howsure.errors import InputError, MissingCapability, ModelError, ServerError
from howsure.models.contract import Answer
from howsure.models.servers.client import RetryPolicy, asked_wait_s
from howsure.models.servers.openai import OpenAIServer

from .misbehaving_server import (
    LOGPROBS,
    Behaviour,
    Connection,
    MisbehavingServer,
    answer,
    chat,
    delayed,
    disconnect_mid_body,
    drip,
    endless,
    error,
    hang_up,
    ok,
    raw,
    silent,
)

pytestmark = pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")

KEY = "sk-a-key-that-nobody-may-see-0123456789"
RETRIES = 2


@pytest.fixture
def model(misbehaving: MisbehavingServer) -> OpenAIServer:
    return OpenAIServer(
        "m", base_url=misbehaving.base_url, max_retries=RETRIES, backoff_s=0.005, timeout_s=5, concurrency=4
    )


@pytest.fixture(autouse=True)
def nothing_left_open() -> object:
    gc.freeze()  # what was there before need not be looked through again, which takes most of a second
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            yield
            gc.collect()  # so that what was left open is told now, to this test
    finally:
        gc.unfreeze()


def _ask(model: OpenAIServer, server: MisbehavingServer, *script: Behaviour) -> tuple[Answer, int]:
    """The answer to one conversation under a script, and how many requests it took."""
    server.script = list(script)
    (got,) = model.generate(["Hello"])
    assert model.counters.calls == len(server.requests)
    return got, len(server.requests)


# What passes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(error(408, "slow"), id="408"),
        pytest.param(error(409, "locked"), id="409"),
        pytest.param(error(429, "too fast"), id="429"),
        pytest.param(error(500, "oops"), id="500"),
        pytest.param(raw(b"<html>bad gateway</html>", 502, content_type="text/html"), id="502 as HTML"),
        pytest.param(error(503, "loading model"), id="503"),
        pytest.param(error(529, "overloaded"), id="529"),
        pytest.param(disconnect_mid_body(), id="disconnect mid-body"),
        pytest.param(hang_up(), id="disconnect before the answer"),
        pytest.param(answer(json.dumps(chat())[:60]), id="half a JSON"),
        pytest.param(raw(b""), id="empty body"),
        pytest.param(raw(b'{"choices": "\xff\xfe"}'), id="not UTF-8"),
        pytest.param(answer("[" * 100_000), id="nested too deep"),
        pytest.param(raw(b"<html>please log in</html>", content_type="text/html"), id="HTML instead of JSON"),
    ],
)
def test_a_fault_that_passes_is_asked_again_and_counted(
    model: OpenAIServer, misbehaving: MisbehavingServer, fault: Behaviour
) -> None:
    got, requests = _ask(model, misbehaving, fault, ok())
    assert (got.text, got.failure, got.logprobs_missing) == ("Yes", None, None)
    assert got.logprobs.logprobs.tolist() == [-0.25]
    assert (got.retries, requests) == (1, 2)
    assert model.counters.tokens_run == 7


@pytest.mark.parametrize(
    ("fault", "failure"),
    [
        (error(500, "oops"), "HTTP 500: oops, 3 attempts"),
        (answer({}, 503), "HTTP 503: {}, 3 attempts"),
        (raw(b"", 500), "HTTP 500: no explanation, 3 attempts"),
        (error(429, "too  \n fast"), "HTTP 429: too fast, 3 attempts"),
        (answer('{"choices": [{'), 'the answer is not JSON; it begins «{"choices": [{», 3 attempts'),
        (
            raw(b"<html>please log in</html>", content_type="text/html"),
            "the answer is not JSON, an HTML page: check the base URL; it begins «<html>please log in</html>»"
            ", 3 attempts",
        ),
    ],
)
def test_retries_are_bounded_and_the_last_fault_is_the_reason(
    model: OpenAIServer, misbehaving: MisbehavingServer, fault: Behaviour, failure: str
) -> None:
    got, requests = _ask(model, misbehaving, fault)
    assert got == Answer(None, failure=failure, retries=RETRIES)
    assert requests == 1 + RETRIES


def test_disconnects_without_end_fail_that_conversation(model: OpenAIServer, misbehaving: MisbehavingServer) -> None:
    got, requests = _ask(model, misbehaving, disconnect_mid_body())
    assert got.failure.startswith("the connection failed: peer closed connection without sending complete message")
    assert got.failure.endswith(", 3 attempts")
    assert requests == 1 + RETRIES


@pytest.mark.parametrize("behaviour", [silent(), drip()], ids=["no answer", "a byte at a time"])
def test_an_attempt_has_a_deadline_as_a_whole(misbehaving: MisbehavingServer, behaviour: Behaviour) -> None:
    model = OpenAIServer("m", base_url=misbehaving.base_url, max_retries=1, backoff_s=0.005, timeout_s=0.3)
    started = time.monotonic()
    got, requests = _ask(model, misbehaving, behaviour)
    assert got == Answer(None, failure="no answer within 0.3 s, 2 attempts", retries=1)
    assert requests == 2
    assert 0.6 <= time.monotonic() - started < 10


def test_a_slow_answer_once_is_asked_again(misbehaving: MisbehavingServer) -> None:
    model = OpenAIServer("m", base_url=misbehaving.base_url, backoff_s=0.005, timeout_s=0.3)
    got, requests = _ask(model, misbehaving, delayed(0.6, ok()), ok())
    assert (got.text, got.retries, requests) == ("Yes", 1, 2)


# Waiting ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "least_s"),
    [({"retry_after": "0.5"}, 0.5), ({"retry_after_ms": "400", "retry_after": "9"}, 0.4)],
)
def test_retry_after_is_waited_for(
    model: OpenAIServer, misbehaving: MisbehavingServer, headers: dict[str, str], least_s: float
) -> None:
    got, requests = _ask(model, misbehaving, error(429, "too fast", **headers), ok())
    assert (got.text, got.retries, requests) == ("Yes", 1, 2)
    first, second = (request.at_s for request in misbehaving.requests)
    assert least_s <= second - first < 9


def test_retry_after_as_a_date_is_waited_for(model: OpenAIServer, misbehaving: MisbehavingServer) -> None:
    then = datetime.now(UTC) + timedelta(seconds=2)  # sent without its fraction, so 1 to 2 s from now
    fault = error(503, "busy", retry_after=format_datetime(then, usegmt=True))
    got, requests = _ask(model, misbehaving, fault, ok())
    assert (got.text, got.retries, requests) == ("Yes", 1, 2)
    assert datetime.now(UTC) >= then.replace(microsecond=0)


@pytest.mark.parametrize(
    ("value", "wait_s"),
    [
        ("2", 2.0),
        ("0.25", 0.25),
        ("86400", 60.0),
        ("Wed, 01 Jan 2025 00:00:30 GMT", 30.0),
        ("Wed, 01 Jan 2025 12:00:00 GMT", 60.0),
        ("Tue, 31 Dec 2024 00:00:00 GMT", None),
        ("Wed, 01 Jan 2025 00:00:30 -0000", 30.0),
        ("0", None),
        ("-5", None),
        ("nan", None),
        ("inf", None),
        ("soon", None),
        ("Wed, 99 Jan 99999999999999999999 00:00:30 GMT", None),
        ("", None),
    ],
)
def test_what_a_server_may_ask_for(value: str, wait_s: float | None) -> None:
    assert asked_wait_s({"retry-after": value}, now=datetime(2025, 1, 1, tzinfo=UTC)) == wait_s


def test_the_waits_double_are_spread_and_stay_below_the_limit() -> None:
    policy = RetryPolicy(max_retries=5, backoff_s=0.5)
    for retry, longest in enumerate([0.5, 1, 2, 4, 8, 16, 30, 30]):
        waits = [policy.wait_s(retry, call) for call in range(50)]
        assert all(0.75 * longest <= wait <= longest for wait in waits)
        assert len(set(waits)) == 50
    assert policy.wait_s(3, 7) == policy.wait_s(3, 7) == 4 * (0.75 + 0.25 * zlib.crc32(b"7/3") / 2**32)
    assert policy.wait_s(10**6, 0) <= 30
    assert 20 <= policy.wait_s(0, 1, asked_s=20.0) <= 20.125


# What does not pass -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 402, 413, 422])
def test_a_refused_request_fails_that_conversation_at_once(
    model: OpenAIServer, misbehaving: MisbehavingServer, status: int
) -> None:
    got, requests = _ask(model, misbehaving, error(status, "no\tgood " + "x" * 1000))
    assert got.failure == f"HTTP {status}: no good " + "x" * 291 + "…"
    assert (got.text, got.retries, requests) == (None, 0, 1)


def test_one_refused_conversation_leaves_the_others_alone(model: OpenAIServer, misbehaving: MisbehavingServer) -> None:
    misbehaving.by_prompt = {"2": error(400, "context too long"), "3": delayed(0.2, ok("three"))}
    heard: dict[int, Answer] = {}
    answers = model.generate(["1", "2", "3", "4", "5"], on_answer=heard.__setitem__)
    assert [got.text for got in answers] == ["Yes", None, "three", "Yes", "Yes"]
    assert answers[1].failure == "HTTP 400: context too long"
    assert len(misbehaving.requests) == 5
    assert heard == dict(enumerate(answers))
    assert list(heard)[-1] == 2


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (
            401,
            r"refuses the key for 'm' \(HTTP 401: bad\); set OPENAI_API_KEY to one that may use this model$",
        ),
        (
            403,
            r"refuses the key for 'm' \(HTTP 403: bad\); set OPENAI_API_KEY to one that may use this model$",
        ),
        (
            404,
            r"has no model 'm' or no chat API at this address \(HTTP 404: bad\); check the model's name and",
        ),
    ],
)
def test_what_every_call_would_meet_is_raised_in_one_sentence(
    model: OpenAIServer, misbehaving: MisbehavingServer, status: int, sentence: str
) -> None:
    misbehaving.script = [error(status, "bad")]
    with pytest.raises(ServerError, match=f"^the server at {misbehaving.base_url} {sentence}") as caught:
        model.generate(["Hello"])
    assert len(misbehaving.requests) == 1
    assert caught.value.__context__ is None


def test_the_first_hopeless_answer_stops_the_others(model: OpenAIServer, misbehaving: MisbehavingServer) -> None:
    misbehaving.script = [error(401, "bad")]
    with pytest.raises(ServerError):
        model.generate([str(i) for i in range(100)])
    assert len(misbehaving.requests) <= model.concurrency


def test_no_quota_left_is_not_asked_again(model: OpenAIServer, misbehaving: MisbehavingServer) -> None:
    misbehaving.script = [error(429, "You exceeded your current quota", "insufficient_quota", retry_after="30")]
    with pytest.raises(ServerError, match=r"no quota left at .* \(HTTP 429: You exceeded your current quota\)"):
        model.generate(["Hello"])
    assert len(misbehaving.requests) == 1


def test_nobody_listening_is_one_sentence_after_the_last_attempt() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: every connection is refused
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        model = OpenAIServer("m", base_url=url, max_retries=RETRIES, backoff_s=0.005, concurrency=1)
        with pytest.raises(ServerError, match=f"^no server answers at {url} .*; start it, or correct --base-url"):
            model.generate(["Hello", "Hello"])
    assert model.counters.calls == 1 + RETRIES


def test_a_host_that_does_not_exist_is_said_likewise() -> None:
    model = OpenAIServer("m", base_url="http://no-such-host.invalid/v1", max_retries=0)
    with pytest.raises(ServerError, match=r"^no server answers at http://no-such-host.invalid/v1 "):
        model.generate(["Hello"])


@pytest.mark.parametrize("behaviour", [endless(), raw(b" " * 200_000), raw(b"x" * 200_000, 500)])
def test_an_enormous_body_is_not_read_to_its_end(misbehaving: MisbehavingServer, behaviour: Behaviour) -> None:
    model = OpenAIServer("m", base_url=misbehaving.base_url, backoff_s=0.005, max_answer_bytes=100_000)
    got, requests = _ask(model, misbehaving, behaviour)
    assert got == Answer(None, failure="the answer is larger than 100000 bytes")
    assert requests == 1


def test_a_compressed_body_is_refused_since_it_may_hide_an_enormous_one(
    model: OpenAIServer, misbehaving: MisbehavingServer
) -> None:
    bomb = raw(zlib.compress(b" " * 10**7), content_encoding="deflate")
    got, requests = _ask(model, misbehaving, bomb)
    assert got.failure == "the answer is compressed, though an uncompressed one was asked for"
    assert requests == 1
    assert misbehaving.requests[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    ("body", "failure"),
    [
        (chat() | {"choices": []}, "unreadable answer: Expected `array` of length >= 1 - at `$.choices`"),
        ({"object": "list"}, "unreadable answer: Object missing required field `choices`"),
        ([], "unreadable answer: Expected `object`, got `array`"),
        (None, "unreadable answer: Expected `object`, got `null`"),
        (
            chat(42),
            "unreadable answer: Expected `str | null`, got `int` - at `$.choices[0].message.content`",
        ),
        ({"error": {"message": "upstream died"}}, "unreadable answer: upstream died"),
        ({"error": "upstream died"}, "unreadable answer: upstream died"),
        (chat(None, finish_reason="tool_calls"), "no text: finish_reason=tool_calls"),
        (chat(None, refusal="I will not."), "no text: finish_reason=stop, refusal: I will not."),
        (chat(None, finish_reason=7), "no text: finish_reason=None"),
    ],
)
def test_an_answer_of_another_shape_is_a_failure_not_a_text(
    model: OpenAIServer, misbehaving: MisbehavingServer, body: object, failure: str
) -> None:
    got, requests = _ask(model, misbehaving, answer(body))
    assert (got.text, got.failure, got.logprobs, got.retries, requests) == (None, failure, None, 0, 1)


def test_half_a_surrogate_pair_breaks_nothing(model: OpenAIServer, misbehaving: MisbehavingServer) -> None:
    got, _ = _ask(model, misbehaving, answer(chat("\ud800")))
    assert got.failure.startswith("unreadable answer: 'utf-8' codec can't encode character")
    (sent,) = model.generate(["\ud800"])
    assert sent.failure.startswith("'utf-8' codec can't encode character")
    got.failure.encode()
    assert len(misbehaving.requests) == 1


@pytest.mark.parametrize("charset", ["hex", "base64", "utf-16", "punycode", "no-such-thing"])
def test_an_error_page_in_an_odd_encoding_is_taken_as_utf_8(
    model: OpenAIServer, misbehaving: MisbehavingServer, charset: str
) -> None:
    page = raw("fâché \udcff".encode(errors="surrogateescape"), 400, content_type=f"text/html; charset={charset}")
    got, requests = _ask(model, misbehaving, page)
    assert (got, requests) == (Answer(None, failure="HTTP 400: fâché \ufffd"), 1)


# Log-probabilities ------------------------------------------------------------------------------------------


def _entry(**changes: object) -> dict[str, object]:
    return {"content": [{**LOGPROBS["content"][0], **changes}]}


@pytest.mark.parametrize("logprobs", [None, {}, {"content": None}, {"content": []}, {"tokens": ["Yes"]}])
def test_dropped_log_probabilities_are_missing_and_the_text_is_kept(
    model: OpenAIServer, misbehaving: MisbehavingServer, logprobs: object
) -> None:
    got, requests = _ask(model, misbehaving, ok(logprobs=logprobs))
    assert (got.text, got.failure, got.logprobs, requests) == ("Yes", None, None, 1)
    assert got.logprobs_missing.startswith(
        f"{misbehaving.base_url} left out the log-probabilities that were asked for; take a model that"
    )
    with pytest.raises(MissingCapability, match=r"openai:m failed a one-token probe \(logprobs=true, top_logprobs=5\)"):
        model.check_logprobs()


@pytest.mark.parametrize(
    ("logprobs", "place"),
    [
        (_entry(logprob=float("nan")), "NaN"),
        (_entry(logprob=0.5), "0.5"),
        (_entry(logprob=float("inf")), "inf"),
        (_entry(logprob="-0.5"), "logprobs.content[0].logprob must be a number, not str"),
        (_entry(logprob=None), "logprobs.content[0].logprob must be a number, not NoneType"),
        (_entry(logprob=True), "logprobs.content[0].logprob must be a number, not bool"),
        (_entry(token=3), "logprobs.content[0].token must be a text, not int"),
        (_entry(token="\udc00"), "surrogates not allowed"),
        (_entry(bytes=[300]), "logprobs.content[0].bytes must hold numbers from 0 to 255"),
        (_entry(top_logprobs=[{"token": "No", "logprob": float("nan")}]), "top alternatives"),
        (_entry(top_logprobs={"token": "No"}), "logprobs.content[0].top_logprobs must be a list"),
        ({"content": "Yes"}, "logprobs.content must be a list of token entries, not str"),
        ({"content": {"token": "Yes"}}, "logprobs.content must be a list of token entries, not dict"),
        ({"content": [None]}, "logprobs.content[0].token must be a text, not NoneType"),
        (7, "logprobs.content must be a list of token entries, not int"),
    ],
)
def test_broken_log_probabilities_are_missing_with_their_place_and_the_text_is_kept(
    model: OpenAIServer, misbehaving: MisbehavingServer, logprobs: object, place: str
) -> None:
    got, requests = _ask(model, misbehaving, ok(logprobs=logprobs))
    assert (got.text, got.failure, got.logprobs, got.retries, requests) == ("Yes", None, None, 0, 1)
    assert got.logprobs_missing.startswith(f"{misbehaving.base_url} gave broken log-probabilities: ")
    assert place.lower() in got.logprobs_missing.lower()


@pytest.mark.parametrize("usage", [None, [], {"total_tokens": -5}, {"total_tokens": "9"}, {"total_tokens": True}])
def test_an_odd_usage_counts_nothing(model: OpenAIServer, misbehaving: MisbehavingServer, usage: object) -> None:
    got, _ = _ask(model, misbehaving, answer(chat() | {"usage": usage}))
    assert got.text == "Yes"
    assert model.counters.tokens_run == 0


@pytest.mark.parametrize(
    "refusal",
    [
        error(400, "Unsupported parameter: 'logprobs' is not supported with this model.", param="logprobs"),
        error(400, "invalid value", param="top_logprobs"),
        error(403, "You are not allowed to request logprobs from this model"),
        error(422, "top_logprobs: extra inputs are not permitted"),
    ],
)
def test_a_server_that_refuses_log_probabilities_is_asked_once_without(
    model: OpenAIServer, misbehaving: MisbehavingServer, refusal: Behaviour
) -> None:
    got, requests = _ask(model, misbehaving, refusal, ok(logprobs=None))
    assert (got.text, got.logprobs, got.retries, requests) == ("Yes", None, 0, 2)
    assert got.logprobs_missing.startswith(f"{misbehaving.base_url} refuses to give log-probabilities (HTTP 4")
    first, second = (request.body for request in misbehaving.requests)
    assert (first["logprobs"], first["top_logprobs"]) == (True, 5)
    assert first == second | {"logprobs": True, "top_logprobs": 5}
    misbehaving.script = [refusal, ok(logprobs=None)]
    with pytest.raises(MissingCapability, match="refuses to give log-probabilities"):
        model.check_logprobs()


def test_a_server_that_refuses_with_and_without_log_probabilities_fails_after_two(
    model: OpenAIServer, misbehaving: MisbehavingServer
) -> None:
    got, requests = _ask(model, misbehaving, error(400, "logprobs? no"))
    assert (got.failure, requests) == ("HTTP 400: logprobs? no", 2)


def test_the_probe_asks_for_one_token_and_says_what_came_back(
    model: OpenAIServer, misbehaving: MisbehavingServer
) -> None:
    model.check_logprobs(top_logprobs=2)
    (probe,) = misbehaving.requests
    assert (probe.body["max_tokens"], probe.body["logprobs"], probe.body["top_logprobs"]) == (1, True, 2)
    misbehaving.script = [ok(logprobs=_entry(top_logprobs=[]))]
    with pytest.raises(MissingCapability, match="with log-probabilities without alternatives; take a model that"):
        model.check_logprobs()
    model.check_logprobs(top_logprobs=0)
    misbehaving.script = [ok("", logprobs={"content": []})]
    with pytest.raises(MissingCapability, match="with an empty answer"):
        model.check_logprobs()
    misbehaving.script = [error(400, "no chat template")]
    with pytest.raises(ModelError, match=r"failed a one-token probe .* HTTP 400: no chat template"):
        model.check_logprobs()


# The request ------------------------------------------------------------------------------------------------


def test_what_is_sent(model: OpenAIServer, misbehaving: MisbehavingServer) -> None:
    model.generate([[{"role": "system", "content": "S"}, {"role": "user", "content": "é"}]], seed=3, temperature=0.5)
    model.generate(["Hello"], max_tokens=9, top_logprobs=0)
    first, second = misbehaving.requests
    assert first.path == "/v1/chat/completions"
    assert first.body == {
        "model": "m",
        "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "é"}],
        "max_tokens": 256,
        "temperature": 0.5,
        "seed": 3,
        "logprobs": True,
        "top_logprobs": 5,
    }
    assert second.body["max_tokens"] == 9
    assert second.body["logprobs"] is True
    assert "top_logprobs" not in second.body


@pytest.mark.parametrize(
    "refusal",
    [
        error(
            400,
            "Unsupported parameter: 'max_tokens' is not supported with this model. "
            "Use 'max_completion_tokens' instead.",
            "unsupported_parameter",
            "max_tokens",
        ),
        error(422, "max_tokens: extra inputs are not permitted"),
    ],
)
def test_the_other_name_of_the_token_limit_is_found_and_remembered(
    model: OpenAIServer, misbehaving: MisbehavingServer, refusal: Behaviour
) -> None:
    got, requests = _ask(model, misbehaving, refusal, ok())
    assert (got.text, got.retries, requests) == ("Yes", 0, 2)
    assert len(got.logprobs) == 1
    model.generate(["Hello"])
    names = [[n for n in r.body if n.startswith("max_")] for r in misbehaving.requests]
    assert names == [["max_tokens"], ["max_completion_tokens"], ["max_completion_tokens"]]


def test_the_token_limit_is_switched_once_for_a_conversation(
    model: OpenAIServer, misbehaving: MisbehavingServer
) -> None:
    got, requests = _ask(model, misbehaving, error(400, "unknown parameters: max_tokens, max_completion_tokens"))
    assert (got.failure[:9], got.retries, requests) == ("HTTP 400:", 0, 2)


def test_too_large_a_token_limit_is_no_reason_to_switch(model: OpenAIServer, misbehaving: MisbehavingServer) -> None:
    words = "'max_tokens' or 'max_completion_tokens' is too large: 256. The maximum context length is 100 tokens."
    got, requests = _ask(model, misbehaving, error(400, words))
    assert (got.failure, requests) == (f"HTTP 400: {words}", 1)


def test_as_many_calls_at_a_time_as_allowed_and_no_more(misbehaving: MisbehavingServer) -> None:
    all_three, lock = threading.Barrier(3), threading.Lock()
    running: list[int] = [0]
    most: list[int] = [0]

    def behave(connection: Connection) -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        all_three.wait(timeout=20)  # fewer than three at a time would break it
        time.sleep(0.05)  # a fourth would come in here
        with lock:
            running[0] -= 1
        ok()(connection)

    misbehaving.script = [behave]
    answers = OpenAIServer("m", base_url=misbehaving.base_url, concurrency=3, max_retries=0).generate(["Hello"] * 9)
    assert [got.text for got in answers] == ["Yes"] * 9
    assert most == [3]


def test_a_broken_listener_stops_the_work(model: OpenAIServer) -> None:
    def broken(index: int, _: Answer) -> None:
        raise KeyError(index)

    with pytest.raises(KeyError):
        model.generate(["Hello"] * 3, on_answer=broken)


def test_cancelling_leaves_nothing_behind(model: OpenAIServer, misbehaving: MisbehavingServer) -> None:
    async def cancelled() -> None:
        task = asyncio.create_task(model.agenerate(["Hello"] * 4))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == {asyncio.current_task()}

    misbehaving.script = [silent()]
    asyncio.run(cancelled())


# Secrets ----------------------------------------------------------------------------------------------------


def test_a_key_that_a_server_echoes_is_cut_out(
    misbehaving: MisbehavingServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\n")  # a copied line end is no part of the key
    model = OpenAIServer("m", base_url=misbehaving.base_url, max_retries=0)
    with caplog.at_level(logging.DEBUG):
        misbehaving.script = [error(401, f"Incorrect API key provided: {KEY}.")]
        with pytest.raises(ServerError, match=r"Incorrect API key provided: \*\*\*\.") as caught:
            model.generate(["Hello"])
        misbehaving.script = [error(400, f"Bearer {KEY}"), answer(f"nonsense {KEY}"), answer({"error": KEY})]
        misbehaving.script += [
            answer(chat(None, refusal=KEY)),
            ok(logprobs=_entry(logprob=KEY)),
            raw(KEY.encode(), 500),
        ]
        answers = [model.generate(["Hello"])[0] for _ in range(6)]
    assert all(request.headers["authorization"] == f"Bearer {KEY}" for request in misbehaving.requests)
    assert [got.failure for got in answers[:2]] == [
        "HTTP 400: Bearer ***",
        "the answer is not JSON; it begins «nonsense ***»",
    ]
    assert KEY not in repr(caught.value) + repr(answers) + caplog.text + repr(model) + repr(vars(model))


def test_credentials_in_the_base_url_are_used_and_never_shown(
    misbehaving: MisbehavingServer, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"http://alice:p%40ssw0rd@127.0.0.1:{misbehaving.port}/v1/?api_key=qu3ry%2Fkey&api-version=2024-10-21"
    model = OpenAIServer("m", base_url=url, max_retries=0)
    shown = f"http://***@127.0.0.1:{misbehaving.port}/v1?api_key=***&api-version=2024-10-21"
    assert model.fingerprint() == {"backend": "openai", "model": "m", "base_url": shown}
    assert repr(model) == f"OpenAIServer('m', base_url='{shown}')"
    misbehaving.script = [
        error(400, "alice p@ssw0rd p%40ssw0rd qu3ry/key YWxpY2U6cEBzc3cwcmQ="),
        error(404, "gone"),
    ]
    with caplog.at_level(logging.DEBUG):
        (got,) = model.generate(["Hello"])
        with pytest.raises(ServerError) as caught:
            model.generate(["Hello"])
    sent = misbehaving.requests[0]
    assert sent.path == "/v1/chat/completions?api_key=qu3ry%2Fkey&api-version=2024-10-21"
    assert sent.headers["authorization"] == "Basic YWxpY2U6cEBzc3cwcmQ="
    assert got.failure == "HTTP 400: *** *** *** *** ***"
    assert shown in str(caught.value)
    assert "HTTP Request: POST http://127.0.0.1" in caplog.text
    for secret in ("alice", "ssw0rd", "qu3ry", "YWxpY2U6"):
        assert secret not in caplog.text + str(caught.value) + repr(got) + repr(vars(model))


def test_openai_itself_needs_a_key_and_others_do_not(
    misbehaving: MisbehavingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    openai = OpenAIServer("gpt-4.1")
    assert openai.fingerprint()["base_url"] == "https://api.openai.com/v1"
    for use in (openai.load, lambda: openai.generate(["Hello"])):
        with pytest.raises(ModelError, match=r"^https://api.openai.com/v1 needs a key: set OPENAI_API_KEY, or give"):
            use()
    assert openai.counters.calls == 0
    monkeypatch.setenv("OPENAI_BASE_URL", misbehaving.base_url)
    own = OpenAIServer("m")
    own.load()
    assert own.generate(["Hello"])[0].text == "Yes"
    assert misbehaving.requests[0].headers["authorization"] == "Bearer no-key"


@pytest.mark.parametrize("key", ["sk-ключ", "sk-a\x00b", "sk-a\nb"])
def test_a_key_that_cannot_be_one_is_refused_without_showing_it(
    misbehaving: MisbehavingServer, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    if "\x00" in key:
        key = key.replace("\x00", "\x01")  # the environment itself takes no NUL
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(ModelError, match="OPENAI_API_KEY holds characters that no key has") as caught:
        OpenAIServer("m", base_url=misbehaving.base_url).generate(["Hello"])
    assert "sk-" not in str(caught.value)
    assert misbehaving.requests == []


# Options ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"model": "  "},
        {"concurrency": 0},
        {"max_retries": -1},
        {"timeout_s": 0},
        {"timeout_s": float("nan")},
        {"backoff_s": -1},
        {"max_answer_bytes": 0},
        {"base_url": "127.0.0.1:8000/v1"},
        {"base_url": "ftp://secret@host/v1"},
        {"base_url": "http:///v1"},
        {"base_url": "http://secret@host:port/v1"},
        {"base_url": "http://ho st/v1"},
        {"base_url": "http://[::1/v1"},
    ],
)
def test_options_that_cannot_be_used_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(InputError) as caught:
        OpenAIServer(**{"model": "m", **options})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("option", [{"max_tokens": 0}, {"temperature": -1}, {"temperature": float("nan")}])
def test_requests_that_cannot_be_made_are_refused_before_any_call(
    model: OpenAIServer, misbehaving: MisbehavingServer, option: dict[str, float]
) -> None:
    with pytest.raises(InputError, match=next(iter(option))):
        model.generate(["Hello"], **option)
    with pytest.raises(InputError, match="a conversation needs at least one message"):
        model.generate(["Hello", []])
    assert misbehaving.requests == []


def test_the_sdk_is_loaded_at_the_first_call_only() -> None:
    code = "import sys; from howsure.models.servers.openai import OpenAIServer; OpenAIServer('m').fingerprint(); "
    code += "sys.exit(any(name in sys.modules for name in ('openai', 'httpx2')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
