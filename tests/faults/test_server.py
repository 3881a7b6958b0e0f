"""A server that fails three calls in ten, in a dozen ways; then it is healed, and what failed is asked again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from commands import Commands, Ended
from faults.cases import Workshop
from faults.harness import SEED, assert_same_run, assert_whole, samples
from models.misbehaving_server import NO_NUMBERS, WAYS_THAT_PASS, WAYS_THAT_STAY, Unreliable, chat
from sizes import LONG

SHARE = 0.3
HASTY = {"timeout_s": 0.4, "backoff_s": 0.01, "max_retries": 1}
"""So that faults are met that retries do not mend, and a hanging call costs less than a second."""
PATIENT = {"timeout_s": 0.4, "backoff_s": 0.01, "max_retries": 12}
CALM = {"timeout_s": 60.0, "backoff_s": 0.01, "max_retries": 3}
"""For a server that is well, on a machine that may be slow."""
TRIES = 40


@pytest.fixture(autouse=True)
def no_inherited_account(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.delenv(name, raising=False)


def number_of(text: str) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16)


def scored(body: dict[str, Any]) -> dict[str, Any]:
    """vLLM's answer to a prompt: words are tokens, and everything up to a word decides its log-probability."""
    tokens = body["prompt"].replace(" ", "| ").split("|")
    ids = [number_of(token) for token in tokens]
    rows: list[Any] = [None]
    for place in range(1, len(tokens)):
        value = -0.5 - number_of("".join(tokens[: place + 1])) % 600 / 100
        rows.append({str(ids[place]): {"logprob": value, "rank": 3, "decoded_token": tokens[place]}})
    choice = {"text": "", "prompt_logprobs": rows, "prompt_token_ids": ids}
    return {"choices": [choice], "usage": {"total_tokens": len(tokens)}}


def said(*tokens: str) -> dict[str, Any]:
    """A chat answer of these tokens, each with one other that is less likely."""
    rows = [
        {"token": one, "logprob": -0.25, "bytes": list(one.encode()),
         "top_logprobs": [{"token": one, "logprob": -0.25}, {"token": "zebra", "logprob": -2.5}]}
        for one in tokens
    ]  # fmt: skip
    return chat("".join(tokens), {"content": rows})


def clicked(body: dict[str, Any]) -> dict[str, Any]:
    number = number_of(json.dumps(body["messages"]))
    return said("(", str(number % 1000), ", ", str(number // 1000 % 1000), ")")


def moved(body: dict[str, Any]) -> dict[str, Any]:
    number = number_of(json.dumps(body["messages"]))
    return said('{"action": ["', ("up", "down", "left", "right")[number % 4], '"], "reasoning": "so"}')


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Unreliable]:
    with Unreliable(*request.param) as found:
        yield found


def run(commands: Commands, server: Unreliable, arguments: list[Any], out: Path, patience: dict[str, Any]) -> Ended:
    """The command, begun again as long as the server fails the probe before the work, each time in one sentence."""
    for _ in range(TRIES):
        ended = commands.run(*arguments, "--base-url", server.base_url, "--out", out, server_patience=patience)
        assert "Traceback" not in ended.said, ended.said
        if ended.code != 2:
            return ended
        assert len(ended.said.strip().splitlines()) == 1, ended.said
    raise AssertionError(f"the server never let it begin: {ended.said}")


def assert_same_or_failed(whole: Path, torn: Path) -> int:
    """Every sample is what it would have been, or is named as failed with its reason; and how many are."""
    expected = {row["id"]: row for row in samples(whole)}
    found = samples(torn)
    assert sorted(row["id"] for row in found) == sorted(expected)
    failed = [row for row in found if row.get("reason") is not None]
    for row in found:
        assert row.get("reason") is not None or row == expected[row["id"]], row
    assert_whole(torn)
    coverage = json.loads((torn / "summary.json").read_text())["coverage"]
    assert sum(coverage["missing"].values()) == len(failed)
    return len(failed)


EVERY_WAY = WAYS_THAT_PASS | WAYS_THAT_STAY


@pytest.mark.parametrize(
    ("study", "server"),
    [
        pytest.param("mcq", (scored, EVERY_WAY | NO_NUMBERS), id="mcq"),
        pytest.param("grounding", (clicked, EVERY_WAY), id="grounding", marks=pytest.mark.only_long),
    ],
    indirect=["server"],
)
def test_what_failed_is_named_and_asked_again(
    study: str, server: Unreliable, commands: Commands, workshop: Workshop, tmp_path: Path
) -> None:
    data = {"mcq": workshop.questions(24), "grounding": workshop.screens(60)}[study]
    more = {"mcq": ["--no-pmi", "--batch-size", 8], "grounding": ["--batch-size", 8]}[study]
    arguments = [study, *(["run"] if study == "grounding" else []), data, "--model", "openai:m", *more, "--quiet"]
    whole, torn = tmp_path / "whole" / "run", tmp_path / "torn" / "run"
    assert run(commands, server, arguments, whole, CALM).code == 0
    server.disturb(SHARE, SEED)
    ended = run(commands, server, arguments, torn, HASTY)
    failed = assert_same_or_failed(whole, torn)
    assert ended.code == (1 if failed else 0)
    assert failed, f"it cost nothing: {server.failed}"
    assert len(server.failed) >= 6, server.failed
    server.disturb(0.0)
    assert run(commands, server, [*arguments, "--retry-failed"], torn, CALM).code == 0
    assert_same_run(whole, torn, same_order=False)


@pytest.mark.parametrize("server", [(moved, WAYS_THAT_PASS)], indirect=True, ids=["trust"])
def test_a_chain_of_steps_is_what_it_was_where_faults_pass(
    server: Unreliable, commands: Commands, tmp_path: Path
) -> None:
    """What is asked at a step depends on every answer before, so that one answer more or less would be another run."""
    arguments = ["trust", "run", "home", "--model", "openai:m", "--view", "text", "--clock", "world", "--quiet"]
    arguments += ["--max-steps", "12" if LONG else "6"]
    whole, torn = tmp_path / "whole" / "run", tmp_path / "torn" / "run"
    assert run(commands, server, arguments, whole, CALM).code == 0
    server.disturb(SHARE, SEED)
    assert run(commands, server, arguments, torn, PATIENT).code == 0
    assert server.failed, "the server behaved"
    assert_same_run(whole, torn)


def test_there_are_ten_ways_and_more() -> None:
    assert len(EVERY_WAY | NO_NUMBERS) >= 10
