"""A server's address, and what of it and of its words may be shown.

Secrets (the key, credentials in the base URL) are cut out of everything that a server says before it gets into a
message. Nothing here knows a vendor's SDK.
"""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import os
import re
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

from howsure.errors import InputError, ModelError, ServerError

KEY_VARIABLE = "OPENAI_API_KEY"
URL_VARIABLE = "OPENAI_BASE_URL"
OPENAI_URL = "https://api.openai.com/v1"
MAX_WORDS_CHARS = 300
"""How much of a server's own words goes into a message."""

LEAST_SECRET_CHARS = 12
"""Shorter ones may be a word (`EMPTY`, `ollama`, a user's name), and a model's answer may well hold that."""

NO_KEY = "no-key"
HIDDEN = "***"
_SHOWN_QUERY = frozenset({"api-version"})


class BodyRefused(Exception):
    """A body that is not read to its end, because it is too large or compressed."""


def server_words(body: Any) -> str:
    """What a server says went wrong, out of the many forms of an error body."""
    if isinstance(body, dict):
        words = body.get("message") or body.get("detail") or body
        return words if isinstance(words, str) else json.dumps(words, ensure_ascii=False)
    return body if isinstance(body, str) else "" if body is None else json.dumps(body)


def check(holds: bool, otherwise: str) -> None:
    """Raise for an option that cannot be used."""
    if not holds:
        raise InputError(otherwise)


@dataclass(frozen=True, repr=False)
class Endpoint:
    """A base URL taken apart into what may be shown and what may not."""

    url: str
    shown: str
    headers: dict[str, str]
    query: dict[str, str]
    secrets: tuple[str, ...]

    @classmethod
    def read(cls, base_url: str | None) -> Endpoint:
        """From the given URL, the environment, or OpenAI's own address, in this order."""
        url = (base_url or os.environ.get(URL_VARIABLE) or OPENAI_URL).strip()
        try:
            parts = urlsplit(url)
            parts.port  # noqa: B018  raises for a port that is no number
        except ValueError:
            raise InputError("the base URL cannot be read; it should look like http://127.0.0.1:8000/v1") from None
        userinfo, _, host = parts.netloc.rpartition("@")
        path = parts.path.rstrip("/")
        if parts.scheme not in ("http", "https") or not re.fullmatch(r"[\w.\-:\[\]]+", host) or not path.isprintable():
            raise InputError("the base URL must look like http://127.0.0.1:8000/v1: http or https, host, path")
        query = dict(parse_qsl(parts.query))
        bare = f"{parts.scheme}://{host}{path}"
        shown = f"{parts.scheme}://{HIDDEN + '@' if userinfo else ''}{host}{path}{_shown_query(query)}"
        # In a header, credentials stay out of every log that writes URLs.
        basic = base64.b64encode(unquote(userinfo).encode()).decode()
        headers = {"Authorization": f"Basic {basic}"} if userinfo else {}
        hidden = [value for name, value in query.items() if name not in _SHOWN_QUERY]
        secrets = [basic, userinfo, *userinfo.partition(":")[::2], *hidden]
        return cls(bare, shown, headers, query, _spellings(secrets))

    @property
    def root(self) -> str:
        """The address without its version, where vLLM keeps what OpenAI's API has not."""
        return self.url.removesuffix("/v1")

    @property
    def is_openai(self) -> bool:
        return urlsplit(self.url).hostname == "api.openai.com"

    def key(self) -> str:
        """The key from the environment, or a placeholder for a server that may well need none."""
        key = os.environ.get(KEY_VARIABLE, "").strip()
        if not key and self.is_openai:
            raise ModelError(
                f"{self.shown} needs a key: set {KEY_VARIABLE}, or give the base URL of a server of your own "
                f"(--base-url or {URL_VARIABLE})"
            )
        if not (key.isascii() and key.isprintable()):
            raise ModelError(f"{KEY_VARIABLE} holds characters that no key has; copy the key again")
        return key or NO_KEY

    def keys(self) -> list[str]:
        """The keys that the environment holds by now."""
        return [os.environ.get(KEY_VARIABLE, "").strip()]

    def known_secrets(self) -> list[str]:
        """Every spelling of a key or credential, the longest first."""
        return sorted({*self.secrets, *_spellings(self.keys())}, key=len, reverse=True)

    def scrub(self, text: str) -> str:
        """The text without the secrets, as far as they are known."""
        for secret in self.known_secrets():
            text = text.replace(secret, HIDDEN)
        return text

    def gives_away(self, text: str) -> bool:
        """Whether a model's words hold a secret: one that is long enough not to stand there by chance."""
        return any(len(secret) >= LEAST_SECRET_CHARS and secret in text for secret in self.known_secrets())

    def tidy(self, text: str) -> str:
        """A server's words as part of one sentence: scrubbed, on one line, short, and fit for any file."""
        line = " ".join(self.scrub(text).split()).encode(errors="replace").decode()
        return line if len(line) <= MAX_WORDS_CHARS else line[: MAX_WORDS_CHARS - 1] + "…"


def _shown_query(query: Mapping[str, str]) -> str:
    pairs = [f"{name}={value if name in _SHOWN_QUERY else HIDDEN}" for name, value in query.items()]
    return "?" + "&".join(pairs) if pairs else ""


def _spellings(secrets: Sequence[str]) -> tuple[str, ...]:
    ways: tuple[Callable[[str], str], ...] = (str, unquote, lambda s: quote(s, safe=""), quote_plus)
    return tuple(dict.fromkeys(way(secret) for secret in secrets if secret for way in ways))


def bounded(endpoint: Endpoint, limit_bytes: int) -> Callable[[Any], Coroutine[Any, Any, None]]:
    """A response hook of the HTTP client that stops reading a body beyond the limit, and takes it as UTF-8.

    The answer must come uncompressed, as was asked, since a small compressed body can hide an enormous one. A redirect
    ends the work: prompts, images and the key are for the server that was named.
    """
    import httpx2

    class BoundedStream(httpx2.AsyncByteStream):
        def __init__(self, stream: Any) -> None:
            self._stream = stream

        async def __aiter__(self) -> Any:
            size = 0
            async for chunk in self._stream:
                size += len(chunk)
                if size > limit_bytes:
                    raise BodyRefused(f"the answer is larger than {limit_bytes} bytes")
                yield chunk

        async def aclose(self) -> None:
            await self._stream.aclose()

    async def hook(response: Any) -> None:
        if response.has_redirect_location:
            raise ServerError(
                f"the server at {endpoint.shown} redirects to {endpoint.tidy(_target(response))}, where nothing was "
                "sent; if that is the server that you mean, name it as --base-url"
            )
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise BodyRefused("the answer is compressed, though an uncompressed one was asked for")
        response.encoding = "utf-8"  # whatever the server claims: some encodings that Python knows are no texts
        response.stream = BoundedStream(response.stream)

    return hook


def _target(response: Any) -> str:
    """Where a redirect leads, without what may be secret in it."""
    import httpx2

    try:
        target = response.request.url.join(response.headers["location"])
        return str(target.copy_with(query=None, fragment=None, userinfo=b""))
    except (ValueError, httpx2.InvalidURL):
        return "what is not an address"


@contextlib.contextmanager
def quiet_log(endpoint: Endpoint) -> Iterator[None]:
    """Keep secrets out of the HTTP client's log, which writes whole URLs."""

    def scrub(record: logging.LogRecord) -> bool:
        record.msg, record.args = endpoint.scrub(record.getMessage()), ()
        return True

    logger = logging.getLogger("httpx2")
    logger.addFilter(scrub)
    try:
        yield
    finally:
        logger.removeFilter(scrub)
