"""The study against servers: a real llama.cpp, Gemini's documented form on loopback, and ones that refuse."""

from __future__ import annotations

import base64
import csv
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from howsure.errors import MissingCapability
from howsure.studies.trust import trust
from models.gemini_server import GeminiServer, error, forget_accounts, logprobs_result, reply
from models.misbehaving_server import Behaviour, Connection, MisbehavingServer, Request, answer, chat
from models.misbehaving_server import error as openai_error

pytest.importorskip("minigrid", reason="the extra `grid` is not installed")

ANSWER = '{"action": ["down"], "reasoning": "so"}'
TOKENS = ['{"action": ["', "down", '"], "reasoning": "so"}']


@pytest.fixture(autouse=True)
def no_inherited_account(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_accounts(monkeypatch)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.delenv(name, raising=False)


# -- a real server ------------------------------------------------------------------------------------------------


@pytest.mark.server
@pytest.mark.real_model
@pytest.mark.long
def test_a_real_llama_cpp_server(llama_server: str, tmp_path: Path) -> None:
    """Every answer is held to the schema, and the action's tokens are found in it, though it is cut off behind them."""
    found = trust("empty", "openai:smollm2", base_url=llama_server, out=tmp_path / "run", max_steps=1, max_tokens=40)
    answers = [one for sample in found.samples for one in sample.result.conditions.answers()]
    parsable = [one for one in answers if one["action"] is not None]
    assert len(answers) == len(parsable) == 3
    located = [one for one in parsable if one["located"] and one["entropy_bits"] is not None]
    assert len(located) == 3
    for one in located:
        assert one["low_bits"] >= one["entropy_bits"] - 1e-9, "the tight lower bound spreads what is left"
        assert sum(one["probabilities"].values()) + one["other"] == pytest.approx(1.0, abs=1e-6)
    rows = list(csv.DictReader((tmp_path / "run" / "steps.csv").open()))
    assert [row["step"] for row in rows] == [str(sample.result["step"]) for sample in found.samples]


# -- three at once ------------------------------------------------------------------------------------------------


class Meeting(MisbehavingServer):
    """Answers nobody before three are waiting, so that requests one after the other would never be answered."""

    def __init__(self) -> None:
        super().__init__()
        self.meeting = threading.Barrier(3, timeout=20.0)

    def record(self, request: Request) -> Behaviour:
        super().record(request)
        if request.body.get("max_tokens") == 1:
            return answer(openai_form("Yes"))

        def behave(connection: Connection) -> None:
            self.meeting.wait()
            answer(openai_form(*TOKENS))(connection)

        return behave


def openai_form(*tokens: str) -> dict[str, Any]:
    content = [
        {"token": one, "logprob": -0.1, "bytes": list(one.encode()), "top_logprobs": [{"token": one, "logprob": -0.1}]}
        for one in tokens
    ]
    return chat("".join(tokens), {"content": content})


def test_the_three_conditions_are_asked_at_the_same_time(tmp_path: Path) -> None:
    with Meeting() as server:
        found = trust("home", "openai:test", base_url=server.base_url, view="both", out=tmp_path / "run", max_steps=2)
    assert not found.failed
    assert found.summary["answer_forms"] == {"json_schema": 2}
    asked = [request.body for request in server.requests if request.body.get("max_tokens") != 1]
    assert len(asked) == 6
    for step in (asked[:3], asked[3:]):
        settings = [{name: value for name, value in body.items() if name != "messages"} for body in step]
        assert settings[0] == settings[1] == settings[2]
        assert settings[0]["response_format"]["type"] == "json_schema"
        images = [[part for part in body["messages"][1]["content"] if part["type"] == "image_url"] for body in step]
        assert len(images[0]) == 1
        assert images[0] == images[1] == images[2]
        url = images[0][0]["image_url"]["url"]
        assert base64.b64decode(url.removeprefix("data:image/png;base64,")).startswith(b"\x89PNG")
        texts = [json.dumps(body["messages"]) for body in step]
        assert sum("What is known about this place" in text for text in texts) == 2
        assert sum("Leave the bedroom" in text for text in texts) == 1


def test_a_server_without_log_probabilities_names_the_way_out(tmp_path: Path) -> None:
    with MisbehavingServer() as server:
        server.script = [answer(chat("Yes", None))]
        with pytest.raises(MissingCapability, match="--evidence verbalized"):
            trust("empty", "openai:test", base_url=server.base_url, out=tmp_path / "run")


def test_a_server_that_fails_on_the_way_leaves_what_was_done(tmp_path: Path) -> None:
    """The key is refused from the second step on: the run stops in one sentence, and goes on when it is mended."""
    good, bad = answer(openai_form(*TOKENS)), openai_error(401, "no such key")
    with MisbehavingServer() as server:
        options: dict[str, Any] = {"base_url": server.base_url, "out": tmp_path / "run", "max_steps": 3}
        server.script = [good] * 4 + [bad]
        with pytest.raises(Exception, match="no such key"):
            trust("empty", "openai:test", **options)
        assert len((tmp_path / "run" / "samples.jsonl").read_text().splitlines()) == 1
        server.script = [good]
        found = trust("empty", "openai:test", **options)
    assert [sample.result["step"] for sample in found.samples] == [1, 2, 3]


# -- Gemini -------------------------------------------------------------------------------------------------------


@pytest.fixture
def gemini() -> Iterator[GeminiServer]:
    with GeminiServer() as server:
        yield server


def test_gemini_end_to_end(gemini: GeminiServer, tmp_path: Path) -> None:
    gemini.script = [answer(reply(ANSWER, logprobs_result(TOKENS, 5)))]
    found = trust("home", "gemini:gemini-2.5-flash", base_url=gemini.base_url, out=tmp_path / "run", max_steps=2)
    assert not found.failed
    assert found.summary["view"] == "image"
    assert found.summary["answer_forms"] == {"json_schema": 2}
    assert [sample.result["action"] for sample in found.samples] == ["down", "down"]
    # down 1/2, then 1/4, 1/8, 1/16, 1/32, and 1/32 left over: the document's figure, in bits.
    bits = 1 / 2 + 2 / 4 + 3 / 8 + 4 / 16 + 5 / 32 + 5 / 32
    for one in found.samples[0].result.conditions.answers():
        assert one["entropy_bits"] == pytest.approx(bits, abs=1e-9)
    config = gemini.requests[-1].body["generationConfig"]
    assert (config["responseLogprobs"], config["logprobs"]) == (True, 10)
    assert config["thinkingConfig"] == {"thinkingBudget": 0}
    pictures = [part for part in gemini.requests[-1].body["contents"][0]["parts"] if "inlineData" in part]
    assert len(pictures) == 1


def test_gemini_that_refuses_log_probabilities(gemini: GeminiServer, tmp_path: Path) -> None:
    gemini.script = [error(400, "Logprobs is not enabled for models/gemini-2.5-flash")]
    options: dict[str, Any] = {"base_url": gemini.base_url, "out": tmp_path / "run", "max_steps": 1}
    with pytest.raises(MissingCapability, match="--evidence verbalized") as caught:
        trust("home", "gemini:gemini-2.5-flash", **options)
    assert "Logprobs is not enabled" in str(caught.value)
    assert str(caught.value).count("--evidence verbalized") == 1
    step = {"north": 0.1, "south": 0.7, "west": 0.1, "east": 0.1}
    gemini.script = [answer(reply(json.dumps({"executability": 0.9, "step1": step, "step2": step, "step3": step})))]
    found = trust("home", "gemini:gemini-2.5-flash", evidence="verbalized", **options)
    assert found.samples[0].result["action"] == "down"
    assert "responseLogprobs" not in gemini.requests[-1].body["generationConfig"]
