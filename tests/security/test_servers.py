"""What servers of models may make of a request: send it elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from howsure.errors import ServerError
from howsure.models.contract import ScoreItem
from howsure.models.gemini import GeminiModel
from howsure.models.openai_server import OpenAIServer
from models.gemini_server import GeminiServer, forget_accounts
from models.misbehaving_server import Behaviour, MisbehavingServer, raw

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
