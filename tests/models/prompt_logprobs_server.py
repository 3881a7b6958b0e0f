"""A loopback server that gives the log-probabilities of a prompt, as vLLM documents it, with SmolLM2's real numbers.

They come from one plain forward of transformers over the whole prompt, written apart from howsure's own scoring. What a
`PromptServer` speaks can be narrowed down to any of the servers that people run: `prompt_logprobs` with token ids or
without, `echo`, neither; tokens spelled in several ways; a begin token before every text or none; `/tokenize` or not.
Chat is passed on to a real llama.cpp server, where one is named.
"""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "smollm2"
BROKEN = "\ufffd"


@cache
def network() -> tuple[Any, Any]:
    """SmolLM2's tokenizer and network, in float32, by transformers alone."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from howsure.models.builtin import model_folder

    folder = model_folder()
    return AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder).eval()


@dataclass
class PromptServer:
    """What a server speaks, and what it was asked."""

    prompt_logprobs: bool = True
    echo: bool = True
    token_ids: bool = True
    tokenize: bool = True
    spelling: str = "decoded"
    """`decoded` (one token at a time), `corrected` (vLLM from 0.12 on), `vocabulary` (vLLM 0.8)."""
    begin: str | None = None
    chat_url: str | None = None
    base_url: str = ""
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    lock: Any = field(default_factory=threading.Lock)

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        self.requests.append((path, body))
        if path == "/v1/chat/completions" and self.chat_url is not None:
            return 200, _pass_on(f"{self.chat_url}/chat/completions", body)
        if path == "/tokenize" and self.tokenize:
            ids = self.ids(body["prompt"])
            return 200, {"tokens": ids, "token_strs": network()[0].convert_ids_to_tokens(ids), "count": len(ids)}
        if path == "/v1/completions":
            return self.complete(body)
        return 404, {"detail": "Not Found"}

    def ids(self, text: str) -> list[int]:
        tokenizer = network()[0]
        begin = [] if self.begin is None else [tokenizer.convert_tokens_to_ids(self.begin)]
        return begin + tokenizer(text, add_special_tokens=False)["input_ids"]

    def complete(self, body: dict[str, Any]) -> tuple[int, Any]:
        ids = self.ids(body["prompt"])
        if len(ids) > 1024:
            return 400, {"error": {"message": f"This model's maximum context length is 1024 tokens, not {len(ids)}"}}
        with self.lock:
            table = _log_softmax(tuple(ids))
        choice: dict[str, Any] = {"index": 0, "text": "", "finish_reason": "length", "logprobs": None}
        if self.prompt_logprobs and body.get("prompt_logprobs") is not None:
            choice["prompt_logprobs"] = self._positions(ids, table, body["prompt_logprobs"])
        if self.token_ids and body.get("return_token_ids"):
            choice["prompt_token_ids"] = ids
        if self.echo and body.get("echo") and body.get("logprobs") is not None:
            choice["logprobs"] = self._columns([*ids, int(table[-1].argmax())], table, body["logprobs"])
        usage = {"prompt_tokens": len(ids), "completion_tokens": 1, "total_tokens": len(ids) + 1}
        return 200, {"object": "text_completion", "choices": [choice], "usage": usage}

    def _positions(self, ids: list[int], table: Any, width: int) -> list[dict[str, Any] | None]:
        texts = self.texts(ids)
        rows: list[dict[str, Any] | None] = [None]
        for i in range(1, len(ids)):
            likeliest = table[i - 1].topk(width).indices.tolist() if width else []
            rows.append(
                {
                    str(token): {
                        "logprob": float(table[i - 1, token]),
                        "rank": int((table[i - 1] > table[i - 1, token]).sum()) + 1,
                        "decoded_token": texts[i] if token == ids[i] else self.texts([token])[0],
                    }
                    for token in dict.fromkeys([ids[i], *likeliest])
                }
            )
        return rows

    def _columns(self, ids: list[int], table: Any, width: int) -> dict[str, Any]:
        texts, top, values = self.texts(ids), [None], [None]
        for i in range(1, len(ids)):
            likeliest = [ids[i], *table[i - 1].topk(width).indices.tolist()]
            values.append(float(table[i - 1, ids[i]]))
            top.append({self.texts([token])[0]: float(table[i - 1, token]) for token in likeliest})
        offsets = [sum(map(len, texts[:i])) for i in range(len(ids))]
        return {"tokens": texts, "token_logprobs": values, "top_logprobs": top, "text_offset": offsets}

    def texts(self, ids: list[int]) -> list[str]:
        tokenizer = network()[0]
        if self.spelling == "vocabulary":
            return tokenizer.convert_ids_to_tokens(ids)
        alone = [tokenizer.decode([token]) for token in ids]
        return [_corrected(ids, i) for i in range(len(ids))] if self.spelling == "corrected" else alone


def _corrected(ids: list[int], i: int) -> str:
    """A character that is broken into tokens shows with the last of them, the others are empty."""
    decode = network()[0].decode
    for begin in range(i, max(i - 5, -1), -1):
        whole = decode(ids[begin : i + 1])
        if not whole.endswith(BROKEN):
            return whole[len(decode(ids[begin:i]).rstrip(BROKEN)) :] if begin < i else whole
    return ""


@lru_cache(maxsize=96)
def _log_softmax(ids: tuple[int, ...]) -> Any:
    """The network's whole table for a prompt; kept, since the tests ask many servers about the same few texts."""
    import torch

    with torch.inference_mode():
        return network()[1](torch.tensor([ids])).logits[0].float().log_softmax(-1)


def _pass_on(url: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as response:
        return json.load(response)


@contextmanager
def running(server: PromptServer) -> Iterator[PromptServer]:
    """The server on a port of 127.0.0.1 that the system chose."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status, answer = server.answer(self.path, body)
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Keep quiet."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    server.base_url = f"http://127.0.0.1:{http.server_address[1]}/v1"
    threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
