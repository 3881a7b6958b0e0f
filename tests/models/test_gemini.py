"""Gemini through Google's real SDK, against a loopback server that answers in the documented form or misbehaves."""

from __future__ import annotations

import asyncio
import base64
import gc
import io
import json
import logging
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import howsure
from howsure.errors import HowsureError, InputError, MissingCapability, MissingExtra, ModelError, ServerError
from howsure.models import registry
from howsure.models.contract import NOT_ASKED, Answer, Message
from howsure.models.images import Picture, inspect_picture
from howsure.models.servers.gemini import GeminiModel, thinking_ladder

from .gemini_server import (
    GeminiServer,
    echo,
    error,
    error_info,
    forget_accounts,
    logprobs_result,
    ok,
    quota_failure,
    reply,
    retry_info,
)
from .misbehaving_server import Behaviour, answer, delayed, disconnect_mid_body, drip, endless, hang_up, raw, silent

pytestmark = pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")

KEY = "AIzaSyA-key-that-nobody-may-see-0123456789"
RETRIES = 2
NOT_ENABLED = "Logprobs is not enabled for models/gemini-2.5-flash"
ALWAYS_THINKS = "Budget 0 is invalid. This model only works in thinking mode."


@pytest.fixture(autouse=True)
def no_account(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_accounts(monkeypatch)


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    import google.genai  # noqa: F401  its import warns by itself

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
        gc.collect(1)  # so that what was left open is told now, to this test


@pytest.fixture
def server() -> Iterator[GeminiServer]:
    with GeminiServer() as running:
        yield running


@pytest.fixture
def model(server: GeminiServer) -> Iterator[GeminiModel]:
    opened = open_model(server)
    yield opened
    opened.close()


def open_model(server: GeminiServer, name: str = "gemini-2.5-flash", **options: Any) -> GeminiModel:
    quick = {"max_retries": RETRIES, "backoff_s": 0.005, "timeout_s": 5, "concurrency": 4}
    return GeminiModel(name, base_url=server.base_url, **{**quick, **options})


def ask(model: GeminiModel, server: GeminiServer, *script: Behaviour, **options: Any) -> tuple[Answer, int]:
    """The answer to one conversation under a script, and how many requests it took."""
    server.script = list(script)
    (got,) = model.generate(["Hello"], **options)
    assert model.counters.calls == len(server.requests)
    return got, len(server.requests)


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# The conversation on the wire ---------------------------------------------------------------------------------


def test_a_conversation_in_the_form_of_the_rest_api(model: GeminiModel, server: GeminiServer) -> None:
    messages = [
        Message("system", "Be brief."),
        Message("user", "Where is the café?"),
        Message("assistant", "There."),
        Message("system", "Be kind."),
        {"role": "user", "content": "And the 数字?"},
    ]
    model.generate([messages], max_tokens=9, temperature=0.5, top_logprobs=3, seed=42)
    (request,) = server.requests
    assert request.path == "/v1/models/gemini-2.5-flash:generateContent"
    assert request.headers["x-goog-api-key"] == "no-key"
    assert request.headers["accept-encoding"] == "identity"
    assert request.body == {
        "systemInstruction": {"parts": [{"text": "Be brief.\n\nBe kind."}], "role": "user"},
        "contents": [
            {"role": "user", "parts": [{"text": "Where is the café?"}]},
            {"role": "model", "parts": [{"text": "There."}]},
            {"role": "user", "parts": [{"text": "And the 数字?"}]},
        ],
        "generationConfig": {
            "temperature": 0.5,
            "maxOutputTokens": 9,
            "seed": 42,
            "responseLogprobs": True,
            "logprobs": 3,
            "thinkingConfig": {"thinkingBudget": 0},
        },
    }


def test_a_plain_text_and_what_is_left_out_by_default(model: GeminiModel, server: GeminiServer) -> None:
    model.generate(["Hi"], top_logprobs=None)
    body = server.requests[0].body
    assert body["contents"] == [{"role": "user", "parts": [{"text": "Hi"}]}]
    assert "systemInstruction" not in body
    assert set(body["generationConfig"]) == {"temperature", "maxOutputTokens", "seed", "thinkingConfig"}
    assert body["generationConfig"]["temperature"] == 0, "nought is said, not left to the model"


@pytest.mark.parametrize(
    ("top", "sent"),
    [
        (None, {}),
        (0, {"responseLogprobs": True}),
        (1, {"responseLogprobs": True, "logprobs": 1}),
        (20, {"responseLogprobs": True, "logprobs": 20}),
    ],
)
def test_how_log_probabilities_are_asked_for(model: GeminiModel, server: GeminiServer, top: Any, sent: Any) -> None:
    (got,) = model.generate(["Hello there"], top_logprobs=top)
    config = server.requests[0].body["generationConfig"]
    assert {name: config[name] for name in ("responseLogprobs", "logprobs") if name in config} == sent
    assert got.text == "Hello there"
    if top is None:
        assert (got.logprobs, got.logprobs_missing) == (None, NOT_ASKED)
    else:
        assert got.logprobs is not None
        assert (got.logprobs.top is None) == (top == 0)


def test_an_answer_held_to_a_schema(model: GeminiModel, server: GeminiServer) -> None:
    schema = {"type": "object", "properties": {"action": {"enum": ["up", "down"]}}, "required": ["action"]}
    model.generate(["Where to?"], answer_schema=schema)
    config = server.requests[0].body["generationConfig"]
    assert config["responseMimeType"] == "application/json"
    assert config["responseJsonSchema"] == schema


def sent_images(server: GeminiServer) -> list[tuple[str, bytes]]:
    parts = server.requests[-1].body["contents"][0]["parts"]
    inline = [part["inlineData"] for part in parts if "inlineData" in part]
    return [(one["mimeType"], base64.urlsafe_b64decode(one["data"])) for one in inline]


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_an_image_goes_as_it_is_before_its_text(
    model: GeminiModel, server: GeminiServer, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "view"
    Image.effect_noise((40, 30), 90).convert("RGB").save(path, kind)
    model.generate([[Message("user", "What is this?", (inspect_picture(path),))]])
    assert sent_images(server) == [(f"image/{kind.lower()}", path.read_bytes())]
    assert server.requests[0].body["contents"][0]["parts"][1] == {"text": "What is this?"}
    assert model.counters.images_run == 1
    assert model.answers_images


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "BMP", "TIFF", "PPM"])
def test_another_kind_of_image_goes_as_png(model: GeminiModel, server: GeminiServer, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "view"
    Image.new("RGB", (5, 3), (200, 30, 40)).save(path, kind, **({"lossless": True} if kind == "WEBP" else {}))
    model.generate([[Message("user", "", (inspect_picture(path),))]])
    ((media_type, content),) = sent_images(server)
    assert media_type == "image/png"
    shown = Image.open(io.BytesIO(content))
    assert (shown.format, shown.size, shown.convert("RGB").getpixel((1, 1))) == ("PNG", (5, 3), (200, 30, 40))
    assert len(server.requests[0].body["contents"][0]["parts"]) == 1, "no empty text beside an image"


def test_an_image_made_here_and_one_that_changed(model: GeminiModel, server: GeminiServer, tmp_path: Path) -> None:
    png = io.BytesIO()
    Image.new("RGB", (2, 2)).save(png, "PNG")
    path = tmp_path / "later.png"
    path.write_bytes(png.getvalue())
    changed = inspect_picture(path)
    path.write_bytes(png.getvalue() + b"more")
    made = Picture.made(png.getvalue(), "frame 1", (2, 2))
    good, bad = model.generate([[Message("user", "now", (made, made))], [Message("user", "then", (changed,))]])
    assert good.text == "now"
    assert len(sent_images(server)) == 2
    assert bad == Answer(None, failure=f"{path} has changed since it was checked")


# The evidence -------------------------------------------------------------------------------------------------


def test_the_evidence_is_what_was_sent(model: GeminiModel, server: GeminiServer) -> None:
    logprobs = {
        "chosenCandidates": [
            {"token": '{"', "tokenId": 7, "logProbability": -0.125},
            {"token": "up", "tokenId": 8, "logProbability": -1.5},
        ],
        "topCandidates": [
            {"candidates": [{"token": '{"', "logProbability": -0.125}, {"token": "up", "logProbability": -3.0}]},
            {"candidates": [{"token": "down", "logProbability": -0.5}, {"token": "up", "logProbability": -1.5}]},
        ],
    }
    got, _ = ask(model, server, ok('{"up', logprobs), top_logprobs=2)
    assert got.logprobs is not None
    assert got.logprobs.tokens == ('{"', "up")
    assert got.logprobs.logprobs.tolist() == [-0.125, -1.5]
    assert got.logprobs.token_bytes is None
    assert got.logprobs.top.row(1) == [("down", -0.5), ("up", -1.5)]
    assert (got.text, got.finish_reason, got.logprobs_missing, got.retries) == ('{"up', "stop", None, 0)
    assert model.counters.tokens_run == 7


def test_alternatives_that_nobody_asked_for_are_left(model: GeminiModel, server: GeminiServer) -> None:
    got, _ = ask(model, server, ok("Yes", logprobs_result(["Yes"], 5)), top_logprobs=0)
    assert got.logprobs is not None
    assert got.logprobs.top is None


def test_parts_are_joined_and_thoughts_left_out(model: GeminiModel, server: GeminiServer) -> None:
    parts = [{"text": "Let me see.", "thought": True}, {"text": "Go "}, {"inlineData": {}}, {"text": "up"}]
    got, _ = ask(model, server, ok(parts=parts, finish_reason="MAX_TOKENS"), top_logprobs=None)
    assert (got.text, got.finish_reason) == ("Go up", "length")


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        pytest.param(0.5, "log-prob", id="positive"),
        pytest.param(math.nan, "nan", id="NaN"),
        pytest.param("-0.5", "must be a number, not str", id="a text"),
        pytest.param(None, "must be a number, not nonetype", id="none"),
        pytest.param(10**400, "too large", id="an enormous number"),
    ],
)
def test_broken_log_probabilities_are_missing_by_name(
    model: GeminiModel, server: GeminiServer, broken: Any, words: str
) -> None:
    logprobs = {"chosenCandidates": [{"token": "Yes", "logProbability": broken}]}
    got, requests = ask(model, server, ok("Yes", logprobs))
    assert (got.text, got.logprobs, got.failure, requests) == ("Yes", None, None, 1)
    assert got.logprobs_missing is not None
    assert "gave broken log-probabilities" in got.logprobs_missing
    assert words in got.logprobs_missing.lower()


@pytest.mark.parametrize(
    ("logprobs", "words"),
    [
        ({**logprobs_result(["a", "b"], 2), "topCandidates": [{}]}, "top_candidates has 1 steps for 2 chosen"),
        ({"chosenCandidates": "Yes"}, "chosen_candidates must be a list of token entries, not str"),
        ([1, 2], "chosen_candidates must be a list"),
        ({"chosenCandidates": [{"token": "\ud83d", "logProbability": -1.0}]}, "gave broken log-probabilities"),
        ({"chosenCandidates": [{"logProbability": -1.0}]}, "chosen_candidates[0].token must be a text"),
        ({"chosenCandidates": []}, "left out the log-probabilities that were asked for"),
        ({}, "left out the log-probabilities that were asked for"),
        (None, "left out the log-probabilities that were asked for"),
    ],
)
def test_log_probabilities_of_another_shape(
    model: GeminiModel, server: GeminiServer, logprobs: Any, words: str
) -> None:
    got, _ = ask(model, server, ok("Yes", logprobs))
    assert (got.text, got.logprobs) == ("Yes", None)
    assert words in str(got.logprobs_missing)
    json.dumps(got.logprobs_missing, ensure_ascii=False).encode()


# What the endpoint refuses ------------------------------------------------------------------------------------


def refuses(parameter: str, message: str) -> Behaviour:
    """Refuse requests whose settings hold a parameter; else answer. Decided by the server for each request."""

    def behave(connection: Any) -> None:
        last = connection.server.owner.requests[-1].body["generationConfig"]
        then = error(400, message) if parameter in json.dumps(last) else ok("Yes")
        then(connection)

    return behave


@pytest.mark.parametrize(
    "message",
    [
        NOT_ENABLED,
        "Logprobs is not supported for the current model.",
        "Unable to submit request because Logprobs is not supported for this model.",
        "Invalid JSON payload received. Unknown name \"responseLogprobs\" at 'generation_config': Cannot find field.",
    ],
)
def test_refused_log_probabilities_leave_the_text(model: GeminiModel, server: GeminiServer, message: str) -> None:
    got, requests = ask(model, server, refuses("responseLogprobs", message))
    assert (got.text, got.logprobs, got.failure, got.retries, requests) == ("Yes", None, None, 0, 2)
    assert got.logprobs_missing is not None
    assert f"refuses to give log-probabilities (HTTP 400: {message})" in got.logprobs_missing
    assert "take a model and endpoint that give them" in got.logprobs_missing
    model.generate(["Again"])
    assert "responseLogprobs" in server.requests[2].body["generationConfig"], "refusals come and go: asked anew"


def test_the_probe_says_that_they_are_refused_and_names_the_way_out(model: GeminiModel, server: GeminiServer) -> None:
    server.script = [refuses("responseLogprobs", NOT_ENABLED)]
    with pytest.raises(MissingCapability) as caught:
        model.check_logprobs(5)
    assert str(caught.value).startswith(
        "gemini:gemini-2.5-flash failed a probe of one word (response_logprobs=true, logprobs=5): "
        f"{server.base_url} refuses to give log-probabilities (HTTP 400: {NOT_ENABLED}); "
        "take a model and endpoint that give them"
    )
    assert "--" not in str(caught.value), "options are a study's, and each has others"


def test_the_probe_of_an_endpoint_that_gives_them(model: GeminiModel, server: GeminiServer) -> None:
    assert model.check_logprobs(5) is None
    assert len(server.requests) == 1
    assert model.check_logprobs(0) is None


@pytest.mark.parametrize(
    ("script", "error_type", "words"),
    [
        (ok("Yes"), MissingCapability, "left out the log-probabilities that were asked for; take a model"),
        (ok("Yes", logprobs_result(["Yes"], 0)), MissingCapability, "with log-probabilities without alternatives"),
        (ok("", {"chosenCandidates": []}), MissingCapability, "with an empty answer"),
        (error(400, "nonsense"), ModelError, "failed a probe of one word (.*): HTTP 400: nonsense"),
    ],
)
def test_the_probe_of_one_that_does_not(
    model: GeminiModel, server: GeminiServer, script: Behaviour, error_type: type[Exception], words: str
) -> None:
    server.script = [script]
    with pytest.raises(error_type, match=words.replace("(.*)", ".*")):
        model.check_logprobs(5)


@pytest.mark.parametrize(
    ("name", "message", "settings"),
    [
        ("gemini-2.5-pro", ALWAYS_THINKS, [{"thinkingBudget": 0}, {"thinkingBudget": 128}]),
        (
            "gemini-2.0-flash",
            "Unable to submit request because thinking is not supported by this model.",
            [{"thinkingBudget": 0}, {"thinkingBudget": 128}, None],
        ),
        (
            "gemini-3.7-flash",
            "'minimal' is not a supported thinking level for this model. Allowed values are: medium, low, high.",
            [{"thinkingBudget": 0}, {"thinkingLevel": "MINIMAL"}, {"thinkingLevel": "LOW"}],
        ),
        ("gemini-3-pro-preview", "Thinking can't be disabled for this model", None),
    ],
)
def test_thinking_that_cannot_be_switched_off_is_held_to_the_least(
    server: GeminiServer, name: str, message: str, settings: Any
) -> None:
    told: list[str] = []
    model = open_model(server, name, announce=told.append)
    settings = settings or [{"thinkingBudget": 0}, {"thinkingLevel": "MINIMAL"}, {"thinkingLevel": "LOW"}, None]
    server.script = [*[error(400, message)] * (len(settings) - 1), ok("Yes")]
    answers = model.generate(["Hello"]) + model.generate(["Again"])
    assert [got.text for got in answers] == ["Yes", "Yes"]
    assert [got.retries for got in answers] == [0, 0], "asking otherwise is no retry"
    sent = [request.body["generationConfig"].get("thinkingConfig") for request in server.requests]
    assert sent == [*settings, settings[-1]], "remembered"
    assert len(told) == 1
    assert told[0].startswith(f"gemini:{name} refuses thinking_budget=0 (HTTP 400: {message}); it is asked with ")
    assert ("counts against max_tokens" in told[0]) == (settings[-1] is not None)
    model.close()


def test_requests_refused_together_take_one_step_together(server: GeminiServer) -> None:
    told: list[str] = []
    model = open_model(server, "gemini-2.5-pro", announce=told.append)

    def behave(connection: Any) -> None:
        at_once.wait(5)
        thinks = connection.asked.body["generationConfig"]["thinkingConfig"]["thinkingBudget"]
        (ok("Yes") if thinks else error(400, ALWAYS_THINKS))(connection)

    at_once = threading.Barrier(3)
    server.script = [behave]
    answers = model.generate(["a", "b", "c"])
    assert [got.text for got in answers] == ["Yes"] * 3
    budgets = [request.body["generationConfig"]["thinkingConfig"]["thinkingBudget"] for request in server.requests]
    assert budgets == [0, 0, 0, 128, 128, 128]
    assert len(told) == 1
    model.close()


def test_ladders_end_without_a_word_on_thinking() -> None:
    for name in ("gemini-2.5-pro", "gemini-3-pro", "models/gemini-4-flash", "tunedModels/mine", "gemma-3"):
        assert thinking_ladder(name).rungs[0] == {"thinking_budget": 0}
        assert thinking_ladder(name).rungs[-1] == {}
    assert {"thinking_level": "LOW"} in thinking_ladder("models/gemini-4-flash").rungs


def test_a_schema_that_is_refused_is_asked_for_less_firmly(server: GeminiServer) -> None:
    told: list[str] = []
    model = open_model(server, announce=told.append)
    refusals = [error(400, "response_json_schema: too many states"), error(400, "JSON mode is not enabled")]
    server.script = [*refusals, ok("up")]
    for _ in range(2):
        assert model.generate(["Where?"], answer_schema={"type": "object"})[0].text == "up"
    forms = [
        sorted(set(r.body["generationConfig"]) & {"responseMimeType", "responseJsonSchema"}) for r in server.requests
    ]
    assert forms == [["responseJsonSchema", "responseMimeType"], ["responseMimeType"], [], []]
    assert len(told) == 1
    assert "does not hold its answers to the schema (HTTP 400: JSON mode is not enabled)" in told[0]
    model.close()


def test_a_schema_whose_bounds_are_refused_is_asked_for_without_them(server: GeminiServer) -> None:
    told: list[str] = []
    model = open_model(server, announce=told.append)
    states = "The specified schema produces a constraint that has too many states for serving."
    server.script = [error(400, states), ok("up")]
    schema = {"type": "object", "properties": {"up": {"type": "number", "minimum": 0}}}
    for _ in range(2):
        assert model.generate(["Where?"], answer_schema=schema)[0].text == "up"
    sent = [request.body["generationConfig"]["responseJsonSchema"] for request in server.requests]
    shape = {"type": "object", "properties": {"up": {"type": "number"}}}
    assert sent == [schema, shape, shape]
    assert told == [
        f"{model.name} does not hold its answers to the schema (HTTP 400: {states}); it is asked with form=json_shape"
    ]
    model.close()


def test_a_refusal_that_comes_after_others_went_all_the_way_down_is_no_failure(
    model: GeminiModel, server: GeminiServer
) -> None:
    """Two are asked in the firmest form; one has been refused every form but the last before the other hears of it."""
    down = threading.Event()

    def behave(connection: Any) -> None:
        if "responseMimeType" not in connection.asked.body["generationConfig"]:
            down.set()
            ok("up")(connection)
            return
        if connection.asked.body["contents"][0]["parts"][0]["text"] == "late":
            down.wait(5)
        error(400, "no schema and no JSON mode")(connection)

    server.script = [behave]
    answers = model.generate(["late", "early"], answer_schema={"type": "object"})
    assert [got.text for got in answers] == ["up", "up"]


def test_log_probabilities_are_kept_where_they_do_not_go_together_with_a_form(
    model: GeminiModel, server: GeminiServer
) -> None:
    schema = {"type": "object"}
    refusal = error(400, "Logprobs cannot be used with controlled generation")
    got, requests = ask(model, server, refusal, refusal, echo, answer_schema=schema)
    assert (got.text, requests) == ("Hello", 3)
    assert got.logprobs is not None


def test_an_endpoint_that_refuses_everything_is_asked_a_few_times_only(
    model: GeminiModel, server: GeminiServer
) -> None:
    message = "logprobs, thinking and schema are refused"
    got, requests = ask(model, server, error(400, message), answer_schema={"type": "object"})
    assert got.failure == f"HTTP 400: {message}"
    assert (got.retries, requests) == (0, 6)


# Answers without text -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "failure"),
    [
        ({"promptFeedback": {"blockReason": "SAFETY"}}, "the prompt was blocked: SAFETY"),
        (
            {"promptFeedback": {"blockReason": "OTHER", "blockReasonMessage": "not\nthis"}, "candidates": []},
            "the prompt was blocked: OTHER not this",
        ),
        ({"candidates": [], "usageMetadata": {"totalTokenCount": 4}}, "no text: the answer holds no candidates"),
        ({}, "no text: the answer holds no candidates"),
        (reply(None, finish_reason="SAFETY"), "no text: finish_reason=SAFETY"),
        (
            reply(None, finish_reason="RECITATION", finishMessage="too close to a source"),
            "no text: finish_reason=RECITATION, too close to a source",
        ),
        (reply(None, finish_reason="MAX_TOKENS"), "no text: finish_reason=length"),
        (
            reply(None, finish_reason="MAX_TOKENS", usage={"thoughtsTokenCount": 61}),
            "no text: max_tokens was spent on 61 tokens of thinking; give more of them",
        ),
        (reply(parts=[{"text": "hm", "thought": True}]), "no text: finish_reason=stop"),
        (reply(None, finish_reason=None), "no text: finish_reason=None"),
    ],
)
def test_an_answer_without_text_has_its_reason(
    model: GeminiModel, server: GeminiServer, body: Any, failure: str
) -> None:
    got, requests = ask(model, server, answer(body))
    assert (got.text, got.failure, got.logprobs, requests) == (None, failure, None, 1)


def test_an_empty_text_is_a_text(model: GeminiModel, server: GeminiServer) -> None:
    got, _ = ask(model, server, ok("", {"chosenCandidates": []}))
    assert (got.text, got.failure) == ("", None)
    assert got.logprobs is not None
    assert len(got.logprobs) == 0


@pytest.mark.parametrize(
    "body",
    [
        [],
        '"text"',
        None,
        7,
        {"candidates": {}},
        {"candidates": ["text"]},
        {"candidates": [{"content": "text"}]},
        {"candidates": [{"content": {"parts": [{"text": 5}]}}]},
        {"candidates": [{"content": {"parts": [{"text": "half \ud83d a pair"}]}}]},
        {"promptFeedback": "no"},
    ],
)
def test_an_answer_of_another_shape_fails_alone(model: GeminiModel, server: GeminiServer, body: Any) -> None:
    server.by_prompt = {"bad": answer(body)}
    good, bad = model.generate(["good", "bad"])
    assert good.text == "good"
    assert bad.failure is not None
    assert bad.failure.startswith("unreadable answer: ")
    bad.failure.encode()


@pytest.mark.parametrize("finish", [5, {"a": 1}, "NEW_REASON", None, "x" * 10_000])
def test_an_end_that_nobody_knows(model: GeminiModel, server: GeminiServer, finish: Any) -> None:
    got, _ = ask(model, server, ok("Yes", finish_reason=finish), top_logprobs=None)
    assert got.text == "Yes"
    assert got.finish_reason is None or len(got.finish_reason) <= 300
    if finish == "NEW_REASON":
        assert got.finish_reason == finish


@pytest.mark.parametrize("usage", [None, "many", [], {"totalTokenCount": -3}, {"totalTokenCount": True}])
def test_a_count_that_cannot_be_true_is_none(model: GeminiModel, server: GeminiServer, usage: Any) -> None:
    got, _ = ask(model, server, answer({**reply("Yes"), "usageMetadata": usage}))
    assert got.text == "Yes"
    assert model.counters.tokens_run == 0


# Faults -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(error(408, "slow"), id="408"),
        pytest.param(error(429, "Resource has been exhausted", "RESOURCE_EXHAUSTED"), id="429"),
        pytest.param(error(500, "An internal error has occurred.", "INTERNAL"), id="500"),
        pytest.param(raw(b"<html>bad gateway</html>", 502, content_type="text/html"), id="502 as HTML"),
        pytest.param(error(503, "The model is overloaded.", "UNAVAILABLE"), id="503"),
        pytest.param(answer([{"error": {"code": 503, "message": "busy"}}], 503), id="503 in a list"),
        pytest.param(answer("[" * 100_000, 500), id="500 nested too deep"),
        pytest.param(raw(b'{"error": "\xff\xfe"}', 500), id="500 not UTF-8"),
        pytest.param(answer('"text"', 500), id="500 as a text"),
        pytest.param(answer({"error": "text"}, 500), id="500 with a plain error"),
        pytest.param(disconnect_mid_body(), id="disconnect mid-body"),
        pytest.param(hang_up(), id="disconnect before the answer"),
        pytest.param(answer(json.dumps(reply())[:60]), id="half a JSON"),
        pytest.param(raw(b""), id="empty body"),
        pytest.param(answer("[" * 100_000), id="nested too deep"),
        pytest.param(raw(b"<html>please log in</html>", content_type="text/html"), id="HTML instead of JSON"),
    ],
)
def test_a_fault_that_passes_is_asked_again_and_counted(
    model: GeminiModel, server: GeminiServer, fault: Behaviour
) -> None:
    got, requests = ask(model, server, fault, ok("Yes", logprobs_result(["Yes"], 5)))
    assert (got.text, got.failure, got.logprobs_missing) == ("Yes", None, None)
    assert (got.retries, requests) == (1, 2), "the SDK's own retries are off"


@pytest.mark.parametrize(
    ("fault", "failure"),
    [
        (error(500, "oops"), "HTTP 500: oops, 3 attempts"),
        (raw(b"", 500), "HTTP 500: no explanation, 3 attempts"),
        (error(429, "too  \n fast"), "HTTP 429: too fast, 3 attempts"),
        (answer('{"candidates": [{'), 'the answer is not JSON; it begins «{"candidates": [{», 3 attempts'),
    ],
)
def test_retries_are_bounded_and_the_last_fault_is_the_reason(
    model: GeminiModel, server: GeminiServer, fault: Behaviour, failure: str
) -> None:
    got, requests = ask(model, server, fault)
    assert (got.text, got.failure, got.retries, requests) == (None, failure, RETRIES, RETRIES + 1)


@pytest.mark.parametrize(
    ("details", "headers"),
    [
        ([retry_info("0.2s")], {}),
        ([quota_failure("RequestsPerMinute"), retry_info("0.2s")], {"retry_after": "30"}),
        ([], {"retry_after": "0.2"}),
        ([retry_info("soon"), "no detail"], {"retry_after": "0.2"}),
    ],
)
def test_the_wait_that_is_asked_for_is_kept(
    model: GeminiModel, server: GeminiServer, details: list[Any], headers: dict[str, str]
) -> None:
    got, _ = ask(model, server, error(429, "slowly", "RESOURCE_EXHAUSTED", *details, **headers), ok("Yes"))
    first, second = (request.at_s for request in server.requests)
    assert got.retries == 1
    assert 0.2 <= second - first < 2


@pytest.mark.parametrize("status", [400, 413, 422, 302])
def test_a_fault_that_stays_fails_that_conversation_at_once(
    model: GeminiModel, server: GeminiServer, status: int
) -> None:
    server.by_prompt = {"bad": error(status, "no")}
    good, bad = model.generate(["good", "bad"])
    assert good.text == "good"
    assert (bad.failure, bad.retries) == (f"HTTP {status}: no", 0)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (error(401, "who are you"), "refuses the key (HTTP 401: who are you); set GOOGLE_API_KEY or GEMINI_API_KEY"),
        (error(403, "not yours"), "does not let this account use 'gemini-2.5-flash' (HTTP 403: not yours)"),
        (error(404, "not found"), "has no model 'gemini-2.5-flash' (HTTP 404: not found); check its name"),
        (
            error(400, "API key not valid.", "INVALID_ARGUMENT", error_info("API_KEY_INVALID")),
            "refuses the key (HTTP 400: API key not valid.)",
        ),
        (
            error(400, "User location is not supported for the API use.", "FAILED_PRECONDITION"),
            "does not let this account use 'gemini-2.5-flash' (HTTP 400: User location",
        ),
        (
            error(429, "spent", "RESOURCE_EXHAUSTED", quota_failure("GenerateRequestsPerDayPerProject")),
            "no quota left for today",
        ),
    ],
)
def test_what_every_call_would_meet_raises_at_once(
    model: GeminiModel, server: GeminiServer, fault: Behaviour, words: str
) -> None:
    server.script = [fault]
    with pytest.raises(ServerError) as caught:
        model.generate(["one"])
    assert words in str(caught.value)
    assert server.base_url in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(server.requests) == 1


def test_nobody_listening_raises_in_one_sentence() -> None:
    model = GeminiModel("m", base_url=f"http://127.0.0.1:{closed_port()}", max_retries=1, backoff_s=0.001)
    with pytest.raises(
        ServerError, match=r"no server answers at http://127.0.0.1:\d+ \(the connection failed: .*2 att"
    ):
        model.generate(["one", "two"])
    model.close()


def test_a_connection_is_not_waited_for_as_long_as_an_answer(
    server: GeminiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    import httpx2

    waits: list[dict[str, float]] = []

    async def nobody_there(_: Any, request: Any) -> Any:
        waits.append(request.extensions["timeout"])
        raise httpx2.ConnectTimeout("nobody there", request=request)

    monkeypatch.setattr(httpx2.AsyncHTTPTransport, "handle_async_request", nobody_there)
    model = open_model(server, timeout_s=50)
    with pytest.raises(ServerError, match="no server answers at"):
        model.generate(["Hello"])
    assert waits == [{"connect": 10, "read": 50, "write": 50, "pool": 50}] * (RETRIES + 1)
    model.close()


def test_a_server_that_never_answers_is_bounded(server: GeminiServer) -> None:
    model = open_model(server, timeout_s=0.15, max_retries=1)
    for behaviour in (silent(), drip()):
        server.script = [behaviour]
        (got,) = model.generate(["Hello"])
        assert got.failure == "no answer within 0.15 s, 2 attempts"
    model.close()


def test_an_answer_that_is_too_large_or_compressed_is_not_read(server: GeminiServer) -> None:
    model = open_model(server, max_answer_bytes=1000)
    for behaviour in (ok("x" * 2000), endless()):
        server.script = [behaviour]
        assert model.generate(["Hello"])[0].failure == "the answer is larger than 1000 bytes"
    server.script = [raw(b"\x1f\x8b", content_encoding="gzip")]
    assert model.generate(["Hello"])[0].failure == "the answer is compressed, though an uncompressed one was asked for"
    model.close()


# Together, and inside of other things ---------------------------------------------------------------------------


def test_answers_come_in_order_and_are_asked_together(model: GeminiModel, server: GeminiServer) -> None:
    server.by_prompt = {f"q{i}": delayed(0.25 - 0.05 * i, ok(f"a{i}")) for i in range(4)}
    model.generate(["warm"])
    started = time.monotonic()
    answers = model.generate([f"q{i}" for i in range(4)])
    assert [got.text for got in answers] == ["a0", "a1", "a2", "a3"]
    assert time.monotonic() - started < 0.5, "one after the other they take 0.7 s"


def test_no_more_than_the_concurrency_at_once(server: GeminiServer) -> None:
    model = open_model(server, concurrency=2)
    running, most, lock = 0, 0, threading.Lock()

    def behave(connection: Any) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.02)
        with lock:
            running -= 1
        ok("Yes")(connection)

    server.script = [behave]
    assert len(model.generate([f"q{i}" for i in range(7)])) == 7
    assert most == 2
    model.close()


def test_connections_are_used_again_by_the_next_call(model: GeminiModel, server: GeminiServer) -> None:
    for _ in range(4):
        model.generate(["one", "two", "three"])
    assert len(server.ports) == 12
    assert len(set(server.ports)) <= 4
    model.close()
    model.close()
    assert model.generate(["again"])[0].text == "again", "a closed one opens anew"


def test_it_works_inside_a_running_event_loop_and_from_several_threads(model: GeminiModel) -> None:
    async def notebook() -> list[Answer]:
        return model.generate(["one", "two"])

    assert [got.text for got in asyncio.run(notebook())] == ["one", "two"]
    found: dict[int, str | None] = {}
    threads = [
        threading.Thread(target=lambda i=i: found.update({i: model.generate([f"t{i}"])[0].text})) for i in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {i: f"t{i}" for i in range(4)}


def test_a_model_that_is_dropped_gives_everything_back(server: GeminiServer) -> None:
    before = threading.active_count()
    model = open_model(server)
    model.generate(["one"])
    assert [thread.name for thread in threading.enumerate()].count("howsure-gemini") == 1
    del model
    gc.collect()
    assert "howsure-gemini" not in [thread.name for thread in threading.enumerate()]
    assert threading.active_count() <= before + 1, "the server's own thread of the connection may still end"


def test_an_interrupted_call_stops_its_requests(
    model: GeminiModel, server: GeminiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.generate(["warm"])
    running: list[Any] = []

    class Interrupted:
        """What a caller waits for who presses Ctrl-C after a while."""

        def __init__(self, future: Any) -> None:
            running.append(future)
            self.cancel = future.cancel

        def result(self) -> None:
            time.sleep(0.1)
            raise KeyboardInterrupt

    start = asyncio.run_coroutine_threadsafe
    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", lambda *given: Interrupted(start(*given)))
    server.script = [silent()]
    with pytest.raises(KeyboardInterrupt):
        model.generate(["Hello"])
    monkeypatch.undo()
    assert running[0].cancelled()
    server.script = [echo]
    assert model.generate(["after"])[0].text == "after"


def test_a_model_that_is_collected_in_its_own_thread_does_not_wait_for_itself(server: GeminiServer) -> None:
    async def collect() -> None:
        gc.collect()

    model = open_model(server)
    model.generate(["one"])
    loop_thread = model._client._thread
    model.itself = model  # so that only the collector finds it
    del model
    loop_thread.submit(collect())
    loop_thread._thread.join(5)
    assert not loop_thread.lives


def test_a_call_whose_model_is_closed_ends_in_one_sentence(model: GeminiModel, server: GeminiServer) -> None:
    server.script = [silent()]
    caught: list[HowsureError] = []

    def call() -> None:
        try:
            model.generate(["a", "b"])
        except HowsureError as error:
            caught.append(error)

    asking = threading.Thread(target=call)
    asking.start()
    while len(server.requests) < 2:
        time.sleep(0.001)
    model.close()
    asking.join(5)
    assert not asking.is_alive()
    assert [(type(one), str(one)) for one in caught] == [
        (ModelError, "'gemini-2.5-flash' was closed while it was asked")
    ]
    server.script = [echo]
    assert model.generate(["again"])[0].text == "again"


def test_a_fork_asks_over_connections_of_its_own(model: GeminiModel, server: GeminiServer) -> None:
    assert model.generate(["parent"])[0].text == "parent"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        signal.alarm(10)
        os._exit(0 if model.generate(["child"])[0].text == "child" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert model.generate(["parent"])[0].text == "parent"
    assert len(set(server.ports)) == 2


def test_a_process_ends_by_itself_where_nobody_closed_the_model(server: GeminiServer) -> None:
    program = (
        "from howsure.models.servers.gemini import GeminiModel\n"
        f"model = GeminiModel('m', base_url={server.base_url!r})\n"
        "print(model.generate(['Hello'])[0].text)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "Hello\n", "")


def test_no_conversations_need_no_endpoint() -> None:
    assert GeminiModel("m").generate([]) == []


def test_the_first_hopeless_fault_stops_the_others(model: GeminiModel, server: GeminiServer) -> None:
    server.by_prompt = {"q0": error(401, "no")}
    server.delay_s = 0.3
    with pytest.raises(ServerError, match="refuses the key"):
        model.generate([f"q{i}" for i in range(20)])
    assert len(server.requests) <= model.concurrency + 1
    server.by_prompt, server.delay_s = {}, 0
    assert model.generate(["after"])[0].text == "after"


# Whose account ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variable", ["GOOGLE_API_KEY", "GEMINI_API_KEY"])
def test_the_key_comes_from_the_environment_and_is_sent_in_a_header(
    model: GeminiModel, server: GeminiServer, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, f" {KEY}\n")
    model.generate(["Hello"])
    assert server.requests[0].headers["x-goog-api-key"] == KEY
    assert KEY not in server.requests[0].path


def test_another_key_in_the_environment_is_the_one_that_is_used(
    model: GeminiModel, server: GeminiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("first-key", "second-key"):
        monkeypatch.setenv("GOOGLE_API_KEY", key)
        model.generate(["Hello"])
    assert [request.headers["x-goog-api-key"] for request in server.requests] == ["first-key", "second-key"]


def test_no_key_is_one_sentence_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelError, match="needs a key: set GOOGLE_API_KEY or GEMINI_API_KEY, or for Vertex AI set"):
        howsure.load("gemini:gemini-2.5-flash")
    with pytest.raises(ModelError, match="needs a key"):
        GeminiModel("m", base_url="http://example.com").generate(["Hello"])
    with pytest.raises(ModelError, match="needs a key"):
        GeminiModel("m", base_url="http://127.0.0.1.example.com").load()
    monkeypatch.setenv("GEMINI_API_KEY", "schlüssel")
    with pytest.raises(ModelError, match="GEMINI_API_KEY holds characters that no key has"):
        GeminiModel("m").load()
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    monkeypatch.delenv("GEMINI_API_KEY")
    with pytest.raises(ModelError, match="set GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION, or a key in GOOGLE_API"):
        GeminiModel("m").load()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "127.8.8.8"])
def test_this_machine_needs_no_key(host: str) -> None:
    model = GeminiModel("m", base_url=f"http://{host}:1")
    model.load()  # which raises where there is no key, as the tests above show
    assert model.fingerprint()["base_url"] == f"http://{host}:1"


@pytest.mark.parametrize(
    "behaviour",
    [
        error(400, f"bad key {KEY}"),
        error(401, f"bad key {KEY}"),
        error(403, f"bad key {KEY}"),
        error(404, f"bad key {KEY}"),
        error(500, f"bad key {KEY}"),
        raw(f"<html>{KEY}</html>".encode(), 502),
        raw(f"<html>{KEY}</html>".encode()),
        answer({"candidates": [], "promptFeedback": {"blockReason": KEY}}),
        answer(reply(None, finish_reason=KEY)),
        answer(reply("Yes", {"chosenCandidates": [{"token": 5, KEY: KEY}]})),
        error(400, f"Logprobs is not enabled for {KEY}"),
        error(400, f"thinking {KEY}"),
        answer({"candidates": KEY, "error": {"message": KEY}}),
        error(429, f"{KEY} ya29.a0AfH6SMBxyz-token_of_an_account", "X", retry_info("0.001s")),
    ],
)
def test_the_key_is_in_no_message(
    server: GeminiServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, behaviour: Behaviour
) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    told: list[str] = []
    model = open_model(server, announce=told.append)
    server.script = [behaviour]
    try:
        shown = repr(model.generate(["Hello"]))
    except HowsureError as caught:
        shown = repr(caught)
    shown += repr((model, model.__dict__, vars(model._client), model.fingerprint(), model.name, told, caplog.text))
    assert KEY not in shown
    assert "ya29" not in shown
    model.close()


def test_a_key_is_cut_out_as_it_stands_in_an_address_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "se+cret/key")
    endpoint = GeminiModel("m")._endpoint
    assert endpoint.tidy("at ?key=se%2Bcret%2Fkey or se+cret/key") == "at ?key=*** or ***"


def test_secrets_of_a_base_url_are_sent_and_not_shown(server: GeminiServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    model = GeminiModel("m", base_url=f"http://me:hush-hush@127.0.0.1:{server.port}/gate?token=sesame")
    assert model.generate(["Hello"])[0].text == "Hello"
    (request,) = server.requests
    assert request.path == "/gate/v1/models/m:generateContent?token=sesame"
    assert request.headers["authorization"] == "Basic " + base64.b64encode(b"me:hush-hush").decode()
    assert model.fingerprint() == {
        "backend": "gemini",
        "model": "m",
        "endpoint": "developer",
        "base_url": f"http://***@127.0.0.1:{server.port}/gate?token=***",
    }
    shown = repr((model, vars(model._client), caplog.text))
    assert "hush" not in shown
    assert "sesame" not in shown
    model.close()


def test_vertex_with_a_project_and_credentials(server: GeminiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    import google.auth
    from google.oauth2.credentials import Credentials

    monkeypatch.setattr(google.auth, "default", lambda **_: (Credentials("a-token"), None))
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "my-project")
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "europe-west4")
    monkeypatch.setenv("GOOGLE_API_KEY", KEY)
    model = open_model(server)
    model.load()
    (got,) = model.generate([[Message("system", "Be brief."), Message("user", "Hello")]], top_logprobs=2)
    assert got.logprobs is not None
    (request,) = server.requests
    assert request.path == (
        "/v1beta1/projects/my-project/locations/europe-west4/publishers/google/models/gemini-2.5-flash:generateContent"
    )
    assert request.headers["authorization"] == "Bearer a-token"
    assert "x-goog-api-key" not in request.headers
    assert request.body["generationConfig"]["logprobs"] == 2
    assert request.body["generationConfig"]["thinkingConfig"] == {"thinkingBudget": 0}
    assert model.fingerprint()["endpoint"] == "vertex"
    server.script = [error(401, "expired")]
    with pytest.raises(ServerError, match="does not know who asks .*gcloud auth application-default login"):
        model.generate(["Hello"])
    model.close()


def test_vertex_without_credentials_or_with_a_key(server: GeminiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    import google.auth
    from google.auth.exceptions import DefaultCredentialsError

    def none(**_: Any) -> Any:
        raise DefaultCredentialsError("Your default credentials were not found.")

    monkeypatch.setattr(google.auth, "default", none)
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "1")
    monkeypatch.setenv("GOOGLE_API_KEY", KEY)
    with_key = open_model(server)
    assert with_key.generate(["Hello"])[0].text == "Hello"
    assert server.requests[0].path == "/v1beta1/publishers/google/models/gemini-2.5-flash:generateContent"
    assert server.requests[0].headers["x-goog-api-key"] == KEY
    with_key.close()
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "my-project")
    without = open_model(server)
    with pytest.raises(ServerError, match="no credentials of Google Cloud: Your default credentials were not found"):
        without.generate(["Hello"])
    without.close()


@pytest.mark.parametrize(
    ("variables", "kind", "shown"),
    [
        ({}, "developer", "https://generativelanguage.googleapis.com"),
        ({"GOOGLE_GEMINI_BASE_URL": "http://gate:80/"}, "developer", "http://gate:80"),
        ({"GOOGLE_GENAI_USE_VERTEXAI": "True"}, "vertex", "https://aiplatform.googleapis.com"),
        (
            {"GOOGLE_GENAI_USE_VERTEXAI": "1", "GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "us-central1"},
            "vertex",
            "https://us-central1-aiplatform.googleapis.com",
        ),
        (
            {"GOOGLE_GENAI_USE_ENTERPRISE": "1", "GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "eu"},
            "vertex",
            "https://aiplatform.eu.rep.googleapis.com",
        ),
        ({"GOOGLE_GENAI_USE_ENTERPRISE": "no", "GOOGLE_GENAI_USE_VERTEXAI": "true"}, "developer", None),
        ({"GOOGLE_GENAI_USE_VERTEXAI": "false", "GOOGLE_CLOUD_PROJECT": "p"}, "developer", None),
    ],
)
def test_the_endpoint_is_the_one_that_the_sdk_would_take(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], kind: str, shown: str | None
) -> None:
    from google import genai

    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    model = GeminiModel("m")
    assert model.fingerprint()["endpoint"] == kind
    if shown is not None:
        assert model.fingerprint()["base_url"] == shown
    monkeypatch.setenv("GOOGLE_API_KEY", KEY)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of variables that disagree
        sdk = genai.Client()
    assert ("vertex" if sdk.vertexai else "developer") == kind
    assert str(sdk._api_client._http_options.base_url).rstrip("/") == model.base_url
    sdk.close()


# Nonsense, and what it costs ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("conversation", "words"),
    [
        ([Message("tool", "x")], "Gemini knows the roles system, user and assistant, not 'tool'"),
        ([Message("system", "x")], "a conversation needs one beside its system message"),
        ([Message("system", "x", (Picture("p", 1, 1, "", b""),)), Message("user", "y")], "images into a user message"),
    ],
)
def test_a_conversation_that_gemini_has_no_form_for(model: GeminiModel, conversation: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        model.generate([conversation])


@pytest.mark.parametrize(
    "options",
    [
        {"top_logprobs": 21},
        {"top_logprobs": -1},
        {"temperature": -0.1},
        {"temperature": math.nan},
        {"max_tokens": 0},
        {"seed": 2**31},
        {"answer_schema": ["object"]},
        {"answer_schema": {"type": object}},
        {"answer_schema": {"minimum": math.nan}},
    ],
)
def test_options_that_cannot_be(model: GeminiModel, server: GeminiServer, options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        model.generate(["Hello"], **options)
    assert server.requests == []


@pytest.mark.parametrize("name", ["", " ", "../secrets", "m?key=1", "m&x", "m#x", "a b", "a\nb", "{model}"])
def test_names_that_cannot_be(name: str) -> None:
    with pytest.raises(InputError, match="gemini-2.5-flash"):
        GeminiModel(name)


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency": 0},
        {"max_retries": -1},
        {"timeout_s": 0},
        {"timeout_s": math.inf},
        {"backoff_s": -1},
        {"max_answer_bytes": 0},
        {"base_url": "ftp://x"},
        {"base_url": "http://host:port"},
    ],
)
def test_settings_that_cannot_be(options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        GeminiModel("m", **options)


def test_half_a_surrogate_pair_in_a_prompt_fails_alone(model: GeminiModel, server: GeminiServer) -> None:
    good, bad = model.generate(["good 😀", "half \ud83d"])
    assert good.text == "good 😀"
    assert bad == Answer(None, failure="a message holds half a surrogate pair, at character 5")
    assert len(server.requests) == 1


def test_the_registry_opens_it_and_names_what_is_missing(server: GeminiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    model = howsure.load("gemini:gemini-2.5-pro", base_url=server.base_url, concurrency=3, announce=told.append)
    assert isinstance(model, GeminiModel)
    assert (model.name, model.concurrency) == ("gemini:gemini-2.5-pro", 3)
    server.script = [error(400, ALWAYS_THINKS), echo]
    model.generate(["Hello"])
    assert len(told) == 1
    model.close()

    def absent(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(registry, "find_spec", absent)
    with pytest.raises(MissingExtra, match=r"howsure\[gemini\]"):
        howsure.load("gemini:m")


def test_the_sdk_is_imported_when_it_is_needed_and_not_before() -> None:
    code = (
        "import sys, howsure; from howsure.models.servers.gemini import GeminiModel; "
        "m = GeminiModel('m'); m.fingerprint();"
        "print([n for n in sys.modules if n.startswith(('google.genai', 'httpx2', 'openai'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
