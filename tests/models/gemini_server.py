"""A loopback server that answers in the documented form of Gemini's REST API, or misbehaves as its script says.

By default it repeats the words of the last message, one token each, and gives the log-probabilities that were asked
for. A script (`misbehaving_server`) puts other behaviours in the place of that.
"""

from __future__ import annotations

import json
import math
import re
import socket
import time
from typing import Any

import pytest

from .misbehaving_server import Behaviour, Connection, MisbehavingServer, Request, answer

ACCOUNT_VARIABLES = (
    "GOOGLE_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_GENAI_USE_VERTEXAI",
    "GOOGLE_GENAI_USE_ENTERPRISE",
    "GOOGLE_GENAI_API_VERSION",
    "GOOGLE_GEMINI_BASE_URL",
    "GOOGLE_VERTEX_BASE_URL",
    "GOOGLE_CLOUD_PROJECT",
    "GOOGLE_CLOUD_LOCATION",
    "GOOGLE_APPLICATION_CREDENTIALS",
)
LIKELIEST = 0.5


class GeminiServer(MisbehavingServer):
    """`base_url` has no version in it: the SDK puts one behind it. `delay_s` is how long the model seems to think."""

    def __init__(self) -> None:
        super().__init__()
        self.base_url = self.base_url.removesuffix("/v1")
        self.script = [echo]
        self.delay_s = 0.0
        self.ports: list[int] = []

    def record(self, request: Request) -> Behaviour:
        request.body = camel(request.body)
        with self._lock:
            self.requests.append(request)
            prompt = said(request.body)
            found = self.by_prompt.get(prompt) or (self.script.pop(0) if len(self.script) > 1 else self.script[0])
        return self._echo(request) if found is echo else found

    def _echo(self, request: Request) -> Behaviour:
        def behave(connection: Connection) -> None:
            self.ports.append(connection.client_address[1])
            time.sleep(self.delay_s)
            body = json.dumps(_echoed(request.body)).encode()
            connection.close_connection = False
            # Head and body are two writes, and on a connection that stays open the second would wait 40 ms.
            connection.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.send_response(200)
            connection.send_header("content-type", "application/json; charset=UTF-8")
            connection.send_header("content-length", str(len(body)))
            connection.end_headers()
            connection.wfile.write(body)

        return behave


def echo(_: Connection) -> None:
    """In a script: repeat what was said last, word by word; the connection stays open, as Google's do."""
    raise AssertionError("the server puts an answer to the request in the place of this")


def forget_accounts(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test may use, or depend on, an account of whoever runs it."""
    for name in ACCOUNT_VARIABLES:
        monkeypatch.delenv(name, raising=False)


def camel(value: Any) -> Any:
    """Field names in one spelling: Google's servers take either, and the SDK mixes them. A schema stays as it is."""
    if isinstance(value, list):
        return [camel(one) for one in value]
    if not isinstance(value, dict):
        return value
    named = {re.sub("_([a-z])", lambda found: found[1].upper(), name): one for name, one in value.items()}
    return {name: one if name == "responseJsonSchema" else camel(one) for name, one in named.items()}


def said(body: dict[str, Any]) -> str:
    """The text of a request's last message."""
    return "".join(part.get("text", "") for part in body["contents"][-1]["parts"])


def _echoed(request: dict[str, Any]) -> dict[str, Any]:
    config = request["generationConfig"]
    words = said(request).split()
    spoken = [word if i == 0 else f" {word}" for i, word in enumerate(words)][: config["maxOutputTokens"]]
    logprobs = logprobs_result(spoken, config.get("logprobs", 0)) if config.get("responseLogprobs") else None
    return reply("".join(spoken), logprobs, "MAX_TOKENS" if len(spoken) < len(words) else "STOP")


def logprobs_result(tokens: list[str], top: int) -> dict[str, Any]:
    """Every token half as likely as the one before it in the list of its alternatives, and itself the likeliest."""
    half = math.log(LIKELIEST)
    chosen = [{"token": token, "tokenId": i, "logProbability": half} for i, token in enumerate(tokens)]
    steps = [
        [{"token": token if j == 0 else f"{token}~{j}", "logProbability": half * (j + 1)} for j in range(top)]
        for token in tokens
    ]
    top_candidates = {"topCandidates": [{"candidates": step} for step in steps]} if top else {}
    return {"chosenCandidates": chosen, **top_candidates}


def reply(
    text: str | None = "Yes",
    logprobs: Any = None,
    finish_reason: Any = "STOP",
    parts: Any = None,
    usage: dict[str, Any] | None = None,
    **candidate: Any,
) -> dict[str, Any]:
    """The body of an answer with one candidate."""
    content: dict[str, Any] = {"role": "model"}
    if parts is not None or text is not None:
        content["parts"] = [{"text": text}] if parts is None else parts
    one = {"content": content, "finishReason": finish_reason, "index": 0, **candidate}
    if logprobs is not None:
        one |= {"avgLogprobs": -0.5, "logprobsResult": logprobs}
    counts = {"promptTokenCount": 4, "candidatesTokenCount": 3, "totalTokenCount": 7, **(usage or {})}
    return {"candidates": [one], "usageMetadata": counts, "modelVersion": "gemini-2.5-flash", "responseId": "r"}


def ok(*given: Any, **named: Any) -> Behaviour:
    return answer(reply(*given, **named))


def error(code: int, message: str, status: str = "INVALID_ARGUMENT", *details: Any, **headers: str) -> Behaviour:
    """An error in the form of Google's APIs."""
    body = {"code": code, "message": message, "status": status, **({"details": list(details)} if details else {})}
    return answer({"error": body}, code, **headers)


def retry_info(delay: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}


def quota_failure(quota_id: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": quota_id}]}


def error_info(reason: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "googleapis.com"}
