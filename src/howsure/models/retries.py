"""Asking a server over the network: where it is, when to ask again, and what of it may be shown.

Retries are bounded, spread out, and only for faults that pass. Secrets (the key, credentials in the base URL)
are cut out of everything that a server says before it gets into a message. Nothing here knows a vendor's SDK.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import math
import os
import re
import zlib
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

import msgspec

from howsure.errors import InputError, ModelError

KEY_VARIABLE = "OPENAI_API_KEY"
URL_VARIABLE = "OPENAI_BASE_URL"
OPENAI_URL = "https://api.openai.com/v1"
MAX_WORDS_CHARS = 300
"""How much of a server's own words goes into a message."""

_NO_KEY = "no-key"
_HIDDEN = "***"
_SHOWN_QUERY = frozenset({"api-version"})
_T = TypeVar("_T")

MAX_ASKED_WAIT_S = 60.0
"""A server may ask for a wait (`Retry-After`); longer than this is not waited for in one go."""

MAX_BACKOFF_S = 30.0

PASSING_STATUSES = frozenset({408, 409, 429})
"""Time-out, conflict, too many requests; and every status from 500 on."""


class Fault(msgspec.Struct, frozen=True):
    """Why one attempt gave no answer."""

    reason: str
    passes: bool = False
    """Whether the same request may well succeed in a moment."""
    status: int | None = None
    parameter: str | None = None
    """The parameter of the request that the server objects to, where it names one."""
    asked_wait_s: float | None = None
    unreachable: bool = False
    """No connection came about at all, so that no other request would fare better."""


class BodyRefused(Exception):
    """A body that is not read to its end, because it is too large or compressed."""


class RetryPolicy(msgspec.Struct, frozen=True):
    """How often to ask again and how long to wait; the waits depend on nothing but the arguments."""

    max_retries: int
    backoff_s: float

    def wait_s(self, retry: int, spread: int, asked_s: float | None = None) -> float:
        """Seconds to wait before retry number `retry` (from 0), spread out over the calls numbered `spread`.

        Doubling, with a quarter of it left to chance, so that calls that failed together do not come back
        together. The wait that a server asks for is never shortened, unless it is beyond the limit.
        """
        chance = zlib.crc32(f"{spread}/{retry}".encode()) / 2**32
        if asked_s is not None:
            return asked_s + 0.25 * chance * min(self.backoff_s, MAX_BACKOFF_S)
        return min(self.backoff_s * 2.0 ** min(retry, 60), MAX_BACKOFF_S) * (0.75 + 0.25 * chance)


def status_passes(status: int) -> bool:
    return status in PASSING_STATUSES or status >= 500


def asked_wait_s(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """The wait that a server asks for by `Retry-After` (seconds or a date) or `retry-after-ms`, or None.

    >>> asked_wait_s({"retry-after": "2"}), asked_wait_s({"retry-after": "86400"}), asked_wait_s({})
    (2.0, 60.0, None)
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    seconds = _number(headers.get("retry-after")) if milliseconds is None else milliseconds / 1000
    if seconds is None:
        seconds = _seconds_until(headers.get("retry-after"), now or datetime.now(UTC))
    return min(seconds, MAX_ASKED_WAIT_S) if seconds is not None and seconds > 0 else None


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _seconds_until(text: str | None, now: datetime) -> float | None:
    try:
        date = parsedate_to_datetime(text or "")
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return ((date if date.tzinfo else date.replace(tzinfo=UTC)) - now).total_seconds()


def server_words(body: Any) -> str:
    """What a server says went wrong, out of the many forms of an error body."""
    if isinstance(body, dict):
        said = body.get("message") or body.get("detail") or body
        return said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
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
        given = (base_url or os.environ.get(URL_VARIABLE) or OPENAI_URL).strip()
        try:
            parts = urlsplit(given)
            parts.port  # noqa: B018  raises for a port that is no number
        except ValueError:
            raise InputError("the base URL cannot be read; it should look like http://127.0.0.1:8000/v1") from None
        userinfo, _, host = parts.netloc.rpartition("@")
        path = parts.path.rstrip("/")
        if parts.scheme not in ("http", "https") or not re.fullmatch(r"[\w.\-:\[\]]+", host) or not path.isprintable():
            raise InputError("the base URL must look like http://127.0.0.1:8000/v1: http or https, host, path")
        query = dict(parse_qsl(parts.query))
        bare = f"{parts.scheme}://{host}{path}"
        shown = f"{parts.scheme}://{_HIDDEN + '@' if userinfo else ''}{host}{path}{_shown_query(query)}"
        # In a header, credentials stay out of every log that writes URLs.
        basic = base64.b64encode(unquote(userinfo).encode()).decode()
        headers = {"Authorization": f"Basic {basic}"} if userinfo else {}
        hidden = [value for name, value in query.items() if name not in _SHOWN_QUERY]
        secrets = [basic, userinfo, *userinfo.partition(":")[::2], *hidden]
        return cls(bare, shown, headers, query, _spellings(secrets))

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
        return key or _NO_KEY

    def scrub(self, text: str) -> str:
        """The text without the secrets, as far as they are known."""
        key = os.environ.get(KEY_VARIABLE, "").strip()
        for secret in sorted({*self.secrets, *_spellings([key])}, key=len, reverse=True):
            text = text.replace(secret, _HIDDEN)
        return text

    def tidy(self, text: str) -> str:
        """A server's words as part of one sentence: scrubbed, on one line, short, and fit for any file."""
        line = " ".join(self.scrub(text).split()).encode(errors="replace").decode()
        return line if len(line) <= MAX_WORDS_CHARS else line[: MAX_WORDS_CHARS - 1] + "…"


def _shown_query(query: Mapping[str, str]) -> str:
    pairs = [f"{name}={value if name in _SHOWN_QUERY else _HIDDEN}" for name, value in query.items()]
    return "?" + "&".join(pairs) if pairs else ""


def _spellings(secrets: Sequence[str]) -> tuple[str, ...]:
    ways: tuple[Callable[[str], str], ...] = (str, unquote, lambda s: quote(s, safe=""), quote_plus)
    return tuple(dict.fromkeys(way(secret) for secret in secrets if secret for way in ways))


def bounded(limit_bytes: int) -> Callable[[Any], Coroutine[Any, Any, None]]:
    """A response hook of the HTTP client that stops reading a body beyond the limit, and takes it as UTF-8.

    The answer must come uncompressed, as was asked, since a small compressed body can hide an enormous one.
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
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise BodyRefused("the answer is compressed, though an uncompressed one was asked for")
        response.encoding = "utf-8"  # whatever the server claims: some encodings that Python knows are no texts
        response.stream = BoundedStream(response.stream)

    return hook


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


async def together(work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run all; the first that fails stops the others, and its error is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            for coroutine in work:
                group.create_task(coroutine)
    except ExceptionGroup as errors:
        first = errors.exceptions[0]
    else:
        return
    raise first


def run_to_end(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """`asyncio.run`, in a thread of its own where this one has an event loop already (a notebook)."""
    if not _in_event_loop():
        return asyncio.run(coroutine)
    cancel: list[Callable[[], Any]] = []

    async def main() -> _T:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        cancel.append(lambda: loop.call_soon_threadsafe(task.cancel))
        return await coroutine

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(asyncio.run, main())
        try:
            return future.result()
        except KeyboardInterrupt:
            for stop in cancel:
                stop()
            raise


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
