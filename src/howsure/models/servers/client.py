"""Asking a server: one client for one piece of work, faults told apart, retries counted.

Faults that pass are asked again, bounded, spread out and counted. What is left is a `Fault` with the server's words;
`raise_if_hopeless` raises where every other call would meet it too (wrong key, no such model, nobody listening). The
key is read from `OPENAI_API_KEY` at each piece of work, is never kept, and is cut out of whatever a server sends back.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import math
import os
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple, TypeVar

import msgspec

from howsure.errors import MissingCapability, ModelError, ServerError
from howsure.models.contract import Answer, Counters
from howsure.models.servers.endpoint import BodyRefused, Endpoint, bounded, check, quiet_log, server_words
from howsure.models.token_places import spells

MAX_CONNECT_S = 10.0

Send = Callable[[], Awaitable[Any]]
"""One request through the vendor's SDK, which gives the raw response."""

MAX_ASKED_WAIT_S = 60.0
"""A server may ask for a wait (`Retry-After`); longer than this is not waited for in one go."""

MAX_BACKOFF_S = 30.0

PASSING_STATUSES = frozenset({408, 409, 429})
"""Time-out, conflict, too many requests; and every status from 500 on."""

_T = TypeVar("_T")


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


# -- the client -------------------------------------------------------------------------------------------------------


def trusted_certificates() -> Any:
    """The certificates that this machine trusts, read once: that takes 20 ms and more, the rest of a client 1 ms."""
    return _certificates_as_told(*(os.environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR")))


@functools.lru_cache(maxsize=4)
def _certificates_as_told(*told: str | None) -> Any:
    import httpx2

    return httpx2.create_ssl_context()


class Reply(NamedTuple):
    """A decoded body, or the last `Fault` that kept it away; and how often it was asked for again."""

    body: Any
    retries: int

    @property
    def fault(self) -> Fault | None:
        return self.body if isinstance(self.body, Fault) else None


class ServerClient:
    """The way to one server. `timeout_s` bounds one attempt as a whole, `max_answer_bytes` the body of one answer."""

    def __init__(
        self,
        model: str,
        endpoint: Endpoint,
        counters: Counters,
        retry: RetryPolicy,
        timeout_s: float,
        max_answer_bytes: int,
    ) -> None:
        self.model = model
        self.endpoint = endpoint
        self.counters = counters
        self.retry = retry
        self.timeout_s = timeout_s
        self.max_answer_bytes = max_answer_bytes

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[Any]:
        """The vendor's client, closed at the end."""
        key = self.endpoint.key()
        import openai  # costs 0.6 s

        # Retries are ours, so that they are counted, and so that a broken body is retried too.
        timeout = openai.Timeout(self.timeout_s, connect=min(self.timeout_s, MAX_CONNECT_S))
        http_client = openai.DefaultAsyncHttpxClient(
            timeout=timeout,
            event_hooks={"response": [bounded(self.endpoint, self.max_answer_bytes)]},
            verify=trusted_certificates(),
            follow_redirects=False,
        )
        with quiet_log(self.endpoint):
            async with openai.AsyncOpenAI(
                api_key=key,
                base_url=self.endpoint.url,
                max_retries=0,
                timeout=timeout,
                default_headers={"Accept-Encoding": "identity", **self.endpoint.headers},
                default_query=self.endpoint.query,
                http_client=http_client,
            ) as client:
                yield client

    async def ask(self, send: Send, spread: int, mend: Callable[[Fault], bool] | None = None) -> Reply:
        """Ask until there is an answer or no hope of one; `spread` keeps calls apart that failed together.

        `mend` may change what `send` sends; where it says that it did, the call is made again and not counted.
        """
        retries, unreachable = 0, True
        while True:
            result = await self._attempt(send)
            if not isinstance(result, Fault):
                return Reply(result, retries)
            unreachable = unreachable and result.unreachable
            if mend is not None and mend(result):
                continue
            if not (result.passes and retries < self.retry.max_retries):
                reason = result.reason + (f", {retries + 1} attempts" if retries else "")
                return Reply(msgspec.structs.replace(result, reason=reason, unreachable=unreachable), retries)
            await asyncio.sleep(self.retry.wait_s(retries, spread, result.asked_wait_s))
            retries += 1

    async def _attempt(self, send: Send) -> Any:
        """The decoded body of an answer, or the `Fault` that kept it away."""
        import openai

        self.counters.calls += 1
        try:
            async with asyncio.timeout(self.timeout_s):
                raw = await send()
        except (TimeoutError, openai.APITimeoutError) as error:
            unreachable = type(error.__cause__).__name__ == "ConnectTimeout"
            return Fault(f"no answer within {self.timeout_s:g} s", passes=True, unreachable=unreachable)
        except openai.APIConnectionError as error:
            return self._broken_connection(error.__cause__)
        except openai.APIStatusError as error:
            return self._status_fault(error)
        except (BodyRefused, UnicodeEncodeError) as error:  # the latter for half a surrogate pair in a prompt
            return Fault(self.endpoint.tidy(str(error)))
        return self._decode(raw.content)

    def _broken_connection(self, cause: BaseException | None) -> Fault:
        kind = type(cause).__name__
        words = self.endpoint.tidy(str(cause)) or kind
        return Fault(f"the connection failed: {words}", passes=True, unreachable=kind == "ConnectError")

    def _status_fault(self, error: Any) -> Fault:
        words = self.endpoint.tidy(server_words(error.body)) or "no explanation"
        return Fault(
            f"HTTP {error.status_code}: {words}",
            passes=status_passes(error.status_code) and "insufficient_quota" not in (error.code, error.type),
            status=error.status_code,
            parameter=error.param if isinstance(error.param, str) else None,
            asked_wait_s=asked_wait_s(error.response.headers),
        )

    def _decode(self, body: bytes) -> Any:
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            start = self.endpoint.tidy(body[:300].decode("utf-8", errors="replace"))[:80]
            page = ", an HTML page: check the base URL" if start.startswith("<") else ""
            return Fault(f"the answer is not JSON{page}; it begins «{start}»", passes=True)

    def raise_if_hopeless(self, fault: Fault, api: str) -> None:
        """Raise for a fault that every other request to this API would meet too."""
        where, why = self.endpoint.shown, fault.reason
        if fault.unreachable:
            raise ServerError(
                f"no server answers at {where} ({why}); start it, or correct --base-url or OPENAI_BASE_URL"
            )
        if fault.status in (401, 403):
            raise ServerError(
                f"the server at {where} refuses the key for {self.model!r} ({why}); set OPENAI_API_KEY to "
                "one that may use this model"
            )
        if fault.status == 404:
            raise ServerError(
                f"the server at {where} has no model {self.model!r} or no {api} API at this address ({why}); "
                "check the model's name and the base URL, which mostly ends in /v1"
            )
        if fault.status == 429 and not fault.passes:
            raise ServerError(f"the account behind OPENAI_API_KEY has no quota left at {where} ({why})")

    def kept(self, answer: Answer) -> Answer:
        """The answer as it may be kept: not with the tokens of another text, and not at all with a key in it.

        A key is not cut out: what is left would be a text that no model wrote, beside tokens that still spell the key.
        """
        evidence = answer.logprobs
        if self.endpoint.gives_away(_everything(answer)):
            failure = (
                f"the server at {self.endpoint.shown} sent back the key that it was sent, or a credential, so nothing "
                "of its answer is kept"
            )
            return Answer(None, failure=failure, finish_reason=answer.finish_reason, retries=answer.retries)
        if evidence is None or spells(answer.text or "", evidence):
            return answer
        begin = self.endpoint.tidy(" ".join(map(repr, evidence.tokens[:6])))
        missing = f"the tokens that {self.endpoint.shown} gave do not spell its answer; they begin {begin}"
        return msgspec.structs.replace(answer, logprobs=None, logprobs_missing=missing, not_aligned=True)

    def unreadable(self, body: Any, error: Exception) -> str:
        """Why a body cannot be read: what it says itself went wrong, else where it is of another shape."""
        words = server_words(body.get("error")) if isinstance(body, dict) else ""
        return self.endpoint.tidy(words or str(error))


def _everything(answer: Answer) -> str:
    """All that a server wrote into an answer: its text, and its tokens however they are spelled."""
    evidence = answer.logprobs
    if evidence is None:
        return answer.text or ""
    parts = [answer.text or "", evidence.text, "".join(evidence.tokens)]
    if evidence.top is not None:
        known = evidence.top.token_bytes or ()
        parts += [*evidence.top.tokens, *(one.decode(errors="replace") for one in known if one is not None)]
    return "\n".join(parts)


def tokens_used(usage: Any, name: str = "total_tokens") -> int:
    """What an answer says it took; nothing where it says nothing that can be true."""
    count = usage.get(name) if isinstance(usage, dict) else None
    return count if type(count) is int and count > 0 else 0


def check_settings(
    *, concurrency: int, max_retries: int, timeout_s: float, backoff_s: float, max_answer_bytes: int
) -> None:
    """Raise in one sentence for a way of asking that cannot be."""
    check(concurrency >= 1, f"concurrency must be at least 1, not {concurrency}")
    check(max_retries >= 0, f"max_retries must not be negative, as {max_retries} is")
    check(0 < timeout_s < math.inf, f"timeout_s must be a positive number of seconds, not {timeout_s}")
    check(0 <= backoff_s < math.inf, f"backoff_s must be a number of seconds from 0 on, not {backoff_s}")
    check(max_answer_bytes >= 1, f"max_answer_bytes must be at least 1, not {max_answer_bytes}")


def check_probe(answer: Answer, name: str, probe: str, top_logprobs: int, remedy: str) -> None:
    """Raise in one sentence unless the answer to a probe came with the log-probabilities that were asked for."""
    if answer.failure is not None:
        raise ModelError(f"{name} failed {probe}: {answer.failure}")
    if answer.logprobs is None:
        raise MissingCapability(f"{name} failed {probe}: {answer.logprobs_missing}")
    first = answer.logprobs.top.row(0) if answer.logprobs.top and len(answer.logprobs) else []
    if not len(answer.logprobs) or (top_logprobs and not first):
        got = "log-probabilities without alternatives" if len(answer.logprobs) else "an empty answer"
        raise MissingCapability(f"{name} answered {probe} with {got}; {remedy}")


# -- asynchronous work from ordinary code -----------------------------------------------------------------------------


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
