"""What servers of models may make of an answer: send it elsewhere, put the key into it, belie it with its tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from howsure.errors import EvidenceError, HowsureError, ServerError
from howsure.evidence import TokenLogprobs
from howsure.models.contract import Answer, Failure, ScoreItem
from howsure.models.servers.gemini import GeminiModel
from howsure.models.servers.openai import OpenAIServer
from howsure.models.token_places import spells
from howsure.studies.reading import read_answer
from models.gemini_server import GeminiServer, forget_accounts, logprobs_result, reply
from models.misbehaving_server import Behaviour, MisbehavingServer, answer, chat, raw

KEY = "sk-a-key-that-nobody-may-see-0123456789"


@pytest.fixture(autouse=True)
def account(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_accounts(monkeypatch)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("GEMINI_API_KEY", KEY)


@pytest.fixture
def server() -> Iterator[MisbehavingServer]:
    with MisbehavingServer() as one:
        yield one


@pytest.fixture
def elsewhere() -> Iterator[MisbehavingServer]:
    """A server that would answer all right, and that nobody named."""
    with MisbehavingServer() as one:
        yield one


@pytest.fixture
def gemini() -> Iterator[GeminiServer]:
    with GeminiServer() as one:
        yield one


def opened(server: MisbehavingServer) -> OpenAIServer:
    return OpenAIServer("m", base_url=server.base_url, max_retries=0, timeout_s=5)


def opened_gemini(server: GeminiServer) -> GeminiModel:
    return GeminiModel("gemini-2.5-flash", base_url=server.base_url, max_retries=0, timeout_s=5)


def redirect(status: int, to: str) -> Behaviour:
    return raw(b"", status, location=to)


# -- redirects ----------------------------------------------------------------------------------------------------

REDIRECTS = [301, 302, 303, 307, 308]


@pytest.mark.parametrize("status", REDIRECTS)
def test_a_prompt_is_not_sent_on_to_another_server(
    server: MisbehavingServer, elsewhere: MisbehavingServer, status: int
) -> None:
    server.script = [redirect(status, f"{elsewhere.base_url}/chat/completions?key={KEY}")]
    with pytest.raises(ServerError) as error:
        opened(server).generate(["a secret prompt"])
    assert elsewhere.requests == []
    said = str(error.value)
    assert f"{server.base_url} redirects to {elsewhere.base_url}/chat/completions, where nothing was sent" in said
    assert KEY not in said


@pytest.mark.parametrize("status", REDIRECTS)
def test_a_text_to_be_scored_is_not_sent_on(
    server: MisbehavingServer, elsewhere: MisbehavingServer, status: int
) -> None:
    server.script = [redirect(status, elsewhere.base_url + "/completions")]
    with pytest.raises(ServerError, match="redirects to"):
        opened(server).try_score([ScoreItem("a secret", (" text",))])
    assert elsewhere.requests == []


@pytest.mark.parametrize("status", REDIRECTS)
def test_gemini_is_asked_nowhere_else_either(gemini: GeminiServer, elsewhere: MisbehavingServer, status: int) -> None:
    gemini.script = [redirect(status, elsewhere.base_url)]
    model = opened_gemini(gemini)
    with pytest.raises(ServerError, match="redirects to"):
        model.generate(["a secret prompt"])
    model.close()
    assert elsewhere.requests == []


@pytest.mark.parametrize(
    ("to", "shown"),
    [
        ("/v2/chat", "/v2/chat, where"),
        ("//user:pass@127.0.0.1:1/x?y#z", " http://127.0.0.1:1/x, where"),
        (f"http://127.0.0.1:1/{KEY}", " http://127.0.0.1:1/***, where"),
        ("http://x:y/", " what is not an address, where"),
    ],
)
def test_a_redirect_is_named_without_what_may_be_secret(server: MisbehavingServer, to: str, shown: str) -> None:
    server.script = [redirect(307, to)]
    with pytest.raises(ServerError) as error:
        opened(server).generate(["Hello"])
    assert shown in str(error.value)
    assert len(server.requests) == 1


# -- a key in an answer -------------------------------------------------------------------------------------------


def content(*tokens: str, spelled: list[bytes] | None = None, top: list[dict[str, Any]] | None = None) -> Any:
    """`logprobs` of a chat answer."""
    known = spelled or [token.encode() for token in tokens]
    return {
        "content": [
            {"token": token, "logprob": -0.5, "bytes": list(one), "top_logprobs": top or []}
            for token, one in zip(tokens, known, strict=True)
        ]
    }


def listed(token: str, spelled: bytes) -> dict[str, Any]:
    return {"token": token, "logprob": -2.0, "bytes": list(spelled)}


PIECES = [KEY[i : i + 4] for i in range(0, len(KEY), 4)]
WITH_A_KEY = {
    "in the text": chat(f"You sent {KEY}.", None),
    "in the text, escaped": json.dumps(chat("You sent KEY.", None)).replace("KEY", "\\u0073" + KEY[1:]),
    "over many tokens": chat(KEY, content(*PIECES)),
    "in tokens, not in the text": chat("Yes", content("</think>", *PIECES, "Yes")),
    "in tokens' bytes": chat("Yes", content("a", "Yes", spelled=[KEY.encode(), b"Yes"])),
    "in tokens' texts": chat("Yes", content(KEY, "", spelled=[b"Y", b"es"])),
    "among the alternatives": chat("Yes", content("Yes", top=[listed(KEY, b"x")])),
    "in the alternatives' bytes": chat("Yes", content("Yes", top=[listed("x", KEY.encode())])),
}


@pytest.mark.parametrize("body", WITH_A_KEY.values(), ids=WITH_A_KEY)
def test_an_answer_with_a_key_in_it_is_not_kept(server: MisbehavingServer, body: Any) -> None:
    server.script = [answer(body)]
    (got,) = opened(server).generate(["Hello"])
    assert KEY not in repr(got)
    assert KEY not in repr(got.logprobs and got.logprobs.to_dict())
    assert got.text is None
    assert str(got.failure).endswith("so nothing of its answer is kept")


@pytest.mark.parametrize("body", [chat(f"{KEY} it is", content(KEY, " it is")), chat("Yes", content("Yes"), KEY)])
def test_nothing_of_a_key_is_left_anywhere_in_an_answer(server: MisbehavingServer, body: Any) -> None:
    server.script = [answer(body)]
    assert KEY not in repr(opened(server).generate(["Hello"]))


def test_a_password_of_the_address_is_a_key_too(server: MisbehavingServer) -> None:
    server.script = [answer(chat("It is correct-horse-battery.", None))]
    url = server.base_url.replace("//", "//user:correct-horse-battery@")
    (got,) = OpenAIServer("m", base_url=url, max_retries=0).generate(["Hello"])
    assert got.text is None
    assert "horse" not in repr(got)


def test_a_short_key_is_a_word_that_an_answer_may_hold(
    server: MisbehavingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "EMPTY")
    server.script = [answer(chat("The list is EMPTY", content("The list is", " EMPTY")))]
    (got,) = opened(server).generate(["Hello"])
    assert got.text == "The list is EMPTY"
    assert got.logprobs is not None


def test_scored_tokens_with_a_key_among_them_are_not_kept(server: MisbehavingServer) -> None:
    def columns(*tokens: str) -> Behaviour:
        alternatives = [None, *({token: -0.5, KEY: -2.0} for token in tokens[1:])]
        logprobs = {"tokens": tokens, "token_logprobs": [None, *([-5.0] * (len(tokens) - 1))]}
        return answer({"choices": [{"logprobs": {**logprobs, "top_logprobs": alternatives}}]})

    probe = "The capital of France is Paris, and my umbrella sings eleven."
    server.by_prompt = {probe: columns("<s>", probe), "The sky is blue": columns("<s>", "The sky is", " blue")}
    found = opened(server).try_score([ScoreItem("The sky is", (" blue",))], top_logprobs=2)[0]
    assert isinstance(found, Failure)
    assert found.reason == "key_in_answer"
    assert KEY not in repr(found)


@pytest.mark.parametrize(
    ("secret", "body"),
    [
        (KEY, reply(f"You sent {KEY}.")),
        (KEY, reply(KEY, logprobs_result(PIECES, 0))),
        ("ya29.a-token-of-the-sdk-itself", reply("You sent ya29.a-token-of-the-sdk-itself.")),
    ],
)
def test_gemini_with_a_key_in_its_answer(gemini: GeminiServer, secret: str, body: Any) -> None:
    gemini.script = [answer(body)]
    model = opened_gemini(gemini)
    (got,) = model.generate(["Hello"])
    model.close()
    assert got.text is None
    assert secret not in repr(got)


# -- tokens that contradict the text ------------------------------------------------------------------------------


def asked(server: MisbehavingServer, text: str, logprobs: Any) -> Answer:
    server.script = [answer(chat(text, logprobs))]
    return opened(server).generate(["Hello"])[0]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Paris", ["Lon", "don"]),
        ("Yes", ["No", " Yes"]),
        ("a", ["Ban", "ana"]),
        ("No, never", ["No"]),
        ("No", ["No", ", never"]),
        ("Yes", ["<think>", "Yes", "</think>", "No"]),
        ("<b>Yes</b>", ["<b>", "No", "</b>"]),
        ('{"a": 1}', ["```json\n", '{"a": 2}', "\n```"]),
        ("(12, 34)", ["(12", ", 35", ")"]),
        ("", ["Yes"]),
    ],
)
def test_tokens_that_contradict_the_text_are_not_kept(server: MisbehavingServer, text: str, tokens: list[str]) -> None:
    got = asked(server, text, content(*tokens))
    assert got.text == text
    assert got.logprobs is None
    assert got.not_aligned
    assert "do not spell its answer; they begin" in str(got.logprobs_missing)


def test_bytes_count_where_a_token_shows_something_else(server: MisbehavingServer) -> None:
    assert asked(server, "Yes", content("Yes", spelled=[b"No"])).not_aligned


def test_ask_does_not_show_the_tokens_of_another_text(server: MisbehavingServer) -> None:
    server.script = [answer(chat("Paris", content("Lon", "don")))]
    with pytest.raises(EvidenceError, match="answered «Paris», but the tokens that .* gave do not spell its answer"):
        read_answer("Which town?", opened(server))


def test_gemini_with_tokens_of_another_text(gemini: GeminiServer) -> None:
    gemini.script = [answer(reply("Paris", logprobs_result(["Lon", "don"], 2)))]
    model = opened_gemini(gemini)
    (got,) = model.generate(["Hello"])
    model.close()
    assert (got.text, got.logprobs, got.not_aligned) == ("Paris", None, True)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Yes.", ["Yes", "."]),
        ("Yes", [" Yes", "\n", "<|im_end|>"]),
        ("Yes", ["Yes", "</s>", ""]),
        ("Yes", ["<think>", "\n", "or No", "</", "think", ">", "\n\n", "Yes", "<|im_end|>"]),
        ("Yes", ["<|channel|>", "analysis", "<|message|>", "?", "<|channel|>", "final", "<|message|>", "Yes"]),
        ('{"a": 1}', ["```", "json", "\n", '{"a"', ": 1}", "\n", "```", ""]),
        ("see <b>", ["see", " <b>"]),
        ("a [X]", ["a", " [X]"]),
        ("the sky", ["▁the", "▁sky"]),
        ("the sky", ["Ġthe", "Ġsky"]),
        ("the sky", ["the", "sky"]),
        ("é!", ["\ufffd", "\ufffd", "!"]),
        ("", []),
        ("  ", [" "]),
    ],
)
def test_what_servers_leave_out_of_a_text_is_no_contradiction(text: str, tokens: list[str]) -> None:
    assert spells(text, TokenLogprobs(tuple(tokens), np.full(len(tokens), -0.5)))


@pytest.mark.parametrize("text", ["half a \ufffd", "half a", "half a \ufffd\ufffd"])
def test_half_a_character_at_the_end_is_none_either(text: str) -> None:
    pieces = (b"half", b" a ", b"\xf0\x9f", b"\xa4")
    shown = tuple(piece.decode(errors="replace") for piece in pieces)
    assert spells(text, TokenLogprobs(shown, np.full(4, -0.5), token_bytes=pieces))


def test_a_long_answer_is_compared_in_a_moment(server: MisbehavingServer) -> None:
    """Marks without end, each of which might be the one that reasoning ends in."""
    count = 20_000
    got = asked(server, "<a>" * count + "x", content(*["<a>"] * (2 * count), "y"))
    assert got.not_aligned
    with pytest.raises(HowsureError):
        read_answer("?", opened(server))
