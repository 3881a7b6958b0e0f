"""Scoring by a server that misbehaves on purpose: what is wrong fails its item with a reason, never with a number."""

from __future__ import annotations

import copy
import socket
from collections.abc import Callable
from typing import Any

import pytest

from howsure.errors import InputError, MissingCapability, ModelError, ServerError
from howsure.evidence import TokenLogprobs
from howsure.models.contract import Capability, Failure, ScoreItem
from howsure.models.servers.openai import OpenAIServer
from howsure.models.servers.scoring import PROBE

from .misbehaving_server import (
    Behaviour,
    MisbehavingServer,
    answer,
    delayed,
    disconnect_mid_body,
    endless,
    error,
    raw,
    silent,
)

RETRIES = 2
ITEM = ScoreItem("The sky is", (" blue", " red"))
TOKENS = {"The sky is blue": ["The", " sky", " is", " blue"], "The sky is red": ["The", " sky", " is", " red"]}
IDS = {"The": 1, " sky": 2, " is": 3, " blue": 4, " red": 5}
VALUES = {" sky": -4.0, " is": -1.5, " blue": -3.0, " red": -6.0}
PROBE_TOKENS = PROBE.replace(" ", "| ").split("|")

Body = dict[str, Any]


def vllm(tokens: list[str], ids: bool = True) -> Body:
    """vLLM's answer; the likeliest token is listed first, and is none of the prompt's."""
    rows: list[Any] = [None]
    for token in tokens[1:]:
        own = {"logprob": VALUES.get(token, -2.0), "rank": 7, "decoded_token": token}
        rows.append({"99": {"logprob": -0.1, "rank": 1, "decoded_token": " like"}, str(IDS.get(token, 6)): own})
    choice: Body = {"text": "", "prompt_logprobs": rows}
    if ids:
        choice["prompt_token_ids"] = [IDS.get(token, 6) for token in tokens]
    return {"choices": [choice], "usage": {"total_tokens": 5}}


def own_only(tokens: list[str]) -> Body:
    """An answer of an older vLLM that was asked for no alternatives: one token at each position, and no ids."""
    body = vllm(tokens, ids=False)
    for row in body["choices"][0]["prompt_logprobs"][1:]:
        del row["99"]
    return body


def echo(tokens: list[str]) -> Body:
    columns = {
        "tokens": [*tokens, "!"],
        "token_logprobs": [None, *(VALUES.get(token, -2.0) for token in tokens[1:]), -0.5],
        "top_logprobs": [None, *({token: -2.0, " like": -0.1} for token in tokens[1:]), {"!": -0.5}],
        "text_offset": [-1] * (len(tokens) + 1),
    }
    return {"choices": [{"text": "…", "logprobs": columns}], "usage": {"total_tokens": 5}}


FORMS: dict[str, Callable[[list[str]], Body]] = {"prompt_logprobs": vllm, "without ids": own_only, "echo": echo}


@pytest.fixture
def model(misbehaving: MisbehavingServer) -> OpenAIServer:
    return OpenAIServer(
        "m", base_url=misbehaving.base_url, max_retries=RETRIES, backoff_s=0.005, timeout_s=5, concurrency=2
    )


def serve(server: MisbehavingServer, form: str, **instead: Behaviour) -> None:
    """Answer the probe and both texts in one form; `blue` and `red` may be answered otherwise."""
    make = FORMS[form]
    by_text = {text: answer(make(tokens)) for text, tokens in TOKENS.items()}
    by_text |= {f"The sky is {word}": behaviour for word, behaviour in instead.items()}
    server.by_prompt = {PROBE: answer(make(PROBE_TOKENS)), **by_text}


def only(found: list[list[TokenLogprobs] | Failure]) -> Any:
    assert len(found) == 1
    return found[0]


# The own token ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_the_own_token_is_taken_though_another_is_likelier(
    model: OpenAIServer, misbehaving: MisbehavingServer, form: str
) -> None:
    serve(misbehaving, form)
    blue, red = only(model.try_score([ITEM]))
    assert (blue.tokens, blue.logprobs.tolist()) == ((" blue",), [-3.0])
    assert (red.tokens, red.logprobs.tolist()) == ((" red",), [-6.0])
    assert (blue.top, blue.prefix_chars) == (None, 0)
    assert model.counters.tokens_run > 0


def test_alternatives_come_without_the_own_token_where_it_is_not_among_them(
    model: OpenAIServer, misbehaving: MisbehavingServer
) -> None:
    serve(misbehaving, "prompt_logprobs")
    blue, _ = only(model.try_score([ITEM], top_logprobs=1))
    assert blue.top.row(0) == [(" like", -0.1)]
    assert blue.logprobs.tolist() == [-3.0]


def test_without_token_ids_the_own_tokens_are_asked_for_alone(
    model: OpenAIServer, misbehaving: MisbehavingServer
) -> None:
    serve(misbehaving, "without ids")
    misbehaving.by_prompt["The sky is blue"] = by_width(
        own_only(TOKENS["The sky is blue"]), vllm(TOKENS["The sky is blue"], ids=False)
    )
    found = only(model.try_score([ScoreItem("The sky is", (" blue",))], top_logprobs=1))[0]
    assert (found.logprobs.tolist(), found.top.row(0)) == ([-3.0], [(" like", -0.1)])
    assert [request.body["prompt_logprobs"] for request in misbehaving.requests] == [0, 0, 1]


def by_width(*bodies: Body) -> Behaviour:
    waiting = list(bodies)
    return lambda connection: answer(waiting.pop(0))(connection)


def test_what_is_sent(model: OpenAIServer, misbehaving: MisbehavingServer) -> None:
    serve(misbehaving, "prompt_logprobs")
    model.try_score([ScoreItem("The sky is", (" blue",))], top_logprobs=3)
    assert misbehaving.requests[-1].path == "/v1/completions"
    assert misbehaving.requests[-1].body == {
        "model": "m",
        "prompt": "The sky is blue",
        "max_tokens": 1,
        "temperature": 0,
        "prompt_logprobs": 3,
        "return_token_ids": True,
        "echo": True,
        "logprobs": 0,
    }


@pytest.mark.parametrize("width", [-1, 21])
def test_too_many_alternatives_are_refused_before_any_call(model: OpenAIServer, width: int) -> None:
    with pytest.raises(InputError, match="top_logprobs must be 0 to 20"):
        model.try_score([ITEM], top_logprobs=width)
    assert model.counters.calls == 0


# Broken answers ---------------------------------------------------------------------------------------------


def changed(body: Body, change: Callable[[Any], object]) -> Behaviour:
    body = copy.deepcopy(body)
    change(body["choices"][0])
    return answer(body)


BLUE = vllm(TOKENS["The sky is blue"])
ECHO = echo(TOKENS["The sky is blue"])


def rows(choice: Any) -> Any:
    return choice["prompt_logprobs"]


def columns(choice: Any) -> Any:
    return choice["logprobs"]


@pytest.mark.parametrize(
    ("behaviour", "reason", "words"),
    [
        (changed(BLUE, lambda c: c.pop("prompt_logprobs")), "bad_logprobs", "missing required field"),
        (changed(BLUE, lambda c: c.update(prompt_logprobs=None)), "bad_logprobs", "got `null`"),
        (changed(BLUE, lambda c: rows(c).pop()), "bad_logprobs", "3 positions for 4 prompt_token_ids"),
        (changed(BLUE, lambda c: c["prompt_token_ids"].append(6)), "bad_logprobs", "4 positions for 5"),
        (changed(BLUE, lambda c: c.update(prompt_token_ids=[1, 2, 3, 77])), "bad_logprobs", "own token 77"),
        (changed(BLUE, lambda c: c.update(prompt_token_ids=["4"] * 4)), "bad_logprobs", "Expected `int`"),
        (changed(BLUE, lambda c: c.pop("prompt_token_ids")), "bad_logprobs", "holds 2 tokens without telling which"),
        (changed(BLUE, lambda c: rows(c)[3]["4"].update(logprob=float("nan"))), "bad_logprobs", "NaN at token 0"),
        (changed(BLUE, lambda c: rows(c)[3]["4"].update(logprob=0.5)), "bad_logprobs", "0.5 at token 0"),
        (changed(BLUE, lambda c: rows(c)[3]["4"].update(logprob="-3")), "bad_logprobs", "Expected `float`"),
        (changed(BLUE, lambda c: rows(c)[3]["4"].update(logprob=None)), "bad_logprobs", "Expected `float`"),
        (changed(BLUE, lambda c: rows(c)[3]["4"].update(decoded_token=3)), "bad_logprobs", "Expected `str"),
        (changed(BLUE, lambda c: rows(c)[3]["4"].update(decoded_token="\ud800")), "bad_logprobs", "surrogates"),
        (changed(BLUE, lambda c: rows(c).__setitem__(3, None)), "not_aligned", "do not spell the text"),
        (changed(BLUE, lambda c: rows(c)[3]["4"].update(decoded_token=" green")), "not_aligned", "' green'"),
        (answer({"choices": []}), "bad_logprobs", "length >= 1"),
        (answer({"error": {"message": "upstream died"}}), "bad_logprobs", "upstream died"),
        (answer([]), "bad_logprobs", "got `array`"),
        (answer("7"), "bad_logprobs", "got `int`"),
        (error(400, "too long"), "server_failed", "HTTP 400: too long"),
        (error(500, "oops"), "server_failed", "HTTP 500: oops, 3 attempts"),
        (disconnect_mid_body(), "server_failed", "the connection failed"),
        (raw(b"<html>"), "server_failed", "an HTML page"),
    ],
)
def test_broken_prompt_logprobs_fail_that_item_alone(
    model: OpenAIServer, misbehaving: MisbehavingServer, behaviour: Behaviour, reason: str, words: str
) -> None:
    serve(misbehaving, "prompt_logprobs", blue=behaviour)
    failed, good = model.try_score([ITEM, ScoreItem("The sky is", (" red",))])
    assert failed.reason == reason
    assert words in failed.detail
    assert "\n" not in failed.detail
    assert good[0].logprobs.tolist() == [-6.0]


@pytest.mark.parametrize(
    ("behaviour", "reason", "words"),
    [
        (changed(ECHO, lambda c: c.update(logprobs=None)), "bad_logprobs", "got `null`"),
        (changed(ECHO, lambda c: columns(c)["token_logprobs"].pop()), "bad_logprobs", "differ in length: 5 tokens, 4"),
        (changed(ECHO, lambda c: columns(c)["tokens"].pop(1)), "bad_logprobs", "differ in length: 4 tokens, 5"),
        (
            changed(ECHO, lambda c: columns(c)["token_logprobs"].__setitem__(3, None)),
            "bad_logprobs",
            "for token 3 of 4",
        ),
        (changed(ECHO, lambda c: columns(c)["token_logprobs"].__setitem__(3, 1.0)), "bad_logprobs", "1 at token 0"),
        (changed(ECHO, lambda c: columns(c)["tokens"].__setitem__(3, " green")), "not_aligned", "do not spell"),
        (changed(ECHO, lambda c: columns(c)["tokens"].__setitem__(3, None)), "bad_logprobs", "Expected `str`"),
        (changed(ECHO, lambda c: columns(c).update(tokens=["token_id:7"] * 5)), "not_aligned", "'token_id:7'"),
        (changed(ECHO, lambda c: columns(c).update(tokens=[], token_logprobs=[])), "not_aligned", "do not spell"),
    ],
)
def test_broken_echoes_fail_that_item_alone(
    model: OpenAIServer, misbehaving: MisbehavingServer, behaviour: Behaviour, reason: str, words: str
) -> None:
    serve(misbehaving, "echo", blue=behaviour)
    failed, good = model.try_score([ITEM, ScoreItem("The sky is", (" red",))])
    assert failed.reason == reason
    assert words in failed.detail
    assert good[0].logprobs.tolist() == [-6.0]


def test_names_that_are_more_than_the_tokens_settle_nothing(
    model: OpenAIServer, misbehaving: MisbehavingServer
) -> None:
    strange = changed(BLUE, lambda c: rows(c)[3]["4"].update(decoded_token=" green"))
    names = answer({"tokens": [1, 2, 3, 4], "token_strs": ["The", "Ġsky", "Ġis", "Ġbl", "ue"]})

    def by_path(connection: Any) -> None:
        (names if connection.path.endswith("/tokenize") else strange)(connection)

    serve(misbehaving, "prompt_logprobs", blue=by_path)
    assert only(model.try_score([ITEM])).reason == "not_aligned"


def test_missing_before_the_boundary_matters_to_nobody(model: OpenAIServer, misbehaving: MisbehavingServer) -> None:
    hole = changed(ECHO, lambda c: columns(c)["token_logprobs"].__setitem__(1, None))
    serve(misbehaving, "echo", blue=hole)
    assert only(model.try_score([ITEM]))[0].logprobs.tolist() == [-3.0]


@pytest.mark.parametrize("offsets", [None, [0, 3, 7, 10, 15], [9, 9, 9, 9, 9], [0], "none"])
def test_the_texts_decide_and_not_the_offsets(
    model: OpenAIServer, misbehaving: MisbehavingServer, offsets: object
) -> None:
    serve(misbehaving, "echo", blue=changed(ECHO, lambda c: columns(c).update(text_offset=offsets)))
    assert only(model.try_score([ITEM]))[0].logprobs.tolist() == [-3.0]


def test_an_echo_without_a_new_token_is_read_too(model: OpenAIServer, misbehaving: MisbehavingServer) -> None:
    def cut(choice: Any) -> None:
        for column in columns(choice).values():
            column.pop()

    serve(misbehaving, "echo", blue=changed(ECHO, cut))
    assert only(model.try_score([ITEM]))[0].logprobs.tolist() == [-3.0]


@pytest.mark.parametrize("value", [-9999.0, -12345.0, float("-inf")])
def test_probability_zero_is_kept_as_such(model: OpenAIServer, misbehaving: MisbehavingServer, value: float) -> None:
    zero = changed(BLUE, lambda c: rows(c)[3]["4"].update(logprob=value))
    serve(misbehaving, "prompt_logprobs", blue=zero)
    assert only(model.try_score([ITEM]))[0].logprobs.tolist() == [float("-inf")]


def test_alternatives_that_cannot_be_are_no_evidence(model: OpenAIServer, misbehaving: MisbehavingServer) -> None:
    serve(misbehaving, "prompt_logprobs", blue=changed(BLUE, lambda c: rows(c)[3]["99"].update(logprob=2.0)))
    assert only(model.try_score([ITEM], top_logprobs=2)).reason == "bad_logprobs"
    assert only(model.try_score([ITEM]))[0].logprobs.tolist() == [-3.0]


def test_a_key_that_a_server_echoes_is_cut_out(
    model: OpenAIServer, misbehaving: MisbehavingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "sk-a-key-that-nobody-may-see-0123456789"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    shown = changed(BLUE, lambda c: rows(c)[3]["4"].update(decoded_token=key))
    serve(misbehaving, "prompt_logprobs", blue=shown, red=error(400, f"no {key}"))
    found = model.try_score([ITEM, ScoreItem("The sky is", (" red",))])
    assert [one.reason for one in found] == ["key_in_answer", "server_failed"]
    assert key not in repr(found) + repr(vars(model))
    assert all(request.headers["authorization"] == f"Bearer {key}" for request in misbehaving.requests)


# Faults -----------------------------------------------------------------------------------------------------


def test_a_fault_that_passes_is_asked_again(model: OpenAIServer, misbehaving: MisbehavingServer) -> None:
    first = [error(503, "busy"), answer(BLUE)]
    serve(misbehaving, "prompt_logprobs", blue=lambda connection: first.pop(0)(connection))
    assert only(model.try_score([ITEM]))[0].logprobs.tolist() == [-3.0]
    assert model.counters.calls == 4


def test_no_answer_in_time_fails_the_item(misbehaving: MisbehavingServer) -> None:
    model = OpenAIServer("m", base_url=misbehaving.base_url, max_retries=0, timeout_s=0.4)
    serve(misbehaving, "prompt_logprobs", blue=silent())
    assert only(model.try_score([ITEM])).detail == "no answer within 0.4 s"


def test_an_enormous_answer_fails_the_item(misbehaving: MisbehavingServer) -> None:
    model = OpenAIServer("m", base_url=misbehaving.base_url, max_answer_bytes=100_000)
    serve(misbehaving, "prompt_logprobs", blue=endless())
    assert only(model.try_score([ITEM])).detail == "the answer is larger than 100000 bytes"


@pytest.mark.parametrize(("status", "words"), [(401, "refuses the key for 'm'"), (404, "no completions API")])
def test_what_every_request_would_meet_stops_the_work(
    model: OpenAIServer, misbehaving: MisbehavingServer, status: int, words: str
) -> None:
    serve(misbehaving, "prompt_logprobs", blue=error(status, "bad"))
    with pytest.raises(ServerError, match=words):
        model.try_score([ITEM])


@pytest.mark.parametrize(("blue_s", "red_s"), [(0.0, 0.2), (0.2, 0.0)])
def test_the_earliest_failure_is_told_whichever_answer_comes_first(
    model: OpenAIServer, misbehaving: MisbehavingServer, blue_s: float, red_s: float
) -> None:
    blue, red = delayed(blue_s, error(400, "no blue")), delayed(red_s, error(400, "no red"))
    serve(misbehaving, "prompt_logprobs", blue=blue, red=red)
    assert "no blue" in only(model.try_score([ITEM])).detail


def test_the_rest_of_a_failed_item_is_not_asked_for(misbehaving: MisbehavingServer) -> None:
    model = OpenAIServer("m", base_url=misbehaving.base_url, concurrency=1)
    serve(misbehaving, "prompt_logprobs", blue=error(400, "no"))
    assert only(model.try_score([ScoreItem("The sky is", (" blue", *[" red"] * 50))])).reason == "server_failed"
    assert len(misbehaving.requests) == 2


# The probe --------------------------------------------------------------------------------------------------


def without_prompt() -> Behaviour:
    """As llama.cpp answers: what it does not know, it leaves out."""
    return answer({"choices": [{"text": ".", "logprobs": {"content": [{"token": ".", "logprob": -0.4}]}}]})


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        (without_prompt(), "an answer without them: Object missing required field"),
        (error(400, "Unrecognized request argument supplied: prompt_logprobs"), "Unrecognized request argument"),
        (error(404, "Not Found"), "HTTP 404: Not Found"),
        (error(422, "extra inputs are not permitted"), "HTTP 422"),
        (answer(vllm(["another", " text"])), "tokens that do not spell the prompt"),
        (answer({"choices": [{"prompt_logprobs": [None]}]}), "are missing behind the first token"),
    ],
)
def test_a_server_that_cannot_score_is_told_apart_in_one_sentence(
    model: OpenAIServer, misbehaving: MisbehavingServer, behaviour: Behaviour, words: str
) -> None:
    misbehaving.script = [behaviour]
    model.require(Capability.SCORE, "mcq")
    for use in (model.fingerprint, model.load, lambda: model.try_score([ITEM])):
        with pytest.raises(MissingCapability) as caught:
            use()
        sentence = str(caught.value)
        assert sentence.startswith(f"openai:m cannot score: {misbehaving.base_url} was asked for the log-prob")
        assert words in sentence
        assert sentence.endswith("; start vLLM, which gives them, or take a local model: hf:<repo or folder>")
        assert "\n" not in sentence
    assert len(misbehaving.requests) == 6, "two ways, asked again each time, since a server may be changed"


@pytest.mark.parametrize("form", ["prompt_logprobs", "echo"])
def test_a_server_that_gives_the_likeliest_tokens_values_is_found_out(
    model: OpenAIServer, misbehaving: MisbehavingServer, form: str
) -> None:
    body = FORMS[form](PROBE_TOKENS)
    if form == "echo":
        columns(body["choices"][0])["token_logprobs"] = [None, *[-0.1] * len(PROBE_TOKENS)]
    else:
        for row in rows(body["choices"][0])[1:]:
            row[list(row)[-1]]["logprob"] = 0.0
    misbehaving.script = [answer(body)]
    with pytest.raises(MissingCapability, match="these are not the prompt's own tokens"):
        model.try_score([ITEM])


def test_a_hole_in_the_probe_is_no_way_to_score(model: OpenAIServer, misbehaving: MisbehavingServer) -> None:
    body = echo(PROBE_TOKENS)
    columns(body["choices"][0])["token_logprobs"][4] = None
    misbehaving.script = [answer(body)]
    with pytest.raises(MissingCapability, match="log-probabilities are missing behind the first token"):
        model.try_score([ITEM])


def test_a_server_that_is_only_busy_is_not_said_to_be_unable(
    model: OpenAIServer, misbehaving: MisbehavingServer
) -> None:
    misbehaving.script = [error(503, "loading model")]
    with pytest.raises(ModelError, match="^openai:m could not be asked whether it can score: HTTP 503: loading") as got:
        model.try_score([ITEM])
    assert not isinstance(got.value, MissingCapability)
    serve(misbehaving, "prompt_logprobs")
    assert isinstance(only(model.try_score([ITEM])), list)


@pytest.mark.parametrize(
    ("fault", "words"),
    [(error(401, "bad key"), "refuses the key"), (error(404, "The model `m` does not exist."), "has no model 'm'")],
)
def test_the_probe_tells_a_wrong_key_or_name_from_a_server_that_cannot(
    model: OpenAIServer, misbehaving: MisbehavingServer, fault: Behaviour, words: str
) -> None:
    misbehaving.script = [fault]
    with pytest.raises(ServerError, match=words):
        model.try_score([ITEM])
    assert len(misbehaving.requests) == 1


def test_nobody_listening_is_one_sentence() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        model = OpenAIServer("m", base_url=url, max_retries=0)
        model.require(Capability.SCORE, "mcq")
        with pytest.raises(ServerError, match=f"^no server answers at {url}"):
            model.fingerprint()
